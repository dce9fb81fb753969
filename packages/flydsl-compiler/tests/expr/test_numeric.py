"""Scalars: construction, static folding, emitted ops, conversions and errors."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl.expr as fx
from flydsl._mlir import ir

pytestmark = pytest.mark.l0_backend_agnostic

SIGNED = [fx.Int4, fx.Int8, fx.Int16, fx.Int32, fx.Int64, fx.Int128]
UNSIGNED = [fx.Uint8, fx.Uint16, fx.Uint32, fx.Uint64, fx.Uint128]


def test_construction_examples() -> None:
    assert fx.Int8(200).value == -56
    assert fx.Uint32(-1).value == 0xFFFFFFFF
    assert fx.Uint64(2**64 + 5).value == 5
    assert fx.Int4(20).value == 4
    assert fx.Boolean(7).value == 1
    assert fx.Boolean(math.nan).value == 1
    assert fx.Uint8(-1.5).value == 255
    with pytest.raises(ValueError, match="NaN"):
        fx.Int32(math.nan)
    with pytest.raises(OverflowError):
        fx.Int32(math.inf)
    with pytest.raises(ValueError, match="to integer conversion is not supported"):
        fx.Int32("x")


@given(st.integers(-(2**140), 2**140), st.sampled_from(SIGNED + UNSIGNED))
def test_integers_wrap(x: int, cls: Any) -> None:
    value = cls(x).value
    assert (value - x) % 2**cls.width == 0
    low = -(2 ** (cls.width - 1)) if cls.signed else 0
    assert low <= value < low + 2**cls.width


def test_as_numeric() -> None:
    assert type(fx.as_numeric(True)) is fx.Boolean
    assert type(fx.as_numeric(2**31 - 1)) is fx.Int32
    assert type(fx.as_numeric(2**31)) is fx.Int64
    assert type(fx.as_numeric(1.0)) is fx.Float32
    with pytest.raises(ValueError):
        fx.as_numeric("x")


@given(st.integers(-100, 100), st.integers(-100, 100), st.sampled_from(["add", "sub", "mul", "and_", "or_", "xor"]))
def test_static_folding(a: int, b: int, name: str) -> None:
    op = getattr(operator, name)
    assert op(fx.Int32(a), fx.Int32(b)).value == op(a, b)
    assert type(op(fx.Int8(a), b)) is fx.Int32


def test_static_quirks() -> None:
    assert (fx.Int32(-7) % 3).value == 2
    assert (fx.Int32(-7) // 2).value == -4
    assert (fx.Int32(1) << 40).value == 0
    assert type(fx.Int32(1) / fx.Int32(2)) is fx.Float32
    assert type(fx.Int64(1) / 2) is fx.Float64
    with pytest.raises(ZeroDivisionError):
        fx.Int32(1) // 0
    with pytest.raises(ValueError):
        fx.Int32(1) << -1
    with pytest.raises(TypeError):
        -fx.Boolean(1)
    with pytest.raises(TypeError):
        abs(fx.Boolean(1))
    with pytest.raises(TypeError, match="requires integer operands, got Float32"):
        fx.Float32(1.0) << 1
    assert hash(fx.Int32(3)) == hash(fx.Int32(3))
    assert type(fx.Int32(3) == 3) is fx.Boolean
    assert (~fx.Boolean(True)).value == 0
    assert [1, 2, 3][fx.Int32(1)] == 2
    x = fx.Int32(4)
    assert x.to(fx.Int32) is x
    assert x.to(int) == 4


def test_metaclass_facts(trace: Any) -> None:
    import numpy as np

    assert str(fx.Float16) == "Float16"
    assert (fx.Int64.width, fx.Int64.log_width, fx.Int64.signed) == (64, 6, True)
    assert fx.Float32.signed is None and fx.Float32.is_float and not fx.Float32.is_integer
    assert fx.Uint16.numpy_dtype is np.uint16 and fx.BFloat16.numpy_dtype is None
    for cls in (*SIGNED, *UNSIGNED, fx.Float16, fx.BFloat16, fx.Float8E4M3FNUZ, fx.Float6E2M3FN, fx.Index):
        back = fx.Numeric.from_ir_type(cls.ir_type)
        assert back.width == cls.width and back.is_float == cls.is_float
    with pytest.raises(ValueError):
        fx.Numeric.from_ir_type(ir.NoneType.get())


INTEGER_OPS = [
    ("add", "arith.addi", "arith.addi"), ("sub", "arith.subi", "arith.subi"), ("mul", "arith.muli", "arith.muli"),
    ("and_", "arith.andi", "arith.andi"), ("or_", "arith.ori", "arith.ori"), ("xor", "arith.xori", "arith.xori"),
    ("pow", "math.ipowi", "math.ipowi"),
]


@pytest.mark.parametrize(("name", "signed", "unsigned"), INTEGER_OPS)
def test_integer_ops(trace: Any, name: str, signed: str, unsigned: str) -> None:
    for cls, want in ((fx.Int32, signed), (fx.Uint32, unsigned)):
        result = getattr(operator, name)(trace.arg(cls), trace.arg(cls))
        assert type(result) is cls
        assert trace.ops()[-1] == want


DIVISIONS = [  # (expression, ops for signed, ops for unsigned): what is known of the divisor folds
    (lambda x: x // 4, ["floordivsi"], ["divui"]), (lambda x: x % 4, ["andi"], ["remui"]),
    (lambda x: x % 3, ["remsi", "cmpi", "addi", "select"], ["remui"]), (lambda x: x << 3, ["shli"], ["shli"]),
    (lambda x: x >> 31, ["shrsi"], ["shrui"]), (lambda x: x << 32, [], []), (lambda x: x >> 40, ["shrsi"], []),
    (lambda x: x // -1, ["subi"], ["divui"]),
]


@pytest.mark.parametrize(("expression", "signed", "unsigned"), DIVISIONS)
def test_known_operands_fold(trace: Any, expression: Any, signed: list[str], unsigned: list[str]) -> None:
    for cls, want in ((fx.Int32, signed), (fx.Uint32, unsigned)):
        before = len(trace.ops())
        result = expression(trace.arg(cls))
        assert type(result) is cls
        assert [op.removeprefix("arith.") for op in trace.ops()[before:]] == want


def test_a_known_zero_divisor_is_an_error(trace: Any) -> None:
    for divide in (operator.floordiv, operator.mod):
        for cls in (fx.Int32, fx.Uint32):
            with pytest.raises(ZeroDivisionError):
                divide(trace.arg(cls), cls(0))


@pytest.mark.parametrize(
    ("name", "want"),
    [("add", "addf"), ("sub", "subf"), ("mul", "mulf"), ("truediv", "divf")],
)
def test_float_ops(trace: Any, name: str, want: str) -> None:
    result = getattr(operator, name)(trace.arg(fx.Float32), trace.arg(fx.Float32))
    assert type(result) is fx.Float32
    assert trace.ops() == [f"arith.{want}"]


def test_float_floordiv_and_pow(trace: Any) -> None:
    x = trace.arg(fx.Float32)
    _ = x**2
    assert trace.ops() == ["math.powf"]
    _ = x // 2.0  # by way of the exact remainder
    assert "arith.remf" in trace.ops() and "math.floor" in trace.ops()


def test_comparisons(trace: Any) -> None:
    i, u, f, b = (trace.arg(c) for c in (fx.Int32, fx.Uint32, fx.Float32, fx.Boolean))
    for value in (i < 1, u < i, f < 1.0, f != f, b > b):
        assert type(value) is fx.Boolean
    text = trace.text()
    for predicate in ("cmpi slt", "cmpi ult", "cmpf olt", "cmpf une", "cmpi ugt"):
        assert predicate in text


def test_dynamic_promotion(trace: Any) -> None:
    assert type(trace.arg(fx.Int8) + 5) is fx.Int32
    assert type(trace.arg(fx.Float16) + 1.0) is fx.Float32
    b = trace.arg(fx.Boolean)
    assert type(b + b) is fx.Int32
    assert type(b & b) is fx.Boolean
    assert type(2 - trace.arg(fx.Int64)) is fx.Int64
    with pytest.raises(ValueError, match="cast explicitly"):
        trace.arg(fx.Float8E4M3FN) + trace.arg(fx.Float8E5M2)
    assert type(trace.arg(fx.Index) / 2) is fx.Index and "arith.divui" in trace.ops()
    fp8 = trace.arg(fx.Float8E4M3FNUZ)
    assert type(fp8 + 1.0) is fx.Float32
    assert fp8.ir_value().type == fx.Float8E4M3FNUZ.ir_type


def test_reflected_literals(trace: Any) -> None:
    x = trace.arg(fx.Int32)
    _ = 2 + x
    assert "arith.addi %arg0, %c2_i32" in trace.text()


CONVERSIONS = [
    (fx.Int32, fx.Int64, ["arith.extsi"]), (fx.Uint32, fx.Int64, ["arith.extui"]),
    (fx.Int64, fx.Int32, ["arith.trunci"]), (fx.Int32, fx.Uint32, []), (fx.Boolean, fx.Int32, ["arith.extui"]),
    (fx.Int32, fx.Float32, ["arith.sitofp"]), (fx.Uint32, fx.Float32, ["arith.uitofp"]),
    (fx.Boolean, fx.Float32, ["arith.uitofp"]), (fx.Float32, fx.Int32, ["arith.fptosi"]),
    (fx.Float32, fx.Uint8, ["arith.fptosi", "arith.trunci"]),
    (fx.Float32, fx.Uint32, ["arith.fptoui"]), (fx.Float16, fx.Float32, ["arith.extf"]),
    (fx.Float32, fx.BFloat16, ["arith.truncf"]), (fx.Float16, fx.BFloat16, ["arith.extf", "arith.truncf"]),
    (fx.Float8E4M3FN, fx.Float8E5M2, ["arith.extf", "arith.truncf"]), (fx.Index, fx.Int32, ["arith.index_cast"]),
    (fx.Int32, fx.Boolean, ["arith.cmpi"]), (fx.Float32, fx.Boolean, ["arith.cmpf"]),
]


@pytest.mark.parametrize(("source", "target", "ops"), CONVERSIONS)
def test_conversions(trace: Any, source: Any, target: Any, ops: list[str]) -> None:
    result = trace.arg(source).to(target)
    assert type(result) is target
    assert result.ir_value().type == target.ir_type
    assert trace.ops() == ops


def test_rounding_mode(trace: Any) -> None:
    x = trace.arg(fx.Float32)
    assert type(x.to(fx.BFloat16, rounding_mode=fx.RoundingMode.toward_zero)) is fx.BFloat16
    assert "toward_zero" in trace.text()
    with pytest.raises(ValueError):
        fx.Float32(1.0).to(fx.BFloat16, rounding_mode=fx.RoundingMode.toward_zero)
    with pytest.raises(TypeError):
        x.to(fx.Int32, rounding_mode=fx.RoundingMode.downward)
    with pytest.raises(TypeError):
        x.to(fx.BFloat16, rounding_mode=3)


def test_dynamic_values_are_not_python_values(trace: Any) -> None:
    x = trace.arg(fx.Int32)
    for use in (bool, int, range, lambda v: [1, 2][v], lambda v: v in (1, 2)):
        with pytest.raises(RuntimeError, match="Int32|Boolean"):
            use(x)
    with pytest.raises(ValueError):
        x.to(int)
    assert str(x) == "?"
    assert repr(x) == "Int32(ArithValue(type=i32, block_arg))"


def test_select(trace: Any) -> None:
    c, i, u = trace.arg(fx.Boolean), trace.arg(fx.Int32), trace.arg(fx.Uint32)
    assert type(c.select(i, u)) is fx.Uint32
    assert type(i.select(1, 2.0)) is fx.Float32
    v = trace.vector(4, fx.Float32)
    for other in (0.0, fx.Float32(0.0)):
        result = c.select(v, other)
        assert type(result) is fx.Vector and result.shape == (4,)
    assert fx.Boolean(True).select(3, 4).value == 3


def test_raw_values(trace: Any) -> None:
    raw = trace.arg(fx.T.i32)
    assert isinstance(raw, fx.arith.ArithValue) and raw.signed is None
    _ = raw >> 1
    _ = fx.Int32(raw) >> 1
    _ = raw < 1
    assert trace.ops() == ["arith.shrui", "arith.shrsi", "arith.cmpi"]
    one = raw + 1.5
    assert one.owner.operands[1].owner.attributes["value"] == ir.IntegerAttr.get(fx.T.i32, 1)
    assert isinstance(fx.Int32(1) + raw, fx.Int32)
    assert type(raw + fx.Int32(1)) is fx.arith.ArithValue
    with pytest.raises(ValueError, match="typed integer"):
        fx.Float32(raw)
    assert fx.Uint32(raw).ir_value().signed is False


def test_fastmath(trace: Any) -> None:
    x = trace.arg(fx.Float32)

    def flags(value: Any) -> str:
        return str(value.value.owner.attributes["fastmath"])

    with fx.fastmath("fast"):
        assert "fast" in flags(x + x) and "fast" in flags(-x) and "fast" in flags(fx.exp2(x))
        assert "none" in flags(fx.exp2(x, fastmath="none"))
        with fx.fastmath(None):
            assert "none" in flags(x * x)
    assert "none" in flags(x + x)
    with fx.fastmath([fx.FastMathFlags.nnan, fx.FastMathFlags.ninf]):
        assert flags(x + x) == "#arith.fastmath<nnan,ninf>"
    with pytest.raises(ValueError), fx.fastmath("quick"):
        pass
    assert flags(fx.exp2(x, fastmath=" nnan, ninf ")) == "#arith.fastmath<nnan,ninf>"
    for unknown in ("quick", "nnan,quick", ["fast", "quick"], {"quick"}):
        with pytest.raises(ValueError, match="unknown fast-math flags 'quick'; known: none, reassoc, nnan"):
            fx.exp2(x, fastmath=unknown)
    with pytest.raises(ValueError, match="unknown fast-math flags 128"):
        fx.exp2(x, fastmath=128)
    with pytest.raises(TypeError, match="got bool"):
        fx.exp2(x, fastmath=True)


def test_abi() -> None:
    import ctypes
    import struct

    def pack(x: Any) -> Any:
        ((ty, fill),) = x.__c_abi_spec__()
        slot = ty()
        fill(x, slot)
        return slot.value

    assert pack(fx.Int32(-5)) == -5 and pack(fx.Boolean(1)) is True
    assert pack(fx.Float16(1.5)) == struct.unpack("<H", struct.pack("<e", 1.5))[0]
    assert pack(fx.BFloat16(1.0)) == 0x3F80
    assert fx.Float64(1.0).__c_abi_spec__()[0][0] is ctypes.c_double
    for cls in (fx.Int128, fx.Float8E4M3FN, fx.Int4):
        with pytest.raises(TypeError, match="C-ABI"):
            cls(1).__c_abi_spec__()
    assert fx.Int32(1).__cache_signature__() == fx.Int32(2).__cache_signature__()
