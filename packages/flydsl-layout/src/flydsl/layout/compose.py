"""Composition.

Static layouts take a fast path on plain ints that is exact: the result equals its definition at every coordinate or
:class:`LayoutError` is raised.  Where the divisibility rules do not decide, the carries do (:mod:`.carries`).  Layouts
with dynamic leaves or basis strides follow the ``fly`` dialect's inference.
"""

from __future__ import annotations

from itertools import product as grid
from typing import Any

from . import coords, inttuple as it, scalar as sc
from .algebra import (
    Pair,
    canon,
    coalesce_pair,
    linear_of,
    mode_pairs,
    pair_of,
    rewrap,
    stands_for_layout,
    under_conditions,
)
from .carries import ENUMERATION_LIMIT, Carries, Digit
from .core import ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile, as_tiler, make_pair, set_cx, static_flat
from .errors import LayoutError
from .scalar import Basis, IntTuple, Leaf


class _NotStatic(Exception):
    pass


def _extended_modes(a: Layout) -> tuple[list[tuple[int, int]], int] | None:
    """Coalesced modes of a static layout for composition: all but the last, and the stride of the unbounded last."""
    try:
        return a._cx or None  # type: ignore[return-value]
    except AttributeError:
        pass
    flat = static_flat(a)
    r: Any = False
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


#: Marks a leaf that was decided by its carries, so that its part in ``used`` asks for the check of the whole.
_CARRY = 1 << 62


def _irregular(a: Layout, s: int, d: int, used: list[int]) -> Pair:
    """Decide by its carries whether ``i -> a(d*i)`` on ``[0, s)`` is a layout, and find it."""
    if used:
        used[0] += _CARRY
    found = _carries_of(a).digits(s, abs(d))
    if isinstance(found, str):
        raise LayoutError(f"composition({a}, {s}:{d}) has no layout answer: the mode {s}:{d} {found}")
    modes: list[Pair] = [(n, coords.crd2idx(step, a.shape, a.stride)) for n, step in found]
    # An index beyond the modes is defined by division that truncates toward zero, so a(-x) == -a(x).
    return pair_of(modes) if d > 0 else _negated_pair(pair_of(modes))


def _carries_of(a: Layout) -> Carries:
    ext = _extended_modes(a)
    assert ext is not None
    modes, last = ext
    return Carries([n for n, _ in modes], [[*(m for _, m in modes), last]])


def _compose_leaf(a: Layout, modes: list[tuple[int, int]], last: int, s: int, d: int, used: list[int]) -> Pair:
    """One leaf mode; adds the largest digit it puts into every mode of ``a`` to ``used``."""
    if s == 1:
        return 1, 0
    if d == 0:
        return s, 0
    if d < 0:
        if not modes:
            return s, d * last
        used[0] += _CARRY
        return _negated_pair(_compose_leaf(a, modes, last, s, -d, used))
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


def _check_carries(a: Layout, b: Layout) -> None:
    """Modes of ``b`` together overflow a mode of ``a``: raise unless the steps add up all the same."""
    shapes, strides = static_flat(b) or ([], [])
    carries = _carries_of(a)
    digits: list[Digit] = []
    steps = [(s, d) for s, d in zip(shapes, strides, strict=True) if s > 1 and d]
    for s, d in steps:
        found = carries.digits(s, abs(d))
        assert not isinstance(found, str), "every mode has been composed by itself"
        digits += found
    try:
        if len({d > 0 for _, d in steps}) > 1:
            where = _mixed_witness(a, b)
        elif (at := carries.witness(digits)) is None:
            where = None
        else:
            sign = 1 if steps[0][1] > 0 else -1
            where = f"index {sign * sum(u * d for u, (_, d) in zip(at, digits, strict=True))}"
    except LayoutError as e:
        raise LayoutError(f"composition({a}, {b}): {e}") from None
    if where is not None:
        raise LayoutError(
            f"composition({a}, {b}) has no layout answer: the modes of {b} together carry across the modes of {a}"
            f" (for example at {where} of {a})"
        )


def _mixed_witness(a: Layout, b: Layout) -> str | None:
    """Strides of both signs: indices change their sign, so the box is enumerated."""
    shapes, strides = static_flat(b) or ([], [])
    if it.product(b.shape) > ENUMERATION_LIMIT:
        raise LayoutError("strides of both signs on a domain that is too large to enumerate")
    parts = [[(i * d, coords.crd2idx(i * d, a.shape, a.stride)) for i in range(s)] for s, d in zip(shapes, strides)]  # noqa: B905
    for combination in grid(*parts):
        x = sum(p[0] for p in combination)
        if coords.crd2idx(x, a.shape, a.stride) != sum(p[1] for p in combination):
            return f"index {x}"
    return None


class _Symbolic:
    """Composition with a layout that has dynamic leaves or basis strides, by the dialect's inference rules.

    Where both layouts are static, what the rules do not decide is decided by the carries.  With dynamic leaves it is
    refused, as the dialect does, so that the types that the compiler infers are the ones computed here.
    """

    def __init__(self, a: Layout, b: Layout) -> None:
        self.a = a
        self.static = a.is_static and b.is_static
        self.parts: dict[tuple[int, ...], Pair] = {}
        self.carries: dict[tuple[int, ...], tuple[Carries, list[tuple[int, ...]]] | None] = {}
        self.steps: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self.used: dict[tuple[Any, ...], tuple[int, int]] = {}
        self.reach: dict[tuple[Any, ...], tuple[Leaf, Leaf]] = {}
        self.conditions: list[sc.Condition] = []

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
            part = coalesce_pair(it.get(a.shape, *path), it.get(a.stride, *path), extended=True)
            self.parts[path] = part
            self.carries[path] = _directions(*part) if self.static else None
        return self.leaf(path, shape, stride)

    def leaf(self, path: tuple[int, ...], s: Leaf, d: Leaf) -> Pair:
        shapes, strides = self.parts[path]
        if sc.is_zero(d) or sc.is_one(s):
            return canon(s, 0)
        if type(shapes) is not tuple:
            return canon(s, sc.mul(strides, d))
        exact = self.carries[path] if type(s) is int and type(d) is int else None
        if exact is not None:
            self.steps.setdefault(path, []).append((s, d))
            if d < 0:
                return canon(*_negated_pair(self.by_rules(path, s, -d)))
        return self.by_rules(path, s, d)

    def by_rules(self, path: tuple[int, ...], s: Leaf, d: Leaf) -> Pair:
        """The dialect's fold over the modes of one part of the layout."""
        shapes, strides = self.parts[path]
        why = f"composition({self.a}, {it.to_text(s)}:{it.to_text(d)})"
        exact = self.carries[path] if type(s) is int and type(d) is int else None
        if type(d) is int and d < 0:
            raise LayoutError(f"{why}: a negative stride through several modes, not all of them static")
        rs, rd = s, d

        def demand(kind: str, *operands: Leaf) -> None:
            if any(type(v) is sc.Dyn for v in operands):
                self.conditions.append((why, kind, operands))

        out: list[Pair] = []
        for k, (n, m) in enumerate(zip(shapes[:-1], strides[:-1], strict=True)):
            if type(n) is int and type(rd) is int and rd % n and rd >= n:
                if exact is not None:
                    return self.by_carries(exact, path, s, d)
                raise LayoutError(f"{why}: the stride {rd} neither divides nor clears the extent {n}")
            count, next_rd = sc.ceil_div(n, rd), sc.ceil_div(rd, n)
            demand("clears", rd, n)
            if sc.is_one(count) or sc.is_one(rs):
                rd = next_rd
                continue
            size = sc.minimum(count, rs)
            uneven = type(n) is int and type(rd) is int and n % rd and (type(rs) is not int or (rs - 1) * rd >= n)
            if uneven or (type(rs) is int and type(size) is int and rs % size):
                if exact is not None:
                    return self.by_carries(exact, path, s, d)
                raise LayoutError(f"{why}: the mode crosses the extent {n} unevenly, or is not known not to")
            demand("even", n, rd, rs)
            demand("divides", rs, size)
            reach = sc.add(self.reach.get((path, k), (0, n))[0], sc.mul(sc.sub(size, 1), rd))
            self.reach[(path, k)] = reach, n
            if type(size) is int and type(rd) is int and type(n) is int:
                total = self.used.get((path, k), (0, n))[0]
                self.used[(path, k)] = total + (size - 1) * rd, n
            out.append((size, sc.mul(rd, m)))
            rs, rd = sc.div(rs, size), next_rd
        if not out or not sc.is_one(rs):
            out.append((rs, sc.mul(rd, strides[-1])))
        return canon(*pair_of(out))

    def by_carries(
        self, exact: tuple[Carries, list[tuple[int, ...]]], path: tuple[int, ...], s: int, d: int
    ) -> Pair:
        """A static mode that the rules refuse; exact all the same."""
        why = f"composition({self.a}, {s}:{d}) has no layout answer"
        found = exact[0].digits(s, d)
        if isinstance(found, str):
            raise LayoutError(f"{why}: the mode {s}:{d} {found}")
        shapes, strides = self.parts[path]
        modes: list[Pair] = []
        for n, step in found:
            weights = [0] * len(exact[1])
            for digit, m in zip(it.modes_of(coords.colex_coord(step, shapes)), it.modes_of(strides), strict=True):
                direction = exact[1].index(m.modes if type(m) is Basis else ())
                weights[direction] += digit * (m.value if type(m) is Basis else m or 0)
            live = [(w, x) for w, x in zip(weights, exact[1], strict=True) if w]
            if len(live) > 1:
                raise LayoutError(f"{why}: a step of {step} moves in {len(live)} directions, and a stride has only one")
            modes.append((n, 0 if not live else Basis(*live[0]) if live[0][1] else live[0][0]))
        return canon(*pair_of(modes))

    def check(self, b: Layout) -> None:
        """The modes of ``b`` together must not carry in a mode of the layout, unless without net effect."""
        for (path, k), (total, n) in self.used.items():
            exact = self.carries[path]
            if total >= n and exact is None:
                raise LayoutError(
                    f"composition({self.a}, {b}): the modes of {b} together reach {total} in a mode of extent {n}"
                    f" (mode {k} after coalescing) and carry into the next one"
                )
        for reach, extent in self.reach.values():
            if type(reach) is sc.Dyn or type(extent) is sc.Dyn:
                self.conditions.append((f"composition({self.a}, {b})", "fits", (reach, extent)))
        for path, steps in self.steps.items():
            exact = self.carries[path]
            if exact is None or len(steps) < 2:
                continue
            if len({d > 0 for _, d in steps}) > 1:
                raise LayoutError(f"composition({self.a}, {b}): strides of both signs")
            digits: list[Digit] = []
            for s, d in steps:
                found = exact[0].digits(s, abs(d))
                assert not isinstance(found, str), "every mode has been composed by itself"
                digits += found
            at = exact[0].witness(digits)
            if at is not None:
                index = sum(u * d for u, (_, d) in zip(at, digits, strict=True))
                raise LayoutError(
                    f"composition({self.a}, {b}) has no layout answer: the modes of {b} together carry across the"
                    f" modes of {self.a} (for example at index {index})"
                )


def _negated_pair(p: Pair) -> Pair:
    return p[0], it.transform_leaf(lambda d: sc.mul(d, -1), p[1])


def _directions(shape: IntTuple, stride: IntTuple) -> tuple[Carries, list[tuple[int, ...]]]:
    """Carries of static flat modes and the directions of their strides (``()`` for integers)."""
    shapes, strides = it.modes_of(shape), it.modes_of(stride)
    path_of = [d.modes if type(d) is Basis else () for d in strides]
    value_of = [d.value if type(d) is Basis else d or 0 for d in strides]
    paths = sorted(set(path_of))
    rows = [[v if x == path else 0 for v, x in zip(value_of, path_of, strict=True)] for path in paths]
    return Carries(shapes[:-1], rows), paths


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
                    _check_carries(a, b)
                    break
            return r
        except _NotStatic:
            pass
    symbolic = _Symbolic(a, b)
    shape, stride = canon(*symbolic.compose(b.shape, b.stride))
    symbolic.check(b)
    return under_conditions(symbolic.conditions, shape, stride)


def _compose_tile(a: Layout, tile: Tile) -> Layout:
    out: list[Pair] = []
    for i, (s, d) in enumerate(mode_pairs(a)):
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
    ComposedLayout (gives a ComposedLayout) or a tiler (:class:`Tile`, tuple or int), which is composed mode by mode.
    The last mode of ``a`` is unbounded: its shape never clips ``b``.

    Raises :class:`LayoutError` if no layout equals the composition.
    """
    if type(a) is Layout and type(b) is Layout:
        return compose_layouts(a, b)
    if stands_for_layout(a):
        a = Layout(a)
    if not isinstance(a, (Layout, ComposedLayout, Swizzle, CoordSwizzle)):
        raise LayoutError(f"composition needs a layout or a swizzle on the left, got {a!r}")
    if isinstance(b, (Swizzle, CoordSwizzle)):
        raise LayoutError(f"composition({a}, {b}): a bare swizzle has no shape; compose with {b} o 0 o a layout")
    if isinstance(b, ComposedLayout):
        return _after_composed(a, b)
    if not isinstance(a, (Layout, ComposedLayout)):
        if isinstance(b, Layout):
            return ComposedLayout(a, coords.coprofile(b.stride), b)
        raise LayoutError(f"cannot compose {a} with {b!r}: a swizzle has no modes for a tiler")
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


def _after_composed(a: Any, b: ComposedLayout) -> ComposedLayout:
    """``a o (inner o offset o outer)``: the inner layout is merged with ``a`` where that keeps every value."""
    if isinstance(b.inner, Swizzle) and b.inner.mask == 0:
        return ComposedLayout(a, b.offset, b.outer)
    if type(a) is Layout and type(b.inner) is Layout and type(b.outer) is Layout and type(b.offset) is int:
        # The merged layout is promised on the domain of the inner layout only.
        n, reach = it.product(b.inner.shape), coords.coshape(b.outer.shape, b.outer.stride)
        strides = list(it.leaves(b.outer.stride))
        if type(n) is int and type(reach) is int and b.offset >= 0 and b.offset + reach <= n and min(strides) >= 0:
            try:
                return ComposedLayout(compose_layouts(a, b.inner), b.offset, b.outer)
            except LayoutError:
                pass
    return ComposedLayout(a, coords.coprofile(_codomain_stride(b)), b)


def _codomain_stride(b: ComposedLayout) -> IntTuple:
    """Strides whose sum has the codomain profile of a composed layout."""
    inner = b.inner
    if isinstance(inner, Layout):
        return inner.stride
    return _codomain_stride(inner) if isinstance(inner, ComposedLayout) else b.linear.stride
