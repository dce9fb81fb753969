"""The forms in which CuTe, pycute and ``fx`` write the same calls."""

from __future__ import annotations

from typing import Any

import pytest

import flydsl.layout as L
from flydsl.layout import E, Layout, LayoutError, Swizzle, Tile, parse

A = Layout((4, (2, 8)), (2, (1, 8)))
M = Layout((4, 8), (8, 1))
ROWS = Layout((8, 64), (64, 1))
SWIZZLED = L.composition(Swizzle(1, 0, 2), Layout((2, 2)))


class Index:
    """An integer of another library (NumPy's behave so)."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize(
    "call,answer",
    [
        # An integer is the layout n:1, as operand and as tiler.
        (lambda: L.composition(8, 4), "4:1"),
        (lambda: L.composition(Layout(8, 3), Index(4)), "4:3"),
        (lambda: L.complement(4, 24), "6:4"),
        (lambda: L.complement(Index(4), Index(24)), "6:4"),
        (lambda: L.coalesce(8), "8:1"),
        (lambda: L.right_inverse(8), "8:1"),
        (lambda: L.left_inverse(8), "8:1"),
        (lambda: L.logical_divide(24, 4), "(4,6):(1,4)"),
        (lambda: L.zipped_divide(24, Layout(4, 2)), "(4,(2,3)):(2,(1,8))"),
        (lambda: L.logical_product(4, 3), "(4,3):(1,4)"),
        (lambda: L.blocked_product(Layout((2, 2)), Index(3)), "((2,3),(2,1)):((1,4),(2,0))"),
        (lambda: (L.same_map(8, Layout((2, 4))), L.image(Index(2)), L.kernel(3)), (True, {0, 1}, {0})),
        (lambda: (L.is_injective(8), L.is_bijective(8)), (True, True)),
        (lambda: (L.is_contiguous(8), L.is_surjective(8, 9)), (True, False)),
        (lambda: list(L.enumerate_map(2)), [(0, 0), (1, 1)]),
        (lambda: -E(1), L.Basis(-1, (1,))),
        # A vector may not cross what a swizzle moves.
        (lambda: L.max_common_vector(ROWS, ROWS), 512),
        (lambda: L.max_common_vector(ROWS, L.composition(Swizzle(3, 3, 3), ROWS)), 8),
        (lambda: L.max_common_vector(L.ComposedLayout(Swizzle(3, 3, 3), 4, ROWS), ROWS), 4),
        (lambda: L.max_common_layout(ROWS, L.ComposedLayout(Swizzle(0, 3, 3), 0, ROWS)), "(64,8):(8,1)"),
        (lambda: L.max_common_layout(8, Layout((2, 4), (1, 4))), "2:1"),
        # Tuples and lists are tilers by mode, nested ones nested.
        (lambda: L.composition(M, [2, 4]), "(2,4):(8,1)"),
        (lambda: L.composition(M, (Layout(2, 2), None)), "(2,8):(16,1)"),
        (lambda: L.logical_divide(M, [2, (4,)]), "((2,2),((4,2))):((8,16),((1,4)))"),
        (lambda: L.logical_product(Layout((2, 3)), (2, 2)), "((2,2),(3,2)):((1,2),(2,1))"),
        (lambda: L.logical_product(Layout((2, 3)), Tile(2, None)), "((2,2),3):((1,2),2)"),
        (lambda: L.logical_product(Layout(2), Tile.leaf(3)), "(2,3):(1,2)"),
        (lambda: L.zipped_product(Layout((2, 3)), (2, 2)), "((2,3),(2,2)):((1,2),(2,1))"),
        (lambda: L.tiled_product(Layout((2, 3)), (2, 2)), "((2,3),2,2):((1,2),2,1)"),
        (lambda: L.flat_product(Layout((2, 3)), (2, 2)), "(2,3,2,2):(1,2,2,1)"),
        (lambda: L.zipped_product(SWIZZLED, 2), "S<1,0,2> o 0 o ((2,2),2):((1,2),4)"),
        # Modes by position, by list and by keyword.
        (lambda: L.size(A, 1), 16),
        (lambda: L.size(A, 1, 0), 2),
        (lambda: L.size(A, mode=[1, 1]), 8),
        (lambda: L.size(A, [1, 1]), 8),
        (lambda: L.cosize(A, mode=1), 58),
        (lambda: L.cosize(A, 0), 7),
        (lambda: L.shape(A, 1), (2, 8)),
        (lambda: L.stride(A, mode=[1, 1]), 8),
        (lambda: L.rank(A, mode=1), 2),
        (lambda: L.depth(A, mode=[1]), 1),
        (lambda: L.get(A, mode=[1, 0]), "2:1"),
        (lambda: L.select(Layout((4, 8, 2)), mode=[2, 0]), "(2,4):(32,1)"),
        (lambda: L.group_modes(Layout((4, 8, 2)), 0, 2), "((4,8),2):((1,4),32)"),
        (lambda: L.append_ones(Layout(4), 3), "(4,1,1):(1,0,0)"),
        (lambda: L.prepend_ones((4,), 3), (1, 1, 4)),
        # Coordinates with layouts, shapes, or shape and stride; the coordinate first or last where it is a layout's.
        (lambda: L.crd2idx((1, 2), M), 10),
        (lambda: L.crd2idx((1, 2), (4, 8)), 9),
        (lambda: L.crd2idx((1, 2), (4, 8), (8, 1)), 10),
        (lambda: L.idx2crd(10, (4, 8), (8, 1)), (1, 2)),
        (lambda: L.idx2crd(9, (4, 8)), (1, 2)),
        (lambda: L.get_1d_coord(9, (4, 8)), 9),
        (lambda: L.get_flat_coord(17, (4, (2, 8))), (1, 4)),
        (lambda: L.slice_((None, 2), M), "4:8"),
        (lambda: L.slice_(M, (None, 2)), "4:8"),
        (lambda: L.dice((None, 2), M), "8:1"),
        (lambda: L.slice_and_offset((None, 2), M)[1], 2),
        (lambda: L.local_partition(Layout((8, 6)), (4, 3), 5)[0], "(2,2):(4,24)"),
        (lambda: L.local_tile(Layout((8, 6)), (4, 99, 3), (1, 7, 0), proj=(1, None, 1))[0], "(4,3):(1,8)"),
        (lambda: L.local_tile(Layout((8, 6)), Tile(4, 99, 3), (1, 7, 1), (1, None, 1))[1], 28),
        (lambda: L.recast_layout(M, 16, 8), "(4,16):(16,1)"),
        (lambda: L.recast_layout(8, 16, M), "(4,16):(16,1)"),
        (lambda: L.make_swizzle(3, 4, 3), "S<3,4,3>"),
        # Int tuples: checked, integers of other libraries included.
        (lambda: L.ceil_div(Index(7), 2), 4),
        (lambda: L.int_tuple_add((1, Index(2)), (3, 4)), (4, 6)),
        (lambda: L.prefix_product((2, (3, 4))), (1, (2, 6))),
        (lambda: L.prefix_product((2, (3, 4)), (1, 10)), (1, (10, 30))),
        (lambda: L.tuple_max((2, (30, 4))), 30),
        (lambda: L.tuple_sum((2, (30, 4))), 36),
        (lambda: L.transform_leaf(lambda a, b: a * b, (2, (3, 4)), (1, (2, 3))), (2, (6, 12))),
        (lambda: L.repeat_like(7, A), (7, (7, 7))),
        (lambda: (L.basis_value(3 * E(1, 0)), L.basis_value(5), L.basis_get(E(1, 0), (5, (6, 7)))), (3, 5, 6)),
        (lambda: (L.has_none((1, None)), L.has_none(A)), (True, False)),
        (lambda: (L.is_static(A), L.is_static(parse("(4,?)"))), (True, False)),
        # Shape tests look at the shapes of layouts, whichever side they are on.
        (lambda: (L.congruent(A, Layout((1, (2, 3)))), L.congruent(A, M)), (True, False)),
        (lambda: (L.congruent(A, (1, (1, 1))), L.is_congruent(A, 3)), (True, False)),
        (lambda: (L.is_weakly_congruent((1, 1), A), L.weakly_congruent(A, M)), (True, False)),
        (lambda: (L.compatible((4, 16), A), L.compatible(M, A), L.compatible(64, A)), (True, False, True)),
        (lambda: (L.weakly_compatible((2, 16), A), L.weakly_compatible((3, 16), A)), (True, False)),
    ],
)
def test_form(call: Any, answer: Any) -> None:
    got = call()
    assert (str(got) if isinstance(answer, str) else got) == answer


@pytest.mark.parametrize(
    "call",
    [
        lambda: L.blocked_product(Layout((2, 3)), (2, 2)),
        lambda: L.composition(2.5, 4),
        lambda: L.coalesce((4, 8)),
        lambda: L.complement(M, M),
        lambda: L.congruent("x", M),
        lambda: L.product(M),
        lambda: L.ceil_div(2.5, 1),
        lambda: L.tuple_max((1, None)),
        lambda: L.prefix_product((2, 3), (1, 2, 3)),
        lambda: L.transform_leaf(max, (1, 2), (1, (2, 3))),
        lambda: L.basis_get(4, (1, 2)),
        lambda: L.recast_layout(M, M, 8),
        lambda: L.local_tile(M, (4, 4), (0, 0), proj=(1, None, 1)),
        lambda: L.idx2crd(3, parse("S<1,0,2> o 0 o 8:1")),
        lambda: L.crd2idx(0, ((None, 12), (2,))),  # a hole has no extent to divide by
        lambda: Layout(((None, 12), 2))(3),
        lambda: L.size(A, mode=[5]),
        lambda: L.size(A, mode="x"),
        lambda: L.cosize(A, 1, 7),
    ],
)
def test_what_is_not_a_form(call: Any) -> None:
    with pytest.raises(LayoutError):
        call()


def test_reports_evaluate_to_themselves() -> None:
    scope: dict[str, Any] = {}
    exec("from flydsl.layout import *", scope)
    report = L.bank_conflicts(Layout(64, 64))
    for x in (L.mma_atom("mfma_f32_16x16x16_f16"), report, L.find_swizzle(Layout((8, 8), (64, 8)))):
        assert eval(repr(x), scope) == x


def test_the_oracle_takes_functions_of_coordinates_or_modes() -> None:
    L.assert_same_map(M, lambda c: 8 * c[0] + c[1])
    L.assert_same_map(M, lambda i, j: 8 * i + j)
    L.assert_same_map(A, lambda i, j: 2 * i + j[0] + 8 * j[1])
    L.assert_same_map(Layout(8, 3), lambda i, step=3: i * step)
    L.assert_same_map(M, Layout((4, (2, 4)), (8, (1, 2))))
    with pytest.raises(AssertionError, match=r"maps \(1,0\) to 8, expected 1"):
        L.assert_same_map(M, lambda i, j: i + 4 * j)
