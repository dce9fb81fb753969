"""Composites in memory: arrays of structs, vectors and pointers as fields, empty structs, unions, methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.tracing.protocol import dsl_align_of, dsl_size_of

X = np.arange(64, dtype=np.float32)


def test_sizes() -> None:
    pair = fx.Struct["a" : fx.Int8, "b" : fx.Float32]
    assert (dsl_size_of(pair), dsl_align_of(pair)) == (8, 4)
    assert (dsl_size_of(fx.Array[pair, 3]), dsl_align_of(fx.Array[pair, 3])) == (24, 4)
    assert (dsl_size_of(fx.Float32x4), dsl_align_of(fx.Float32x4)) == (16, 4)
    assert dsl_size_of(fx.Vector[fx.Float16, 8]) == 16 and fx.Vector[fx.Float16, 8] is fx.Float16x8
    assert (dsl_size_of(fx.Empty), dsl_align_of(fx.Empty)) == (0, 1)
    assert dsl_size_of(fx.Pointer[fx.Float32]) == 8
    assert dsl_size_of(fx.Pointer[fx.Float32, fx.AddressSpace.Shared, 16]) == 4
    with pytest.raises(TypeError, match="Numeric class"):
        fx.Pointer[int]
    with pytest.raises(ValueError, match="multiple of 4"):
        fx.Pointer[fx.Float32, fx.AddressSpace.Global, 6]
    with pytest.raises(ValueError, match="Register"):
        fx.Pointer[fx.Float32, fx.AddressSpace.Register]
    with pytest.raises(TypeError, match="Array elements"):
        fx.Array[int, 3]


def test_array_of_structs_in_lds(run: Any) -> None:
    body = """
    @fx.struct
    class Item:
        key: fx.Int8
        value: fx.Float32

        def scaled(self, by):
            return self.value * by

    items = fx.SharedAllocator().allocate(fx.Array[Item, 64]).peek()
    items[t] = Item(t, X[t] * 2.0)
    fx.barrier()
    other = items[63 - t]
    Y[t] = other.scaled(10.0) + other.key.to(fx.Float32)
    """
    np.testing.assert_array_equal(run(body), (63 - X) * 20 + (63 - X))


def test_vector_and_pointer_fields(run: Any) -> None:
    body = """
    @fx.struct
    class Row:
        data: fx.Float32x4
        place: fx.Pointer[fx.Float32]

    rows = fx.SharedAllocator().allocate(fx.Array[Row, 64])
    table = rows.peek()
    table[t] = Row(fx.Float32x4([X[t], 1.0, 2.0, 3.0]), fx.get_iter(Y) + t)
    fx.barrier()
    row = table[63 - t]
    row.place.store(row.data[0] + row.data[3])
    """
    np.testing.assert_array_equal(run(body), X + 3)


def test_last_vector_of_an_array_of_odd_size(run: Any) -> None:
    out = run("""
    odd = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 19, 16]).peek().ptr
    if t < 19:
        odd[t] = X[t].to(fx.Float16)
    fx.barrier()
    Y[t] = fx.make_view(odd + 16, fx.make_layout(3, 1)).load().to(fx.Float32)[t % 3]
    """)
    np.testing.assert_array_equal(out, [16 + t % 3 for t in range(64)])


def test_union_shares_its_bytes(run: Any) -> None:
    body = """
    Bits = fx.Union["i" : fx.Array[fx.Int32, 64], "f" : fx.Array[fx.Float32, 64]]
    space = fx.SharedAllocator().allocate(Bits)
    ints, floats = space.i.peek(), space.f.peek()
    floats[t] = X[t]
    Y[t] = fx.Float32(ints[t])
    """
    np.testing.assert_array_equal(run(body), X.view(np.int32).astype(np.float32))


@pytest.mark.parametrize(("field", "value", "message"), [
    ("Int32", 1.5, r"One\.a expects Int32: Int32 got the float 1\.5"),
    ("Int32", np.float32(2), r"One\.a expects Int32: Int32 got the float"),
    ("Int32", 1 << 40, r"One\.a expects Int32: 1099511627776 does not fit Int32 \(-2147483648 \.\. 2147483647\)"),
    ("Uint8", -1, r"One\.a expects Uint8: -1 does not fit Uint8 \(0 \.\. 255\)"),
])
def test_a_field_keeps_its_number_or_refuses_it(field: str, value: float, message: str) -> None:
    """As an argument does: it was cut to the field's bits."""
    one = fx.struct(type("One", (), {"__annotations__": {"a": getattr(fx, field)}}))
    with pytest.raises(TypeError, match=message):
        one(value)
    assert one(np.int64(7)).a.value == one(7).a.value == 7


def test_structs_are_carried_and_passed_to_kernels(load: Any, device: None) -> None:
    module = load("""
from types import SimpleNamespace

@fx.struct
class Limits:
    low: fx.Float32
    high: fx.Float32
    width: fx.Constexpr[int]

@flyc.kernel
def k(io: SimpleNamespace, limits: Limits, scale: list):
    t = fx.thread_idx.x
    state = limits
    for i in range(limits.width):
        if io.x[t] > state.low:
            state = state.replace(low=state.low + 1.0)
    io.y[t] = state.low * scale[0] + scale[1]["k"] + state.high

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, limits: Limits):
    k(SimpleNamespace(x=X, y=Y), limits, [fx.Float32(10.0), {"k": fx.Float32(0.5)}]).launch(grid=1, block=64)
""")
    y = np.full(64, np.nan, np.float32)
    module.run(X, y, module.Limits(2.0, 100.0, width=5))
    low = np.full(64, 2, np.float32)
    for _ in range(5):
        low += X > low
    np.testing.assert_array_equal(y, low * 10 + 0.5 + 100)
