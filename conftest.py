"""What test sessions share: tests that say the same on every architecture run in one of the sessions that choose one."""

from __future__ import annotations

import os

import pytest

ONE_ARCH = "gfx950"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests with the mark ``one_arch`` where ``ARCH`` is another than the one whose session has them."""
    if os.environ.get("ARCH", ONE_ARCH) == ONE_ARCH:
        return
    for item in items:
        if item.get_closest_marker("one_arch"):
            item.add_marker(pytest.mark.skip(reason=f"the same on every architecture: runs with ARCH={ONE_ARCH}"))
