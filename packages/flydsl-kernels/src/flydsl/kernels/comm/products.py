"""Matrix products fused with collectives, tile by tile: what a tensor-parallel layer does in one launch.

* ``sum over the ranks of a w^T``, whole (`all_reduce`) or this rank's rows (`reduce_scatter`): a workgroup computes its
  tile, leaves it in its rank's shared memory, meets the workgroups of the other ranks that have the same tile, and adds
  up. While it waits and reads, other workgroups compute: transport hides behind the products of other tiles.
* ``gathered(a) w^T`` (`all_gather`): a workgroup has rows of one rank and some of the columns. On that rank it copies
  the rows to shared memory; behind the barrier all ranks multiply them where they lie.

Workgroups wait only for those of the same number, and a device starts them in the order of their numbers: the lowest
that has not ended runs on every rank, so there is always one that can go on, however many fit a device at once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..gemm.dense import DenseConfig, dense_config, dense_loop
from ..gemm.tuned import whole_knobs
from ..host.config import require
from ..parts.epilogue import Epilogue, store_tile
from ..parts.index import cdiv, div, mod
from ..parts.lane import lane_of
from ..parts.memory import WORDS, Buffer, float_element, pointer
from ..parts.reduce import Lds
from ..target import Target
from .peers import HEADER, PLACES, Peers

__all__ = ["KINDS", "PeerProduct", "build_peer_product", "peer_product"]

KINDS = ("all_reduce", "reduce_scatter", "all_gather")
_KNOBS = ("block_m", "block_n", "block_k", "stages", "m_waves", "n_waves", "tile_ahead")
PACK = 8  # elements of 16 bits that are summed at a time


@dataclass(frozen=True)
class PeerProduct:
    """A product of `kind` over `ranks`; `groups` workgroups share the columns of the same gathered rows."""

    kind: str
    ranks: int
    gemm: DenseConfig
    groups: int = 1

    def row_blocks(self, m: Any) -> Any:
        """Blocks of m rows, or of the rows of each rank where they are gathered."""
        return fx.ceildiv(m, self.gemm.tile_m) if not isinstance(m, int) else cdiv(m, self.gemm.tile_m)

    @property
    def column_blocks(self) -> int:
        return cdiv(self.gemm.n, self.gemm.tile_n)

    def workgroups(self, m: int) -> int:
        """Of a launch for m rows of a."""
        across = self.ranks * self.groups if self.kind == "all_gather" else self.column_blocks
        return self.row_blocks(m) * across

    def shared_bytes(self, m: int) -> int:
        """Of each rank's memory."""
        return m * 2 * (self.gemm.k * self.groups if self.kind == "all_gather" else self.gemm.n)


def peer_product(where: str, target: Target, kind: str, ranks: int, m: int, n: int, k: int, dtype: str,
                 bias: bool, most_bytes: int) -> PeerProduct:
    """The configuration for operands (m, k) and (n, k), of which at most `most_bytes` are exchanged. ValueError says
    what is not supported in one kernel."""
    require(where, dtype in ("f16", "bf16"), f"f16 and bf16 are supported, got {dtype}")
    require(where, kind != "reduce_scatter" or m % ranks == 0, f"{m} rows must be a multiple of the {ranks} ranks")
    require(where, n % PACK == 0 and k % PACK == 0 and m > 0, f"n and k must be multiples of {PACK}, got {n} and {k}")
    knobs = {name: value for name, value in whole_knobs(target, m, n, k).items() if name in _KNOBS}
    gemm = dense_config(where, target, n=n, k=k, dtype=dtype, out_dtype=dtype, layout="nt", bias=bias, scheduled=True,
                        use_async=None, **knobs)
    config = PeerProduct(kind, ranks, gemm)
    if kind == "all_gather":
        rows = config.workgroups(m)
        config = replace(config, groups=max(min(config.column_blocks, target.compute_units // rows, PLACES // rows,
                                                most_bytes // config.shared_bytes(m)), 1))
    require(where, config.workgroups(m) <= PLACES,
            f"{config.workgroups(m)} tiles, at most {PLACES} workgroups can wait for each other")
    require(where, config.shared_bytes(m) <= most_bytes,
            f"{config.shared_bytes(m)} bytes are exchanged, at most {most_bytes} fit")
    return config


@flyc.jit
def _sum_tile(tensors, peers, row, column, share, rank, config):
    """Add up a tile that all ranks have left in their memory, where this rank wants it."""
    gemm, element = config.gemm, config.gemm.out
    wide = gemm.tile_n // PACK
    rows = fx.min(peers.rows - row, gemm.tile_m)
    sent = [Buffer(peers.group.base(r, fx.Int32, HEADER), fx.Int32, None, fx.Int64(peers.rows) * (gemm.n // 2))
            for r in fx.range_constexpr(config.ranks)]
    first = rank * share if fx.const_expr(config.kind == "reduce_scatter") else fx.Int32(0)
    out = Buffer(tensors["c"], fx.Int32, None, fx.Int64(share) * (gemm.n // 2))
    for at in range(fx.thread_idx.x, rows * wide, gemm.threads):
        r, c = row + div(at, wide), column + mod(at, wide) * PACK
        if (r >= first) & (r < first + share) & (c < gemm.n):
            word = (r * gemm.n + c) // 2
            terms = [s.load(word, WORDS).bitcast(element).to(fx.Float32) for s in sent]
            total = functools.reduce(lambda a, b: a + b, terms)
            if fx.const_expr(gemm.bias):
                kind = float_element(tensors["bias"], fx.Float32)
                total = total + Buffer(tensors["bias"], kind, None, gemm.n).load(c, PACK).to(fx.Float32)
            out.store(((r - first) * gemm.n + c) // 2, total.to(element).bitcast(fx.Int32))


@dataclass(frozen=True)
class _Left:
    """The ranks, and how many rows each has left in its memory."""

    group: Peers
    rows: Any


@flyc.kernel
def sum_product_kernel(tensors, m: fx.Int32, share: fx.Int32, bases, rank: fx.Int32, signature: fx.Int32,
                       limit: fx.Int32, config: fx.Constexpr):
    """`share` rows of C: all m, or those of this rank."""
    gemm, peers = config.gemm, Peers(bases, rank, config.ranks, signature, limit)
    row = div(fx.block_idx.x, config.column_blocks) * gemm.tile_m
    column = mod(fx.block_idx.x, config.column_blocks) * gemm.tile_n
    lane = lane_of(gemm.target.wave)
    acc = dense_loop(tensors, m, row, column, gemm.stages_in(Lds()), lane, gemm).run()
    store_tile(peers.base(rank, gemm.out, HEADER), gemm.out, acc, Epilogue(), gemm.place(m, row, column, lane))
    peers.meet()
    _sum_tile(tensors, _Left(peers, m), row, column, share, rank, config)
    peers.meet()


@flyc.kernel
def gathered_product_kernel(tensors, m: fx.Int32, bases, rank: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                            config: fx.Constexpr):
    """C of the rows of all ranks, m of each."""
    gemm, peers = config.gemm, Peers(bases, rank, config.ranks, signature, limit)
    group, rest = mod(fx.block_idx.x, config.groups), div(fx.block_idx.x, config.groups)
    source, row = mod(rest, config.ranks), div(rest, config.ranks) * gemm.tile_m
    words = gemm.k // 2
    copied = fx.Int64(group) * (fx.Int64(m) * (words * 4))  # a copy for every group: barriers do not wait for others
    if source == rank:
        rows = fx.min(m - row, gemm.tile_m)
        x = Buffer(tensors["a"], fx.Int32, fx.Int64(row) * words, rows * words)
        shared = peers.payload(rank, fx.Int32, copied + fx.Int64(row) * (words * 4), rows * words)
        for at in range(fx.thread_idx.x * WORDS, rows * words, gemm.threads * WORDS):
            shared.store(at, x.load(at, WORDS))
    peers.meet()
    stages, lane = gemm.stages_in(Lds()), lane_of(gemm.target.wave)
    whole = pointer(tensors["c"], gemm.out) + fx.Int64(source) * (fx.Int64(m) * gemm.n)
    given = {**tensors, "a": peers.base(source, gemm.out, copied + HEADER)}
    epilogue = gemm.finish(tensors, m, "bias" if gemm.bias else "none")
    for block in range(group, fx.Int32(config.column_blocks), config.groups):
        acc = dense_loop(given, m, row, block * gemm.tile_n, stages, lane, gemm).run()
        store_tile(whole, gemm.out, acc, epilogue, gemm.place(m, row, block * gemm.tile_n, lane))
        fx.barrier()  # the next tile uses the same LDS
    peers.meet()


@functools.cache  # the configuration has the target
def build_peer_product(config: PeerProduct) -> Any:
    """``launch(C, A, B, bias, M, share, bases, rank, signature, limit, blocks, stream=None)``.

    A (M, K) and B (N, K) row-major; C has `share` rows, or M of each rank where they are gathered; `bias` any tensor
    if there is none; `blocks` is ``config.workgroups(M)``. See :class:`flydsl.kernels.comm.peers.Peers` for the rest.
    """

    @flyc.jit
    def product(C, A, B, bias, M: fx.Int32, share: fx.Int32, bases, rank: fx.Int32, signature: fx.Int32,  # noqa: N803
                limit: fx.Int32, blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config.gemm.target.require_traced()
        tensors = {"c": C, "a": A, "b": B, "bias": bias}
        if fx.const_expr(config.kind == "all_gather"):
            gathered_product_kernel(tensors, M, bases, rank, signature, limit, config).launch(
                grid=blocks, block=config.gemm.threads, stream=stream)
        else:
            sum_product_kernel(tensors, M, share, bases, rank, signature, limit, config).launch(
                grid=blocks, block=config.gemm.threads, stream=stream)

    return product
