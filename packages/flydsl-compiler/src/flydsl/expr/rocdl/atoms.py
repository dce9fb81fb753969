"""Constructors of the AMD copy and MMA op descriptors."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import fly_rocdl
from flydsl.tracing.locations import needs_trace

from .._emit import mlir_type
from .._target import copies_to_lds, require_feature, target_row
from ..primitive.types import AtomicOp, atomic_value_type, descriptor_int

__all__ = [
    "BufferAtomic", "BufferAtomicAdd", "BufferAtomicMax", "BufferAtomicMin", "BufferAtomicPkAdd", "BufferCopy",
    "BufferCopy128b", "BufferCopy16b", "BufferCopy32b", "BufferCopy64b", "BufferCopy8b", "BufferCopyLDS",
    "BufferCopyLDS128b", "BufferCopyLDS32b", "BufferCopyLDS64b", "MFMA", "WMMA", "WMMAScale", "accumulator",
]
# ruff: noqa: N802 - op descriptors are spelled like types


def accumulator(elem_ty_acc: Any, a: ir.Type) -> ir.Type:
    """The accumulator type; by default i32 for integers, f64 for f64 and f32 for all else."""
    if elem_ty_acc is not None:
        return mlir_type(elem_ty_acc)
    if isinstance(a, ir.IntegerType):
        return ir.IntegerType.get_signless(32)
    return a if isinstance(a, ir.F64Type) else ir.F32Type.get()


def _sign(elem_ty: Any) -> bool | None:
    """Whether an integer class is signed; None for floats and for MLIR types, which do not say."""
    return getattr(elem_ty, "signed", None)


def _shape(m: Any, n: Any, k: Any) -> tuple[int, int, int]:
    return tuple(descriptor_int(extent, "an extent of a matrix instruction") for extent in (m, n, k))  # type: ignore[return-value]


@needs_trace
def BufferCopy(bit_size: int, cache_modifier: int = 0) -> ir.Type:
    """Copy of `bit_size` bits to or from a buffer tensor. State: ``soffset`` (elements)."""
    if bit_size not in (8, 16, 32, 64, 96, 128):
        raise ValueError(f"BufferCopy supports 8, 16, 32, 64, 96 and 128 bits, got {bit_size}")
    return fly_rocdl.CopyOpCDNA3BufferCopyType.get(bit_size, descriptor_int(cache_modifier, "the cache modifier"))


def BufferCopy8b(cache_modifier: int = 0) -> ir.Type:
    """`BufferCopy` of 8 bits a lane, on every architecture. ``cache_modifier``: the instruction's cache policy bits."""
    return BufferCopy(8, cache_modifier)


def BufferCopy16b(cache_modifier: int = 0) -> ir.Type:
    """`BufferCopy` of 16 bits a lane, on every architecture. ``cache_modifier``: the instruction's cache policy
    bits.
    """
    return BufferCopy(16, cache_modifier)


def BufferCopy32b(cache_modifier: int = 0) -> ir.Type:
    """`BufferCopy` of 32 bits a lane, on every architecture. ``cache_modifier``: the instruction's cache policy
    bits.
    """
    return BufferCopy(32, cache_modifier)


def BufferCopy64b(cache_modifier: int = 0) -> ir.Type:
    """`BufferCopy` of 64 bits a lane, on every architecture. ``cache_modifier``: the instruction's cache policy
    bits.
    """
    return BufferCopy(64, cache_modifier)


def BufferCopy128b(cache_modifier: int = 0) -> ir.Type:
    """`BufferCopy` of 128 bits a lane, on every architecture. ``cache_modifier``: the instruction's cache policy
    bits.
    """
    return BufferCopy(128, cache_modifier)


@needs_trace
def BufferCopyLDS(bit_size: int) -> ir.Type:
    """Direct copy from a buffer tensor to LDS. State: ``soffset`` (elements), ``imm_offset`` (bytes)."""
    if not copies_to_lds():
        raise ValueError(f"BufferCopyLDS is not supported on target arch {target_row().name!r}: it has no LDS DMA")
    if bit_size not in (32, 128):
        raise ValueError(f"unsupported bitSize = {bit_size}: BufferCopyLDS moves 32 or 128 bits")
    if bit_size == 128:
        require_feature("BufferCopyLDS128b", "buffer_lds_dma128", "; use BufferCopyLDS32b")
    return fly_rocdl.CopyOpCDNA3BufferCopyLDSType.get(bit_size)


def BufferCopyLDS32b() -> ir.Type:
    """`BufferCopyLDS` of 32 bits a lane (gfx942, gfx950): lane n writes dword n behind the wave's LDS address."""
    return BufferCopyLDS(32)


def BufferCopyLDS64b() -> ir.Type:
    """Deprecated: always a ValueError."""
    raise ValueError("there is no 8-byte LDS DMA: use BufferCopyLDS32b, or BufferCopyLDS128b on gfx950")


def BufferCopyLDS128b() -> ir.Type:
    """`BufferCopyLDS` of 128 bits a lane (gfx950): lane n writes the n-th 16 bytes behind the wave's LDS address."""
    return BufferCopyLDS(128)


def BufferAtomic(atomic_op: Any, val_type: Any) -> ir.Type:
    """Atomic read-modify-write of a buffer tensor from registers. State: ``soffset``.

    Extrema of an unsigned class compare without sign.
    """
    op = AtomicOp(int(atomic_op))
    return fly_rocdl.CopyOpCDNA3BufferAtomicType.get(int(op), atomic_value_type(op, val_type))


def BufferAtomicAdd(val_type: Any) -> ir.Type:
    """`BufferAtomic` that leaves the sum in memory; ``val_type``: a Numeric class or IR type of one element."""
    return BufferAtomic(AtomicOp.Add, val_type)


def BufferAtomicMax(val_type: Any) -> ir.Type:
    """`BufferAtomic` that leaves the maximum in memory; ``val_type``: a Numeric class or IR type of one element."""
    return BufferAtomic(AtomicOp.Max, val_type)


def BufferAtomicMin(val_type: Any) -> ir.Type:
    """`BufferAtomic` that leaves the minimum in memory; ``val_type``: a Numeric class or IR type of one element."""
    return BufferAtomic(AtomicOp.Min, val_type)


@needs_trace
def BufferAtomicPkAdd(val_type: Any) -> ir.Type:
    """Packed add of two 16-bit lanes."""
    lane = mlir_type(val_type)
    if not isinstance(lane, ir.F16Type | ir.BF16Type):
        raise ValueError(f"BufferAtomicPkAdd adds two Float16 or two BFloat16, got {val_type}")
    return BufferAtomic(AtomicOp.Add, ir.VectorType.get([2], lane))


def MFMA(m: int, n: int, k: int, elem_ty_ab: Any, elem_ty_acc: Any = None) -> ir.Type:
    """Wave64 matrix instruction of CDNA: A and B of one type, accumulator by default f32 (of integers i32, of f64 f64).

    Where it is used (`fx.gemm`, `fx.mma_atom_call`), a target without MFMA, or without this shape, is a ValueError.
    """
    if _sign(elem_ty_ab) is False:
        raise ValueError(f"MFMA takes signed integers, got {elem_ty_ab}: its upper half would count as negative")
    ab = mlir_type(elem_ty_ab)
    return fly_rocdl.MmaOpCDNA3_MFMAType.get(*_shape(m, n, k), ab, ab, accumulator(elem_ty_acc, ab))


def WMMA(m: int, n: int, k: int, elem_ty_ab: Any, elem_ty_acc: Any = None, *, elem_ty_b: Any = None,
         **options: Any) -> ir.Type:
    """Wave32 matrix instruction of the target; options ``sign_a``, ``sign_b``, ``clamp`` (and ``mod_c`` on gfx1250).

    The accumulator is f32 by default, i32 of integers. ``sign_a`` and ``sign_b`` say whether integers are signed: by
    default as the class of the operand says (`fx.Int8`, `fx.Uint8`), and unsigned for an MLIR type, which does not say.
    """
    row = target_row()
    kind = next((kind for kind in ("GFX1250", "GFX120X", "GFX11") if row.has(f"wmma_{kind.lower()}")), None)
    if kind is None:
        raise ValueError(f"WMMA is not available on target arch {row.name!r}")
    cls = getattr(fly_rocdl, f"MmaOp{kind}_WMMAType")
    a = mlir_type(elem_ty_ab)
    b = a if elem_ty_b is None else mlir_type(elem_ty_b)
    for name, given in (("sign_a", elem_ty_ab), ("sign_b", elem_ty_ab if elem_ty_b is None else elem_ty_b)):
        if _sign(given):
            options.setdefault(name, True)
    return cls.get(*_shape(m, n, k), a, b, accumulator(elem_ty_acc, a), **options)


def WMMAScale(m: int, n: int, k: int, elem_ty_a: Any, elem_ty_b: Any = None, elem_ty_acc: Any = None, *,
              opsel_a: int = 0, opsel_b: int = 0, mod_c: int = 0, reuse_a: bool = False, reuse_b: bool = False,
              block_size: int = 32) -> ir.Type:
    """Block-scaled matrix instruction of gfx1250. State: ``scale_a``, ``scale_b``.

    The atom's layouts of A and B are the published ones: half ``h`` of a wave holds ``k = 8 h + v % 8 + 16 (v / 8)``.
    The instruction takes 8-bit values in runs of 16 (``k = 16 h + v % 16 + 32 (v / 16)``), those of 4 and 6 bits in
    runs of 32; an 8-bit operand beside a narrower one, and that one, have these layouts. Operands of one order and
    without scales are only summed in another order by the published ones (and two 8-bit operands may have scales of
    32); otherwise load the runs by hand. The layouts of 32x16x128 are those of no instruction: its fragments are
    arranged by hand, for `mma_atom_call`.
    """
    a = mlir_type(elem_ty_a)
    b = a if elem_ty_b is None else mlir_type(elem_ty_b)
    return fly_rocdl.MmaOpGFX1250_WMMAScaleType.get(
        *_shape(m, n, k), a, b, accumulator(elem_ty_acc, a), opsel_a, opsel_b, mod_c, reuse_a, reuse_b, block_size
    )
