"""What the configurations of all matrix products share: the tile of a workgroup, its waves, and what these take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig
from .index import div, mod
from .lane import Lane
from .matrix import MatrixOp
from .reduce import Lds

__all__ = ["ProductConfig"]


@dataclass(frozen=True, kw_only=True)
class ProductConfig(KernelConfig):
    """Products of `n` columns over a reduction of `k`; sizes in elements unless said. Rows are given at the launch.

    Attributes:
        tile_m, tile_n: tile of a workgroup.
        m_waves, n_waves: arrangement of the waves; `k_waves` such groups share a tile's k.
        stages: LDS buffers.
    """

    n: int
    k: int
    tile_m: int
    tile_n: int
    m_waves: int = 1
    n_waves: int = 4
    k_waves: int = 1
    stages: int = 2

    @property
    def op(self) -> MatrixOp:
        """The matrix instruction."""
        raise NotImplementedError

    # ---------------------------------------------------------------- waves

    @property
    def waves(self) -> int:
        return self.m_waves * self.n_waves * self.k_waves

    @property
    def threads(self) -> int:
        return self.waves * self.wave

    def wave_of(self, lane: Lane) -> tuple[Any, Any]:
        """Number of a lane's wave among those along the rows, and along the columns. Waves that share k follow those of
        a whole tile."""
        if self.m_waves == self.k_waves == 1:
            return 0, lane.wave
        rest = div(lane.wave, self.n_waves)
        row = rest if self.k_waves == 1 else mod(rest, self.m_waves) if self.m_waves > 1 else 0
        return row, mod(lane.wave, self.n_waves)

    def wave_place(self, lane: Lane) -> tuple[Any, Any]:
        """First row and column of a wave in the tile."""
        row, column = self.wave_of(lane)
        return row * (self.m_repeat * 16), column * (self.n_repeat * 16)

    def wave_k(self, lane: Lane) -> Any:
        """Which share of a tile's k a lane's wave has."""
        return 0 if self.k_waves == 1 else div(lane.wave, self.m_waves * self.n_waves)

    # ---------------------------------------------------------------- registers

    @property
    def m_repeat(self) -> int:
        """16-row tiles of a wave."""
        return self.tile_m // (16 * self.m_waves)

    @property
    def n_repeat(self) -> int:
        """16-column tiles of a wave."""
        return self.tile_n // (16 * self.n_waves)

    @property
    def n_tiles(self) -> int:
        """Accumulators of a row of tiles."""
        return self.n_repeat

    @property
    def sums(self) -> int:
        """Registers of a lane for them all."""
        return self.m_repeat * self.n_tiles * self.op.acc_len

    @property
    def waves_of_simd(self) -> int:
        """Waves of gfx1250 that share the registers of a SIMD; 0: as many as have the usual ones."""
        return 0

    @property
    def hints(self) -> dict[str, Any]:
        """Attributes of the kernel for the compiler, which keeps gfx1250 to the usual registers unless it knows how
        many waves a SIMD has."""
        return {"rocdl.waves_per_eu": self.waves_of_simd} if self.target.tensor_moves and self.waves_of_simd else {}

    # ---------------------------------------------------------------- LDS

    def stage_bytes(self, stage: int) -> int:
        """Of a stage of what goes through LDS."""
        return 0

    @property
    def sum_bytes(self) -> int:
        """Of the sums of all but the first of the `k_waves`, which come to the first stage after the loop."""
        return (self.k_waves - 1) * self.tile_m * self.tile_n * self.n_tiles // self.n_repeat * 4

    @property
    def lds_bytes(self) -> int:
        return sum(self.stage_bytes(stage) for stage in range(self.stages))

    def stages_in(self, memory: Lds) -> list[Any]:
        """An array for each stage that has any: what is copied to one stage then cannot alias reads of another, and
        needs no waits."""
        sizes = [self.stage_bytes(stage) // 4 for stage in range(self.stages)]
        return [memory.array(fx.Int32, size).ptr for size in sizes if size]
