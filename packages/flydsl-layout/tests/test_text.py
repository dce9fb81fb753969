"""Printing, parsing, equality, serialisation."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from strategies import layouts, tiles

from flydsl.layout import (
    Basis,
    ComposedLayout,
    CoordSwizzle,
    Dyn,
    Layout,
    LayoutError,
    Swizzle,
    Tile,
    make_layout,
    parse,
    parse_composed,
    parse_int_tuple,
    parse_layout,
    parse_tile,
    to_fly_type,
    to_text,
)
from flydsl.layout.core import make_pair

dyns = st.builds(Dyn, st.sampled_from([32, 64]), st.integers(-8, 64))
scalars = st.one_of(st.integers(-100, 100), st.none(), dyns)
basis_paths = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
bases = st.builds(
    Basis, st.one_of(st.integers(-9, 9), dyns), st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
)
int_tuples = st.recursive(
    st.one_of(scalars, bases), lambda e: st.lists(e, min_size=1, max_size=3).map(tuple), max_leaves=6
)
any_layouts = st.one_of(
    layouts(), st.builds(lambda s, d: make_pair(s.shape, d), layouts(), int_tuples.filter(lambda d: d is not None))
)
swizzles = st.builds(Swizzle, st.integers(0, 5), st.integers(0, 8), st.integers(-4, 8))
paths = st.lists(st.integers(0, 3), max_size=3).map(tuple)
coord_swizzles = st.builds(CoordSwizzle, st.integers(0, 5), st.integers(0, 5), paths, st.integers(0, 5), paths)
composed = st.recursive(
    st.builds(ComposedLayout, st.one_of(swizzles, coord_swizzles, any_layouts), int_tuples, any_layouts),
    lambda c: st.builds(ComposedLayout, st.one_of(c, swizzles), int_tuples, st.one_of(c, any_layouts)),
    max_leaves=3,
)
leaf_tiles = st.one_of(st.integers(1, 99), st.none(), layouts(2)).map(Tile.leaf)
values = st.one_of(int_tuples, any_layouts, swizzles, coord_swizzles, composed, tiles(), leaf_tiles)


@settings(max_examples=400)
@given(values)
def test_parse_inverts_print(x: Any) -> None:
    assert parse(to_fly_type(x)) == x
    if isinstance(x, Tile):
        assert parse_tile(str(x)) == x
    elif isinstance(x, (Layout, ComposedLayout, Swizzle, CoordSwizzle)):
        assert parse(str(x)) == x and parse_composed(str(x)) == x
    else:
        assert parse(to_text(x)) == x


@given(values)
def test_repr_hash_and_pickle(x: Any) -> None:
    assert pickle.loads(pickle.dumps(x)) == x
    try:
        again = eval(repr(x))
    except LayoutError as error:  # read from the text of a type: constructors want one profile
        assert "congruent" in str(error)
        return
    assert again == x and hash(again) == hash(x)


@pytest.mark.parametrize(
    "shape,stride", [((4, 2), (1,)), ((4, 2), 1), (4, (1, 2)), ((4, (2, 2)), (1, 2)), ((4, 2), (1, (2,))), ((1,), 0)]
)
def test_constructors_want_one_profile(shape: Any, stride: Any) -> None:
    for make in (Layout, make_layout):
        with pytest.raises(LayoutError, match="not congruent"):
            make(shape, stride)


@settings(max_examples=600)
@given(
    st.one_of(st.text(), st.text(alphabet="0123456789()[]{}<>:,|*?oSCEi=- div!fly.layout"), st.text(alphabet="(:),1E?"))
)
@example("((((((((((" * 100)
@example("9" * 5000)
@example("1E" + "9" * 5000)
@example("²")
@example("٣:1")
@example("!fly.layout<>")
@example("!fly.tile<[-1]>")
@example("0:1")
@example("8:1 o 0" * 200)
def test_malformed_text_raises_layout_error_only(text: str) -> None:
    for f in (parse, parse_layout, parse_tile, parse_int_tuple, parse_composed):
        try:
            f(text)
        except LayoutError:
            pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: Layout(0, 1),
        lambda: Layout((4, -2)),
        lambda: Layout(4.0, 1),
        lambda: Layout("4", 1),
        lambda: Layout([4, 2]),
        lambda: Layout(()),
        lambda: Layout(4, 1.5),
        lambda: Layout((4, Basis(1, (0,)))),
        lambda: Tile(),
        lambda: Tile(0),
        lambda: Tile("x"),
        lambda: Swizzle(-1, 0, 0),
        lambda: Basis(1, ()),
        lambda: Dyn(16),
        lambda: ComposedLayout(3, 0, Layout(4)),
        lambda: Layout((4, 2), 1)(3),
    ],
)
def test_malformed_values_are_refused(make: Any) -> None:
    with pytest.raises(LayoutError):
        make()


def test_values_are_immutable() -> None:
    for x in (Layout(4), Swizzle(1, 2, 3), Tile(4), ComposedLayout(Layout(4), 0, Layout(4)), Dyn(), Basis(1, (0,))):
        with pytest.raises(AttributeError):
            x.shape = 3  # type: ignore[union-attr]


def test_error_shows_column() -> None:
    with pytest.raises(LayoutError, match=r"column 8 of '\(4,2\):\(1,\)'.*an integer.*found '\)'|column"):
        parse("(4,2):(1,)")
