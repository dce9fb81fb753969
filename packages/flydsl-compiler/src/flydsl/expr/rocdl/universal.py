"""Scheduling hints, lane communication, conversions and memory intrinsics of all AMD targets."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, fly_rocdl, llvm, memref, rocdl
from flydsl.tracing.locations import dsl_loc_tracing

from .. import _emit
from .._emit import mlir_type
from .._target import require_feature, target_warp_size
from .._vector import Vector
from ..numeric import Int32, Int64
from .atoms import WMMAScale
from .buffer import get_buffer_rsrc, make_buffer_ptr, make_buffer_tensor
from .utils import call_intrinsic, emit, i32_type, operand, static_int

__all__ = [
    "WMMAScale", "ballot", "make_buffer_ptr", "make_buffer_tensor", "tensor_load_to_lds", "tensor_store_from_lds",
    "buffer_load_to_lds", "cluster_workgroup_id_x", "cluster_workgroup_id_y",
    "cluster_workgroup_id_z", "cvt_pk_f32_fp8", "cvt_pk_fp8_f32", "ds_bpermute", "iglp_opt", "mask_dsrd", "mask_dswr",
    "mask_mfma", "mask_vmem_rd", "perm_b32", "raw_ptr_buffer_atomic_fadd", "raw_ptr_buffer_atomic_fmax",
    "raw_ptr_buffer_load", "raw_ptr_buffer_load_lds", "raw_ptr_buffer_store", "rcp",
    "readfirstlane", "readlane", "s_barrier", "s_nop", "s_setprio", "s_sleep", "s_wait_dscnt",
    "s_wait_expcnt", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_tensorcnt", "sched_barrier", "sched_dsrd",
    "cluster_load_async_to_lds", "global_load_async_to_lds", "disable_xdl_arb_stall", "global_prefetch",
    "lds_transpose_load", "rsq", "s_buffer_load", "steady_clock",
    "sched_dswr", "sched_group_barrier", "sched_mfma", "sched_vmem", "wave_barrier", "wave_id",
]

_MASKS = {
    "none": 0, "non_mem_non_sideeffect": 0x1, "valu": 0x2, "salu": 0x4, "mfma_wmma": 0x8, "all_vmem": 0x10,
    "vmem_read": 0x20, "vmem_write": 0x40, "all_ds": 0x80, "ds_read": 0x100, "ds_write": 0x200,
    "transcendental": 0x400, "ldsdma": 0x800,
}
mask_mfma = 0x8
mask_vmem_rd = 0x20
mask_dsrd = 0x100
mask_dswr = 0x200


def _i16(value: Any, what: str, high: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(16), static_int(value, what, 0, high))


def _i32(value: Any, what: str, low: int = -(1 << 31), high: int = (1 << 32) - 1) -> ir.Attribute:
    return ir.IntegerAttr.get(i32_type(), static_int(value, what, low, high))


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
    emit("sched.barrier", attributes={"mask": _mask(mask)})


@dsl_loc_tracing
def sched_group_barrier(mask: Any, size: int, group_id: int = 0) -> None:
    """Schedule a group of `size` instructions of the kinds in `mask` here."""
    fields = {"mask": _mask(mask), "size": _i32(size, "size", 0), "groupId": _i32(group_id, "group_id")}
    emit("sched.group.barrier", attributes=fields)


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
    emit("s.setprio", attributes={"priority": _i16(priority, "priority", 3)})


@dsl_loc_tracing
def iglp_opt(variant: int) -> None:
    """Ask the scheduler for one of its built-in patterns (0: small GEMM, 1: single-wave small GEMM, 2, 3:
    exponentials) in
    this block; for gfx9.
    """
    emit("iglp.opt", attributes={"variant": _i32(variant, "variant", 0, 3)})


@dsl_loc_tracing
def s_nop(count: int) -> None:
    """Idle for ``count + 1`` issue cycles (0 to 15); every architecture."""
    emit("s.nop", attributes={"count": _i16(count, "count", 15)})


@dsl_loc_tracing
def s_sleep(count: int) -> None:
    """Sleep for about ``64 * count`` clocks (0 to 127); every architecture."""
    emit("s.sleep", attributes={"count": _i32(count, "count", 0, 127)})


@dsl_loc_tracing
def steady_clock() -> Any:
    """Ticks of the clock that all compute units share, 100 MHz, as Int64; for time limits and rough measures."""
    return Int64(call_intrinsic("llvm.readsteadycounter", [], ir.IntegerType.get_signless(64)))


@dsl_loc_tracing
def s_barrier() -> None:
    """Execution barrier of the workgroup, without a memory fence."""
    emit("s.barrier")


def _split_counter(name: str) -> Any:
    @dsl_loc_tracing
    def wait(count: Any = 0) -> None:
        emit(name.replace("_", ".", 2), attributes={"count": _i16(count, "count", 0xFFFF)})

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
    """Keep the compiler from moving memory operations across; no instruction, every architecture."""
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
    return emit("readfirstlane", [operand(src)], result=mlir_type(res))


@dsl_loc_tracing
def readlane(res: ir.Type, src: Any, lane: Any) -> Any:
    """The 32-bit value ``src`` of one lane, for all lanes; ``lane`` is uniform. Every architecture."""
    if isinstance(number := getattr(lane, "value", lane), int):
        static_int(number, "lane", 0, target_warp_size() - 1)
    return emit("readlane", [operand(src), operand(lane)], result=mlir_type(res))


@dsl_loc_tracing
def ds_bpermute(res: ir.Type, index: Any, src: Any) -> Any:
    """Value of the lane at *byte* address `index` (lane * 4)."""
    return emit("ds_bpermute", [operand(index), operand(src)], result=mlir_type(res))


@dsl_loc_tracing
def ballot(res: ir.Type, pred: Any) -> Any:
    """Bit mask of the lanes where `pred` holds: i32 on wave32, i64 on wave64. ValueError for fewer bits."""
    value = operand(pred)
    i1 = ir.IntegerType.get_signless(1)
    mask, lanes = mlir_type(res), target_warp_size()
    if _emit.bit_width(mask) < lanes:
        raise ValueError(f"a ballot of {lanes} lanes needs i{lanes}, got {mask}")
    return rocdl.ballot(mask, value if value.type == i1 else arith.trunci(i1, value))


@dsl_loc_tracing
def perm_b32(hi: Any, lo: Any, sel: Any) -> Any:
    """Byte select from the pair (hi, lo)."""
    return call_intrinsic("llvm.amdgcn.perm", [hi, lo, sel], i32_type())


# --------------------------------------------------------------------------- conversions


def _float_of(res: Any, arg: Any, what: str) -> ir.Value:
    """The operand of a function whose result has its type; the intrinsics are declared for one type only."""
    ty = mlir_type(res)
    value = operand(arg, ty)
    if value.type != ty:
        raise TypeError(f"{what}: the result type is {ty}, the operand is {value.type}")
    return value


@dsl_loc_tracing
def rcp(res: ir.Type, arg: Any) -> Any:
    """Approximate reciprocal."""
    return emit("rcp", [_float_of(res, arg, "rcp")], result=mlir_type(res))


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
    """A value of type ``res`` a lane from a buffer resource: ``offset`` (a lane's) and ``soffset`` (uniform) in
    bytes, ``aux``
    the cache policy. Outside of the buffer it is zero. Every architecture.
    """
    return rocdl.raw_ptr_buffer_load(res, rsrc, operand(offset), operand(soffset), _aux(aux))


@dsl_loc_tracing
def raw_ptr_buffer_store(vdata: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> None:
    """Store ``vdata`` a lane: ``offset`` (a lane's) and ``soffset`` (uniform) in bytes, ``aux`` the cache policy.
    Stores outside
    of the buffer are dropped. Every architecture.
    """
    rocdl.raw_ptr_buffer_store(operand(vdata), rsrc, operand(offset), operand(soffset), _aux(aux))


@dsl_loc_tracing
def raw_ptr_buffer_atomic_fadd(vdata: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> None:
    """Add ``vdata`` a lane to floats of a buffer resource at once: f32, or two f16 or bf16. ``offset`` (a lane's) and
    ``soffset`` (uniform) in bytes, ``aux`` the cache policy. Every architecture.
    """
    rocdl.raw_ptr_buffer_atomic_fadd(operand(vdata), rsrc, operand(offset), operand(soffset), _aux(aux))


@dsl_loc_tracing
def raw_ptr_buffer_atomic_fmax(vdata: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> None:
    """The larger of ``vdata`` a lane and the f32 of a buffer resource, stored at once; gfx11 and later. Operands as of
    `raw_ptr_buffer_atomic_fadd`.
    """
    rocdl.raw_ptr_buffer_atomic_fmax(operand(vdata), rsrc, operand(offset), operand(soffset), _aux(aux))


@dsl_loc_tracing
def raw_ptr_buffer_load_lds(rsrc: Any, lds_ptr: Any, size: Any, voffset: Any, soffset: Any, offset: Any,
                            aux: Any = None) -> None:
    """Load ``size`` bytes a lane (1, 2, 4; 12, 16 on gfx950) straight to LDS, lane after lane from the uniform
    ``lds_ptr``;
    ``voffset`` (a lane's), ``soffset`` (uniform) and ``offset`` (constant) in bytes. gfx942 and gfx950; wait with
    vmcnt.
    """
    operands = (operand(x) for x in (size, voffset, soffset, offset))
    rocdl.raw_ptr_buffer_load_lds(rsrc, lds_ptr, *operands, _aux(aux))


def buffer_load_to_lds(rsrc: Any, lds_ptr: Any, voffset: Any, size_bytes: int = 4, soffset: Any = 0,
                       offset: Any = 0) -> None:
    """LDS DMA of `size_bytes` a lane."""
    raw_ptr_buffer_load_lds(rsrc, lds_ptr, size_bytes, voffset, soffset, offset)


#: Sizes of an asynchronous copy to LDS, and their names.
ASYNC_BYTES = {1: "b8", 4: "b32", 8: "b64", 16: "b128"}


@dsl_loc_tracing
def global_load_async_to_lds(global_ptr: Any, lds_ptr: Any, size_bytes: int, offset: int = 0, cpol: int = 0) -> None:
    """gfx1250: asynchronous copy of 1, 4, 8 or 16 bytes a lane, between addresses of the lane; see `async_copy`.

    ``offset``: constant bytes that are added to both addresses. ``cpol``: the instruction's cache policy bits.
    """
    if size_bytes not in ASYNC_BYTES:
        raise ValueError(f"global_load_async_to_lds moves 1, 4, 8 or 16 bytes, got {size_bytes}")
    fields = {"offset": _i32(offset, "offset"), "aux": _i32(cpol, "cpol")}
    emit(f"global.load.async.to.lds.{ASYNC_BYTES[size_bytes]}", [global_ptr, lds_ptr], fields)


@dsl_loc_tracing
def cluster_load_async_to_lds(global_ptr: Any, lds_ptr: Any, size_bytes: int, offset: int = 0, cpol: int = 0,
                              mask: Any = None) -> None:
    """gfx1250: asynchronous copy of 1, 4, 8 or 16 bytes a lane to the LDS of the workgroups in `mask`."""
    if size_bytes not in ASYNC_BYTES:
        raise ValueError(f"cluster_load_async_to_lds moves 1, 4, 8 or 16 bytes, got {size_bytes}")
    fields = {"offset": _i32(offset, "offset"), "cpol": _i32(cpol, "cpol")}
    emit(f"cluster.load.async.to.lds.{ASYNC_BYTES[size_bytes]}",
         [global_ptr, lds_ptr, operand(0 if mask is None else mask)], fields)


def _tensor_move(name: str, groups: tuple[Any, ...], fifth: Any, cache_policy: Any) -> None:
    """The instruction of LLVM 22 has four groups; what releases with a fifth pass there must be zero."""
    if fifth is not None and not _is_zero(operand(fifth)):
        raise ValueError(f"{name}: the fifth descriptor group must be a constant zero: LLVM 22 has four groups")
    policy = 0 if cache_policy is None else static_int(cache_policy, "cache_policy")
    attribute = ir.IntegerAttr.get(i32_type(), policy)
    emit(name, [operand(g) for g in groups], {"cachePolicy": attribute})


def _is_zero(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    if owner.name == "arith.constant":
        constant = owner.attributes["value"]
        if isinstance(constant, ir.DenseElementsAttr):
            return bool(constant.is_splat) and str(constant.get_splat_value()).startswith("0 ")
        return isinstance(constant, ir.IntegerAttr) and constant.value == 0
    zeros = ("vector.from_elements", "vector.broadcast", "vector.splat")
    return owner.name in zeros and all(_is_zero(o) for o in owner.operands)


@dsl_loc_tracing
def tensor_load_to_lds(dgroup0: Any, dgroup1: Any, dgroup2: Any, dgroup3: Any, dgroup4: Any = None,
                       cache_policy: Any = None) -> None:
    """gfx1250: start the tensor load of a raw descriptor; `cache_policy` is an int or IntegerAttr."""
    _tensor_move("tensor.load.to.lds", (dgroup0, dgroup1, dgroup2, dgroup3), dgroup4, cache_policy)


@dsl_loc_tracing
def tensor_store_from_lds(dgroup0: Any, dgroup1: Any, dgroup2: Any, dgroup3: Any, dgroup4: Any = None,
                          cache_policy: Any = None) -> None:
    """gfx1250: start the tensor store of a raw descriptor; `cache_policy` is an int or IntegerAttr."""
    _tensor_move("tensor.store.from.lds", (dgroup0, dgroup1, dgroup2, dgroup3), dgroup4, cache_policy)


@dsl_loc_tracing
def lds_transpose_load(result_type: Any, lds_memref: Any, elem_offset: Any, elem_bytes: int) -> Any:
    """gfx12: transposing 128-bit LDS read at ``elem_offset`` elements of a builtin LDS memref."""
    base = memref.extract_aligned_pointer_as_index(lds_memref)
    address = arith.addi(arith.index_cast(i32_type(), base), arith.muli(_as_i32(elem_offset), operand(elem_bytes)))
    pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), address)
    return emit("ds.load.tr16.b128", [pointer], result=mlir_type(result_type))


def _as_i32(value: Any) -> ir.Value:
    return _emit.int_resize(operand(value), i32_type(), True)


@dsl_loc_tracing
def global_prefetch(ptr: Any, scope: int = 0) -> None:
    """gfx1250: prefetch the cache line of a global address. (The dialect's op counts as a plain read, which the
    canonicalizer removes, so this is the intrinsic.)"""
    call_intrinsic("llvm.amdgcn.global.prefetch", [ptr, operand(static_int(scope, "scope"))])


@dsl_loc_tracing
def rsq(res: Any, arg: Any) -> Any:
    """Approximate reciprocal square root."""
    value = _float_of(res, arg, "rsq")
    return call_intrinsic(f"llvm.amdgcn.rsq.{value.type}", [value], mlir_type(res))


@dsl_loc_tracing
def disable_xdl_arb_stall() -> None:
    """gfx1250: let matrix instructions issue without the arbitration stall (SCHED_MODE bit 2)."""
    require_feature("disable_xdl_arb_stall", "xdl_arbitration")
    call_intrinsic("llvm.amdgcn.s.setreg", [operand(_SCHED_MODE_BIT2), operand(1)])


_SCHED_MODE_BIT2 = 154  # hwreg 26, offset 2, size 1


@dsl_loc_tracing
def s_buffer_load(ptr: Any, offset: Any, *, count: int = 1, cache_modifier: int = 0) -> Any:
    """Wave-uniform scalar load of `count` (1 or 4) i32 words from a buffer pointer, at `offset` words.

    Returns `Int32` or a vector of four. The pointer's own offset is ignored.
    """
    if count not in (1, 4):
        raise ValueError(f"s_buffer_load loads 1 or 4 words, got {count}")
    resource = get_buffer_rsrc(ptr)
    words = ir.VectorType.get([4], i32_type())
    as_integer = llvm.ptrtoint(ir.IntegerType.get_signless(128), resource)
    descriptor = llvm.bitcast(words, as_integer)
    byte_offset = arith.muli(_as_i32(offset), operand(4))
    name = "llvm.amdgcn.s.buffer.load." + ("i32" if count == 1 else "v4i32")
    result = i32_type() if count == 1 else words
    raw = call_intrinsic(name, [descriptor, byte_offset, operand(static_int(cache_modifier, "cache_modifier"))], result)
    return Int32(raw) if count == 1 else Vector(raw, (4,), Int32)


def __getattr__(name: str) -> Any:
    # The op types behind the constructors are reached through this module, too.
    if name.startswith(("CopyOp", "MmaOp")) and name.endswith("Type"):
        return getattr(fly_rocdl, name)
    raise AttributeError(f"module 'flydsl.expr.rocdl.universal' has no attribute '{name}'")
