"""Int-tuples, layouts, tiles and the layout algebra: results of the published examples and errors."""

from __future__ import annotations

from typing import Any

import pytest

import flydsl.expr as fx

pytestmark = pytest.mark.l1a_compile_no_target_dialect


def L(shape: Any, stride: Any) -> Any:  # noqa: N802 - the notation of the published examples
    return fx.make_layout(shape, stride)


def body(value: Any) -> str:
    """Text of the type between the outer brackets."""
    text = str(value.type)
    return text[text.index("<") + 1 : -1]


REFERENCE = [
    (lambda: fx.composition(L((6, 2), (8, 2)), L((4, 3), (3, 1))), "((2,2),3):((24,2),8)"),
    (lambda: fx.composition(L(20, 2), L((5, 4), (4, 1))), "(5,4):(8,2)"),
    (lambda: fx.composition(L((8, 16), (1, 8)), fx.make_tile(4, 8)), "(4,8):(1,8)"),
    (lambda: fx.complement(L((2, 2), (1, 6)), 24), "(3,2):(2,12)"),
    (lambda: fx.complement(L((2, 2), (1, 6))), "3:2"),
    (lambda: fx.right_inverse(L((4, 8), (8, 1))), "(8,4):(4,1)"),
    (lambda: fx.left_inverse(L(4, 2)), "(2,4):(0,1)"),
    (lambda: fx.coalesce(L((2, (1, 6)), (1, (6, 2)))), "12:1"),
    (lambda: fx.coalesce(L((2, (1, 6)), (1, (6, 2))), (1, 1)), "(2,6):(1,2)"),
    (lambda: fx.logical_divide(L((4, 2, 3), (2, 1, 8)), L(4, 2)), "((2,2),(2,3)):((4,1),(2,8))"),
    (lambda: fx.logical_product(L((2, 2), (4, 1)), L(6, 1)), "((2,2),(2,3)):((4,1),(2,8))"),
    (lambda: fx.tiled_product(L((2, 2), (4, 1)), L((2, 3), (1, 2))), "((2,2),2,3):((4,1),2,8)"),
    (lambda: fx.flat_product(L((2, 2), (4, 1)), L((2, 3), (1, 2))), "(2,2,2,3):(4,1,2,8)"),
    (lambda: fx.blocked_product(L((2, 5), (5, 1)), L((3, 4), (1, 3))), "((2,3),(5,4)):((5,10),(1,30))"),
    (lambda: fx.raked_product(L((2, 5), (5, 1)), L((3, 4), (1, 3))), "((3,2),(4,5)):((10,5),(30,1))"),
    (lambda: fx.recast_layout(L((8, 16), (1, 8)), 16, 32), "(4,16):(1,4)"),
    (lambda: fx.recast_layout(L((8, 16), (1, 8)), 32, 8), "(32,16):(1,32)"),
    (lambda: fx.recast_layout(L((8, 16), (1, 8)), fx.Float16, fx.Float32), "(4,16):(1,4)"),
    (lambda: fx.tile_to_shape(L((4, 8), (8, 1)), (16, 16), (0, 1)), "((4,4),(8,2)):((8,32),(1,128))"),
    (lambda: fx.make_ordered_layout((4, 8, 2), (1, 0, 2)), "(4,8,2):(8,1,32)"),
    (lambda: fx.make_ordered_layout((4, (2, 8)), (0, (2, 1))), "(4,(2,8)):(1,(32,4))"),
    (lambda: fx.make_layout_like(L((4, 8, 2), (8, 1, 0))), "(4,8,2):(8,1,1)"),
    (lambda: fx.make_fragment_layout_like(L(((2, 2), 4, 3), ((1, 16), 64, 4))), "((2,2),4,3):((1,2),12,4)"),
    (lambda: fx.make_identity_layout((4, (2, 8))), "(4,(2,8)):(1E0,(1E1E0,1E1E1))"),
    (lambda: fx.crd2idx(7, L((4, 8), (8, 1))), "25"),
    (lambda: fx.get_1d_coord(5, L((4, 8), (8, 1))), "20"),
    (lambda: fx.cosize(L((4, 8), (1, 5))), "39"),
    (lambda: fx.append((2, 3), 1, n=5), "(2,3,1,1,1)"),
    (lambda: fx.prepend((2, 3), 1, n=4), "(1,1,2,3)"),
    (lambda: fx.zipped_divide(L((64, 128), (128, 1)), (8, 16)), "((8,16),(8,8)):((128,1),(1024,16))"),
    (lambda: fx.logical_divide(L((4, 8), (8, 1)), (None, 4)), "(4,(4,2)):(8,(1,4))"),
    (lambda: fx.int_tuple_add((1, 2), 3), "(4,2)"),
    (lambda: fx.shape_div((12, 3), 6), "(2,3)"),
    (lambda: fx.ceil_div((100, 7), (8, 2)), "(13,4)"),
    (lambda: L(9, 1)(3), "3"),
    (lambda: L((4, 8), (8, 1))(None, 3), "4:8"),
    (lambda: L((4, 8), (8, 1))(2, 3), "19"),
    (lambda: fx.take(L((4, 8, 2), (16, 2, 1)), 1, 3), "(8,2):(2,1)"),
    (lambda: fx.group(L((4, 8, 2), (16, 2, 1)), 0, 2), "((4,8),2):((16,2),1)"),
    (lambda: fx.select(L((4, 8, 2), (16, 2, 1)), [2, 0]), "(2,4):(1,16)"),
    (lambda: fx.dice(L((4, 8), (8, 1)), (None, 3)), "8:1"),
]


@pytest.mark.parametrize("index", range(len(REFERENCE)))
def test_reference_results(trace: Any, index: int) -> None:
    expression, want = REFERENCE[index]
    assert body(expression()).removeprefix("(").removesuffix(")") == want.removeprefix("(").removesuffix(")")


def test_divide_with_layout_tile(trace: Any) -> None:
    a = L((9, (4, 8)), (59, (13, 1)))
    tile = fx.make_tile(L(3, 3), L((2, 4), (1, 8)))
    assert body(fx.logical_divide(a, tile)) == "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"
    assert body(fx.zipped_divide(a, tile)) == "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    assert body(fx.tiled_divide(a, tile)) == "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"
    assert body(fx.flat_divide(a, tile)) == "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"


def test_int_tuples(trace: Any) -> None:
    n, wide = trace.arg(fx.Int32), trace.arg(fx.Int64)
    t = fx.make_int_tuple((4, (n, wide), fx.Int32(7), True))
    assert str(t) == "IntTuple<(4,(?,?{i64}),7,1)>"
    four, (a, b), seven, one = t.unpack()
    assert (four, seven, one) == (4, 7, 1) and type(a) is fx.Int32 and type(b) is fx.Int64
    assert (t.rank, t.depth, t.is_leaf, t.is_static) == (4, 2, False, False)
    assert str(t[1]) == "IntTuple<(?,?{i64})>" and str(t[[1, 0]]) == "IntTuple<?>"
    with pytest.raises(IndexError):
        t[4]
    with pytest.raises(ValueError):
        t[-1]
    assert str(fx.make_shape(4)) == "IntTuple<(4)>" and str(fx.make_int_tuple(4)) == "IntTuple<4>"
    assert fx.make_int_tuple(4).get_static_leaf_int == 4
    with pytest.raises(ValueError):
        _ = t[1].get_static_leaf_int
    assert fx.make_int_tuple((fx.E(0), 2 * fx.E(1, 0))).unpack() == (fx.E(0), fx.Basis(2, [1, 0]))
    for bad in (1.0, "x", slice(None), (1, 2.0), trace.arg(fx.Float32)):
        with pytest.raises((ValueError, TypeError)):
            fx.make_int_tuple(bad)
    assert type(fx.get_scalar(fx.make_shape(n))) is fx.Int32 and fx.get_scalar(fx.make_shape(3)) == 3
    assert fx.get_leaves((1, (2, 3))) == (1, 2, 3) and len(fx.get_leaves(t, dynamic_only=True)) == 2
    assert str(fx.get(t, 0).type) == "index"
    assert type(fx.elem_less((n, 1), (4, 4))) is fx.Boolean and not fx.elem_less(1, 2).is_static()
    assert type(fx.equal(1, 1)) is fx.Boolean
    assert fx.size((4, 8)).unpack() == 32 and fx.has_none(fx.make_coord(None, 1))
    assert (fx.rank(8), fx.depth(8), fx.depth((8, (4, 2))), fx.rank(t)) == (1, 0, 2, 4)


def test_basis() -> None:
    assert fx.E() == 1 and repr(fx.E(0, 1)) == "1E0E1" and fx.E([0, 1]) == fx.E(0, 1)
    assert (3 * fx.E(1)).value == 3
    for bad in (-1, True, "0"):
        with pytest.raises(TypeError):
            fx.E(bad)
    with pytest.raises(ValueError):
        fx.Basis(1, [])


def test_layout_members(trace: Any) -> None:
    layout = L((4, (2, 8)), (16, (8, 1)))
    assert str(layout) == "Layout<(4,(2,8)):(16,(8,1))>"
    assert (layout.rank, layout.depth, layout.is_static) == (2, 2, True)
    assert layout.shape.unpack() == (4, (2, 8)) and layout.stride.unpack() == (16, (8, 1))
    assert body(layout[1]) == "(2,8):(8,1)" and body(layout[[1, 0]]) == "2:8"
    assert layout.get_hier_coord(17).unpack() == (1, (0, 1))
    with pytest.raises((ValueError, IndexError)):
        layout[2]
    with pytest.raises(IndexError):
        L(4, 1)[0]
    with pytest.raises(ValueError, match="profile mismatch"):
        L((4, 8), 1)
    with pytest.raises(ValueError, match="profile mismatch"):
        layout(1, 2, 3)


def test_composed(trace: Any) -> None:
    swizzle = fx.static(fx.SwizzleType.get(3, 3, 3))
    composed = fx.make_composed_layout(swizzle, fx.make_ordered_layout((8, 64), (1, 0)))
    assert str(composed) == "ComposedLayout<S<3,3,3> o 0 o (8,64):(64,1)>"
    assert (swizzle.mask, swizzle.base, swizzle.shift) == (3, 3, 3)
    assert composed.shape.unpack() == (8, 64) and str(composed.outer) == "Layout<(8,64):(64,1)>"
    assert composed(1, 8).unpack() == 64
    with pytest.raises(TypeError):
        _ = composed.stride


def test_tiles(trace: Any) -> None:
    tile = fx.make_tile(8, None, (2, 3), L((2, 2), (1, 4)))
    assert str(tile) == "Tile<[8|*|[2|3]|(2,2):(1,4)]>" and tile.rank == 4
    eight, wildcard, nested, layout = tile.unpack()
    assert (eight, wildcard, nested) == (8, 0, (2, 3)) and str(layout) == "Layout<(2,2):(1,4)>"
    assert fx.make_tile(256).unpack() == 256
    # The older form: one list is the list of modes, one tuple a nested mode.
    assert fx.make_tile([8, 16]).rank == 2 and fx.make_tile((8, 16)).rank == 1
    with pytest.raises(ValueError):
        fx.make_tile(fx.Int32(4))


def test_errors(trace: Any) -> None:
    layout = L((4, 8), (8, 1))
    with pytest.raises(TypeError):
        fx.zipped_divide(layout, 4)
    with pytest.raises(ValueError, match="logical_divide"):
        fx.zipped_divide(layout, (None, 4))
    with pytest.raises(TypeError):
        fx.composition(layout, (4, 8))
    with pytest.raises(TypeError):
        fx.logical_product(layout, 4)
    with pytest.raises(ValueError, match="None"):
        fx.slice(layout, (1, 2))
    with pytest.raises(ValueError):
        fx.get_(layout, -1)
    with pytest.raises(ValueError):
        fx.take(layout, 1, 3)
    assert body(fx.slice(fx.make_int_tuple((1, (2, 3))), (None, (None, 0)))) == "(1,2)"


@pytest.mark.parametrize("name", ["idx2crd", "get_flat_coord", "get_1d_coord"])
def test_an_index_of_too_many_modes(trace: Any, name: str) -> None:
    """A ValueError at the user's line; the older keywords `loc` and `ip` are taken, as by every builder."""
    layout, builder = L((4, 8), (8, 1)), getattr(fx, name)
    with pytest.raises(ValueError, match="the index has rank 3 but the shape has rank 2") as error:
        builder((1, 2, 3), layout)
    assert "builder((1, 2, 3), layout)" in str(error.value)
    assert body(builder(5, layout, loc=None, ip=None)) == body(builder(5, layout))


def test_a_reason_names_its_operation_once(trace: Any) -> None:
    with pytest.raises(ValueError, match=r"^composition of \(3,8\):\(8,1\) by 4:2: stride 2 does not divide mode 0"):
        fx.composition(L((3, 8), (8, 1)), L(4, 2))
