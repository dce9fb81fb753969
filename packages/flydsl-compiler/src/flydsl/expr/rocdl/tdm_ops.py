"""Tensor data mover of gfx1250 with explicit descriptors.

A descriptor is two to four groups of 32-bit words; `make_tensor_descriptor_2d` and
`make_tensor_gather_descriptor` fill them, `tensor_load_2d` and its relatives issue the copy, `tensor_wait` waits.
All pairs are (outer, inner). Word layout: AMD gfx1250 ISA, tensor DMA descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, memref, vector
from flydsl.tracing.locations import dsl_loc_tracing

from .. import _emit
from ..values.tensor import Pointer, Tensor
from .universal import global_prefetch, s_wait_tensorcnt, wave_id
from .utils import emit, i32_type

__all__ = [
    "PREFETCH_SCOPE_DEVICE", "PREFETCH_SCOPE_SE", "TDMDescriptor2D", "TDMGatherDescriptor", "add_addr_with_carry",
    "compute_padding_encoding", "compute_warp_distribution", "l2_prefetch_tile", "make_tensor_descriptor_2d",
    "make_tensor_gather_descriptor", "make_tensor_gather_dgroup0", "tensor_load_2d", "tensor_load_gather",
    "tensor_store_2d", "tensor_store_gather", "tensor_wait", "update_tensor_descriptor_2d_addr64",
    "update_tensor_descriptor_2d_addr_lo", "update_tensor_descriptor_2d_addr_lo_hi",
    "update_tensor_descriptor_2d_lds_addr", "update_tensor_gather_descriptor_addr64",
    "update_tensor_gather_descriptor_addr_lo", "update_tensor_gather_descriptor_addr_lo_hi",
]

PREFETCH_SCOPE_SE = 8
PREFETCH_SCOPE_DEVICE = 16
_TYPE_BIT = 1 << 31  # of the high address word: the descriptor is valid
_HIGH_ADDRESS_MASK = 0x3FFFFFFF
_TYPE_MASK = 0xC0000000


@dataclass(frozen=True)
class TDMDescriptor2D:
    """Groups 0 (vector<4xi32>) and 1 (vector<8xi32>) of a two-dimensional copy."""

    dgroup0: Any
    dgroup1: Any


@dataclass(frozen=True)
class TDMGatherDescriptor:
    """The four groups of a gather or scatter of rows."""

    dgroup0: Any
    dgroup1: Any
    dgroup2: Any
    dgroup3: Any


def compute_padding_encoding(interval: int, amount: int, elem_bits: int = 16) -> tuple[int, int]:
    """Encoded (interval, amount) of an LDS padding in elements; (0, 0) when either is not positive."""
    if interval <= 0 or amount <= 0:
        return 0, 0
    interval_words, amount_words = interval * elem_bits // 32, amount * elem_bits // 32
    assert interval_words > 0 and interval_words & (interval_words - 1) == 0, (
        f"padding interval of {interval} elements of {elem_bits} bits is not a power of two of dwords"
    )
    return interval_words.bit_length() - 2, amount_words - 1


def compute_warp_distribution(block_shape: Any, num_warps: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How waves split a tile: waves along each mode, outermost first, and each wave's block."""
    warps, rest, i = [1] * len(block_shape), num_warps, 0
    for i in range(len(block_shape)):
        while rest > 1 and 2 * warps[i] <= block_shape[i]:
            warps[i] *= 2
            rest //= 2
    warps[-1] *= rest
    return tuple(warps), tuple(-(-t // w) for t, w in zip(block_shape, warps, strict=True))


# --------------------------------------------------------------------------- values


def _i32(value: Any) -> ir.Value:
    """An i32 value of an int, a DSL integer, an index or an integer value; ints wrap to 32 bits."""
    if isinstance(value, int):
        return _emit.constant(i32_type(), value - 2**32 if value >= 2**31 else value)
    raw = value if isinstance(value, ir.Value) else value.ir_value()
    return _emit.int_resize(raw, i32_type(), True)


def _i64(value: Any) -> ir.Value:
    ty = ir.IntegerType.get_signless(64)
    if isinstance(value, int):
        return _emit.constant(ty, value)
    raw = value if isinstance(value, ir.Value) else value.ir_value()
    return _emit.int_resize(raw, ty, True)


def _words(values: list[Any]) -> ir.Value:
    ty = ir.VectorType.get([len(values)], i32_type())
    return vector.from_elements(ty, [_i32(v) for v in values])


def _zeros(count: int) -> ir.Value:
    return _words([0] * count)


def _lane(group: ir.Value, index: int) -> ir.Value:
    return vector.extract(group, [], [index])


def _replace_lane(group: ir.Value, index: int, value: Any) -> ir.Value:
    return vector.insert(_i32(value), group, [], [index])


def _low(value: Any) -> Any:
    if isinstance(value, int):
        return value & 0xFFFFFFFF
    return arith.trunci(i32_type(), _i64(value))


def _high(value: Any) -> Any:
    if isinstance(value, int):
        return (value >> 32) & 0xFFFFFFFF
    return arith.trunci(i32_type(), arith.shrui(_i64(value), _i64(32)))


def _low16(value: Any) -> Any:
    return value & 0xFFFF if isinstance(value, int) else arith.andi(_i32(value), _i32(0xFFFF))


def _high16(value: Any) -> Any:
    return (value >> 16) & 0xFFFF if isinstance(value, int) else arith.shrui(_i32(value), _i32(16))


def _or(*parts: Any) -> Any:
    """Bitwise or; ints are folded."""
    static, result = 0, None
    for part in parts:
        if isinstance(part, int):
            static |= part
        else:
            result = part if result is None else arith.ori(result, part)
    if result is None:
        return static
    return result if static == 0 else arith.ori(result, _i32(static))


def _shift16(value: Any) -> Any:
    return (value << 16) & 0xFFFFFFFF if isinstance(value, int) else arith.shli(_i32(value), _i32(16))


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(b, int) and b == 0:
        return a
    if isinstance(a, int) and a == 0:
        return b
    return arith.addi(_i64(a), _i64(b))


def _mul(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(b, int) and b == 1:
        return a
    return arith.muli(_i64(a), _i64(b))


def _clamped_difference(bound: Any, start: Any) -> Any:
    """``max(0, bound - start)`` as i32."""
    if isinstance(bound, int) and isinstance(start, int):
        return max(0, bound - start)
    difference = arith.subi(_i32(bound), _i32(start))
    return arith.maxsi(difference, _i32(0))


def _global_address(pointer: Any) -> ir.Value:
    """Address of a pointer, tensor, `!llvm.ptr<1>` or integer as i64."""
    from flydsl.tracing.lazy import llvm

    if isinstance(pointer, Tensor):
        pointer = pointer.iter
    if isinstance(pointer, Pointer):
        pointer = pointer.llvm_ptr
    if isinstance(pointer, ir.Value) and str(pointer.type).startswith("!llvm.ptr"):
        return llvm.ptrtoint(ir.IntegerType.get_signless(64), pointer)
    return _i64(pointer)


def _lds_address(lds: Any, byte_offset: Any) -> Any:
    """LDS byte address of a pointer, tensor, builtin memref or integer, plus an offset, as i32."""
    from flydsl.tracing.lazy import llvm

    if isinstance(lds, Tensor):
        lds = lds.iter
    if isinstance(lds, Pointer):
        lds = lds.llvm_ptr
    if isinstance(lds, ir.Value) and str(lds.type).startswith("!llvm.ptr"):
        base: Any = llvm.ptrtoint(i32_type(), lds)
    elif isinstance(lds, ir.Value) and isinstance(lds.type, ir.MemRefType):
        base = _i32(memref.extract_aligned_pointer_as_index(lds))
    else:
        base = _i32(lds)
    return base if byte_offset is None else arith.addi(base, _i32(byte_offset))


# --------------------------------------------------------------------------- descriptors


def _control_word(mask: Any, elem_bytes: int, barrier: bool, timeout: bool, padding: tuple[int, int, bool]) -> Any:
    interval, amount, enabled = padding
    bits = (elem_bytes.bit_length() - 1) << 16 | int(barrier) << 18 | int(enabled) << 20 | int(timeout) << 21
    bits |= interval << 22 | amount << 25
    return _or(mask & 0xFFFF if isinstance(mask, int) else arith.andi(_i32(mask), _i32(0xFFFF)), bits)


@dsl_loc_tracing
def make_tensor_descriptor_2d(
    global_ptr: Any, lds_memref: Any, global_offset: Any, tensor_shape: Any, strides: Any, tile_shape: Any,
    elem_bytes: int = 2, pad_interval: int = 0, pad_amount: int = 0, num_warps: int = 1, cache_policy: int = 0,
    pred: Any = 1, workgroup_mask: Any = 0, lds_byte_offset: Any = None, for_store: bool = False,
    atomic_barrier_enable: bool = False, early_timeout: bool = False, oob_outer_bound: Any = None,
    oob_inner_bound: Any = None,
) -> TDMDescriptor2D:
    """Descriptor of a two-dimensional tile.

    Args:
        global_offset: (outer, inner) element coordinates of the tile; tile_shape: static extents.
        strides: element strides; the inner one is 1.
        num_warps: waves that share the tile; each moves its block.
        for_store: LDS padding widens the rows of the tile, beyond those of the tensor: a store skips no padding.
        oob_outer_bound, oob_inner_bound: extents beyond which loads give zeros; default: no check.
    """
    del tensor_shape, cache_policy  # part of the published signature; the words do not hold them
    tile_outer, tile_inner = (int(t) for t in tile_shape)
    warps, block = compute_warp_distribution((tile_outer, tile_inner), num_warps)
    wave: Any = 0 if num_warps == 1 else wave_id()
    if num_warps == 1:
        start: tuple[Any, Any] = (0, 0)
    else:
        outer_wave = arith.remui(_i32(wave), _i32(warps[0]))
        inner_wave = arith.divui(_i32(wave), _i32(warps[0]))
        start = (arith.muli(outer_wave, _i32(block[0])), arith.muli(inner_wave, _i32(block[1])))
    stride = strides[0]
    pad = pad_interval > 0 and pad_amount > 0
    row = tile_inner + (pad_amount if pad else 0)
    offset = _add(_mul(_add(global_offset[0], start[0]), stride), _add(global_offset[1], start[1]))
    address = arith.addi(_global_address(global_ptr), _i64(_mul(offset, elem_bytes)))
    lds_offset = _add(_mul(start[0], row), start[1])
    lds = _lds_address(lds_memref, lds_byte_offset)
    if not (isinstance(lds_offset, int) and lds_offset == 0):
        lds = arith.addi(lds, _i32(_mul(lds_offset, elem_bytes)))
    inner_tile = block[1] + (pad_amount if pad and for_store else 0)
    interval, amount = compute_padding_encoding(pad_interval, pad_amount, elem_bytes * 8)
    padding = (interval, amount, pad and not for_store) if not for_store else (0, 0, False)
    if oob_inner_bound is not None:
        assert num_warps == 1 and isinstance(global_offset[1], int) and global_offset[1] == 0, (
            "oob_inner_bound needs num_warps == 1 and an inner offset of 0"
        )
        td0 = _clamped_difference(oob_inner_bound, 0)
    else:
        td0 = block[1]
    td1: Any = block[0]
    if oob_outer_bound is not None:
        first = global_offset[0] if num_warps == 1 else _low(_add(global_offset[0], start[0]))
        td1 = _clamped_difference(oob_outer_bound, first)
    group0 = _words([pred, lds, _low(address), _or(_high(address), _TYPE_BIT)])
    group1 = _words([
        _control_word(workgroup_mask, elem_bytes, atomic_barrier_enable, early_timeout, padding),
        _shift16(_low16(td0)),
        _or(_high16(td0), _shift16(_low16(td1))),
        _or(_high16(td1), _shift16(inner_tile)),
        block[0],
        _low(stride) if isinstance(stride, int) else _i32(stride),
        _low16(_high(stride)) if isinstance(stride, int) else 0,
        0,
    ])
    return TDMDescriptor2D(group0, group1)


@dsl_loc_tracing
def make_tensor_gather_dgroup0(global_ptr: Any, lds_memref: Any, *, index_size: int = 32, lds_byte_offset: Any = None,
                               global_byte_offset: Any = None) -> Any:
    """Group 0 of a gather descriptor. `index_size` is 16 or 32 bits."""
    if index_size not in (16, 32):
        raise ValueError(f"index_size must be 16 or 32, got {index_size}")
    address = _global_address(global_ptr)
    if global_byte_offset is not None:
        address = arith.addi(address, _i64(global_byte_offset))
    flags = 1 | (1 << 30 if index_size == 32 else 0) | _TYPE_BIT
    return _words([flags, _lds_address(lds_memref, lds_byte_offset), _low(address), _or(_high(address), _TYPE_BIT)])


@dsl_loc_tracing
def make_tensor_gather_descriptor(
    global_ptr: Any, lds_memref: Any, row_indices: Any, row_width: int, tensor_dim0: Any, tensor_dim1: Any, stride: Any,
    elem_bytes: int = 1, pad_interval: int = 0, pad_amount: int = 0, index_size: int = 32,
    gather_tile_dim1: Any = None, lds_byte_offset: Any = None, global_byte_offset: Any = None,
    workgroup_mask: Any = 0,
) -> TDMGatherDescriptor:
    """Descriptor that gathers (or scatters) rows: at most 8 indices of 32 bits or 16 of 16 bits.

    Rows at or beyond `tensor_dim1` are out of bounds. `row_width` (elements) times `elem_bytes` is a multiple of 4.
    """
    indices = list(row_indices)
    limit = 8 if index_size == 32 else 16
    if not 1 <= len(indices) <= limit:
        raise ValueError(f"a gather takes 1 to {limit} indices of {index_size} bits, got {len(indices)}")
    if row_width * elem_bytes % 4:
        raise ValueError(f"a row of {row_width} elements of {elem_bytes} bytes is not a multiple of 4 bytes")
    group0 = make_tensor_gather_dgroup0(
        global_ptr, lds_memref, index_size=index_size, lds_byte_offset=lds_byte_offset,
        global_byte_offset=global_byte_offset)
    interval, amount = compute_padding_encoding(pad_interval, pad_amount, elem_bytes * 8)
    padding = (interval, amount, pad_interval > 0 and pad_amount > 0)
    count = len(indices) if gather_tile_dim1 is None else gather_tile_dim1
    group1 = _words([
        _control_word(workgroup_mask, elem_bytes, False, False, padding),
        _shift16(_low16(tensor_dim0)),
        _or(_high16(tensor_dim0), _shift16(_low16(tensor_dim1))),
        _or(_high16(tensor_dim1), _shift16(row_width)),
        count,
        stride if not isinstance(stride, int) else _low(stride),
        0,
        0,
    ])
    if index_size == 16:
        indices += [0] * (-len(indices) % 2)
        words = [_or(_low16(a), _shift16(_low16(b))) for a, b in zip(indices[::2], indices[1::2], strict=True)]
    else:
        words = indices
    words += [0] * (8 - len(words))
    return TDMGatherDescriptor(group0, group1, _words(words[:4]), _words(words[4:]))


# --------------------------------------------------------------------------- issue and wait


def _issue(op: str, groups: list[Any], cache_policy: Any) -> None:
    policy = ir.IntegerAttr.get(i32_type(), int(cache_policy))
    emit(op, groups, {"cachePolicy": policy})


@dsl_loc_tracing
def tensor_load_2d(desc: TDMDescriptor2D, cache_policy: int = 0) -> None:
    """Start the load of a two-dimensional tile into LDS."""
    _issue("tensor.load.to.lds", [desc.dgroup0, desc.dgroup1, _zeros(4), _zeros(4)], cache_policy)


@dsl_loc_tracing
def tensor_store_2d(desc: TDMDescriptor2D, cache_policy: int = 0) -> None:
    """Start the store of a two-dimensional tile from LDS."""
    _issue("tensor.store.from.lds", [desc.dgroup0, desc.dgroup1, _zeros(4), _zeros(4)], cache_policy)


@dsl_loc_tracing
def tensor_load_gather(desc: TDMGatherDescriptor, cache_policy: int = 0) -> None:
    """Start the load of gathered rows into LDS."""
    _issue("tensor.load.to.lds", [desc.dgroup0, desc.dgroup1, desc.dgroup2, desc.dgroup3], cache_policy)


@dsl_loc_tracing
def tensor_store_gather(desc: TDMGatherDescriptor, cache_policy: int = 0) -> None:
    """Start the store of LDS rows to scattered rows."""
    _issue("tensor.store.from.lds", [desc.dgroup0, desc.dgroup1, desc.dgroup2, desc.dgroup3], cache_policy)


def tensor_wait(count: Any = 0) -> None:
    """Wait until at most `count` tensor copies are outstanding."""
    s_wait_tensorcnt(count)


# --------------------------------------------------------------------------- address updates


@dsl_loc_tracing
def add_addr_with_carry(lo: Any, hi: Any, delta_i32: Any) -> tuple[Any, Any]:
    """The 64-bit address words of group 0 plus a byte delta; the type bits of the high word stay."""
    lo, hi, delta = _i32(lo), _i32(hi), _i32(delta_i32)
    new_lo = arith.addi(lo, delta)
    carry = arith.extui(i32_type(), arith.cmpi(arith.CmpIPredicate.ult, new_lo, lo))
    sign = arith.shrsi(delta, _i32(31))
    address = arith.andi(arith.addi(arith.addi(hi, carry), sign), _i32(_HIGH_ADDRESS_MASK))
    return new_lo, arith.ori(address, arith.andi(hi, _i32(_TYPE_MASK)))


def _with_group0(desc: Any, lanes: dict[int, Any]) -> Any:
    group = desc.dgroup0
    for index, value in lanes.items():
        group = _replace_lane(group, index, value)
    return replace(desc, dgroup0=group)


@dsl_loc_tracing
def update_tensor_descriptor_2d_addr_lo(desc: Any, lo: Any) -> Any:
    """A descriptor with another low address word; wraps at 4 GiB."""
    return _with_group0(desc, {2: lo})


@dsl_loc_tracing
def update_tensor_descriptor_2d_addr_lo_hi(desc: Any, lo: Any, hi: Any) -> Any:
    """A descriptor with other address words."""
    return _with_group0(desc, {2: lo, 3: hi})


@dsl_loc_tracing
def update_tensor_descriptor_2d_addr64(desc: Any, lo: Any, hi: Any, delta: Any) -> Any:
    """A descriptor at the address words (`lo`, `hi`) plus `delta` bytes."""
    new_lo, new_hi = add_addr_with_carry(lo, hi, delta)
    return _with_group0(desc, {2: new_lo, 3: new_hi})


@dsl_loc_tracing
def update_tensor_descriptor_2d_lds_addr(desc: Any, lds_addr: Any) -> Any:
    """A descriptor with another LDS address."""
    return _with_group0(desc, {1: lds_addr})


update_tensor_gather_descriptor_addr_lo = update_tensor_descriptor_2d_addr_lo
update_tensor_gather_descriptor_addr_lo_hi = update_tensor_descriptor_2d_addr_lo_hi
update_tensor_gather_descriptor_addr64 = update_tensor_descriptor_2d_addr64


@dsl_loc_tracing
def l2_prefetch_tile(
    global_ptr: Any, global_offset: Any, tile_shape: Any, strides: Any, elem_bytes: int = 2, num_warps: int = 1,
    wave_id: Any = None, thread_id: Any = None, block_threads: int = 256, scope: int = PREFETCH_SCOPE_SE,
) -> None:
    """Each thread prefetches the first column of row ``thread_id % outer`` of a tile.

    `num_warps`, `wave_id` and `block_threads` are part of the published signature and unused.
    """
    from flydsl.tracing.lazy import llvm

    from .. import gpu

    del num_warps, wave_id, block_threads
    thread = gpu.thread_idx.x.ir_value() if thread_id is None else _i32(thread_id)
    row = arith.remui(_i32(thread), _i32(int(tile_shape[0])))
    offset = _add(_mul(_add(global_offset[0], row), strides[0]), global_offset[1])
    address = arith.addi(_global_address(global_ptr), _i64(_mul(offset, elem_bytes)))
    pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr<1>"), address)
    global_prefetch(pointer, scope)
