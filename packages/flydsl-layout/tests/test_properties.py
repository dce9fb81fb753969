"""Every operation against its definition, by brute force on generated layouts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from strategies import compact_layouts, layouts, shapes

from flydsl.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    assert_same_map,
    blocked_product,
    coalesce,
    complement,
    composition,
    congruent,
    cosize,
    crd2crd,
    crd2idx,
    divides_evenly,
    downcast,
    enumerate_map,
    filter_zeros,
    flat_divide,
    get_1d_coord,
    idx2crd,
    image,
    is_bijective,
    is_injective,
    is_surjective,
    left_inverse,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    make_layout_like,
    make_ordered_layout,
    make_row_major,
    max_common_vector,
    nullspace,
    raked_product,
    rank,
    right_inverse,
    same_map,
    shape,
    size,
    tile_to_shape,
    tiled_divide,
    upcast,
    weakly_congruent,
    widest_vector,
    zipped_divide,
)
from flydsl.layout.inttuple import leaves


def definition(layout: Layout, crd: Any) -> int:
    """Inner product of coordinate and stride, nothing else."""

    def go(c: Any, d: Any) -> int:
        return sum(go(x, y) for x, y in zip(c, d, strict=True)) if isinstance(c, tuple) else c * d

    return go(crd, layout.stride)


def linear(layout: Layout) -> list[int]:
    return [layout(i) for i in range(layout.size())]


def attempt(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except LayoutError:
        assume(False)


@given(layouts())
def test_call_is_the_inner_product(a: Layout) -> None:
    for i, (c, v) in enumerate(enumerate_map(a)):
        assert v == definition(a, c) == a(i) == crd2idx(i, a)
        assert a(i) == a(i)  # the compiled path agrees with the interpreted one
    assert cosize(a) == max(image(a)) + 1


@given(layouts(), st.sampled_from([0, 3]))
def test_compiled_call(a: Layout, beyond: int) -> None:
    want = [crd2idx(i, a) for i in range(a.size() + beyond)]
    for _ in range(6):
        assert [a(i) for i in range(a.size() + beyond)] == want


@given(layouts())
def test_coalesce(a: Layout) -> None:
    c = coalesce(a)
    assert linear(c) == linear(a)
    s, d = list(leaves(c.shape)), list(leaves(c.stride))
    assert len(s) == 1 or all(x > 1 for x in s)
    assert all(s[i] * d[i] != d[i + 1] for i in range(len(s) - 1))


@given(layouts(), layouts())
def test_same_map(a: Layout, b: Layout) -> None:
    assert same_map(a, b) == (linear(a) == linear(b))
    assert same_map(a, coalesce(a))


@given(layouts(6))
def test_coalesce_by_profile(a: Layout) -> None:
    profile = (1,) * rank(a) if isinstance(a.shape, tuple) else 1
    c = coalesce(a, profile)
    assert linear(c) == linear(a)
    assert rank(c) == rank(a)
    assert [size(c, i) for i in range(rank(c))] == [size(a, i) for i in range(rank(a))]


def brute_composition(a: Layout, b: Layout) -> list[int]:
    return [crd2idx(crd2idx(i, b), a) for i in range(b.size())]


@given(layouts(), layouts(max_size=64))
def test_composition_is_exact_or_refuses(a: Layout, b: Layout) -> None:
    try:
        r = composition(a, b)
    except LayoutError:
        return
    assert linear(r) == brute_composition(a, b)


def has_layout_answer(values: list[int]) -> bool:
    """Whether some flat layout enumerates ``values`` (the coalesced form of a layout is unique)."""
    step, modes = 1, []
    while step < len(values):
        rest = len(values) // step
        n = 2
        while n < rest and values[n * step] == n * values[step]:
            n += 1
        if rest % n:
            return False
        modes.append((n, values[step]))
        step *= n
    if not modes:
        return True
    return [Layout(tuple(m[0] for m in modes), tuple(m[1] for m in modes))(i) for i in range(len(values))] == values


@given(layouts(3), st.integers(1, 24), st.integers(0, 12))
def test_composition_with_one_mode_never_refuses_an_answer(a: Layout, s: int, d: int) -> None:
    b = Layout(s, d)
    values = brute_composition(a, b)
    try:
        r = composition(a, b)
    except LayoutError:
        assert not has_layout_answer(values)
    else:
        assert linear(r) == values


@given(compact_layouts(3), layouts(3, max_size=32))
def test_composition_of_mode_sums_never_refuses_an_answer(a: Layout, b: Layout) -> None:
    parts_ok = True
    for s, d in zip(leaves(b.shape), leaves(b.stride), strict=True):
        try:
            composition(a, Layout(s, d))
        except LayoutError:
            parts_ok = False
    try:
        composition(a, b)
    except LayoutError:
        additive = parts_ok and all(
            crd2idx(definition(b, c), a) == sum(crd2idx(x, a) for x in _parts(b, c)) for c, _ in enumerate_map(b)
        )
        assert not additive


def _parts(b: Layout, crd: Any) -> list[int]:
    return [c * d for c, d in zip(leaves(crd), leaves(b.stride), strict=True)]


@given(layouts(3), layouts(3, max_size=64), layouts(2, max_size=16))
def test_composition_is_associative(a: Layout, b: Layout, c: Layout) -> None:
    ab = attempt(composition, a, b)
    bc = attempt(composition, b, c)
    assume(max(image(c)) < b.size())
    left, right = attempt(composition, ab, c), attempt(composition, a, bc)
    assert linear(left) == linear(right)


@given(layouts(), layouts(max_size=32), st.integers(0, 3), st.integers(0, 3), st.integers(-3, 3))
def test_composed_layouts(a: Layout, b: Layout, mask: int, base: int, shift: int) -> None:
    s = Swizzle(mask, base, shift)
    c = ComposedLayout(s, 0, a)
    assert [c(i) for i in range(a.size())] == [s(a(i)) for i in range(a.size())]
    try:
        r = composition(c, b)
    except LayoutError:
        return
    assert [r(i) for i in range(b.size())] == [s(crd2idx(crd2idx(i, b), a)) for i in range(b.size())]


@given(layouts(max_leaves=3, max_size=64), st.integers(1, 300))
def test_complement(a: Layout, m: int) -> None:
    try:
        c = complement(a, m)
    except LayoutError:
        return
    f = filter_zeros(a)
    values = [f(i) + c(j) for j in range(c.size()) for i in range(f.size())]
    assert len(set(values)) == len(values), "layout and complement overlap"
    assert set(range(m)) <= set(values)
    d = list(leaves(c.stride))
    assert d == sorted(d)
    if c.size() > 1:
        assert c.size() * f.size() >= m


@given(compact_layouts(), st.integers(1, 300))
def test_complement_of_nested_strides_always_exists(a: Layout, m: int) -> None:
    complement(a, m)


@given(layouts())
def test_right_inverse(a: Layout) -> None:
    r = right_inverse(a)
    for i in range(r.size()):
        assert a(r(i)) == i


@given(compact_layouts(gaps=False))
def test_inverses_of_bijections(a: Layout) -> None:
    assert is_bijective(a)
    r, left = right_inverse(a), left_inverse(a)
    assert r.size() == a.size()
    for i in range(a.size()):
        assert a(r(i)) == i and left(a(i)) == i


@given(layouts())
def test_left_inverse(a: Layout) -> None:
    try:
        r = left_inverse(a)
    except LayoutError:
        return
    f = filter_zeros(a)
    for _, v in enumerate_map(f):
        assert a(r(v)) == v
    if is_injective(a):
        for i in range(a.size()):
            assert r(a(i)) == i


@given(compact_layouts())
def test_left_inverse_of_nested_strides_always_exists(a: Layout) -> None:
    left_inverse(a)


def defined(a: Layout, i: int) -> bool:
    """Divides run on beyond the layout where their number of tiles is rounded up, but not into a last extent of 1."""
    return i < a.size() or list(leaves(a.shape))[-1] != 1


@given(layouts(), compact_layouts(2, max_size=16))
def test_logical_divide(a: Layout, t: Layout) -> None:
    d = attempt(logical_divide, a, t)
    rest = complement(t, a.size())
    assert rank(d) == 2 or (size(t) == 1 or size(rest) == 1)
    for i in range(t.size()):
        for j in range(rest.size()):
            if defined(a, t(i) + rest(j)):
                assert d((i, j)) == crd2idx(t(i) + rest(j), a)
    assert divides_evenly(a, t) == (t.size() * rest.size() == a.size())
    if divides_evenly(a, t) and cosize(t) <= a.size():
        assert sorted(d(i) for i in range(d.size())) == sorted(linear(a))
        assert logical_divide(a, t, strict=True) == d
    elif not divides_evenly(a, t):
        with pytest.raises(LayoutError, match="evenly"):
            logical_divide(a, t, strict=True)


@given(layouts(5), st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3))
def test_divides_by_mode(a: Layout, t: list[int]) -> None:
    assume(isinstance(a.shape, tuple) and rank(a) >= len(t))
    z = attempt(zipped_divide, a, tuple(t))
    n = len(t)
    for crd in _grid(t):
        for rest in _grid([-(-size(a, i) // t[i]) for i in range(n)]):
            where = tuple(c + r * e for c, r, e in zip(crd, rest, t, strict=True))
            if not all(defined(a[i], x) for i, x in enumerate(where)):
                continue
            full = (*where, *(0,) * (rank(a) - n))
            want = sum(crd2idx(x, a[i]) for i, x in enumerate(full))
            tail = (0,) * (rank(a) - n)
            assert z((tuple(crd), (*rest, *tail))) == want
            assert crd2idx((tuple(crd), *rest, *tail), tiled_divide(a, tuple(t))) == want
            assert crd2idx((*crd, *rest, *tail), flat_divide(a, tuple(t))) == want


def _grid(extents: list[int]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = [()]
    for e in extents:
        out = [(*o, i) for o in out for i in range(e)]
    return out


@given(compact_layouts(3, max_size=32), compact_layouts(2, max_size=16))
def test_logical_product(a: Layout, t: Layout) -> None:
    p = attempt(logical_product, a, t)
    c = complement(a, a.size() * cosize(t))
    assert p.size() == a.size() * t.size()
    for j in range(t.size()):
        for i in range(a.size()):
            assert p((i, j)) == a(i) + crd2idx(t(j), c)
    assert is_injective(p)


@given(compact_layouts(3, max_size=32), compact_layouts(3, max_size=16))
def test_blocked_and_raked_products(a: Layout, t: Layout) -> None:
    b, r = attempt(blocked_product, a, t), attempt(raked_product, a, t)
    flat = logical_product(a, t)
    assert image(b) == image(r) == image(flat)
    assert b.size() == r.size() == flat.size()


@given(compact_layouts(3, gaps=False, max_size=32), st.lists(st.sampled_from([1, 2, 3]), min_size=3, max_size=3))
def test_tile_to_shape(a: Layout, reps: list[int]) -> None:
    n = rank(a)
    target = tuple(size(a, i) * reps[i] for i in range(n))
    r = attempt(tile_to_shape, a, target, 0) if n > 1 else attempt(tile_to_shape, a, target[0], 0)
    assert r.size() == size(target)
    assert is_bijective(r)


@given(shapes())
def test_coordinates(s: Any) -> None:
    a = Layout(s)
    for i, (c, v) in enumerate(enumerate_map(a)):
        assert v == i
        assert idx2crd(i, s) == c or 1 in list(leaves(s))
        assert crd2crd(c, s, s) == c
        assert crd2crd(c, s, a.size()) == i
        assert get_1d_coord(i, a) == i
    assert is_bijective(make_row_major(s))
    assert shape(a) == s


@given(layouts())
def test_make_layout_like_and_queries(a: Layout) -> None:
    like = make_layout_like(a)
    assert congruent(like.shape, a.shape)
    assert is_injective(a) == (len(set(linear(a))) == a.size())
    assert is_surjective(a) == (set(linear(a)) == set(range(max(linear(a)) + 1)))
    k = nullspace(a)
    assert all(a(k(i)) == a(0) for i in range(k.size()))
    assert weakly_congruent(0, a.shape)


@given(shapes(), st.permutations(range(3)))
def test_ordered(s: Any, order: Any) -> None:
    if isinstance(s, tuple):
        r = make_ordered_layout(s, tuple(order[: len(s)]))
        assert is_bijective(r)


@given(compact_layouts(3), st.sampled_from([2, 4]))
def test_upcast_inverts_downcast(a: Layout, f: int) -> None:
    assert same_map(upcast(downcast(a, f), f), a) or any(d == 1 for d in leaves(a.stride))
    up = attempt(upcast, a, f)
    assert set(v // f for v in linear(a)) >= set(linear(up))


@given(layouts(3, max_size=64), compact_layouts(3, gaps=False, max_size=64))
def test_max_common_vector(a: Layout, b: Layout) -> None:
    n = max_common_vector(a, b)
    inv = right_inverse(b)
    assert all(crd2idx(inv(i), a) == i == b(inv(i)) for i in range(n)) or n == 1


@given(layouts(3), st.sampled_from([2, 4, 8, 16]))
def test_widest_vector(a: Layout, alignment: int) -> None:
    n = widest_vector(a, 16, alignment)
    assert n * 2 <= max(alignment, 2)
    for i in range(0, a.size() - n + 1, n):
        assert all(a(i + k) == a(i) + k for k in range(n)) and (n == 1 or a(i) % n == 0)


@given(layouts(3, max_size=64), st.sampled_from([(2,), (2, 2), (4, 2)]), st.data())
def test_local_tile(a: Layout, t: Any, data: Any) -> None:
    assume(isinstance(a.shape, tuple) and rank(a) == len(t) and len(t) == 2)
    assume(divides_evenly(a, t))
    crd = tuple(data.draw(st.integers(0, size(a, i) // t[i] - 1)) for i in range(2))
    part, offset = local_tile(a, t, crd)
    for c in _grid(list(t)):
        want = sum(crd2idx(x + k * e, a[i]) for i, (x, k, e) in enumerate(zip(c, crd, t, strict=True)))
        assert part(c) + offset == want


def test_local_partition() -> None:
    a = make_row_major((8, 8))
    threads = Layout((2, 4), (4, 1))
    seen = []
    for t in range(8):
        part, offset = local_partition(a, threads, t)
        seen += [part(i) + offset for i in range(part.size())]
        assert offset == a((t // 4, t % 4))
    assert sorted(seen) == list(range(64))


def test_assert_same_map() -> None:
    a = Layout((4, (2, 8)), (2, (1, 8)))
    assert_same_map(a, lambda c: 2 * c[0] + c[1][0] + 8 * c[1][1])
    assert_same_map(a, Layout((4, 2, 8), (2, 1, 8)))
    with pytest.raises(AssertionError, match=r"maps \(1,\(0,0\)\) to 2, expected 1"):
        assert_same_map(a, lambda c: c[0] + c[1][0])
