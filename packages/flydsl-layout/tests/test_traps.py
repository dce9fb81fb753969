"""Inputs for which other implementations return a wrong layout, or refuse without need."""

from __future__ import annotations

import pytest

from flydsl.layout import (
    Layout,
    LayoutError,
    coalesce as coalesce_,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    make_identity_layout,
    make_ordered_layout,
    make_row_major,
    make_shape,
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


@pytest.mark.parametrize(
    "f,a,b",
    [(logical_divide, "12:1", "(2,2):(2,3)"), (logical_product, "(2,2):(2,3)", "3:1"), (complement, "(2,2):(2,3)", 12)],
)
def test_gaps_without_a_layout_name_a_way(f: object, a: str, b: str | int) -> None:
    """CuTe demands modes that nest; the message says so, names the operands and what to write instead."""
    with pytest.raises(LayoutError, match="modes nest.*split the extents.*composition") as e:
        f(parse(a), parse(b) if isinstance(b, str) else b)  # type: ignore[operator]
    assert a in str(e.value) and str(b) in str(e.value)


@pytest.mark.parametrize(
    "a,b,answer",
    [
        # No stride divides an extent here; the digits never carry, or carry without net effect.
        ("(1048576,1048576):(1,1073741824)", "524288:1048577", "524288:1073741825"),
        ("(2,3,100000000):(1,5,12)", "1048576:3", "1048576:6"),
        ("(9,1000000):(1,100)", "8:5", "(2,4):(5,101)"),
        ("(9,1000000):(1,100)", "((2,4),1):((5,10),7)", "((2,4),1):((5,101),0)"),
        ("(4,6):(1,10)", "2:5", "2:11"),
        ("((4,8),6):((1E0E0,1E0E1),1E1)", "(2,2):(1,2)", "(2,2):(1E0E0,2E0E0)"),
    ],
)
def test_answers_beyond_enumeration(a: str, b: str, answer: str) -> None:
    assert str(composition(parse(a), parse(b))) == answer


@pytest.mark.parametrize(
    "a,b",
    [
        ("(1000003,6):(1,10)", "1048576:3"),
        ("(1048576,7):(3,5)", "(1048575,3):(1,2)"),
        ("(1073741824,1073741824):(1,3)", "(1073741823,5):(1,1)"),
    ],
)
def test_refusals_beyond_enumeration(a: str, b: str) -> None:
    with pytest.raises(LayoutError) as e:
        composition(parse(a), parse(b))
    assert a in str(e.value) and b in str(e.value) and "no layout answer" in str(e.value)


@pytest.mark.parametrize("bad", [0, -1, -4, 2.5, "4", (4, 0), (4, (2, -1)), (), ((),), (4, "x"), 1j, (4, 2.0)])
def test_extents_are_positive_integers(bad: object) -> None:
    for build in (Layout, make_row_major, make_shape, make_ordered, logical_divide_by):
        with pytest.raises(LayoutError):
            build(bad)


def make_ordered(shape: object) -> Layout:
    return make_ordered_layout(shape, 0)


def logical_divide_by(tile: object) -> object:
    return logical_divide(Layout((8, 8)), tile)


@pytest.mark.parametrize("bad", [2.5, "4", 1j, (), (1, "x")])
def test_strides_are_integers(bad: object) -> None:
    with pytest.raises(LayoutError):
        Layout(4, bad)
    with pytest.raises(LayoutError):
        complement(Layout(4), bad)


def test_a_trailing_mode_of_one_does_not_stop_rounding_up() -> None:
    """(32,1) in tiles of 3: coordinates beyond 32 are predicated off, and before that it is 32:1."""
    assert str(logical_divide(parse("(32,1):(1,0)"), parse("3:1"))) == "(3,11):(1,3)"
    assert str(logical_divide(parse("(32,1):(1,0)"), parse("3:1"))) == str(logical_divide(parse("32:1"), parse("3:1")))


def test_recast_is_exact() -> None:
    assert str(recast_layout(parse("(1,64):(1,1)"), 32, 8)) == "(1,256):(4,1)"
    assert str(recast_layout(parse("(1,64):(1,1)"), 1, 16)) == "(1,4):(1,1)"
    for text, old, new in (("(3,32):(1,1)", 16, 32), ("(3,32):(1,1)", 32, 16), ("4:1", 16, 24)):
        with pytest.raises(LayoutError):
            recast_layout(parse(text), old, new)


def test_composition_does_not_leave_the_domain_of_an_inner_layout() -> None:
    """(4:1 behind 5) reads index 5 to 8, where (4,6):(1,10) after 4:1 is not 4:1."""
    a, b = parse("(4,6):(1,10)"), parse("4:1 o 5 o 4:1")
    r = composition(a, b)
    assert [r(i) for i in range(4)] == [a(b(i)) for i in range(4)] == [11, 12, 13, 20]


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


@pytest.mark.parametrize(
    "a,m,answer",
    [
        # The modes of stride 24 and 60 interleave, but both clear the codomain.
        ("(2,(2,16)):(3,(60,24))", 12, "(3,2):(1,6)"),
        ("(2,2,16):(3,60,24)", 6, "3:1"),
        ("(2,2):(1,5)", 4, "2:2"),
        ("(2,3,2):(1,4,6)", 2, "1:0"),
    ],
)
def test_complement_that_is_full_before_the_modes_interleave(a: str, m: int, answer: str) -> None:
    assert str(complement(parse(a), m)) == answer


@pytest.mark.parametrize("a,m", [("(2,(2,16)):(3,(60,24))", 13), ("(2,2):(1,5)", 5), ("(2,2,16):(3,48,24)", 6)])
def test_complement_that_does_not_exist(a: str, m: int) -> None:
    with pytest.raises(LayoutError, match="does not start at a multiple|not injective"):
        complement(parse(a), m)
