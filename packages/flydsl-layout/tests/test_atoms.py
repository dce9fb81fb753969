"""Matrix instructions against the lane and register formulas of the manuals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from brute import linear, size

from flydsl.layout import (
    CopyAtom,
    Layout,
    LayoutError,
    copy_atom,
    copy_atoms,
    is_bijective,
    mma_atom,
    mma_atoms,
)

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201", "gfx1250", "gfx1100")


def at(layout: Layout, lane: int, slot: int) -> int:
    return int(layout((lane, slot)))


@cache
def counts(layout: Layout) -> Counter[int]:
    """How often each place of a tile is taken; many instructions have one layout."""
    return Counter(linear(layout))


@pytest.mark.parametrize("arch", ARCHS)
def test_layouts_cover_their_tiles(arch: str) -> None:
    for info in mma_atoms(arch):
        m, n, k = info.shape_mnk
        blocks, half = info.blocks, 2 if info.sparse else 1
        copies = 2 if arch == "gfx1100" else 1
        for layout, points, times in (
            (info.atom.a, m * k // half, copies), (info.hardware_a, m * k // half, copies),
            (info.atom.b, n * k, copies), (info.hardware_b, n * k, copies),
            (info.atom.c, m * n, 1), (info.hardware_c, m * n, 1),
        ):
            assert counts(layout) == dict.fromkeys(range(points * blocks), times), info.name
            assert size(layout.shape[0]) == info.atom.thr.size(), info.name
        if info.scale is not None:
            rows = max(m, n) if arch == "gfx1250" else m
            assert set(counts(info.scale)) == set(range(rows * (k // 16 if "scale16" in info.name else k // 32)))


def test_counts() -> None:
    """So many instructions each architecture has (formats of f8f6f4 counted one by one)."""
    assert {a: len(mma_atoms(a)) for a in ARCHS} == {
        "gfx90a": 22, "gfx942": 46, "gfx950": 164, "gfx1201": 22, "gfx1250": 115, "gfx1100": 4,
    }
    assert len({(i.name, a) for i in mma_atoms() for a in i.archs}) == sum(len(i.archs) for i in mma_atoms())


def test_mfma_operands() -> None:
    """lane = b*dim + (k/epg)*dim*blocks + i, slot = k % epg, for every dense instruction but the f8f6f4 ones."""
    for info in mma_atoms():
        if not info.name.startswith("mfma") or info.name.endswith(("FN", "M2")) or info.scale or info.shape_mnk[2] > 64:
            continue
        m, n, k = info.shape_mnk
        for layout, dim in ((info.hardware_a, m), (info.hardware_b, n)):
            per_lane = k // (64 // (dim * info.blocks))
            for b in range(info.blocks):
                for kk in range(k):
                    for i in range(dim):
                        lane = b * dim + kk // per_lane * dim * info.blocks + i
                        assert at(layout, lane, kk % per_lane) == i + dim * kk + dim * k * b, info.name


def test_mfma_accumulators() -> None:
    """reg = b*(M*N/64) + (i/(4*mr))*4 + i%4, lane = (b % bpr)*N + ((i/4) % mr)*bpr*N + j."""
    for info in mma_atoms():
        if not info.name.startswith(("mfma", "smfmac")) or info.acc_type == "f64":
            continue
        m, n, _ = info.shape_mnk
        mr, bpr = max(64 // n // max(1, 64 // (m * n // 4)), 1), -(-64 // (m * n // 4))
        for b in range(info.blocks):
            for j in range(n):
                for i in range(m):
                    reg = b // bpr * (m * n * bpr // 64) + i // (4 * mr) * 4 + i % 4
                    lane = b % bpr * n + i // 4 % mr * bpr * n + j
                    assert at(info.atom.c, lane, reg) == i + m * j + m * n * b, info.name


TABLE: dict[str, tuple[str, Callable[[int, int], tuple[int, ...]]]] = {
    # instruction: operand, (lane, slot) -> (row, column[, block])
    "mfma_f32_4x4x4_16b_f16": ("c", lambda lane, r: (r, lane % 4, lane // 4)),
    "mfma_f32_16x16x4_4b_f16": ("c", lambda lane, r: (4 * (lane // 16) + r % 4, lane % 16, r // 4)),
    "mfma_f32_32x32x4_2b_f16": (
        "c", lambda lane, r: (8 * (r % 16 // 4) + 4 * (lane // 32) + r % 4, lane % 32, r // 16),
    ),
    "mfma_f64_16x16x4_f64": ("c", lambda lane, r: (4 * r + lane // 16, lane % 16)),
    "mfma_f64_4x4x4_4b_f64": ("c", lambda lane, r: (lane // 16, lane % 4, lane % 16 // 4)),
    "mfma_f32_16x16x8_xf32": ("a", lambda lane, s: (lane % 16, 2 * (lane // 16) + s)),
    "smfmac_f32_16x16x32_f16": ("a", lambda lane, s: (lane % 16, 4 * (lane // 16) + s)),
    "smfmac_i32_32x32x32_i8": ("b", lambda lane, s: (lane % 32, 16 * (lane // 32) + s)),
    "wmma_f32_16x16x16_f16": ("a", lambda lane, s: (lane % 16, 8 * (lane // 16) + s)),
    "wmma_i32_16x16x32_i4": ("b", lambda lane, s: (lane % 16, 16 * (lane // 16) + s)),
    "wmma_f16_16x16x16_f16": ("c", lambda lane, r: (8 * (lane // 16) + r, lane % 16)),
    "swmmac_i32_16x16x64_i4": ("a", lambda lane, s: (lane % 16, 16 * (lane // 16) + s)),
    "wmma_f32_16x16x32_f16": ("a", lambda lane, s: (lane % 16, 16 * (s // 8) + 8 * (lane // 16) + s % 8)),
    "wmma_f32_16x16x128_fp8_bf8": ("b", lambda lane, s: (lane % 16, 32 * (s // 16) + 16 * (lane // 16) + s % 16)),
    "wmma_f32_16x16x4_f32": ("a", lambda lane, s: (lane % 16, 2 * (lane // 16) + s)),
    "wmma_f32_32x16x128_f4E2M1FN": (
        "a", lambda lane, s: (lane % 16 + 16 * (s // 64), 64 * (s % 64 // 32) + 32 * (lane // 16) + s % 32),
    ),
    "wmma_scale_f32_16x16x128_f6E2M3FN": (
        "a", lambda lane, s: (lane % 16, 64 * (s // 32) + 32 * (lane // 16) + s % 32),
    ),
    "mfma_scale_f32_16x16x128_f8E4M3FN_f4E2M1FN": (
        "a", lambda lane, s: (lane % 16, 64 * (s // 16) + 16 * (lane // 16) + s % 16),
    ),
    "mfma_scale_f32_32x32x64_f4E2M1FN": ("b", lambda lane, s: (lane % 32, 32 * (lane // 32) + s)),
}


@pytest.mark.parametrize("name", TABLE)
def test_formulas(name: str) -> None:
    info = mma_atom(name, "gfx1201" if "x16x16_" in name and "wmma" in name else None)
    operand, formula = TABLE[name]
    layout = getattr(info, f"hardware_{operand}")
    m, n, k = info.shape_mnk
    rows, columns = {"a": (m, k // (2 if info.sparse else 1)), "b": (n, k), "c": (m, n)}[operand]
    for lane in range(info.atom.thr.size()):
        for slot in range(size(layout.shape[1])):
            i, j, *block = formula(lane, slot)
            assert at(layout, lane, slot) == i + rows * j + rows * columns * sum(block), (lane, slot)


@pytest.mark.parametrize("name", [i.name for i in mma_atoms() if i.sparse])
def test_sparse_pairs_face_their_quads(name: str) -> None:
    """A slots 2q, 2q+1 of a lane multiply B slots 4q...4q+3 of the same lane group: the same quad of k."""
    info = mma_atom(name)
    m, n, _ = info.shape_mnk
    for lane in range(info.atom.thr.size()):
        for slot in range(size(info.hardware_a.shape[1])):
            quad_a = at(info.hardware_a, lane, slot) // m // 2
            quad_b = {at(info.hardware_b, lane, 4 * (slot // 2) + e) // n // 4 for e in range(4)}
            assert quad_b == {quad_a}, (lane, slot)


@pytest.mark.parametrize(
    "spelling,name",
    [
        ("v_mfma_f32_16x16x16_f16", "mfma_f32_16x16x16_f16"),
        ("llvm.amdgcn.mfma.f32.16x16x16f16", "mfma_f32_16x16x16_f16"),
        ("mfma_f32_32x32x8bf16_1k", "mfma_f32_32x32x8_bf16"),
        ("rocdl.mfma.i32.16x16x64.i8", "mfma_i32_16x16x64_i8"),
        ("v_mfma_f32_4x4x4_16B_f16", "mfma_f32_4x4x4_16b_f16"),
        ("v_wmma_i32_16x16x16_iu8", "wmma_i32_16x16x16_i8"),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", "mfma_scale_f32_16x16x128_f8E4M3FN"),
        ("v_wmma_scale16_f32_32x16x128_f4", "wmma_scale16_f32_32x16x128_f4E2M1FN"),
        ("v_smfmac_f32_32x32x64_bf8_fp8", "smfmac_f32_32x32x64_bf8_fp8"),
        ("v_swmmac_bf16f32_16x16x64_bf16", "swmmac_bf16f32_16x16x64_bf16"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert mma_atom(spelling).name == name


def test_same_name_on_two_architectures() -> None:
    """16x16x16 f16 exists on RDNA3 and RDNA4 with different layouts."""
    old, new = mma_atom("wmma_f32_16x16x16_f16", "gfx1100"), mma_atom("wmma_f32_16x16x16_f16", "gfx1201")
    assert not is_bijective(old.atom.a) and is_bijective(new.atom.a)
    for bad in ("", "x", "mfma", "mfma_f32_16x16x16_f16 ", None):
        if bad is None:
            with pytest.raises(LayoutError):
                mma_atom(bad)  # type: ignore[arg-type]
        elif bad.strip() != "mfma_f32_16x16x16_f16":
            with pytest.raises(LayoutError):
                mma_atom(bad)
    assert {i.archs: i for i in mma_atoms("gfx1100")}


@pytest.mark.parametrize(
    "text,name,arch",
    [
        ("!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>", "mfma_f32_16x16x16_f16", "gfx942"),
        ("!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (bf16, bf16) -> f32>>", "mfma_f32_32x32x8_bf16", "gfx942"),
        ("cdna3.mfma<16x16x32,(f8E4M3FNUZ,f8E5M2FNUZ)->f32>", "mfma_f32_16x16x32_fp8_bf8", "gfx942"),
        ("!fly_rocdl.cdna3.mfma<32x32x16, (i8, i8) -> i32>", "mfma_i32_32x32x16_i8", "gfx942"),
        (
            "!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0>",
            "mfma_scale_f32_16x16x128_f8E4M3FN_f4E2M1FN",
            "gfx950",
        ),
        (
            "!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>",
            "wmma_f32_16x16x16_f16",
            "gfx1100",
        ),
        ("!fly_rocdl.gfx120x.wmma<16x16x16, (f16, f16) -> f32, signA = false>", "wmma_f32_16x16x16_f16", "gfx1201"),
        ("!fly_rocdl.gfx1250.wmma<16x16x32, (bf16, bf16) -> f32>", "wmma_f32_16x16x32_bf16", "gfx1250"),
    ],
)
def test_op_types_name_instructions(text: str, name: str, arch: str) -> None:
    info = mma_atom(text)
    assert info.name == name and arch in info.archs and mma_atom(text, arch) is info is mma_atom(name, arch)


def test_names_of_several_architectures() -> None:
    """gfx11 repeats the values of A and B in both halves of a wave; without an architecture the others come first."""
    assert "gfx1201" in mma_atom("wmma_f32_16x16x16_f16").archs
    assert "gfx1100" in mma_atom("wmma_f32_16x16x16_f16", "gfx1100").archs
    with pytest.raises(LayoutError, match="unknown matrix instruction"):
        mma_atom("!fly_rocdl.cdna3.mfma<16x16x17, (f16, f16) -> f32>")
    with pytest.raises(LayoutError, match="does not exist on gfx1250"):
        mma_atom("!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>", "gfx1250")


@pytest.mark.parametrize("granule,bits", [(4, 64), (6, 96), (8, 64), (16, 64)])
def test_transposing_reads(granule: int, bits: int) -> None:
    """Lane t of 16 addresses one row of consecutive elements and receives elements t, t + 16, t + 32, ..."""
    info = copy_atom(f"cdna4.lds_read_trans<trans = {granule}b, {bits}>")
    assert info is copy_atom(f"ds_read_b{bits}_tr_b{granule}") is copy_atom(f"ds.read.tr{granule}.b{bits}", "gfx950")
    atom, n = info.atom(granule), bits // granule
    for lane in range(16):
        for k in range(n):
            assert atom.src(lane, k) == lane * n + k
            assert atom.dst(lane, k) == lane + 16 * k
    assert is_bijective(atom.src) and is_bijective(atom.dst) and atom.thr == Layout(16)
    with pytest.raises(LayoutError, match="does not exist on gfx942"):
        copy_atom(info.name, "gfx942")


@pytest.mark.parametrize("granule,bits", [(8, 64), (16, 128)])
def test_exchanging_reads(granule: int, bits: int) -> None:
    """Each lane addresses 8 elements. With 16 bits lane t of 8 receives element t of each; with 8 bits the lanes t and
    t + 8 of 16 those of lanes 0-3 and 8-11, and of lanes 4-7 and 12-15."""
    info = copy_atom(f"!fly_rocdl.gfx1250.lds_read_trans<trans = {granule}b, {bits}>")
    assert info is copy_atom(f"ds_load_tr{granule}_b{bits}") is copy_atom(f"ds.load.tr{granule}.b{bits}", "gfx1250")
    atom, lanes = info.atom(granule), 8 if granule == 16 else 16
    for lane in range(lanes):
        for k in range(8):
            source = k if granule == 16 else 8 * (k // 4) + 4 * (lane // 8) + k % 4
            assert atom.src(lane, k) == lane * 8 + k
            assert atom.dst(lane, k) == source * 8 + lane % 8
    assert is_bijective(atom.src) and is_bijective(atom.dst) and atom.thr == Layout(lanes)
    with pytest.raises(LayoutError, match="does not exist on gfx950"):
        copy_atom(info.name, "gfx950")


@pytest.mark.parametrize(
    "text,bits",
    [
        ("universal_copy<128>", 128),
        ("!fly.universal_copy<48>", 48),
        ("!fly.copy_atom<!fly.universal_copy<64>, 16>", 64),
        ("!fly_rocdl.cdna3.buffer_copy<64, cache = 2>", 64),
        ("cdna4.global_load_async_lds<96>", 96),
        ("!fly.universal_atomic<add, f32>", 32),
        ('!fly.universal_atomic<max, bf16, "agent">', 16),
        ("!fly_rocdl.cdna3.buffer_atomic<add, vector<2xf16>>", 32),
    ],
)
def test_contiguous_copies(text: str, bits: int) -> None:
    info = copy_atom(text)
    assert info.bits == bits and info.atom(16) == CopyAtom.universal(bits, 16)


def test_copy_lookup() -> None:
    assert {i.name for i in copy_atoms()} > {i.name for i in copy_atoms("gfx942")} > {"cdna3.buffer_copy_lds<32>"}
    assert len(copy_atoms("gfx950")) == len(copy_atoms()) - 2  # the transposing reads of gfx1250
    for text in ("universal_copy<7>", "cdna3.buffer_copy<96>", "lds", "cdna4.lds_read_trans<5b, 64>"):
        with pytest.raises(LayoutError, match="unknown copy instruction"):
            copy_atom(text)
    for bits in (3, 0, 128):
        with pytest.raises(LayoutError, match="no whole number"):
            copy_atom("universal_copy<64>").atom(bits)
    with pytest.raises(LayoutError, match="known architectures"):
        copy_atoms("gfx803")
    with pytest.raises(LayoutError, match="is text"):
        copy_atom(128)  # type: ignore[arg-type]


def test_scaled_atoms_of_two_orders_are_those_of_the_hardware() -> None:
    """Where A and B order K differently, layouts of one order would pair elements of different k."""
    square = [i for i in mma_atoms() if i.scale is not None and i.shape_mnk[0] == i.shape_mnk[1]]
    mixed = [i for i in square if i.hardware_a != i.hardware_b]
    assert len(mixed) == 2 * 12 + 2 * 12  # 8-bit formats by narrower ones, of two shapes and of two scales
    for info in mixed:
        assert (info.atom.a, info.atom.b) == (info.hardware_a, info.hardware_b), info.name
