"""Composition and coalesce against brute force on random operands (``fuzzing.py``).

The references are in ``brute.py`` and share no code with the package.  Where an operation refuses, the reference shows
that there is no answer.
"""

from __future__ import annotations

from typing import Any

from brute import Random, as_layout, leaves, linear, size, trim, value
from fuzzing import attempt, composed_map, composition_exists, fuzz, has_profile, modes

import flydsl.layout as L
from flydsl.layout import Layout, Tile


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
