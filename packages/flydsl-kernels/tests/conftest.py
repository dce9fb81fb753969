"""Every test runs its kernels under the simulator's checks for accesses out of bounds and races.

``FLYDSL_KERNELS_CHECK`` names other checks, or none. Modules with ``COUNTERS = True`` count bytes and clocks instead.
"""

from __future__ import annotations

import os

import pytest

import flydsl.runtime as rt
from flydsl.kernels.target import current_arch

CHECKS = os.environ.get("FLYDSL_KERNELS_CHECK", "oob,race")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The mark ``needs(*archs)``: skip unless the current architecture starts with one of these."""
    for mark in item.iter_markers("needs"):
        if not current_arch().startswith(mark.args):
            pytest.skip(f"needs {' or '.join(mark.args)}")


@pytest.fixture(autouse=True)
def checked_launches(request: pytest.FixtureRequest):
    """Fail the test if a check found something in one of its launches."""
    if not CHECKS or rt.kind() != "sim" or getattr(request.module, "COUNTERS", False):
        yield
        return
    with rt.checked(CHECKS) as report:
        yield
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))


@pytest.fixture
def whole_blocks(monkeypatch: pytest.MonkeyPatch):
    """Products of experts have blocks of as many rows as an expert has and all columns of their tiles, which larger
    problems fill a device with."""
    monkeypatch.setattr("flydsl.kernels.moe.tuned.filling_block", lambda target, quant, block, *_: block)
    monkeypatch.setattr("flydsl.kernels.moe.tuned.filling_tile", lambda target, quant, tile, *_: tile)
