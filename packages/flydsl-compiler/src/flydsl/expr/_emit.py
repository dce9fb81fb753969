"""Emission of arithmetic on MLIR values: the one table from an operator to the ops it becomes.

`ArithValue` (no promotion), `Numeric` and `Vector` (with promotion) share these functions. Everything
here takes and returns plain values whose types already agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.ambient import tracing_option
from flydsl.tracing.lazy import arith, math, vector

# --------------------------------------------------------------------------- operations


def create(name: str, operands: Iterable[ir.Value] = (), attributes: Mapping[str, ir.Attribute] | None = None,
           result: ir.Type | None = None) -> Any:
    """Build the operation ``name`` ("rocdl.s.barrier") without the Python builders of its dialect.

    Those are generated; importing the ones of LLVM and of ROCDL takes a tenth of the time of a first compile.
    Returns the value of type ``result``, or None.
    """
    results = [] if result is None else [result]
    op = ir.Operation.create(name, results=results, operands=list(operands), attributes=dict(attributes or {}))
    return None if result is None else op.result.maybe_downcast()


# --------------------------------------------------------------------------- types


def mlir_type(dtype: Any) -> ir.Type:
    """The MLIR type of a Numeric class or Vector alias; an MLIR type itself. TypeError otherwise."""
    if isinstance(dtype, ir.Type):
        return dtype
    ty = getattr(dtype, "ir_type", None)
    if isinstance(ty, ir.Type):
        return ty
    raise TypeError(f"a Numeric class or MLIR type expected, got {dtype!r}")


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


_FASTMATH_BITS = {1: "reassoc", 2: "nnan", 4: "ninf", 8: "nsz", 16: "arcp", 32: "contract", 64: "afn"}
_FASTMATH_NAMES = ("none", *_FASTMATH_BITS.values(), "fast")


def fastmath_string(flags: Any) -> str:
    """Canonical text of fast-math flags: an enum value, a string, or an iterable of those.

    Raises:
        ValueError: there is no such flag. TypeError: something else.
    """
    if flags is None:
        return "none"
    if isinstance(flags, str):
        names = [name.strip() for name in flags.split(",")]
        if unknown := [name for name in names if name not in _FASTMATH_NAMES]:
            raise ValueError(f"unknown fast-math flags {', '.join(unknown)!r}; known: {', '.join(_FASTMATH_NAMES)}")
        return ",".join(names)
    if isinstance(flags, (set, frozenset)):
        return ",".join(sorted(fastmath_string(f) for f in flags)) or "none"
    if isinstance(flags, (list, tuple)):
        return ",".join(fastmath_string(f) for f in flags) or "none"
    if isinstance(flags, int) and not isinstance(flags, bool):
        return _fastmath_bits(int(flags))
    raise TypeError(f"fastmath flags expected, got {type(flags).__name__}")


def _fastmath_bits(bits: int) -> str:
    if bits == 127:
        return "fast"
    if not 0 <= bits < 127:
        raise ValueError(f"unknown fast-math flags {bits}: no combination of fx.FastMathFlags")
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
    """Float to integer towards zero. Types below 32 bits take the low bits of the i32, so that they always wrap."""
    if isinstance(ty, ir.IndexType):
        wide = float_to_int(v, ir.IntegerType.get_signless(64), signed)
        return arith.index_cast(with_element(v.type, ty), wide)
    out = with_element(v.type, ty)
    if ty.width < 32:
        return arith.trunci(out, arith.fptosi(with_element(v.type, ir.IntegerType.get_signless(32)), v))
    if ty.width < 64:
        return arith.fptosi(out, v) if signed else arith.fptoui(out, v)
    if bit_width(v.type) < 32:  # f16 does not have the ends of the range
        v = arith.extf(with_element(v.type, ir.F32Type.get()), v)
    result = arith.fptosi(out, v) if signed else arith.fptoui(out, v)
    # The instructions of 32 bits saturate, the expansion of the back end for 64 does not.
    bits = ty.width - 1 if signed else ty.width
    low = -(2.0**bits) if signed else 0.0
    above = arith.cmpf(arith.CmpFPredicate.OGE, v, constant(v.type, 2.0**bits))
    below = arith.cmpf(arith.CmpFPredicate.OLT, v, constant(v.type, low))
    result = arith.select(above, constant(out, (1 << bits) - 1), result)
    return arith.select(below, constant(out, -(1 << bits) if signed else 0), result)


def saturated(value: int, width: int, signed: bool) -> int:
    """What the device makes of a truncated float: the nearest number of 32 or 64 bits, of which narrow types wrap."""
    if width < 32:
        width, signed = 32, True
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return min(max(value, low), high)


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
    if not isinstance(source, (ir.IntegerType, ir.IndexType)):
        raise TypeError(f"an integer is expected, got a value of type {v.type}")
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


# --------------------------------------------------------------------------- unary operators


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
