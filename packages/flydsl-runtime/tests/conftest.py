"""Fixtures: the test process uses a recording HIP library, other libraries are tried in subprocesses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

from runtime_fake_hip import FakeHip, build_fake_hip  # noqa: E402

#: Variables that choose library and architecture; a test sets what it needs.
CHOICES = (
    "ARCH",
    "FLYDSL_GPU_ARCH",
    "FLYDSL_HIP_LIBRARY",
    "FLYDSL_RUNTIME_KIND",
    "FLYDSL_SIM_ARCH",
    "HSA_OVERRIDE_GFX_VERSION",
)


# For a module, not for the package: these folders have no __init__.py, so pytest would end a fixture "of the package"
# with the session, and tests of other packages in the same process would launch on the recording library.
@pytest.fixture(scope="module", autouse=True)
def fake_library() -> Iterator[Path]:
    """Make the recording library the one in use, as a simulator: NumPy arrays are device memory."""
    from flydsl.runtime import _native

    path = build_fake_hip("FAKE_HIP_SIMULATOR", "FAKE_HIP_CLUSTER")
    _native.load_library(str(path), "", "gfx942", False)
    yield path
    _native.forget_library()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in CHOICES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def fake_hip(fake_library: Path) -> Iterator[FakeHip]:
    """The recording library with an empty log."""
    library = FakeHip(fake_library)
    library.clear()
    yield library
    library.clear()


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code (which can import these tests' helpers) in a new process with more variables."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        python_path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        merged = {**os.environ, "PYTHONPATH": python_path, **environment}
        return subprocess.run([sys.executable, "-c", code], env=merged, capture_output=True, text=True, timeout=300)

    return run
