"""Vectors: construction, indexing, shapes, operators and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.expr._lanes import broadcast_mask, broadcast_shapes

pytestmark = pytest.mark.l0_backend_agnostic


def test_construction(trace: Any) -> None:
    v = fx.full((2, (2, 2)), 1, fx.Float16)
    assert v.shape == (2, (2, 2)) and v.dtype is fx.Float16 and len(v) == 8
    assert str(v) == "Vector(vector<8xf16> o (2, (2, 2)), Float16)"
    assert fx.zeros_like(v, fx.Int32).dtype is fx.Int32
    e = fx.Vector.from_elements([1, trace.arg(fx.Int8)], fx.Int32)
    assert e.shape == (2,)
    with pytest.raises(ValueError):
        fx.Vector.from_elements([])
    with pytest.raises(ValueError):
        fx.full(4, trace.arg(fx.T.f32), fx.Float32)
    with pytest.raises(ValueError):
        fx.Vector(v, (3,))
    with pytest.raises(ValueError):
        fx.Vector(v, dtype=fx.Float32)
    unsigned = fx.Vector(trace.vector(4, fx.Int32), dtype=fx.Uint32)
    assert unsigned.dtype is fx.Uint32 and unsigned.signed is False


def test_shuffle_masks_name_lanes(trace: Any) -> None:
    v = fx.full(4, 1, fx.Int32)
    assert v.shuffle(v, [0, 7]).shape == (2,)
    for mask in ([], [8], [-1]):  # -1 is an undefined lane of the IR
        with pytest.raises(ValueError, match="from 0 to 7"):
            v.shuffle(v, mask)
    assert v.shuffle(v.to(fx.Uint32), [4]).dtype is fx.Int32
    with pytest.raises(TypeError, match="another vector of i32, got vector<4xf32>"):
        v.shuffle(v.to(fx.Float32), [0])
    with pytest.raises(ValueError, match="expects a vector value, got 3"):
        v.shuffle(3, [0])


def test_what_is_no_vector(trace: Any) -> None:
    with pytest.raises(ValueError, match="expects a vector value, got 3"):
        fx.Vector(3)
    with pytest.raises(TypeError, match=r"Vector takes \[element type, lanes\]"):
        fx.Vector[fx.Float32]
    with pytest.raises(TypeError, match="a Numeric class, got <class 'int'>"):
        fx.VectorAlias(int, 2)
    with pytest.raises(ValueError, match="positive extents"):
        fx.VectorAlias(fx.Float32, (2, 0))


def test_numpy_numbers_are_operands(trace: Any) -> None:
    """On either side, of scalars, raw values and vectors; NumPy made arrays of Python objects of the latter."""
    x, v = fx.Int32(trace.arg(fx.Int32)), fx.full(4, trace.arg(fx.Int32), fx.Int32)
    for operand in (np.int32(3), np.uint8(3), np.array(3)):
        for y in (operand + x, x + operand, operand - x, operand << x):
            assert type(y) is fx.Int32
        assert type(operand < x) is fx.Boolean
        for w in (operand - v, v * operand):
            assert type(w) is fx.Vector and w.dtype is fx.Int32 and w.shape == (4,)
        assert str((operand + x.ir_value()).type) == "i32"
    assert type(np.float16(2) * x) is fx.Float32 and v[np.int64(1)].dtype is fx.Int32
    assert fx.as_numeric(np.float32(2.5)).value == 2.5
    with pytest.raises(TypeError):
        pow(x, 2, 5)


def test_aliases(trace: Any) -> None:
    assert fx.VectorAlias(fx.Float32, 4) is fx.Float32x4 is fx.Vector[fx.Float32, 4]
    assert fx.Float32x4.__name__ == "Float32x4"
    assert str(fx.Float32x4.ir_type) == "vector<4xf32>"
    assert fx.Float32x4(1.0).dtype is fx.Float32
    assert fx.Int32x2([1, 2]).shape == fx.Int32x2(1, 2).shape == fx.Int32x2(trace.arg(fx.Int32), 2).shape == (2,)
    assert fx.Float32x4(1.0, 2.0, 3.0, trace.arg(fx.Float32)).shape == fx.Float32x4(1.0, 4).shape == (4,)
    with pytest.raises(ValueError):
        fx.Int32x2([1, 2, 3])
    with pytest.raises(ValueError):
        fx.Float32x4(1.0, 2.0, 3.0)
    with pytest.raises(ValueError):
        fx.Float32x4(trace.vector(8, fx.Float32))


def test_boolean_lanes_have_no_negative(trace: Any) -> None:
    with pytest.raises(TypeError, match="unary -"):
        -(trace.vector(4, fx.Int32) < 3)
    with pytest.raises(TypeError, match="Numeric class"):
        fx.full(4, 1, "f32")


def test_indexing(trace: Any) -> None:
    v = trace.vector(8, fx.Float32)
    assert type(v[0]) is fx.Float32 and type(v[-1]) is fx.Float32 and type(v[trace.arg(fx.Int32)]) is fx.Float32
    with pytest.raises(IndexError):
        v[8]
    for wrong in (slice(0, 2), 1.5, "0"):
        with pytest.raises(TypeError):
            v[wrong]
    m = v.reshape((2, 4))
    assert m[None] is m
    m[1, 2]
    assert "vector.extract %arg0[6]" in trace.text()  # row-major numbering
    row = m[1, None]
    assert row.shape == (4,)
    with pytest.raises(ValueError):
        m[1, 2, 3]
    assert len(list(v)) == 8


@given(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3))
def test_broadcast_against_numpy(a: list[int], b: list[int]) -> None:
    import numpy as np

    a, b = tuple(a) or (1,), tuple(b) or (1,)
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        if np.prod(a) != 1 and np.prod(b) != 1:
            with pytest.raises(ValueError):
                broadcast_shapes(a, b)
        return
    got = broadcast_shapes(a, b)
    assert np.prod(got) == np.prod(want)
    lanes = np.arange(np.prod(a)).reshape(a)
    assert broadcast_mask(a, want, "row") == np.broadcast_to(lanes, want).ravel().tolist()
    lanes = np.arange(np.prod(a)).reshape(a, order="F")
    assert broadcast_mask(a, want, "colex") == np.broadcast_to(lanes, want).ravel(order="F").tolist()


def test_operators_promote(trace: Any) -> None:
    i, h, f = trace.vector(4, fx.Int32), trace.vector(4, fx.BFloat16), trace.vector(4, fx.Float32)
    assert (i + 1.5).dtype is fx.Float32
    assert (h * 2.0).dtype is fx.Float32
    assert (h + h).dtype is fx.BFloat16
    assert (2 * f).dtype is fx.Float32
    assert (trace.arg(fx.Float64) + f).dtype is fx.Float64
    assert (i < 3).dtype is fx.Boolean
    assert (i / 2).dtype is fx.Float32
    assert (-f).shape == (4,)
    with pytest.raises(TypeError):
        _ = ~f
    with pytest.raises(ValueError):
        trace.vector(3, fx.Int32) + i
    u = fx.Vector(i, dtype=fx.Uint32)
    _ = u >> 1
    assert trace.ops()[-1] == "arith.shrui"


def test_conversions(trace: Any) -> None:
    f = trace.vector(8, fx.Float32).reshape((2, 4))
    assert f.to(fx.Float16).shape == (2, 4)
    assert f.to(fx.Float32) is f
    assert f.bitcast(fx.Int16).shape == (16,)
    assert f.broadcast_to((2, 4)).shape == (2, 4)
    assert f.shuffle(f, [0, 8]).shape == (2,)
    with pytest.raises(ValueError):
        f.reshape((3, 3))
    with pytest.raises(TypeError):
        f.to("f16")


@pytest.mark.parametrize(
    ("dtype", "op", "kind"),
    [
        (fx.Float32, fx.ReductionOp.MAX, "maxnumf"), (fx.Float32, "min", "minimumf"), (fx.Float32, "add", "add"),
        (fx.Int32, fx.ReductionOp.MAX, "maxsi"), (fx.Uint32, fx.ReductionOp.MIN, "minui"), (fx.Int32, "mul", "mul"),
    ],
)
def test_reduce(trace: Any, dtype: Any, op: Any, kind: str) -> None:
    result = trace.vector(4, dtype).reduce(op, 1)
    assert type(result) is dtype
    assert f"vector.reduction <{kind}>" in trace.text()


def test_reduce_errors(trace: Any) -> None:
    v = trace.vector(4, fx.Float32)
    with pytest.raises(ValueError):
        v.reduce("median")
    for total in (lambda: (v == 0).reduce(fx.ReductionOp.ADD), lambda: fx.arith.sum(v == 0)):
        with pytest.raises(TypeError, match="sum of booleans would be one bit.*count them with .to"):
            total()
    (v == 0).to(fx.Int32).reduce("add")
    with pytest.raises(TypeError):
        v.reduce(3)


def test_select(trace: Any) -> None:
    v = trace.vector(4, fx.Float32)
    assert (v < 0.0).select(v, 0).dtype is fx.Float32
    assert fx.vec_select(v < 0.0, v, 1.0).shape == (4,)
    assert fx.vec_broadcast(trace.arg(fx.Float16), 4).dtype is fx.Float16


def test_rebuild_keeps_shape(trace: Any) -> None:
    v = fx.Vector(trace.vector(4, fx.Int32), (2, 2), fx.Uint32)
    (raw,) = v.__extract_to_ir_values__()
    back = type(v).__construct_from_ir_values__([ir.Value(raw)], v)
    assert back.shape == (2, 2) and back.dtype is fx.Uint32
