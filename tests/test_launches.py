"""Whole launches of the functional forms take no more clocks than recorded, by the simulator's timing model.

A change may make a loop better and its launches slower, which the guard of the loops lets pass.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packages" / "flydsl-kernels" / "bench"))

import launches  # noqa: E402  (a script of the bench folder)
from limits import binding, limits  # noqa: E402

from flydsl.kernels.target import current_arch, target  # noqa: E402
from flydsl.runtime.profiling.model import Timing  # noqa: E402

ARCH = current_arch()
SLOWER = 1.03  # times the clocks that a change may cost
CASES = list(launches.launches(target()))


@pytest.mark.parametrize("launch", CASES, ids=lambda launch: launch.label.replace(" ", "-"))
def test_no_launch_is_slower_than_recorded(launch):
    found = launches.measure(launch, target(), ARCH)
    assert found.clocks <= SLOWER * launches.recorded(ARCH)[launch.label]
    assert 0 < found.limits[found.binds] <= 1


def test_every_launch_is_recorded():
    assert sorted(launch.label for launch in CASES) == sorted(launches.recorded(ARCH))


def profile(groups, cycles, matrix, vector, moved):
    """Of a launch whose compute unit of two SIMDs was followed with two workgroups, and whose L2 gives 64 bytes a
    clock."""
    timing = Timing(cycles=cycles, microseconds=1.0, memory_cycles=cycles / 10, sample_cycles=cycles, sample_groups=2,
                    groups_per_cu=2, wave_cycles=cycles, simds=2, valu_busy=vector, matrix_busy=matrix, lds_busy=0,
                    l1_busy=0, matrix_flops=0, stall={})
    return SimpleNamespace(timing=timing, traffic=lambda: {"l2": moved},
                           raw={"grid": [groups, 1, 1], "machine": {"l2_bytes_per_clk": 64}})


def test_the_unit_that_binds_has_the_largest_share():
    """The middle of a launch is the difference of two: here 1000 clocks, in which each of eight workgroups moves 30 720
    bytes, so that two of them take 96 per cent of L2."""
    short, long = profile(8, 500, 300, 100, 1 << 20), profile(8, 1500, 1300, 500, (1 << 20) + 8 * 30720)
    found = limits(long, short)
    assert found == pytest.approx({"matrix unit": 0.5, "vector ALU": 0.2, "memory": 0.1, "L2": 0.96})
    assert binding(found) == "L2"
    assert limits(long, short, shared=True)["vector ALU"] == pytest.approx(0.7)
    whole = limits(profile(8, 1000, 1800, 200, 0), shared=True)
    assert (whole["matrix unit"], whole["vector ALU"], binding(whole)) == (0.9, 1.0, "vector ALU")
    assert binding(limits(profile(8, 1000, 1800, 0, 0), shared=True)) == "matrix unit"
