"""TV layouts, matrix instructions, banks, GF(2) forms, pictures and the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given, strategies as st

import flydsl.layout as L
from flydsl.layout import (
    ComposedLayout,
    CopyAtom,
    Layout,
    LayoutError,
    Swizzle,
    Tile,
    TiledMma,
    bank_conflicts,
    find_swizzle,
    from_linear,
    is_bijective,
    mma_atom,
    mma_atoms,
    parse,
    to_html,
    to_latex,
    to_linear,
    to_svg,
    to_table,
)
from flydsl.layout.banks import PHASES
from flydsl.layout.cli import main


def test_mma_lookup_errors() -> None:
    with pytest.raises(LayoutError, match="unknown matrix instruction"):
        mma_atom("mfma_f32_16x16x17_f16")
    with pytest.raises(LayoutError, match="does not exist on gfx942"):
        mma_atom("mfma_f32_16x16x32_f16", "gfx942")
    with pytest.raises(LayoutError, match="known architectures"):
        mma_atoms("gfx803")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_tiled_mma_covers_the_tile(arch: str) -> None:
    distinct = {(i.shape_mnk, i.atom.a, i.atom.b, i.atom.c): i for i in mma_atoms(arch)}
    for info in distinct.values():
        if info.blocks > 1 or info.sparse:
            with pytest.raises(LayoutError, match="one dense block"):
                TiledMma(info.atom, parse("(2,2,1):(1,2,0)"))
            continue
        mma = TiledMma(info.atom, parse("(2,2,1):(1,2,0)"))
        m, n, k = mma.tile_size_mnk
        c = mma.tv_layout("c")
        assert c.size() == m * n and is_bijective(c)
        for operand, rows in (("a", m), ("b", n)):
            tv = mma.tv_layout(operand)
            assert len(L.image(tv)) == rows * k
            assert L.size(tv, 0) == 4 * info.atom.thr.size()
        out = Layout((2 * m, 2 * n), (2 * n, 1))
        seen: set[int] = set()
        for t in range(4 * info.atom.thr.size()):
            part, offset = mma.partition("c", out, t)
            mine = {part(i) + offset for i in range(part.size())}
            assert not mine & seen
            seen |= mine
        assert seen == set(range(4 * m * n))
        for operand, tile in (("a", (2 * m, 2 * k)), ("b", (2 * n, 2 * k)), ("c", (2 * m, 2 * n))):
            tv, threads = mma.tv_layout(operand, tile), 4 * info.atom.thr.size()
            places = [tv(i) for i in range(tv.size())]  # by thread, then by value
            for t in range(threads):
                part, offset = mma.partition(operand, Layout(tile), t)
                assert places[t::threads] == [part(v) + offset for v in range(part.size())]
        with pytest.raises(LayoutError, match="not a repetition"):
            mma.tv_layout("c", (m + 1, n))


def test_thread_values_of_a_tiled_copy_of_a_larger_tile() -> None:
    copy = L.make_tiled_copy_tv(CopyAtom.universal(128, 16), Layout((8, 8), (8, 1)), Layout((1, 8), (8, 1)))
    tv = copy.tv_layout("dst", (16, 128))
    for t in range(64):
        part, offset = copy.partition_dst(Layout((16, 128)), t)
        assert [tv((t, v)) for v in range(L.size(tv, 1))] == [part(v) + offset for v in range(part.size())]


def test_tiled_copy_covers_the_tensor() -> None:
    copy = L.make_tiled_copy_tv(CopyAtom.universal(128, 16), Layout((16, 8), (8, 1)), Layout((1, 8), (8, 1)))
    tensor = Layout((32, 128), (128, 1))
    seen: list[int] = []
    for t in range(128):
        part, offset = copy.partition_src(tensor, t)
        assert [part((i, 0, 0)) for i in range(8)] == list(range(8))
        seen += [part(i) + offset for i in range(part.size())]
    assert sorted(seen) == list(range(32 * 128))


def test_transposing_lds_read() -> None:
    src, dst = parse("(16,64):(64,1)"), parse("(16,(16,4)):(16,(1,256))")
    atom = CopyAtom.from_bits(Layout(16), src, 16, dst)
    assert (str(atom.src), str(atom.dst)) == ("(16,4):(4,1)", "(16,(1,4)):(1,(1,16))")
    assert all(atom.dst(t, v) == t + 16 * v and atom.src(t, v) == 4 * t + v for t in range(16) for v in range(4))


def test_bank_phases_cover_every_lane_once() -> None:
    for (arch, _, _), (_, phases) in PHASES.items():
        lanes = sorted(x for p in phases for x in p)
        assert lanes == list(range(64 if arch in ("gfx942", "gfx950") else 32))


def test_bank_conflicts() -> None:
    assert bank_conflicts(Layout(64, 8)).conflict_free
    r = bank_conflicts(Layout(64, 64))
    assert (r.degree, r.cycles, r.ideal) == (8, 64, 8)
    assert bank_conflicts(Layout(64, 0), bits=32).conflict_free  # broadcast
    assert bank_conflicts(Layout(64, 64), bits=32, arch="gfx950").degree > 1
    f = find_swizzle(Layout(64, 64))
    assert (str(f.swizzle), str(f.element_swizzle)) == ("S<3,4,3>", "S<3,3,3>")
    assert f.after.conflict_free and f.element_swizzle is not None
    again = bank_conflicts(ComposedLayout(f.element_swizzle, 0, Layout(64, 64)))
    assert again.conflict_free
    with pytest.raises(LayoutError, match="not aligned"):
        bank_conflicts(Layout(64, 1))
    with pytest.raises(LayoutError, match="no bank model"):
        bank_conflicts(Layout(64, 8), arch="gfx000")
    with pytest.raises(LayoutError, match="lanes"):
        bank_conflicts(Layout(32, 8))


def power_layout(strides: list[int]) -> Layout:
    return Layout((2,) * len(strides), tuple(1 << s for s in strides))


@given(st.permutations(range(6)), st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))
def test_linear_round_trip(bits: Any, mask: int, base: int, shift: int) -> None:
    x = ComposedLayout(Swizzle(mask, base, max(shift, mask)), 0, power_layout(bits))
    f = to_linear(x)
    assert [f(i) for i in range(64)] == [x(i) for i in range(64)]
    back = from_linear(f)
    assert [back(i) for i in range(64)] == [x(i) for i in range(64)]
    if max(f.bases) < 64:
        inv = f.inverse()
        assert [inv(f(i)) for i in range(64)] == list(range(64))


def test_linear_refusals() -> None:
    for text in ("6:1", "(4,4):(1,2)", "4:-1", "4:?", "S<1,0,1> o 1 o 4:1"):
        with pytest.raises(LayoutError):
            to_linear(parse(text))
    with pytest.raises(LayoutError):
        L.LinearLayout((1, 1)).inverse()


PICTURES: list[tuple[str, Any, dict[str, Any]]] = [
    ("layout", parse("(8,8):(8,1)"), {}),
    ("nested", parse("((2,4),(4,2)):((1,16),(2,8))"), {}),
    ("row", parse("8:3"), {}),
    ("wide", parse("(64,64):(64,1)"), {}),
    ("identity", L.make_identity_layout((4, 8)), {}),
    ("swizzled", parse("S<3,0,3> o 0 o (8,8):(8,1)"), {}),
    ("divide", parse("(8,8):(8,1)"), {"tiler": Tile(4, 2)}),
    ("uneven", parse("(10,8):(8,1)"), {"tiler": Tile(4, 2)}),
    ("by layout", parse("24:1"), {"tiler": parse("(2,3):(6,1)")}),
    ("tv", parse("((16,8),4):((32,1),8)"), {"tile": (8, 64)}),
    ("swizzle", Swizzle(3, 0, 3), {}),
    ("swizzle based", Swizzle(2, 4, 3), {}),
]


@pytest.mark.parametrize("x,options", [(p[1], p[2]) for p in PICTURES], ids=[p[0] for p in PICTURES])
def test_pictures(x: Any, options: dict[str, Any]) -> None:
    root = ET.fromstring(to_svg(x, **options))
    assert root.tag.endswith("svg") and float(root.get("width", "0")) > 0
    ET.fromstring(to_html(x, **options).replace("<br>", "<br/>"))
    assert "tikzpicture" in to_latex(x, **options)
    table = to_table(x, **options)
    assert len({len(line) for line in table.splitlines()[2:]}) == 1
    if not options:
        ET.fromstring(x._repr_svg_())


def test_pictures_of_atoms() -> None:
    info = mma_atom("mfma_f32_16x16x16_f16")
    mma = TiledMma(info.atom, parse("(2,1,1):(1,0,0)"))
    copy = L.make_tiled_copy_tv(CopyAtom.universal(64, 16), Layout((4, 4), (4, 1)), Layout((1, 4)))
    for x in (info, info.atom, mma, copy):
        ET.fromstring(to_svg(x))
    assert Layout(L.Dyn())._repr_svg_() is None
    assert Layout((512, 512))._repr_svg_() is None
    with pytest.raises(LayoutError):
        to_svg(3)


def run(capsys: Any, *argv: str) -> tuple[int, str, str]:
    status = main(list(argv))
    out = capsys.readouterr()
    return status, out.out.strip(), out.err.strip()


@pytest.mark.parametrize(
    "argv,expected",
    [
        (("compose", "(6,5):(5,1)", "10:3"), "(2,5):(15,1)"),
        (("compose", "(10,12):(12,1)", "[[5|2]|4]"), "(5,4):(12,1)"),
        (("divide", "24:1", "(2,3):(6,1)"), "((2,3),(2,2)):((6,1),(3,12))"),
        (("divide", "40:1", "8", "--kind", "zipped"), "(8,5):(1,8)"),
        (("product", "(3,2):(2,1)", "(4,5):(1,4)", "--kind", "raked"), "((4,3),(5,2)):((6,2),(24,1))"),
        (("product", "(3,2)", "[2|2]", "--kind", "zipped"), "((3,2),(2,2)):((1,3),(3,1))"),
        (("complement", "6:5", "70"), "(5,3):(1,30)"),
        (("inverse", "(6,4):(4,1)"), "(4,6):(6,1)"),
        (("inverse", "4:2", "--side", "left"), "(2,4):(0,1)"),
        (("coalesce", "(2,(1,6)):(1,(6,2))"), "12:1"),
        (("coalesce", "(2,(1,6)):(1,(6,2))", "--by", "(1,1)"), "(2,6):(1,2)"),
    ],
)
def test_cli(capsys: Any, tmp_path: Any, argv: tuple[str, ...], expected: str) -> None:
    assert run(capsys, *argv) == (0, expected, "")
    status, out, _ = run(capsys, *argv, "--json", "--svg", str(tmp_path / "x.svg"))
    assert status == 0 and json.loads(out)["text"] == expected
    ET.parse(tmp_path / "x.svg")


def test_cli_show_banks_mma(capsys: Any, tmp_path: Any) -> None:
    status, out, _ = run(capsys, "show", "(4,2):(2,1)", "--svg", str(tmp_path / "a.svg"))
    assert status == 0 and "│" in out
    assert json.loads(run(capsys, "show", "(4,2):(2,1)", "--json")[1])["injective"] is True
    facts = json.loads(run(capsys, "show", "((4,?{div=8}),2)", "--json")[1])
    assert facts["shape"] == [[4, "?{div=8}"], 2] and facts["stride"] == [[1, 4], "?{div=32}"] and facts["rank"] == 2
    assert facts["size"] == "?{div=64}" and "injective" not in facts
    assert run(capsys, "show", "(4,?)")[1] == "(4,?):(1,4)\nsize ?{div=4}\ncosize ?"
    big = json.loads(run(capsys, "complement", "1048576:3", "--json")[1])
    assert big["shape"] == 3 and big["injective"] is True
    assert "8-way conflict" in run(capsys, "banks", "64:64", "--fix")[1]
    assert json.loads(run(capsys, "banks", "64:64", "--fix", "--json")[1])["cycles_after"] == 8
    assert "((16,4),4):((1,64),16)" in run(capsys, "mma", "mfma_f32_16x16x16_f16", "--svg", str(tmp_path / "m.svg"))[1]
    assert len(run(capsys, "mma", "--list")[1].splitlines()) == len(mma_atoms())
    status, _, err = run(capsys, "compose", "(4,6):(1,10)", "8:3")
    assert status == 1 and "no layout answer" in err
    assert run(capsys, "show", "oops")[0] == 1


@pytest.mark.parametrize(
    "argv,status,message",
    [
        (("show", "((4,2"), 1, "parse error"),
        (("show", ""), 1, "parse error"),
        (("show", "[4|2]"), 1, "expected a layout"),
        (("show", "(4,?):(1,4)", "--svg", "x.svg"), 1, "static"),
        (("product", "(2,2)", "[3|2]", "--kind", "blocked"), 1, "must be a Layout"),
        (("show", "(4,2):1"), 1, "not congruent"),
        (("show", "(8,8):(8,1)", "--tv", "(4,4)x"), 1, "parse error"),
        (("compose", "8:1", "S<1,0,2>"), 1, "bare swizzle"),
        (("divide", "10:1", "4:1", "--strict"), 1, "evenly"),
        (("divide", "8:1", "0"), 1, "positive"),
        (("product", "(4,4):(1,2)", "2:1"), 1, "logical_product"),
        (("complement", "4:1", "0"), 1, "positive"),
        (("inverse", "(2,2):(1,1)", "--side", "left"), 1, "left_inverse"),
        (("coalesce", "8:1", "--by", "(1,1)"), 1, "profile"),
        (("banks", "64:64", "--arch", "gfx1"), 1, "no bank model"),
        (("banks", "64:64", "--element-bits", "0"), 1, "elements have"),
        (("banks", "*"), 1, "expected a layout"),
        (("mma", "nothing"), 1, "unknown matrix instruction"),
        (("mma", "--list", "--svg", "x.svg"), 1, "no picture"),
        (("show", "8:1", "--svg", "/nonexistent/folder/x.svg"), 1, "nonexistent"),
        (("divide", "8:1", "99999999999999999999:1", "--svg", "x.svg"), 1, "too large to draw"),
    ],
)
def test_cli_refuses(capsys: Any, argv: tuple[str, ...], status: int, message: str) -> None:
    got, out, err = run(capsys, *argv)
    assert (got, out) == (status, "") and err.startswith("flydsl-layout: ") and message in err


@pytest.mark.parametrize(
    "argv", [(), ("nothing",), ("show",), ("complement", "4:1", "x"), ("divide", "8:1", "2", "--kind", "q")]
)
def test_cli_usage(capsys: Any, argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as e:
        main(list(argv))
    assert e.value.code == 2 and "usage" in capsys.readouterr().err


def test_narrow_accesses_share_their_dwords() -> None:
    assert bank_conflicts(Layout(64, 1), bits=16, element_bits=16).conflict_free
    assert bank_conflicts(Layout(64, 64), bits=16, element_bits=16).degree == 32
    assert bank_conflicts(Layout(64, 1), bits=8, element_bits=8, arch="gfx950").cycles == 1
    with pytest.raises(LayoutError, match="no bank model"):
        bank_conflicts(Layout(64, 1), bits=24)


def test_pictures_of_products() -> None:
    a, t = Layout((2, 3), (3, 1)), Layout((3, 4), (4, 1))
    for kind in ("logical", "zipped", "tiled", "flat", "blocked", "raked"):
        svg = to_svg(getattr(L, f"{kind}_product")(a, t), product_of=(a, t))
        ET.fromstring(svg)
        assert "copy 11" in svg and "<path" in svg
    with pytest.raises(LayoutError, match="not a product"):
        to_svg(Layout((6, 12)), product_of=(a, Layout(12, 2)))
    table = to_table(L.blocked_product(a, t), product_of=(a, t))
    assert table.splitlines()[5].count("─") > 10


@pytest.mark.parametrize("name", ["mfma_f32_4x4x4_16b_f16", "smfmac_f32_16x16x32_f16", "wmma_f32_16x16x4_f32"])
def test_pictures_show_every_value_of_an_instruction(name: str) -> None:
    info = mma_atom(name)
    svg = to_svg(info)
    ET.fromstring(svg)
    lanes = info.atom.thr.size()
    for operand in "abc":
        values = L.size(info.atom.operand(operand)[1])
        assert svg.count(f">V{values - 1}<") >= lanes
    assert ">-<" not in svg, "no empty cells"


def test_import_is_quick_and_standard_library_only() -> None:
    code = (
        "import sys, time; t=time.perf_counter(); import flydsl.layout; d=time.perf_counter()-t;"
        "assert d < 0.5, d; bad=[m for m in ('numpy','torch','hypothesis') if m in sys.modules]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_labels_have_contrast() -> None:
    """At least 4 to 1 (WCAG 2.1 asks 4.5 of body text, 3 of large text) on every colour, with the better ink."""
    from flydsl.layout.svg import category_colour, ink, luminance, ramp_colour

    for fill in [*map(category_colour, range(32)), *(ramp_colour(k / 100) for k in range(101))]:
        contrast = {c: _contrast(luminance(c), luminance(fill)) for c in ("#ffffff", "#1a1a1a")}
        assert contrast[ink(fill)] == max(contrast.values()) > 4, fill


def _contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_a_reader_that_leaves() -> None:
    """`... | head` ends without a word."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "flydsl.layout", "show", "(4,8):(8,1)"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
