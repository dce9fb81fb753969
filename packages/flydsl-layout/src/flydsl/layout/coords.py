"""Coordinates and indices on (shape, stride) pairs of int tuples.

A layout maps a coordinate to the inner product of coordinate and stride; an integer coordinate is first split
colexicographically (mode 0 fastest).  The last mode is never reduced, so a layout also has a value beyond its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import inttuple as it, scalar as sc
from .errors import LayoutError
from .scalar import Basis, IntTuple, Leaf


def crd2idx(crd: IntTuple, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Index of a coordinate: an integer, or a coordinate tuple if the strides are basis vectors.  Holes count 0."""
    if crd is None:
        return 0
    if type(crd) is not tuple:
        if type(shape) is not tuple:
            if type(stride) is tuple:
                raise LayoutError(f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent")
            return crd * stride if type(crd) is int and type(stride) is int else sc.mul(crd, stride)
        _same_rank(shape, stride)
        if len(shape) == 1:
            return crd2idx(crd, shape[0], stride[0])
        split = []
        for s in shape[:-1]:
            p = it.product(s)
            if type(crd) is int and type(p) is int and crd >= 0 and p:
                crd, r = divmod(crd, p)
                split.append(r)
            else:
                split.append(sc.mod(crd, p))
                crd = sc.div(crd, p)
        crd = (*split, crd)
    elif type(shape) is not tuple or len(shape) != len(crd):
        raise LayoutError(f"coordinate {it.to_text(crd)} does not fit the shape {it.to_text(shape)}")
    else:
        _same_rank(shape, stride)
    total: IntTuple = 0
    for c, s, d in zip(crd, shape, stride, strict=True):
        total = it.coord_add(total, crd2idx(c, s, d))
    return total


def _same_rank(shape: IntTuple, stride: IntTuple) -> None:
    if type(stride) is not tuple or len(stride) != len(shape):
        raise LayoutError(f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent")


def idx2crd(idx: IntTuple, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Per leaf ``(idx / stride) mod shape`` (0 for extent 1); the inverse of ``crd2idx`` on compact layouts."""
    if type(idx) is tuple:
        if type(shape) is not tuple or len(shape) != len(idx):
            raise LayoutError(f"index {it.to_text(idx)} does not fit the shape {it.to_text(shape)}")
        _same_rank(shape, stride)
        return tuple(idx2crd(i, s, d) for i, s, d in zip(idx, shape, stride, strict=True))
    if type(shape) is tuple:
        _same_rank(shape, stride)
        return tuple(idx2crd(idx, s, d) for s, d in zip(shape, stride, strict=True))
    if sc.is_one(shape):
        return 0
    if type(stride) is Basis:
        raise LayoutError(f"idx2crd needs integer strides, got {stride}")
    return sc.mod(sc.div(idx, stride), shape)


def colex_index(crd: IntTuple, shape: IntTuple) -> Leaf:
    """Linear (colexicographic) index of a coordinate in a shape."""
    if type(crd) is not tuple:
        return crd
    if type(shape) is not tuple or len(shape) != len(crd):
        raise LayoutError(f"coordinate {it.to_text(crd)} does not fit the shape {it.to_text(shape)}")
    r: Leaf = None
    for c, s in zip(reversed(crd), reversed(shape), strict=True):
        i = colex_index(c, s)
        r = i if r is None else sc.add(i, sc.mul(it.product(s), r))
    return r


def colex_coord(idx: Leaf, shape: IntTuple) -> IntTuple:
    """Coordinate of a linear index; the last mode is not reduced."""
    if type(shape) is not tuple:
        return idx
    out = []
    for s in shape[:-1]:
        p = it.product(s)
        out.append(colex_coord(sc.mod(idx, p), s))
        idx = sc.div(idx, p)
    out.append(colex_coord(idx, shape[-1]))
    return tuple(out)


def crd2crd(crd: IntTuple, src_shape: IntTuple, dst_shape: IntTuple) -> IntTuple:
    """Re-express a coordinate of ``src_shape`` in ``dst_shape``."""
    if type(crd) is tuple and type(src_shape) is tuple and type(dst_shape) is tuple:
        if not len(crd) == len(src_shape) == len(dst_shape):
            raise LayoutError(f"crd2crd: {it.to_text(src_shape)} and {it.to_text(dst_shape)} differ in rank")
        return tuple(crd2crd(c, s, d) for c, s, d in zip(crd, src_shape, dst_shape, strict=True))
    return colex_coord(colex_index(crd, src_shape), dst_shape)


def compact(shape: IntTuple, start: Leaf = 1) -> IntTuple:
    """Column-major strides: the running product of the leaves, beginning at ``start``."""
    running = start

    def step(s: Leaf) -> Leaf:
        nonlocal running
        d = running
        running = sc.mul(running, s)
        return d

    return it.transform_leaf(step, shape)


def compact_row_major(shape: IntTuple) -> IntTuple:
    """Row-major strides: the last leaf is the fastest."""
    flat = list(it.leaves(shape))
    out: list[Leaf] = []
    running: Leaf = 1
    for s in reversed(flat):
        out.append(running)
        running = sc.mul(running, s)
    return it.unflatten(bare_tuple(out[::-1]), shape)


def bare_tuple(items: list[Leaf]) -> IntTuple:
    return items[0] if len(items) == 1 else tuple(items)


def ordered(shape: IntTuple, order: IntTuple) -> IntTuple:
    """Compact strides in which parts with smaller ``order`` are faster.

    Static orders come before dynamic ones, dynamic ones keep their position; parts of equal static order do not
    multiply into each other.  ``order`` must be weakly congruent with ``shape``.
    """
    if type(order) is not tuple:
        return compact(shape)
    if not it.weakly_congruent(order, shape):
        raise LayoutError(f"order {it.to_text(order)} is not weakly congruent with the shape {it.to_text(shape)}")
    parts: list[tuple[Leaf, Leaf]] = []

    def collect(s: IntTuple, o: IntTuple) -> None:
        if type(o) is tuple:
            for se, oe in zip(s, o, strict=True):
                collect(se, oe)
            return
        if type(o) is Basis:
            raise LayoutError(f"a basis leaf cannot be an order: {it.to_text(order)}")
        parts.append((it.product(s), o))

    collect(shape, order)

    def before(j: int, i: int) -> bool:
        oj, oi = parts[j][1], parts[i][1]
        if sc.is_static(oj):
            return not sc.is_static(oi) or (oj or 0) < (oi or 0)
        return not sc.is_static(oi) and j < i

    position = 0

    def build(s: IntTuple, o: IntTuple) -> IntTuple:
        nonlocal position
        if type(o) is tuple:
            return tuple(build(se, oe) for se, oe in zip(s, o, strict=True))
        start: Leaf = 1
        for j in range(len(parts)):
            if j != position and before(j, position):
                start = sc.mul(start, parts[j][0])
        position += 1
        return compact(s, start)

    return build(shape, order)


def identity_stride(shape: IntTuple, path: tuple[int, ...] = ()) -> IntTuple:
    """Basis strides whose layout maps every coordinate to itself; a leaf shape gets stride 1."""
    if type(shape) is tuple:
        return tuple(identity_stride(s, (*path, i)) for i, s in enumerate(shape))
    return Basis(1, path) if path else 1


def coprofile(stride: IntTuple) -> IntTuple:
    """The profile of the codomain: 0 for integer strides, a tuple of zeros for basis strides."""
    return it.transform_leaf(lambda _: 0, it.tuple_sum(stride))


def coshape(shape: IntTuple, stride: IntTuple) -> IntTuple:
    """One more than the last coordinate, per codomain leaf: ``1 + sum (shape-1)*stride``."""
    total: IntTuple = 0

    def visit(s: IntTuple, d: IntTuple) -> None:
        nonlocal total
        total = it.coord_add(total, sc.mul(sc.sub(s, 1), d))

    it.transform_leaf(visit, shape, stride)
    if type(total) is Basis:
        total = it.basis_to_tuple(total)
    return it.transform_leaf(lambda x: sc.add(x, 1), total)


def compile_index(shape: Sequence[int], stride: Sequence[int]) -> Any:
    """A Python function from a non-negative linear coordinate to the index, for flat static integer modes."""
    terms: list[str] = []
    running = 1
    last = len(shape) - 1
    for k, (s, d) in enumerate(zip(shape, stride, strict=True)):
        if (s > 1 or k == last) and d != 0:
            x = "i" if running == 1 else f"i//{running}"
            if k != last:
                x = f"{x}%{s}"
            terms.append(x if d == 1 else f"({x})*{d}" if x != "i" else f"i*{d}")
        running *= s
    return eval("lambda i: " + ("+".join(terms) or "0"))
