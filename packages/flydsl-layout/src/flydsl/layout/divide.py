"""Divides and products."""

from __future__ import annotations

from math import prod
from typing import Any

from . import coords, inttuple as it, scalar as sc
from .algebra import (
    Pair,
    canon,
    coalesce,
    complement_layout,
    linear_of,
    mode_pairs,
    pair_of,
    rewrap,
    stands_for_layout,
    under_conditions,
)
from .compose import compose_layouts
from .core import Layout, Tile, as_tiler, check_extents, make_pair, static_flat
from .errors import LayoutError
from .scalar import Dyn, IntTuple

# --------------------------------------------------------------------------------------------------------------------
# Divides


def _still_under(part: Layout, whole: Layout) -> Layout:
    """Conditions on the symbols of a (flat) part hold for the whole, also where the leaf that carries them is gone."""
    if Dyn not in map(type, it.modes_of(part.shape)) and Dyn not in map(type, it.modes_of(part.stride)):
        return whole
    conditions = sc.conditions_of(part.shape) + sc.conditions_of(part.stride)
    return under_conditions(conditions, whole.shape, whole.stride) if conditions else whole


def _divide_layout(a: Layout, b: Layout) -> Layout:
    flat = static_flat(a)
    size = it.product(a.shape) if flat is None else prod(flat[0])
    try:
        rest = complement_layout(b, size)
    except LayoutError as e:
        raise LayoutError(f"logical_divide({a}, {b}): {e}") from None
    both = make_pair((b.shape, rest.shape), (b.stride, rest.stride))
    try:
        return _still_under(rest, compose_layouts(a, both))
    except LayoutError as e:
        # Where the number of tiles is rounded up, only coordinates inside the layout matter; there it equals its
        # coalesced form, which has no trailing extent-1 mode that the coordinates beyond would run into.
        *_, last = it.leaves(a.shape)
        if type(last) is not int or last != 1:
            raise LayoutError(f"logical_divide({a}, {b}): {e}") from None
        return compose_layouts(coalesce(a), both)


def _divide_tile(a: Layout, tile: Tile) -> Layout:
    shapes: list[IntTuple] = []
    strides: list[IntTuple] = []
    items = tile.items
    for i, (s, d) in enumerate(mode_pairs(a)):
        entry = items[i] if i < len(items) else None
        if entry is not None:
            mode = make_pair(s, d)
            try:
                if isinstance(entry, Tile):
                    r = _divide_tile(mode, entry)
                else:
                    r = _divide_layout(mode, entry if isinstance(entry, Layout) else make_pair(entry, 1))
            except LayoutError as e:
                raise LayoutError(f"mode {i} of {a} by {tile}: {e}") from None
            s, d = r.shape, r.stride
        shapes.append(s)
        strides.append(d)
    return make_pair(tuple(shapes), tuple(strides))


def _logical_divide(a: Layout, b: Layout | Tile) -> Layout:
    if type(b) is Layout:
        return _divide_layout(a, b)
    assert isinstance(b, Tile)
    if not b.is_leaf:
        return _divide_tile(a, b)
    entry = b.items[0]
    if entry is None:
        return a
    return _divide_layout(a, entry if isinstance(entry, Layout) else make_pair(entry, 1))


def logical_divide(layout: Any, tiler: Any, *, strict: bool = False) -> Any:
    """Split ``layout`` into (tile, rest): ``layout o (tiler, complement(tiler, size(layout)))``, or so for each mode of
    a bracketed tiler.

    Where the tile does not divide the size, the number of tiles is rounded up and the result runs past the layout's
    domain (predicated kernels rely on it); ``strict=True`` raises instead, and :func:`divides_evenly` asks.
    """
    if type(layout) is Layout and type(tiler) is Layout and not strict:
        return _divide_layout(layout, tiler)
    tiler = as_tiler(tiler)
    lin = linear_of(layout)
    result = _logical_divide(lin, tiler)
    if strict and it.product(result.shape) != it.product(lin.shape):
        raise LayoutError(
            f"logical_divide({lin}, {tiler}): the tiler does not divide the layout evenly: size {it.product(lin.shape)}"
            f" becomes {it.product(result.shape)}"
        )
    return rewrap(layout, result)


def divides_evenly(layout: Any, tiler: Any) -> bool:
    """Whether ``logical_divide(layout, tiler)`` exists and covers exactly the layout's own domain."""
    lin = linear_of(layout)
    try:
        result = _logical_divide(lin, as_tiler(tiler))
    except LayoutError:
        return False
    return bool(it.product(result.shape) == it.product(lin.shape))


def _zipped(a: Layout, b: Layout | Tile) -> Layout:
    r = _logical_divide(a, b)
    guide = b.guide() if isinstance(b, Tile) else 0
    return make_pair(it.zip2_by(r.shape, guide), it.zip2_by(r.stride, guide))


def zipped_divide(layout: Any, tiler: Any) -> Any:
    """``logical_divide`` with the tile modes gathered into mode 0 and the rest modes into mode 1."""
    return rewrap(layout, _zipped(linear_of(layout), as_tiler(tiler)))


def tiled_divide(layout: Any, tiler: Any) -> Any:
    """``zipped_divide`` with the rest modes spread: (tile, rest0, rest1, ...)."""
    return rewrap(layout, _expand(_zipped(linear_of(layout), as_tiler(tiler)), (1,)))


def flat_divide(layout: Any, tiler: Any) -> Any:
    """``zipped_divide`` with both spread: (tile0, tile1, ..., rest0, rest1, ...)."""
    return rewrap(layout, _expand(_zipped(linear_of(layout), as_tiler(tiler)), (0, 1)))


def _expand(x: Layout, modes: tuple[int, ...]) -> Layout:
    return make_pair(it.expand(x.shape, modes), it.expand(x.stride, modes))


# --------------------------------------------------------------------------------------------------------------------
# Products


def _plain_tiler(tiler: Any, name: str) -> Layout:
    if type(tiler) is Layout:
        return tiler
    if stands_for_layout(tiler):
        return Layout(tiler, 1)
    raise LayoutError(f"{name}: the tiler must be a Layout, got {tiler!r}")


def _product(a: Layout, tiler: Any) -> Layout:
    """The logical product by a layout, or of every mode by the facing entry of a tile (surplus modes stay)."""
    if type(tiler) is Layout:
        return _logical_product(a, tiler)
    tile = as_tiler(tiler)
    if isinstance(tile, Layout):
        return _logical_product(a, tile)
    if tile.is_leaf:
        entry = tile.items[0]
        return a if entry is None else _logical_product(a, entry if isinstance(entry, Layout) else make_pair(entry, 1))
    out: list[Pair] = []
    for i, (s, d) in enumerate(mode_pairs(a)):
        entry = tile.items[i] if i < len(tile.items) else None
        if entry is not None:
            r = _product(make_pair(s, d), entry)
            s, d = r.shape, r.stride
        out.append((s, d))
    return make_pair(tuple(p[0] for p in out), tuple(p[1] for p in out))


def _zipped_product(a: Layout, tiler: Any) -> Layout:
    r = _product(a, tiler)
    guide = tiler.guide() if isinstance(tiler := as_tiler(tiler), Tile) else 0
    return make_pair(it.zip2_by(r.shape, guide), it.zip2_by(r.stride, guide))


def _logical_product(a: Layout, tiler: Layout) -> Layout:
    m = it.mul(it.product(a.shape), it.product(coords.coshape(tiler.shape, tiler.stride)))
    try:
        rest = complement_layout(a, m)
        r = compose_layouts(rest, tiler)
    except LayoutError as e:
        raise LayoutError(f"logical_product({a}, {tiler}): {e}") from None
    return _still_under(rest, make_pair(*canon((a.shape, r.shape), (a.stride, r.stride))))


def logical_product(layout: Any, tiler: Any) -> Any:
    """Repeat ``layout`` (mode 0) over the places that ``tiler`` names in its complement (mode 1).

    A :class:`Tile` (or tuple) as tiler repeats every mode by its entry.
    """
    return rewrap(layout, _product(linear_of(layout), tiler))


def zipped_product(layout: Any, tiler: Any) -> Any:
    """:func:`logical_product` with the parts of all modes gathered: (layout, repetitions)."""
    return rewrap(layout, _zipped_product(linear_of(layout), tiler))


def tiled_product(layout: Any, tiler: Any) -> Any:
    """``logical_product`` with the tiler's modes spread: (layout, tiler0, tiler1, ...)."""
    return rewrap(layout, _expand(_zipped_product(linear_of(layout), tiler), (1,)))


def flat_product(layout: Any, tiler: Any) -> Any:
    """``logical_product`` with both spread."""
    return rewrap(layout, _expand(_zipped_product(linear_of(layout), tiler), (0, 1)))


def _padded(x: Layout, n: int) -> Layout:
    return make_pair(it.append(x.shape, 1, n), it.append(x.stride, 0, n)) if x.rank < n else x


def _by_mode_product(a: Layout, tiler: Layout, block_first: bool) -> Layout:
    n = max(a.rank, tiler.rank)
    p = _logical_product(_padded(a, n), _padded(tiler, n))
    order = (0, 1) if block_first else (1, 0)
    parts = [p[i] for i in order]
    if n == 1:  # the one mode is the pair itself
        return make_pair(tuple(x.shape for x in parts), tuple(x.stride for x in parts))
    return make_pair(it.zip_(tuple(x.shape for x in parts)), it.zip_(tuple(x.stride for x in parts)))


def blocked_product(layout: Any, tiler: Any) -> Any:
    """Product by mode: mode i is (layout_i, tiler_i), blocks stay contiguous in each mode."""
    return rewrap(layout, _by_mode_product(linear_of(layout), _plain_tiler(tiler, "blocked_product"), True))


def raked_product(layout: Any, tiler: Any) -> Any:
    """Product by mode: mode i is (tiler_i, layout_i), blocks are interleaved in each mode."""
    return rewrap(layout, _by_mode_product(linear_of(layout), _plain_tiler(tiler, "raked_product"), False))


def tile_to_shape(block: Any, target: Any, order: Any = 0) -> Any:
    """Repeat ``block`` until it covers the shape ``target``, visiting the modes in ``order`` (0: column-major)."""
    target, order = it.normalize(target), it.normalize(order)
    check_extents(target)
    a = linear_of(block)
    if a.rank > it.rank(target):
        raise LayoutError(f"tile_to_shape: the block {a} has more modes than the target {it.to_text(target)}")
    a = _padded(a, it.rank(target))
    quotient = it.ceil_div(it.product_each(target), it.product_each(a.shape))
    tiler = make_pair(quotient, coords.ordered(quotient, order))
    return rewrap(block, _by_mode_product(a, tiler, True))


# --------------------------------------------------------------------------------------------------------------------
# Local tiles and partitions (the part of a layout that one block or one thread owns)


def _projected(x: Any, proj: Any, name: str) -> Any:
    """The entries that ``proj`` does not skip (with None); a single integer or layout stays."""
    if not isinstance(x, (tuple, list, Tile)):
        return x
    if len(x) != len(proj):
        raise LayoutError(f"{name}: the projection {tuple(proj)} does not fit {x}")
    return tuple(e for e, p in zip(x, proj, strict=True) if p is not None)


def local_tile(layout: Any, tiler: Any, coord: Any, proj: Any = None) -> tuple[Any, IntTuple]:
    """The tile at ``coord`` (in tiles): its layout and its offset.  Holes in ``coord`` keep those rest modes.

    ``proj`` picks the modes of a tiler and coordinate that several operands share: ``(1, None, 1)`` skips the second.
    """
    if proj is not None:
        tiler, coord = _projected(tiler, proj, "local_tile"), _projected(coord, proj, "local_tile")
    return _select_part(layout, zipped_divide(layout, tiler), coord, 1)


def local_partition(layout: Any, tiler: Any, index: Any) -> tuple[Any, IntTuple]:
    """The elements that thread ``index`` of the thread layout ``tiler`` owns: layout of one per tile, and offset.

    The tile is the thread layout's shape; the thread's coordinate in it is the coordinate that ``tiler`` maps to
    ``index``.  A shape stands for its column-major thread layout.
    """
    if not isinstance(tiler, Layout):
        tiler = Layout(tiler)
    crd = coords.idx2crd(it.normalize(index), tiler.shape, tiler.stride)
    tile = Tile(*it.modes_of(it.product_each(tiler.shape)))
    return _select_part(layout, zipped_divide(layout, tile), _flat_crd(crd, tiler), 0)


def _flat_crd(crd: IntTuple, tiler: Layout) -> IntTuple:
    return coords.crd2crd(crd, tiler.shape, it.product_each(tiler.shape))


def _select_part(layout: Any, zipped: Any, coord: Any, mode: int) -> tuple[Any, IntTuple]:
    lin = linear_of(zipped)
    coord = it.normalize(coord)
    part = lin[mode]
    if type(coord) is tuple and it.rank(coord) < part.rank:
        coord = it.append(coord, None, part.rank)
    kept: list[Pair] = []
    if it.has_none(coord):
        kept = [(it.slice_(part.shape, coord), it.slice_(part.stride, coord))]
    other = lin[1 - mode]
    modes = [(other.shape, other.stride), *kept]
    result = make_pair(*_tile_modes_first(pair_of(modes), bool(kept)))
    return rewrap(layout, result), coords.crd2idx(coord, part.shape, part.stride)


def _tile_modes_first(p: Pair, extended: bool) -> Pair:
    """(tile, kept rest): spread the tile so that its modes come first."""
    return (it.expand(p[0], (0, 1)), it.expand(p[1], (0, 1))) if extended else p
