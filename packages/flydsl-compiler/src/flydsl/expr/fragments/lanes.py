"""Exchanges of a 32-bit register between the lanes of a wave, by the cheapest instruction that makes them.

A *source map* says for every lane from which lane it reads; None where the result does not matter. The instructions
are tried from cheap to dear: none, data-parallel primitives (DPP), row permutes, `ds_swizzle`, `ds_bpermute`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import llvm

from .. import gpu
from .._target import arch_row, target_arch
from ..numeric import Boolean, Int32
from ..rocdl.utils import call_intrinsic, emit, i32_type

SourceMap = tuple[int | None, ...]

ROW = 16       # lanes of a row, within which DPP moves
_ALL = 0xF     # all rows, all banks
# DPP controls of the ISA manuals ("DPP_CTRL enumeration").
_ROW_ROR, _ROW_MIRROR, _ROW_HALF_MIRROR, _ROW_SHARE, _ROW_XMASK = 0x120, 0x140, 0x141, 0x150, 0x160
# Issue cycles relative to a vector instruction; exchanges through the LDS crossbar also make the wave wait.
VECTOR_COST, CROSSBAR_COST = 1, 4


@dataclass(frozen=True)
class Exchange:
    """How one register is exchanged.

    Args:
        name: 'none', 'dpp', 'permlane', 'swizzle' or 'bpermute'. cost: relative to a vector instruction.
        emit: i32 value -> i32 value.
    """

    name: str
    cost: int
    emit: Callable[[ir.Value], ir.Value]


def _matches(wanted: SourceMap, offered: Iterator[int] | list[int]) -> bool:
    return all(w is None or w == o for w, o in zip(wanted, offered, strict=True))


def find_exchange(source: SourceMap, arch: str | None = None) -> Exchange:
    """The cheapest exchange for a source map on an architecture (default: that of the trace)."""
    return _find(source, arch or target_arch())


@functools.lru_cache(maxsize=1024)
def _find(source: SourceMap, arch: str) -> Exchange:
    lanes = range(len(source))
    if _matches(source, list(lanes)):
        return Exchange("none", 0, lambda value: value)
    control = _dpp_control(source, arch)
    if control is not None:
        return Exchange("dpp", VECTOR_COST, lambda value: _dpp(value, control))
    found = _row_permute(source, arch) or _half_swap(source, arch) or _swizzle(source)
    return found or Exchange("bpermute", CROSSBAR_COST, lambda value: _bpermute(value, source))


# --------------------------------------------------------------------------- data-parallel primitives


def _dpp_control(source: SourceMap, arch: str) -> int | None:
    lanes = range(len(source))
    quad: list[int | None] = [None] * 4
    for lane, wanted in enumerate(source):
        if wanted is None:
            continue
        if wanted // 4 != lane // 4 or quad[lane % 4] not in (None, wanted % 4):
            break
        quad[lane % 4] = wanted % 4
    else:
        return sum((k if q is None else q) << 2 * k for k, q in enumerate(quad))
    for n in range(1, ROW):
        if _matches(source, [lane // ROW * ROW + (lane - n) % ROW for lane in lanes]):
            return _ROW_ROR + n
    for control, mask in ((_ROW_MIRROR, 15), (_ROW_HALF_MIRROR, 7)):
        if _matches(source, [lane ^ mask for lane in lanes]):
            return control
    has_xmask = arch_row(arch).has("row_permutes")
    for n in range(ROW):
        if _matches(source, [lane // ROW * ROW + n for lane in lanes]):
            return _ROW_SHARE + n  # row_newbcast on gfx90a and later CDNA
        if has_xmask and n and _matches(source, [lane ^ n for lane in lanes]):
            return _ROW_XMASK + n
    return None


def _dpp(value: ir.Value, control: int) -> ir.Value:
    # Every lane has a source, so the old value never shows; with bound_ctrl the move folds into its user.
    return call_intrinsic("llvm.amdgcn.update.dpp", [value, value, control, _ALL, _ALL, Boolean(True)], i32_type())


# --------------------------------------------------------------------------- permutes of rows and halves


def _row_permute(source: SourceMap, arch: str) -> Exchange | None:
    """One permutation of every row, of the row itself or of the other one of a pair (RDNA, gfx1250)."""
    if not arch_row(arch).has("row_permutes"):
        return None
    for cross in (0, ROW):
        select: list[int | None] = [None] * ROW
        for lane, wanted in enumerate(source):
            if wanted is None:
                continue
            if wanted // ROW != (lane ^ cross) // ROW or select[lane % ROW] not in (None, wanted % ROW):
                break
            select[lane % ROW] = wanted % ROW
        else:
            picks = [k if s is None else s for k, s in enumerate(select)]
            words = [sum(p << 4 * k for k, p in enumerate(picks[i : i + 8])) for i in (0, 8)]
            name = "llvm.amdgcn.permlanex16" if cross else "llvm.amdgcn.permlane16"

            def move(value: ir.Value, name: str = name, words: list[int] = words) -> ir.Value:
                low, high = (Int32(w - (w >> 31 << 32)) for w in words)
                return call_intrinsic(name, [value, value, low, high, Boolean(False), Boolean(True)], i32_type())

            return Exchange("permlane", VECTOR_COST, move)
    return None


def has_half_swap(arch: str, distance: int) -> bool:
    """Whether two registers can swap their rows (distance 16) or halves (32) in one instruction."""
    return distance in (16, 32) and arch_row(arch).has("row_swaps")


def half_swap(value: ir.Value, distance: int) -> tuple[ir.Value, ir.Value]:
    """(value of the lane whose bit `distance` is 0, value of the one where it is 1), of every pair of lanes."""
    pair = ir.Type.parse("!llvm.struct<(i32, i32)>")
    swapped = call_intrinsic(f"llvm.amdgcn.permlane{distance}.swap", [value, value, Boolean(False), Boolean(False)],
                             pair)
    low, high = (llvm.extractvalue(i32_type(), swapped, ir.DenseI64ArrayAttr.get([i])) for i in (0, 1))
    return low, high


def _half_swap(source: SourceMap, arch: str) -> Exchange | None:
    for distance in (16, 32):
        if has_half_swap(arch, distance) and _matches(source, [lane ^ distance for lane in range(len(source))]):

            def move(value: ir.Value, distance: int = distance) -> ir.Value:
                low, high = half_swap(value, distance)
                is_high = lanes_where([lane for lane in range(len(source)) if lane & distance], len(source))
                return choose(is_high, low, high)

            return Exchange("permlane", 3 * VECTOR_COST, move)
    return None


# --------------------------------------------------------------------------- through the LDS crossbar


def _swizzle(source: SourceMap) -> Exchange | None:
    """``ds_swizzle``: ``((lane & and) | or) ^ xor`` within 32 lanes."""
    known = [(lane, wanted) for lane, wanted in enumerate(source) if wanted is not None]
    if any(wanted // 32 != lane // 32 for lane, wanted in known):
        return None
    fields = [0, 0, 0]  # and, or, xor
    for bit in range(5):
        pairs = {(lane >> bit & 1, wanted >> bit & 1) for lane, wanted in known}
        for masks in ((1, 0, 0), (1, 0, 1), (0, 0, 0), (0, 0, 1)):
            if all(((x & masks[0]) | masks[1]) ^ masks[2] == y for x, y in pairs):
                fields = [f | m << bit for f, m in zip(fields, masks, strict=True)]
                break
        else:
            return None
    pattern = fields[2] << 10 | fields[1] << 5 | fields[0]

    def move(value: ir.Value) -> ir.Value:
        return call_intrinsic("llvm.amdgcn.ds.swizzle", [value, pattern], i32_type())

    return Exchange("swizzle", CROSSBAR_COST, move)


def _bpermute(value: ir.Value, source: SourceMap) -> ir.Value:
    lane = gpu.lane_id()
    address = _index_of_lane(source, lane) * 4
    return emit("ds_bpermute", [address.ir_value(), value], result=i32_type())


def _index_of_lane(source: SourceMap, lane: Any) -> Any:
    """A table of lane numbers as arithmetic on the number of the lane."""
    wave = len(source)
    first = next((s ^ i for i, s in enumerate(source) if s is not None), 0)
    if all(s is None or s == i ^ first for i, s in enumerate(source)):
        return lane ^ first
    shift = next((s - i for i, s in enumerate(source) if s is not None), 0)
    if all(s is None or s == i + shift for i, s in enumerate(source)):
        return lane + shift
    table = [i if s is None else s for i, s in enumerate(source)]
    bases = [table[1 << b] ^ table[0] for b in range(wave.bit_length() - 1)]

    def linear(i: int) -> int:
        out = table[0]
        for b, base in enumerate(bases):
            out ^= base if i >> b & 1 else 0
        return out

    result = Int32(table[0])
    if all(linear(i) == t for i, t in enumerate(table)):
        moves: dict[int, int] = {}
        for b, base in enumerate(bases):
            for to in range(wave.bit_length() - 1):
                if base >> to & 1:
                    moves[to - b] = moves.get(to - b, 0) | 1 << b
        for by, mask in sorted(moves.items()):
            bits = lane & mask
            result = result ^ (bits << by if by > 0 else bits >> -by if by < 0 else bits)
        return result
    result = Int32(0)
    for b in range(wave.bit_length() - 1):
        has_bit = lanes_where([i for i, t in enumerate(table) if t >> b & 1], wave)
        result = result | has_bit.select(Int32(1 << b), Int32(0))
    return result


# --------------------------------------------------------------------------- predicates of lanes


def lanes_where(lanes: Iterable[int], wave: int) -> Any:
    """Boolean that is true in these lanes: a constant mask in scalar registers."""
    mask = sum(1 << lane for lane in lanes)
    if mask in (0, (1 << wave) - 1):
        return Boolean(bool(mask))
    i = ir.IntegerType.get_signless(wave)
    from .. import _emit

    raw = call_intrinsic("llvm.amdgcn.inverse.ballot", [_emit.constant(i, mask)], ir.IntegerType.get_signless(1))
    return Boolean(raw)


def choose(condition: Any, if_true: ir.Value, if_false: ir.Value) -> ir.Value:
    """Select of two registers by a predicate."""
    from flydsl.tracing.lazy import arith

    if isinstance(condition, Boolean) and condition.is_static():
        return if_true if condition.value else if_false
    return arith.select(condition.ir_value(), if_true, if_false)
