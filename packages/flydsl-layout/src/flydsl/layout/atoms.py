"""Thread-value layouts of the matrix instructions of gfx90a, gfx942, gfx950, gfx11, gfx1200/1201 and gfx1250, as data.

Every entry gives column-major TV layouts: ``a`` into (M,K), ``b`` into (N,K), ``c`` into (M,N).  Instructions of
several blocks have the block as a last, slowest mode: (M,K,blocks) and so on.  Sparse instructions (SMFMAC, SWMMAC)
hold 2 of 4 consecutive k of A, so their ``a`` maps into (M,K/2).

``a``/``b``/``c`` are what the ``fly_rocdl`` atoms declare; where the hardware orders K differently inside an
instruction (which is invisible as long as A and B go through the same layout) ``hardware_a``/``hardware_b`` give the
true order, and ``hardware_c`` that of C.  Sources: AMD matrix instruction calculator and the CDNA3, CDNA4, RDNA3 and
RDNA4 ISA manuals; gfx1250 from LLVM and public simulators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product as pairs

from .core import Layout
from .errors import LayoutError
from .tv import MmaAtom
from .values import picture

WAVE64 = Layout(64, 1)
WAVE32 = Layout(32, 1)


@dataclass(frozen=True)
class MmaAtomInfo:
    """One matrix instruction: its atom, the architectures that have it, element types and the order in hardware.

    ``blocks`` counts the independent products of one instruction; ``sparse`` marks 4:2 structured sparsity of A.
    ``scale`` maps (lane, byte) to the (row, block of 32 k) whose scale the lane supplies, for A and B alike.
    """

    name: str
    archs: tuple[str, ...]
    a_type: str
    b_type: str
    acc_type: str
    atom: MmaAtom
    hardware_a: Layout
    hardware_b: Layout
    hardware_c: Layout
    blocks: int = 1
    sparse: bool = False
    scale: Layout | None = None

    def _repr_svg_(self) -> str | None:
        return picture(self)

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extents M, N and K of one instruction."""
        return self.atom.shape_mnk


CDNA = ("gfx90a", "gfx942", "gfx950")
CDNA2 = ("gfx90a",)
CDNA3 = ("gfx942",)
CDNA34 = ("gfx942", "gfx950")
CDNA4 = ("gfx950",)
RDNA3 = ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151")
RDNA4 = ("gfx1200", "gfx1201")
GFX1250 = ("gfx1250",)

FLOATS8 = ("fp8", "bf8")
#: Element types of the f8f6f4 instructions and their format codes, in this order.
MX_TYPES = ("f8E4M3FN", "f8E5M2", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN")


def _info(
    name: str, archs: tuple[str, ...], types: tuple[str, str, str], mnk: tuple[int, int, int], thr: Layout,
    a: Layout, b: Layout, c: Layout, hardware: tuple[Layout | None, Layout | None, Layout | None] = (None, None, None),
    *, blocks: int = 1, sparse: bool = False, scale: Layout | None = None,
) -> MmaAtomInfo:
    atom = MmaAtom(mnk, thr, a, b, c, name)
    ha, hb, hc = hardware
    return MmaAtomInfo(name, archs, *types, atom, ha or a, hb or b, hc or c, blocks, sparse, scale)


# --------------------------------------------------------------------------------------------------------------------
# CDNA: MFMA and SMFMAC, wave64

# (M, K, blocks, A types, accumulator, architectures); every A type goes with itself, fp8 and bf8 with each other
_F16 = ("f16", "bf16")
_MFMA: tuple[tuple[int, int, int, tuple[str, ...], str, tuple[str, ...]], ...] = (
    (32, 1, 2, ("f32",), "f32", CDNA),
    (16, 1, 4, ("f32",), "f32", CDNA),
    (4, 1, 16, ("f32",), "f32", CDNA),
    (32, 2, 1, ("f32",), "f32", CDNA),
    (16, 4, 1, ("f32",), "f32", CDNA),
    (16, 8, 1, ("xf32",), "f32", CDNA3),
    (32, 4, 1, ("xf32",), "f32", CDNA3),
    (32, 4, 2, _F16, "f32", CDNA),
    (16, 4, 4, _F16, "f32", CDNA),
    (4, 4, 16, _F16, "f32", CDNA),
    (32, 8, 1, _F16, "f32", CDNA),
    (16, 16, 1, _F16, "f32", CDNA),
    (32, 16, 1, _F16, "f32", CDNA4),
    (16, 32, 1, _F16, "f32", CDNA4),
    (32, 4, 2, ("i8",), "i32", CDNA),
    (16, 4, 4, ("i8",), "i32", CDNA),
    (4, 4, 16, ("i8",), "i32", CDNA),
    (32, 8, 1, ("i8",), "i32", CDNA2),
    (16, 16, 1, ("i8",), "i32", CDNA2),
    (32, 16, 1, ("i8",), "i32", CDNA34),
    (16, 32, 1, ("i8",), "i32", CDNA34),
    (32, 32, 1, ("i8",), "i32", CDNA4),
    (16, 64, 1, ("i8",), "i32", CDNA4),
    (32, 16, 1, FLOATS8, "f32", CDNA34),
    (16, 32, 1, FLOATS8, "f32", CDNA34),
)
# (M, K of the sparse product, A types, accumulator, architectures)
_SMFMAC: tuple[tuple[int, int, tuple[str, ...], str, tuple[str, ...]], ...] = (
    (16, 32, _F16, "f32", CDNA34),
    (32, 16, _F16, "f32", CDNA34),
    (16, 64, _F16, "f32", CDNA4),
    (32, 32, _F16, "f32", CDNA4),
    (16, 64, ("i8",), "i32", CDNA34),
    (32, 32, ("i8",), "i32", CDNA34),
    (16, 128, ("i8",), "i32", CDNA4),
    (32, 64, ("i8",), "i32", CDNA4),
    (16, 64, FLOATS8, "f32", CDNA34),
    (32, 32, FLOATS8, "f32", CDNA34),
    (16, 128, FLOATS8, "f32", CDNA4),
    (32, 64, FLOATS8, "f32", CDNA4),
)


def mfma_ab(m: int, k: int, blocks: int = 1) -> Layout:
    """A (or B) of an MFMA with M = ``m`` rows: lane l holds row l % M, k = (l / (M * blocks)) * V + v."""
    g = 64 // (m * blocks)
    v = k // g
    if blocks == 1:
        return Layout(((m, g), v), ((1, m * v), m))
    if g == 1:
        return Layout(((m, blocks), v), ((1, m * k), m))
    return Layout(((m, blocks, g), v), ((1, m * k, m * v), m))


def mfma_c(m: int, blocks: int = 1) -> Layout:
    """C of an M = N = ``m`` MFMA with 32-bit accumulators."""
    if m == 4:
        return Layout(((4, 16), 4), ((4, 16), 1))
    g = 64 // m
    values, strides = (4, m // 4 // g), (1, 4 * g)
    if blocks == 1:
        return Layout(((m, g), values), ((m, 4), strides))
    rest = ((values, blocks), (strides, m * m)) if m == 32 else ((4, blocks), (1, m * m))
    return Layout(((m, g), rest[0]), ((m, 4), rest[1]))


def _typed(types: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """(A type, B type, suffix of the name)."""
    for a, b in pairs(types, types):
        if a == b and a not in FLOATS8:
            yield a, b, a
        elif a in FLOATS8:
            yield a, b, f"{a}_{b}"


def _mfma() -> Iterator[MmaAtomInfo]:
    for m, k, blocks, types, acc, archs in _MFMA:
        ab, c = mfma_ab(m, k, blocks), mfma_c(m, blocks)
        shape = f"{m}x{m}x{k}" + (f"_{blocks}b" if blocks > 1 else "")
        for a, b, kind in _typed(types):
            yield _info(f"mfma_{acc}_{shape}_{kind}", archs, (a, b, acc), (m, m, k), WAVE64, ab, ab, c, blocks=blocks)
    f64 = ("f64", "f64", "f64")
    ab, c = Layout(((16, 4), 1), ((1, 16), 0)), Layout(((16, 4), 4), ((16, 1), 4))
    yield _info("mfma_f64_16x16x4_f64", CDNA, f64, (16, 16, 4), WAVE64, ab, ab, c)
    ab, c = Layout(((4, 4, 4), 1), ((1, 16, 4), 0)), Layout(((4, 4, 4), 1), ((4, 16, 1), 0))
    yield _info("mfma_f64_4x4x4_4b_f64", CDNA, f64, (4, 4, 4), WAVE64, ab, ab, c, blocks=4)


def _mfma_mx() -> Iterator[MmaAtomInfo]:
    """The f8f6f4 instructions, with and without block scales; A and B formats mix freely.

    Next to a narrower operand the atom's 8-bit one has the order of the instruction.
    """
    for m, k in ((16, 128), (32, 64)):
        g = 64 // m
        declared = Layout(((m, g), 32), ((1, m * 32), m))
        runs16 = Layout(((m, g), (16, 2)), ((1, m * 16), (m, m * 16 * g)))
        c = mfma_c(m)
        for a, b in pairs(MX_TYPES, MX_TYPES):
            ha, hb = (runs16 if t.startswith("f8") else declared for t in (a, b))
            kind = a if a == b else f"{a}_{b}"
            for prefix, scale in (("mfma_scale", Layout((64, 1), (1, 0))), ("mfma", None)):
                yield _info(
                    f"{prefix}_f32_{m}x{m}x{k}_{kind}", CDNA4, (a, b, "f32"), (m, m, k), WAVE64,
                    *((ha, hb) if ha != hb else (declared, declared)), c, (ha, hb, None), scale=scale,
                )


def _smfmac() -> Iterator[MmaAtomInfo]:
    for m, k, types, acc, archs in _SMFMAC:
        a_tv, b_tv, c = mfma_ab(m, k // 2), mfma_ab(m, k), mfma_c(m)
        for a, b, kind in _typed(types):
            name = f"smfmac_{acc}_{m}x{m}x{k}_{kind}"
            yield _info(name, archs, (a, b, acc), (m, m, k), WAVE64, a_tv, b_tv, c, sparse=True)


# --------------------------------------------------------------------------------------------------------------------
# RDNA: WMMA and SWMMAC, wave32

_C = Layout(((16, 2), 8), ((16, 8), 1))


def halves(k: int) -> Layout:
    """A or B of 16 rows: the first half of the lanes holds the first half of k, the other lanes the second half."""
    return Layout(((16, 2), k // 2), ((1, 8 * k), 16))


def runs(k: int, n: int) -> Layout:
    """A or B of 16 rows: chunks of ``n`` consecutive k, alternating between the lane halves."""
    return Layout(((16, 2), (n, k // (2 * n))), ((1, 16 * n), (16, 32 * n)))


def _rdna3() -> Iterator[MmaAtomInfo]:
    """Both lane halves hold all of A and B; rows of C alternate between the halves."""
    ab, c = Layout(((16, 2), 16), ((1, 0), 16)), Layout(((16, 2), 8), ((16, 1), 2))
    for t, acc in (("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("i4", "i32")):
        yield _info(f"wmma_{acc}_16x16x16_{t}", RDNA3, (t, t, acc), (16, 16, 16), WAVE32, ab, ab, c)


# (K of WMMA, K of SWMMAC, A types, accumulators)
_RDNA4: tuple[tuple[int, int, tuple[str, ...], tuple[str, ...]], ...] = (
    (16, 32, ("f16",), ("f32", "f16")),
    (16, 32, ("bf16",), ("f32", "bf16")),
    (16, 32, FLOATS8, ("f32",)),
    (16, 32, ("i8",), ("i32",)),
    (16, 32, ("i4",), ("i32",)),
    (32, 64, ("i4",), ("i32",)),
)


def _rdna4() -> Iterator[MmaAtomInfo]:
    for k, sparse_k, types, accs in _RDNA4:
        for (a, b, kind), acc in pairs(_typed(types), accs):
            t = (a, b, acc)
            yield _info(f"wmma_{acc}_16x16x{k}_{kind}", RDNA4, t, (16, 16, k), WAVE32, halves(k), halves(k), _C)
            name, mnk = f"swmmac_{acc}_16x16x{sparse_k}_{kind}", (16, 16, sparse_k)
            yield _info(name, RDNA4, t, mnk, WAVE32, halves(sparse_k // 2), halves(sparse_k), _C, sparse=True)


# gfx1250: (K of WMMA, K of SWMMAC or 0, run of k in one chunk of WMMA and of SWMMAC's B, A types, accumulators)
_GFX1250: tuple[tuple[int, int, int, int, tuple[str, ...], tuple[str, ...]], ...] = (
    (32, 64, 8, 8, ("f16",), ("f32", "f16")),
    (32, 64, 8, 8, ("bf16",), ("f32", "bf16", "bf16f32")),
    (64, 0, 16, 0, FLOATS8, ("f32", "f16")),
    (128, 128, 16, 32, FLOATS8, ("f32", "f16")),
    (64, 128, 16, 32, ("i8",), ("i32",)),
)


def _gfx1250() -> Iterator[MmaAtomInfo]:
    k4 = Layout(((16, 2), 2), ((1, 32), 16))
    yield _info("wmma_f32_16x16x4_f32", GFX1250, ("f32", "f32", "f32"), (16, 16, 4), WAVE32, k4, k4, _C)
    for k, sparse_k, n, sparse_n, types, accs in _GFX1250:
        for (a, b, kind), acc in pairs(_typed(types), accs):
            d, h = runs(k, 8), runs(k, n)
            t = (a, b, acc)
            yield _info(f"wmma_{acc}_16x16x{k}_{kind}", GFX1250, t, (16, 16, k), WAVE32, d, d, _C, (h, h, None))
            if sparse_k:
                sa, sb = runs(sparse_k // 2, sparse_n // 2), runs(sparse_k, sparse_n)
                name, mnk = f"swmmac_{acc}_16x16x{sparse_k}_{kind}", (16, 16, sparse_k)
                yield _info(name, GFX1250, t, mnk, WAVE32, sa, sb, _C, sparse=True)


def _gfx1250_mx() -> Iterator[MmaAtomInfo]:
    scales = {"wmma_scale": Layout(((16, 2), 4), ((1, 0), 16)), "wmma_scale16": Layout(((16, 2), 8), ((1, 0), 16))}
    d, c = runs(128, 8), _C
    for a, b in pairs(MX_TYPES, MX_TYPES):
        ha, hb = (runs(128, 16 if t.startswith("f8") else 32) for t in (a, b))
        kind = a if a == b else f"{a}_{b}"
        for prefix in ("wmma_scale", "wmma_scale16", "wmma"):
            yield _info(
                f"{prefix}_f32_16x16x128_{kind}", GFX1250, (a, b, "f32"), (16, 16, 128), WAVE32,
                *((ha, hb) if ha != hb else (d, d)), c, (ha, hb, None), scale=scales.get(prefix),
            )
    # 32x16: rows 0-15 in the first half of the registers, rows 16-31 in the second; the column stride of C is 32.
    a32, b16 = Layout(((16, 2), (32, 2, 2)), ((1, 32 * 32), (32, 32 * 64, 16))), runs(128, 32)
    c32 = Layout(((16, 2), (8, 2)), ((32, 8), (1, 16)))
    declared_a, declared_c = Layout((32, 128), (1, 32)), Layout(((16, 2), 16), ((32, 16), 1))
    f4 = "f4E2M1FN"
    for prefix in ("wmma_scale", "wmma_scale16", "wmma"):
        rows = None if prefix == "wmma" else Layout((32, 8 if prefix.endswith("16") else 4), (1, 32))
        yield _info(
            f"{prefix}_f32_32x16x128_{f4}", GFX1250, (f4, f4, "f32"), (32, 16, 128), WAVE32,
            declared_a, d, declared_c, (a32, b16, c32), scale=rows,
        )


# --------------------------------------------------------------------------------------------------------------------
# Look-up


@cache
def _table() -> dict[str, tuple[MmaAtomInfo, ...]]:
    table: dict[str, tuple[MmaAtomInfo, ...]] = {}
    for family in (_mfma, _mfma_mx, _smfmac, _rdna3, _rdna4, _gfx1250, _gfx1250_mx):
        for info in family():
            key = info.name.lower()
            table[key] = (*table.get(key, ()), info)
    return table


def mma_atoms(arch: str | None = None) -> list[MmaAtomInfo]:
    """All matrix instructions (of one architecture)."""
    every = [i for group in _table().values() for i in group]
    if arch is None:
        return every
    found = [i for i in every if arch in i.archs]
    if not found:
        known = ", ".join(sorted({a for i in every for a in i.archs}))
        raise LayoutError(f"no matrix instructions are known for {arch!r}; known architectures: {known}")
    return found


def _key(name: str) -> str:
    """One spelling for those of assembler, intrinsics and operations: ``v_``, dots, ``16x16x16f16``, ``_1k``, iu8."""
    key = name.strip().lower().replace(".", "_")
    key = re.sub(r"^(llvm_amdgcn_|rocdl_|v_)+", "", key)
    key = re.sub(r"_1k$", "", re.sub(r"(x\d+)(xf32|bf16|[fi]\d+)", r"\1_\2", key))
    key = re.sub(r"\biu|_iu", "_i", key)
    # The instructions whose formats are operands: 8-bit in both places unless the name says otherwise.
    key = re.sub(r"_f8f6f4$", "_f8e4m3fn", key)
    return re.sub(r"(32x16x128)_f4$", r"\1_f4e2m1fn", key)


_OP_TYPE = re.compile(
    r"(?:!fly\.mma_atom<\s*)?!?(?:fly_rocdl\.)?(cdna3|cdna4|gfx11|gfx120x|gfx1250)\.(mfma|wmma)(_scale)?"
    r"<\s*(\d+)x(\d+)x(\d+)\s*,\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*->\s*(\w+)"
)
_FAMILIES = {
    "cdna3": CDNA, "cdna4": ("gfx950",), "gfx11": RDNA3, "gfx120x": RDNA4, "gfx1250": ("gfx1250",),
}
#: Element types of MLIR under the names of the instructions without scales.
_EIGHT_BITS = {"f8E4M3FNUZ": "fp8", "f8E4M3FN": "fp8", "f8E5M2FNUZ": "bf8", "f8E5M2": "bf8"}


def _of_op_type(name: str) -> tuple[MmaAtomInfo, ...] | None:
    """The instructions of an op type, ``!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>``; None if it is not one."""
    found = _OP_TYPE.match(name.strip())
    if found is None:
        return None
    family, kind, scale, m, n, k, a, b, acc = found.groups()
    sixteen = re.search(r"blockSize\s*=\s*16\b", name) is not None
    if not scale:
        a, b = _EIGHT_BITS.get(a, a), _EIGHT_BITS.get(b, b)
    fits = [
        i
        for i in mma_atoms()
        if i.name.startswith(kind)
        and (i.scale is not None) == bool(scale)
        and i.name.startswith(f"{kind}_scale16") == sixteen
        and not i.sparse
        and (*i.shape_mnk, i.a_type, i.b_type, i.acc_type) == (int(m), int(n), int(k), a, b, acc)
        and set(i.archs) & set(_FAMILIES[family])
    ]
    return tuple(sorted(fits, key=lambda i: i.blocks))


def mma_atom(name: str, arch: str | None = None) -> MmaAtomInfo:
    """A matrix instruction by name, e.g. ``mfma_f32_16x16x16_f16``.

    The spellings of the assembler (``v_mfma_f32_4x4x4_16b_f16``), of LLVM (``llvm.amdgcn.mfma.f32.16x16x16f16``), of
    the ``rocdl`` dialect and the op types of ``fly_rocdl`` (``!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>``) are
    understood.  Where architectures differ in an instruction of one name, ``arch`` selects; without it gfx11 comes
    last.  Raises :class:`LayoutError` for an unknown name.
    """
    if not isinstance(name, str):
        raise LayoutError(f"the name of a matrix instruction is text, not {name!r}")
    key = _key(name)
    group = _of_op_type(name)
    if group is None:
        group = tuple(sorted(_table().get(key, ()), key=lambda i: i.archs == RDNA3))
    for info in group:
        if arch is None or arch in info.archs:
            return info
    if group:
        where = ", ".join(sorted({a for i in group for a in i.archs}))
        raise LayoutError(f"{name} does not exist on {arch}; it is an instruction of {where}")
    close = [i.name for k, g in _table().items() for i in g[:1] if key.rsplit("_", 1)[0] in k]
    hint = f"; did you mean {', '.join(close[:4])}" if close else ""
    raise LayoutError(f"unknown matrix instruction {name!r}{hint} (flydsl-layout mma --list shows all)")
