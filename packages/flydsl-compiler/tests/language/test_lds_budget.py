"""LDS use above the target's limit is an error before code generation, with the allocating lines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

SOURCE = """
@fx.struct
class Tiles:
    a: fx.Array[fx.Float32, N]
    b: fx.Array[fx.Float32, 8192]

@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    tiles = fx.SharedAllocator(static=STATIC).allocate(Tiles).peek()
    tiles.a[t] = X[t]
    if USE_B:
        tiles.b[t] = X[t]
    fx.barrier()
    Y[t] = tiles.a[63 - t]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64, smem=SMEM)
"""


def _run(load: Any, n: int, static: bool = True, smem: Any = None, use_b: bool = True) -> np.ndarray:
    text = SOURCE.replace("STATIC", str(static)).replace("SMEM", str(smem)).replace("USE_B", str(use_b))
    x, y = np.arange(64, dtype=np.float32), np.full(64, np.nan, np.float32)
    load(text.replace("Float32, N", f"Float32, {n}")).run(x, y)
    return y


def test_the_limit_itself_fits(load: Any, device: None) -> None:
    np.testing.assert_array_equal(_run(load, 8192), np.arange(63, -1, -1))


@pytest.fixture
def gfx942(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", "gfx942")
    monkeypatch.setenv("COMPILE_ONLY", "1")


@pytest.mark.parametrize("static", [True, False])
def test_more_than_the_limit(load: Any, gfx942: None, static: bool) -> None:
    with pytest.raises(RuntimeError, match=r"k_0.*needs 65552 bytes.*gfx942 has 65536") as info:
        _run(load, 8196, static)
    if static:
        text = str(info.value)
        assert "32784 bytes allocated here" in text and "32768 bytes allocated here" in text
        assert "tiles = fx.SharedAllocator" in text


def test_static_and_dynamic_memory_add_up(load: Any, gfx942: None) -> None:
    with pytest.raises(RuntimeError, match=r"needs 66560 bytes .*65536 allocated in the kernel and 1024 dynamic"):
        _run(load, 8192, smem=1024)


def test_unused_fields_need_no_memory(load: Any, device: None) -> None:
    np.testing.assert_array_equal(_run(load, 16384, use_b=False), np.arange(63, -1, -1))


def test_the_limit_is_that_of_the_target(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILE_ONLY", "1")
    monkeypatch.setenv("ARCH", "gfx950")
    _run(load, 20000)
    monkeypatch.setenv("ARCH", "gfx1201")
    with pytest.raises(RuntimeError, match="gfx1201 has 65536"):
        _run(load, 20000)


def test_older_allocator(load: Any, gfx942: None) -> None:
    text = """
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr
from flydsl.compiler.kernel_function import CompilationContext
from flydsl._mlir import ir
alloc = SmemAllocator(None)
alloc.ptr = 70000

@flyc.kernel
def k(X: fx.Tensor):
    SmemPtr(alloc.get_base(), 0, fx.T.f32, shape=(64,)).store(X[0], [0])

@flyc.jit
def run(X: fx.Tensor):
    alloc.finalized = False
    k(X).launch(grid=1, block=64)
    with ir.InsertionPoint(CompilationContext.get_current().gpu_module_body):
        alloc.finalize()
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(RuntimeError, match="needs 70016 bytes"):
            load(text).run(np.zeros(64, np.float32))
