"""The tuned tiles of the GEMMs: how busy their hot loops keep the matrix unit, by two models, and no spills.

Both figures are static: LLVM's machine model and the simulator's timing model look at the code of the loop, for one
wave whose accesses hit the nearest cache. With ``FLYDSL_KERNELS_FULL`` every tile of the tables is looked at.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "packages" / "flydsl-kernels" / "bench"), str(ROOT / "tools" / "bench")]

import hot_loops  # noqa: E402  (scripts of the bench folders)
import hotloop  # noqa: E402

from flydsl.kernels.target import current_arch, target  # noqa: E402

ARCH = current_arch()
LEAST = 0.90
#: On gfx12 a vector instruction takes the place of a matrix instruction, and operands that are not consecutive in k are
#: turned around with them.
LEAST_TURNED = {"gfx1201": 0.88}

FULL = os.environ.get("FLYDSL_KERNELS_FULL", "") not in ("", "0")  # all tiles: minutes instead of seconds
LARGE = [] if ARCH == "gfx1250" else list(hot_loops.tuned_loops(target()))  # gfx1250 is bound by LDS: see the record
EVERY = list(hot_loops.tuned_loops(target(), every=True)) if FULL else list(hot_loops.tuned_loops(target()))
WORSE = 1.0  # per cent of the matrix unit's time that a change may cost


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
    turned = not any(kind in loop.label for kind in ("preshuffle", "scale", " nt "))
    least = LEAST_TURNED.get(ARCH, LEAST) if turned else LEAST
    assert found.loop >= least
    if ARCH.startswith("gfx9"):  # LLVM has no model of the matrix unit of gfx12
        if shutil.which(hotloop.MCA) is None:
            pytest.skip(f"needs {hotloop.MCA}")
        assert found.mca >= least


@pytest.mark.parametrize("loop", EVERY, ids=name)
def test_no_loop_is_worse_than_recorded(loop, figures):
    """Tiles for few rows are bound by memory and keep the matrix unit less busy: each has its own figure."""
    found, before = measured(figures, loop), hot_loops.recorded(ARCH)[loop.label]
    assert found.spills == 0
    assert 100 * found.loop >= before["loop"] - WORSE
    assert found.loop <= 1 and found.vgpr <= 512


def test_every_tile_is_recorded():
    labels = [loop.label for loop in hot_loops.tuned_loops(target(), every=True)]
    assert len(set(labels)) == len(labels)
    assert sorted(labels) == sorted(hot_loops.recorded(ARCH))
