"""Scalar numeric types: static Python numbers or dynamic SSA values with exact promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from flydsl._mlir import ir
from flydsl.tracing.ambient import note_unknown
from flydsl.tracing.lazy import arith, diagnostics
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import numpy_scalar

from . import _emit
from ._functions import functions
from ._number_protocol import NumberProtocol, OlderMethods
from ._numeric_class import CLASSES, NumericMeta
from ._operators import COMMUTATIVE, OPERATORS, Operator, emit_binary, fold
from ._payload import check_rounding_mode, float_payload, integer_payload, is_single_lane
from ._promotes import BooleanOperators, FloatOperators, IntegerOperators, Operators
from .promotion import common_type, operand_and_result_types
from .utils.arith import ArithValue

__all__ = [
    "NumericMeta", "Numeric", "Integer", "Float", "as_numeric", "Boolean", "Int4", "Int8", "Int16", "Int32", "Int64",
    "Int128", "Uint8", "Uint16", "Uint32", "Uint64", "Uint128", "Float16", "BFloat16", "Float32", "Float64",
    "Float8E5M2", "Float8E4M3", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E4M3B11FNUZ", "Float8E8M0FNU",
    "Float6E2M3FN", "Float6E3M2FN", "Float4E2M1FN", "Index",
]

_N = TypeVar("_N", bound="Numeric")


class Numeric(NumberProtocol, OlderMethods, Operators["Numeric", "Boolean"], metaclass=NumericMeta):
    """A scalar: `value` holds a Python number (static) or an `ir.Value` (dynamic).

    A static value is what the dynamic one would be: integers wrap and floats are rounded to their class at
    each step.
    """

    if TYPE_CHECKING:  # set by the subclasses

        def __init__(self, x: Any) -> None: ...
        def __invert__(self) -> Numeric: ...

    _width: ClassVar[int] = 32
    _signed: ClassVar[bool | None] = None
    _numpy_name: ClassVar[str | None] = None
    # NumPy leaves ``numpy_scalar + x`` to our reflected operators, instead of adding Python objects one by one.
    __array_ufunc__ = None
    __slots__ = ("value",)

    value: Any

    if not TYPE_CHECKING:  # where it would hide the class of what is made

        def __new__(cls, x: Any = None) -> Any:
            # A vector is converted lane by lane; one of a single lane is a scalar.
            if isinstance(x, ir.Value) and isinstance(x.type, ir.VectorType) and not is_single_lane(x):
                return functions.as_vector(x).to(cls)
            return object.__new__(cls)

    # ---------------------------------------------------------------- factories

    @staticmethod
    def from_python_value(value: Any) -> Numeric:
        """A Numeric for a literal: bool, int (Int32, else Int64), float (Float32), or a typed value."""
        if isinstance(value, Numeric):
            return value
        if isinstance(value, bool):
            return Boolean(value)
        if isinstance(value, int):
            return Int32(value) if -(2**31) <= value < 2**31 else Int64(value)
        if isinstance(value, float):
            return Float32(value)
        if hasattr(value, "__dsl_number__"):  # an extent
            return Numeric.from_python_value(value.__dsl_number__())
        if isinstance(value, ir.Value) and not isinstance(value.type, ir.VectorType):
            return _typed_class(value)(value)
        number = numpy_scalar(value)
        if number is not value:
            return Numeric.from_python_value(number)
        raise ValueError(f"cannot make a Numeric from {value!r} ({type(value).__name__})")

    @staticmethod
    def from_ir_type(ty: ir.Type) -> Any:
        """The Numeric class of an MLIR scalar type. Signless integers map to the signed classes."""
        if isinstance(ty, ir.IndexType):
            return Index
        if isinstance(ty, ir.IntegerType):
            cls: Any = _INTEGER_CLASSES.get((ty.width, not ty.is_unsigned))
        else:
            cls = _FLOAT_CLASSES.get(str(ty))
        if cls is None:
            raise ValueError(f"no Numeric class for the type {ty}")
        return cls

    @classmethod
    def _wrap(cls, value: Any) -> Any:
        """An instance around a payload that already has this class's type."""
        self = object.__new__(cls)
        self.value = value
        return self

    # ---------------------------------------------------------------- queries and conversion

    @property
    def dtype(self) -> Any:
        """The class of the value."""
        return type(self)

    def is_static(self) -> bool:
        """Whether the payload is a Python number."""
        return not isinstance(self.value, ir.Value)

    @dsl_loc_tracing
    def ir_value(self) -> ArithValue:
        """The SSA value with signedness attached; a static payload becomes a constant here."""
        cls = type(self)
        value = _emit.constant(cls.ir_type, self.value) if self.is_static() else self.value
        return ArithValue(value, cls.signed)

    @overload
    def to(self, target: type[_N], *, rounding_mode: Any = None) -> _N: ...
    @overload
    def to(self, target: Any, *, rounding_mode: Any = None) -> Any: ...
    @dsl_loc_tracing
    def to(self, target: Any, *, rounding_mode: Any = None) -> Any:
        """Convert to a Numeric class, `ir.Value`, or (static only) a Python number type.

        `rounding_mode` is for float-to-float conversion of dynamic values.
        """
        if isinstance(target, NumericMeta):
            return self._to_class(target, rounding_mode)
        if rounding_mode is not None:
            raise TypeError("rounding_mode applies to conversions between float types only")
        if target is ir.Value:
            return self.ir_value()
        if target in (int, float, bool):
            if self.is_static():
                return target(self.value)
            raise ValueError(f"cannot convert a dynamic {type(self).__name__} to Python {target.__name__}")
        raise ValueError(f"cannot convert {type(self).__name__} to {target!r}")

    def _to_class(self, target: Any, rounding_mode: Any) -> Any:
        if rounding_mode is None:
            return self if target is type(self) else target(self)
        check_rounding_mode(type(self), target, rounding_mode)
        if self.is_static():
            raise ValueError("rounding_mode needs a dynamic value; static numbers are rounded when materialised")
        if target is type(self):
            return self
        return target._wrap(_emit.float_to_float(self.value, target.ir_type, rounding_mode))

    @overload
    def bitcast(self, dtype: type[_N]) -> _N: ...
    @overload
    def bitcast(self, dtype: Any) -> Any: ...
    @dsl_loc_tracing
    def bitcast(self, dtype: Any) -> Any:
        """Reinterpret the bits as `dtype`, which has the same width. The result is always dynamic."""
        if not isinstance(dtype, NumericMeta):
            raise TypeError(f"bitcast expects a Numeric class, got {dtype!r}")
        if dtype.width != type(self).width:
            raise ValueError(f"bitcast from {type(self)} to {dtype}: widths differ")
        value = self.ir_value()
        return dtype._wrap(value if value.type == dtype.ir_type else arith.bitcast(dtype.ir_type, value))

    @dsl_loc_tracing
    def select(self, true_value: Any, false_value: Any) -> Any:
        """`true_value` where this is non-zero, else `false_value`, in their common type."""
        condition = Boolean(self)
        if _is_scalar(true_value) and _is_scalar(false_value):
            a, b = literal_numeric(true_value), literal_numeric(false_value)
            common = common_type(type(a), type(b))
            if condition.is_static():
                chosen = a if condition.value else b
                return common(chosen.value) if chosen.is_static() else chosen.to(common)
            return common._wrap(arith.select(condition.ir_value(), a.to(common).ir_value(), b.to(common).ir_value()))
        return functions.select_lanes(condition, true_value, false_value)

    # ---------------------------------------------------------------- Python conversions

    def _require_static(self, what: str) -> Any:
        if not self.is_static():
            diagnostics.fail_dynamic(type(self).__name__, what)
        return self.value

    def __bool__(self) -> bool:
        return bool(self._require_static("bool"))

    def __int__(self) -> int:
        return int(self._require_static("int"))

    def __index__(self) -> int:
        value = self._require_static("index")
        if not type(self).is_integer:
            raise TypeError(f"'{type(self).__name__}' cannot be used as an index")
        return int(value)

    def __float__(self) -> float:
        return float(self._require_static("float"))

    def __hash__(self) -> int:
        return hash(type(self)) ^ hash(self.value)

    def __str__(self) -> str:
        if self.is_static():
            return str(self.value)
        note_unknown()
        return "?"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    # ---------------------------------------------------------------- operators

    def _binary(self, name: str, other: Any, flip: bool = False) -> Any:
        other = numpy_scalar(other)
        if isinstance(other, (str, bytes)):  # which would repeat itself as often as this says
            raise TypeError(f"unsupported operand {other!r}, a {type(other).__name__}: operands are values of the "
                            "language, Python and NumPy numbers")
        if not _is_scalar(other):
            return NotImplemented
        a, b = self, literal_numeric(other)
        if flip and name not in COMMUTATIVE:
            a, b = b, a
        return scalar_binary(OPERATORS[name], a, b)

    @dsl_loc_tracing
    def __neg__(self) -> Any:
        cls = type(self)
        if cls is Boolean:
            raise TypeError("bad operand type for unary -: 'Boolean'")
        return cls(-self.value) if self.is_static() else cls._wrap(_emit.emit_neg(self.value))

    def __pos__(self) -> Any:
        return self

    @dsl_loc_tracing
    def __abs__(self) -> Any:
        cls = type(self)
        if cls is Boolean:
            raise TypeError("bad operand type for abs(): 'Boolean'")
        if cls.signed is False:
            return self
        return cls(abs(self.value)) if self.is_static() else cls._wrap(_emit.emit_abs(self.value))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # ---------------------------------------------------------------- conditions

    def __dsl_bool__(self) -> Any:
        return Boolean(self)

    @dsl_loc_tracing
    def __dsl_not__(self) -> Any:
        condition = Boolean(self)
        return Boolean(not condition.value) if condition.is_static() else ~condition

    @dsl_loc_tracing
    def __dsl_and__(self, other: Any) -> Any:
        return Boolean(self) & Boolean(other)

    @dsl_loc_tracing
    def __dsl_or__(self, other: Any) -> Any:
        return Boolean(self) | Boolean(other)


class Integer(Numeric):
    """Base of the integers; instantiable as a signed 32-bit integer."""

    _signed = True
    _numpy_name = "int32"
    __slots__ = ()

    @dsl_loc_tracing
    def __init__(self, x: Any) -> None:
        self.value = integer_payload(type(self), x)

    @dsl_loc_tracing
    def __invert__(self) -> Any:
        cls = type(self)
        return cls(~self.value) if self.is_static() else cls._wrap(_emit.emit_invert(self.value))


class Float(Numeric):
    """Base of the floats; instantiable as f32."""

    __slots__ = ()

    @dsl_loc_tracing
    def __init__(self, x: Any) -> None:
        self.value = float_payload(type(self), x)


def scalar_binary(op: Operator, a: Numeric, b: Numeric) -> Any:
    """Apply an operator to two scalars with promotion: folded when both are static, else emitted."""
    operand, result = operand_and_result_types(op, type(a), type(b))
    if a.is_static() and b.is_static():
        # Through the constructor: a literal is exact until its class is known.
        return result(fold(op, operand(a.value).value, operand(b.value).value, operand, result))
    return _emit_scalar(op, a, b, operand, result)


@dsl_loc_tracing
def _emit_scalar(op: Operator, a: Numeric, b: Numeric, operand: Any, result: Any) -> Any:
    # Boolean compares unsigned, so that True > False.
    signed = operand.signed if operand is not Boolean else False
    value = emit_binary(op, a.to(operand).ir_value(), b.to(operand).ir_value(), signed)
    return result._wrap(value)


class Boolean(BooleanOperators, Integer):
    """One-bit truth value; static payloads are 0 or 1."""

    _width = 1
    _numpy_name = "bool"
    __slots__ = ()

    @dsl_loc_tracing
    def __init__(self, x: Any) -> None:
        if isinstance(x, Numeric):
            x = x.value
        x = numpy_scalar(x)
        if isinstance(x, (bool, int, float)):
            self.value = int(bool(x))
        elif isinstance(x, ir.Value) and isinstance(x.type, (ir.IntegerType, ir.IndexType, ir.FloatType)):
            self.value = _emit.to_i1(x)
        else:
            raise ValueError(f"{type(x).__name__} to Boolean conversion is not supported")

    def __invert__(self) -> Boolean:
        return Boolean(not self.value) if self.is_static() else super().__invert__()


class Index(IntegerOperators["Index", "Float64", "Index"], Integer):
    """Address-sized unsigned integer of MLIR type `index`. Prefer Int32 or Int64 in new code."""

    _width = 64
    _signed = False
    _numpy_name = "uint64"
    __slots__ = ()

    @dsl_loc_tracing
    def __init__(self, x: Any) -> None:
        if isinstance(x, Numeric):
            signed = type(x).signed
            x = ArithValue(x.value, signed) if not x.is_static() else x.value
        if isinstance(x, int):
            self.value = x
        elif isinstance(x, ir.Value) and _emit.is_integer_type(x.type) or _is_index_value(x):
            # One-bit values must not become -1.
            signed = False if _emit.bit_width(x.type) == 1 else getattr(x, "signed", True)
            self.value = _emit.int_resize(x, ir.IndexType.get(), signed)
        else:
            self.value = integer_payload(Index, x)


def _is_index_value(x: Any) -> bool:
    return isinstance(x, ir.Value) and _emit.is_index_type(x.type)


# In brackets, for type checkers: what the scalar becomes with an int, with a float, and divided by an integer.
class Int4(IntegerOperators["Int32", "Float32", "Float32"], Integer, width=4, signed=True): ...


class Int8(IntegerOperators["Int32", "Float32", "Float32"], Integer, width=8, signed=True, numpy="int8"): ...


class Int16(IntegerOperators["Int32", "Float32", "Float32"], Integer, width=16, signed=True, numpy="int16"): ...


class Int32(IntegerOperators["Int32", "Float32", "Float32"], Integer, width=32, signed=True, numpy="int32"): ...


class Int64(IntegerOperators["Int64", "Float64", "Float64"], Integer, width=64, signed=True, numpy="int64"): ...


class Int128(IntegerOperators["Int128", "Float64", "Float64"], Integer, width=128, signed=True): ...


class Uint8(IntegerOperators["Int32", "Float32", "Float32"], Integer, width=8, signed=False, numpy="uint8"): ...


class Uint16(IntegerOperators["Int32", "Float32", "Float32"], Integer, width=16, signed=False, numpy="uint16"): ...


class Uint32(IntegerOperators["Uint32", "Float32", "Float32"], Integer, width=32, signed=False, numpy="uint32"): ...


class Uint64(IntegerOperators["Uint64", "Float64", "Float64"], Integer, width=64, signed=False, numpy="uint64"): ...


class Uint128(IntegerOperators["Uint128", "Float64", "Float64"], Integer, width=128, signed=False): ...


class Float16(FloatOperators["Float32"], Float, width=16, numpy="float16"):
    """IEEE binary16."""


class BFloat16(FloatOperators["Float32"], Float, width=16):
    """The upper half of binary32: 8 bits of exponent, 7 of mantissa."""


class Float32(FloatOperators["Float32"], Float, width=32, numpy="float32"):
    """IEEE binary32."""


class Float64(FloatOperators["Float64"], Float, width=64, numpy="float64"):
    """IEEE binary64."""


class Float8E5M2(FloatOperators["Float32"], Float, width=8):
    """5 bits of exponent, 2 of mantissa, with infinities (OCP FP8); largest finite 57344."""


class Float8E4M3(FloatOperators["Float32"], Float, width=8):
    """4 bits of exponent, 3 of mantissa, with infinities as in IEEE formats; largest finite 240."""


class Float8E4M3FN(FloatOperators["Float32"], Float, width=8):
    """4 bits of exponent, 3 of mantissa, no infinities (OCP FP8); largest 448."""


class Float8E4M3FNUZ(FloatOperators["Float32"], Float, width=8):
    """4 bits of exponent, 3 of mantissa, no infinities and one zero (gfx942); largest 240."""


class Float8E5M2FNUZ(FloatOperators["Float32"], Float, width=8):
    """5 bits of exponent, 2 of mantissa, no infinities and one zero (gfx942); largest 57344."""


class Float8E4M3B11FNUZ(FloatOperators["Float32"], Float, width=8):
    """4 bits of exponent (bias 11), 3 of mantissa, no infinities and one zero; largest 30."""


class Float8E8M0FNU(FloatOperators["Float32"], Float, width=8):
    """Powers of two from 2**-127 to 2**127, and NaN: the scales of OCP MX formats."""


class Float6E2M3FN(FloatOperators["Float32"], Float, width=6):
    """2 bits of exponent, 3 of mantissa (OCP MX); largest 7.5."""


class Float6E3M2FN(FloatOperators["Float32"], Float, width=6):
    """3 bits of exponent, 2 of mantissa (OCP MX); largest 28."""


class Float4E2M1FN(FloatOperators["Float32"], Float, width=4):
    """2 bits of exponent, 1 of mantissa (OCP MX); largest 6."""


_ALL_INTEGERS = (Boolean, Int4, Int8, Int16, Int32, Int64, Int128, Uint8, Uint16, Uint32, Uint64, Uint128)
_INTEGER_CLASSES: dict[tuple[int, bool | None], Any] = {
    **{(cls.width, cls.signed): cls for cls in _ALL_INTEGERS}, (1, False): Boolean
}
_FLOAT_CLASSES = {
    "f16": Float16, "bf16": BFloat16, "f32": Float32, "f64": Float64,
} | {
    "f" + cls.__name__.removeprefix("Float"): cls
    for cls in (Float8E5M2, Float8E4M3, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2FNUZ, Float8E4M3B11FNUZ,
                Float8E8M0FNU, Float6E2M3FN, Float6E3M2FN, Float4E2M1FN)
}
CLASSES.update((cls.__name__, cls) for cls in (*_ALL_INTEGERS, Index, *_FLOAT_CLASSES.values()))


def _typed_class(value: ir.Value) -> Any:
    """The class of a raw scalar; a signedness attached to an ArithValue is honoured."""
    cls = Numeric.from_ir_type(value.type)
    if getattr(value, "signed", None) is False and isinstance(value.type, ir.IntegerType):
        return _INTEGER_CLASSES.get((value.type.width, False), cls)
    return cls


def _is_scalar(x: Any) -> bool:
    if isinstance(x, (Numeric, bool, int, float)):
        return True
    if isinstance(x, ArithValue):
        return not isinstance(x.type, ir.VectorType)
    return hasattr(x, "__dsl_number__") and x.type.is_leaf


@functions.announce
def as_numeric(value: Any) -> Numeric:
    """`Numeric.from_python_value`."""
    return Numeric.from_python_value(value)


def literal_numeric(value: Any) -> Numeric:
    """An operand: `as_numeric`, but a Python float stays exact until it is converted to the common class."""
    return Float32._wrap(value) if isinstance(value, float) else as_numeric(value)


def _install_operators(cls: type) -> None:
    def forward(name: str) -> Any:
        # Python hands the modulus of pow(a, b, m) on, which no operator takes.
        return lambda self, other, *modulus: NotImplemented if modulus else self._binary(name, other)

    def backward(name: str) -> Any:
        return lambda self, other: self._binary(name, other, True)

    for name, op in OPERATORS.items():
        base = name.rstrip("_")
        setattr(cls, f"__{base}__", forward(name))
        if op.group != "compare":
            setattr(cls, f"__r{base}__", backward(name))


_install_operators(Numeric)
