"""Channels last: ``[N, C, S] -> [N, S, C]`` of elements of 8 or 16 bits, by tiles that are turned in LDS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..parts.index import cdiv
from ..parts.reduce import Lds
from ..parts.rows import pointer
from ..parts.units import THREADS
from ..target import Target, builder

__all__ = ["compile_transpose_ncdhw_ndhwc", "compile_transpose_ncdhw_ndhwc_fp8"]

TILE = 64  # channels and positions
ROWS = THREADS // TILE  # of a tile that the threads move at once


@dataclass(frozen=True)
class _Config(KernelConfig):
    channels: int
    positions: int
    bits: int

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def element(self) -> Any:
        return fx.Int8 if self.bits == 8 else fx.Int16

    @property
    def pitch(self) -> int:
        """Elements from one row in LDS to the next: an odd number of 4-byte words, so a column lies in all banks."""
        return TILE + 32 // self.bits


@flyc.kernel
def _transpose_kernel(X, Y, config: fx.Constexpr):  # noqa: N803
    element, channels, positions = config.element, config.channels, config.positions
    tile = Lds().array(element, TILE * config.pitch).ptr
    column, first = fx.thread_idx.x % TILE, fx.thread_idx.x // TILE
    position, channel, image = fx.block_idx.x * TILE, fx.block_idx.y * TILE, fx.Int64(fx.block_idx.z)
    x, y = (pointer(data, element) + image * (channels * positions) for data in (X, Y))
    for i in fx.range_constexpr(TILE // ROWS):
        row = first + i * ROWS
        if (channel + row < channels) & (position + column < positions):
            (tile + (row * config.pitch + column)).store(
                (x + (fx.Int64(channel + row) * positions + (position + column))).load())
    fx.barrier()
    for i in fx.range_constexpr(TILE // ROWS):
        row = first + i * ROWS
        if (channel + column < channels) & (position + row < positions):
            (y + (fx.Int64(position + row) * channels + (channel + column))).store(
                (tile + (column * config.pitch + row)).load())


@builder
def _build(where: str, n: int, c: int, s: int, bits: int, *, target: Target) -> Callable[..., None]:
    require(where, min(n, c, s) > 0, f"n, c and s must be positive, got {n}, {c} and {s}")
    config = _Config(c, s, bits, target=target)

    @flyc.jit
    def transpose(Y, X, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        target.require_traced()
        _transpose_kernel(X, Y, config).launch(grid=(cdiv(s, TILE), cdiv(c, TILE), n), block=THREADS, stream=stream)

    def launch(y: Any, x: Any, stream: Any = None) -> None:
        for name, array in (("y", y), ("x", x)):
            require(where, math.prod(array.shape) == n * c * s and array.dtype.itemsize * 8 == bits,
                    f"{name} must have {n} * {c} * {s} elements of {bits} bits, got {tuple(array.shape)} {array.dtype}")
        transpose(y.reshape(-1), x.reshape(-1), stream=stream)

    return launch


def compile_transpose_ncdhw_ndhwc(n: int, c: int, s: int) -> Callable[..., None]:
    """``launch(y, x, stream=None)``: contiguous x (n, c, positions) of float16 or bfloat16 to y (n, positions, c).

    Args:
        n, c, s: images, channels, and positions of an image: depth times height times width.

    Raises:
        ValueError: a size is not positive; of `launch`, for arrays of other sizes or dtypes.
    """
    return _build("compile_transpose_ncdhw_ndhwc", n, c, s, 16)


def compile_transpose_ncdhw_ndhwc_fp8(n: int, c: int, s: int) -> Callable[..., None]:
    """:func:`compile_transpose_ncdhw_ndhwc` of elements of one byte."""
    return _build("compile_transpose_ncdhw_ndhwc_fp8", n, c, s, 8)
