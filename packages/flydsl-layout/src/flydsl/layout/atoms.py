"""Thread-value layouts of the matrix instructions of gfx942, gfx950, gfx1201 and gfx1250, as data.

Every entry gives column-major TV layouts: ``a`` into (M,K), ``b`` into (N,K), ``c`` into (M,N).
``a``/``b`` are what the ``fly_rocdl`` atoms declare; where the hardware orders K differently inside an instruction
(which is invisible as long as A and B go through the same layout) ``hardware_a``/``hardware_b`` give the true order.
Sources: AMD matrix instruction calculator and CDNA3/CDNA4/RDNA4 ISA manuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .core import Layout, picture
from .errors import LayoutError
from .tv import MmaAtom

WAVE64 = Layout(64, 1)
WAVE32 = Layout(32, 1)


@dataclass(frozen=True)
class MmaAtomInfo:
    """One matrix instruction: its atom, the architectures that have it, element types and hardware K order."""

    name: str
    archs: tuple[str, ...]
    a_type: str
    b_type: str
    acc_type: str
    atom: MmaAtom
    hardware_a: Layout
    hardware_b: Layout

    def _repr_svg_(self) -> str | None:
        return picture(self)

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return self.atom.shape_mnk


CDNA = ("gfx942", "gfx950")
CDNA3 = ("gfx942",)
CDNA4 = ("gfx950",)
RDNA4 = ("gfx1200", "gfx1201")
GFX1250 = ("gfx1250",)

# (M, K, A type, B type, accumulator, architectures) of the dense single-block MFMA instructions
_MFMA: tuple[tuple[int, int, str, str, str, tuple[str, ...]], ...] = (
    (16, 4, "f32", "f32", "f32", CDNA),
    (32, 2, "f32", "f32", "f32", CDNA),
    (16, 8, "xf32", "xf32", "f32", CDNA3),
    (32, 4, "xf32", "xf32", "f32", CDNA3),
    (16, 16, "f16", "f16", "f32", CDNA),
    (32, 8, "f16", "f16", "f32", CDNA),
    (16, 16, "bf16", "bf16", "f32", CDNA),
    (32, 8, "bf16", "bf16", "f32", CDNA),
    (16, 32, "f16", "f16", "f32", CDNA4),
    (32, 16, "f16", "f16", "f32", CDNA4),
    (16, 32, "bf16", "bf16", "f32", CDNA4),
    (32, 16, "bf16", "bf16", "f32", CDNA4),
    (16, 32, "i8", "i8", "i32", CDNA),
    (32, 16, "i8", "i8", "i32", CDNA),
    (16, 64, "i8", "i8", "i32", CDNA4),
    (32, 32, "i8", "i8", "i32", CDNA4),
    *((m, k, a, b, "f32", CDNA) for m, k in ((16, 32), (32, 16)) for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
)


def mfma_ab(m: int, k: int) -> Layout:
    """A (or B) of an MFMA with M = ``m`` rows: lane l holds row l % M, k = (l / M) * V + v."""
    g = 64 // m
    v = k // g
    return Layout(((m, g), v), ((1, m * v), m))


def mfma_c(m: int) -> Layout:
    """C of an M = N = ``m`` MFMA with 32-bit accumulators."""
    g = 64 // m
    return Layout(((m, g), (4, m // 4 // g)), ((m, 4), (1, 4 * g)))


def _info(
    name: str, archs: tuple[str, ...], types: tuple[str, str, str], mnk: tuple[int, int, int], thr: Layout,
    a: Layout, b: Layout, c: Layout, hardware_a: Layout | None = None, hardware_b: Layout | None = None,
) -> MmaAtomInfo:  # fmt: skip
    atom = MmaAtom(mnk, thr, a, b, c, name)
    return MmaAtomInfo(name, archs, *types, atom, hardware_a or a, hardware_b or b)


def _mfma() -> list[MmaAtomInfo]:
    out = []
    for m, k, a, b, acc, archs in _MFMA:
        kind = a if a == b and a not in ("fp8", "bf8") else f"{a}_{b}"
        ab = mfma_ab(m, k)
        out.append(_info(f"mfma_{acc}_{m}x{m}x{k}_{kind}", archs, (a, b, acc), (m, m, k), WAVE64, ab, ab, mfma_c(m)))
    f64 = ("f64", "f64", "f64")
    f64_ab, f64_c = Layout(((16, 4), 1), ((1, 16), 0)), Layout(((16, 4), 4), ((16, 1), 4))
    out.append(_info("mfma_f64_16x16x4_f64", CDNA, f64, (16, 16, 4), WAVE64, f64_ab, f64_ab, f64_c))
    for m, k in ((16, 128), (32, 64)):
        g = 64 // m
        declared = Layout(((m, g), 32), ((1, m * 32), m))
        runs16 = Layout(((m, g), (16, 2)), ((1, m * 16), (m, m * 16 * g)))
        for fmt in ("f8E4M3FN", "f8E5M2", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN"):
            true = runs16 if fmt.startswith("f8") else declared
            name = f"mfma_scale_f32_{m}x{m}x{k}_{fmt}"
            out.append(
                _info(name, CDNA4, (fmt, fmt, "f32"), (m, m, k), WAVE64, declared, declared, mfma_c(m), true, true)
            )
    return out


def _wmma() -> list[MmaAtomInfo]:
    out = []
    c32 = Layout(((16, 2), 8), ((16, 8), 1))
    ab16 = Layout(((16, 2), 8), ((1, 128), 16))
    rdna4 = [
        ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("i8", "i8", "i32"), ("i4", "i4", "i32"),
        *((a, b, "f32") for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
    ]  # fmt: skip
    for a, b, acc in rdna4:
        kind = a if a == b and a not in ("fp8", "bf8") else f"{a}_{b}"
        out.append(_info(f"wmma_{acc}_16x16x16_{kind}", RDNA4, (a, b, acc), (16, 16, 16), WAVE32, ab16, ab16, c32))
    ab32 = Layout(((16, 2), 16), ((1, 256), 16))
    out.append(_info("wmma_i32_16x16x32_i4", RDNA4, ("i4", "i4", "i32"), (16, 16, 32), WAVE32, ab32, ab32, c32))

    k4 = Layout(((16, 2), 2), ((1, 32), 16))
    out.append(_info("wmma_f32_16x16x4_f32", GFX1250, ("f32", "f32", "f32"), (16, 16, 4), WAVE32, k4, k4, c32))

    def declared(k: int) -> Layout:
        return Layout(((16, 2), (8, k // 16)), ((1, 128), (16, 256)))

    def runs(k: int, n: int) -> Layout:
        """Chunks of ``n`` consecutive k, alternating between the lane halves."""
        return Layout(((16, 2), (n, k // (2 * n))), ((1, 16 * n), (16, 32 * n)))

    for t in ("f16", "bf16"):
        for acc in ("f32", t):
            types, d = (t, t, acc), declared(32)
            out.append(_info(f"wmma_{acc}_16x16x32_{t}", GFX1250, types, (16, 16, 32), WAVE32, d, d, c32))
    for k in (64, 128):
        for a in ("fp8", "bf8"):
            for b in ("fp8", "bf8"):
                for acc in ("f32", "f16"):
                    d, h = declared(k), runs(k, 16)
                    name = f"wmma_{acc}_16x16x{k}_{a}_{b}"
                    out.append(_info(name, GFX1250, (a, b, acc), (16, 16, k), WAVE32, d, d, c32, h, h))
    d, h = declared(64), runs(64, 16)
    out.append(_info("wmma_i32_16x16x64_i8", GFX1250, ("i8", "i8", "i32"), (16, 16, 64), WAVE32, d, d, c32, h, h))
    for fmt, n in (("f8E4M3FN", 16), ("f8E5M2", 16), ("f6E2M3FN", 32), ("f6E3M2FN", 32), ("f4E2M1FN", 32)):
        d, h = declared(128), runs(128, n)
        name = f"wmma_scale_f32_16x16x128_{fmt}"
        out.append(_info(name, GFX1250, (fmt, fmt, "f32"), (16, 16, 128), WAVE32, d, d, c32, h, h))
    # 32x16: rows 0-15 in the first half of the registers, rows 16-31 in the second; the column stride of C is 32.
    a32 = Layout(((16, 2), (32, 2, 2)), ((1, 32 * 32), (32, 32 * 64, 16)))
    b16 = runs(128, 32)
    c32x16 = Layout(((16, 2), (8, 2)), ((32, 8), (1, 16)))
    name = "wmma_scale_f32_32x16x128_f4E2M1FN"
    types = ("f4E2M1FN", "f4E2M1FN", "f32")
    out.append(_info(name, GFX1250, types, (32, 16, 128), WAVE32, a32, b16, c32x16))
    return out


@cache
def _table() -> dict[str, tuple[MmaAtomInfo, ...]]:
    table: dict[str, tuple[MmaAtomInfo, ...]] = {}
    for info in (*_mfma(), *_wmma()):
        table[info.name] = (*table.get(info.name, ()), info)
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


def mma_atom(name: str, arch: str | None = None) -> MmaAtomInfo:
    """A matrix instruction by name, e.g. ``mfma_f32_16x16x16_f16`` (a leading ``v_`` is allowed)."""
    key = name.lower().removeprefix("v_")
    for k, group in _table().items():
        if k.lower() == key:
            for info in group:
                if arch is None or arch in info.archs:
                    return info
            raise LayoutError(f"{name} does not exist on {arch}")
    close = [k for k in _table() if key.rsplit("_", 1)[0] in k.lower()]
    hint = f"; did you mean {', '.join(close[:4])}" if close else ""
    raise LayoutError(f"unknown matrix instruction {name!r}{hint} (flydsl-layout mma --list shows all)")
