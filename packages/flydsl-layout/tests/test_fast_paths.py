"""The static fast paths give the very layouts, profile included, that the dialect's general algorithms give."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings, strategies as st
from strategies import compact_layouts, layouts

from flydsl.layout import Layout, LayoutError, complement, composition, inttuple as it
from flydsl.layout.algebra import canon, coalesce_pair
from flydsl.layout.compose import _Symbolic

settings.register_profile("fast", deadline=None, suppress_health_check=list(HealthCheck), max_examples=300)
settings.load_profile("fast")


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
