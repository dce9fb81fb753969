"""Symbolic results specialised to numbers equal numeric results."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from strategies import compact_layouts, layouts

import flydsl.layout as L
from flydsl.layout import Basis, Dyn, Layout, LayoutError, coalesce, substitute, sym

EXAMPLES = int(os.environ.get("LAYOUT_EXAMPLES", "150"))
settings.register_profile("layout", deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
settings.load_profile("layout")


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
def test_composition_with_static_inner(a: Layout, b: Layout, data: Any) -> None:
    n = run(L.composition, a, b)
    s, env = data.draw(symbolic(a))
    r = run(L.composition, s, b)
    try:
        r = checked(r, env)
    except LayoutError:
        assume(False)  # the dynamic extents are such that the inferred form does not divide
    exact = all(isinstance(v, int) for v in L.inttuple.leaves(s.shape))
    if exact:
        assert same_function(r, n)


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
