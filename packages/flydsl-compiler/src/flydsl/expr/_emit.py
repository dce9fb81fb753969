"""Emission of arithmetic on MLIR values: the one table from an operator to the ops it becomes.

`ArithValue` (no promotion), `Numeric` and `Vector` (with promotion) share these functions. Everything
here takes and returns plain values whose types already agree.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir

from ._lazy import arith, math, vector
from .meta import tracing_option

UNSET: Any = object()


# --------------------------------------------------------------------------- types


def element_type(ty: ir.Type) -> ir.Type:
    """Element type of a vector type; any other type itself."""
    return ty.element_type if isinstance(ty, ir.VectorType) else ty


def with_element(ty: ir.Type, element: ir.Type) -> ir.Type:
    """`ty` with its scalar type replaced: keeps the vector shape."""
    return ir.VectorType.get(ty.shape, element) if isinstance(ty, ir.VectorType) else element


def is_float_type(ty: ir.Type) -> bool:
    return isinstance(element_type(ty), ir.FloatType)


def is_integer_type(ty: ir.Type) -> bool:
    return isinstance(element_type(ty), ir.IntegerType)


def is_index_type(ty: ir.Type) -> bool:
    return isinstance(element_type(ty), ir.IndexType)


def bit_width(ty: ir.Type) -> int:
    """Width of the scalar type in bits; `index` counts as 64."""
    element = element_type(ty)
    return 64 if isinstance(element, ir.IndexType) else element.width


def fold_to_width(value: int, width: int, signed: bool) -> int:
    """`value` modulo 2**width, read as a signed or unsigned number."""
    value &= (1 << width) - 1
    if signed and value >> (width - 1):
        value -= 1 << width
    return value


# --------------------------------------------------------------------------- constants and fast-math


def scalar_attr(ty: ir.Type, value: int | float) -> ir.Attribute:
    if isinstance(ty, ir.FloatType):
        return ir.FloatAttr.get(ty, float(value))
    if isinstance(ty, ir.IndexType):
        return ir.IntegerAttr.get(ty, fold_to_width(int(value), 64, True))
    if isinstance(ty, ir.IntegerType):
        folded = fold_to_width(int(value), ty.width, True)
        if ty.width > 64:
            return ir.Attribute.parse(f"{folded} : {ty}")
        if ty.width == 1:
            return ir.IntegerAttr.get(ty, 1 if folded else 0)
        return ir.IntegerAttr.get(ty, folded)
    raise ValueError(f"no constant of type {ty}")


def constant(ty: ir.Type, value: int | float) -> ir.Value:
    """`arith.constant` of a scalar type, or a splat of a vector type."""
    if isinstance(ty, ir.VectorType):
        attr: ir.Attribute = ir.DenseElementsAttr.get_splat(ty, scalar_attr(ty.element_type, value))
    else:
        attr = scalar_attr(ty, value)
    return arith.ConstantOp(ty, attr).result


def fastmath_string(flags: Any) -> str:
    """Canonical text of fast-math flags: an enum value, a string, or an iterable of those."""
    if flags is None:
        return "none"
    if isinstance(flags, str):
        return flags
    if isinstance(flags, (set, frozenset)):
        return ",".join(sorted(fastmath_string(f) for f in flags)) or "none"
    if isinstance(flags, (list, tuple)):
        return ",".join(fastmath_string(f) for f in flags) or "none"
    if isinstance(flags, int):
        return _fastmath_bits(int(flags))
    raise TypeError(f"fastmath flags expected, got {type(flags).__name__}")


_FASTMATH_BITS = {1: "reassoc", 2: "nnan", 4: "ninf", 8: "nsz", 16: "arcp", 32: "contract", 64: "afn"}


def _fastmath_bits(bits: int) -> str:
    if bits == 127:
        return "fast"
    return ",".join(name for bit, name in _FASTMATH_BITS.items() if bits & bit) or "none"


def fastmath_attr(explicit: Any = None) -> ir.Attribute | None:
    """The flags for a float op: the explicit ones, else the ambient ones; None for no flags."""
    if isinstance(explicit, ir.Attribute):
        return explicit
    flags = explicit if explicit is not None else tracing_option("fastmath")
    text = fastmath_string(flags)
    return None if text == "none" else ir.Attribute.parse(f"#arith.fastmath<{text}>")


# --------------------------------------------------------------------------- conversions


def to_float(v: ir.Value, ty: ir.Type, signed: bool | None) -> ir.Value:
    """Integer to float; `index` goes through i64. One-bit and unknown-signedness sources are unsigned."""
    out = with_element(v.type, ty)
    if is_index_type(v.type):
        v = arith.index_cast(with_element(v.type, ir.IntegerType.get_signless(64)), v)
    if signed and bit_width(v.type) > 1:
        return arith.sitofp(out, v)
    return arith.uitofp(out, v)


def float_to_int(v: ir.Value, ty: ir.Type, signed: bool) -> ir.Value:
    if isinstance(ty, ir.IndexType):
        wide = float_to_int(v, ir.IntegerType.get_signless(64), signed)
        return arith.index_cast(with_element(v.type, ty), wide)
    out = with_element(v.type, ty)
    return arith.fptosi(out, v) if signed else arith.fptoui(out, v)


def float_to_float(v: ir.Value, ty: ir.Type, rounding_mode: Any = None) -> ir.Value:
    """Float conversion; types of one width below 32 bits go through f32. Only narrowing steps round."""
    source = element_type(v.type)
    if source == ty:
        return v
    out = with_element(v.type, ty)
    fm = fastmath_attr()
    if bit_width(source) < bit_width(ty):
        return arith.extf(out, v, fastmath=fm)
    if bit_width(source) == bit_width(ty):
        v = arith.extf(with_element(v.type, ir.F32Type.get()), v, fastmath=fm)
    return arith.truncf(out, v, roundingmode=rounding_mode, fastmath=fm)


def int_resize(v: ir.Value, ty: ir.Type, signed: bool | None) -> ir.Value:
    """Integer or index value to another integer or index type; one-bit values are zero-extended."""
    source = element_type(v.type)
    if source == ty:
        return v
    out = with_element(v.type, ty)
    if isinstance(source, ir.IndexType) or isinstance(ty, ir.IndexType):
        if isinstance(ty, ir.IndexType) and (source.width == 1 or signed is False):
            return arith.index_castui(out, v)
        return arith.index_cast(out, v)
    if source.width == ty.width:
        return v
    if source.width > ty.width:
        return arith.trunci(out, v)
    if signed and source.width > 1:
        return arith.extsi(out, v)
    return arith.extui(out, v)


def to_i1(v: ir.Value) -> ir.Value:
    """`v != 0` per lane; one-bit integers themselves."""
    element = element_type(v.type)
    if isinstance(element, ir.IntegerType) and element.width == 1:
        return v
    zero = constant(v.type, 0)
    if is_float_type(v.type):
        return arith.cmpf(arith.CmpFPredicate.UNE, v, zero)
    return arith.cmpi(arith.CmpIPredicate.ne, v, zero)


def to_index(v: ir.Value) -> ir.Value:
    return v if is_index_type(v.type) else arith.index_cast(with_element(v.type, ir.IndexType.get()), v)


def splat(v: ir.Value, shape: list[int]) -> ir.Value:
    return vector.broadcast(ir.VectorType.get(shape, v.type), v)


# --------------------------------------------------------------------------- operators


@dataclass(frozen=True)
class Operator:
    """One Python operator: how it folds statically and how it is emitted.

    `group` decides promotion: ``arith`` widens Boolean, ``div`` is true division, ``compare`` gives
    Boolean, ``bits`` and ``shift`` need integers, ``pow`` promotes without widening Boolean.
    """

    name: str
    group: str
    fold: Callable[[Any, Any], Any]
    signed_op: str = ""
    unsigned_op: str = ""
    float_op: str = ""
    predicate: str = ""


def _op(name: str, group: str, signed: str = "", unsigned: str = "", flt: str = "", predicate: str = "") -> Operator:
    fold = getattr(operator, name)
    return Operator(name, group, fold, signed, unsigned or signed, flt, predicate)


OPERATORS: dict[str, Operator] = {
    op.name: op
    for op in (
        _op("add", "arith", "addi", flt="addf"),
        _op("sub", "arith", "subi", flt="subf"),
        _op("mul", "arith", "muli", flt="mulf"),
        _op("truediv", "div", flt="divf"),
        _op("floordiv", "arith", "floordivsi", "divui", "divf"),
        _op("mod", "arith", "remsi", "remui", "remf"),
        _op("pow", "pow", "ipowi", flt="powf"),
        _op("and_", "bits", "andi"),
        _op("or_", "bits", "ori"),
        _op("xor", "bits", "xori"),
        _op("lshift", "shift", "shli"),
        _op("rshift", "shift", "shrsi", "shrui"),
        _op("lt", "compare", predicate="lt", flt="OLT"),
        _op("le", "compare", predicate="le", flt="OLE"),
        _op("gt", "compare", predicate="gt", flt="OGT"),
        _op("ge", "compare", predicate="ge", flt="OGE"),
        _op("eq", "compare", predicate="eq", flt="OEQ"),
        _op("ne", "compare", predicate="ne", flt="UNE"),
    )
}
COMMUTATIVE = frozenset({"add", "mul"})


def emit_binary(op: Operator, a: ir.Value, b: ir.Value, signed: bool | None, fastmath: Any = None) -> ir.Value:
    """Emit `op` on two values of one type. `signed` None (unknown) acts as signed, except `>>`."""
    if is_float_type(a.type):
        return _emit_float(op, a, b, fastmath)
    use_signed = signed is not False and not (op.name == "rshift" and signed is None)
    if op.group == "compare":
        prefix = "" if op.predicate in ("eq", "ne") else ("s" if use_signed else "u")
        return arith.cmpi(getattr(arith.CmpIPredicate, prefix + op.predicate), a, b)
    if op.group == "div":
        if is_index_type(a.type):
            return arith.floordivsi(a, b) if use_signed else arith.divui(a, b)
        ty = ir.F64Type.get() if bit_width(a.type) > 32 else ir.F32Type.get()
        return arith.divf(to_float(a, ty, signed), to_float(b, ty, signed), fastmath=fastmath_attr(fastmath))
    if op.group == "pow":
        return math.ipowi(a, b)
    return getattr(arith, op.signed_op if use_signed else op.unsigned_op)(a, b)


def _emit_float(op: Operator, a: ir.Value, b: ir.Value, fastmath: Any) -> ir.Value:
    if op.group in ("bits", "shift"):
        raise TypeError(f"{op.name} requires integer operands, got {element_type(a.type)}")
    fm = fastmath_attr(fastmath)
    if op.group == "compare":
        return arith.cmpf(getattr(arith.CmpFPredicate, op.float_op), a, b, fastmath=fm)
    if op.group == "pow":
        return math.powf(a, b, fastmath=fm)
    result = getattr(arith, op.float_op)(a, b, fastmath=fm)
    return math.floor(result, fastmath=fm) if op.name == "floordiv" else result


def emit_neg(v: ir.Value, fastmath: Any = None) -> ir.Value:
    if is_float_type(v.type):
        return arith.negf(v, fastmath=fastmath_attr(fastmath))
    return arith.subi(constant(v.type, 0), v)


def emit_abs(v: ir.Value) -> ir.Value:
    return math.absf(v, fastmath=fastmath_attr()) if is_float_type(v.type) else math.absi(v)


def emit_invert(v: ir.Value) -> ir.Value:
    if is_float_type(v.type):
        raise TypeError(f"~ requires an integer operand, got {element_type(v.type)}")
    return arith.xori(v, constant(v.type, -1))
