"""The LDS allocator of older kernels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

PRELUDE = """
import math
from flydsl.expr import arith, gpu, range_constexpr
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr
from flydsl.compiler.kernel_function import CompilationContext
from flydsl._mlir import ir

alloc = SmemAllocator(None, arch="gfx942", global_sym_name="red_smem")
OFF = alloc._align(alloc.ptr + 4, 16)
alloc.ptr = OFF + 64 * 4
"""
LAUNCH = """
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    alloc.finalized = False
    context = CompilationContext.get_current()
    with ir.InsertionPoint(context.gpu_module_body):
        alloc.finalize()
        alloc.finalize()
    k(X, Y, n).launch(grid=1, block=BLOCK)
"""


@pytest.fixture(autouse=True)
def no_deprecation_warning() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _run(load: Any, body: str, x: np.ndarray) -> np.ndarray:
    module = load(PRELUDE + "\n@flyc.kernel\ndef k(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):\n"
                  "    t = fx.thread_idx.x\n" + body + LAUNCH.replace("BLOCK", str(len(x))))
    y = np.full_like(x, -77)
    module.run(x, y, 40)
    return y


def test_reversal_through_lds(load: Any, device: None) -> None:
    x = np.arange(64, dtype=np.float32)
    body = """
    slots = SmemPtr(alloc.get_base(), OFF, fx.T.f32, shape=(64,))
    slots.store(X[t], [t])
    fx.barrier()
    Y[t] = fx.Float32(slots.load([63 - t]))
"""
    np.testing.assert_array_equal(_run(load, body, x), x[::-1])


def test_view_first_used_in_a_branch_is_made_again_outside(load: Any, device: None) -> None:
    x = np.arange(64, dtype=np.float32)
    body = """
    slots = SmemPtr(alloc.get_base(), OFF, fx.Float32, shape=(64,))
    if t < 32:
        slots.store(X[t], [t])
    slots._view_cache = None
    if t >= 32:
        slots.store(X[t] * 2.0, [t])
    fx.barrier()
    Y[t] = fx.Float32(slots.load([t]))
"""
    expected = np.where(x < 32, x, 2 * x)
    np.testing.assert_array_equal(_run(load, body, x), expected)
    np.testing.assert_array_equal(_run(load, body.replace("    slots._view_cache = None\n", ""), x), expected)


def test_block_sum_of_published_kernels(load: Any, device: None) -> None:
    x = np.random.default_rng(1).standard_normal(256).astype(np.float32)
    body = """
    slots = SmemPtr(alloc.get_base(), 0, fx.T.f32, shape=(4,))
    slots.get()

    def wave_sum(w, lanes=64):
        for s in range_constexpr(int(math.log2(lanes))):
            w = w.addf(w.shuffle_xor(lanes // (2 << s), lanes), fastmath=arith.FastMathFlags.fast)
        return w

    def block_sum(w, tid, slots, lanes=64, waves=4):
        lane, wave = tid % lanes, tid // lanes
        w = wave_sum(w, lanes)
        if lane == 0:
            SmemPtr.store(slots, w, [wave])
        gpu.barrier()
        if wave == 0:
            ok = lane < waves
            v = fx.Float32(SmemPtr.load(slots, [ok.select(lane, 0)]))
            v = wave_sum(ok.select(v, 0.0), lanes)
            if lane == 0:
                SmemPtr.store(slots, v, [0])
        gpu.barrier()
        return fx.Float32(SmemPtr.load(slots, [0]))

    Y[t] = block_sum(X[t], t, slots)
"""
    np.testing.assert_allclose(_run(load, body, x), np.full(256, x.sum()), rtol=1e-5)


def test_a_value_of_another_type_is_refused(load: Any, device: None) -> None:
    body = "    SmemPtr(alloc.get_base(), OFF, fx.T.f32, shape=(64,)).store(t, [t])\n"
    with pytest.raises(TypeError, match="i32.*f32"):
        _run(load, body, np.zeros(64, np.float32))


def test_helpers() -> None:
    from flydsl._mlir import ir
    from flydsl.expr import smem_allocator as smem

    with ir.Context():
        sizes = {"i8": 1, "f8E4M3FN": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8,
                 "vector<4xf16>": 8, "vector<8xf32>": 32, "index": 4}
        for text, size in sizes.items():
            assert smem.get_mlir_type_size(ir.Type.parse(text)) == size, text
        assert smem.get_mlir_type_align(ir.Type.parse("vector<8xf32>")) == 16
    smem.check_smem_capacity(65536, "gfx942")
    smem.check_smem_capacity(10**9, None if False else "gfx000")
    with pytest.raises(RuntimeError, match="65537.*gfx942.*65536"):
        smem.check_smem_capacity(65537, "gfx942")
    allocator = smem.SmemAllocator(None)
    assert (allocator.ptr, allocator.alignment, allocator.finalized, allocator.max_size) == (0, 128, False, 0)
    assert allocator._align(17, 16) == 32 and smem.SMEM_CAPACITY_MAP["gfx950"] == 163840


def test_one_deprecation_warning_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from flydsl.expr import smem_allocator as smem

    monkeypatch.setattr(smem, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        smem.SmemAllocator(None)
        smem.SmemAllocator(None)
    assert [w.category for w in caught] == [DeprecationWarning]
