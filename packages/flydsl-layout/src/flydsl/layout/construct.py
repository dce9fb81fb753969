"""Constructors, structure of layouts, recast."""

from __future__ import annotations

from math import gcd
from typing import Any

from . import coords, inttuple as it, scalar as sc
from .algebra import Pair, linear_of, plain, rewrap, under_conditions
from .core import ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile, check_extents, make_pair
from .divide import tiled_product
from .errors import LayoutError
from .scalar import IntTuple, Leaf

# --------------------------------------------------------------------------------------------------------------------
# Constructors


def make_layout(shape: Any, stride: Any = None, *more: Layout) -> Layout:
    """A layout of shape and (congruent) stride; column-major without stride; or the concatenation of layouts.

    ``make_layout(a, b, c)`` with Layout arguments is the layout whose modes are a, b and c.
    """
    if isinstance(shape, Layout):
        parts = [p for p in (shape, stride, *more) if p is not None]
        if any(not isinstance(p, Layout) for p in parts):
            raise LayoutError("make_layout concatenates Layouts only")
        return make_pair(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    return Layout(shape, stride)


def _shape(shape: Any) -> IntTuple:
    shape = it.normalize(shape)
    check_extents(shape)
    return shape


def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """Compact layout in which parts of smaller order are faster; a leaf order means column-major."""
    shape = _shape(shape)
    return make_pair(shape, coords.ordered(shape, it.normalize(order)))


def make_column_major(shape: Any) -> Layout:
    """Compact layout, mode 0 fastest."""
    return Layout(shape)


def make_row_major(shape: Any) -> Layout:
    """Compact layout, the last leaf fastest."""
    shape = _shape(shape)
    return make_pair(shape, coords.compact_row_major(shape))


def make_identity_layout(shape: Any) -> Layout:
    """The layout that maps a coordinate to itself: strides are basis vectors ``1E<path>``."""
    shape = _shape(shape)
    return make_pair(shape, coords.identity_stride(shape))


def make_layout_like(layout: Layout) -> Layout:
    """Compact layout of the same shape whose strides are ordered like the input's; zero-stride modes take no room."""
    layout = plain(layout, "make_layout_like")
    room = it.filter_zero(layout.stride, layout.shape)
    return make_pair(layout.shape, coords.ordered(room, layout.stride))


def make_fragment_layout_like(layout: Layout | ComposedLayout) -> Layout:
    """Register image: mode 0 innermost and compact, the other modes packed after it in the order of their strides."""
    a = linear_of(layout)
    plain(a, "make_fragment_layout_like")
    if not it.is_static(a.shape):
        raise LayoutError(f"a fragment layout needs a static shape: {a}")
    if a.rank == 1:
        return make_pair(a.shape, coords.compact(a.shape))
    first = make_pair(a.shape[0], coords.compact(it.filter_zero(a.stride[0], a.shape[0])))
    rest_s, rest_d = it.bare(a.shape[1:]), it.bare(a.stride[1:])
    return tiled_product(first, make_pair(rest_s, coords.ordered(rest_s, rest_d)))  # type: ignore[no-any-return]


def make_composed_layout(inner: Any, offset: Any, outer: Any = None) -> ComposedLayout:
    """The map ``c -> inner(offset + outer(c))``.

    :param inner: a layout or swizzle
    :param offset: in the codomain of ``outer``; left out (two arguments), it is zero
    :param outer: a layout, whose shape the result has
    """
    if outer is None:
        outer = offset
        offset = coords.coprofile(linear_of(outer).stride)
    return ComposedLayout(inner, offset, outer)


def make_int_tuple(x: Any) -> IntTuple:
    """Check an int tuple: integers (also NumPy's), None, Dyn, Basis and nested tuples of these."""
    return it.normalize(x)


def make_coord(*items: Any) -> IntTuple:
    """The tuple of the arguments; a single tuple is taken as it is (``make_coord(4)`` is ``(4,)``)."""
    return it.normalize(items[0] if len(items) == 1 and isinstance(items[0], tuple) else items)


def make_shape(*extents: Any) -> IntTuple:
    """The shape of the arguments, which must be positive; a single tuple is taken as it is."""
    s = make_coord(*extents)
    check_extents(s)
    return s


make_stride = make_coord


def make_swizzle(mask: int, base: int, shift: int) -> Swizzle:
    """The swizzle ``S<mask,base,shift>``."""
    return Swizzle(mask, base, shift)


def make_tile(*items: Any) -> Tile:
    """A bracketed tile of the given entries."""
    return Tile(*items)


# --------------------------------------------------------------------------------------------------------------------
# Structure: the functions below act on int tuples and on the (plain outer) layout alike


def _both(x: Any, f: Any) -> Any:
    if isinstance(x, (Layout, ComposedLayout)):
        lin = linear_of(x)
        return rewrap(x, make_pair(f(lin.shape), f(lin.stride)))
    return f(it.normalize(x))


def _path(path: tuple[Any, ...], mode: Any) -> tuple[int, ...]:
    """The mode numbers given as positional arguments, as one list of them, or by the keyword ``mode``."""
    if mode is not None:
        path = (*path, *mode) if isinstance(mode, (tuple, list)) else (*path, mode)
    return _indices(path)


def shape(x: Any, *path: Any, mode: Any = None) -> IntTuple:
    """The shape of a layout (of its mode at ``path``)."""
    return it.get(linear_of(x).shape, *_path(path, mode))


def stride(x: Any, *path: Any, mode: Any = None) -> IntTuple:
    """The stride of a plain layout (of its mode at ``path``)."""
    if isinstance(x, ComposedLayout):
        return x.stride
    return it.get(linear_of(x).stride, *_path(path, mode))


def _tuple_of(x: Any) -> IntTuple:
    return linear_of(x).shape if isinstance(x, (Layout, ComposedLayout)) else it.normalize(x)


def get_scalar(x: Any) -> Leaf:
    """The only leaf of an int tuple, through rank-1 wrappers."""
    leaf = it.unwrap(it.normalize(x))
    if type(leaf) is tuple:
        raise LayoutError(f"{it.to_text(leaf)} has more than one leaf")
    return leaf


def get_leaves(x: Any, dynamic_only: bool = False) -> tuple[Leaf, ...]:
    """All leaves of an int tuple, left to right; with ``dynamic_only`` those not known at compile time."""
    return tuple(e for e in it.leaves(it.normalize(x)) if not dynamic_only or not sc.is_static(e))


def _composed(x: Any) -> ComposedLayout:
    if not isinstance(x, ComposedLayout):
        raise LayoutError(f"expected a composed layout, got {x!r}")
    return x


def composed_get_inner(x: ComposedLayout) -> Any:
    """The function applied last: a Layout, ComposedLayout, Swizzle or CoordSwizzle."""
    return _composed(x).inner


def composed_get_offset(x: ComposedLayout) -> IntTuple:
    """What is added between outer and inner."""
    return _composed(x).offset


def composed_get_outer(x: ComposedLayout) -> Layout | ComposedLayout:
    """The layout applied first."""
    return _composed(x).outer


def rank(x: Any, *path: Any, mode: Any = None) -> int:
    """Number of top-level modes (of the mode at ``path``); 1 for a leaf."""
    return x.rank if isinstance(x, Tile) else it.rank(it.get(_tuple_of(x), *_path(path, mode)))


def depth(x: Any, *path: Any, mode: Any = None) -> int:
    """Nesting depth (of the mode at ``path``); 0 for a leaf."""
    return it.depth(it.get(_tuple_of(x), *_path(path, mode)))


def size(x: Any, *path: Any, mode: Any = None) -> Leaf:
    """Product of the shape (of the mode at ``path``: ``size(x, 1)``, ``size(x, 1, 0)`` or ``size(x, mode=[1, 0])``)."""
    return it.product(it.get(_tuple_of(x), *_path(path, mode)))


def cosize(x: Any, *path: Any, mode: Any = None) -> Leaf:
    """Product of the :func:`coshape`; swizzles and inner functions are ignored, as in the ``fly`` dialect."""
    return it.product(coshape(x, *path, mode=mode))


def coshape(x: Any, *path: Any, mode: Any = None) -> IntTuple:
    """``1 + sum (shape-1)*stride`` per codomain mode of the linear layout (of its mode at ``path``)."""
    lin = linear_of(x)[_path(path, mode)]
    return coords.coshape(lin.shape, lin.stride)


def coprofile(x: Any) -> IntTuple:
    """Zero for integer strides, a tuple of zeros in the profile of the codomain for basis strides."""
    return coords.coprofile(linear_of(x).stride)


def get(x: Any, *path: Any, mode: Any = None) -> Any:
    """The mode at ``path`` (integers, or one list of them)."""
    path = _path(path, mode)
    return x[path] if isinstance(x, (Layout, ComposedLayout)) else it.get(it.normalize(x), *path)


def take(x: Any, begin: int, end: int = -1) -> Any:
    """Modes ``begin`` to ``end`` (exclusive; -1 = rank) of a layout or int tuple; a single mode comes bare.

    :raises LayoutError: the range is empty or outside of the rank
    """
    return _both(x, lambda t: it.take(t, begin, end))


def _indices(args: tuple[Any, ...]) -> tuple[int, ...]:
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    if any(type(i) is not int for i in args):
        raise LayoutError(f"mode numbers must be ints, got {args}")
    return args


def select(x: Any, *indices: Any, mode: Any = None) -> Any:
    """The listed modes (integers, or one list of them), in that order; a single one comes bare."""
    indices = _path(indices, mode)
    return _both(x, lambda t: it.select(t, *indices))


def group(x: Any, begin: int, end: int = -1) -> Any:
    """Wrap modes ``begin`` to ``end`` into one mode."""
    return _both(x, lambda t: it.group(t, begin, end))


def flatten(x: Any) -> Any:
    """Remove all nesting."""
    return _both(x, it.flatten)


def unflatten(x: Any, profile: Any) -> Any:
    """Give the leaves the nesting of ``profile``."""
    return _both(x, lambda t: it.unflatten(t, it.normalize(profile)))


def expand(x: Any, *indices: Any) -> Any:
    """Splice the children of the listed modes into the parent."""
    indices = _indices(indices)
    return _both(x, lambda t: it.expand(t, indices))


def _with_elem(x: Any, elem: Any, f: Any) -> Any:
    if isinstance(x, (Layout, ComposedLayout)):
        if not isinstance(elem, Layout):
            raise LayoutError(f"a layout can only be extended by a Layout, got {elem!r}")
        lin = linear_of(x)
        return rewrap(x, make_pair(f(lin.shape, elem.shape), f(lin.stride, elem.stride)))
    return f(it.normalize(x), it.normalize(elem))


def append(x: Any, elem: Any, n: int | None = None) -> Any:
    """Append a mode once, or until the rank is ``n``."""
    return _with_elem(x, elem, lambda t, e: it.append(t, e, n))


def prepend(x: Any, elem: Any, n: int | None = None) -> Any:
    """Prepend a mode once, or until the rank is ``n``."""
    return _with_elem(x, elem, lambda t, e: it.prepend(t, e, n))


def append_ones(x: Any, n: int) -> Any:
    """Append extents 1 (modes ``1:0`` to a layout) until the rank is ``n``."""
    return append(x, make_pair(1, 0) if isinstance(x, (Layout, ComposedLayout)) else 1, n)


def prepend_ones(x: Any, n: int) -> Any:
    """Prepend extents 1 (modes ``1:0`` to a layout) until the rank is ``n``."""
    return prepend(x, make_pair(1, 0) if isinstance(x, (Layout, ComposedLayout)) else 1, n)


def replace(x: Any, mode: int, elem: Any) -> Any:
    """``x`` with ``elem`` (a layout for a layout, else an int tuple) as its top-level mode ``mode``.

    :raises LayoutError: there is no such mode
    """
    return _with_elem(x, elem, lambda t, e: it.replace(t, mode, e))


def _layout_first(x: Any, coord: Any) -> tuple[Any, IntTuple]:
    """CuTe writes the coordinate first, ``fx`` the layout: with a layout there is no doubt."""
    if isinstance(coord, (Layout, ComposedLayout)) and not isinstance(x, (Layout, ComposedLayout)):
        x, coord = coord, x
    return x, it.normalize(coord)


def slice_(x: Any, coord: Any) -> Any:
    """Keep what faces a hole of ``coord``.  For a composed layout the fixed part moves into the offset.

    ``slice_(coord, layout)`` is the same.
    """
    x, coord = _layout_first(x, coord)
    if isinstance(x, ComposedLayout):
        return x.sliced(coord)
    return _both(x, lambda t: it.slice_(t, coord))


def slice_and_offset(x: Layout, coord: Any) -> tuple[Layout, IntTuple]:
    """The sliced layout and the index of the fixed part of the coordinate."""
    x, coord = _layout_first(x, coord)
    return slice_(x, coord), coords.crd2idx(coord, x.shape, x.stride)


def dice(x: Any, coord: Any) -> Any:
    """Keep what faces an integer of ``coord``."""
    x, coord = _layout_first(x, coord)
    return _both(x, lambda t: it.dice(t, coord))


# --------------------------------------------------------------------------------------------------------------------
# Coordinates


def _layout_or_shape(layout: Any, stride: Any) -> Layout:
    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, ComposedLayout):
        raise LayoutError(f"coordinates of an index need a plain layout, got {layout}")
    return Layout(layout, stride)


def crd2idx(coord: Any, layout: Any, stride: Any = None) -> IntTuple:
    """Index of a coordinate in a layout, composed layout, swizzle or coordinate swizzle; holes count as zero.

    ``crd2idx(coord, shape)`` and ``crd2idx(coord, shape, stride)`` take the parts of a layout (column-major without
    stride).
    """
    coord = it.normalize(coord)
    if isinstance(layout, ComposedLayout):
        t = it.add(layout.offset, crd2idx(coord, layout.outer))
        return crd2idx(t, layout.inner)
    if isinstance(layout, (Swizzle, CoordSwizzle)):
        return layout(coord)
    layout = _layout_or_shape(layout, stride)
    return coords.crd2idx(coord, layout.shape, layout.stride)


def idx2crd(index: Any, layout: Any, stride: Any = None) -> IntTuple:
    """Hierarchical coordinate of an index: per leaf ``(index / stride) mod shape``.

    ``idx2crd(index, shape)`` and ``idx2crd(index, shape, stride)`` take the parts of a layout.
    """
    layout = _layout_or_shape(layout, stride)
    return coords.idx2crd(it.normalize(index), layout.shape, layout.stride)


def get_flat_coord(index: Any, layout: Layout) -> IntTuple:
    """:func:`idx2crd` with one integer per top-level mode."""
    layout = _layout_or_shape(layout, None)
    crd = idx2crd(index, layout)
    if layout.is_leaf:
        return crd
    return coords.crd2crd(crd, layout.shape, (1,) * layout.rank)


def get_1d_coord(index: Any, layout: Layout) -> Leaf:
    """Linear (colexicographic) coordinate of an index."""
    layout = _layout_or_shape(layout, None)
    return coords.colex_index(idx2crd(index, layout), layout.shape)


# --------------------------------------------------------------------------------------------------------------------
# Recast


def _upcast_layout(a: Layout, f: int, even: bool) -> Layout:
    """Modes with a stride below ``f`` shrink; together they must stay inside one wide element.

    An extent that does not fill its last wide element is rounded up, unless ``even`` asks for whole elements (when
    they are to be cut into narrower ones afterwards).
    """
    inside: dict[tuple[int, ...], int] = {}
    unknown: dict[tuple[int, ...], tuple[Leaf, ...]] = {}

    def leaf(s: Leaf, d: Leaf, direction: tuple[int, ...] = ()) -> Pair:
        if sc.is_zero(d):
            return s, d
        if type(d) is sc.Basis:
            value = leaf(s, d.value, d.modes)
            return value[0], sc.Basis(value[1], d.modes)
        if type(d) is not int:
            return s, sc.safe_div(d, f)
        a = abs(d)
        if f % a and a % f:
            raise LayoutError(
                f"upcast by {f}: the stride of the mode {it.to_text(s)}:{d} neither divides it nor is a multiple"
            )
        small = sc.ceil_div(f, a)
        if type(s) is int:
            if even and s > 1 and s % small:
                raise LayoutError(
                    f"recast: the extent of the mode {s}:{d} does not fill whole elements ({small} to one)"
                )
            inside[direction] = inside.get(direction, 0) + a * (min(s, small) - 1)
        elif small > 1:
            unknown[direction] = (*unknown.get(direction, ()), a, s, small)
        return sc.ceil_div(s, small), sc.ceil_div(a, f) * (1 if d > 0 else -1)

    r = _leafwise(a, leaf)
    reach = max(inside.values(), default=0)
    if reach >= f:
        raise LayoutError(
            f"upcast of {a} by {f}: modes of small stride reach {reach} together and carry into the next element"
        )
    conditions: list[sc.Condition] = [
        (f"upcast of {a} by {f}", "inside", (f, inside.get(k, 0), *modes)) for k, modes in unknown.items()
    ]
    return under_conditions(conditions, r.shape, r.stride)


def _leafwise(a: Layout, f: Any) -> Layout:
    def go(s: IntTuple, d: IntTuple) -> Pair:
        if type(s) is not tuple:
            return f(s, d)  # type: ignore[no-any-return]
        if type(d) is not tuple or len(d) != len(s):
            raise LayoutError(f"shape {it.to_text(s)} and stride {it.to_text(d)} are not congruent")
        parts = [go(x, y) for x, y in zip(s, d, strict=True)]
        return tuple(p[0] for p in parts), tuple(p[1] for p in parts)

    return make_pair(*go(a.shape, a.stride))


def _downcast_layout(a: Layout, f: int) -> Layout:
    """Only one mode can run through the parts of an element: the one of stride 1.

    An extent-1 mode has no stride to speak of, so it is taken only where no longer mode has stride 1.
    """
    if f == 1:  # an element is its only part, whatever runs through it
        return a
    units = [s for s, d in zip(it.leaves(a.shape), it.leaves(a.stride), strict=False) if type(d) is int and abs(d) == 1]
    long = [s for s in units if not sc.is_one(s)]
    if len(long) > 1:
        raise LayoutError(f"downcast of {a} by {f}: {len(long)} modes of stride 1 would all run through one element")
    left = 1 if long else len(units)
    conditions: list[sc.Condition] = []
    if long and sc.is_one(units[-1]):  # which would be taken, were the longer one not
        conditions.append((f"downcast of {a} by {f}", "longer", (long[0],)))

    def leaf(s: Leaf, d: Leaf) -> Pair:
        nonlocal left
        if type(d) is int and abs(d) == 1 and not (long and sc.is_one(s)):
            left -= 1
            if left == 0:
                return sc.mul(s, f), d
        if type(d) is sc.Dyn and f != 1:
            conditions.append((f"downcast of {a} by {f}", "wide", (s if long else f, d)))
        return s, sc.mul(d, f)

    r = _leafwise(a, leaf)
    return under_conditions(conditions, r.shape, r.stride)


def _scaled(x: Any, f: int, up: bool, even: bool = False) -> Any:
    if isinstance(x, Layout):
        return _upcast_layout(x, f, even) if up else _downcast_layout(x, f)
    log2 = f.bit_length() - 1
    if isinstance(x, (Swizzle, CoordSwizzle)):
        if x.mask and f != 1 << log2:
            raise LayoutError(f"recast of the swizzle {x} by {f}: not a power of two")
        shift = -log2 if up else log2
        bases = (x.base,) if isinstance(x, Swizzle) else (x.base_row, x.base_col)
        if x.mask and min(bases) + shift < 0:
            raise LayoutError(f"upcast of the swizzle {x} by {f}: its base is below {log2}")
        if isinstance(x, Swizzle):
            return Swizzle(x.mask, max(x.base + shift, 0), x.shift)
        return CoordSwizzle(x.mask, max(x.base_row + shift, 0), x.mode_row, max(x.base_col + shift, 0), x.mode_col)
    if isinstance(x, ComposedLayout):
        op = sc.safe_div if up else sc.mul
        offset = it.transform_leaf(lambda v: op(v, f), x.offset)
        return ComposedLayout(_scaled(x.inner, f, up, even), offset, _scaled(x.outer, f, up, even))
    raise LayoutError(f"cannot recast {x!r}")


def upcast(layout: Any, factor: int) -> Any:
    """Re-express a layout of small elements in elements ``factor`` times as wide.

    Where a mode does not fill its last wide element, its extent is rounded up.
    """
    _check_factor(factor)
    return _scaled(layout, factor, True)


def downcast(layout: Any, factor: int) -> Any:
    """Re-express a layout in elements ``factor`` times as narrow."""
    _check_factor(factor)
    return _scaled(layout, factor, False)


def _check_factor(factor: int) -> None:
    if type(factor) is not int or factor <= 0:
        raise LayoutError(f"the recast factor must be a positive int, got {factor!r}")


def recast_layout(layout: Any, old_bits: Any, new_bits: Any) -> Any:
    """Change the element width of a layout from ``old_bits`` to ``new_bits`` (unchanged if a width is not positive).

    CuTe's order ``recast_layout(new_bits, old_bits, layout)`` is understood too.
    """
    if isinstance(new_bits, (Layout, ComposedLayout, Swizzle, CoordSwizzle)):
        layout, new_bits = new_bits, layout
    if type(old_bits) is not int or type(new_bits) is not int:
        raise LayoutError(f"recast_layout needs two widths in bits, got {old_bits!r} and {new_bits!r}")
    if old_bits <= 0 or new_bits <= 0 or old_bits == new_bits:
        return layout
    g = gcd(old_bits, new_bits)
    n, m = new_bits // g, old_bits // g
    if n != 1:
        layout = _scaled(layout, n, True, m != 1)
    return layout if m == 1 else downcast(layout, m)
