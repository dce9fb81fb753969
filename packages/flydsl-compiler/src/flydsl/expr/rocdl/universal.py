"""Scheduling hints, lane communication, conversions and memory intrinsics of all AMD targets."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir

from .. import _emit
from .._lazy import arith, rocdl
from ..meta import dsl_loc_tracing
from .atoms import WMMAScale
from .utils import call_intrinsic, i32_type, operand, static_int

__all__ = [
    "WMMAScale", "ballot", "buffer_load_to_lds", "cluster_workgroup_id_x", "cluster_workgroup_id_y",
    "cluster_workgroup_id_z", "cvt_pk_f32_fp8", "cvt_pk_fp8_f32", "ds_bpermute", "iglp_opt", "mask_dsrd", "mask_dswr",
    "mask_mfma", "mask_vmem_rd", "perm_b32", "raw_ptr_buffer_load", "raw_ptr_buffer_load_lds", "raw_ptr_buffer_store",
    "rcp", "readfirstlane", "readlane", "s_barrier", "s_nop", "s_setprio", "s_sleep", "s_wait_dscnt",
    "s_wait_expcnt", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_tensorcnt", "sched_barrier", "sched_dsrd",
    "sched_dswr", "sched_group_barrier", "sched_mfma", "sched_vmem", "wave_barrier", "wave_id",
]  # fmt: skip

_MASKS = {
    "none": 0, "non_mem_non_sideeffect": 0x1, "valu": 0x2, "salu": 0x4, "mfma_wmma": 0x8, "all_vmem": 0x10,
    "vmem_read": 0x20, "vmem_write": 0x40, "all_ds": 0x80, "ds_read": 0x100, "ds_write": 0x200,
    "transcendental": 0x400, "ldsdma": 0x800,
}  # fmt: skip
mask_mfma = 0x8
mask_vmem_rd = 0x20
mask_dsrd = 0x100
mask_dswr = 0x200


def _i16(value: Any, what: str) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(16), static_int(value, what))


def _i32(value: Any, what: str) -> ir.Attribute:
    return ir.IntegerAttr.get(i32_type(), static_int(value, what))


# --------------------------------------------------------------------------- scheduling


def _mask(mask: Any) -> ir.Attribute:
    """int, attribute, or keywords joined by ``|``."""
    if isinstance(mask, ir.Attribute):
        return mask
    if isinstance(mask, str):
        bits = 0
        for word in mask.split("|"):
            if word.strip() not in _MASKS:
                raise ValueError(f"unknown scheduling mask {word.strip()!r}; known: {', '.join(_MASKS)}")
            bits |= _MASKS[word.strip()]
        mask = bits
    return _i32(mask, "mask")


@dsl_loc_tracing
def sched_barrier(mask: Any = 0) -> None:
    """Nothing but the instruction kinds in `mask` moves across this point."""
    rocdl.sched_barrier(_mask(mask))


@dsl_loc_tracing
def sched_group_barrier(mask: Any, size: int, group_id: int = 0) -> None:
    """Schedule a group of `size` instructions of the kinds in `mask` here."""
    rocdl.sched_group_barrier(_mask(mask), _i32(size, "size"), _i32(group_id, "group_id"))


def sched_mfma(n: int) -> None:
    """A group of `n` matrix instructions."""
    sched_group_barrier(mask_mfma, n, 0)


def sched_vmem(n: int) -> None:
    """A group of `n` vector memory reads."""
    sched_group_barrier(mask_vmem_rd, n, 0)


def sched_dsrd(n: int) -> None:
    """A group of `n` LDS reads."""
    sched_group_barrier(mask_dsrd, n, 0)


def sched_dswr(n: int) -> None:
    """A group of `n` LDS writes."""
    sched_group_barrier(mask_dswr, n, 0)


@dsl_loc_tracing
def s_setprio(priority: int) -> None:
    """Wave priority 0..3."""
    rocdl.s_setprio(_i16(priority, "priority"))


@dsl_loc_tracing
def iglp_opt(variant: int) -> None:
    rocdl.iglp_opt(_i32(variant, "variant"))


@dsl_loc_tracing
def s_nop(count: int) -> None:
    rocdl.s_nop(_i16(count, "count"))


@dsl_loc_tracing
def s_sleep(count: int) -> None:
    rocdl.s_sleep(_i32(count, "count"))


@dsl_loc_tracing
def s_barrier() -> None:
    """Execution barrier of the workgroup, without a memory fence."""
    rocdl.s_barrier()


def _split_counter(name: str) -> Any:
    @dsl_loc_tracing
    def wait(count: Any = 0) -> None:
        getattr(rocdl, name)(_i16(count, "count"))

    wait.__name__ = wait.__qualname__ = name
    wait.__doc__ = f"`rocdl.{name}`: wait until at most `count` operations are outstanding (gfx12)."
    return wait


s_wait_dscnt = _split_counter("s_wait_dscnt")
s_wait_loadcnt = _split_counter("s_wait_loadcnt")
s_wait_storecnt = _split_counter("s_wait_storecnt")
s_wait_expcnt = _split_counter("s_wait_expcnt")
s_wait_tensorcnt = _split_counter("s_wait_tensorcnt")


@dsl_loc_tracing
def wave_barrier() -> None:
    call_intrinsic("llvm.amdgcn.wave.barrier", [])


@dsl_loc_tracing
def wave_id() -> Any:
    """Index of the wave in its workgroup, scalar i32 (gfx12)."""
    return call_intrinsic("llvm.amdgcn.wave.id", [], i32_type())


def _cluster_id(axis: str) -> Any:
    @dsl_loc_tracing
    def read() -> Any:
        return call_intrinsic(f"llvm.amdgcn.cluster.workgroup.id.{axis}", [], i32_type())

    read.__name__ = read.__qualname__ = f"cluster_workgroup_id_{axis}"
    read.__doc__ = f"Position of the workgroup in its cluster along {axis}, i32 (gfx1250)."
    return read


cluster_workgroup_id_x = _cluster_id("x")
cluster_workgroup_id_y = _cluster_id("y")
cluster_workgroup_id_z = _cluster_id("z")


# --------------------------------------------------------------------------- lanes


@dsl_loc_tracing
def readfirstlane(res: ir.Type, src: Any) -> Any:
    """Value of the first active lane, as a scalar."""
    return rocdl.readfirstlane(res, operand(src))


@dsl_loc_tracing
def readlane(res: ir.Type, src: Any, lane: Any) -> Any:
    return rocdl.readlane(res, operand(src), operand(lane))


@dsl_loc_tracing
def ds_bpermute(res: ir.Type, index: Any, src: Any) -> Any:
    """Value of the lane at *byte* address `index` (lane * 4)."""
    return rocdl.ds_bpermute(res, operand(index), operand(src))


@dsl_loc_tracing
def ballot(res: ir.Type, pred: Any) -> Any:
    """Bit mask of the lanes where `pred` holds: i32 on wave32, i64 on wave64."""
    value = operand(pred)
    i1 = ir.IntegerType.get_signless(1)
    return rocdl.ballot(res, value if value.type == i1 else arith.trunci(i1, value))


@dsl_loc_tracing
def perm_b32(hi: Any, lo: Any, sel: Any) -> Any:
    """Byte select from the pair (hi, lo)."""
    return call_intrinsic("llvm.amdgcn.perm", [hi, lo, sel], i32_type())


# --------------------------------------------------------------------------- conversions


@dsl_loc_tracing
def rcp(res: ir.Type, arg: Any) -> Any:
    """Approximate reciprocal."""
    return rocdl.rcp(res, operand(arg))


@dsl_loc_tracing
def cvt_pk_fp8_f32(res: ir.Type, src_a: Any, src_b: Any, old: Any, word_sel: bool) -> Any:
    """Two f32 as fp8 in half `word_sel` of the i32 `old`."""
    return rocdl.cvt_pk_fp8_f32(res, operand(src_a), operand(src_b), operand(old), bool(word_sel))


@dsl_loc_tracing
def cvt_pk_f32_fp8(res: ir.Type, src: Any, word_sel: bool) -> Any:
    """Two fp8 from half `word_sel` of an i32, as two f32."""
    return rocdl.cvt_pk_f32_fp8(res, operand(src), bool(word_sel))


# --------------------------------------------------------------------------- buffers


def _aux(aux: Any) -> ir.Value:
    """Cache policy as an i32 value: int, IntegerAttr or value; TypeError otherwise."""
    if aux is None:
        return _emit.constant(i32_type(), 0)
    return aux if isinstance(aux, ir.Value) else _emit.constant(i32_type(), static_int(aux, "aux"))


@dsl_loc_tracing
def raw_ptr_buffer_load(res: ir.Type, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> Any:
    return rocdl.raw_ptr_buffer_load(res, rsrc, operand(offset), operand(soffset), _aux(aux))


@dsl_loc_tracing
def raw_ptr_buffer_store(vdata: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> None:
    rocdl.raw_ptr_buffer_store(operand(vdata), rsrc, operand(offset), operand(soffset), _aux(aux))


@dsl_loc_tracing
def raw_ptr_buffer_load_lds(rsrc: Any, lds_ptr: Any, size: Any, voffset: Any, soffset: Any, offset: Any,
                            aux: Any = None) -> None:  # fmt: skip
    operands = (operand(x) for x in (size, voffset, soffset, offset))
    rocdl.raw_ptr_buffer_load_lds(rsrc, lds_ptr, *operands, _aux(aux))


def buffer_load_to_lds(rsrc: Any, lds_ptr: Any, voffset: Any, size_bytes: int = 4, soffset: Any = 0,
                       offset: Any = 0) -> None:  # fmt: skip
    """LDS DMA of `size_bytes` a lane."""
    raw_ptr_buffer_load_lds(rsrc, lds_ptr, size_bytes, voffset, soffset, offset)
