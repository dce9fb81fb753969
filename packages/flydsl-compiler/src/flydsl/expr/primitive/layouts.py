"""Layouts: constructors, extractors, structure and algebra."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing

from .._functions import functions
from ..numeric import Numeric
from ..utils.convert import bit_width
from ..values.base import mode_path, require
from ..values.bounds import check_coordinate
from ..values.int_tuple import (
    IntTuple,
    check_profile,
    contains_none,
    is_congruent,
    permissive,
    to_int_tuple,
)
from ..values.layout import ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile
from ..values.tensor import Tensor

_NARROW = (Layout, ComposedLayout)
X = TypeVar("X")  # a tensor, layout or tuple: operations on its structure keep what it is


# --------------------------------------------------------------------------- constructors


@dsl_loc_tracing
def make_layout(shape: Any, stride: Any = None) -> Layout:
    """Layout of congruent shape and stride; by default compact, the first mode fastest."""
    if stride is None:
        return make_ordered_layout(shape, 0)
    shape, stride = _extents(shape), to_int_tuple(stride)
    check_profile(shape, stride)
    return fly.make_layout(shape, stride)


def _extents(shape: Any) -> IntTuple:
    """A shape. ValueError for an extent that is known to be negative."""
    extents = to_int_tuple(shape)
    if "-" in str(extents.type):
        raise ValueError(f"extents are not negative, got the shape {extents.to_py_value()}")
    return extents


@dsl_loc_tracing
def make_layout_like(layout: Any) -> Layout:
    """Compact layout of the same shape with strides in the same order."""
    return fly.make_layout_like(require(layout, (Layout,), "layout"))


@dsl_loc_tracing
def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """Compact layout; modes with a smaller `order` are faster. A leaf order means colexicographic."""
    shape, order = _extents(shape), to_int_tuple(order)
    check_profile(order, shape, weak=True)
    return fly.make_ordered_layout(shape, order)


@dsl_loc_tracing
def make_composed_layout(inner: Any, *args: Any) -> ComposedLayout:
    """``make_composed_layout(inner, [offset,] outer)``: ``c -> inner(offset + outer(c))``."""
    if len(args) not in (1, 2):
        raise TypeError("make_composed_layout takes (inner, outer) or (inner, offset, outer)")
    outer = require(args[-1], _NARROW, "outer")
    require(inner, (Swizzle, CoordSwizzle, Layout, ComposedLayout), "inner")
    offset = to_int_tuple(args[0]) if len(args) == 2 else fly.coprofile(outer)
    return fly.make_composed_layout(inner, offset, outer)


@dsl_loc_tracing
def make_identity_layout(shape: Any) -> Layout:
    """Layout that maps a coordinate to itself: strides are basis elements."""
    return fly.make_identity_layout(to_int_tuple(shape))


@dsl_loc_tracing
def make_fragment_layout_like(x: Any) -> Layout:
    """Register layout for `x`: mode 0 compact, the rest packed after it in the order of its strides."""
    return fly.make_fragment_layout_like(x)


def _tile_mode(mode: Any) -> Any:
    if mode is None or type(mode) is int:
        return mode
    if isinstance(mode, Layout):
        if not mode.is_static:
            raise ValueError(f"tile modes must be static, got {mode}")
        return mode.type
    if isinstance(mode, IntTuple):
        return _tile_mode(mode.to_py_value())
    if isinstance(mode, (tuple, list)):
        return tuple(_tile_mode(m) for m in mode)
    if isinstance(mode, Numeric):
        raise ValueError(f"tile modes are Python ints, None, layouts or tuples, got {mode!r}")
    raise ValueError(f"cannot use {type(mode).__name__} as a tile mode: {mode!r}")


@dsl_loc_tracing
def make_tile(*modes: Any) -> Tile:
    """Tiler with one mode per argument: int, ``None`` (keep), static Layout or nested tuple.

    One argument gives a leaf tile; one list, the older form, gives a mode for each entry.
    """
    if len(modes) == 1 and isinstance(modes[0], list):
        modes = tuple(modes[0])
    if not modes:
        raise ValueError("make_tile needs at least one mode")
    entries = [_tile_mode(m) for m in modes]
    return fly.static(fly.TileType.get(entries if len(entries) != 1 else entries[0]))


# --------------------------------------------------------------------------- extractors


@functions.announce
@dsl_loc_tracing
def get_shape(x: Any) -> IntTuple:
    """Shape of a layout or tensor, nested as its modes are."""
    return fly.get_shape(x)


@functions.announce
@dsl_loc_tracing
def get_stride(x: Any) -> IntTuple:
    """Stride of a layout or tensor; TypeError for composed layouts, which have none."""
    layout_type = require(x, (*_NARROW, Tensor), "get_stride's operand").type
    if isinstance(x, Tensor):
        layout_type = layout_type.layout
    if isinstance(layout_type, fly.ComposedLayoutType):
        raise TypeError(f"a composed layout has no stride: {x}")
    return fly.get_stride(x)


@functions.announce
@dsl_loc_tracing
def get_layout(tensor: Any) -> Any:
    """Layout of a tensor; TypeError for anything else."""
    return fly.get_layout(require(tensor, (Tensor,), "tensor"))


@functions.announce
@dsl_loc_tracing
def get_iter(tensor: Any) -> Any:
    """Pointer of a tensor, or base coordinate of a coordinate tensor."""
    return fly.get_iter(require(tensor, (Tensor,), "tensor"))


@functions.announce
@dsl_loc_tracing
def composed_get_inner(layout: Any) -> Any:
    """The inner part of `inner o offset o outer`: a layout or a swizzle."""
    return fly.composed_get_inner(require(layout, (ComposedLayout,), "layout"))


@functions.announce
@dsl_loc_tracing
def composed_get_offset(layout: Any) -> IntTuple:
    """The offset of `inner o offset o outer`."""
    return fly.composed_get_offset(require(layout, (ComposedLayout,), "layout"))


@functions.announce
@dsl_loc_tracing
def composed_get_outer(layout: Any) -> Any:
    """The outer part of `inner o offset o outer`: the layout that coordinates enter."""
    return fly.composed_get_outer(require(layout, (ComposedLayout,), "layout"))


# --------------------------------------------------------------------------- structure


def _mode_range(x: Any, begin: int, end: int) -> tuple[int, int]:
    begin, end = (mode_path([mode])[0] for mode in (begin, end))
    if not begin < end <= fly.rank(x):
        raise ValueError(f"modes [{begin}, {end}) are out of range for rank {fly.rank(x)}")
    return begin, end


@dsl_loc_tracing
def take(x: X, begin: int, end: int) -> X:
    """Modes ``[begin, end)`` of a layout or int tuple; a single mode collapses to itself.

    Raises:
        ValueError: the range is empty or beyond the rank.
    """
    x = permissive(x)
    return fly.take(x, *_mode_range(x, begin, end))


@dsl_loc_tracing
def select(x: X, indices: Any) -> X:
    """The listed modes in their order; a single index collapses to that mode."""
    return fly.select(permissive(x), mode_path(indices))


@dsl_loc_tracing
def group(x: X, begin: int, end: int) -> X:
    """Wrap modes ``[begin, end)`` into one."""
    x = permissive(x)
    return fly.group(x, *_mode_range(x, begin, end))


@dsl_loc_tracing
def append(base: Any, elem: Any, *, n: int | None = None) -> Any:
    """Add a mode at the end; with `n`, repeat `elem` until the rank is `n`."""
    return fly.append(permissive(base), permissive(elem), n=None if n is None else operator.index(n))


@dsl_loc_tracing
def prepend(base: Any, elem: Any, *, n: int | None = None) -> Any:
    """Add a mode at the front; with `n`, repeat `elem` until the rank is `n`."""
    return fly.prepend(permissive(base), permissive(elem), n=None if n is None else operator.index(n))


@functions.announce
@dsl_loc_tracing
def slice(src: X, coord: Any) -> X:
    """Keep the modes where `coord` has a wildcard; a tensor's fixed modes move its iterator."""
    src = permissive(src)
    if not contains_none(coord):
        raise ValueError(f"slice needs at least one None in the coordinate, got {coord!r}")
    if isinstance(src, Tensor):
        check_coordinate(src, coord)
    coord = to_int_tuple(coord, "make_coord")
    check_profile(coord, src, weak=True)
    return fly.slice(src, coord)


@dsl_loc_tracing
def dice(src: Any, coord: Any) -> Any:
    """Keep the modes that `coord` fixes."""
    return fly.dice(permissive(src), to_int_tuple(coord, "make_coord"))


# --------------------------------------------------------------------------- layout functions


def _unary(name: str, doc: str) -> Callable[[Any], Any]:
    def function(layout: Any) -> Any:
        return getattr(fly, name)(layout)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return dsl_loc_tracing(function)


coprofile = _unary("coprofile", "Zero tuple with the profile of the codomain.")
coshape = _unary("coshape", "Largest index plus one, per codomain mode.")
cosize = _unary("cosize", "Product of `coshape`.")
right_inverse = _unary("right_inverse", "Layout r with layout(r(i)) == i on the largest contiguous range.")
left_inverse = _unary("left_inverse", "Layout l with l(layout(i)) == i.")


@functions.announce
@dsl_loc_tracing
def crd2idx(crd: Any, layout: Any) -> IntTuple:
    """Index of a coordinate under a layout, composed layout or swizzle."""
    crd = to_int_tuple(crd, "make_coord")
    if isinstance(layout, _NARROW):
        if not is_congruent(crd, layout, weak=True) and crd.rank == 1 and not crd.is_leaf:
            crd = crd[0]
        check_profile(crd, layout, weak=True)
    return fly.crd2idx(crd, layout)


def _index_to_coordinate(name: str, doc: str) -> Callable[[Any, Any], IntTuple]:
    def function(index: Any, layout: Any) -> IntTuple:
        return getattr(fly, name)(to_int_tuple(index), require(layout, (Layout,), "layout"))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return functions.announce(dsl_loc_tracing(function))


idx2crd = _index_to_coordinate("idx2crd", "Coordinate of an index: per leaf ``(index / stride) % shape``.")
get_flat_coord = _index_to_coordinate("get_flat_coord", "Like `idx2crd` with one integer per top-level mode.")
get_1d_coord = _index_to_coordinate("get_1d_coord", "Colexicographic linear coordinate of `idx2crd`.")


@dsl_loc_tracing
def coalesce(layout: X, pattern: Any = None) -> X:
    """Merge modes; `pattern` limits merging to its profile."""
    return fly.coalesce(layout, pattern=None if pattern is None else to_int_tuple(pattern))


@dsl_loc_tracing
def composition(a: X, b: Any) -> X:
    """``c -> a(b(c))``; `b` is a Layout or Tile value."""
    what = "the second operand of composition (fx.make_layout(...) or, by mode, fx.make_tile(...))"
    return fly.composition(a, require(b, (Layout, Tile), what))


@dsl_loc_tracing
def complement(layout: Any, codomain_size: Any = None) -> Any:
    """Layout of what `layout` leaves out of the codomain (default: its own cosize)."""
    size = None if codomain_size is None else to_int_tuple(codomain_size)
    return fly.complement(layout, codomain_size=size)


def _divisor(divisor: Any, wildcards: bool, name: str) -> Any:
    if isinstance(divisor, (Layout, Tile)):
        return divisor
    if isinstance(divisor, IntTuple):
        divisor = divisor.to_py_value()
    if isinstance(divisor, (str, ir.Value)) or not isinstance(divisor, Iterable):
        hint = f": one mode is ({divisor},)" if isinstance(divisor, int) else ""
        raise TypeError(
            f"{name} expects a Layout, a Tile or an iterable of tile modes, got {type(divisor).__name__}{hint}"
        )
    modes = list(divisor)
    if not wildcards and any(m is None for m in modes):
        raise ValueError(f"{name} does not take None modes; only logical_divide can keep a mode")
    return make_tile(*modes)


def _divide(name: str, doc: str, wildcards: bool = False) -> Callable[[X, Any], X]:
    @dsl_loc_tracing
    def function(layout: Any, divisor: Any) -> Any:
        return getattr(fly, name)(layout, _divisor(divisor, wildcards, name))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return dsl_loc_tracing(function)


logical_divide = _divide("logical_divide", "Split each mode into (tile, rest).", wildcards=True)
zipped_divide = _divide("zipped_divide", "Split into ``((tile...), (rest...))``.")
tiled_divide = _divide("tiled_divide", "Split into ``((tile...), rest...)``.")
flat_divide = _divide("flat_divide", "Split into ``(tile..., rest...)``.")


def _product(name: str, doc: str) -> Callable[[Any, Any], Any]:
    def function(layout: Any, tiler: Any) -> Any:
        return getattr(fly, name)(layout, require(tiler, (Layout,), "tiler"))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return dsl_loc_tracing(function)


logical_product = _product("logical_product", "Repeat `layout` by `tiler`: ``(layout, repetitions)``.")
zipped_product = _product("zipped_product", "Product as ``((layout...), (repetitions...))``.")
tiled_product = _product("tiled_product", "Product as ``((layout...), repetitions...)``.")
flat_product = _product("flat_product", "Product as ``(layout..., repetitions...)``.")
blocked_product = _product("blocked_product", "Mode-wise product: blocks of `layout` arranged by `tiler`.")
raked_product = _product("raked_product", "Mode-wise product with the repetitions innermost.")


@dsl_loc_tracing
def recast_layout(layout: Any, old_bits: Any, new_bits: Any) -> Any:
    """The layout of the same bits in elements of another width; widths are ints or types."""
    return fly.recast_layout(bit_width(new_bits), bit_width(old_bits), layout)


@dsl_loc_tracing
def tile_to_shape(block: Any, trg_shape: Any, ord_shape: Any) -> Any:
    """Repeat `block` over the target shape, in the given order of modes."""
    return fly.tile_to_shape(block, to_int_tuple(trg_shape), to_int_tuple(ord_shape))
