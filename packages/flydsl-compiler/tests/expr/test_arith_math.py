"""Extrema, integer functions, math functions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl.expr as fx

pytestmark = pytest.mark.l0_backend_agnostic


def test_extrema(trace: Any) -> None:
    i, u, f = trace.arg(fx.Int32), trace.arg(fx.Uint32), trace.arg(fx.Float32)
    assert type(fx.max(i, u)) is fx.Uint32
    assert type(fx.min(i, [f, 1])) is fx.Float32
    assert fx.max(trace.vector(4, fx.Float32), 0).shape == (4,)
    assert {"arith.maxui", "arith.minimumf", "arith.maximumf"} <= set(trace.ops())
    assert type(fx.max(fx.Boolean(0), fx.Boolean(1))) is fx.Int32
    assert math.isnan(fx.max(1.0, math.nan).value)
    assert math.copysign(1, fx.min(0.0, -0.0).value) == -1
    with pytest.raises(ValueError):
        fx.max()
    with pytest.raises(TypeError):
        fx.max(fx.Index(1), 2)
    assert type(fx.maxnumf(f, 0.0)) is fx.Float32


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-1000, 1000).filter(bool))
def test_static_ceildiv(a: int, b: int) -> None:
    exact = -((-a) // b)
    if exact >= 2**31:
        with pytest.raises(OverflowError):
            fx.ceildiv(fx.Int32(a), fx.Int32(b))
    else:
        assert fx.ceildiv(fx.Int32(a), fx.Int32(b)).value == exact


def test_ceildiv(trace: Any) -> None:
    assert type(fx.ceildiv(trace.arg(fx.Int32), 4)) is fx.Int32
    assert trace.ops() == ["arith.ceildivsi"]
    for bad in (fx.Boolean(1), fx.Index(1), 1.0):
        with pytest.raises(TypeError):
            fx.ceildiv(bad, 2)
    with pytest.raises(ZeroDivisionError):
        fx.ceildiv(1, 0)


def test_shrui_and_compare(trace: Any) -> None:
    i = trace.arg(fx.Int32)
    assert type(fx.arith.shrui(i, 3)) is fx.Int32
    assert fx.arith.shrui(fx.Int8(-1), 4).value == 15
    raw = fx.arith.cmpi(fx.arith.CmpIPredicate.ult, i, 4)
    assert str(raw.type) == "i1"
    assert str(fx.arith.constant(4, index=True).type) == "index"
    assert str(fx.arith.index_cast(fx.T.index, i).type) == "index"
    assert str(fx.arith.select(i < 3, 1, 2.0).type) == "f32"


def test_math(trace: Any) -> None:
    f, v = trace.arg(fx.Float32), trace.vector(4, fx.Float16)
    unary = (
        "absf ceil floor trunc round roundeven exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin "
        "acos atan sinh cosh tanh asinh acosh atanh erf erfc"
    )
    for name in unary.split():
        assert type(getattr(fx, name)(f)) is fx.Float32
        assert getattr(fx.math, name)(v.reshape((2, 2))).shape == (2, 2)
        assert trace.ops()[-1] == f"math.{name}"
    assert [type(x) for x in fx.sincos(f)] == [fx.Float32, fx.Float32]
    assert type(fx.isnan(f)) is fx.Boolean and fx.isnan(v).dtype is fx.Boolean
    assert type(fx.fma(f, f, f)) is fx.Float32
    assert type(fx.fpowi(f, trace.arg(fx.Int32))) is fx.Float32
    assert type(fx.ctpop(trace.arg(fx.Uint32))) is fx.Int32
    assert str(fx.exp2(f.ir_value()).type) == "f32"
    with pytest.raises(TypeError, match="one type"):
        fx.powf(f, trace.arg(fx.Float16))
    with pytest.raises(TypeError, match="float"):
        fx.exp(trace.arg(fx.Int32))
    with pytest.raises(TypeError, match="integer"):
        fx.absi(f)
