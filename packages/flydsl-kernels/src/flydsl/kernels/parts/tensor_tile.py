"""Tiles that the tensor moves of gfx1250 bring to LDS: no registers, rows padded against bank conflicts.

A move is one instruction of one wave; waves 0 and 1 issue those of the two operands. Both execute the same instruction
with a descriptor of their own, and the other waves one that moves nothing, so that the main loop has no branches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx
from flydsl.expr.rocdl import tdm_ops

from .index import div, mod
from .indices import uniform
from .lane import Lane
from .mainloop import KTile, Ring
from .memory import lds_read
from .operand import Fragments
from .tile import CHUNK_BYTES

__all__ = ["GatheredRows", "TensorMoves", "TensorTile"]

WORD_BYTES = 4  # of an element of a move
WAVE, LANE_GROUPS = 32, 2  # lanes of a wave, of which 16 are a group
MOVED_ROWS = 8  # of a gather
LONGEST_RUN = 1024  # bytes between two paddings that a descriptor can express
NUMBERED = 2  # stages of a ring whose number is known where they are read; that of a longer one is computed


@dataclass(frozen=True)
class TensorTile:
    """`rows` x `row_bytes` of an operand.

    Attributes:
        padded: 16 bytes are left out in LDS after every run of a power of two of bytes, so that the same bytes of 16
            rows lie in different banks.
    """

    rows: int
    row_bytes: int
    padded: bool

    @property
    def run(self) -> int:
        """Bytes between two paddings."""
        return min(self.row_bytes & -self.row_bytes, LONGEST_RUN)

    @property
    def pitch(self) -> int:
        """Bytes from a row to the next in LDS."""
        return self.row_bytes + (self.row_bytes // self.run * CHUNK_BYTES if self.padded else 0)

    @property
    def bytes(self) -> int:
        """Of LDS."""
        return self.rows * self.pitch

    @property
    def padding(self) -> tuple[int, int]:
        """Words of a run, and those that are left out behind it."""
        return (self.run // WORD_BYTES, CHUNK_BYTES // WORD_BYTES) if self.padded else (0, 0)

    def at(self, row: int, byte: int) -> int:
        """LDS offset of a byte of a row."""
        return row * self.pitch + byte + (byte // self.run * CHUNK_BYTES if self.padded else 0)

    def descriptor(self, source: Any, row: Any, rows: Any, stride: int, lds: Any, mask: Any = 0) -> Any:
        """Descriptor of the move to `lds` from the rows of `source`, `stride` bytes apart, that begin with `row`.

        Rows from `rows` on read as zero. `mask` has a bit for each workgroup of the cluster that shares the tile.
        """
        shape = (self.rows, self.row_bytes // WORD_BYTES)
        return tdm_ops.make_tensor_descriptor_2d(source, lds, (row, 0), shape, (stride // WORD_BYTES, 1), shape,
                                                 WORD_BYTES, *self.padding, workgroup_mask=mask,
                                                 oob_outer_bound=rows)

    def fragments(self, ring: Any, stage_bytes: int, lane: Any, tile_rows: int, slab: int = 1, spread: int = 1,
                  stages: int = NUMBERED) -> Fragments:
        """Fragments of a lane whose first chunk is at byte `lane` of a stage; `tile_rows` rows of this tile are 16 rows
        of the operand, and a block of k is the chunks of two lane groups of `slab` of its rows. A lane group has
        `spread` chunks side by side, of as many blocks. The numbers of `stages` stages are known."""
        first, words = div(lane, 4), stage_bytes // 4
        # In registers before the loop: otherwise an address for each part of the tile is, since reads reach 64 KiB.
        numbered = [fx.rocdl.computed_here(first + stage * words) for stage in range(stages)]

        def read(stage: Any, tile: int, block: int) -> Any:
            chunk = block // spread * spread * LANE_GROUPS + block % spread
            at = self.at(tile * tile_rows, chunk * (CHUNK_BYTES * slab))
            return lds_read(ring + (numbered[stage] if isinstance(stage, int) else first + stage * words), at // 4)

        return Fragments(read)


class TensorMoves:
    """The moves of two operands to a stage of LDS, and the wait for them.

    In a cluster every workgroup moves what it needs, and the moves of a shared tile reach all that share it. So all
    must be done with a stage before one moves to it again, and with all moves before one of them ends.

    Args:
        descriptors: of tile 0 to stage 0.
        steps: bytes from a tile to the next, of each operand.
        stage_bytes: from a stage of LDS to the next.
        waves: of the workgroup.
        wave: number of this wave, the same in all lanes.
    """

    def __init__(self, descriptors: tuple[Any, Any], steps: tuple[int, int], stage_bytes: int, waves: int,
                 wave: Any) -> None:
        self._stage_bytes = stage_bytes
        if waves == 1:
            groups = [(d.dgroup0, d.dgroup1, step) for d, step in zip(descriptors, steps, strict=True)]
        else:
            first = wave == 0
            a, b = descriptors
            start = fx.arith.select(first, a.dgroup0, b.dgroup0)
            shape = fx.arith.select(first, a.dgroup1, b.dgroup1)
            groups = [(start, shape, first.select(fx.Int32(steps[0]), fx.Int32(steps[1])))]
        self._moves = [(fx.Vector(start, (4,), fx.Int32), shape, step) for start, shape, step in groups]
        self._valid = fx.Int32(1) if waves == 1 else (wave < 2).to(fx.Int32)

    @property
    def count(self) -> int:
        """Moves of a wave for a tile."""
        return len(self._moves)

    def issue(self, t: KTile, stage: Any, which: range) -> None:
        """Start the moves `which` of a tile to a stage; both are the same in all lanes."""
        tile = t.index
        for start, shape, step in (self._moves[i] for i in which):
            low, high = tdm_ops.add_addr_with_carry(start[2], start[3], tile * step)
            words = self._valid, start[1] + stage * self._stage_bytes, fx.Int32(low), fx.Int32(high)
            # Chosen by the number of the wave they are in vector registers, and would all be read from there.
            group = fx.Vector.from_elements([uniform(word) for word in words], fx.Int32)
            tdm_ops.tensor_load_2d(tdm_ops.TDMDescriptor2D(group, shape))


class GatheredRows:
    """Rows of any place of a matrix on their way to a ring of stages of LDS: each wave moves a share of them,
    ``MOVED_ROWS`` at a time by their numbers. Rows that do not exist, also negative ones, and what is past the end of
    a row read as zero.

    Args:
        data: pointer to words; `rows` rows of `stride` bytes.
        row_of: ``row_of(i)`` is the row of the matrix that row i of the tile is.
        ring: LDS of `stages` tiles; a tile is there two before it is multiplied.
        waves: of the workgroup.
    """

    def __init__(self, tile: TensorTile, data: Any, rows: Any, stride: int, row_of: Callable[[Any], Any], ring: Any,
                 stages: int, waves: int, lane: Lane) -> None:
        self._tile, self._words, self._ring, self._stages = tile, stride // WORD_BYTES, ring, stages
        share = tile.rows // waves
        first = lane.wave * share
        lanes = min(share, WAVE)
        mine, self._moves = [row_of(first + i + mod(lane.lane, lanes)) for i in range(0, share, lanes)], []
        for row in range(0, share, MOVED_ROWS):
            numbers = [fx.rocdl.readlane(fx.T.i32, mine[i // lanes], fx.Int32(i % lanes))
                       for i in range(row, min(row + MOVED_ROWS, share))]
            self._moves.append(tdm_ops.make_tensor_gather_descriptor(
                data, ring + (first + row) * (tile.pitch // WORD_BYTES), numbers, tile.row_bytes // WORD_BYTES,
                self._words, rows, self._words, WORD_BYTES, *tile.padding))

    @property
    def source(self) -> Ring:
        """For the main loop, which knows the numbers of all stages."""
        count = len(self._moves)
        return Ring(self.issue, count, count, fx.rocdl.s_wait_tensorcnt, vector=False, lead=2)

    def fragments(self, lane: Lane, start: Any, spread: int = 1) -> Fragments:
        """Fragments of a lane: those of tile 0 begin with row `start`; a lane group has `spread` chunks side by side.
        """
        first = (lane.row + start) * self._tile.pitch + lane.group * (spread * CHUNK_BYTES)
        return self._tile.fragments(self._ring, self._tile.bytes, first, 16, spread=spread, stages=self._stages)

    def issue(self, t: KTile, stage: int, which: range) -> None:
        """Start the moves `which` of a tile to a stage."""
        first, shape = fx.Vector(self._moves[0].dgroup0, (4,), fx.Int32), self._shape(t)
        near = first.shuffle(first, [2, 3]).bitcast(fx.Int64)[0]  # with the bits that say what it is, above all
        far = fx.Vector.from_elements([near + fx.Int64(t.index * self._tile.row_bytes)], fx.Int64).bitcast(fx.Int32)
        words = [first[0], first[1] + stage * self._tile.bytes, far[0], far[1]]
        for i in which:
            # One after the other in the same registers: there are not as many as stages times moves.
            start = fx.rocdl.scalars_here(fx.Vector.from_elements(words, fx.Int32))
            tdm_ops.tensor_load_gather(replace(self._moves[i], dgroup0=start, dgroup1=shape))
            words = [start[0], start[1] + MOVED_ROWS * self._tile.pitch, start[2], start[3]]

    def _shape(self, t: KTile) -> Any:
        """The group that says how large a tile is; past the end of a row nothing is left of it."""
        shape, words = fx.Vector(self._moves[0].dgroup1, (8,), fx.Int32), self._tile.row_bytes // WORD_BYTES
        if self._words % words == 0:
            return shape
        left = fx.max(self._words - t.index * words, 0)
        sizes = [shape[0], left << 16, shape[2] & -(1 << 16) | left >> 16, *(shape[i] for i in range(3, 8))]
        return fx.Vector.from_elements(sizes, fx.Int32)
