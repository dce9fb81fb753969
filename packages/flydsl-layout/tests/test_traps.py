"""Inputs for which other implementations return a wrong layout, or refuse without need."""

from __future__ import annotations

import pytest

from flydsl.layout import (
    LayoutError,
    coalesce as coalesce_,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    make_identity_layout,
    parse,
    recast_layout,
)


@pytest.mark.parametrize(
    "f,a,b",
    [
        (composition, "(4,6):(1,10)", "8:3"),
        (composition, "(4,6):(1,10)", "5:1"),
        (composition, "(4,6):(1,10)", "(2,2):(3,3)"),
        (composition, "(4,6):(1E0,1E1)", "(2,2):(3,3)"),
        (composition, "(4,6):(1,10)", "5:-1"),
        (logical_product, "(4,4):(1,2)", "2:1"),
        (logical_divide, "(4,5):(1,10)", "3:1"),
    ],
)
def test_no_layout_answer(f: object, a: str, b: str) -> None:
    with pytest.raises(LayoutError) as e:
        f(parse(a), parse(b))  # type: ignore[operator]
    assert a in str(e.value) and b.strip("()") in str(e.value).replace("(", "").replace(")", "") or a in str(e.value)


def test_more_traps() -> None:
    with pytest.raises(LayoutError):
        complement(parse("(4,4):(1,2)"), 64)
    with pytest.raises(LayoutError):
        complement(parse("4:1"), 0)
    with pytest.raises(LayoutError):
        left_inverse(parse("(2,2):(1,1)"))
    with pytest.raises(LayoutError):
        recast_layout(parse("(3,4):(1,3)"), 16, 32)
    # An answer that the divisibility rules alone would refuse.
    assert str(composition(parse("(4,6):(1,10)"), parse("2:5"))) == "2:11"
    # Neighbouring modes with different basis directions are different modes.
    assert str(coalesce_(parse("(4,8):(1E0,4E1)"))) == "(4,8):(1E0,4E1)"
    assert str(logical_divide(parse("10:1"), parse("4:1"))) == "(4,3):(1,4)"
    with pytest.raises(LayoutError, match="evenly"):
        logical_divide(parse("10:1"), parse("4:1"), strict=True)


def test_compose_through_coordinates() -> None:
    a = parse("(6,8):(8,1)")
    b = make_identity_layout((3, 4))
    r = composition(a, b)
    assert all(r(i) == a(b(i)) for i in range(12))
