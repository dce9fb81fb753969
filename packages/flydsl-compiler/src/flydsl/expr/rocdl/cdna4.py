"""CDNA4 (gfx950): scaled MFMA, LDS transpose reads, asynchronous LDS copies, stochastic rounding."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import fly_rocdl, llvm
from flydsl.tracing.locations import dsl_loc_tracing, needs_trace

from .._emit import mlir_type
from .._target import require_feature
from .._vector import Vector
from .atoms import accumulator
from .utils import call_intrinsic, operand

__all__ = [
    "BufferLoadAsyncLDS", "BufferLoadAsyncLDS32b", "BufferLoadAsyncLDS96b", "BufferLoadAsyncLDS128b",
    "GlobalLoadAsyncLDS", "GlobalLoadAsyncLDS32b", "GlobalLoadAsyncLDS96b", "GlobalLoadAsyncLDS128b", "LDSReadTrans",
    "MFMAScale", "MFMA_Scale", "cvt_sr_f32_to_bf16",
]
# ruff: noqa: N802 - op descriptors are spelled like types


def MFMA_Scale(m: int, n: int, k: int, elem_ty_a: Any, elem_ty_b: Any = None, elem_ty_acc: Any = None, *,
               opsel_a: int = 0, opsel_b: int = 0) -> ir.Type:
    """MX-scaled MFMA of gfx950. State: ``scale_a``, ``scale_b``.

    The atom's layouts of A and B are the published ones: a lane group ``g`` holds ``k = 32 g + v``. The instruction
    takes 8-bit values as two runs of 16, ``k = 16 g`` and ``k = K / 2 + 16 g``; beside an operand of 4 or 6 bits the
    layout of an 8-bit one is that. With two 8-bit operands and no scales the published layout only reorders the sum;
    with scales of blocks, load their two runs by hand.
    """
    a = mlir_type(elem_ty_a)
    b = a if elem_ty_b is None else mlir_type(elem_ty_b)
    return fly_rocdl.MmaOpCDNA4_MFMAScaleType.get(m, n, k, a, b, accumulator(elem_ty_acc, a), opsel_a, opsel_b)


MFMAScale = MFMA_Scale


@needs_trace
def LDSReadTrans(trans_granularity: int, bit_size: int) -> ir.Type:
    """Transposing LDS read: granularity and bits of (4, 64), (8, 64), (6, 96) or (16, 64)."""
    if (trans_granularity, bit_size) not in ((4, 64), (8, 64), (6, 96), (16, 64)):
        raise ValueError(f"LDSReadTrans has no form ({trans_granularity}, {bit_size})")
    require_feature("LDSReadTrans", "lds_read_transpose")
    return fly_rocdl.CopyOpCDNA4LdsReadTransposeType.get(trans_granularity, bit_size)


def LDSReadTrans4_64b() -> ir.Type:
    """`LDSReadTrans` of 4-bit elements, 64 bits a lane."""
    return LDSReadTrans(4, 64)


def LDSReadTrans8_64b() -> ir.Type:
    """`LDSReadTrans` of 8-bit elements, 64 bits a lane."""
    return LDSReadTrans(8, 64)


def LDSReadTrans6_96b() -> ir.Type:
    """`LDSReadTrans` of 6-bit elements, 96 bits a lane."""
    return LDSReadTrans(6, 96)


def LDSReadTrans16_64b() -> ir.Type:
    """`LDSReadTrans` of 16-bit elements, 64 bits a lane."""
    return LDSReadTrans(16, 64)


def _check_async(bits: int) -> int:
    if bits not in (32, 96, 128):
        raise ValueError(f"asynchronous LDS copies move 32, 96 or 128 bits, got {bits}")
    if bits > 32:
        require_feature(f"an asynchronous LDS copy of {bits} bits", "buffer_lds_dma128", "; use 32 bits")
    return bits


@needs_trace
def BufferLoadAsyncLDS(bit_size: int) -> ir.Type:
    """Asynchronous copy from a buffer tensor to LDS. State: ``soffset``, ``imm_offset``."""
    return fly_rocdl.CopyOpCDNA4BufferLoadAsyncLDSType.get(_check_async(bit_size))


def BufferLoadAsyncLDS32b() -> ir.Type:
    """`BufferLoadAsyncLDS` of 32 bits a lane."""
    return BufferLoadAsyncLDS(32)


def BufferLoadAsyncLDS96b() -> ir.Type:
    """`BufferLoadAsyncLDS` of 96 bits a lane."""
    return BufferLoadAsyncLDS(96)


def BufferLoadAsyncLDS128b() -> ir.Type:
    """`BufferLoadAsyncLDS` of 128 bits a lane."""
    return BufferLoadAsyncLDS(128)


@needs_trace
def GlobalLoadAsyncLDS(bit_size: int) -> ir.Type:
    """Asynchronous copy from global memory to LDS."""
    return fly_rocdl.CopyOpCDNA4GlobalLoadAsyncLDSType.get(_check_async(bit_size))


def GlobalLoadAsyncLDS32b() -> ir.Type:
    """`GlobalLoadAsyncLDS` of 32 bits a lane."""
    return GlobalLoadAsyncLDS(32)


def GlobalLoadAsyncLDS96b() -> ir.Type:
    """`GlobalLoadAsyncLDS` of 96 bits a lane."""
    return GlobalLoadAsyncLDS(96)


def GlobalLoadAsyncLDS128b() -> ir.Type:
    """`GlobalLoadAsyncLDS` of 128 bits a lane."""
    return GlobalLoadAsyncLDS(128)


@dsl_loc_tracing
def cvt_sr_f32_to_bf16(x: Any, rand: Any) -> Any:
    """f32 to bf16 with stochastic rounding by the random bits `rand`."""
    from ..numeric import BFloat16

    pair = ir.VectorType.get([2], ir.BF16Type.get())
    i1 = ir.IntegerType.get_signless(1)
    old = llvm.mlir_undef(pair)
    operands = [old, operand(x), operand(rand), operand(False, i1)]
    packed = call_intrinsic("llvm.amdgcn.cvt.sr.bf16.f32", operands, pair)
    return Vector(packed, (2,), BFloat16)[0]
