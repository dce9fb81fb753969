"""Sorting of routed tokens by expert: a stable counting sort, in integers, of entries (token, slot).

Entries are dealt to workgroups in consecutive shares. One workgroup is one launch; for several, the shares are counted
first, and then each knows from the counts where its rows begin. A counting workgroup has a group of neighbouring shares
and notes after each what it has counted so far: a share reads one row of counts of each group, and that of the share
before. Within 256 entries, the place of an entry among those of its expert is the number of bits before its own in a
mask of LDS, so that the order does not depend on when atomics arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS
from ..op import Result
from ..parts.epilogue import FAR
from ..parts.index import align_up, cdiv, div, mod
from ..parts.memory import WORDS, Buffer, pointer, write_at
from ..parts.reduce import Lds
from ..route.kernel import RouteConfig, choose
from ..target import Target, builder

__all__ = [
    "MAX_TOKENS", "SortConfig", "build_moe_sorting_module", "capacity", "launch_sort",
    "most_blocks", "shares", "sort_config", "sort_workspace", "sorted_arrays",
]

ROUND = 256  # entries whose places are found together
MASK_WORDS = ROUND // 32  # of the mask of a round
ONE_SHOT = 256  # entries that one workgroup sorts
MOST_SHARES = 256
LEAST_SHARES = 32  # of several: those without entries help to fill the padding
GROUP = 8  # shares that a workgroup counts; as many rounds of entries are then on their way at once
MAX_TOKENS = 1 << 24  # a row is (slot << 24) | token
MAX_EXPERTS = 1024
MAX_SLOTS = 127
NO_ROW = -(1 << 31)  # of experts that a mask excludes: with all of its entries still negative
TOGETHER = 16  # counts of groups that are on their way at once


def most_blocks(entries: int, experts: int, block: int) -> int:
    """Blocks of rows that there can be: no expert has padding that has no row, and all blocks are whole."""
    return (entries + min(experts, entries) * (block - 1)) // block


def capacity(tokens: Any, topk: int, experts: int, block: int) -> Any:
    """Rows that sorting may need: each expert's are padded to whole blocks."""
    return tokens * topk + experts * block - topk


def sorted_arrays(tokens: int, topk: int, experts: int, block: int) -> dict[str, Result]:
    """The four results of sorting, and the workspace if it takes some."""
    rows, words = capacity(tokens, topk, experts, block), sort_workspace(tokens, topk, experts)
    found = {"sorted_ids": Result((rows,), "i32"), "sorted_weights": Result((rows,), "f32"),
             "sorted_experts": Result((cdiv(rows, block),), "i32"), "valid": Result((2,), "i32")}
    return {**found, "counts": Result((words,), "i32")} if words else found


def shares(tokens: int, topk: int) -> tuple[int, int]:
    """(workgroups, rounds of 256 entries of each) for a number of tokens."""
    rounds = max(cdiv(tokens * topk, ROUND), 1)
    if tokens * topk <= ONE_SHOT:
        return 1, rounds
    each = cdiv(rounds, MOST_SHARES)
    return align_up(max(cdiv(rounds, each), LEAST_SHARES), GROUP), each


def sort_workspace(tokens: int, topk: int, experts: int) -> int:
    """i32 of the workspace."""
    count = shares(tokens, topk)[0]
    return count * experts if count > 1 else 0


@dataclass(frozen=True)
class SortConfig(KernelConfig):
    """How routed tokens are sorted.

    Attributes:
        experts, topk, block: E, k, and the rows to which those of an expert are padded.
        mask: whether there is a mask of local experts.
        limited: whether the number of tokens is read from memory.
        one: one workgroup sorts everything.
        route: how tokens are routed, where that is part of it.
    """

    experts: int
    topk: int
    block: int
    mask: bool = False
    limited: bool = False
    one: bool = True
    route: RouteConfig | None = None

    @property
    def threads(self) -> int:
        """A thread for each expert at least."""
        return align_up(max(self.experts, ROUND), 64)

    @property
    def lds_bytes(self) -> int:
        return (self.experts * (MASK_WORDS + 3) + 2 * 16) * 4

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (m,)

    def extents(self, tokens: Any, counts: Any) -> dict[str, Extent]:
        """What a launch of `counts` workgroups takes of its operands."""
        tokens = fx.Int64(tokens)
        entries, rows = tokens * self.topk, capacity(tokens, self.topk, self.experts, self.block)
        found = {"sorted_ids": Extent(rows, fx.Int32), "sorted_weights": Extent(rows, fx.Float32),
                 "sorted_experts": Extent(fx.ceildiv(rows, self.block), fx.Int32), "valid": Extent(2, fx.Int32)}
        if self.route is None:
            found.update(ids=Extent(entries, fx.Int32), weights=Extent(entries, fx.Float32))
        else:
            found["logits"] = self.route.extents(tokens)["logits"]
        if self.mask:
            found["mask"] = Extent(self.experts, fx.Int32)
        if self.limited:
            found["local_tokens"] = Extent(1, fx.Int32)
        if not self.one:
            found["counts"] = Extent(fx.Int64(counts) * self.experts, fx.Int32)
        return found


def sort_config(where: str, target: Target, experts: int, topk: int, block: int, **options: Any) -> SortConfig:
    """A checked configuration. ValueError says what is not supported."""
    require(where, 1 <= experts <= MAX_EXPERTS, f"1 to {MAX_EXPERTS} experts are supported, got {experts}")
    require(where, 1 <= topk <= MAX_SLOTS, f"topk must be in 1 .. {MAX_SLOTS}, got {topk}")
    require(where, block >= 1, f"the block must be positive, got {block}")
    return SortConfig(experts, topk, block, target=target, **options).fitting(where)


def _tokens(tensors: dict[str, Any], tokens: Any, config: SortConfig) -> Any:
    """The tokens that count."""
    if not config.limited:
        return tokens
    return fx.min(Buffer(tensors["local_tokens"], fx.Int32, None, 1).load(0, 1)[0], tokens)


def _is_expert(expert: Any, config: SortConfig) -> Any:
    return (expert >= 0) & (expert < config.experts)


@flyc.jit
def _cleared_tables(config, lds, number):
    """Zeros in LDS for each expert, in so many tables."""
    tables = [lds.array(fx.Int32, config.experts) for _ in range(number)]
    if fx.thread_idx.x < config.experts:
        for table in tables:
            table[fx.thread_idx.x] = fx.Int32(0)
    fx.lds_barrier()
    return tables


@flyc.jit
def _count(expert, exists, config, table):
    """Count the thread's expert, if there is one."""
    if exists & (fx.thread_idx.x < ROUND) & _is_expert(expert, config):
        fx.atomic_add(table.ptr + expert, fx.Int32(1), syncscope="workgroup")


@flyc.jit
def _histogram(ids, entries, places, config, tables):
    """Count the experts of a round from each of `places` on in a table of its own; all are on their way at once."""
    places = [at + fx.thread_idx.x for at in places]
    found = [ids.load(at, 1)[0] for at in places]
    for at, expert, table in zip(places, found, tables, strict=True):
        _count(expert, at < entries, config, table)


def _rows_of(tensors: dict[str, Any], tokens: Any, config: SortConfig) -> tuple[Any, tuple[Buffer, Buffer]]:
    """Rows that there may be, and their names and weights."""
    rows = capacity(tokens, config.topk, config.experts, config.block)
    return rows, (Buffer(tensors["sorted_ids"], fx.Int32, None, rows),
                  Buffer(tensors["sorted_weights"], fx.Float32, None, rows))


@flyc.jit
def _fill(tensors, tokens, share, counts, config):
    """Padding in all rows, each workgroup its part: what sorting leaves of it stays."""
    rows, (names, weights) = _rows_of(tensors, tokens, config)
    thread, name, weight = fx.thread_idx.x, fx.Int32(config.topk << 24) | tokens, fx.Float32(0.0)
    whole = rows - mod(rows, WORDS)
    for i in range((share * config.threads + thread) * WORDS, whole, counts * (config.threads * WORDS)):
        names.store(fx.Int32(i), fx.full(WORDS, name, fx.Int32))
        weights.store(fx.Int32(i), fx.full(WORDS, weight, fx.Float32))
    if (share == 0) & (whole + thread < rows):
        names.store_one(whole + thread, name)
        weights.store_one(whole + thread, weight)


@flyc.kernel
def _count_kernel(tensors, tokens: fx.Int32, rounds: fx.Int32, config: fx.Constexpr):
    """Count the experts of a group of shares: the row of a share is of those before it in the group, and of its own.
    Rows that get no other name are filled here, so that they are before any gets one."""
    thread, experts, lds = fx.thread_idx.x, config.experts, Lds()
    entries, first = _tokens(tensors, tokens, config) * config.topk, fx.block_idx.x * GROUP
    ids = Buffer(tensors["ids"], fx.Int32, None, tokens * config.topk)
    tables = _cleared_tables(config, lds, GROUP)
    for r in range(rounds):
        places = [((first + j) * rounds + fx.Int32(r)) * ROUND for j in fx.range_constexpr(GROUP)]
        _histogram(ids, entries, places, config, tables)
    _fill(tensors, tokens, fx.block_idx.x, fx.grid_dim.x, config)
    fx.lds_barrier()
    if thread < experts:
        counts, total = Buffer(tensors["counts"], fx.Int32, None, fx.grid_dim.x * (GROUP * experts)), fx.Int32(0)
        for j in fx.range_constexpr(GROUP):
            total = total + tables[j][thread]
            counts.store_one((first + j) * experts + thread, total)


@flyc.jit
def _counted(tensors, first, last, config):
    """Rows of this thread's expert in the groups of shares from `first` to before `last`."""
    total, size = fx.Int32(0), GROUP * config.experts
    source = Buffer(tensors["counts"], fx.Int32, None, last * size)
    place = fx.thread_idx.x + (size - config.experts)  # in the row of a group's last share
    for i in range(first, last, TOGETHER):  # past the last group there are zeros
        loaded = [source.load(place, 1, (fx.Int32(i) + j) * size)[0] for j in fx.range_constexpr(TOGETHER)]
        for count in loaded:
            total = total + count
    return total


@flyc.jit
def _totals(tensors, shares, share, table, config):
    """(rows of this thread's expert, those of shares before, and whether it is local: 1 or 0)."""
    thread = fx.thread_idx.x
    total, before, is_local = fx.Int32(0), fx.Int32(0), fx.Int32(0)
    if thread < config.experts:
        if fx.const_expr(config.one):
            total = table[thread]
        else:
            group, size = div(share, GROUP), config.experts
            in_group = Buffer(tensors["counts"], fx.Int32, None, share * size).load(
                (mod(share, GROUP) > 0).select((share - 1) * size + thread, FAR // 4), 1)[0]
            before = _counted(tensors, 0, group, config)
            total = before + _counted(tensors, group, div(shares, GROUP), config)
            before = before + in_group
        if fx.const_expr(config.mask):
            mask = Buffer(tensors["mask"], fx.Int32, None, config.experts)
            is_local = (mask.load(thread, 1)[0] != 0).select(fx.Int32(1), 0)
            total = total * is_local
    return total, before, is_local


@flyc.jit
def _scan(value, config, lds):
    """(sum over the threads before, sum over all) of an i32."""
    scan = fx.coop.BlockScan[fx.Int32, config.threads]
    return scan.exclusive_with_aggregate(value, fx.ReductionOp.ADD, storage=lds.storage(scan))


@flyc.jit
def _place_round(first, entry, entries, base, bits, out, config):
    """Write the rows of 256 of the `entries` from `first` on, from the first free row of each expert in `base`: there
    is none, and it is negative, where a mask excludes the expert.

    Args:
        entry: (expert, weight) of this thread.
        bits: a mask of 256 bits an expert, as rows of words.
        out: ids and weights.
    """
    thread, experts = fx.thread_idx.x, config.experts
    (expert, weight), at = entry, first + thread
    takes = (thread < ROUND) & (at < entries) & _is_expert(expert, config)
    token = div(at, config.topk)
    name = ((at - token * config.topk) << 24) | token
    for i in range(thread, MASK_WORDS * experts, config.threads):
        bits[fx.Int32(i)] = fx.Int32(0)
    fx.lds_barrier()
    word, bit = div(thread, 32), fx.Int32(1) << mod(thread, 32)
    if takes:
        fx.atomic_or(bits.ptr + (word * experts + expert), bit, syncscope="workgroup")
    fx.lds_barrier()
    rank, count, row = fx.Int32(0), fx.Int32(0), fx.Int32(0)
    if takes:
        for w in fx.range_constexpr(MASK_WORDS):
            mask = bits[expert + w * experts]
            count = count + fx.math.ctpop(mask)
            mine = (word == w).select(mask & (bit - 1), (word > w).select(mask, 0))
            rank = rank + fx.math.ctpop(mine)
        row = base[expert] + rank
        if row >= 0:
            out[0].store_one(row, name)
            out[1].store_one(row, weight)
    fx.lds_barrier()
    if takes & (rank == count - 1):
        base[expert] = row + 1
    # The next round clears the mask, which nobody reads any more; the rows are read after two barriers.


@flyc.jit
def _block_experts(tensors, share, counts, start, blocks, valid, number, config):
    """The experts of blocks, each workgroup its part."""
    experts = Buffer(tensors["sorted_experts"], fx.Int32, None, blocks)
    for i in range(share * config.threads + fx.thread_idx.x, blocks, counts * config.threads):
        row = fx.Int32(i) * config.block
        low, high = fx.Int32(0), fx.Int32(config.experts)
        for _ in fx.range_constexpr((config.experts - 1).bit_length()):
            # The last expert that starts at the row or before; of those that share a start only it has rows.
            middle = div(low + high, 2)
            below = start[fx.min(middle, config.experts - 1)] <= row
            low = ((middle < high) & below).select(middle, low)
            high = ((middle < high) & ~below).select(middle, high)
        experts.store_one(fx.Int32(i), (row < valid).select(number[low], -1))


def align(count: Any, block: int) -> Any:
    """A value of the trace, rounded up to a multiple."""
    return div(count + (block - 1), block) * block


@flyc.jit
def _clear(tensors, share, config):
    """Zero the output buffer, with the workgroups that do not sort."""
    threads, start = config.threads, pointer(tensors["clear"], fx.Int32)
    for i in range(share * threads + fx.thread_idx.x, tensors["chunks"], tensors["groups"] * threads):
        write_at(start + fx.Int64(i) * WORDS, fx.full(WORDS, 0, fx.Int32))


@flyc.jit
def _routed(tensors, tokens, config, lds):
    """Route the tokens: this thread's expert and weight, once they are those of entries in LDS."""
    route, thread = config.route, fx.thread_idx.x
    ids, weights = lds.array(fx.Int32, ROUND), lds.array(fx.Float32, ROUND)
    local, lane = div(thread, route.lanes), mod(thread, route.lanes)
    source = Buffer(tensors["logits"], FLOATS[route.dtype], None, tokens * route.experts)
    chosen = choose(route, source, None, local, lane, thread, lds)
    if (lane == 0) & (local < tokens):
        for j in fx.range_constexpr(route.topk):
            ids[local * route.topk + j] = chosen[j][1]
            weights[local * route.topk + j] = chosen[j][0]
    fx.lds_barrier()
    found, weight = fx.Int32(-1), fx.Float32(0.0)
    if thread < tokens * route.topk:
        found, weight = ids[thread], weights[thread]
    return found, weight


@flyc.kernel
def _sort_kernel(tensors, tokens: fx.Int32, counts: fx.Int32, rounds: fx.Int32, config: fx.Constexpr):
    """Write the rows of a share, and this workgroup's part of the rest."""
    thread, share, lds = fx.thread_idx.x, fx.block_idx.x, Lds()
    if share >= counts:
        if fx.const_expr("clear" in tensors):
            _clear(tensors, share - counts, config)
        return
    topk, experts = config.topk, config.experts
    limit = _tokens(tensors, tokens, config)
    entries, first = limit * topk, share * rounds * ROUND
    ids: Any = None
    weights: Any = None
    if fx.const_expr(config.route is None):
        ids = Buffer(tensors["ids"], fx.Int32, None, tokens * topk)
        weights = Buffer(tensors["weights"], fx.Float32, None, tokens * topk)
        found, weight = ids.load(first + thread, 1)[0], weights.load(first + thread, 1)[0]
    else:
        found, weight = _routed(tensors, tokens, config, lds)
    table: Any = None
    if fx.const_expr(config.one):
        (table,) = _cleared_tables(config, lds, 1)
        _count(found, first + thread < entries, config, table)
        _fill(tensors, tokens, share, counts, config)
        if fx.const_expr(config.route is None):
            for r in range(1, rounds, GROUP):
                starts = [first + (fx.Int32(r) + j) * ROUND for j in fx.range_constexpr(GROUP)]
                _histogram(ids, entries, starts, config, [table] * GROUP)
        fx.barrier()  # rows are filled, too, before any gets a name
    total, before, is_local = _totals(tensors, counts, share, table, config)
    offset, valid = _scan(align(total, config.block), config, lds)
    start, base = (lds.array(fx.Int32, experts) for _ in range(2))
    number = fx.Int32(thread)
    if fx.const_expr(config.mask):
        number, _ = _scan(is_local, config, lds)
    numbers = lds.array(fx.Int32, experts)
    if thread < experts:
        start[thread], numbers[thread] = offset, number
        base[thread] = (total > 0).select(offset + before, NO_ROW)
    bits = lds.array(fx.Int32, MASK_WORDS * experts)
    rows, out = _rows_of(tensors, tokens, config)
    if (share == 0) & (thread == 0):
        valid_out = Buffer(tensors["valid"], fx.Int32, None, 2)
        valid_out.store_one(0, valid)
        valid_out.store_one(1, limit)
    places = base, bits, out
    if fx.const_expr(config.one):  # its first round is mostly the only one
        _place_round(first, (found, weight), entries, *places, config)
        first, rounds = first + ROUND, rounds - 1
        if fx.const_expr(config.route is None):
            found, weight = ids.load(first + thread, 1)[0], weights.load(first + thread, 1)[0]
    if fx.const_expr(config.route is None):
        for r in range(rounds):
            at, entry = first + fx.Int32(r) * ROUND, (found, weight)
            if fx.Int32(r) + 1 < rounds:  # those of the next round are on their way meanwhile
                found, weight = ids.load(at + ROUND + thread, 1)[0], weights.load(at + ROUND + thread, 1)[0]
            _place_round(at, entry, entries, *places, config)
    fx.lds_barrier()
    blocks = div(rows + (config.block - 1), config.block)
    _block_experts(tensors, share, counts, start, blocks, valid, numbers, config)


@flyc.jit
def launch_sort(tensors, tokens, counts, rounds, config, stream, clear=(None, 0, 0)):
    """From a jit function: sort with `counts` workgroups of `rounds` rounds, as :func:`shares` gives them. A call is
    refused whose operands do not fit.

    Args:
        tensors: ids, weights (or logits), sorted_ids, sorted_weights, sorted_experts, valid, and as configured counts,
            mask, local_tokens.
        clear: memory to be zeroed or None, its chunks of 16 bytes, and further workgroups that do it.
    """
    config.target.require_traced()
    if fx.const_expr(not config.one):
        counting = div(counts + (GROUP - 1), GROUP)
        counts = counting * GROUP  # those past the last entry are empty
    require_operands(tensors, config.extents(tokens, counts))
    if fx.const_expr(not config.one):
        _count_kernel(tensors, tokens, rounds, config).launch(grid=counting, block=config.threads, stream=stream)
    groups = counts
    if fx.const_expr(clear[0] is not None):
        tensors = dict(tensors, **dict(zip(("clear", "chunks", "groups"), clear, strict=True)))
        groups = counts + clear[2]
    _sort_kernel(tensors, tokens, counts, rounds, config).launch(grid=groups, block=config.threads, stream=stream)


@builder
def build_moe_sorting_module(num_experts: int, topk: int, block: int = 32, one: bool = True, has_mask: bool = False,
                             limited: bool = False, *, target: Target):
    """``launch(ids, weights, sorted_ids, sorted_weights, sorted_experts, valid, mask, local_tokens, counts, clear,
    tokens, shares, rounds, clear_chunks, clear_groups, stream=None)``.

    ids i32 and weights f32 are (tokens, topk). With C = tokens topk + E block - topk: sorted_ids i32[C] and
    sorted_weights f32[C]; sorted_experts i32[ceil(C / block)], valid i32[2]; see :func:`flydsl.kernels.ops.moe_sort`.
    mask i32[E] and local_tokens i32[1] are read as configured, counts i32[shares E], with the shares rounded up to a
    multiple of 8, is written unless `one`; clear is zeroed (16 `clear_chunks` bytes) by `clear_groups` further
    workgroups. None stands for what is not used.

    Raises:
        ValueError: an argument is not supported.
    """
    config = sort_config("build_moe_sorting_module", target, num_experts, topk, block, mask=has_mask, limited=limited,
                         one=one)

    @flyc.jit
    def moe_sorting(ids, weights, sorted_ids, sorted_weights, sorted_experts, valid, mask, local_tokens, counts, clear,
                    tokens: fx.Int32, groups: fx.Int32, rounds: fx.Int32, clear_chunks: fx.Int32,
                    clear_groups: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        tensors = dict(ids=ids, weights=weights, sorted_ids=sorted_ids, sorted_weights=sorted_weights,
                       sorted_experts=sorted_experts, valid=valid, mask=mask, local_tokens=local_tokens, counts=counts)
        launch_sort(tensors, tokens, groups, rounds, config, stream, (clear, clear_chunks, clear_groups))

    moe_sorting.config = config  # type: ignore[attr-defined]  # what the launcher was built from, for tools
    return moe_sorting
