"""Wide copies of swizzled views at any offset: an access that a swizzle may take apart moves single elements."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime import disasm

#: Views of 4 values each: shape and strides, "n" for one that is known at run time only.
VIEWS = {
    "rows": ((4, 64), (1, 4)), "overlapping": ((4, 64), (1, 1)), "odd": ((4, 64), (1, 5)),
    "dynamic": ((4, 64), (1, "n")), "two modes": ((4, 8, 8), (1, 4, "n")),
    "dynamic step": ((4, 64), ("n", 4)),
}


@flyc.kernel
def copy_kernel(A: fx.Tensor, B: fx.Tensor, n: fx.Int32, name: fx.Constexpr[str], store: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    memory = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 1024, 16]).peek()
    swizzle = fx.static(fx.SwizzleType.get(2, 2, 3))
    whole = memory.view(fx.make_composed_layout(swizzle, fx.make_layout(1024, 1)))
    shape, stride = VIEWS[name]
    layout = fx.make_layout(shape, tuple(n if s == "n" else s for s in stride))
    view = fx.make_view(memory.ptr, fx.make_composed_layout(swizzle, layout))
    part = view[None, t % 8, t // 8] if len(shape) == 3 else view[None, t]
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    registers = fx.make_rmem_tensor(4, fx.Float32)
    if fx.const_expr(store):
        for i in fx.range_constexpr(4):
            registers[i] = A[4 * t + i]
        fx.copy(atom, registers, part)
        fx.barrier()
        for i in fx.range_constexpr(16):
            B[64 * i + t] = whole[64 * i + t]
    else:
        for i in fx.range_constexpr(16):
            whole[64 * i + t] = A[64 * i + t]
        fx.barrier()
        fx.copy(atom, part, registers)
        for i in fx.range_constexpr(4):
            B[4 * t + i] = registers[i]


@flyc.jit
def copy(A: fx.Tensor, B: fx.Tensor, n: fx.Int32, name: fx.Constexpr[str], store: fx.Constexpr[bool]):
    copy_kernel(A, B, n, name, store).launch(grid=1, block=64)


def places(name: str, n: int) -> np.ndarray:
    """The position of every thread's values."""
    shape, stride = VIEWS[name]
    strides = [n if s == "n" else s for s in stride]
    t = np.arange(64)[:, None]
    parts = [t % 8, t // 8] if len(shape) == 3 else [t]
    return np.arange(4)[None] * strides[0] + sum(part * step for part, step in zip(parts, strides[1:], strict=True))


@pytest.mark.parametrize("n", [4, 5, 33, 36])
@pytest.mark.parametrize("name", VIEWS)
def test_loads(name: str, n: int) -> None:
    if "n" not in VIEWS[name][1] and n > 4 or places(name, n).max() >= 1024:
        pytest.skip("the same view, or one that leaves its memory")
    a, b = np.arange(1, 1025).astype(np.float32), np.zeros(256, np.float32)
    copy(a, b, n, name, False)
    np.testing.assert_array_equal(b.reshape(64, 4), a[places(name, n)])


@pytest.mark.parametrize(("name", "n"), [("rows", 4), ("odd", 4), ("dynamic", 5), ("dynamic", 4), ("two modes", 33),
                                         ("dynamic step", 257)])
def test_stores(name: str, n: int) -> None:
    a, b = np.arange(1, 257).astype(np.float32), np.zeros(1024, np.float32)
    copy(a, b, n, name, True)
    np.testing.assert_array_equal(b[places(name, n)], a.reshape(64, 4))


@pytest.mark.parametrize(("name", "wide"), [("rows", True), ("odd", False), ("dynamic", False)])
def test_only_what_may_be_taken_apart_is_narrowed(name: str, wide: bool) -> None:
    a: Any = np.zeros(1024, np.float32)
    text = str(disasm(flyc.compile(copy, a, a[:256], 4, name, False).artifact.hsaco))
    assert bool(re.search(r"ds_(read|load)_b128", text)) == wide
