"""`Vector`: a register vector with value semantics, a static (possibly nested) shape and a Numeric element type."""

from __future__ import annotations

import math as _pymath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, vector
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import numpy_scalar

from . import _emit
from ._functions import functions
from ._lanes import (
    FragmentLanes,
    broadcast_mask,
    broadcast_shapes,
    common_order,
    flatten_shape,
    lane_of,
    numel,
    reduction_masks,
)
from ._operators import COMMUTATIVE, OPERATORS, emit_binary
from ._payload import check_rounding_mode
from ._promotes import Operators
from ._reductions import ELEMENTWISE, combining_kind
from .numeric import Boolean, Numeric, NumericMeta, as_numeric, literal_numeric
from .promotion import common_type, operand_and_result_types
from .utils.arith import ArithValue, raw_select

DYNAMIC_SENTINEL = -(2**63)


def normalize_shape(shape: Any) -> tuple[Any, ...]:
    """`shape` as nested tuples of ints; an int means a one-mode shape."""
    if hasattr(shape, "to_py_value"):
        shape = shape.to_py_value()
    if isinstance(shape, int) and not isinstance(shape, bool):
        return (shape,)
    if isinstance(shape, (tuple, list)):
        return tuple(s if isinstance(s, int) else normalize_shape(s) for s in shape)
    if isinstance(shape, Numeric) and shape.is_static():
        return (int(shape),)
    raise ValueError(f"a vector shape must be static ints or tuples, got {shape!r}")


if TYPE_CHECKING:
    class _LaneWise(Operators["Vector", "Vector"], ArithValue): ...
else:
    _LaneWise = ArithValue  # the base of an IR value is one class


class Vector(_LaneWise):
    """A flat MLIR ``vector<N x T>`` value with a logical `shape` and a Numeric `dtype`.

    `order` says which coordinate a lane is: ``"colex"`` for what was loaded from a tensor (the first mode runs
    fastest, as in the tensor), ``"row"`` for a shape given by `reshape` or a constructor (the last mode runs
    fastest, as in NumPy), None for equal lanes. Broadcasting, tuple indices and reductions along modes follow it.
    """

    shape: tuple[Any, ...]
    dtype: Any
    order: str | None

    def __init__(self, value: Any, shape: Any = None, dtype: Any = None, *, order: str | None = "row") -> None:
        raw = value if isinstance(value, ir.Value) or not hasattr(value, "ir_value") else value.ir_value()
        if not isinstance(getattr(raw, "type", None), ir.VectorType):
            raise ValueError(f"Vector expects a vector value, got {getattr(raw, 'type', raw)}")
        if dtype is None:
            dtype = getattr(value, "dtype", None) or Numeric.from_ir_type(raw.type.element_type)
        elif not isinstance(dtype, NumericMeta):
            raise TypeError(f"a vector's element type is a Numeric class, got {dtype!r}")
        if dtype.ir_type != raw.type.element_type:
            raise ValueError(f"Vector: dtype {dtype} does not match the element type {raw.type.element_type}")
        super().__init__(raw, bool(dtype.signed))
        if shape is None:
            shape = value.shape if isinstance(value, Vector) else tuple(raw.type.shape)
        shape = normalize_shape(shape)
        lanes = _pymath.prod(raw.type.shape)
        if numel(shape) != lanes:
            raise ValueError(f"Vector: shape {shape} does not have the {lanes} lanes of the value")
        self.shape = shape
        self.dtype = dtype
        same = isinstance(value, Vector) and flatten_shape(value.shape) == flatten_shape(shape)
        self.order = value.order if same and order == "row" else order

    def _like(self, value: Any, dtype: Any) -> Vector:
        """`value` with the shape and order of this vector."""
        return Vector(value, self.shape, dtype, order=self.order)

    def __class_getitem__(cls, params: Any) -> Any:
        if not isinstance(params, tuple) or len(params) != 2:
            raise TypeError("Vector takes [element type, lanes], e.g. fx.Vector[fx.Float32, 4]")
        return functions.VectorAlias(*params)

    # ---------------------------------------------------------------- construction

    @staticmethod
    def make_type(shape: Any, dtype: Any) -> ir.Type:
        """``vector<numel x T>``."""
        return ir.VectorType.get([numel(normalize_shape(shape))], _emit.mlir_type(dtype))

    @classmethod
    @dsl_loc_tracing
    def filled(cls, shape: Any, value: Any, dtype: Any) -> Vector:
        """A vector whose lanes all hold `value` (a Python number or Numeric), converted to `dtype`."""
        if isinstance(value, ir.Value):
            raise ValueError("fill value must be a Python number or a Numeric; wrap a raw value, e.g. fx.Float32(v)")
        if not isinstance(dtype, NumericMeta):
            raise TypeError(f"a vector's element type is a Numeric class, got {dtype!r}")
        shape = normalize_shape(shape)
        return Vector(cls._as_operand(value, dtype, shape), shape, dtype, order=None)

    @classmethod
    def filled_like(cls, template: Any, value: Any, dtype: Any = None) -> Vector:
        """Like `filled`, with the shape and (by default) the dtype of `template`."""
        if not hasattr(template, "shape") or not hasattr(template, "dtype"):
            raise TypeError(f"expected a Vector or a Tensor to be like, got {template!r}")
        return cls.filled(template.shape, value, dtype if dtype is not None else template.dtype)

    @classmethod
    def zeros_like(cls, template: Any, dtype: Any = None) -> Vector:
        """Zeros of the shape of `template` and, unless another is given, of its type."""
        return cls.filled_like(template, 0, dtype)

    @classmethod
    @dsl_loc_tracing
    def from_elements(cls, elements: Any, dtype: Any = None) -> Vector:
        """A vector of the given scalars, each converted to `dtype` (default: the first element's type)."""
        elements = list(elements)
        if not elements:
            raise ValueError("from_elements needs at least one element")
        dtype = dtype if dtype is not None else type(as_numeric(elements[0]))
        values = [dtype(e).ir_value() for e in elements]
        ty = ir.VectorType.get([len(values)], dtype.ir_type)
        return Vector(vector.from_elements(ty, values), (len(values),), dtype)

    @classmethod
    @dsl_loc_tracing
    def load(cls, result_type: ir.Type, memref: Any, indices: Any) -> Vector:
        """`vector.load` from a builtin memref; Python ints become index constants."""
        return Vector(vector.load(result_type, memref, index_operands(indices)))

    @staticmethod
    def _as_operand(x: Any, dtype: Any, shape: tuple[Any, ...], order: str | None = None) -> ir.Value:
        """`x` converted to `dtype` and broadcast to `shape`, as a plain vector value."""
        ty = ir.VectorType.get([numel(shape)], dtype.ir_type)
        if isinstance(x, Vector):
            return x.to(dtype)._broadcast(shape, order if order is not None else x.order)
        scalar = dtype(literal_numeric(x))
        if scalar.is_static():
            return _emit.constant(ty, scalar.value)
        return vector.broadcast(ty, scalar.ir_value())

    # ---------------------------------------------------------------- properties

    @property
    def element_type(self) -> Any:
        """Numeric class of the lanes."""
        return self.dtype

    @property
    def numel(self) -> int:
        """Number of lanes."""
        return numel(self.shape)

    def __len__(self) -> int:
        return self.numel

    def ir_value(self) -> Vector:
        """The vector itself, which is an SSA value."""
        return self

    def __hash__(self) -> int:
        return ir.Value.__hash__(self)

    def __str__(self) -> str:
        return f"Vector({self.type} o {self.shape}, {self.dtype})"

    __repr__ = __str__

    # ---------------------------------------------------------------- indexing

    @overload
    def __getitem__(self, index: int | Numeric) -> Numeric: ...
    @overload
    def __getitem__(self, index: Any) -> Any: ...
    @dsl_loc_tracing
    def __getitem__(self, index: Any) -> Any:
        """A lane by flat index (int or dynamic), or by a full tuple (in `order`); `None` keeps a mode."""
        if index is None:
            return self
        if isinstance(index, (slice, str)):
            raise TypeError(f"Vector indices are integers, values or tuples, not {type(index).__name__}")
        if isinstance(index, (tuple, list)):
            return self._tuple_item(tuple(index))
        index = numpy_scalar(index)
        if isinstance(index, Numeric) and index.is_static():
            index = int(index)
        if isinstance(index, int):
            lane = index + self.numel if index < 0 else index
            if not 0 <= lane < self.numel:
                raise IndexError(f"lane {index} is out of range for a vector of {self.numel} lanes")
            return self._lane(lane)
        if not isinstance(index, (ir.Value, Numeric)):
            raise TypeError(f"Vector indices are integers, values or tuples, not {type(index).__name__}")
        position = _emit.to_index(index if isinstance(index, ir.Value) else index.ir_value())
        return self.dtype._wrap(vector.extract(self._flat(), [position], [DYNAMIC_SENTINEL]))

    def _flat(self) -> ir.Value:
        if len(self.type.shape) == 1:
            return self
        return vector.shape_cast(ir.VectorType.get([self.numel], self.type.element_type), self)

    def _lane(self, lane: int) -> Any:
        return self.dtype._wrap(vector.extract(self._flat(), [], [lane]))

    def _tuple_item(self, index: tuple[Any, ...]) -> Any:
        flat_index = _flatten_index(index, self.shape)
        sizes = flatten_shape(self.shape)
        fixed = [None if i is None else _checked_coordinate(i, s) for i, s in zip(flat_index, sizes, strict=True)]
        if None not in fixed:
            return self._lane(lane_of(tuple(fixed), sizes, self.order))  # type: ignore[arg-type]
        kept, masks = reduction_masks([None if i is None else _ints(i) for i in index], self.shape, self.order)
        # The lanes of the one step of a "reduction" over the fixed coordinates that has these coordinates.
        step = lane_of(tuple(i for i in fixed if i is not None),
                       tuple(n for i, n in zip(fixed, sizes, strict=True) if i is not None), self.order)
        return Vector(vector.shuffle(self._flat(), self._flat(), masks[step]), kept, self.dtype, order=self.order)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.numel))

    # ---------------------------------------------------------------- shape and conversion

    def reshape(self, shape: Any) -> Vector:
        """The same lanes under another logical shape, whose last mode runs fastest."""
        shape = normalize_shape(shape)
        return self if shape == self.shape else Vector(self, shape, self.dtype)

    @dsl_loc_tracing
    def broadcast_to(self, shape: Any) -> Vector:
        """The vector repeated along the modes of `shape` where it has one element.

        Modes are matched from the last one, as in NumPy, and may be nested; the order of the lanes is kept.
        ValueError when the shape does not broadcast.
        """
        return self._broadcast(normalize_shape(shape), self.order)

    def _broadcast(self, shape: tuple[Any, ...], order: str | None) -> Vector:
        if flatten_shape(shape) == flatten_shape(self.shape) or numel(shape) == self.numel == 1:
            return Vector(self, shape, self.dtype, order=order)
        if self.numel == 1:
            ty = ir.VectorType.get([numel(shape)], self.type.element_type)
            return Vector(vector.broadcast(ty, self._lane(0).ir_value()), shape, self.dtype, order=None)
        mask = broadcast_mask(self.shape, shape, order)
        lanes = self if mask == list(range(self.numel)) else vector.shuffle(self, self, mask)
        return Vector(lanes, shape, self.dtype, order=order)

    @dsl_loc_tracing
    def to(self, dtype: Any, *, rounding_mode: Any = None) -> Vector:
        """Lane-wise conversion to a Numeric class; the shape is kept."""
        if dtype is ir.Value:
            return self
        if not isinstance(dtype, NumericMeta):
            raise TypeError(f"Vector.to expects a Numeric class, got {dtype!r}")
        if rounding_mode is not None:
            check_rounding_mode(self.dtype, dtype, rounding_mode)
        if dtype is self.dtype:
            return self
        return self._like(self._converted(dtype, rounding_mode), dtype)

    def _converted(self, dtype: Any, rounding_mode: Any) -> ir.Value:
        source = self.dtype
        if dtype is Boolean:
            return _emit.to_i1(self)
        if source.is_float and dtype.is_float:
            return _emit.float_to_float(self, dtype.ir_type, rounding_mode)
        if source.is_float:
            return _emit.float_to_int(self, dtype.ir_type, bool(dtype.signed))
        if dtype.is_float:
            return _emit.to_float(self, dtype.ir_type, source.signed)
        return _emit.int_resize(self, dtype.ir_type, source.signed)

    @overload
    def bitcast(self, dtype: NumericMeta) -> Vector: ...
    @overload
    def bitcast(self, dtype: Any) -> Any: ...
    @dsl_loc_tracing
    def bitcast(self, dtype: Any) -> Any:
        """Reinterpret the bits; the result has shape ``(total_bits // dtype.width,)``."""
        if isinstance(dtype, ir.Type):
            return vector.bitcast(dtype, self)
        if not isinstance(dtype, NumericMeta):
            raise TypeError(f"bitcast expects a Numeric class, got {dtype!r}")
        bits = self.numel * self.dtype.width
        if bits % dtype.width:
            raise ValueError(f"cannot bitcast {bits} bits to lanes of {dtype.width} bits")
        lanes = bits // dtype.width
        return Vector(vector.bitcast(ir.VectorType.get([lanes], dtype.ir_type), self._flat()), (lanes,), dtype)

    @dsl_loc_tracing
    def shuffle(self, other: Any, mask: Any) -> Vector:
        """Lanes picked by `mask` (static ints) from the concatenation of this and `other`."""
        other = other if isinstance(other, Vector) else Vector(other)
        if other.type.element_type != self.type.element_type:
            raise TypeError(f"shuffle needs another vector of {self.type.element_type}, got {other.type}")
        mask, lanes = [int(m) for m in mask], self.numel + other.numel
        if not mask or not all(0 <= m < lanes for m in mask):
            raise ValueError(f"a shuffle mask has one lane or more, each from 0 to {lanes - 1}, got {mask}")
        return Vector(vector.shuffle(self, other, mask), (len(mask),), self.dtype)

    @dsl_loc_tracing
    def select(self, a: Any, b: Any) -> Any:
        """Lane-wise choice with this vector as the condition; shapes broadcast, scalar branches are splat."""
        a, b = (x if isinstance(x, Vector) else literal_numeric(x) for x in (a, b))
        common = common_type(a.dtype, b.dtype)
        shape, order = _common_shape(self, a, b)
        lanes = [Vector._as_operand(x, common, shape, order) for x in (a, b)]
        return Vector(arith.select(self.to(Boolean)._broadcast(shape, order), *lanes), shape, common, order=order)

    @dsl_loc_tracing
    def store(self, memref: Any, indices: Any, *, alignment: int | None = None) -> None:
        """`vector.store` to a builtin memref."""
        vector.store(self, memref, index_operands(indices), alignment=alignment)

    @dsl_loc_tracing
    def reduce(self, op: Any, init_val: Any = None, reduction_profile: Any = None, *, fastmath: Any = None) -> Any:
        """Reduce with `op` (a ReductionOp, its name, or a CombiningKind).

        Args:
            init_val: a further operand, converted to `dtype`.
            reduction_profile: None (or an int) reduces all lanes to one scalar of `dtype`. A tuple like the shape
                reduces along the modes whose entry is an int and keeps those with None: the result is a Vector of
                the kept modes. ValueError when it does not match the shape.
        """
        text = combining_kind(op, self.dtype)
        if reduction_profile is not None and not isinstance(reduction_profile, int):
            return self._reduce_modes(text, init_val, reduction_profile, fastmath)
        kind = ir.Attribute.parse(f"#vector.kind<{text}>")
        acc = None if init_val is None else self.dtype(init_val).ir_value()
        fm = _emit.fastmath_attr(fastmath) if self.dtype.is_float else None
        return self.dtype._wrap(vector.reduction(self.dtype.ir_type, kind, self._flat(), acc=acc, fastmath=fm))

    def _reduce_modes(self, kind: str, init_val: Any, profile: Any, fastmath: Any) -> Any:
        kept, masks = reduction_masks(profile, self.shape, self.order)
        if kept is None:
            return self.reduce(kind, init_val, fastmath=fastmath)
        flags = {"fastmath": _emit.fastmath_attr(fastmath)} if self.dtype.is_float else {}
        op = getattr(arith, ELEMENTWISE.get((kind, self.dtype.is_float), kind))
        flat = self._flat()
        parts = [vector.shuffle(flat, flat, mask) for mask in masks]
        if init_val is not None:
            parts.insert(0, Vector._as_operand(init_val, self.dtype, kept, self.order))
        result = parts[0]
        for part in parts[1:]:
            result = op(result, part, **flags)
        return Vector(result, kept, self.dtype, order=self.order)

    # ---------------------------------------------------------------- operators

    def apply_op(self, op: Any, other: Any, flip: bool = False) -> Any:
        """Dispatch a function of the `operator` module."""
        if getattr(op, "__name__", None) not in OPERATORS:
            raise TypeError(f"apply_op takes a binary function of the operator module, got {op!r}")
        return self._binary(op.__name__, other, flip)

    @dsl_loc_tracing
    def _binary(self, name: str, other: Any, flip: bool = False, fastmath: Any = None) -> Any:
        other = numpy_scalar(other)
        if not isinstance(other, (Vector, Numeric, bool, int, float, ArithValue)):
            return NotImplemented
        op = OPERATORS[name]
        if not isinstance(other, Vector):
            other = literal_numeric(other)
        shape, order = _common_shape(self, other)
        flip = flip and name not in COMMUTATIVE
        types = (other.dtype, self.dtype) if flip else (self.dtype, other.dtype)
        operand, result = operand_and_result_types(op, *types)
        a, b = (Vector._as_operand(x, operand, shape, order) for x in (self, other))
        if flip:
            a, b = b, a
        signed = operand.signed if operand is not Boolean else False
        return Vector(emit_binary(op, a, b, signed, fastmath), shape, result, order=order)

    @dsl_loc_tracing
    def __neg__(self) -> Vector:
        if self.dtype is Boolean:
            raise TypeError("bad operand type for unary -: a Vector of Boolean")
        return self._like(_emit.emit_neg(self), self.dtype)

    @dsl_loc_tracing
    def __abs__(self) -> Vector:
        return self if self.dtype.signed is False else self._like(_emit.emit_abs(self), self.dtype)

    @dsl_loc_tracing
    def __invert__(self) -> Vector:
        return self._like(_emit.emit_invert(self), self.dtype)

    def _float_op(self, name: str, other: Any, fastmath: Any) -> Any:
        literal = isinstance(other, (int, float))
        value = Vector._as_operand(other, self.dtype, self.shape) if literal else self._coerce(other)
        return self._like(getattr(arith, name)(self, value, fastmath=_emit.fastmath_attr(fastmath)), self.dtype)

    def __dsl_not__(self) -> Any:
        return ~self.to(Boolean)

    # ---------------------------------------------------------------- protocol

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        if len(values) != 1:
            raise ValueError(f"Vector: expected 1 ir.Values, got {len(values)}")
        if isinstance(exemplar, Vector):
            return exemplar._like(values[0], exemplar.dtype)
        return cls(values[0])


def _flatten_index(index: Any, shape: Any) -> list[Any]:
    if index is None:
        return [None] * len(flatten_shape(shape))
    if isinstance(shape, int):
        if isinstance(index, Numeric) and index.is_static():
            index = int(index)
        if not isinstance(index, int):
            raise ValueError(f"vector tuple indices must be static ints or None, got {index!r}")
        return [index]
    if not isinstance(index, (tuple, list)) or len(index) != len(shape):
        raise ValueError(f"vector index {index!r} does not match the shape {shape}")
    return [leaf for i, s in zip(index, shape, strict=True) for leaf in _flatten_index(i, s)]


def _checked_coordinate(i: int, size: int) -> int:
    coordinate = i + size if i < 0 else i
    if not 0 <= coordinate < size:
        raise IndexError(f"vector coordinate {i} is out of range for extent {size}")
    return coordinate


def _ints(index: Any) -> Any:
    """A part of a tuple index as a reduction profile: ints and None."""
    return tuple(None if i is None else _ints(i) for i in index) if isinstance(index, (tuple, list)) else 0


def _common_shape(*operands: Any) -> tuple[Any, str | None]:
    """Shape and order of the result of Vectors and scalars. ValueError when they do not broadcast."""
    shape: Any = None
    order: str | None = None
    for x in operands:
        if isinstance(x, Vector):
            if shape is None:
                shape, order = x.shape, x.order
            else:
                found = common_order((shape, order), (x.shape, x.order))
                common = broadcast_shapes(shape, x.shape)
                if numel(shape) != numel(x.shape):
                    _check_elements((shape, order), (x.shape, x.order), common)
                # Whose lanes they are is known of the operand that has them all.
                of_fragment = [o for s, o in ((shape, order), (x.shape, x.order))
                               if isinstance(o, FragmentLanes) and s == common and (found is None or found == o)]
                shape, order = common, of_fragment[0] if of_fragment else found
    return shape, order


def _check_elements(a: tuple[Any, str | None], b: tuple[Any, str | None], common: Any) -> None:
    """ValueError where lanes of two fragments meet that are about different elements of their tile."""
    (small, own), (large, other) = sorted((a, b), key=lambda operand: numel(operand[0]))
    if numel(small) == 1 or large != common or not (isinstance(own, FragmentLanes) and
                                                    isinstance(other, FragmentLanes)):
        return
    problem = functions.broadcast_problem(own.fragment, other.fragment, broadcast_mask(small, large, "colex"))
    if problem:
        raise ValueError(f"vectors of shapes {small} and {large}: {problem}")


def index_operands(indices: Any) -> list[ir.Value]:
    """Indices for builtin memref ops: ints, Numerics or values as index values."""
    if not isinstance(indices, (tuple, list)):
        indices = [indices]
    out = []
    for i in indices:
        if isinstance(i, int):
            out.append(_emit.constant(ir.IndexType.get(), i))
        elif not isinstance(i, ir.Value) and not hasattr(i, "ir_value"):
            raise TypeError(f"indices are ints and integer values, got {i!r}")
        else:
            out.append(_emit.to_index(i if isinstance(i, ir.Value) else i.ir_value()))
    return out


def _cast(value: ir.Value) -> Any:
    try:
        return Vector(value)
    except ValueError:  # an element type outside the numeric tower, e.g. a vector of pointers
        return ArithValue(value)


ir.register_value_caster(ir.VectorType.static_typeid, replace=True)(_cast)


# --------------------------------------------------------------------------- functions


@functions.announce
def as_vector(value: ir.Value) -> Vector:
    """A value of vector type as a Vector."""
    return value if isinstance(value, Vector) else Vector(value)


@functions.announce
def select_lanes(condition: Numeric, a: Any, b: Any) -> Any:
    """`a` where the scalar condition holds, else `b`: Vectors, or raw values, against each other or a scalar."""
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


def full(shape: Any, value: Any, dtype: Any) -> Vector:
    """`Vector.filled`."""
    return Vector.filled(shape, value, dtype)


def full_like(template: Any, value: Any, dtype: Any = None) -> Vector:
    """`Vector.filled_like`."""
    return Vector.filled_like(template, value, dtype)


def zeros_like(template: Any, dtype: Any = None) -> Vector:
    """A vector of zeros with the shape of `template`, and its element type unless `dtype` is given."""
    return Vector.filled_like(template, 0, dtype)


def ones_like(template: Any, dtype: Any = None) -> Vector:
    """A vector of ones with the shape of `template`, and its element type unless `dtype` is given."""
    return Vector.filled_like(template, 1, dtype)


def empty_like(template: Any, dtype: Any = None) -> Vector:
    """A vector of zeros (registers have no uninitialised form)."""
    return Vector.filled_like(template, 0, dtype)
