"""Complement, inverses, divides and products against brute force on random operands (``fuzzing.py``).

The references are in ``brute.py`` and share no code with the package.  Where an operation refuses, the reference shows
that there is no answer.
"""

from __future__ import annotations

from typing import Any

from brute import Random, grid, leaves, linear, size, value
from candidates import passes_through
from fuzzing import attempt, completion, composition_exists, fuzz, gaps, modes

import flydsl.layout as L
from flydsl.layout import ComposedLayout, Layout, Swizzle, Tile


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
    a = r.choice(r.layout(96), r.bijective(96), r.injective(96), r.crossing())
    inv = attempt(L.left_inverse, a)
    values = linear(a)
    if inv is None:
        live = set(linear(L.filter_zeros(a)))
        assert (
            len(live) < size(L.filter_zeros(a).shape)
            or max(values) > 60
            or not passes_through({v: values.index(v) for v in live if v})
        ), f"left_inverse({a}) refuses"
        return
    for v in values:
        assert values[value(inv, v)] == v, f"left_inverse({a}) = {inv}"
    if len(set(values)) == len(values):
        assert [value(inv, v) for v in values] == list(range(len(values))), f"left_inverse({a}) = {inv}"


@fuzz
def test_inverses_of_swizzled(r: Random) -> None:
    m = r.choice(0, 1, 2)
    w = Swizzle(m, r.choice(0, 1, 2), r.choice(1, -1) * r.choice(m, m + 1, 3))
    a = ComposedLayout(w, r.choice(0, 0, 1, 8), r.choice(r.bijective(96), r.injective(96)))
    left, right = attempt(L.left_inverse, a), attempt(L.right_inverse, a)
    values = linear(a)
    assert left is not None, f"left_inverse({a}) refuses"
    assert [value(left, v) for v in values] == list(range(len(values))), f"left_inverse({a}) = {left}"
    if right is not None:
        assert [values[i] for i in linear(right)] == list(range(size(right.shape))), f"right_inverse({a}) = {right}"


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


@fuzz
def test_products_by_tile(r: Random) -> None:
    """Every mode is repeated by its entry; the zipped form gathers blocks and repetitions."""
    rank = r.choice(1, 2, 3)
    a = r.injective(24, 2, rank)
    t = Tile(*(r.choice(1, 2, 3, r.injective(6, 1)) for _ in range(rank)))
    entries = [e if isinstance(e, Layout) else Layout(e, 1) for e in t.items]
    parts = [attempt(L.logical_product, m, e) for m, e in zip(modes(a), entries, strict=True)]
    got, zipped = attempt(L.logical_product, a, t), attempt(L.zipped_product, a, t)
    assert (got is None) == (None in parts) == (zipped is None), f"logical_product({a}, {t})"
    if got is None:
        return
    assert [got[i] for i in range(rank)] == parts, f"logical_product({a}, {t}) = {got}"
    tiled, flat = L.tiled_product(a, t), L.flat_product(a, t)
    for x in grid([size(m.shape) for m in modes(a)]):
        for y in grid([size(e.shape) for e in entries]):
            want = sum(value(p, (i, j)) for p, i, j in zip(parts, x, y, strict=True))
            assert value(zipped, (x, y)) == value(tiled, (x, *y)) == value(flat, (*x, *y)) == want, f"{a} by {t}"


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
