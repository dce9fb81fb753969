"""`fx.copy(..., bounds=...)` and buffer tensors: what lies beyond an edge is loaded as zero and not stored."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.ir
from flydsl.tracing.diagnostics import DSLCompileError

sys.path.insert(0, str(Path(__file__).parent))
from copy_programs import packed, poisoned, run_tile, small, tile_copy, values  # noqa: E402

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("space", ["global", "buffer"])
@pytest.mark.parametrize("shape", [(45, 37), (1, 1), (33, 40)])
def test_bounds(space: str, shape: tuple[int, int]) -> None:
    """The copy of the aligned tile plus one argument; nothing around the matrix changes."""
    data = values(shape, np.float16, 5)
    around = np.full((shape[0] + 2, shape[1] + 2), -1, np.float16)
    out = around[1:-1, 1:-1]
    changes = small(space=space, element="f16", bits=128, block=(1, 8), tile=(32, 32))
    run_tile(data, out, shape, **changes, bounds=True)
    np.testing.assert_array_equal(out, data)
    out[...] = -1
    assert (around == -1).all()


def test_bounds_of_a_part() -> None:
    data, out = values((32, 32), np.float32, 6), poisoned((32, 32), np.float32)
    run_tile(data, out, data.shape, **small(tile=(32, 32)), bounds=(13, None))
    np.testing.assert_array_equal(out[:13], data[:13])
    assert (out[13:] == -1).all()


def test_bounds_take_no_branch_through_buffers() -> None:
    """The hardware leaves out what is masked: nothing but the end of the program follows another way."""
    branches = {}
    for space in ("global", "buffer"):
        a, b = values((45, 37), np.float32, 7), poisoned((45, 37), np.float32)
        compiled = flyc.compile(tile_copy, a, b, 3, 3, space, 32, "f32", (16, 4), (1, 1), (16, 16), (True,))
        code = flydsl.ir.disassemble(compiled.artifact.hsaco)
        branches[space] = code.count("s_cbranch_exec") + code.count("saveexec")
    assert branches["buffer"] == 0 < branches["global"]


def access_bits(a: Any, b: Any, bounds: Any) -> set[int]:
    """Widths of the buffer accesses of a copy of float16 values whose atom moves 128 bits."""
    compiled = flyc.compile(tile_copy, a, b, 2, 2, "buffer", 128, "f16", (16, 4), (1, 8), (32, 32), packed(bounds))
    names = re.findall(r"buffer_(?:load|store)_(\w+)", flydsl.ir.disassemble(compiled.artifact.hsaco))
    words = {"dword": 32, "dwordx2": 64, "dwordx4": 128, "ushort": 16, "short": 16, "b32": 32, "b64": 64, "b128": 128,
             "u16": 16, "b16": 16, "d16_b16": 16, "short_d16": 16}
    return {words[name] for name in names}


def test_bounds_narrow_as_far_as_an_edge_may_split() -> None:
    """A limit that is known to be a multiple of the access keeps its width; so does an axis without a limit."""
    a, b = np.ones((45, 40), np.float16), np.ones((45, 36), np.float16)
    static = flyc.from_dlpack
    dynamic = lambda x: static(x).mark_layout_dynamic(divisibility=8).mark_shape_dynamic(1, 8)  # noqa: E731
    assert access_bits(static(a), static(a), True) == {128}
    assert access_bits(dynamic(a), dynamic(a), True) == {128}
    assert access_bits(static(b), static(b), True) == {64}
    assert access_bits(a, a, (45, None)) == {128}
    assert access_bits(a, a, True) == {16}


@pytest.mark.parametrize("bounds, message", [
    ((4,), "bounds has 1 entries, but the tensor .* has 2 modes"), ((4, 4, 4), "bounds has 3 entries"),
])
def test_bounds_of_another_rank(bounds: Any, message: str) -> None:
    data = values((16, 16), np.float32, 8)
    with pytest.raises((DSLCompileError, ValueError), match=message):
        run_tile(data, data.copy(), data.shape, **small(), bounds=bounds)


def test_bounds_need_a_resource_with_a_size(run: Any) -> None:
    body = """
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    x = fx.rocdl.make_buffer_tensor(X, max_size=True)
    r = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy(atom, fx.logical_divide(x, (1,))[(None, t)], r, bounds=n)
    Y[t] = r[0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="buffer tensor that knows its size"):
        run(body)
    got = run(body.replace(", max_size=True", ""), n=40)
    np.testing.assert_array_equal(got, np.where(np.arange(64) < 40, np.arange(64), 0))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
def test_buffer_tensors_end_with_their_last_element(run: Any, dtype: Any) -> None:
    """Also where that is half of a word."""
    name = {np.float16: "Float16", np.int8: "Int8", np.float32: "Float32"}[dtype]
    body = f"""
    x, y = fx.rocdl.make_buffer_tensor(X), fx.rocdl.make_buffer_tensor(Y)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(fx.{name}.width), fx.{name})
    r = fx.make_rmem_tensor(1, fx.{name})
    fx.copy(atom, fx.logical_divide(x, (1,))[None, t], r)
    fx.copy(atom, r, fx.logical_divide(y, (1,))[None, t])
    """
    whole, out = np.arange(1, 65).astype(dtype), np.full(64, -1, dtype)
    run(body, x=whole[:37], y=out)
    np.testing.assert_array_equal(out[:37], whole[:37])
    # Beyond the end of the source nothing is read: the destination gets zeros.
    np.testing.assert_array_equal(out[37:], 0)


def test_bounds_know_no_offset_of_the_atom(run: Any) -> None:
    body = """
    x = fx.rocdl.make_buffer_tensor(fx.make_view(fx.get_iter(X), fx.make_layout((4, 16), (16, 1))))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    r = fx.make_rmem_tensor((1, 1), fx.Float32)
    fx.copy(atom, fx.logical_divide(x, (1, 1))[((None, t // 8), (None, t % 8))], r, soffset=8, bounds=BOUNDS)
    Y[t] = r[0, 0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="give None for the mode along which it moves"):
        run(body.replace("BOUNDS", "True"), block=32)
    got = run(body.replace("BOUNDS", "(3, None)"), block=32, x=np.arange(64, dtype=np.float32))
    rows = np.arange(64, dtype=np.float32).reshape(4, 16)[:, 8:]
    np.testing.assert_array_equal(got.reshape(4, 8), np.where(np.arange(4)[:, None] < 3, rows, 0))


def test_bounds_need_a_view_cut_here(run: Any) -> None:
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    parts = fx.logical_divide(X, (1,))
    part = parts[None, t]
    if n > 3:
        part = parts[None, t + 1]
    r = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy(atom, part, r, bounds=True)
    Y[t] = r[0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="comes from scf.if: carry indices instead"):
        run(body)
