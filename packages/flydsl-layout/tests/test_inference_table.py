"""Every verified inference fact about int tuples, layouts and tiles."""

from __future__ import annotations

from typing import Any

import pytest
from inference_rows import ROUND_TRIPS, ROWS, TILE_GUIDE

import flydsl.layout as L
from flydsl.layout import (
    ComposedLayout,
    CopyAtom,
    Dyn,
    LayoutError,
    MmaAtom,
    Tile,
    TiledCopy,
    TiledMma,
    parse,
    parse_int_tuple,
    parse_tile,
    to_fly_type,
    to_text,
)


def leaves_of(x: Any, dynamic_only: bool) -> str:
    from flydsl.layout import inttuple, scalar

    out = [
        f"i{max(32, scalar.width_of(e.value if isinstance(e, L.Basis) else e))}"
        for e in inttuple.leaves(x)
        if not dynamic_only or not scalar.is_static(e)
    ]
    return "(" + ", ".join(out) + ")"


def scalar_type(x: Any) -> str:
    from flydsl.layout import inttuple, scalar

    return f"i{scalar.width_of(inttuple.unwrap(x))}"


OPS: dict[str, Any] = {
    "get_scalar": scalar_type,
    "get_leaves": lambda x, dynamicOnly=False: leaves_of(x, dynamicOnly),
    "get": lambda x, mode: L.get(x, *mode),
    "select": lambda x, indices: L.select(x, *indices),
    "slice": L.slice_,
    "recast_layout": lambda x, old_type_bits, new_type_bits: L.recast_layout(x, old_type_bits, new_type_bits),
    "make_composed_layout": lambda inner, offset, outer: L.make_composed_layout(inner, offset, outer),
}


def show(x: Any) -> str:
    if isinstance(x, str):
        return x
    return to_text(x) if isinstance(x, tuple) or x is None else str(x)


def run(op: str, operands: tuple[str, ...], attrs: dict[str, Any]) -> Any:
    base = None
    args: list[Any] = []
    for o in operands:
        if o.startswith("@"):
            b, o = o[1:].split(" @ ")
            base = parse_int_tuple(b)
        args.append(parse(o))
    attrs = {k: v for k, v in attrs.items() if k != "dtype"}
    if op == "make_fragment_like":
        return L.make_fragment_layout_like(args[0])
    if op == "slice" and base is not None:
        offset = L.crd2idx(args[1], args[0])
        return f"@{to_text(L.int_tuple_add(base, offset))} @ {L.slice_(args[0], args[1])}"
    result = (OPS.get(op) or getattr(L, op))(*args, **attrs)
    return f"@{to_text(base)} @ {result}" if base is not None else result


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r[0]}-{r[1]}")
def test_inference(row: Any) -> None:
    number, op, operands, attrs, expected = row
    if number == 56:
        expected = "(4,6):(1,4)"
        operands = (operands[0].split(" @ ")[1],)
    got = show(run(op, operands, attrs))
    want = expected if expected[:1] in "@i" or "i32" in expected or "(i" in expected else show(parse(expected))
    assert got == want


@pytest.mark.parametrize("text,printed", ROUND_TRIPS)
def test_round_trip(text: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(LayoutError):
            parse(text)
        return
    value = parse(text)
    assert to_fly_type(value) == printed
    assert parse(printed) == value


@pytest.mark.parametrize("layout,tile,expected", TILE_GUIDE)
def test_tile_is_the_guide(layout: str, tile: str, expected: str) -> None:
    assert str(L.zipped_divide(parse(layout), parse_tile(tile))) == expected


TC1 = TiledCopy(CopyAtom.universal(64, 16), parse("((4,6),4):((24,1),6)"), Tile(6, 16))
TC2 = TiledCopy(CopyAtom.universal(128, 16), parse("((8,4),(8,2)):((64,1),(8,4))"), Tile(8, 64))
TM1 = TiledMma(MmaAtom.universal_fma(), parse("(4,2,1):(2,1,0)"))
TM2 = TiledMma(MmaAtom.universal_fma(), parse("(4,2,1):(2,1,0)"), parse_tile("[(4,2):(2,1)|6|*]"))


@pytest.mark.parametrize(
    "copy,layout,expected,offset",
    [
        (TC1, "(12,48):(48,1)", "((4,1),2,3):((1,0),288,16)", "?{div=4}"),
        (TC1, "(?,48):(?{i64 div=8},1)", "((4,1),?,3):((1,0),?{i64 div=48},16)", "?{i64 div=4}"),
        (TC1, "(12,48):(1E0,1E1)", "((4,1),2,3):((1E1,0),6E0,16E1)", "(?,?{div=4})"),
        (TC1, "(12,48,3):(48,1,576)", "((4,1),2,3,3):((1,0),288,16,576)", "?{div=4}"),
        (TC2, "(16,64):(64,1)", "((8,2),2,1):((1,256),512,0)", "?{div=8}"),
    ],
)
def test_tiled_copy_partition(copy: TiledCopy, layout: str, expected: str, offset: str) -> None:
    for side in ("src", "dst"):
        part, off = copy.partition(parse(layout), Dyn(), side)
        assert str(part) == expected
        assert to_text(off) == offset


def test_tiled_copy_partition_composed() -> None:
    part, off = TC1.partition_src(parse("S<2,3,3> o 0 o (12,64):(64,1)"), Dyn())
    assert isinstance(part, ComposedLayout)
    assert str(part) == "S<2,3,3> o ?{div=4} o ((4,1),2,4):((1,0),384,16)"
    assert off == 0


def test_tiled_copy_retile_and_tv() -> None:
    assert str(TC1.retile(parse("(2,4,3):(1,2,8)"))) == "(((2,2),1),4,2):(((1,8),0),2,16)"
    assert str(TC1.tv_layout()) == "((4,6),(4,1)):((24,1),(6,0))"
    assert str(CopyAtom.universal(64, 16).src) == "(1,4):(1,1)"


def test_tiled_mma() -> None:
    part, off = TM1.partition("b", parse("(8,6):(6,1)"), Dyn())
    assert (str(part), to_text(off)) == ("(1,4,6):(0,12,1)", "?{div=6}")
    part, _ = TM2.partition("c", parse("(16,12):(12,1)"), Dyn())
    assert str(part) == "(1,(2,2),6):(0,(12,96),2)"
    coordinates = parse("(16,12):(1E0,1E1)")
    part, _ = TM2.partition("c", coordinates, Dyn())
    assert str(part) == "(1,(2,2),6):(0,(1E0,8E0),2E1)"
    assert to_text(L.crd2idx(Dyn(), TM2.view("c", coordinates)[0])) == "(?{div=2},?)"
    assert TM1.partition_shape("a", (8, 6)) == (1, 2, 6)
    assert str(TM1.make_fragment("b", parse("(8,6):(6,1)"))) == "(1,4,6):(0,6,1)"
    assert str(TM1.make_fragment("b", parse("(8,6):(6,1)"), 3)) == "(1,4,6,3):(0,6,1,24)"
    assert str(TM1.thr_layout_vmnk) == "(1,4,2,1):(0,2,1,0)"
    assert TM1.tile_size_mnk == (4, 2, 1)
    assert str(TM1.tv_layout("a")) == "((2,4),(1,(1,1))):((0,1),(0,(0,0)))"
    assert str(TM1.tv_layout("b")) == "((2,4),(1,(1,1))):((1,0),(0,(0,0)))"
    assert str(TM1.tv_layout("c")) == "((2,4),(1,(1,1))):((4,1),(0,(0,0)))"


def test_tiled_mma_of_a_matrix_instruction() -> None:
    mma = TiledMma(L.mma_atom("mfma_f32_16x16x4_f32").atom, parse("(2,2,1):(1,2,0)"))
    a, c = parse("(64,8):(8,1)"), parse("(64,64):(64,1)")
    assert str(mma.partition("a", a, 0)[0]) == "(1,2,2):(0,256,4)"
    assert str(mma.make_fragment("a", a)) == "(1,2,2):(0,2,1)"
    assert str(mma.make_fragment("a", a, 2)) == "(1,2,2,2):(0,2,1,4)"
    assert str(mma.partition("c", c, 0)[0]) == "((4,1),2,2):((64,0),2048,32)"
    assert str(mma.make_fragment("c", c)) == "((4,1),2,2):((1,0),8,4)"
    copy = L.make_tiled_copy_for("a", CopyAtom.universal(32, 32), mma)
    assert str(copy.partition_src(a, 0)[0]) == "((1,1),2,2):((0,0),256,4)"
    assert str(copy.retile(mma.make_fragment("a", a))) == "((1,1),2,2):((0,0),2,1)"


def lay(shape: Any, stride: Any = None) -> L.Layout:
    return L.Layout(shape, stride)


_A = lay((9, (4, 8)), (59, (13, 1)))
_T = Tile(lay(3, 3), lay((2, 4), (1, 8)))


@pytest.mark.parametrize(
    "got,expected",
    [
        (L.composition(lay((6, 2), (8, 2)), lay((4, 3), (3, 1))), "((2,2),3):((24,2),8)"),
        (L.composition(lay(20, 2), lay((5, 4), (4, 1))), "(5,4):(8,2)"),
        (L.composition(lay((8, 16), (1, 8)), (4, 8)), "(4,8):(1,8)"),
        (L.complement(lay((2, 2), (1, 6)), 24), "(3,2):(2,12)"),
        (L.complement(lay((2, 2), (1, 6))), "3:2"),
        (L.right_inverse(lay((4, 8), (8, 1))), "(8,4):(4,1)"),
        (L.left_inverse(lay(4, 2)), "(2,4):(0,1)"),
        (L.coalesce(lay((2, (1, 6)), (1, (6, 2)))), "12:1"),
        (L.coalesce(lay((2, (1, 6)), (1, (6, 2))), (1, 1)), "(2,6):(1,2)"),
        (L.logical_divide(lay((4, 2, 3), (2, 1, 8)), lay(4, 2)), "((2,2),(2,3)):((4,1),(2,8))"),
        (L.logical_divide(_A, _T), "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"),
        (L.zipped_divide(_A, _T), "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"),
        (L.tiled_divide(_A, _T), "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"),
        (L.flat_divide(_A, _T), "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"),
        (L.logical_product(lay((2, 2), (4, 1)), lay(6, 1)), "((2,2),(2,3)):((4,1),(2,8))"),
        (L.tiled_product(lay((2, 2), (4, 1)), lay((2, 3), (1, 2))), "((2,2),2,3):((4,1),2,8)"),
        (L.flat_product(lay((2, 2), (4, 1)), lay((2, 3), (1, 2))), "(2,2,2,3):(4,1,2,8)"),
        (L.blocked_product(lay((2, 5), (5, 1)), lay((3, 4), (1, 3))), "((2,3),(5,4)):((5,10),(1,30))"),
        (L.raked_product(lay((2, 5), (5, 1)), lay((3, 4), (1, 3))), "((3,2),(4,5)):((10,5),(30,1))"),
        (L.recast_layout(lay((8, 16), (1, 8)), 16, 32), "(4,16):(1,4)"),
        (L.recast_layout(lay((8, 16), (1, 8)), 32, 8), "(32,16):(1,32)"),
        (L.tile_to_shape(lay((4, 8), (8, 1)), (16, 16), (0, 1)), "((4,4),(8,2)):((8,32),(1,128))"),
        (L.make_ordered_layout((4, 8, 2), (1, 0, 2)), "(4,8,2):(8,1,32)"),
        (L.make_ordered_layout((4, (2, 8)), (0, (2, 1))), "(4,(2,8)):(1,(32,4))"),
        (L.make_layout_like(lay((4, 8, 2), (8, 1, 0))), "(4,8,2):(8,1,1)"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_reference_results(got: Any, expected: str) -> None:
    assert str(got) == expected
