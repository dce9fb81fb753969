"""What a convolution kernel computes and how a workgroup covers it, as one frozen value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import Extent
from ..host.dtypes import FLOATS
from ..host.tuned import known
from ..parts.index import align_up, cdiv
from ..target import MATRIX_ARCHS, Target

__all__ = ["BLOCK_K", "CHUNK", "ConvConfig", "choose_splits", "make_config"]

Three = tuple[int, int, int]
ONE, NONE = (1, 1, 1), (0, 0, 0)
BLOCK_K = 64  # of the reduction, a tile
CHUNK = 8  # 16-bit channels of one access: 16 bytes
STAGES = 2
THREADS = 256
TILES = ((128, 128), (128, 64), (64, 64))
FEWEST_TILES, MOST_SPLITS = 8, 16  # tiles of k that are worth a workgroup, and how many may share an output tile


@dataclass(frozen=True)
class ConvConfig(KernelConfig):
    """An implicit GEMM: rows are output positions (n, d, h, w), columns output channels, k is (tap, channel).

    Attributes:
        dtype: of input and filter: ``"f16"``, ``"bf16"`` or ``"fp8"``, of which two are a *word* wherever they are
            moved: channels, chunks and tiles are counted in words of 16 bits.
        block_m, block_n: tile of a workgroup.
        stride, padding, dilation: along (d, h, w). Padding is that before the first element, and may be negative.
        upsample: the input has so many positions less one of zeros between its elements (a transposed convolution).
        taps, channels: of the filter, and of the input, a multiple of 8 words; None: they are given at the launch.
        bias: an f32 of each output channel is added.
        splits: workgroups that share the k of a tile; their sums in f32 are added by a second kernel.
        sums: the output is f32 [positions, channels], without a bias.
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
    splits: int = 1
    sums: bool = False

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def lds_bytes(self) -> int:
        return STAGES * (self.block_m + self.block_n) * BLOCK_K * 2

    @property
    def word(self) -> Any:
        """Class of 16 bits by which input and filter are moved."""
        return fx.BFloat16 if self.dtype == "fp8" else FLOATS[self.dtype]

    @property
    def element(self) -> Any:
        """Class of input and filter where they are multiplied."""
        return self.target.fp8 if self.dtype == "fp8" else FLOATS[self.dtype]

    @property
    def per_word(self) -> int:
        """Elements of a word."""
        return 2 if self.dtype == "fp8" else 1

    @property
    def out(self) -> Any:
        """Class of the output."""
        return fx.Float32 if self.sums else self.word

    def tiles(self, sizes: Mapping[str, Any]) -> Any:
        """Tiles of k of a launch."""
        if self.taps is None:
            return sizes["tiles"]
        return cdiv(math.prod(self.taps) * (self.channels or sizes["c"]), BLOCK_K)

    def extents(self, sizes: Mapping[str, Any], groups: Any) -> dict[str, Extent]:
        """What a launch takes of its operands, in words; `sizes` are those of ``conv_kernel``.

        The positions of a last image that is not whole are not counted in the input.
        """
        m, outputs = sizes["m"], fx.Int64(groups) * sizes["n"]
        volume = fx.Int64(sizes["do"]) * sizes["ho"] * sizes["wo"]
        whole = m // fx.max(volume, 1)
        rest = m - whole * volume
        channels = self.channels or sizes["c"]
        of_group = whole * sizes["d"] * sizes["h"] * sizes["w"] * channels
        read = fx.max(sizes["zeros"] + CHUNK, (fx.Int64(groups) - 1) * sizes["image"] + of_group)
        written = whole * outputs * volume + (rest > 0).select((outputs - 1) * volume + rest, 0)
        found = {"x": Extent(read, self.word), "w": Extent(outputs * self.tiles(sizes) * BLOCK_K, self.word),
                 "y": Extent(written, self.out)}
        if self.bias:
            found["bias"] = Extent(outputs, fx.Float32)
        if self.splits > 1:
            found["parts"] = Extent(outputs * m * self.splits, fx.Float32)
        return found

    def tiled_mma(self) -> Any:
        """The matrix instruction, over the waves of the workgroup."""
        found = self.target
        waves = THREADS // found.wave
        across = fx.make_layout((2, waves // 2, 1), (1, 2, 0))
        if self.dtype == "fp8" and found.tensor_moves:  # 8 bytes of A lie together
            return fx.make_tiled_mma(fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 64, self.element)), across)
        if self.dtype == "fp8":  # a 16-byte chunk feeds two instructions, 8 bytes each
            depth, matrix = (16, fx.rocdl.WMMA) if found.matrix == "wmma" else (32, fx.rocdl.MFMA)
            order = fx.make_layout((8, depth // 8, 2), (1, 16, 8))
            atom = fx.make_mma_atom(matrix(16, 16, depth, self.element))
            return fx.make_tiled_mma(atom, across, fx.make_tile(None, None, order))
        if found.matrix == "wmma":
            atom = fx.rocdl.WMMA(16, 16, found.half_k, self.element)
            return fx.make_tiled_mma(fx.make_mma_atom(atom), across)
        if found.half_k == 32:
            return fx.make_tiled_mma(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, self.element)), across)
        # 32 values of k are taken in the order in which a 16-byte chunk feeds two instructions.
        atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, self.element))
        return fx.make_tiled_mma(atom, across, fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))))

    @property
    def reads(self) -> int:
        """Bytes that a lane reads of an operand at once: as many as the matrix instruction takes from one place."""
        return 8 if self.dtype == "fp8" and self.target.tensor_moves else 16

    @property
    def operand_copy(self) -> Any:
        """How a lane reads operands from LDS."""
        return fx.make_copy_atom(fx.UniversalCopy64b() if self.reads == 8 else fx.UniversalCopy128b(), self.element)

    def swizzle(self, bits: int) -> Any:
        """Of a tile in LDS with rows of 128 bytes, by elements of so many bits: chunk ``c`` of 16 bytes is at place
        ``c ^ row % 8``.

        Where lanes read 8 bytes, 16 rows are read at once and two fill the banks: it is ``c ^ (row // 2) % 8``.
        """
        chunk = (128 // bits).bit_length() - 1
        return fx.SwizzleType.get(3, chunk, 4 if self.reads == 8 else 3)

    def tiled_copy(self) -> Any:
        """How the threads bring chunks to a tile of LDS."""
        return fx.make_tiled_copy_tv(
            fx.make_copy_atom(fx.UniversalCopy128b(), self.word),
            fx.make_ordered_layout((THREADS * CHUNK // BLOCK_K, BLOCK_K // CHUNK), (1, 0)),
            fx.make_ordered_layout((1, CHUNK), (1, 0)))


def choose_splits(target: Target, m: int, columns: int, groups: int, tiles: int) -> int:
    """Shares of `tiles` tiles of k, each with some: several where output tiles alone leave most compute units idle."""
    block_m, block_n = _tile(target, m, columns)
    blocks = cdiv(m, block_m) * cdiv(columns, block_n) * groups
    wanted = max(min(target.compute_units // blocks, tiles // FEWEST_TILES, MOST_SPLITS), 1)
    return cdiv(tiles, cdiv(tiles, wanted))


def make_config(where: str, target: Target, dtype: str, m: int, columns: int, **what: Any) -> ConvConfig:
    """A checked configuration with a tile for `m` rows and `columns` columns.

    Raises:
        ValueError: the architecture or an option is not supported.
    """
    target.require(where, *MATRIX_ARCHS)
    require(where, dtype in ("f16", "bf16", "fp8"), f"dtype must be 'f16', 'bf16' or 'fp8', got {dtype!r}")
    if dtype == "fp8":
        target.require_fp8(where)
    config = ConvConfig(dtype, *_tile(target, m, columns), **what, target=target)
    for name in ("stride", "dilation", "upsample"):
        require(where, min(getattr(config, name)) >= 1, f"{name} must be positive, got {getattr(config, name)}")
    channels = config.channels
    require(where, channels is None or (channels >= CHUNK and channels % CHUNK == 0),
            f"channels must be a multiple of {CHUNK}, got {channels}")
    return config.fitting(where)


def _tile(target: Target, m: int, columns: int) -> tuple[int, int]:
    """The largest tile that does not waste half of itself and leaves a workgroup for most compute units, unless a
    search has another."""
    found = known("conv", target, "tile", m, columns, 0)
    if found:
        return found["block_m"], found["block_n"]
    for block_m, block_n in TILES:
        wasted = align_up(columns, block_n) * 2 > columns * 3 or m * 2 < block_m
        if not wasted and cdiv(m, block_m) * cdiv(columns, block_n) * 2 >= target.compute_units:
            return block_m, block_n
    return TILES[-1]
