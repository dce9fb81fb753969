"""Coalesce and complement.

Static layouts take a fast path on plain ints; layouts with dynamic leaves or basis strides follow the ``fly`` dialect's
inference.  A result equals its definition pointwise, or :class:`LayoutError` is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from . import coords, inttuple as it, scalar as sc
from .core import ComposedLayout, Layout, make_pair, static_flat
from .errors import LayoutError
from .lattice import is_injective_sum
from .scalar import Basis, Dyn, IntTuple, Leaf

L = TypeVar("L", Layout, ComposedLayout)
Pair = tuple[IntTuple, IntTuple]


def stands_for_layout(x: Any) -> bool:
    """Whether ``x`` is an integer (also NumPy's or a dynamic one): the extent of a layout of stride 1."""
    return isinstance(x, (int, Dyn)) or hasattr(x, "__index__")


def linear_of(x: Any) -> Layout:
    """The plain layout that by-domain operations act on; an integer ``n`` stands for ``n:1``."""
    if type(x) is Layout:
        return x
    if isinstance(x, ComposedLayout):
        return x.linear
    if stands_for_layout(x):
        return Layout(x)
    raise LayoutError(f"expected a Layout or ComposedLayout, got {x!r}")


def rewrap(x: Any, new: Layout) -> Any:
    """Put a new plain layout at the place of ``linear_of(x)``."""
    return x.with_linear(new) if isinstance(x, ComposedLayout) else new


def pair_of(modes: list[Pair]) -> Pair:
    """A list of (shape, stride) modes as one pair; a single mode stays bare."""
    if len(modes) == 1:
        return modes[0]
    return tuple(m[0] for m in modes), tuple(m[1] for m in modes)


def canon(shape: IntTuple, stride: IntTuple) -> Pair:
    """Canonical pair: extent-1 leaves get stride 0, rank-1 wrappers disappear."""
    if type(shape) is not tuple:
        return (1, 0) if sc.is_one(shape) else (shape, stride)
    if type(stride) is not tuple or len(stride) != len(shape):
        raise LayoutError(f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent")
    if len(shape) == 1:
        return canon(shape[0], stride[0])
    return pair_of([canon(s, d) for s, d in zip(shape, stride, strict=True)])


# --------------------------------------------------------------------------------------------------------------------
# Coalesce


def _merges(s: Leaf, d: Leaf, next_d: Leaf) -> bool:
    """Whether the mode (s:d) runs on into a mode with stride ``next_d``."""
    if type(d) is Basis or type(next_d) is Basis:
        if type(d) is not Basis or type(next_d) is not Basis or d.modes != next_d.modes:
            return False
        d, next_d = d.value, next_d.value
    if type(s) is Dyn or type(d) is Dyn or type(next_d) is Dyn:
        return False
    return bool((s or 0) * (d or 0) == (next_d or 0))


def _coalesce_static(shapes: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    out_s: list[int] = []
    out_d: list[int] = []
    for s, d in zip(shapes, strides, strict=True):
        if s == 1:
            continue
        if out_s and out_s[-1] * out_d[-1] == d:
            out_s[-1] *= s
        else:
            out_s.append(s)
            out_d.append(d)
    return out_s, out_d


def coalesce_pair(shape: IntTuple, stride: IntTuple, extended: bool = False) -> Pair:
    """Coalesce of a pair; ``extended`` keeps the meaning beyond the nominal size (used before composition)."""
    fs, fd = it.flatten(shape), it.flatten(stride)
    if type(fs) is not tuple:
        if sc.is_one(fs):
            return (2, fd) if extended else (1, 0)
        return shape, stride
    if type(fd) is not tuple or len(fd) != len(fs):
        raise LayoutError(f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent")
    if len(fs) == 1 and not extended:
        return (1, 0) if sc.is_one(fs[0]) else (shape, stride)
    if extended and sc.is_one(fs[-1]):
        fs = (*fs[:-1], 2)
    out: list[Pair] = []
    s, d = fs[-1], fd[-1]
    for s2, d2 in zip(reversed(fs[:-1]), reversed(fd[:-1]), strict=True):
        if sc.is_one(s2):
            continue
        if sc.is_one(s):
            s, d = s2, d2
        elif type(s) is int and _merges(s2, d2, d):
            s, d = s2 * s, d2
        else:
            out.append((s, d))
            s, d = s2, d2
    if not out:
        return (1, 0) if sc.is_one(s) else (s, d)
    out.append((s, d))
    return pair_of(out[::-1])


def _coalesce_by(shape: IntTuple, stride: IntTuple, profile: IntTuple) -> Pair:
    if type(profile) is not tuple:
        return coalesce_pair(shape, stride)
    if type(shape) is not tuple or len(shape) < len(profile):
        raise LayoutError(f"coalesce: the profile {it.to_text(profile)} does not fit the shape {it.to_text(shape)}")
    done = [_coalesce_by(s, d, p) for s, d, p in zip(shape, stride, profile, strict=False)]
    n = len(profile)
    return tuple(p[0] for p in done) + shape[n:], tuple(p[1] for p in done) + stride[n:]


def coalesce(layout: L, profile: IntTuple = None) -> L:
    """The same function with as few modes as possible; with ``profile``, within each of its terminals.

    Merges neighbouring modes ``s0:d0, s1:d1`` with ``s0*d0 == d1`` and drops extent-1 modes.  A rank-1 tuple stays.
    """
    lin = linear_of(layout)
    if profile is not None and type(profile) is tuple:
        static_flat(lin)
        return rewrap(layout, make_pair(*_coalesce_by(lin.shape, lin.stride, profile)))  # type: ignore[no-any-return]
    flat = static_flat(lin)
    if flat is None or len(flat[0]) == 1:
        return rewrap(layout, make_pair(*coalesce_pair(lin.shape, lin.stride)))  # type: ignore[no-any-return]
    s, d = _coalesce_static(*flat)
    if len(s) == 1:
        new = make_pair(s[0], d[0])
    else:
        new = make_pair(tuple(s), tuple(d)) if s else make_pair(1, 0)
    return rewrap(layout, new)  # type: ignore[no-any-return]


def filter_zeros(layout: L, profile: IntTuple = None) -> L:
    """Replace the extents of zero-stride modes by 1 (where ``profile``, default the strides, is zero)."""
    lin = linear_of(layout)
    guide = lin.stride if profile is None else profile
    return rewrap(layout, make_pair(it.filter_zero(guide, lin.shape), lin.stride))  # type: ignore[no-any-return]


def filter_(layout: L, profile: IntTuple = None) -> L:
    """Drop zero-stride and extent-1 modes: ``coalesce(filter_zeros(layout))``."""
    return coalesce(filter_zeros(layout), profile)


# --------------------------------------------------------------------------------------------------------------------
# Complement


#: What to do where the gaps of a layout are no layout. (CuTe asks for the same nesting, and asserts it or answers with
#: a layout that leaves some of the gaps out.)
_WAY_OUT = (
    "Use a layout whose modes nest (by growing stride, each a multiple of stride * extent of the one before), split the"
    " extents so that they do, or, where only the tile itself is needed, compose with it (composition) instead of"
    " dividing"
)


def _complement_static(shapes: Sequence[int], strides: Sequence[int], m: int, layout: Layout) -> Layout:
    if m <= 0:
        raise LayoutError(f"complement({layout}, {m}): the codomain size must be positive")
    out_s: list[int] = []
    out_d: list[int] = []
    last = 1
    modes = sorted((d, s) for d, s in zip(strides, shapes) if s > 1 and d)  # noqa: B905  (lengths are equal)
    before: list[tuple[int, int]] = []  # for every mode the number of gaps found before it, and where they end
    for d, s in modes:
        before.append((len(out_s), last))
        if d == last:
            last = d * s
            continue
        if d < 0 or d % last:
            n, last = _filled_early(modes, before, m, layout)
            del out_s[n:], out_d[n:]
            break
        out_s.append(d // last)
        out_d.append(last)
        last = d * s
    top = -(-m // last)
    if not out_s:
        return make_pair(top, last) if top > 1 or last == 1 else make_pair(1, 0)
    if top > 1:
        out_s.append(top)
        out_d.append(last)
    if len(out_s) == 1:
        return make_pair(out_s[0], out_d[0])
    return make_pair(tuple(out_s), tuple(out_d))


def _filled_early(
    modes: list[tuple[int, int]], before: list[tuple[int, int]], m: int, layout: Layout
) -> tuple[int, int]:
    """Where the complement may stop because it covers the codomain: the modes from there on only copy what is full.

    The gaps before the mode of the same number; the copies must not overlap.
    """
    for k in range(len(before) - 1, -1, -1):
        n, last = before[k]
        reach = -(-m // last) * last
        if modes[0][0] > 0 and is_injective_sum([(1, reach), *modes[k:]]):
            return n, last
    d, s = modes[len(before) - 1]
    raise LayoutError(
        f"complement({layout}, {m}): the mode {s}:{d} does not start at a multiple of {before[-1][1]}, where the modes"
        f" of smaller stride end, so no layout enumerates the gaps (the layout may not be injective). {_WAY_OUT}"
    )


def _complement_quick(shapes: Sequence[int], strides: Sequence[int], m: int) -> Layout | None:
    """The regular static case: every mode starts at a multiple of the end of the one before.  None: not that case."""
    if m <= 0:
        return None
    out_s: tuple[int, ...] = ()
    out_d: tuple[int, ...] = ()
    last = 1
    for d in sorted(strides):
        s = shapes[strides.index(d)]
        if s == 1:
            if strides.count(d) > 1:  # a stride that occurs twice does not say which extent is its own
                return None
            continue
        if d != last:
            if d == 0:
                continue
            if d < last or d % last:  # so is the second of two equal strides
                return None
            out_s += (d // last,)
            out_d += (last,)
        last = d * s
    if m > last:
        out_s += ((m - 1) // last + 1,)
        out_d += (last,)
    if not out_s:
        return None
    return make_pair(out_s, out_d) if len(out_s) > 1 else make_pair(out_s[0], out_d[0])


def complement_layout(layout: Layout, codomain: Leaf = None) -> Layout:
    """Complement of a plain layout."""
    flat = static_flat(layout)
    if flat is not None and (codomain is None or type(codomain) is int):
        if codomain is None:
            codomain = 1 + sum((s - 1) * d for s, d in zip(*flat, strict=True))
        quick = _complement_quick(*flat, codomain)
        return _complement_static(flat[0], flat[1], codomain, layout) if quick is None else quick
    filtered = it.filter_zero(layout.stride, layout.shape)
    shape, stride = coalesce_pair(filtered, layout.stride)
    if codomain is None:
        codomain = it.product(coords.coshape(shape, stride))
    fs, fd = it.flatten(shape), it.flatten(stride)
    if type(codomain) is int and codomain <= 0:
        raise LayoutError(f"complement({layout}, {codomain}): the codomain size must be positive")
    if type(fd) is not tuple and sc.is_zero(fd):
        return make_pair(codomain, 1)
    modes = list(zip(it.modes_of(fd), it.modes_of(fs), strict=True))
    if any(type(d) is Basis for d, _ in modes):
        raise LayoutError(f"complement({layout}): needs integer strides")
    if len(modes) > 1:
        if any(type(d) is not int for d, _ in modes):
            raise LayoutError(f"complement({layout}): a layout of several modes needs static strides")
        modes.sort(key=lambda m: m[0])
    out: list[Pair] = []
    conditions: list[sc.Condition] = []
    last: Leaf = 1
    for d, s in modes:
        if type(d) is Dyn or type(last) is Dyn:
            conditions.append((f"complement({layout})", "starts", (d, last)))
        if type(d) is int and (d <= 0 or (type(last) is int and (last <= 0 or d % last))):
            raise LayoutError(
                f"complement({layout}, {codomain}): the mode {s}:{d} does not start at a multiple of {last}. {_WAY_OUT}"
            )
        out.append((sc.div(d, last), last))
        last = sc.mul(d, s)
    out.append((sc.ceil_div(codomain, last), last))
    return under_conditions(conditions, *coalesce_pair(*pair_of(out)))


def under_conditions(conditions: list[sc.Condition], shape: IntTuple, stride: IntTuple) -> Layout:
    """A layout whose value for named symbols is refused where the conditions do not hold (:func:`.scalar.under`)."""
    kept = sc.under(conditions, shape)
    return make_pair(kept, stride if kept is not shape else sc.under(conditions, stride))


def complement(layout: Layout | ComposedLayout, codomain_size: Any = None) -> Any:
    """The layout that enumerates, in increasing order, the gaps of ``layout`` up to ``codomain_size``.

    With ``C`` the result: ``(layout, C)`` is injective, its image covers ``[0, codomain_size)`` and the strides of
    ``C`` increase.  Zero-stride modes are ignored; the default codomain is the cosize.  For a composed layout the
    complement of its plain outer is returned in the same chain (the convention of the ``fly`` dialect).
    """
    if type(layout) is Layout and type(codomain_size) is int:
        flat = layout._flat
        if type(flat) is tuple and (quick := _complement_quick(flat[0], flat[1], codomain_size)) is not None:
            return quick
        return complement_layout(layout, codomain_size)
    if codomain_size is not None:
        codomain_size = it.unwrap(it.normalize(codomain_size))
        if type(codomain_size) is tuple:
            raise LayoutError(f"the codomain size of a complement must be one integer: {it.to_text(codomain_size)}")
    return rewrap(layout, complement_layout(linear_of(layout), codomain_size))


def plain(layout: Any, name: str) -> Layout:
    """Demand a plain, congruent Layout (or an integer ``n``, short for ``n:1``)."""
    if stands_for_layout(layout):
        return Layout(layout)
    if type(layout) is not Layout:
        raise LayoutError(f"{name} needs a plain Layout, got {layout!r}")
    if static_flat(layout) is None and not it.congruent(layout.shape, layout.stride):
        raise LayoutError(f"{name}: shape and stride of {layout} are not congruent")
    return layout


def mode_pairs(layout: Layout) -> list[Pair]:
    """The top-level (shape, stride) modes."""
    shapes, strides = it.modes_of(layout.shape), it.modes_of(layout.stride)
    if len(shapes) != len(strides):
        raise LayoutError(f"shape and stride of {layout} are not congruent")
    return list(zip(shapes, strides, strict=True))
