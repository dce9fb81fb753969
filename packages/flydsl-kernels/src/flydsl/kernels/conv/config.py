"""What a convolution kernel computes and how a workgroup covers it, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS
from ..parts.index import align_up, cdiv
from ..target import Target

__all__ = ["BLOCK_K", "CHUNK", "ConvConfig", "make_config"]

Three = tuple[int, int, int]
ONE, NONE = (1, 1, 1), (0, 0, 0)
BLOCK_K = 64  # of the reduction, a tile
CHUNK = 8  # 16-bit channels of one access: 16 bytes
STAGES = 2
THREADS = 256
TILES = ((128, 128), (128, 64), (64, 64))
SUPPORTED = ("gfx942", "gfx950", "gfx120", "gfx1250")


@dataclass(frozen=True)
class ConvConfig(KernelConfig):
    """An implicit GEMM: rows are output positions (n, d, h, w), columns output channels, k is (tap, channel).

    Attributes:
        dtype: ``"f16"`` or ``"bf16"``.
        block_m, block_n: tile of a workgroup.
        stride, padding, dilation: along (d, h, w). Padding is that before the first element, and may be negative.
        upsample: the input has so many positions less one of zeros between its elements (a transposed convolution).
        taps, channels: of the filter, and of the input, a multiple of 8; None: they are given at the launch.
        bias: an f32 of each output channel is added.
    """

    dtype: str
    block_m: int
    block_n: int
    stride: Three = ONE
    padding: Three = NONE
    dilation: Three = ONE
    upsample: Three = ONE
    taps: Three | None = None
    channels: int | None = None
    bias: bool = False

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def lds_bytes(self) -> int:
        return STAGES * (self.block_m + self.block_n) * BLOCK_K * 2

    @property
    def element(self) -> Any:
        """Element class of input, filter and output."""
        return FLOATS[self.dtype]

    def tiled_mma(self) -> Any:
        """The matrix instruction, over the waves of the workgroup."""
        found = self.target
        waves = THREADS // found.wave
        across = fx.make_layout((2, waves // 2, 1), (1, 2, 0))
        if found.matrix == "wmma":
            atom = fx.rocdl.WMMA(16, 16, 32 if found.arch == "gfx1250" else 16, self.element)
            return fx.make_tiled_mma(fx.make_mma_atom(atom), across)
        if found.half_k == 32:
            return fx.make_tiled_mma(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, self.element)), across)
        # 32 values of k are taken in the order in which a 16-byte chunk feeds two instructions.
        atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, self.element))
        return fx.make_tiled_mma(atom, across, fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))))

    def tiled_copy(self) -> Any:
        """How the threads bring chunks to a tile of LDS."""
        return fx.make_tiled_copy_tv(
            fx.make_copy_atom(fx.UniversalCopy128b(), self.element),
            fx.make_ordered_layout((THREADS * CHUNK // BLOCK_K, BLOCK_K // CHUNK), (1, 0)),
            fx.make_ordered_layout((1, CHUNK), (1, 0)))


def make_config(where: str, target: Target, dtype: str, m: int, columns: int, **what: Any) -> ConvConfig:
    """A checked configuration with a tile for `m` rows and `columns` columns.

    Raises:
        ValueError: the architecture or an option is not supported.
    """
    target.require(where, *SUPPORTED)
    require(where, dtype in ("f16", "bf16"), f"dtype must be 'f16' or 'bf16', got {dtype!r}")
    config = ConvConfig(dtype, *_tile(target, m, columns), **what, target=target)
    for name in ("stride", "dilation", "upsample"):
        require(where, min(getattr(config, name)) >= 1, f"{name} must be positive, got {getattr(config, name)}")
    channels = config.channels
    require(where, channels is None or (channels >= CHUNK and channels % CHUNK == 0),
            f"channels must be a multiple of {CHUNK}, got {channels}")
    return config.fitting(where)


def _tile(target: Target, m: int, columns: int) -> tuple[int, int]:
    """The largest tile that does not waste half of itself and leaves a workgroup for most compute units."""
    for block_m, block_n in TILES:
        wasted = align_up(columns, block_n) * 2 > columns * 3 or m * 2 < block_m
        if not wasted and cdiv(m, block_m) * cdiv(columns, block_n) * 2 >= target.compute_units:
            return block_m, block_n
    return TILES[-1]
