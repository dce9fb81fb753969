"""The static fast paths give the very layouts, profile included, that the dialect's general algorithms give."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings, strategies as st
from strategies import compact_layouts, layouts

from flydsl.layout import E, Layout, LayoutError, complement, composition, inttuple as it, sym
from flydsl.layout.algebra import _complement_quick, _complement_static, canon, coalesce_pair
from flydsl.layout.compose import _Symbolic

thorough = settings(max_examples=300)


@thorough
@given(layouts(), layouts(max_size=64))
def test_coalesce_and_composition(a: Layout, b: Layout) -> None:
    from flydsl.layout import coalesce

    c = coalesce(a)
    assert (c.shape, c.stride) == coalesce_pair(a.shape, a.stride)
    general = _Symbolic(a, b)
    try:
        shape, stride = canon(*general.compose(b.shape, b.stride))
        general.check(b)
    except LayoutError:
        return
    r = composition(a, b)
    assert (r.shape, r.stride) == (shape, stride)


@thorough
@given(compact_layouts(), st.integers(1, 400))
def test_complement(a: Layout, m: int) -> None:
    """The dialect's complement, written out."""
    s, d = coalesce_pair(it.filter_zero(a.stride, a.shape), a.stride)
    modes = sorted(zip(it.modes_of(it.flatten(d)), it.modes_of(it.flatten(s)), strict=True))
    assume(modes != [(0, 1)])
    last, shapes, strides = 1, [], []
    for stride, extent in modes:
        shapes.append(stride // last)
        strides.append(last)
        last = stride * extent
    want = coalesce_pair((*shapes, -(-m // last)), (*strides, last))
    r = complement(a, m)
    assert (r.shape, r.stride) == want


@thorough
@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([-4, -1, 0, 1, 2, 3, 4, 8, 24])), min_size=1, max_size=4),
       st.integers(-2, 300))
def test_quick_complement_is_the_general_one(modes: list[tuple[int, int]], m: int) -> None:
    """Also with extents of 1, strides that occur twice, broadcasts and negative strides."""
    shapes, strides = tuple(s for s, _ in modes), tuple(d for _, d in modes)
    quick = _complement_quick(shapes, strides, m)
    if quick is not None:
        assert quick == _complement_static(shapes, strides, m, Layout(shapes, strides))


class _Pair(tuple):
    """A tuple of a caller's own, as a NamedTuple is."""


class _IntLike:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@thorough
@given(layouts(), st.data())
def test_construction_does_not_depend_on_the_form_of_its_arguments(a: Layout, data: st.DataObject) -> None:
    """Integer-like leaves and tuples of other classes give the layout of plain ints in plain tuples."""

    def disguised(x: it.IntTuple) -> object:
        if type(x) is tuple:
            return data.draw(st.sampled_from([tuple, _Pair]))(disguised(e) for e in x)
        forms = [x, _IntLike(x)] + ([bool(x)] if x in (0, 1) else [])
        return data.draw(st.sampled_from(forms))

    b = Layout(disguised(a.shape), disguised(a.stride))
    assert (repr(b), b, hash(b)) == (repr(a), a, hash(a))
    assert [type(x) for x in it.leaves(b.shape)] == [type(x) for x in it.leaves(a.shape)]
    assert [type(x) for x in it.leaves(b.stride)] == [type(x) for x in it.leaves(a.stride)]


@pytest.mark.parametrize("shape, stride, message", [
    ((4, 0), (1, 4), "positive"), ((4, (2, -1)), (1, (4, 8)), "positive"), ((), (), "empty"),
    ((4, ()), (1, ()), "empty"),
    ((4, 2.0), (1, 4), "not an integer"), ((4, 2), (1, 4.0), "not an integer"), ((4, "2"), (1, 4), "not an integer"),
    ((4, E(0)), (1, 4), "basis"), ((4, [2]), (1, (4,)), "not an integer"),
])
def test_construction_refuses(shape: object, stride: object, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        Layout(shape, stride)


def test_construction_keeps_what_is_no_plain_int() -> None:
    n = sym("n")
    a = Layout((4, n), (1, (4)))
    assert a.shape[1] is n
    assert Layout((4, 8), (E(0), E(1))).stride == (E(0), E(1))
    with pytest.raises(LayoutError, match="congruent"):
        Layout((4, (2, 2)), (1, (4, 8, 16)))
