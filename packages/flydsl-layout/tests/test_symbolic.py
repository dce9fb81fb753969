"""Symbolic results specialised to numbers equal numeric results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from strategies import compact_layouts, layouts

import flydsl.layout as L
from flydsl.layout import Basis, Dyn, Layout, LayoutError, coalesce, substitute, sym


@st.composite
def symbolic(draw: Any, base: Layout) -> tuple[Layout, dict[str, int]]:
    """Replace some leaves by named symbols of a true divisibility."""
    env: dict[str, int] = {}

    def leaf(v: int) -> Any:
        if v == 0 or not draw(st.booleans()):
            return v
        name = f"x{len(env)}"
        env[name] = v
        div = draw(st.sampled_from([d for d in (1, 2, 3, 4, v) if v % d == 0]))
        return sym(name, draw(st.sampled_from([32, 64])), div)

    def go(x: Any) -> Any:
        return tuple(go(e) for e in x) if isinstance(x, tuple) else leaf(x)

    return Layout(go(base.shape), go(base.stride)), env


def checked(x: Any, env: dict[str, int]) -> Any:
    """Substitute, checking that every inferred divisibility holds."""

    def go(e: Any) -> Any:
        if isinstance(e, tuple):
            return tuple(go(c) for c in e)
        v = substitute(e, env)
        d = e.value if isinstance(e, Basis) else e
        n = v.value if isinstance(v, Basis) else v
        if isinstance(d, Dyn) and d.div:
            assert n % d.div == 0, f"{e} = {v} breaks its divisibility"
        return v

    return Layout(go(x.shape), go(x.stride))


def same_function(s: Layout, n: Layout) -> bool:
    return s.size() == n.size() and all(s(i) == n(i) for i in range(n.size()))


def run(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except LayoutError:
        assume(False)


@given(layouts(), st.data())
def test_coalesce_and_size(a: Layout, data: Any) -> None:
    s, env = data.draw(symbolic(a))
    assert same_function(checked(coalesce(s), env), a)
    assert substitute(L.size(s), env) == a.size()
    assert substitute(L.cosize(s), env) == L.cosize(a)


@given(layouts(), st.integers(0, 500), st.data())
def test_crd2idx(a: Layout, i: int, data: Any) -> None:
    s, env = data.draw(symbolic(a))
    index = sym("i", 32, 1)
    assert substitute(L.crd2idx(index, s), {**env, "i": i}) == L.crd2idx(i, a)


@given(layouts(), compact_layouts(3, max_size=32), st.data())
def test_composition(a: Layout, b: Layout, data: Any) -> None:
    """What the symbols give is the numeric result at the values it admits; it refuses the others."""
    (s, env), (t, more) = data.draw(symbolic(a)), data.draw(symbolic(b))
    t = renamed(t)
    env |= {f"y{k}": v for k, v in more.items()}
    r = run(L.composition, s, t)
    assert same_function(run(checked, r, env), L.composition(a, b))


def renamed(x: Layout) -> Layout:
    """Other names for the symbols of a second operand."""

    def go(e: Any) -> Any:
        if isinstance(e, tuple):
            return tuple(map(go, e))
        return sym(f"y{e.expr[1]}", e.width, e.div) if isinstance(e, Dyn) and e.expr else e

    return Layout(go(x.shape), go(x.stride))


@given(layouts(), compact_layouts(2, max_size=12), st.sampled_from([L.logical_divide, L.logical_product]), st.data())
def test_divides_and_products(a: Layout, b: Layout, f: Any, data: Any) -> None:
    (s, env), (t, more) = data.draw(symbolic(a)), data.draw(symbolic(b))
    assume(1 not in [*env.values(), *more.values()])  # a mode of extent 1 that is not known to be one may leave gaps
    t = renamed(t)
    env |= {f"y{k}": v for k, v in more.items()}
    r = run(f, s, t)
    assert same_function(run(checked, r, env), f(a, b))


@pytest.mark.parametrize(
    "f,b,good,bad",
    [
        # 4:2 through an extent m: it has to divide evenly, or to stay inside.
        (L.composition, Layout(4, 2), {1, 2, 4, 7, 8, 9, 100}, {3, 5, 6}),
        # The modes reach 1 + 1 together.
        (L.composition, Layout((2, 2), (1, 1)), {3, 4, 9}, {2}),
        (L.composition, Layout((2, 2), (1, 6)), {2, 3, 6, 8}, {5}),
    ],
)
def test_values_that_a_symbolic_result_does_not_admit(f: Any, b: Layout, good: set[int], bad: set[int]) -> None:
    r = f(Layout((sym("m"), 8), (8, 1)), b)
    for m in good:
        assert same_function(substitute(r, m=m), f(Layout((m, 8), (8, 1)), b)), m
    for m in bad:
        with pytest.raises(LayoutError, match="not what the symbols gave at these values"):
            substitute(r, m=m)


def test_conditions_are_no_part_of_equality_or_text() -> None:
    r = L.composition(Layout((sym("m"), 8), (8, 1)), Layout(4, 2))
    assert str(r) == "(?,?):(16,?)" and r == L.parse(str(r)) and hash(r) == hash(L.parse(str(r)))
    assert eval(repr(r), {**vars(L), "Dyn": Dyn, "sym": sym}) == r
    with pytest.raises(LayoutError, match="crosses the extent 6 unevenly|does not divide"):
        substitute(eval(repr(r), {**vars(L), "Dyn": Dyn, "sym": sym}), m=6)
    product = L.logical_product(Layout((sym("m"), sym("n")), (12, 24)), Layout(8))
    with pytest.raises(LayoutError, match="does not start at a multiple"):
        substitute(product, m=5, n=8)  # 5:12 and 8:24 overlap, though no leaf of the gaps is left in the result


@given(layouts(), st.sampled_from([1, 2, 3, 4, 6]), st.sampled_from([L.upcast, L.downcast]), st.data())
def test_recast(a: Layout, factor: int, f: Any, data: Any) -> None:
    """Whatever the symbols are found to be, the result is that of the numbers, or one of the two is an error."""
    s, env = data.draw(symbolic(a))
    try:
        r = checked(f(s, factor), env)
    except LayoutError:
        return  # not known to be exact, or not admitted at these values
    assert same_function(r, f(a, factor))


def test_downcast_of_a_mode_that_may_have_one_element() -> None:
    """Of several modes of stride 1 and extent 1 the last is taken, so a symbol before it must be more."""
    narrow = L.downcast(Layout((sym("m"), 2, 1), (1, 0, 1)), 2)
    assert same_function(substitute(narrow, m=3), L.downcast(Layout((3, 2, 1), (1, 0, 1)), 2))
    with pytest.raises(LayoutError, match="has the extent 1, as others"):
        substitute(narrow, m=1)
    for last in (Layout((1, 2, sym("m")), (1, 0, 1)), Layout((sym("m"), 2), (1, 0))):
        numbers = tuple(1 if type(s) is Dyn else s for s in last.shape)
        assert same_function(substitute(L.downcast(last, 2), m=1), L.downcast(Layout(numbers, last.stride), 2))


def test_recast_to_the_same_width_changes_nothing() -> None:
    for a in (Layout((2, 2, 1), (1, 1, 0)), Layout((4, sym("n")), (1, 1)), Layout((4, (2, 3)), (-1, (4, 8)))):
        assert L.downcast(a, 1) == a and L.upcast(a, 1) == a


def test_values_that_a_symbolic_recast_does_not_admit() -> None:
    up = L.upcast(Layout((2, sym("m")), (1, 2)), 4)
    assert substitute(up, m=2) == L.upcast(Layout((2, 2), (1, 2)), 4)
    down = L.downcast(Layout((4, 3), (1, sym("d"))), 2)
    assert same_function(substitute(down, d=4), Layout((8, 3), (1, 8)))
    with pytest.raises(LayoutError, match="through the parts of an element"):
        substitute(down, d=1)


def test_left_inverse_without_a_mode_of_dynamic_stride() -> None:
    s = Layout((4, 2), (1, sym("d")))
    with pytest.raises(LayoutError, match="inverse of the other modes only"):
        L.left_inverse(s)
    assert L.left_inverse(L.parse("(4,8):(1,?)")) == Layout(4), "of an anonymous symbol nothing can be asked"


@given(compact_layouts(3), st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=3), st.data())
def test_divide_by_mode_with_dynamic_strides(a: Layout, t: list[int], data: Any) -> None:
    assume(isinstance(a.shape, tuple) and L.rank(a) >= len(t))
    n = run(L.zipped_divide, a, tuple(t))
    env: dict[str, int] = {}

    def go(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(go(e) for e in x)
        name = f"d{len(env)}"
        env[name] = x
        return sym(name)

    s = Layout(a.shape, go(a.stride))
    r = run(L.zipped_divide, s, tuple(t))
    assert same_function(checked(r, env), n)


def test_dynamic_extents_round_up() -> None:
    a = Layout((sym("m"), sym("n", div=4)), (sym("ld", 64, 4), 1))
    z = L.zipped_divide(a, (16, 8))
    for m in (16, 17, 31, 48):
        r = substitute(z, m=m, n=24, ld=40)
        want = L.zipped_divide(Layout((m, 24), (40, 1)), (16, 8))
        assert r.shape == want.shape and L.same_map(r, want)


def test_substitute_reports() -> None:
    with pytest.raises(LayoutError, match="no value given for the symbol 'm'"):
        substitute(sym("m"), n=3)
    with pytest.raises(LayoutError, match="anonymous"):
        substitute(Dyn())
    with pytest.raises(LayoutError, match="not a multiple"):
        substitute(sym("m", div=4), m=6)
    assert repr(sym("m", 64, 4)) == "sym('m', 64, 4)"
