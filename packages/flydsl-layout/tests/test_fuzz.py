"""Every operation against brute force on random operands; ``LAYOUT_FUZZ=100000`` runs so many cases of each.

The references are in ``brute.py`` and share no code with the package.  Where an operation refuses, the reference shows
that there is no answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from brute import Random, as_layout, grid, leaves, linear, one_direction, plus, size, split, trim, value

import flydsl.layout as L
from flydsl.layout import ComposedLayout, Layout, LayoutError, Swizzle, Tile

CASES = int(os.environ.get("LAYOUT_FUZZ", "400"))
SEED = int(os.environ.get("LAYOUT_FUZZ_SEED", "1"))


def attempt(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except LayoutError:
        return None


def fuzz(f: Callable[[Random], None]) -> Callable[[], None]:
    def test() -> None:
        for k in range(CASES):
            seed = SEED * 1_000_003 + k
            try:
                f(Random(seed))
            except Exception as e:
                raise AssertionError(f"case {seed} of {f.__name__}: {e!r}") from e

    test.__name__ = f.__name__
    return test


def has_profile(r: Any, b: Any) -> bool:
    """Whether every leaf of ``b`` faces one mode (leaf or tuple) of ``r``; rank-1 wrappers may disappear."""
    while isinstance(b, tuple) and len(b) == 1:
        b = b[0]
    while isinstance(r, tuple) and len(r) == 1:
        r = r[0]
    if not isinstance(b, tuple):
        return size(r) == b
    return isinstance(r, tuple) and len(r) == len(b) and all(map(has_profile, r, b))


def composed_map(a: Any, b: Layout) -> list[Any]:
    return [value(a, value(b, i)) for i in range(size(b.shape))]


def composition_exists(a: Layout, b: Layout) -> bool:
    """Each leaf of ``b`` alone must be a layout, and together they must add up."""
    parts = []
    flat_s, flat_d = leaves(b.shape), leaves(b.stride)
    for s, d in zip(flat_s, flat_d, strict=True):
        part = [value(a, value(Layout(s, d), i)) for i in range(s)]
        modes = as_layout(part)
        if modes is None or not all(one_direction(v) for _, v in modes):
            return False
        parts.append(part)
    for i, want in enumerate(composed_map(a, b)):
        got: Any = 0
        for part, c in zip(parts, leaves(split(i, tuple(flat_s))), strict=True):
            got = plus(got, part[c])
        if trim(got) != trim(want):
            return False
    return True


def check_composition(a: Layout, b: Layout) -> None:
    r = attempt(L.composition, a, b)
    if r is None:
        assert not composition_exists(a, b), f"composition({a}, {b}) refuses"
        return
    assert list(map(trim, linear(r))) == list(map(trim, composed_map(a, b))), f"composition({a}, {b}) = {r}"
    assert has_profile(r.shape, b.shape), f"composition({a}, {b}) = {r}"


@fuzz
def test_composition(r: Random) -> None:
    check_composition(r.layout(), r.layout(64))


@fuzz
def test_composition_of_compact(r: Random) -> None:
    check_composition(r.injective(), r.injective(64))


@fuzz
def test_composition_one_mode(r: Random) -> None:
    check_composition(r.layout(), Layout(r.rng.randint(1, 40), r.rng.randint(0, 24)))


@fuzz
def test_composition_with_negative_strides(r: Random) -> None:
    a, b = r.layout(), r.layout(32)
    b = Layout(b.shape, r.fill(b.shape, lambda: r.choice(0, 1, -1, 2, -2, 3, -4, 6)))
    got = attempt(L.composition, a, b)
    if got is not None:
        want = [L.crd2idx(value(b, i), a) for i in range(size(b.shape))]
        assert linear(got) == want, f"composition({a}, {b}) = {got}"


@fuzz
def test_composition_with_coordinates(r: Random) -> None:
    """Basis strides on the left."""
    check_composition(r.basis_layout(), r.layout(48))


@fuzz
def test_composition_from_coordinates(r: Random) -> None:
    """Basis strides on the right: coordinates of the left layout."""
    a = r.layout(rank=2, depth=2)
    b = r.basis_layout(32)
    b = Layout(b.shape, r.fill(b.shape, lambda: L.Basis(r.choice(0, 1, 1, 2, 3), (r.choice(0, 1),))))

    def at(i: int) -> Any:
        c = value(b, i)
        return value(a, (*c, 0)[:2] if isinstance(c, tuple) else (c, 0))

    got = attempt(L.composition, a, b)
    if got is not None:
        assert linear(got) == [at(i) for i in range(size(b.shape))], f"composition({a}, {b}) = {got}"


@fuzz
def test_composition_by_mode(r: Random) -> None:
    a = r.layout(rank=r.choice(1, 2, 3))
    t = r.tile(r.choice(1, 2, 3), 2)
    got = attempt(L.composition, a, t)
    want = tile_map(a, t)
    if got is None:
        assert want is None, f"composition({a}, {t}) refuses"
        return
    assert want is not None and linear(got) == want, f"composition({a}, {t}) = {got}"


def modes(a: Layout) -> list[Layout]:
    if not isinstance(a.shape, tuple):
        return [a]
    return [Layout(s, d) for s, d in zip(a.shape, a.stride, strict=True)]


def tile_map(a: Layout, t: Tile) -> list[int] | None:
    """Indices of ``a`` composed with a tile, mode by mode, in linear order; None if a mode has no answer."""
    total = [0]
    for i, m in enumerate(modes(a)):
        entry = t.items[i] if i < len(t.items) else None
        if entry is None:
            part: list[int] | None = linear(m)
        elif isinstance(entry, Tile):
            part = tile_map(m, entry)
        else:
            b = entry if isinstance(entry, Layout) else Layout(entry, 1)
            part = composed_map(m, b) if composition_exists(m, b) else None
        if part is None:
            return None
        total = [x + y for y in part for x in total]
    return total


@fuzz
def test_composition_with_composed(r: Random) -> None:
    a: Any = r.choice(r.composed(), r.swizzle(), r.layout())
    b: Any = r.choice(r.composed(), r.layout(48))
    if isinstance(a, Layout) and isinstance(b, Layout):
        return
    got = attempt(L.composition, a, b)
    if got is None:
        assert isinstance(b, Layout) and not composition_exists(a.linear, b), f"composition({a}, {b}) refuses"
        return
    assert linear(got) == [value(a, value(b, i)) for i in range(size(b.shape))], f"composition({a}, {b}) = {got}"
    assert has_profile(got.shape, b.shape)


@fuzz
def test_coalesce_and_filter(r: Random) -> None:
    a = r.layout(400, 3)
    c = L.coalesce(a)
    want = linear(a)
    assert linear(c) == want
    assert [(s, d) for s, d in zip(leaves(c.shape), leaves(c.stride), strict=True) if s > 1] == as_layout(want), a
    f = L.filter_(a)
    assert set(linear(f)) == set(want) and 0 not in leaves(f.stride) or f == Layout(1, 0), a
    assert size(L.filter_zeros(a).shape) == size(f.shape)
    composed = r.composed()
    assert linear(L.coalesce(composed)) == linear(composed)


@fuzz
def test_coalesce_by_profile(r: Random) -> None:
    a = r.layout(200, 3)

    def profile(s: Any) -> Any:
        if isinstance(s, tuple) and r.rng.random() < 0.7:
            return tuple(profile(e) for e in s[: r.rng.randint(1, len(s))])
        return 1

    p = profile(a.shape)
    c = L.coalesce(a, p)
    assert linear(c) == linear(a), f"coalesce({a}, {p}) = {c}"

    def check(x: Any, y: Any, q: Any) -> None:
        if isinstance(q, tuple):
            assert len(x.shape) == len(y.shape)
            for i in range(len(y.shape)):
                sub = q[i] if i < len(q) else None
                if sub is None:
                    assert x[i] == y[i]
                else:
                    check(x[i], y[i], sub)
        else:
            assert linear(x) == linear(y) and len(leaves(x.shape)) == max(1, len(as_layout(linear(y)) or ()))

    check(c, a, p)


def gaps(values: list[int], m: int) -> list[int] | None:
    """The only increasing sequence that completes ``values`` to a tiling of ``[0, m)``, or None if they overlap."""
    image, taken, out = sorted(set(values)), set(), []
    for start in range(m):
        if start in taken:
            continue
        new = {start + v for v in image}
        if new & taken:
            return None
        taken |= new
        out.append(start)
    return out


@fuzz
def test_complement(r: Random) -> None:
    a = r.choice(r.layout(64), r.injective(64))
    m = r.rng.randint(1, 300)
    c = attempt(L.complement, a, m)
    values = linear(L.filter_zeros(a)) if len(set(linear(a))) < size(a.shape) else linear(a)
    want = gaps(values, m) if len(set(values)) == len(values) else None
    if c is None:
        # What would be needed is not unique offsets, or not a layout up to the codomain or a little beyond it.
        assert want is None or completion(values, m) is None, f"complement({a}, {m}) refuses {want}"
        return
    assert want is not None and linear(c)[: len(want)] == want, f"complement({a}, {m}) = {c}, wanted {want}"
    assert len({x + y for x in linear(c) for y in values}) == size(c.shape) * len(values)
    assert leaves(c.stride) == sorted(leaves(c.stride))


def completion(values: list[int], m: int) -> list[tuple[int, int]] | None:
    """Modes of the smallest layout that tiles at least ``[0, m)`` with ``values`` and does not overlap."""
    for k in range(m, 3 * m + 2):
        g = gaps(values, k)
        if g is None:
            return None
        found = as_layout(g)
        if found is not None and [d for _, d in found] == sorted(d for _, d in found):
            return found
    return None


@fuzz
def test_right_inverse(r: Random) -> None:
    a = r.choice(r.layout(96), r.bijective(96), r.injective(96))
    inv = L.right_inverse(a)
    want = linear(a)
    assert all(want[x] == i for i, x in enumerate(linear(inv))), f"right_inverse({a}) = {inv}"
    if sorted(want) == list(range(len(want))):
        assert size(inv.shape) == len(want), f"right_inverse({a}) = {inv}"


@fuzz
def test_left_inverse(r: Random) -> None:
    a = r.choice(r.layout(96), r.bijective(96), r.injective(96))
    inv = attempt(L.left_inverse, a)
    values = linear(a)
    if inv is None:
        nested = sorted((d, s) for s, d in as_layout(values) or [] if d)
        last, broken = 1, False
        for d, s in nested:
            broken |= d % last != 0
            last = d * s
        assert broken, f"left_inverse({a}) refuses"
        return
    for v in values:
        assert values[value(inv, v)] == v, f"left_inverse({a}) = {inv}"
    if len(set(values)) == len(values):
        assert [value(inv, v) for v in values] == list(range(len(values))), f"left_inverse({a}) = {inv}"


@fuzz
def test_logical_divide(r: Random) -> None:
    a, t = r.layout(96), r.injective(16, 1)
    n = size(a.shape)
    got = attempt(L.logical_divide, a, t)
    rest = gaps(linear(t), n)
    assert rest is not None
    if got is None:
        c = completion(linear(t), n) or [(1, 0)]
        both = Layout((t.shape, tuple(s for s, _ in c)), (t.stride, tuple(d for _, d in c)))
        assert not composition_exists(a, both), f"logical_divide({a}, {t}) refuses"
        return
    for j, offset in enumerate(rest):
        for i, v in enumerate(linear(t)):
            # Coordinates beyond the layout run on, but not into a trailing mode of extent 1.
            if v + offset < n or leaves(a.shape)[-1] != 1:
                assert value(got, (i, j)) == value(a, v + offset), f"logical_divide({a}, {t}) = {got}"
    assert L.divides_evenly(a, t) == (size(got.shape) == n)
    zipped = L.zipped_divide(a, t)
    assert zipped == got
    assert linear(L.tiled_divide(a, t)) == linear(got) == linear(L.flat_divide(a, t))


@fuzz
def test_divide_by_tile(r: Random) -> None:
    rank = r.choice(1, 2, 3)
    a = r.layout(128, 2, rank)
    k = r.rng.randint(1, rank)
    t = Tile(*(r.choice(1, 2, 3, 4, r.injective(8, 1)) for _ in range(k)))
    got = attempt(L.zipped_divide, a, t)
    subs = modes(a)
    entries = [e if isinstance(e, Layout) else Layout(e, 1) for e in t.items]
    parts = [attempt(L.logical_divide, m, e) for m, e in zip(subs, entries, strict=False)]
    if got is None:
        assert None in parts, f"zipped_divide({a}, {t}) refuses"
        return
    tiles = [linear(e) for e in entries]
    rests = [gaps(x, size(m.shape)) or [0] for x, m in zip(tiles, subs, strict=False)]
    tail = [list(range(size(m.shape))) for m in subs[k:]]
    tiled, flat = L.tiled_divide(a, t), L.flat_divide(a, t)
    logical = L.logical_divide(a, t)
    for rest in grid([len(x) for x in (*rests, *tail)]):
        for c in grid([len(x) for x in tiles]):
            where = [tiles[i][c[i]] + rests[i][rest[i]] for i in range(k)] + list(rest[k:])
            if any(x >= size(m.shape) and leaves(m.shape)[-1] == 1 for m, x in zip(subs, where, strict=True)):
                continue
            want = sum(value(m, x) for m, x in zip(subs, where, strict=True))
            assert value(got, (c, rest)) == want, f"zipped_divide({a}, {t}) = {got}"
            assert value(tiled, (c, *rest)) == want == value(flat, (*c, *rest))
            assert value(logical, (*((c[i], rest[i]) for i in range(k)), *rest[k:])) == want


@fuzz
def test_divide_by_nested_tile(r: Random) -> None:
    a = Layout(*_nested_operand(r))
    t = Tile(Tile(r.choice(1, 2, 3), r.choice(1, 2, 4)), r.choice(1, 2, 4))
    got = attempt(L.zipped_divide, a, t)
    if got is None:
        return
    inner, outer = t.items
    e = [*inner.items, outer]
    s = [*a.shape[0], a.shape[1]]
    d = [*a.stride[0], a.stride[1]]
    sub = [Layout(x, y) for x, y in zip(s, d, strict=True)]
    for rest in grid([-(-size(x) // y) for x, y in zip(s, e, strict=True)]):
        for c in grid(e):
            want = sum(value(m, x + y * z) for m, x, y, z in zip(sub, c, rest, e, strict=True))
            assert value(got, (((c[0], c[1]), c[2]), ((rest[0], rest[1]), rest[2]))) == want, f"{a} by {t} = {got}"


def _nested_operand(r: Random) -> tuple[Any, Any]:
    s = ((r.choice(2, 4, 6), r.choice(3, 4, 8)), r.choice(4, 6))
    return s, r.fill(s, lambda: r.choice(0, 1, 2, 4, 8, 24))


@fuzz
def test_divide_of_composed(r: Random) -> None:
    a, t = r.composed(), r.injective(8, 1)
    got = attempt(L.logical_divide, a, t)
    plain = attempt(L.logical_divide, a.linear, t)
    assert (got is None) == (plain is None)
    if got is not None:
        n = size(a.shape)
        for j, offset in enumerate(gaps(linear(t), n) or []):
            for i, v in enumerate(linear(t)):
                if v + offset < n:
                    assert value(got, (i, j)) == value(a, v + offset), f"logical_divide({a}, {t}) = {got}"


@fuzz
def test_products(r: Random) -> None:
    a, t = r.choice(r.injective(24), r.layout(24)), r.layout(12)
    got = attempt(L.logical_product, a, t)
    m = size(a.shape) * (max(linear(t)) + 1)
    c = attempt(L.complement, a, m)
    if got is None:
        assert c is None or not composition_exists(c, t), f"logical_product({a}, {t}) refuses"
        return
    want = [x + value(c, y) for y in linear(t) for x in linear(a)]
    assert linear(got) == want, f"logical_product({a}, {t}) = {got}"
    if len(set(linear(a))) == size(a.shape) and len(set(linear(t))) == size(t.shape):
        assert len(set(want)) == len(want)
    assert linear(L.zipped_product(a, t)) == linear(L.tiled_product(a, t)) == linear(L.flat_product(a, t)) == want


@fuzz
def test_products_by_mode(r: Random) -> None:
    rank = r.choice(1, 2, 3)
    a, t = r.injective(24, 2, rank), r.layout(12, 2, r.choice(1, 2, rank))
    blocked, raked = attempt(L.blocked_product, a, t), attempt(L.raked_product, a, t)
    flat = attempt(L.logical_product, a, t)
    assert (blocked is None) == (raked is None) == (flat is None)
    if blocked is None:
        return
    n = max(a.rank, t.rank)
    if n == 1:
        assert linear(blocked) == linear(flat) and size(raked.shape) == size(flat.shape)
        assert value(raked, (0, 0)) == 0 and linear(raked[1]) == linear(a) and linear(raked[0]) == linear(flat[1])
        return
    sa = [size(s) for s in a.shape] + [1] * (n - a.rank)
    st = [size(s) for s in t.shape] + [1] * (n - t.rank)
    na = size(a.shape)
    for x in grid(sa):
        for y in grid(st):
            i = _colex(x, sa) + na * _colex(y, st)
            b = tuple(zip(x, y, strict=True))
            assert value(blocked, b) == value(flat, i), f"blocked_product({a}, {t}) = {blocked}"
            assert value(raked, tuple((q, p) for p, q in b)) == value(flat, i), f"raked_product({a}, {t}) = {raked}"


def _colex(c: Any, extents: list[int]) -> int:
    i = 0
    for x, e in zip(reversed(c), reversed(extents), strict=True):
        i = i * e + x
    return i


@fuzz
def test_tile_to_shape(r: Random) -> None:
    rank = r.choice(1, 2, 3)
    a = r.bijective(24, 1, rank)
    reps = [r.choice(1, 2, 3) for _ in range(rank)]
    target = tuple(size(s) * n for s, n in zip(a.shape, reps, strict=True))
    order = list(range(rank))
    r.rng.shuffle(order)
    if rank == 1:
        assert linear(L.tile_to_shape(a, target)) == [value(a, i) for i in range(size(target))]
        return
    got = L.tile_to_shape(a, target, tuple(order))
    assert [size(s) for s in got.shape] == list(target)
    assert sorted(linear(got)) == list(range(size(target)))
    steps, running = [0] * rank, size(a.shape)
    for k in sorted(range(rank), key=lambda i: order[i]):
        steps[k], running = running, running * reps[k]
    for c in grid(list(target)):
        parts = [divmod(x, size(s)) for x, s in zip(c, a.shape, strict=True)]
        want = value(a, tuple(p[1] for p in parts)) + sum(p[0] * d for p, d in zip(parts, steps, strict=True))
        assert value(got, c) == want, f"tile_to_shape({a}, {target}, {order}) = {got}"


@fuzz
def test_slice_dice_and_coordinates(r: Random) -> None:
    a = r.layout(96, 2, r.choice(2, 3))
    crd = split(r.rng.randrange(size(a.shape)), a.shape)

    def punch(c: Any) -> Any:
        if r.rng.random() < 0.3:
            return None
        return tuple(map(punch, c)) if isinstance(c, tuple) else c

    holes = punch(crd)
    filled = _zero(holes)
    sub, offset = attempt(L.slice_and_offset, a, holes) or (None, 0)
    if sub is None:
        assert None not in leaves(holes)
    else:
        kept = [x for x in _kept(a, holes)]
        want = sorted(sum(v) for v in _sums([linear(k) for k in kept]))
        assert sorted(linear(sub)) == want and offset == value(a, filled)
        assert a(holes) == sub
    composed = ComposedLayout(r.swizzle(), r.choice(0, 3), a)
    if sub is not None and sub.size() == size(a.shape):
        assert linear(composed(holes)) == linear(composed)
    for i in range(size(a.shape)):
        c = split(i, a.shape)
        assert a(i) == a(c) == L.crd2idx(c, a) == value(a, i)
        assert L.crd2crd(c, a.shape, size(a.shape)) == i
        assert composed(i) == value(composed, i)
    b = r.bijective(48)
    for i in range(size(b.shape)):
        natural = L.idx2crd(value(b, i), b)
        assert value(b, natural) == value(b, i) and L.get_1d_coord(value(b, i), b) == i


def _zero(c: Any) -> Any:
    return 0 if c is None else tuple(map(_zero, c)) if isinstance(c, tuple) else c


def _kept(a: Layout, holes: Any) -> list[Layout]:
    if holes is None:
        return [a]
    if not isinstance(holes, tuple):
        return []
    return [k for m, h in zip(modes(a), holes, strict=True) for k in _kept(m, h)]


def _sums(parts: list[list[int]]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = [()]
    for p in parts:
        out = [(*o, x) for o in out for x in p]
    return out


def flat_modes(a: Layout) -> list[tuple[int, int]]:
    return list(zip(leaves(a.shape), leaves(a.stride), strict=True))


@fuzz
def test_recast(r: Random) -> None:
    a, f = r.layout(64), r.choice(2, 3, 4)
    down = attempt(L.downcast, a, f)
    if down is None:
        assert sum(1 for s, d in zip(leaves(a.shape), leaves(a.stride), strict=True) if d == 1 and s > 1) > 1, a
        return
    # Every element becomes f narrow ones; they are enumerated where a mode of stride 1 can hold them.
    wide = sorted(set(v // f for v in linear(down)))
    assert wide == sorted(set(linear(a))), f"downcast({a}, {f}) = {down}"
    up = attempt(L.upcast, a, f)
    if up is not None:
        assert set(linear(up)) == set(v // f for v in linear(a)), f"upcast({a}, {f}) = {up}"
        if all(d % f == 0 for d in leaves(a.stride)):
            assert [f * v for v in linear(up)] == linear(a)
    both = attempt(L.recast_layout, a, 16, 24)
    if both is not None and len(set(linear(a))) == size(a.shape):
        bits = {16 * v + k for v in linear(a) for k in range(16)}
        assert set(linear(both)) == {x // 24 for x in bits} or not any(1 < s and d == 1 for s, d in flat_modes(a)), (
            a,
            both,
        )
    if sum(1 for s, d in zip(leaves(a.shape), leaves(a.stride), strict=True) if d == 1) == 1:
        narrow = sorted(set(linear(down)))
        assert narrow == sorted({v * f + k for v in linear(a) for k in range(f)})


@fuzz
def test_queries(r: Random) -> None:
    a: Any = r.choice(r.layout(96), r.bijective(), r.composed())
    values = linear(a)
    n = len(values)
    assert L.is_injective(a) == (len(set(values)) == n), a
    assert L.is_bijective(a) == (sorted(values) == list(range(n))), a
    assert L.is_surjective(a) == (set(values) == set(range(max(values) + 1))), a
    assert L.is_contiguous(a) == (max(values) - min(values) + 1 == len(set(values))), a
    assert L.image(a) == set(values)
    assert L.kernel(a) == {i for i, v in enumerate(values) if v == values[0]}, a
    b: Any = r.choice(r.layout(96), a, r.composed())
    assert L.same_map(a, b) == (values == linear(b)), (a, b)
    if isinstance(a, Layout):
        z = L.nullspace(a)
        assert all(values[i] == 0 for i in linear(z)) and len(set(linear(z))) == size(z.shape), a
        bits = r.choice(8, 16, 32)
        v = L.widest_vector(a, bits, r.choice(2, 4, 8, 16, 64))
        assert all(values[i + k] == values[i] + k for i in range(0, n - v + 1, v) for k in range(v)), a
        b = r.layout(96)
        width, common = L.max_common_vector(a, b), L.max_common_layout(a, b)
        assert size(common.shape) == width or (width == 1 and common == Layout(1, 0))
        if width > 1:
            assert [value(a, x) for x in linear(common)] == list(range(width)), (a, b)
            assert [value(b, x) for x in linear(common)] == list(range(width)), (a, b)


@fuzz
def test_linear_layouts(r: Random) -> None:
    shape = tuple(r.choice(1, 2, 4, 8) for _ in range(r.choice(1, 2, 3)))
    order = list(range(len(shape)))
    r.rng.shuffle(order)
    strides, running = [0] * len(shape), 1
    for i in order:
        running *= r.choice(1, 1, 2, 4)
        strides[i], running = running, running * shape[i]
    a = Layout(shape, tuple(strides))
    swizzled = ComposedLayout(Swizzle(r.choice(0, 1, 2), r.choice(0, 1, 2), r.choice(2, 3)), 0, a)
    for x in (a, swizzled):
        f = L.to_linear(x)
        assert [f(i) for i in range(f.size)] == linear(x), x
        back = L.from_linear(f)
        assert linear(back) == linear(x), x
        assert f.is_injective == (len(set(linear(x))) == f.size)
    w = r.swizzle()
    f = L.to_linear(w)
    assert f.size == w.period and [f(i) for i in range(f.size)] == [value(w, i) for i in range(f.size)], w
    if sorted(linear(a)) == list(range(size(shape))):
        g = L.to_linear(a).inverse()
        assert all(g(v) == i for i, v in enumerate(linear(a)))


@fuzz
def test_local_parts(r: Random) -> None:
    m, n = r.choice(4, 6, 8), r.choice(4, 6, 12)
    a = Layout((m, n), (r.choice(1, 2, 12), r.choice(1, 8, 16)))
    t = (r.choice(1, 2), r.choice(1, 2))
    owned = []
    for crd in grid([m // t[0], n // t[1]]):
        part, offset = L.local_tile(a, t, crd)
        for c in grid(t):
            got = value(part, c) + offset
            assert got == value(a, (crd[0] * t[0] + c[0], crd[1] * t[1] + c[1]))
            owned.append(got)
    assert sorted(owned) == sorted(linear(a))
    threads = Layout(t, r.choice((1, t[0]), (t[1], 1)))
    owned = []
    for k in range(size(t)):
        part, offset = L.local_partition(a, threads, k)
        owned += [v + offset for v in linear(part)]
    assert sorted(owned) == sorted(linear(a))


@fuzz
def test_only_layout_errors(r: Random) -> None:
    """Operands of every kind, congruent or not, static or not: an answer or a LayoutError, nothing else."""

    def leaf() -> Any:
        return r.choice(1, 2, 3, 4, 8, 0, -1, 12, None, L.Dyn(), L.Dyn(64, 8), L.Basis(1, (0,)), L.Basis(2, (1, 0)))

    def operand() -> Any:
        shape = r.shape(32, 2)
        roll = r.rng.random()
        if roll < 0.3:
            return r.choice(r.layout(), r.basis_layout(), r.composed())
        if roll < 0.5:
            return attempt(Layout, r.fill(shape, lambda: r.choice(1, 2, 4, L.Dyn(), L.Dyn(32, 4))), r.fill(shape, leaf))
        if roll < 0.6:
            return attempt(Layout, shape, r.fill(r.shape(8), leaf))
        return r.choice(
            r.tile(2), r.swizzle(), r.coord_swizzle(), shape, r.fill(shape, leaf), leaf(), "4:1", 2.5, [4, 2]
        )

    for name in r.rng.sample(OPERATIONS, 4):
        for count in (1, 2):
            args = [operand() for _ in range(count)]
            try:
                getattr(L, name)(*args)
            except LayoutError:
                pass
            except (TypeError, AttributeError) as e:
                # A wrong number or kind of operands is a mistake of the program, not of the layouts.
                kinds = all(isinstance(x, (Layout, ComposedLayout)) for x in args)
                if kinds and "argument" not in str(e) and name not in TUPLE_ARGUMENTS:
                    raise AssertionError(f"{name}{tuple(args)}: {e!r}") from e
            except Exception as e:
                raise AssertionError(f"{name}{tuple(args)}: {e!r}") from e


TUPLE_ARGUMENTS = """depth group is_surjective rank shape size stride take get_1d_coord get_flat_coord idx2crd crd2idx
""".split()
OPERATIONS = """append blocked_product ceil_div
 coalesce compatible complement composition congruent coprofile coshape cosize crd2idx
depth dice divides_evenly elem_less equal filter_ filter_zeros flat_divide flat_product flatten get_1d_coord
get_flat_coord group idx2crd inner_product int_tuple_add int_tuple_div int_tuple_mod int_tuple_mul int_tuple_product
int_tuple_sub is_bijective is_contiguous is_injective is_surjective left_inverse local_partition logical_divide
logical_product make_composed_layout make_fragment_layout_like make_identity_layout make_layout make_layout_like
make_layout_tv make_ordered_layout max_common_layout max_common_vector nullspace prepend product_each product_like
raked_product rank right_inverse same_map shape shape_div size slice_ stride tile_to_shape tiled_divide tiled_product
to_latex to_linear to_svg to_table unflatten weakly_compatible weakly_congruent zipped_divide zipped_product
""".split()


@fuzz
def test_text(r: Random) -> None:
    x: Any = r.choice(
        r.layout(), r.basis_layout(), r.composed(), r.swizzle(), r.tile(r.choice(1, 2, 3), 2), r.coord_swizzle(),
        ComposedLayout(r.coord_swizzle(), (0, 0), L.make_identity_layout((4, 8))),
    )  # fmt: skip
    assert L.parse(str(x)) == x and str(L.parse(str(x))) == str(x)
    assert L.parse(L.to_fly_type(x)) == x
    assert eval(repr(x), vars(L)) == x and hash(eval(repr(x), vars(L))) == hash(x)
    text = list(str(x))
    for _ in range(r.choice(1, 2, 4)):
        k = r.rng.randrange(len(text) + 1)
        text[k : k + r.choice(0, 1)] = r.rng.choice("()[]<>:,|*?{}=-0123456789ESCoi divx\n\0\u0663\u00b2")
    for parser in (L.parse, L.parse_layout, L.parse_tile, L.parse_int_tuple, L.parse_composed):
        y = attempt(parser, "".join(text))
        if y is not None and y is not False and not isinstance(y, (int, tuple)):
            assert L.parse(L.to_fly_type(y)) == y or isinstance(y, (L.Dyn, L.Basis)) or "basis" in L.to_fly_type(y)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
