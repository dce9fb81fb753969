"""Every test runs its kernels under the simulator's checks for accesses out of bounds and races.

``FLYDSL_KERNELS_CHECK`` names other checks, or none. Modules with ``COUNTERS = True`` count bytes and clocks instead.
"""

from __future__ import annotations

import os

import pytest

import flydsl.runtime as rt

ONE_ARCH = "gfx950"
CHECKS = os.environ.get("FLYDSL_KERNELS_CHECK", "oob,race")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Protocols of ranks, graphs of torch and the like are tested in one of the sessions of architectures."""
    if os.environ.get("ARCH", ONE_ARCH) == ONE_ARCH:
        return
    for item in items:
        if item.get_closest_marker("one_arch"):
            item.add_marker(pytest.mark.skip(reason=f"the same on every architecture: runs with ARCH={ONE_ARCH}"))


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
