"""Operands and the main loop in a kernel of one's own: gathered rows of A, and B of one expert of several."""

from dataclasses import dataclass
from typing import Any

import pytest
from kernel_helpers import GENERAL_GEMM, Guarded, close_relative, needs, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.kernels.host.config import KernelConfig
from flydsl.kernels.parts.epilogue import Epilogue, TilePlace, store_tile
from flydsl.kernels.parts.index import cdiv
from flydsl.kernels.parts.lane import lane_of
from flydsl.kernels.parts.mainloop import SPLIT_BARRIER, WHOLE_BARRIER, Held, MainLoop, Ring, Staged
from flydsl.kernels.parts.matrix import MatrixOp, matrix_op
from flydsl.kernels.parts.memory import Buffer, pointer
from flydsl.kernels.parts.operand import Fragments, Rows, Shuffled
from flydsl.kernels.parts.products import TileProducts
from flydsl.kernels.parts.reduce import Lds
from flydsl.kernels.parts.schedule import Tally
from flydsl.kernels.parts.tensor_tile import GatheredRows, TensorTile
from flydsl.kernels.parts.tile import RowTile
from flydsl.kernels.target import target

BF16 = 2.0**-8
NOBODY = -1  # in a list of tokens: a row of zeros


@dataclass(frozen=True)
class GroupedConfig(KernelConfig):
    """A tile of 32 x 64 x 64 by 2 x 2 waves; the grid is (lists of rows, columns)."""

    k: int
    direct: bool = False
    held: bool = False
    shuffled: bool = False
    stages: int = 2
    moved: bool = False
    split: bool = False

    @property
    def op(self) -> MatrixOp:
        return matrix_op(self.target, "bf16")

    @property
    def threads(self) -> int:
        return 4 * self.target.wave

    def tile(self, rows: int) -> RowTile:
        return RowTile(rows, 64 * 2, self.threads, 256 if self.target.dma128 else 128)


class HoldingProducts(TileProducts):
    """Products that need what is held, of which they add nothing."""

    def of(self, t, stage, held, last):
        multiply, nothing = super().of(t, stage, held, last), held[0][0].to(fx.Float32) * 0.0

        def holding(acc, part, fragments):
            acc = multiply(acc, part, fragments)
            return [acc[0] + fx.full_like(acc[0], nothing), *acc[1:]] if part == 0 else acc

        return holding


@flyc.kernel
def grouped_kernel(c, a, b, rows, experts, tokens: fx.Int32, n: fx.Constexpr, config: fx.Constexpr):
    """C[list, i, :] = A[rows[list, i], :] B[experts[list]]^T."""
    op, lane, memory, tally = config.op, lane_of(config.target.wave), Lds(), Tally()
    group, column = fx.block_idx.x, fx.block_idx.y * 64
    expert = Buffer(experts, fx.Int32, None, 1 << 20).load(group, 1)[0]
    start = fx.Int64(expert) * (n * config.k * 2)
    a_tile, b_tile = config.tile(32), config.tile(64)
    stages = [memory.array(fx.Int32, a_tile.words + b_tile.words).ptr for _ in fx.range_constexpr(config.stages)]
    tokens_of = Buffer(rows, fx.Int32, None, 1 << 20)
    left = Rows(a, a_tile, stages, lane, rows_total=tokens, row_bytes=config.k * 2,
                row_of=lambda i: tokens_of.load(group * 32 + i, 1)[0])
    wave_m, wave_n = lane.wave % 2, lane.wave // 2
    of_a = left.reader(lane, wave_m * 16, op.groups)
    if fx.const_expr(config.shuffled):
        strips = Shuffled(b, lane, column=column, strip_words=config.k * 8, tile_strips=4, blocks=2, start=start,
                          strips=[wave_n * 2, wave_n * 2 + 1])
        sources: Any = [Held(lambda t, _: strips.fetch(t), strips.loads), Staged(left)]
        of_b = Fragments(lambda held, strip, block: held[0][strip][block], reads=0)
    else:
        right = Rows(b, b_tile, [stage + a_tile.words for stage in stages], lane, row=column, rows_total=fx.Int32(n),
                     row_bytes=config.k * 2, start=start)
        of_b = right.reader(lane, wave_n * 32, op.groups)
        sources = [Staged(left), Staged(right)]
        if fx.const_expr(config.direct):
            sources = [Ring(left.copy, left.loads, left.loads), Ring(right.copy, right.loads, 1)]
        if fx.const_expr(config.held):  # loads that may be older than the last copies of the next tile
            sources = [Held(lambda t, _: tokens_of.load(t.index, 1), 1), *sources]
        if fx.const_expr(config.moved):
            tile = TensorTile(32, 64 * 2, True)
            gathered = GatheredRows(tile, pointer(a, fx.Int32), tokens, config.k * 2,
                                    lambda i: tokens_of.load(group * 32 + i, 1)[0],
                                    memory.array(fx.Int32, config.stages * tile.bytes // 4).ptr, config.stages, 4,
                                    lane_of(config.target.wave, scalar=True))
            of_a = gathered.fragments(lane, wave_m * 16)
            sources = [gathered.source, Staged(right, 3, 2) if config.split else Staged(right)]
    calls = 64 * 2 // op.block_bytes // op.blocks
    kind = HoldingProducts if config.held else TileProducts
    products = kind(op, tally, 1, 2, calls, of_a, of_b)
    barrier = SPLIT_BARRIER if config.split else WHOLE_BARRIER
    acc = MainLoop(cdiv(config.k, 64), config.stages, sources, products, tally, config.stages, barrier=barrier).run()
    place = TilePlace(32, n, fx.Int32(0), 32, [wave_m * 16 + lane.row],
                      [column + wave_n * 32 + ni * 16 + lane.group * op.acc_len for ni in fx.range_constexpr(2)])
    store_tile(pointer(c, fx.BFloat16) + group * (32 * n), fx.BFloat16, acc, Epilogue(), place)


def build(n: int, config: GroupedConfig) -> Any:
    @flyc.jit
    def grouped(c, a, b, rows, experts, tokens: fx.Int32, lists: fx.Int32):
        grouped_kernel(c, a, b, rows, experts, tokens, n, config).launch(grid=(lists, n // 64), block=config.threads)

    return grouped


def check(k: int, *, experts: int = 3, n: int = 128, tokens: int = 19, weight=None, **options: Any) -> None:
    lists = 4
    config = GroupedConfig(k, target=target(), **options)
    a, b = random(tokens, k, dtype="bf16"), random(experts, n, k, dtype="bf16", seed=1)
    generator = torch.Generator().manual_seed(k)
    rows = torch.randint(0, tokens, (lists, 32), generator=generator, dtype=torch.int32)
    rows[1, 5:] = NOBODY
    rows[2, 0] = tokens  # none either
    chosen = torch.tensor([2, 0, 1, 2], dtype=torch.int32)
    out = Guarded(lists * 32, n, dtype=torch.bfloat16)
    with rt.checked("oob", "race") as report:
        build(n, config)(out.out, a, weight(b) if weight else b, rows, chosen, tokens, lists)
        rt.synchronize()
    assert not report.findings, report.findings[0].message
    exists = (rows >= 0) & (rows < tokens)
    picked = a.double()[rows.clamp(0, tokens - 1).long()] * exists[..., None]
    exact = picked @ b.double()[chosen.long()].transpose(1, 2)
    close_relative(out.check().view(lists, 32, n), exact, BF16 * 1.01)


@needs(*GENERAL_GEMM)
@pytest.mark.parametrize("k", [64, 128, 448])
def test_gathered_rows_times_one_of_several_weights(k):
    check(k)


@needs("gfx950")
@pytest.mark.parametrize("k", [64, 128, 448])
@pytest.mark.parametrize("stages", [2, 3])
def test_gathered_rows_by_direct_copies(k, stages):
    check(k, direct=True, stages=stages)


@needs("gfx950")
@pytest.mark.parametrize("stages", [2, 3])
def test_direct_copies_beside_loads_into_registers(stages):
    check(448, direct=True, stages=stages, held=True)


@needs("gfx1250")
@pytest.mark.parametrize("k", [64, 128, 416, 448, 640])  # of 416, the last tile goes past the end of a row
@pytest.mark.parametrize("split", [False, True])
def test_rows_gathered_by_tensor_moves(k, split):
    """With a barrier in one piece, and with one in halves, between which the last part of a tile is multiplied."""
    check(k, moved=True, stages=4, split=split)


@needs("gfx1250")
def test_every_count_of_gathers_is_the_largest(monkeypatch):
    """One more in flight, and the simulator finds a tile that is read before it is there."""
    monkeypatch.setattr(GatheredRows, "source", property(
        lambda rows: Ring(rows.issue, 1, 1, lambda n: fx.rocdl.s_wait_tensorcnt(n + 1), vector=False, lead=2)))
    with pytest.raises(AssertionError, match="no wait for its end"):
        check(704, moved=True, stages=4, split=True)


def test_a_barrier_in_halves_needs_tiles_that_are_there_before():
    with pytest.raises(ValueError, match="sources with a lead of two"):
        MainLoop(4, 3, [Staged(None)], None, Tally(), 3, barrier=(lambda: None, lambda: None))


@needs("gfx942", "gfx950")
@pytest.mark.parametrize("k", [64, 320])
def test_shuffled_weight_of_one_expert(k):
    from flydsl.kernels.gemm import shuffle_weight

    check(k, shuffled=True, weight=lambda b: torch.stack([shuffle_weight(x) for x in b]))
