"""Small spaces of operands, whole: no operation answers wrongly, and none refuses where some layout is an answer.

All layouts of small extents and strides go through every operation; where it refuses, all layouts that could be an
answer are tried (``candidates.py``).  ``LAYOUT_EXHAUSTIVE=1`` takes larger spaces (a few minutes).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain, product
from math import prod
from typing import Any

import pytest
from brute import leaves
from candidates import complements, factorisations, indices, is_layout_over, layouts, passes_through, table

from flydsl.layout import (
    Layout,
    LayoutError,
    coalesce,
    complement,
    composition,
    divides_evenly,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
    zipped_divide,
)

FULL = bool(os.environ.get("LAYOUT_EXHAUSTIVE"))
Flat = tuple[tuple[int, ...], tuple[int, ...]]


def operands(*spaces: tuple[int, int, int]) -> Iterator[Flat]:
    """All flat layouts of (rank, largest extent, largest stride)."""
    return chain(*(layouts(r, range(1, e + 1), range(d + 1)) for r, e, d in spaces))  # type: ignore[arg-type]


def attempt(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except LayoutError as e:
        assert "undecided" not in str(e) and "too " not in str(e), f"{f.__name__}{args}: {e}"
        return None


def flat_of(x: Layout) -> Flat:
    return tuple(leaves(x.shape)), tuple(leaves(x.stride))


def test_left_inverse() -> None:
    """Refused only if no layout at all maps the indices back."""
    answers = refused = 0
    for shape, stride in operands((1, 6, 9), (2, 4, 12 if FULL else 8), (3, 4, 9 if FULL else 4)):
        a = Layout(shape, stride)
        values = indices(shape, [d if s > 1 else 0 for s, d in zip(shape, stride, strict=True)])
        live = indices([s if d else 1 for s, d in zip(shape, stride, strict=True)], stride)
        r = attempt(left_inverse, a)
        if r is not None:
            back = table(*flat_of(r), max(values) + 1)
            assert all(values[back[v]] == v for v in values), f"left_inverse({a}) = {r}"
            if len(set(values)) == len(values):
                assert [back[v] for v in values] == list(range(len(values))), f"left_inverse({a}) = {r}"
            answers += 1
        elif len(set(live)) == len(live):
            assert max(values) > 0
            assert not passes_through({v: i for i, v in enumerate(values) if v and i == values.index(v)}), a
            refused += 1
    assert answers > 1000 and refused > 20


def test_left_inverse_with_negative_strides() -> None:
    for shape, stride in layouts(2, range(2, 5), range(-6, 7)):
        a = Layout(shape, stride)
        values = [i * stride[0] + j * stride[1] for j in range(shape[1]) for i in range(shape[0])]
        if 0 in stride or len(set(values)) < len(values):
            continue
        r = attempt(left_inverse, a)
        points: dict[int, int] | None = {}
        for i, v in enumerate(values):
            want = i if v > 0 else -i
            if v and points is not None and points.setdefault(abs(v), want) != want:
                points = None
        if r is None:
            assert points is None or not passes_through(points), f"left_inverse({a}) refuses"
        else:
            back = table(*flat_of(r), max(map(abs, values)) + 1)
            assert points is not None and all(back[x] == y for x, y in points.items()), f"left_inverse({a}) = {r}"


def test_right_inverse() -> None:
    """Never refuses; covers everything where the layout is a permutation, and else the chain from stride 1."""
    for shape, stride in operands((1, 8, 9), (2, 5, 12), (3, 4, 12 if FULL else 4)):
        a = Layout(shape, stride)
        r = right_inverse(a)
        values = indices(shape, stride)
        back = indices(*flat_of(r))
        assert [values[x] for x in back] == list(range(len(back))), f"right_inverse({a}) = {r}"
        if sorted(values) == list(range(len(values))):
            assert len(back) == len(values), f"right_inverse({a}) = {r}"


def test_coalesce() -> None:
    """No layout of fewer modes is the same function."""
    for shape, stride in operands((1, 8, 3), (2, 4, 9), (3, 4, 16 if FULL else 4)):
        a = Layout(shape, stride)
        c = coalesce(a)
        values = indices(shape, stride)
        s, d = flat_of(c)
        assert indices(s, d) == values and (1 not in s or s == (1,)), f"coalesce({a}) = {c}"
        for factors in factorisations(len(values)):
            if len(factors) < len(s) and len(values) > 1:
                steps = [values[prod(factors[:k])] for k in range(len(factors))]
                assert indices(factors, steps) != values, f"coalesce({a}) = {c}"


def test_complement() -> None:
    cache: dict[tuple[frozenset[int], int], bool] = {}
    for shape, stride in operands((1, 4, 8), (2, 4, 9 if FULL else 4), (3, 3, 5 if FULL else 2)):
        a = Layout(shape, stride)
        live = indices([s if d else 1 for s, d in zip(shape, stride, strict=True)], stride)
        image = frozenset(live)
        for m in (1, 2, 3, 4, 6, 7, 8, 10, 12) if FULL else (1, 3, 6, 8):
            c = attempt(complement, a, m)
            if c is not None:
                offsets = indices(*flat_of(c))
                taken = {o + v for o in offsets for v in live}
                assert len(taken) == len(offsets) * len(live), f"complement({a}, {m}) = {c}"
                assert all(i in taken for i in range(m)), f"complement({a}, {m}) = {c}"
                assert offsets == sorted(offsets), f"complement({a}, {m}) = {c}"
                continue
            key = (image, m)
            if len(image) == len(live) and key not in cache:
                cache[key] = any(True for _ in complements(image, m))
                assert not cache[key], f"complement({a}, {m}) refuses {next(complements(image, m))}"


def check_composition(a: Layout, values: list[int], shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Compare; ``values`` of ``a`` beyond the largest index of the right side."""
    b = Layout(shape, stride)
    want = [values[x] for x in indices(shape, stride)]
    r = attempt(composition, a, b)
    if r is None:
        assert not is_layout_over(want, shape), f"composition({a}, {b}) refuses"
        return 0
    assert indices(*flat_of(r)) == want, f"composition({a}, {b}) = {r}"
    return 1


@pytest.mark.parametrize("rank", [1, 2])
def test_composition(rank: int) -> None:
    answers = refused = 0
    right = list(operands((rank, 8, 12 if FULL else 9) if rank == 1 else (2, 3, 6 if FULL else 3)))
    left = operands((1, 4, 3), (2, 4, 6 if FULL else 4), *([(3, 3, 5 if FULL else 2)] if rank == 1 or FULL else []))
    for shape, stride in left:
        a, values = Layout(shape, stride), table(shape, stride, 120)
        for b in right:
            done = check_composition(a, values, *b)
            answers += done
            refused += 1 - done
    assert answers > 5000 and refused > 500


def test_divides() -> None:
    """A divide refuses only if no pair of layouts has its values at the coordinates inside the layout."""
    answers = refused = 0
    tilers = [t for t in operands((1, 6, 6), (2, 3, 6 if FULL else 3)) if t[1][-1] or t[0][-1] == 1]
    for shape, stride in operands((1, 8, 2), (2, 4, 5 if FULL else 2), *([(3, 3, 4)] if FULL else [])):
        a = Layout(shape, stride)
        n = prod(shape)
        values = table(shape, stride, 1000)
        for ts, td in tilers:
            t = Layout(ts, td)
            r = attempt(logical_divide, a, t)
            rest = attempt(complement, t, n)
            if rest is None:
                assert r is None
                continue
            inside = [x + y for y in indices(*flat_of(rest)) for x in indices(ts, td)]
            want = [values[x] if x < n else None for x in inside]
            if r is None:
                extents = [s for s in (*ts, *leaves(rest.shape)) if s > 1]
                # A tile that sticks out by itself has no values at all that would decide.
                known = all(x < n for x in indices(ts, td))
                assert not known or not is_layout_over(want, extents), f"logical_divide({a}, {t}) refuses"
                refused += 1
                continue
            got = indices(*flat_of(r))
            assert all(w is None or v == w for v, w in zip(got, want, strict=True)), f"logical_divide({a}, {t}) = {r}"
            assert divides_evenly(a, t) == (len(got) == n) and zipped_divide(a, t) == r
            answers += 1
    assert answers > 1000 and refused > 100


def test_products() -> None:
    answers = refused = 0
    tilers = list(operands((1, 4, 4), (2, 3, 4 if FULL else 2)))
    for shape, stride in operands((1, 4, 4), (2, 3, 4 if FULL else 3), *([(3, 2, 4)] if FULL else [])):
        a = Layout(shape, stride)
        own = indices(shape, stride)
        for ts, td in tilers:
            t = Layout(ts, td)
            r = attempt(logical_product, a, t)
            c = attempt(complement, a, len(own) * (max(indices(ts, td)) + 1))
            if c is None:
                assert r is None
                continue
            places = table(*flat_of(c), 200)
            want = [places[y] for y in indices(ts, td)]
            if r is None:
                assert not is_layout_over(want, ts), f"logical_product({a}, {t}) refuses"
                refused += 1
                continue
            assert indices(*flat_of(r)) == [x + y for y in want for x in own], f"logical_product({a}, {t}) = {r}"
            answers += 1
    assert answers > 1000 and refused >= 0


def test_the_candidates_find_what_there_is() -> None:
    """The oracles themselves: they accept every layout."""
    for shape, stride in product(product((2, 3), (2, 4)), product((1, 2, 5), (3, 4, 9))):
        values = indices(shape, stride)
        assert is_layout_over(values, [prod(shape)]) and is_layout_over(values, shape)
        xs = {x: y for x, y in enumerate(values) if x}
        assert passes_through(xs) and not passes_through({1: 1, 2: 2, 3: 3, 4: 4, 5: 9, 6: 6})
    assert not is_layout_over([0, 1, 2, 10], [4]) and is_layout_over([0, 1, 2, 3], [2, 2])
    assert next(complements(frozenset({0, 2}), 4)) == ((2, 1),)
    assert not any(True for _ in complements(frozenset({0, 1, 3}), 6))
