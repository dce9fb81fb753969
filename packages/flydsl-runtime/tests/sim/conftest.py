"""Fixtures of the simulator's own tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # hiplib.py, however pytest imports this file

from hiplib import LLVM, Sim, find_library, have_toolchain  # noqa: E402


@pytest.fixture(scope="session")
def sim() -> Sim:
    """The simulator library; skips when it is not built."""
    path = find_library()
    if path is None:
        pytest.skip("simulator library not built (set FLYDSL_SIM_LIB or PYTHONPATH)")
    return Sim(path)


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Directory for compiled kernels; skips without LLVM's AMDGPU tools."""
    if not have_toolchain():
        pytest.skip(f"no LLVM AMDGPU toolchain in {LLVM}")
    return str(tmp_path_factory.mktemp("kernels"))
