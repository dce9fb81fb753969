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
        if item.get_closest_marker("one_arch"):
            if arch != ONE_ARCH:
                item.add_marker(pytest.mark.skip(reason=f"the same on every architecture: runs with ARCH={ONE_ARCH}"))
        elif not full:
            takers = _takers(item, arch)
            # By its name, so that a choice of tests (-k) does not move a case to another architecture.
            turn = takers[hashlib.sha256(item.name.encode()).digest()[0] % len(takers)] if takers else arch
            if turn != arch:
                item.add_marker(pytest.mark.skip(reason=f"runs with ARCH={turn}, or with FLYDSL_KERNELS_FULL"))


def _takers(item: pytest.Item, arch: str) -> list[str]:
    """The architectures that a test takes turns with, of those that it needs; none if it runs wherever it can."""
    if arch not in SPREAD_OVER:
        return []
    able = [a for a in SPREAD_OVER if all(a.startswith(mark.args) for mark in item.iter_markers("needs"))]
    if spread := item.get_closest_marker("spread"):
        return [a for a in able if a in (spread.args or SPREAD_OVER)]
    if item.get_closest_marker("each_wave_size"):
        return [a for a in able if any(arch in pair and a in pair for pair in OF_WAVE_SIZES)]
    return []
