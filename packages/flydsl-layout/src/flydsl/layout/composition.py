"""Composition.

Static layouts take a fast path on plain ints that is exact: the result equals its definition at every coordinate or
:class:`LayoutError` is raised.  Where the divisibility rules do not decide, small domains are enumerated.  Layouts with
dynamic leaves or basis strides follow the ``fly`` dialect's inference.
"""

from __future__ import annotations

from typing import Any

from . import coords
from . import inttuple as it
from . import scalar as sc
from .algebra import Pair, canon, coalesce_pair, linear_of, pair_of, rewrap
from .core import ComposedLayout, Layout, Swizzle, Tile, as_tiler, make_pair, set_cx, static_flat
from .errors import LayoutError
from .scalar import Basis, IntTuple, Leaf

#: Largest domain that is enumerated to decide whether an irregular composition still has a layout answer.
ENUMERATION_LIMIT = 1 << 18


class _NotStatic(Exception):
    pass


def _extended_modes(a: Layout) -> tuple[list[tuple[int, int]], int] | None:
    """Coalesced modes of a static layout for composition: all but the last, and the stride of the unbounded last."""
    r: Any = a._cx
    if r is not None:
        return r or None
    flat = static_flat(a)
    r = False
    if flat is not None:
        modes: list[tuple[int, int]] = []
        ps = pd = 0
        shapes, strides = flat
        for i in range(len(shapes) - 1):
            s = shapes[i]
            if s == 1:
                continue
            d = strides[i]
            if ps:
                if ps * pd == d:
                    ps *= s
                    continue
                modes.append((ps, pd))
            ps = s
            pd = d
        last = strides[-1]
        if ps:
            if ps * pd == last:
                last = pd
            else:
                modes.append((ps, pd))
        r = modes, last
    set_cx(a, r)
    return r or None


_CARRY = 1 << 62


def _irregular(a: Layout, s: int, d: int, used: list[int]) -> Pair:
    """Decide by enumeration whether ``i -> a(d*i)`` on ``[0, s)`` is a layout, and find it."""
    if used:
        used[0] += _CARRY
    why = f"composition({a}, {s}:{d}) has no layout answer"
    if d < 0:
        raise LayoutError(f"{why}: the stride {d} leads to negative coordinates of {a}")

    def f(i: int) -> int:
        return coords.crd2idx(i * d, a.shape, a.stride)  # type: ignore[no-any-return]

    modes: list[tuple[int, int]] = []
    step, rest = 1, s
    while rest > 1:
        base = f(step)
        n = 2
        while n < rest and n <= ENUMERATION_LIMIT and f(n * step) == n * base:
            n += 1
        if n > ENUMERATION_LIMIT:
            raise LayoutError(f"composition({a}, {s}:{d}): the domain is too large to decide by enumeration")
        if rest % n:
            raise LayoutError(
                f"{why}: the mode {s}:{d} steps evenly for {n} of its {rest} remaining coordinates, and {n} does not"
                f" divide {rest}"
            )
        modes.append((n, base))
        step, rest = step * n, rest // n
    shapes, strides = tuple(m[0] for m in modes), tuple(m[1] for m in modes)
    if s > ENUMERATION_LIMIT:
        raise LayoutError(f"composition({a}, {s}:{d}): the domain is too large to decide by enumeration")
    for i in range(s):
        if f(i) != coords.crd2idx(i, shapes, strides):
            raise LayoutError(f"{why}: the mode {s}:{d} crosses the modes of {a} unevenly (first at coordinate {i})")
    return pair_of(list(modes))


def _compose_leaf(a: Layout, modes: list[tuple[int, int]], last: int, s: int, d: int, used: list[int]) -> Pair:
    """One leaf mode; adds the largest digit it puts into every mode of ``a`` to ``used``."""
    if s == 1:
        return 1, 0
    if d == 0:
        return s, 0
    if d < 0:
        return _irregular(a, s, d, used)
    rs = s
    rd = d
    out: list[Pair] = []
    k = 0
    for n, m in modes:
        if rd >= n:
            rd, r = divmod(rd, n)
            if r:
                return _irregular(a, s, d, used)
            k += 1
            continue
        top = (rs - 1) * rd
        if top < n:
            used[k] += top
            if not out:
                return rs, rd * m
            out.append((rs, rd * m))
            break
        c, r = divmod(n, rd)
        if r or rs % c:
            return _irregular(a, s, d, used)
        used[k] += n - rd
        out.append((c, rd * m))
        rs //= c
        rd = 1
        k += 1
    else:
        if not out:
            return rs, rd * last
        if rs > 1:
            out.append((rs, rd * last))
    if len(out) == 1:
        return out[0]
    return tuple([p[0] for p in out]), tuple([p[1] for p in out])


def _compose_rec(
    a: Layout, modes: list[tuple[int, int]], last: int, shape: IntTuple, stride: IntTuple, used: list[int]
) -> Pair:
    if type(shape) is int:
        if type(stride) is not int:
            raise _NotStatic
        return _compose_leaf(a, modes, last, shape, stride, used)
    if type(shape) is not tuple:
        raise _NotStatic
    if type(stride) is not tuple or len(shape) != len(stride):
        raise LayoutError(f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent")
    if len(shape) == 1:
        return _compose_rec(a, modes, last, shape[0], stride[0], used)
    out_s = []
    out_d = []
    for s, d in zip(shape, stride):  # noqa: B905  (lengths are equal; this is the inner loop)
        if type(s) is int and type(d) is int:
            p = _compose_leaf(a, modes, last, s, d, used)
        else:
            p = _compose_rec(a, modes, last, s, d, used)
        out_s.append(p[0])
        out_d.append(p[1])
    return tuple(out_s), tuple(out_d)


def _check_carries(a: Layout, b: Layout, r: Layout) -> None:
    """Modes of ``b`` together overflow a mode of ``a``; decide by enumeration whether the result is right anyway."""
    size = it.product(b.shape)
    if size > ENUMERATION_LIMIT:
        raise LayoutError(f"composition({a}, {b}): the domain is too large to decide by enumeration")
    for i in range(size):
        want = coords.crd2idx(coords.crd2idx(i, b.shape, b.stride), a.shape, a.stride)
        if coords.crd2idx(i, r.shape, r.stride) != want:
            raise LayoutError(
                f"composition({a}, {b}) has no layout answer: the modes of {b} together carry across the modes of {a}"
                f" (first at coordinate {it.to_text(coords.colex_coord(i, b.shape))})"
            )


class _Symbolic:
    """Composition with a layout that has dynamic leaves or basis strides, by the dialect's inference rules."""

    def __init__(self, a: Layout) -> None:
        self.a = a
        self.parts: dict[tuple[int, ...], Pair] = {}
        self.used: dict[tuple[Any, ...], tuple[int, int]] = {}

    def compose(self, shape: IntTuple, stride: IntTuple) -> Pair:
        if type(shape) is tuple:
            if type(stride) is not tuple or len(shape) != len(stride):
                raise LayoutError(f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent")
            return pair_of([self.compose(s, d) for s, d in zip(shape, stride, strict=True)])
        path: tuple[int, ...] = ()
        if type(stride) is Basis:
            path, stride = stride.modes, stride.value
        if path not in self.parts:
            a = self.a
            self.parts[path] = coalesce_pair(it.get(a.shape, *path), it.get(a.stride, *path), extended=True)
        return self.leaf(path, shape, stride)

    def leaf(self, path: tuple[int, ...], s: Leaf, d: Leaf) -> Pair:
        shapes, strides = self.parts[path]
        if sc.is_zero(d) or sc.is_one(s):
            return canon(s, 0)
        if type(shapes) is not tuple:
            return canon(s, sc.mul(strides, d))
        why = f"composition({self.a}, {it.to_text(s)}:{it.to_text(d)})"
        rs, rd = s, d
        out: list[Pair] = []
        for k, (n, m) in enumerate(zip(shapes[:-1], strides[:-1], strict=True)):
            if type(n) is int and type(rd) is int and rd % n and rd >= n:
                raise LayoutError(f"{why}: the stride {rd} neither divides nor clears the extent {n}")
            count, next_rd = sc.ceil_div(n, rd), sc.ceil_div(rd, n)
            if sc.is_one(count) or sc.is_one(rs):
                rd = next_rd
                continue
            size = sc.minimum(count, rs)
            if type(rs) is int and type(size) is int:
                uneven = type(n) is int and type(rd) is int and n % rd and (rs - 1) * rd >= n
                if rs % size or uneven:
                    raise LayoutError(f"{why}: the mode crosses the extent {n} unevenly")
            if type(size) is int and type(rd) is int and type(n) is int:
                total = self.used.get((path, k), (0, n))[0]
                self.used[(path, k)] = total + (size - 1) * rd, n
            out.append((size, sc.mul(rd, m)))
            rs, rd = sc.div(rs, size), next_rd
        if not out or not sc.is_one(rs):
            out.append((rs, sc.mul(rd, strides[-1])))
        return canon(*pair_of(out))

    def check(self, b: Layout) -> None:
        for total, n in self.used.values():
            if total >= n:
                raise LayoutError(
                    f"composition({self.a}, {b}): the modes of {b} together reach {total} in a mode of extent {n} and"
                    " carry into the next one"
                )


def compose_layouts(a: Layout, b: Layout) -> Layout:
    """Plain ``a o b``."""
    ext = _extended_modes(a)
    if ext is not None:
        try:
            modes, last = ext
            used = [0] * len(modes)
            p = _compose_rec(a, modes, last, b.shape, b.stride, used)
            r = make_pair(p[0], p[1])
            for k, m in enumerate(modes):
                if used[k] >= m[0]:
                    _check_carries(a, b, r)
                    break
            return r
        except _NotStatic:
            pass
    symbolic = _Symbolic(a)
    r = make_pair(*canon(*symbolic.compose(b.shape, b.stride)))
    symbolic.check(b)
    return r


def _compose_tile(a: Layout, tile: Tile) -> Layout:
    shapes, strides = it.modes_of(a.shape), it.modes_of(a.stride)
    out: list[Pair] = []
    for i, (s, d) in enumerate(zip(shapes, strides, strict=True)):
        entry = tile.items[i] if i < len(tile.items) else None
        if entry is None:
            out.append((s, d))
            continue
        mode = make_pair(s, d)
        if isinstance(entry, Tile):
            r = _compose_tile(mode, entry)
        else:
            r = compose_layouts(mode, entry if isinstance(entry, Layout) else make_pair(entry, 1))
        out.append((r.shape, r.stride))
    return make_pair(*canon(*pair_of(out)))


def composition(a: Any, b: Any) -> Any:
    """``R = a o b``: ``R(c) == a(b(c))`` for every coordinate of ``b``, with the profile of ``b``.

    ``a`` is a Layout, ComposedLayout (its outer is composed) or Swizzle (gives a ComposedLayout); ``b`` a Layout, a
    ComposedLayout (gives a ComposedLayout unless its inner is trivial) or a tiler (:class:`Tile`, tuple or int), which
    is composed mode by mode.  The last mode of ``a`` is unbounded: its shape never clips ``b``.

    Raises :class:`LayoutError` if no layout equals the composition.
    """
    if type(a) is Layout and type(b) is Layout:
        return compose_layouts(a, b)
    if isinstance(b, ComposedLayout):
        inner = composition(a, b.inner) if isinstance(b.inner, Layout) else _inner_of(a, b)
        return ComposedLayout(inner, b.offset, b.outer)
    if not isinstance(a, (Layout, ComposedLayout)):
        if isinstance(b, Layout):
            return ComposedLayout(a, coords.coprofile(b.stride), b)
        raise LayoutError(f"cannot compose {a!r} with {b!r}")
    b = as_tiler(b)
    lin = linear_of(a)
    if isinstance(b, Layout):
        return rewrap(a, compose_layouts(lin, b))
    if b.is_leaf:
        entry = b.items[0]
        if entry is None:
            return a
        return rewrap(a, compose_layouts(lin, entry if isinstance(entry, Layout) else make_pair(entry, 1)))
    return rewrap(a, _compose_tile(lin, b))


def _inner_of(a: Any, b: ComposedLayout) -> Any:
    if isinstance(b.inner, ComposedLayout):
        return composition(a, b.inner)
    if isinstance(b.inner, Swizzle) and b.inner.mask == 0 and isinstance(a, (Layout, ComposedLayout, Swizzle)):
        return a
    raise LayoutError(f"composition({a}, {b}): the swizzle {b.inner} has no layout form to compose with")
