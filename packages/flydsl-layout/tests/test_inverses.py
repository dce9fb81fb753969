"""Inverses where strides do not nest, and questions about layouts far too large to enumerate."""

from __future__ import annotations

import random
from math import prod

import pytest
from brute import linear, value

from flydsl.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    is_bijective,
    is_contiguous,
    is_injective,
    is_surjective,
    left_inverse,
    make_identity_layout,
    parse,
    right_inverse,
)
from flydsl.layout.lattice import is_injective_sum
from flydsl.layout.through import integer_solution, through_points


@pytest.mark.parametrize(
    "text,answer",
    [
        # CuTe's profile where the strides nest, whatever the extents leave between them.
        ("(3,5):(2,6)", "(2,15):(0,1)"),
        ("(3,5):(20,4)", "(4,5,3):(0,3,1)"),
        ("(64,64):(72,1)", "(72,64):(64,1)"),
        # No nesting.
        ("(2,2):(2,3)", "(2,3):(1,1)"),
        ("(3,2):(3,10)", "(3,6):(0,1)"),
        # The carries of several moduli cancel.
        ("(2,2):(3,5)", "(2,2,2,2):(2,-1,0,3)"),
        ("(2,2):(1,-3)", "(2,2):(1,-3)"),
    ],
)
def test_left_inverse(text: str, answer: str) -> None:
    a = parse(text)
    inverse = left_inverse(a)
    assert str(inverse) == answer
    assert [inverse(v) for v in linear(a)] == list(range(a.size()))


@pytest.mark.parametrize(
    "text",
    [
        "(2,2,1024,1024):(2,3,16,65536)",
        "(1024,2,2,1024):(16,3,2,65536)",
        "(2,2,1024,1024):(3,5,16,65536)",  # the lower part needs cancelling carries
        "(2,2,1024,2,1024):(3,5,16,0,65536)",
        "(3,1048576):(1048576,3145728)",
    ],
)
def test_left_inverse_of_large_layouts(text: str) -> None:
    a = parse(text)
    inverse = left_inverse(a)
    rng = random.Random(1)
    for i in [0, 1, a.size() - 1, *(rng.randrange(a.size()) for _ in range(2000))]:
        v = value(a, i)
        assert value(a, value(inverse, v)) == v and (0 in a.stride or value(inverse, v) == i)


@pytest.mark.parametrize(
    "text,why",
    [
        ("(4,4):(1,2)", "not injective"),
        ("(2,2):(1,1)", "not injective"),
        ("(2,2,2):(1,3,5)", "no layout maps its indices back"),
        ("(2,2):(1,-2)", "no layout maps its indices back"),
        ("(8,16):(89847,49048)", "too long to decide"),
        ("(100,100,100):(10007,20101,3000017)", "too many to search"),
        ("(2,?):(2,3)", "does not clear"),
        ("S<2,0,1> o 0 o 8:1", "its own inverse"),
        ("S<1,0,2> o 0 o (2,2):(1,-2)", "no negative index"),
    ],
)
def test_left_inverse_refuses(text: str, why: str) -> None:
    with pytest.raises(LayoutError, match=why):
        left_inverse(parse(text))


def test_inverses_under_a_swizzle() -> None:
    a = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    assert str(right_inverse(a)) == "(64,8):(8,1) o 0 o [S<3,3,3> o 0 o 512:1]"
    assert [value(a, i) for i in linear(right_inverse(a))] == list(range(512))
    with pytest.raises(LayoutError, match="offset"):
        right_inverse(ComposedLayout(Swizzle(3, 3, 3), 8, Layout(64)))
    with pytest.raises(LayoutError, match="needs a Layout"):
        right_inverse(ComposedLayout(Layout(8), 0, Layout(8)))


def test_integer_solution() -> None:
    assert integer_solution([[2], [3]], [1]) is not None
    assert integer_solution([[2], [4]], [1]) is None
    assert integer_solution([], [0]) == [] and integer_solution([], [1]) is None
    rng = random.Random(5)
    for _ in range(200):
        columns = [[rng.randint(-9, 9) for _ in range(3)] for _ in range(rng.randint(1, 5))]
        x = [rng.randint(-5, 5) for _ in columns]
        target = [sum(a * c[k] for a, c in zip(x, columns, strict=True)) for k in range(3)]
        y = integer_solution(columns, target)
        assert y is not None
        assert [sum(a * c[k] for a, c in zip(y, columns, strict=True)) for k in range(3)] == target


def test_through_points() -> None:
    assert through_points({}) == [(1, 0)]
    assert through_points({5: 7}) is not None
    assert through_points({1: 1, 2: 2, 3: 3, 4: 4, 5: 9, 6: 6}) is None


def test_injective_agrees_with_enumeration() -> None:
    rng = random.Random(2)
    kinds = {True: 0, False: 0}
    for _ in range(2500):
        modes = [
            (
                rng.choice((1, -1)) * rng.choice((1, 2, 3, 7, 12, rng.randint(1, 400))),
                rng.choice((1, 2, 3, 4, 5, 7, 16)),
            )
            for _ in range(rng.choice((1, 2, 3, 3, 4)))
        ]
        if prod(s for _, s in modes) > 2000:
            continue
        a = Layout(tuple(s for _, s in modes), tuple(d for d, _ in modes))
        values = linear(a)
        assert is_injective_sum(modes) == is_injective(a) == (len(set(values)) == len(values)), a
        assert is_contiguous(a) == (max(values) - min(values) + 1 == len(set(values))), a
        assert is_bijective(a) == (sorted(values) == list(range(len(values)))), a
        assert is_surjective(a) == (set(values) == set(range(max(values) + 1))), a
        for n in (1, 3, 10):
            assert is_surjective(a, n) == (min(values) >= 0 and set(values) >= set(range(n))), (a, n)
        kinds[is_injective(a)] += 1
    assert min(kinds.values()) > 200


@pytest.mark.parametrize(
    "text,injective",
    [
        # Consecutive squares are coprime: the first collision is at (2^40+1)^2 and 2^80.
        (f"({2**80},{2**81}):({2**80},{(2**40 + 1) ** 2})", True),
        (f"({2**81},{2**81}):({2**80},{(2**40 + 1) ** 2})", False),
        ("(1000000,1000000,4):(1,999983,3)", False),
        ("(1048576,1048576,3):(3,3145728,1)", True),
        ("(262144,64,262144,262144):(261779095472,969587804030,992158972598,256675465335)", False),
        # Modes that continue each other, and a long one on top, are no part of the question.
        ("(2,2,2,2,2,2,2,2,3,1048576):(1,2,4,8,16,32,64,128,200,1048576)", False),
        ("(2,2,2,2,2,2,2,2,3,1048576):(1,2,4,8,16,32,64,128,256,1048576)", True),
        ("(5,2,2,1048576):(4,6,16,1048576)", False),
        ("(4,2,2,1048576):(4,6,32,1048576)", True),
        ("(1048576,1048576):(1E0,1E1)", True),
        ("(1048576,1048576):(1E0,1E0)", False),
        ("S<3,4,3> o 16 o (1048576,1048576):(1048576,1)", True),
    ],
)
def test_injectivity_at_any_size(text: str, injective: bool) -> None:
    assert is_injective(parse(text)) is injective


def test_the_other_queries_at_any_size() -> None:
    n = 1 << 30
    a = Layout((n, n), (n, 1))
    assert is_bijective(a) and is_contiguous(a) and is_surjective(a) and is_surjective(a, n * n)
    assert not is_surjective(a, n * n + 1)
    b = Layout((n, n), (n - 1, 1))
    assert not is_bijective(b) and is_contiguous(b) and is_surjective(b) and not is_injective(b)
    assert not is_contiguous(Layout((n, n), (n + 1, 1)))
    assert is_contiguous(Layout((n, n), (-n, 1))) and not is_surjective(Layout((n, n), (-n, 1)))
    assert is_injective(make_identity_layout((n, (n, n))))
