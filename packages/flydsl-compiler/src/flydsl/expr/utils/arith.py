"""`ArithValue`: an MLIR integer, index, float or vector value with Python operators and no promotion."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, diagnostics, gpu, math
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import number_of, numpy_scalar

from .. import _emit
from .._functions import functions
from .._operators import COMMUTATIVE, OPERATORS, emit_binary

__all__ = ["ArithValue", "arith_const", "current_fastmath"]


def _op_name(value: ir.Value) -> str:
    owner = value.owner
    return "block_arg" if isinstance(owner, ir.Block) else f"op={owner.name}"


class ArithValue(ir.Value):
    """A raw SSA value; literals take *its* type, and signedness may be unknown (``signed is None``).

    Unknown signedness compares and divides signed, but shifts right logically and converts to float
    unsigned. Wrap the value in a Numeric class (``fx.Int32(v)``) to get promotion and known signedness.
    """

    signed: bool | None
    __array_ufunc__ = None  # NumPy leaves its scalars' operators to the reflected ones

    def __init__(self, value: Any, signed: bool | None = None) -> None:
        if not isinstance(value, ir.Value) and hasattr(value, "ir_value"):
            value = value.ir_value()
            signed = getattr(value, "signed", None) if signed is None else signed
        super().__init__(value)
        self.signed = signed

    @property
    def is_float(self) -> bool:
        return _emit.is_float_type(self.type)

    def with_signedness(self, signed: bool | None) -> ArithValue:
        """The same value marked signed, unsigned or unknown."""
        return ArithValue(self, signed)

    def __hash__(self) -> int:
        return ir.Value.__hash__(self)

    def __str__(self) -> str:
        return f"ArithValue(type={self.type}, {_op_name(self)})"

    __repr__ = __str__

    # ---------------------------------------------------------------- operators

    def _coerce(self, other: Any) -> ir.Value | None:
        """`other` as a value of this value's type, or None when it is no operand."""
        other = numpy_scalar(other)
        if isinstance(other, (bool, int, float)):
            return _emit.constant(self.type, other)
        value = other if isinstance(other, ir.Value) else None
        if value is None and hasattr(other, "ir_value"):
            value = other.ir_value()
        if not isinstance(value, ArithValue):  # tensors, layouts and pointers are values too
            return None
        if isinstance(self.type, ir.VectorType) and not isinstance(value.type, ir.VectorType):
            value = _emit.splat(value, self.type.shape)
        return value

    def _operand(self, name: str, other: Any) -> ir.Value:
        value = self._coerce(other)
        if value is None:
            raise TypeError(f"{name} of {self.type}: a number or a value of the type is expected, got {other!r}")
        return value

    @dsl_loc_tracing
    def _binary(self, name: str, other: Any, flip: bool = False, fastmath: Any = None) -> Any:
        value = self._coerce(other)
        if value is None:
            return NotImplemented
        if name in COMMUTATIVE:
            flip = False
        a, b = (value, self) if flip else (self, value)
        result = emit_binary(OPERATORS[name], a, b, self.signed, fastmath)
        if OPERATORS[name].group in ("compare", "div") or not isinstance(result, ArithValue):
            return result
        return result if result.signed is self.signed else result.with_signedness(self.signed)

    @dsl_loc_tracing
    def __neg__(self) -> Any:
        return _emit.emit_neg(self)

    def __pos__(self) -> Any:
        return self

    @dsl_loc_tracing
    def __abs__(self) -> Any:
        return self if self.signed is False and not self.is_float else _emit.emit_abs(self)

    @dsl_loc_tracing
    def __invert__(self) -> Any:
        return _emit.emit_invert(self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __bool__(self) -> bool:
        return diagnostics.fail_dynamic(str(self.type), "bool")

    def __int__(self) -> int:
        return diagnostics.fail_dynamic(str(self.type), "int")

    def __index__(self) -> int:
        return diagnostics.fail_dynamic(str(self.type), "index")

    def __float__(self) -> float:
        return diagnostics.fail_dynamic(str(self.type), "float")

    # `not`, `and`, `or` of the AST rewriter go through the typed view.
    def _typed(self) -> Any:
        return functions.as_numeric(self)

    def __dsl_bool__(self) -> Any:
        return self._typed().__dsl_bool__()

    def __dsl_not__(self) -> Any:
        return self._typed().__dsl_not__()

    def __dsl_and__(self, other: Any) -> Any:
        return self._typed().__dsl_and__(other)

    def __dsl_or__(self, other: Any) -> Any:
        return self._typed().__dsl_or__(other)

    def to(self, target: Any, *, rounding_mode: Any = None) -> Any:
        """The value in a Numeric class, as the typed value of its own class is converted."""
        return self._typed().to(target, rounding_mode=rounding_mode)

    # ---------------------------------------------------------------- conversions (to MLIR types and Numeric classes)

    @dsl_loc_tracing
    def extf(self, ty: Any) -> Any:
        return arith.extf(_emit.mlir_type(ty), self, fastmath=_emit.fastmath_attr())

    @dsl_loc_tracing
    def truncf(self, ty: Any) -> Any:
        return arith.truncf(_emit.mlir_type(ty), self, fastmath=_emit.fastmath_attr())

    @dsl_loc_tracing
    def extui(self, ty: Any) -> Any:
        return arith.extui(_emit.mlir_type(ty), self)

    @dsl_loc_tracing
    def extsi(self, ty: Any) -> Any:
        return arith.extsi(_emit.mlir_type(ty), self)

    @dsl_loc_tracing
    def trunci(self, ty: Any) -> Any:
        return arith.trunci(_emit.mlir_type(ty), self)

    @dsl_loc_tracing
    def bitcast(self, ty: Any) -> Any:
        return arith.bitcast(_emit.mlir_type(ty), self)

    @dsl_loc_tracing
    def index_cast(self, ty: Any) -> Any:
        return arith.index_cast(_emit.mlir_type(ty), self)

    # ---------------------------------------------------------------- methods

    @dsl_loc_tracing
    def select(self, a: Any, b: Any) -> Any:
        """`arith.select` with this value as the condition; a literal takes the other branch's type."""
        return raw_select(_emit.to_i1(self), a, b)

    @dsl_loc_tracing
    def shrui(self, n: Any) -> Any:
        result = arith.shrui(self, self._operand("shrui", n))
        return result.with_signedness(self.signed) if type(result) is ArithValue else result

    def addf(self, other: Any, fastmath: Any = None) -> Any:
        return self._float_op("addf", other, fastmath)

    def maximumf(self, other: Any, fastmath: Any = None) -> Any:
        return self._float_op("maximumf", other, fastmath)

    def minimumf(self, other: Any, fastmath: Any = None) -> Any:
        return self._float_op("minimumf", other, fastmath)

    @dsl_loc_tracing
    def _float_op(self, name: str, other: Any, fastmath: Any) -> Any:
        if not self.is_float:
            raise TypeError(f"{name} is of floats, got {self.type}")
        return getattr(arith, name)(self, self._operand(name, other), fastmath=_emit.fastmath_attr(fastmath))

    @dsl_loc_tracing
    def rsqrt(self, fastmath: Any = None) -> Any:
        return math.rsqrt(self, fastmath=_emit.fastmath_attr(fastmath))

    @dsl_loc_tracing
    def exp2(self, fastmath: Any = None) -> Any:
        return math.exp2(self, fastmath=_emit.fastmath_attr(fastmath))

    @dsl_loc_tracing
    def shuffle_xor(self, offset: Any, width: Any) -> Any:
        """`gpu.shuffle xor`; plain ints become i32 constants."""
        result = gpu.shuffle(self, i32_operand(offset), i32_operand(width), gpu_shuffle_mode("xor"))[0]
        return result.with_signedness(self.signed) if type(result) is ArithValue else result

    # ---------------------------------------------------------------- protocol

    def ir_value(self) -> ir.Value:
        return self

    def __extract_to_ir_values__(self) -> list[ir.Value]:
        return [self]

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        (value,) = values
        return ArithValue(value, getattr(exemplar, "signed", None))


def _install_operators(cls: type) -> None:
    for name, op in OPERATORS.items():
        dunder = f"__{name.rstrip('_')}__"

        def forward(self: Any, other: Any, _n: str = name) -> Any:
            return self._binary(_n, other)

        def backward(self: Any, other: Any, _n: str = name) -> Any:
            return self._binary(_n, other, True)

        setattr(cls, dunder, forward)
        if op.group != "compare":
            setattr(cls, f"__r{name.rstrip('_')}__", backward)


_install_operators(ArithValue)


def i32_operand(value: Any) -> ir.Value:
    """`value` (int, Numeric or raw) as an i32 value. TypeError for anything else."""
    i32 = ir.IntegerType.get_signless(32)
    value = number_of(value)
    if isinstance(value, int):
        return _emit.constant(i32, value)
    if not isinstance(value, ir.Value) and not hasattr(value, "ir_value"):
        raise TypeError(f"an integer is expected, got {value!r}")
    raw = value if isinstance(value, ir.Value) else value.ir_value()
    return _emit.int_resize(raw, i32, getattr(raw, "signed", None))


def gpu_shuffle_mode(mode: str) -> ir.Attribute:
    return ir.Attribute.parse(f"#gpu<shuffle_mode {mode}>")


def raw_operand(value: Any) -> Any:
    """The single IR value behind a DSL value; Python numbers and raw values pass."""
    if value is None or isinstance(value, (ir.Value, bool, int, float)):
        return value
    return value.ir_value() if hasattr(value, "ir_value") else value


@dsl_loc_tracing
def constant(value: Any, *, type: Any = None, index: bool = False) -> Any:  # noqa: A002
    """Raw constant; by default float -> f32, bool -> i1, int -> i32."""
    if index:
        type = ir.IndexType.get()
    elif type is None:
        if isinstance(value, bool):
            type = ir.IntegerType.get_signless(1)
        else:
            type = ir.F32Type.get() if isinstance(value, float) else ir.IntegerType.get_signless(32)
    return _emit.constant(getattr(type, "ir_type", type), value)


@dsl_loc_tracing
def unwrap(value: Any, *, type: Any = None, index: bool = False) -> Any:  # noqa: A002
    """Raw value of a DSL value or literal."""
    raw = raw_operand(value)
    if isinstance(raw, ir.Value):
        return _emit.to_index(raw) if index else raw
    return constant(raw, type=type, index=index)


def _to_raw(value: Any) -> Any:
    return unwrap(value)


def current_fastmath() -> ir.Attribute | None:
    """The ambient fast-math flags as the attribute that raw builders take; None for no flags."""
    return _emit.fastmath_attr()


@dsl_loc_tracing
def arith_const(value: bool | int | float, ty: Any = None) -> Any:
    """A raw constant of an MLIR type or Numeric class; by default bool -> i1, int -> i32 (else i64), float -> f32."""
    if ty is None:
        if isinstance(value, bool):
            ty = ir.IntegerType.get_signless(1)
        elif isinstance(value, int):
            ty = ir.IntegerType.get_signless(32 if -(2**31) <= value < 2**31 else 64)
        else:
            ty = ir.F32Type.get()
    return _emit.constant(getattr(ty, "ir_type", ty), value)


def raw_select(condition: ir.Value, a: Any, b: Any) -> Any:
    """`arith.select`; a Python number takes the other branch's type, a scalar is splat against a vector."""
    a, b = raw_operand(a), raw_operand(b)
    if not isinstance(a, ir.Value) and not isinstance(b, ir.Value):
        ty = ir.F32Type.get() if isinstance(a, float) or isinstance(b, float) else ir.IntegerType.get_signless(32)
        a, b = _emit.constant(ty, a), _emit.constant(ty, b)
    elif not isinstance(a, ir.Value):
        a = _emit.constant(b.type, a)
    elif not isinstance(b, ir.Value):
        b = _emit.constant(a.type, b)
    if isinstance(a.type, ir.VectorType) and not isinstance(b.type, ir.VectorType):
        b = _emit.splat(b, a.type.shape)
    elif isinstance(b.type, ir.VectorType) and not isinstance(a.type, ir.VectorType):
        a = _emit.splat(a, b.type.shape)
    return arith.select(condition, a, b)


def register_casters() -> None:
    """Make results of integer, index and float type come back as `ArithValue`."""
    for name in (
        "IntegerType IndexType F16Type BF16Type F32Type F64Type FloatTF32Type Float8E5M2Type Float8E4M3Type "
        "Float8E4M3FNType Float8E4M3FNUZType Float8E4M3B11FNUZType Float8E5M2FNUZType Float8E8M0FNUType "
        "Float6E2M3FNType Float6E3M2FNType Float4E2M1FNType"
    ).split():
        ty = getattr(ir, name, None)
        if ty is not None:
            ir.register_value_caster(ty.static_typeid, replace=True)(ArithValue)


register_casters()
