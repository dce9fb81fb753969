"""The tuned tiles of the GEMMs, and two of experts: how busy their hot loops keep the matrix unit, by two models, and
no spills.

Both figures are static: LLVM's machine model and the simulator's timing model look at the code of the loop, for one
wave whose accesses hit the nearest cache. Tiles of few rows are held to their share of the memory's bandwidth in a
launch. With ``FLYDSL_KERNELS_FULL`` every tile of the tables is looked at.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "packages" / "flydsl-kernels" / "bench"), str(ROOT / "tools" / "bench")]

import attention  # noqa: E402  (scripts of the bench folders)
import hot_loops  # noqa: E402
import hotloop  # noqa: E402
import loops_page  # noqa: E402

from flydsl.ir import get_arch  # noqa: E402
from flydsl.kernels.target import current_arch, target  # noqa: E402

ARCH = current_arch()
FULL = os.environ.get("FLYDSL_KERNELS_FULL", "") not in ("", "0")  # all tiles: minutes instead of seconds
LARGE = list(hot_loops.tuned_loops(target()))
ALL = list(hot_loops.tuned_loops(target(), every=True))
FEW = min(ALL, key=lambda loop: (loop.m, -loop.k))
#: With weights as they are, and converted in registers.
EXPERTS = [loop for loop in hot_loops.expert_loops(target())
           if loop.name in ("experts gate and up none", "experts gate and up a16w4")]
EVERY = [*(ALL if FULL else [*LARGE, FEW]), *EXPERTS]
ATTENTION = [loop for loop in attention.steady_loops(target()) if FULL or loop.label.endswith("bf16 128")]
WORSE = 1.0  # per cent of the matrix unit's time, or of the memory's, that a change may cost


def name(loop):
    return loop.label.replace(" ", "-")


@pytest.fixture(scope="module")
def figures():
    """What was measured, by kernel: large tiles are in both tests."""
    return {}


def measured(figures, loop):
    if loop.label not in figures:
        figures[loop.label] = hot_loops.measure(loop, target(), ARCH, launch=False)
    return figures[loop.label]


@pytest.mark.parametrize("loop", LARGE, ids=name)
def test_tuned_tile_keeps_the_matrix_unit_busy(loop, figures):
    found = measured(figures, loop)
    assert found.spills == 0
    assert found.loop >= hot_loops.BUSY
    if ARCH.startswith("gfx9"):  # LLVM has no model of the matrix unit of gfx12
        if shutil.which(hotloop.MCA) is None:
            pytest.skip(f"needs {hotloop.MCA}")
        assert found.mca >= hot_loops.BUSY


@pytest.mark.parametrize("loop", EVERY, ids=name)
def test_no_loop_is_worse_than_recorded(loop, figures):
    """Tiles for few rows keep the matrix unit less busy, and have a share of the memory's bandwidth to keep."""
    found, before = measured(figures, loop), hot_loops.recorded(ARCH)[loop.label]
    assert found.spills == 0
    assert 100 * found.loop >= before["loop"] - WORSE
    assert found.loop <= 1 and found.vgpr <= get_arch(ARCH).vgprs_per_wave
    if loop.streams:
        assert before["memory"] - WORSE <= 100 * found.memory <= 100


@pytest.mark.parametrize("loop", ATTENTION, ids=name)
def test_no_loop_of_attention_is_worse_than_recorded(loop):
    """These are the steady state of launches, in which workgroups fill each other's gaps."""
    found, before = attention.steady_state(loop, target(), ARCH), hot_loops.recorded(ARCH)[loop.label]
    assert before["loop"] - WORSE <= 100 * found.loop <= 100
    assert found.spills <= before.get("spills", 0) and found.vgpr <= 1024


def test_the_page_lists_what_is_recorded():
    """Every loop below 90 per cent, with what it waits for."""
    records = json.loads(hot_loops.RECORD.read_text())
    assert loops_page.PAGE.read_text() == loops_page.page(records)
    for name, table in loops_page.TABLES.items():
        assert table(records) in (loops_page.FOLDER / name).read_text(), f"{name}: run bench/loops_page.py"
    of_launches = {loop.label for loop in attention.steady_loops(target())}
    low = {name: found for name, found in hot_loops.recorded(ARCH).items() if found["loop"] < 100 * hot_loops.BUSY}
    assert {name for name, found in low.items() if not found.get("lost")} <= of_launches


def test_every_tile_is_recorded():
    assert {loop.label for loop in ALL if loop.streams} == {
        name for name, found in hot_loops.recorded(ARCH).items() if "memory" in found}
    loops = [*ALL, *hot_loops.expert_loops(target(), every=True)]
    labels = [loop.label for loop in (*loops, *attention.steady_loops(target()))]
    assert len(set(labels)) == len(labels)
    assert sorted(labels) == sorted(hot_loops.recorded(ARCH))
