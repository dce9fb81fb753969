"""Fixtures: a context and an insertion point in an empty module, and a device of another architecture."""

import ctypes

import pytest

from flydsl._mlir import ir


@pytest.fixture
def ctx():
    """A current context with a current unknown location."""
    with ir.Context() as context, ir.Location.unknown():
        yield context


@pytest.fixture
def module(ctx):
    """An empty module whose body is the current insertion point."""
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        yield module


@pytest.fixture
def gfx1250():
    """The HIP library, as a gfx1250 device."""
    runtime = pytest.importorskip("flydsl.runtime", reason="needs flydsl-runtime for a device")
    library = ctypes.CDLL(str(runtime.library_path()))
    if not hasattr(library, "flysimSetArch"):
        pytest.skip("no simulator of gfx1250")
    before = runtime.device_info().arch
    assert library.flysimSetArch(b"gfx1250") == 0
    yield library
    library.flysimSetArch(before.encode())
