"""`Layout`, `ComposedLayout`, `Swizzle`, `CoordSwizzle` and `Tile`."""

from __future__ import annotations

from typing import Any

from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing

from .._functions import functions
from .base import FlyValue, NestedValue, caster_for, mode_path
from .int_tuple import IntTuple, contains_none


def check_mode_path(rank: int, is_leaf: bool, path: list[int], what: str) -> None:
    """Errors of sub-object access: a leaf has no modes, and mode numbers are below the rank."""
    if path and is_leaf:
        raise IndexError(f"{what} is a leaf and has no modes")
    if path and path[0] >= rank:
        raise IndexError(f"mode {path[0]} is out of range in {what}")


class _LayoutQueries(NestedValue):
    """What plain and composed layouts share."""

    @property
    def shape(self) -> IntTuple:
        """Extents of the modes."""
        return functions.get_shape(self)

    @property
    def stride(self) -> IntTuple:
        """Index distance of a step in each mode, congruent to the shape."""
        return functions.get_stride(self)

    @dsl_loc_tracing
    def __getitem__(self, mode: Any) -> Any:
        """Sub-layout at a mode number or a path."""
        path = mode_path(mode)
        check_mode_path(self.rank, self.is_leaf, path, str(self))
        return functions.get_(self, path)

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.rank)) if not self.is_leaf else iter((self,))

    @dsl_loc_tracing
    def __call__(self, *coordinate: Any) -> Any:
        """Index of a coordinate with one argument per mode; with a wildcard ``None``, the sliced layout."""
        crd: Any = coordinate[0] if len(coordinate) == 1 else coordinate
        if contains_none(crd):
            return functions.slice(self, crd)
        return functions.crd2idx(crd, self)


@caster_for(fly.LayoutType)
class Layout(_LayoutQueries):
    """A map from coordinates to indices: congruent shape and stride."""

    @property
    def is_static_shape(self) -> bool:
        """Whether all extents are known while tracing."""
        return self.type.is_static_shape

    @property
    def is_static_stride(self) -> bool:
        """Whether all strides are known while tracing."""
        return self.type.is_static_stride

    def get_hier_coord(self, index: Any) -> IntTuple:
        """Coordinate of `index` with the nesting of the shape."""
        return functions.idx2crd(index, self)

    def get_flat_coord(self, index: Any) -> IntTuple:
        """Coordinate of `index` with one integer per mode."""
        return functions.get_flat_coord(index, self)

    def get_1d_coord(self, index: Any) -> IntTuple:
        """Colexicographic linear coordinate of `index`."""
        return functions.get_1d_coord(index, self)


@caster_for(fly.ComposedLayoutType)
class ComposedLayout(_LayoutQueries):
    """``c -> inner(offset + outer(c))``."""

    @property
    def is_static_inner(self) -> bool:
        """Whether the inner function is known while tracing."""
        return self.type.is_static_inner

    @property
    def is_static_outer(self) -> bool:
        """Whether the outer layout is known while tracing."""
        return self.type.is_static_outer

    @property
    def is_static_offset(self) -> bool:
        """Whether the offset is known while tracing."""
        return self.type.is_static_offset

    @property
    def stride(self) -> IntTuple:
        """TypeError: only the outer layout has strides."""
        raise TypeError("a composed layout has no stride; use .outer.stride")

    @property
    def inner(self) -> Any:
        """The function applied last: a swizzle or a layout."""
        return functions.composed_get_inner(self)

    @property
    def offset(self) -> IntTuple:
        """What is added between outer and inner."""
        return functions.composed_get_offset(self)

    @property
    def outer(self) -> Any:
        """The layout that takes the coordinate."""
        return functions.composed_get_outer(self)


@caster_for(fly.SwizzleType)
class Swizzle(FlyValue):
    """``S<m,b,s>(x) = x ^ ((x & (((1<<m)-1) << (b+s))) >> s)``, made by ``fx.static(fx.SwizzleType.get(m, b, s))``."""

    def __init__(self, value: Any, *numbers: Any) -> None:
        if numbers:
            m, b, s = (value, *numbers, "b", "s")[:3]
            raise TypeError(f"Swizzle is a value of the IR; make one with fx.static(fx.SwizzleType.get({m}, {b}, {s}))")
        super().__init__(value)

    @property
    def mask(self) -> int:
        """Number of bits that are exchanged."""
        return self.type.mask

    @property
    def base(self) -> int:
        """Lowest bit that changes: the chunk that stays whole has ``2 ** base`` elements."""
        return self.type.base

    @property
    def shift(self) -> int:
        """Distance from the bits that change to those that they are changed by."""
        return self.type.shift


@caster_for(fly.CoordSwizzleType)
class CoordSwizzle(FlyValue):
    """Swizzle of a coordinate: ``col ^= ((row >> base_row) & ((1<<m)-1)) << base_col``."""

    @property
    def mask(self) -> int:
        """Number of bits that are exchanged."""
        return self.type.mask

    @property
    def base_row(self) -> int:
        """Lowest bit of the row that is used."""
        return self.type.base_row

    @property
    def mode_row(self) -> list[int]:
        """Path of the mode of the coordinate that is the row."""
        return self.type.mode_row

    @property
    def base_col(self) -> int:
        """Lowest bit of the column that changes."""
        return self.type.base_col

    @property
    def mode_col(self) -> list[int]:
        """Path of the mode of the coordinate that is the column."""
        return self.type.mode_col


@caster_for(fly.TileType)
class Tile(FlyValue):
    """A tiler: per mode an int, a wildcard, a layout, or a nested tile."""

    @property
    def rank(self) -> int:
        """Number of modes."""
        return self.type.rank

    @property
    def is_leaf(self) -> bool:
        """Whether it is a single entry."""
        return self.type.is_leaf

    def unpack(self) -> Any:
        """ints, `Layout`s and nested tuples; a leaf tile gives its single value, a wildcard mode gives 0."""
        ty = self.type
        if ty.is_leaf:
            return _unpack_mode(ty.at(0))
        return tuple(_unpack_mode(ty.at(i)) for i in range(ty.rank))

    to_py_value = unpack


def _unpack_mode(ty: Any) -> Any:
    if isinstance(ty, fly.LayoutType):
        return fly.static(ty)
    if isinstance(ty, fly.TileType):
        if ty.is_leaf:
            return _unpack_mode(ty.at(0))
        return tuple(_unpack_mode(ty.at(i)) for i in range(ty.rank))
    if not ty.is_leaf:
        return tuple(_unpack_mode(ty.at(i)) for i in range(ty.rank))
    return ty.get_static_leaf_int if ty.is_leaf_int else 0


def static_layout(value: Any, what: str) -> Any:
    """The layout itself; ValueError unless it is a fully static Layout."""
    if not isinstance(value, Layout):
        raise TypeError(f"{what} must be a Layout, got {type(value).__name__}")
    if not value.is_static:
        raise ValueError(f"{what} must be static, got {value}")
    return value
