"""Generators of shapes and layouts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flydsl.layout import Layout, Tile

EXTENTS = st.sampled_from([1, 1, 2, 2, 3, 4, 4, 5, 6, 8])


def shapes(max_leaves: int = 4) -> st.SearchStrategy[Any]:
    return st.recursive(
        EXTENTS, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=max_leaves
    )


def _leaf_count(s: Any) -> int:
    return sum(map(_leaf_count, s)) if isinstance(s, tuple) else 1


def _refill(s: Any, it: Any) -> Any:
    return tuple(_refill(e, it) for e in s) if isinstance(s, tuple) else next(it)


def size(s: Any) -> int:
    if not isinstance(s, tuple):
        return int(s)
    n = 1
    for e in s:
        n *= size(e)
    return n


@st.composite
def layouts(draw: Any, max_leaves: int = 4, strides: Any = None, max_size: int = 512) -> Layout:
    """Any layout: zero strides, extent-1 modes, overlaps and gaps included."""
    shape = draw(shapes(max_leaves).filter(lambda s: size(s) <= max_size))
    n = _leaf_count(shape)
    choices = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 60])
    values = draw(st.lists(strides or choices, min_size=n, max_size=n))
    return Layout(shape, _refill(shape, iter(values)))


@st.composite
def compact_layouts(draw: Any, max_leaves: int = 4, gaps: bool = True, max_size: int = 512) -> Layout:
    """Injective layouts: leaves in any order, each stride a multiple of what lies below it."""
    shape = draw(shapes(max_leaves).filter(lambda s: size(s) <= max_size))
    flat: list[int] = []

    def collect(s: Any) -> None:
        if isinstance(s, tuple):
            for e in s:
                collect(e)
        else:
            flat.append(s)

    collect(shape)
    order = draw(st.permutations(range(len(flat))))
    strides = [0] * len(flat)
    running = 1
    for i in order:
        running *= draw(st.sampled_from([1, 1, 2, 3])) if gaps else 1
        strides[i] = running
        running *= flat[i]
    return Layout(shape, _refill(shape, iter(strides)))


def tiles() -> st.SearchStrategy[Tile]:
    entry = st.one_of(st.none(), st.sampled_from([1, 2, 3, 4]), compact_layouts(2, max_size=8))
    nested = st.recursive(entry, lambda e: st.lists(e, min_size=1, max_size=2).map(lambda x: Tile(*x)), max_leaves=3)
    return st.lists(nested, min_size=1, max_size=3).map(lambda x: Tile(*x))
