"""Classes of vectors of one shape and element type, such as ``fx.Float32x4``."""

from __future__ import annotations

import functools
import math
from typing import Any

from flydsl._mlir import ir

from ._functions import functions
from ._lanes import flatten_shape, numel
from ._numeric_class import NumericMeta
from ._vector import Vector, normalize_shape
from .utils.classattr import lazy_classattr


def _constructor_arguments(
    lanes: int, value: Any, rest: tuple[Any, ...], shape: Any, dtype: Any
) -> tuple[Any, Any, Any]:
    """(value, shape, dtype) of ``(value[, shape[, dtype]])`` as of `Vector`, or of ``(lane, lane, ...)``."""
    is_splat_of_shape = len(rest) == 1 and rest[0] == lanes != 2
    is_of_lanes = not is_splat_of_shape and not isinstance(value, (tuple, list, ir.Value))
    if len(rest) > 2 or rest and is_of_lanes:
        return (value, *rest), shape, dtype
    return value, (rest[0] if rest else shape), (rest[1] if len(rest) == 2 else dtype)


@functools.cache
def _vector_alias(dtype: Any, shape: tuple[Any, ...], name: str) -> Any:
    lanes, own_shape, own_dtype = numel(shape), shape, dtype

    def lanes_of(value: Any) -> Any:
        """A sequence of the lanes, a vector or a scalar as a vector of this type."""
        if isinstance(value, (tuple, list)):
            if len(value) != lanes:
                raise ValueError(f"{name}: expected {lanes} elements, got {len(value)}")
            return Vector.from_elements(value, own_dtype)
        if isinstance(value, ir.Value) and isinstance(value.type, ir.VectorType):
            return value
        return Vector._as_operand(value, own_dtype, own_shape)

    def __init__(self: Any, value: Any, *rest: Any, shape: Any = None, dtype: Any = None) -> None:
        value, shape, dtype = _constructor_arguments(lanes, value, rest, shape, dtype)
        if shape is not None and numel(normalize_shape(shape)) != lanes:
            raise ValueError(f"{name}: shape {shape} does not have {lanes} lanes")
        if dtype is not None and dtype is not own_dtype:
            raise ValueError(f"{name}: dtype must be {own_dtype}, got {dtype}")
        value = lanes_of(value)
        if math.prod(value.type.shape) != lanes:
            raise ValueError(f"{name}: expected {lanes} lanes, got {value.type}")
        Vector.__init__(self, value, own_shape, own_dtype)

    def coerce(cls: Any, value: Any) -> Any:
        """A scalar (splat), a sequence of the lanes, or a vector of this type."""
        if isinstance(value, cls):
            return value
        try:
            return cls(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise TypeError(f"expects {name}, got {type(value).__name__}: {error}") from error

    def peek(cls: Any, ptr: Any) -> Any:
        return functions.ptr_load(functions.recast_iter(dtype, ptr), cls)

    def poke(cls: Any, ptr: Any, value: Any) -> None:
        functions.ptr_store(cls(value), functions.recast_iter(dtype, ptr))

    def size_of(cls: Any) -> int:
        if lanes * dtype.width % 8:
            raise TypeError(f"{name} is not a whole number of bytes and not Storable")
        return lanes * dtype.width // 8

    namespace = {
        "__init__": __init__,
        "__doc__": f"Vector of {lanes} {dtype} lanes: of one number, of {lanes}, of a sequence or a vector.",
        "ir_type": lazy_classattr(lambda cls: ir.VectorType.get([lanes], dtype.ir_type)),
        "alias_dtype": dtype,
        "alias_shape": shape,
        "__coerce__": classmethod(coerce),
        "__dsl_size_of__": classmethod(size_of),
        "__dsl_align_of__": classmethod(lambda cls: max(1, dtype.width // 8)),
        "__peek_from_ptr__": classmethod(peek),
        "__poke_into_ptr__": classmethod(poke),
    }
    return type(Vector)(name, (Vector,), namespace)  # type: ignore[misc]


@functions.announce
def VectorAlias(dtype: Any, lanes: Any) -> Any:  # noqa: N802 - makes a class
    """The cached `Vector` subclass ``<dtype>x<lanes>`` with a fixed shape and element type."""
    if not isinstance(dtype, NumericMeta):
        raise TypeError(f"a vector's element type is a Numeric class, got {dtype!r}")
    shape = normalize_shape(lanes)
    if not all(n > 0 for n in flatten_shape(shape)):
        raise ValueError(f"a vector has positive extents, got {lanes}")
    text = str(lanes) if isinstance(lanes, int) else "x".join(str(n) for n in flatten_shape(shape))
    return _vector_alias(dtype, shape, f"{dtype.__name__}x{text}")
