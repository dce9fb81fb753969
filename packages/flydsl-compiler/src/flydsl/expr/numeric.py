"""Scalar numeric types: static Python numbers or dynamic SSA values with exact promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, diagnostics
from flydsl.tracing.locations import dsl_loc_tracing

from . import _emit
from ._abi import c_abi_entry
from ._operators import COMMUTATIVE, OPERATORS, Operator, emit_binary, fold
from ._payload import check_rounding_mode, float_payload, integer_payload, is_single_lane, numpy_scalar
from .promotion import common_type, operand_and_result_types
from .utils.arith import ArithValue, raw_select

__all__ = [
    "NumericMeta", "Numeric", "Integer", "Float", "as_numeric", "Boolean", "Int4", "Int8", "Int16", "Int32", "Int64",
    "Int128", "Uint8", "Uint16", "Uint32", "Uint64", "Uint128", "Float16", "BFloat16", "Float32", "Float64",
    "Float8E5M2", "Float8E4M3", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E4M3B11FNUZ", "Float8E8M0FNU",
    "Float6E2M3FN", "Float6E3M2FN", "Float4E2M1FN", "Index",
]

_MLIR_FLOAT = {
    "Float16": "F16Type", "BFloat16": "BF16Type", "Float": "F32Type", "Float32": "F32Type", "Float64": "F64Type",
}


class NumericMeta(type):
    """Metaclass of the numeric types: type-level facts (width, signedness, MLIR and NumPy types)."""

    _width: int
    _signed: bool | None
    _numpy_name: str | None
    _wrap: Any

    def __str__(cls) -> str:
        return cls.__name__

    @property
    def width(cls) -> int:
        """Width in bits."""
        return cls._width

    @property
    def log_width(cls) -> int:
        return (cls._width - 1).bit_length()

    @property
    def signed(cls) -> bool | None:
        """True or False for integers, None for floats."""
        return cls._signed

    @property
    def is_integer(cls) -> bool:
        return cls._signed is not None

    @property
    def is_float(cls) -> bool:
        return cls._signed is None

    @property
    def zero(cls) -> int | float:
        return 0 if cls.is_integer else 0.0

    @property
    def ir_type(cls) -> ir.Type:
        """The MLIR type, built afresh in the current context."""
        if cls.__name__ == "Index":
            return ir.IndexType.get()
        if cls.is_integer:
            return ir.IntegerType.get_signless(cls._width)
        return getattr(ir, _MLIR_FLOAT.get(cls.__name__, cls.__name__ + "Type")).get()

    @property
    def numpy_dtype(cls) -> Any:
        """The NumPy dtype, or None where NumPy has none."""
        import numpy as np

        name = cls._numpy_name
        return None if name is None else np.dtype(name)


class Numeric(metaclass=NumericMeta):
    """A scalar: `value` holds a Python number (static) or an `ir.Value` (dynamic).

    A static value is what the dynamic one would be: integers wrap and floats are rounded to their class at
    each step.
    """

    if TYPE_CHECKING:  # set by the subclasses and by the operator table

        def __init__(self, x: Any) -> None: ...
        def __add__(self, other: Any) -> Numeric: ...
        def __radd__(self, other: Any) -> Numeric: ...
        def __sub__(self, other: Any) -> Numeric: ...
        def __rsub__(self, other: Any) -> Numeric: ...
        def __mul__(self, other: Any) -> Numeric: ...
        def __rmul__(self, other: Any) -> Numeric: ...
        def __truediv__(self, other: Any) -> Numeric: ...
        def __rtruediv__(self, other: Any) -> Numeric: ...
        def __floordiv__(self, other: Any) -> Numeric: ...
        def __rfloordiv__(self, other: Any) -> Numeric: ...
        def __mod__(self, other: Any) -> Numeric: ...
        def __rmod__(self, other: Any) -> Numeric: ...
        def __pow__(self, other: Any) -> Numeric: ...
        def __rpow__(self, other: Any) -> Numeric: ...
        def __and__(self, other: Any) -> Numeric: ...
        def __rand__(self, other: Any) -> Numeric: ...
        def __or__(self, other: Any) -> Numeric: ...
        def __ror__(self, other: Any) -> Numeric: ...
        def __xor__(self, other: Any) -> Numeric: ...
        def __rxor__(self, other: Any) -> Numeric: ...
        def __lshift__(self, other: Any) -> Numeric: ...
        def __rlshift__(self, other: Any) -> Numeric: ...
        def __rshift__(self, other: Any) -> Numeric: ...
        def __rrshift__(self, other: Any) -> Numeric: ...
        def __lt__(self, other: Any) -> Boolean: ...
        def __le__(self, other: Any) -> Boolean: ...
        def __gt__(self, other: Any) -> Boolean: ...
        def __ge__(self, other: Any) -> Boolean: ...
        def __eq__(self, other: Any) -> Boolean: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> Boolean: ...  # type: ignore[override]
        def __invert__(self) -> Numeric: ...

    _width: ClassVar[int] = 32
    _signed: ClassVar[bool | None] = None
    _numpy_name: ClassVar[str | None] = None
    # Lets ``numpy_scalar + x`` reach our reflected operators.
    __array_priority__ = 1000
    __slots__ = ("value",)

    value: Any

    def __new__(cls, x: Any = None) -> Any:
        # A vector is converted lane by lane; one of a single lane is a scalar.
        if isinstance(x, ir.Value) and isinstance(x.type, ir.VectorType) and not is_single_lane(x):
            from ._vector import Vector

            return (x if isinstance(x, Vector) else Vector(x)).to(cls)
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
        raise ValueError(f"cannot make a Numeric from {value!r} ({type(value).__name__})")

    @staticmethod
    def from_ir_type(ty: ir.Type) -> Any:
        """The Numeric class of an MLIR scalar type. Signless integers map to the signed classes."""
        if isinstance(ty, ir.IndexType):
            return Index
        if isinstance(ty, ir.IntegerType):
            cls = _INTEGER_CLASSES.get((ty.width, not ty.is_unsigned))
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

    @dsl_loc_tracing
    def to(self, target: Any, *, rounding_mode: Any = None) -> Numeric:
        """Convert to a Numeric class, `ir.Value`, or (static only) a Python number type.

        `rounding_mode` is for float-to-float conversion of dynamic values.
        """
        if isinstance(target, NumericMeta):
            return self._to_class(target, rounding_mode)
        if rounding_mode is not None:
            raise TypeError("rounding_mode applies to conversions between float types only")
        if target is ir.Value:
            return self.ir_value()  # type: ignore[return-value]
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
        return self._select_vector(condition, true_value, false_value)

    @staticmethod
    def _select_vector(condition: Any, a: Any, b: Any) -> Any:
        from ._vector import Vector, _common_shape

        shaped = a if isinstance(a, Vector) else b
        if not isinstance(shaped, Vector):
            return raw_select(condition.ir_value(), a, b)
        shape, order = shaped.shape, shaped.order
        if isinstance(a, Vector) and isinstance(b, Vector):
            common = common_type(a.dtype, b.dtype)
            if len(a) != len(b):
                shape, order = _common_shape(a, b)
        else:
            # A literal takes the vector's type; a typed scalar is converted to it as well.
            common = shaped.dtype
        a, b = (Vector._as_operand(x, common, shape, order) for x in (a, b))
        return Vector(arith.select(condition.ir_value(), a, b), shape, common, order=order)

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
        return str(self.value) if self.is_static() else "?"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    # ---------------------------------------------------------------- operators

    def _binary(self, name: str, other: Any, flip: bool = False) -> Any:
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

    # ---------------------------------------------------------------- deprecated methods

    def _forward(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return type(self)(getattr(self.ir_value(), name)(*args, **kwargs))

    def maximumf(self, other: Any, fastmath: Any = None) -> Any:
        """Deprecated: `fx.max`."""
        return self._forward("maximumf", self._same(other), fastmath=fastmath)

    def minimumf(self, other: Any, fastmath: Any = None) -> Any:
        """Deprecated: `fx.min`."""
        return self._forward("minimumf", self._same(other), fastmath=fastmath)

    def addf(self, other: Any, fastmath: Any = None) -> Any:
        """Deprecated: ``x + y`` inside `fx.fastmath`."""
        return self._forward("addf", self._same(other), fastmath=fastmath)

    def exp2(self, fastmath: Any = None) -> Any:
        """Deprecated: `fx.math.exp2`."""
        return self._forward("exp2", fastmath=fastmath)

    def shuffle_xor(self, offset: Any, width: Any) -> Any:
        """Deprecated: `fx.gpu.shuffle_xor`."""
        return self._forward("shuffle_xor", offset, width)

    def shrui(self, n: Any) -> Any:
        """Deprecated: `fx.arith.shrui`."""
        return self._forward("shrui", self._same(n))

    def _same(self, other: Any) -> Any:
        return type(self)(other) if isinstance(other, (int, float)) else other

    # ---------------------------------------------------------------- protocols

    def __extract_to_ir_values__(self) -> list[ir.Value]:
        return [self.ir_value()]

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        if len(values) != 1:
            raise ValueError(f"{cls.__name__}: expected 1 ir.Values, got {len(values)}")
        return cls(values[0])

    def __get_ir_types__(self) -> list[ir.Type]:
        return [type(self).ir_type]

    def __cache_signature__(self) -> Any:
        return (type(self),)

    def __c_abi_spec__(self) -> list[Any]:
        return [c_abi_entry(type(self))]

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        try:
            return cls(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}") from error

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

    @classmethod
    def __dsl_size_of__(cls) -> int:
        if cls.width < 8:
            raise TypeError(f"{cls.__name__} is narrower than a byte and not Storable")
        return cls.width // 8

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return cls.__dsl_size_of__()

    @classmethod
    def __peek_from_ptr__(cls, ptr: Any) -> Any:
        from .primitive import ptr_load, recast_iter

        return ptr_load(recast_iter(cls, ptr), cls)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Any, value: Any) -> None:
        from .primitive import ptr_store, recast_iter

        ptr_store(cls(value), recast_iter(cls, ptr))


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


class Boolean(Integer):
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
        elif isinstance(x, ir.Value) and not isinstance(x.type, ir.VectorType):
            self.value = _emit.to_i1(x)
        else:
            raise ValueError(f"{type(x).__name__} to Boolean conversion is not supported")

    def __invert__(self) -> Any:
        return Boolean(not self.value) if self.is_static() else super().__invert__()


class Index(Integer):
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


def _make(name: str, base: type, width: int, signed: bool | None, numpy_name: str | None = None) -> Any:
    namespace = {
        "_width": width, "_signed": signed, "_numpy_name": numpy_name, "__slots__": (),
        "__doc__": f"{width}-bit {'float' if signed is None else 'signed integer' if signed else 'unsigned integer'}.",
        "__module__": __name__,
    }
    return NumericMeta(name, (base,), namespace)


Int4: Any = _make("Int4", Integer, 4, True)
Int8: Any = _make("Int8", Integer, 8, True, "int8")
Int16: Any = _make("Int16", Integer, 16, True, "int16")
Int32: Any = _make("Int32", Integer, 32, True, "int32")
Int64: Any = _make("Int64", Integer, 64, True, "int64")
Int128: Any = _make("Int128", Integer, 128, True)
Uint8: Any = _make("Uint8", Integer, 8, False, "uint8")
Uint16: Any = _make("Uint16", Integer, 16, False, "uint16")
Uint32: Any = _make("Uint32", Integer, 32, False, "uint32")
Uint64: Any = _make("Uint64", Integer, 64, False, "uint64")
Uint128: Any = _make("Uint128", Integer, 128, False)
Float16: Any = _make("Float16", Float, 16, None, "float16")
BFloat16: Any = _make("BFloat16", Float, 16, None)
Float32: Any = _make("Float32", Float, 32, None, "float32")
Float64: Any = _make("Float64", Float, 64, None, "float64")
Float8E5M2: Any = _make("Float8E5M2", Float, 8, None)
Float8E4M3: Any = _make("Float8E4M3", Float, 8, None)
Float8E4M3FN: Any = _make("Float8E4M3FN", Float, 8, None)
Float8E4M3FNUZ: Any = _make("Float8E4M3FNUZ", Float, 8, None)
Float8E5M2FNUZ: Any = _make("Float8E5M2FNUZ", Float, 8, None)
Float8E4M3B11FNUZ: Any = _make("Float8E4M3B11FNUZ", Float, 8, None)
Float8E8M0FNU: Any = _make("Float8E8M0FNU", Float, 8, None)
Float6E2M3FN: Any = _make("Float6E2M3FN", Float, 6, None)
Float6E3M2FN: Any = _make("Float6E3M2FN", Float, 6, None)
Float4E2M1FN: Any = _make("Float4E2M1FN", Float, 4, None)

_ALL_INTEGERS = (Boolean, Int4, Int8, Int16, Int32, Int64, Int128, Uint8, Uint16, Uint32, Uint64, Uint128)
_INTEGER_CLASSES = {(cls.width, cls.signed): cls for cls in _ALL_INTEGERS} | {(1, False): Boolean}
_FLOAT_CLASSES = {
    "f16": Float16, "bf16": BFloat16, "f32": Float32, "f64": Float64,
} | {
    "f" + cls.__name__.removeprefix("Float"): cls
    for cls in (Float8E5M2, Float8E4M3, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2FNUZ, Float8E4M3B11FNUZ,
                Float8E8M0FNU, Float6E2M3FN, Float6E3M2FN, Float4E2M1FN)
}


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


def as_numeric(value: Any) -> Numeric:
    """`Numeric.from_python_value`."""
    return Numeric.from_python_value(value)


def literal_numeric(value: Any) -> Numeric:
    """An operand: `as_numeric`, but a Python float stays exact until it is converted to the common class."""
    return Float32._wrap(value) if isinstance(value, float) else as_numeric(value)


def _install_operators(cls: type) -> None:
    for name, op in OPERATORS.items():
        base = name.rstrip("_")

        def forward(self: Any, other: Any, _n: str = name) -> Any:
            return self._binary(_n, other)

        def backward(self: Any, other: Any, _n: str = name) -> Any:
            return self._binary(_n, other, True)

        setattr(cls, f"__{base}__", forward)
        if op.group != "compare":
            setattr(cls, f"__r{base}__", backward)


_install_operators(Numeric)
