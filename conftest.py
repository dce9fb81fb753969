"""What test sessions share: what says the same on every architecture runs in one of the sessions that choose one."""

from __future__ import annotations

import os
import zlib

import pytest

ONE_ARCH = "gfx950"
SPREAD_OVER = ("gfx942", "gfx950", "gfx1201", "gfx1250")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what runs in the session of another architecture than ``ARCH``: the marks ``one_arch`` and ``spread``."""
    arch, full = os.environ.get("ARCH", ONE_ARCH), os.environ.get("FLYDSL_KERNELS_FULL", "") not in ("", "0")
    for item in items:
        if arch != ONE_ARCH and item.get_closest_marker("one_arch"):
            item.add_marker(pytest.mark.skip(reason=f"the same on every architecture: runs with ARCH={ONE_ARCH}"))
        spread = item.get_closest_marker("spread")
        if spread and not full:
            takers = spread.args or SPREAD_OVER
            # By its name, so that a choice of tests (-k) does not move a case to another architecture.
            turn = takers[zlib.crc32(item.name.encode()) % len(takers)]
            if arch in SPREAD_OVER and arch != turn:
                item.add_marker(pytest.mark.skip(reason=f"runs with ARCH={turn}, or with FLYDSL_KERNELS_FULL"))
