"""What test sessions share: what says the same on every architecture runs in one of the sessions that choose one."""

from __future__ import annotations

import hashlib
import os

import pytest

ONE_ARCH = "gfx950"
SPREAD_OVER = ("gfx942", "gfx950", "gfx1201", "gfx1250")
OF_WAVE_SIZES = ("gfx942", "gfx950"), ("gfx1201", "gfx1250")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what runs in the session of another architecture than ``ARCH``: the marks ``one_arch``, ``spread`` and
    ``each_wave_size``, of which the first that a test has counts."""
    arch, full = os.environ.get("ARCH", ONE_ARCH), os.environ.get("FLYDSL_KERNELS_FULL", "") not in ("", "0")
    for item in items:
        spread = item.get_closest_marker("spread")
        if item.get_closest_marker("one_arch"):
            if arch != ONE_ARCH:
                item.add_marker(pytest.mark.skip(reason=f"the same on every architecture: runs with ARCH={ONE_ARCH}"))
            continue
        takers: tuple[str, ...] = ()
        if spread:
            takers = spread.args or SPREAD_OVER
        elif item.get_closest_marker("each_wave_size"):
            takers = next((pair for pair in OF_WAVE_SIZES if arch in pair), ())
        if takers and not full:
            # By its name, so that a choice of tests (-k) does not move a case to another architecture.
            turn = takers[hashlib.sha256(item.name.encode()).digest()[0] % len(takers)]
            if arch in SPREAD_OVER and arch != turn:
                item.add_marker(pytest.mark.skip(reason=f"runs with ARCH={turn}, or with FLYDSL_KERNELS_FULL"))
