"""Channels first to channels last: a transposition in tiles of 64 channels by 64 positions, through LDS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..target import Target, builder

__all__ = ["compile_transpose_ncdhw_ndhwc", "compile_transpose_ncdhw_ndhwc_fp8"]

TILE, THREADS, CHUNK_BITS = 64, 256, 128


@flyc.kernel
def transpose_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Constexpr[int], c: fx.Constexpr[int], s: fx.Constexpr[int]):
    """Y[n, s, c] = X[n, c, s] of elements of 8 or 16 bits; one tile a workgroup."""
    thread, (positions, channels, image) = fx.thread_idx.x, fx.block_idx
    chunk = CHUNK_BITS // X.dtype.width
    pitch = TILE + chunk  # of a row in LDS, so that rows of neighbouring lanes are in other banks
    wide, single = (fx.make_copy_atom(fx.UniversalCopy(bits), X.dtype) for bits in (CHUNK_BITS, X.dtype.width))
    rows = fx.make_layout((THREADS * chunk // TILE, TILE // chunk), (TILE // chunk, 1))
    values = fx.make_layout((1, chunk), (chunk, 1))
    copy, gather = (fx.make_tiled_copy_tv(atom, rows, values).get_slice(thread) for atom in (wide, single))

    def tile(tensor, shape, place):
        view = fx.make_view(fx.get_iter(tensor), fx.make_layout((*shape, n), (shape[1], 1, c * s)))
        return fx.flat_divide(view, (TILE, TILE))[None, None, place[0], place[1], image]

    lds = fx.SharedAllocator().allocate(fx.Array[X.dtype, TILE * pitch, 16]).peek()
    source = copy.partition_S(tile(X, (c, s), (channels, positions)))
    held = fx.make_fragment_like(source)
    fx.copy(wide, source, held, bounds=True)
    fx.copy(wide, held, copy.partition_D(lds.view(fx.make_layout((TILE, TILE), (pitch, 1)))))
    fx.barrier()
    out = copy.partition_D(tile(Y, (s, c), (positions, channels)))
    moved = fx.make_fragment_like(out)
    fx.copy(single, gather.partition_S(lds.view(fx.make_layout((TILE, TILE), (1, pitch)))), gather.retile(moved))
    fx.copy(wide, moved, out, bounds=True)


@builder
def _build(name: str, n: int, c: int, s: int, bits: int, *, target: Target) -> Callable[..., None]:
    chunk = CHUNK_BITS // bits
    require(name, min(n, c, s) > 0 and c % chunk == 0,
            f"n, c and s are positive and c is a multiple of {chunk}, got {n}, {c}, {s}")

    @flyc.jit
    def transpose(Y: fx.Tensor, X: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        transpose_kernel(X, Y, n, c, s).launch(grid=(fx.ceildiv(s, TILE), fx.ceildiv(c, TILE), n), block=THREADS,
                                               stream=stream)

    def launch(y: Any, x: Any, stream: Any = None) -> None:
        for label, array in (("y", y), ("x", x)):
            require(name, math.prod(array.shape) == n * c * s and array.dtype.itemsize * 8 == bits,
                    f"{label} must have {n} * {c} * {s} elements of {bits} bits, got {tuple(array.shape)} "
                    f"{array.dtype}")
        transpose(y, x, stream=stream)

    return launch


def compile_transpose_ncdhw_ndhwc(n: int, c: int, s: int) -> Callable[..., None]:
    """``launch(y_ndhwc, x_ncdhw, stream=None)`` for one size: n images of c channels and s = d h w positions.

    Both arrays are dense, of one 16-bit element type; x is [n, c, ...] and y [n, ..., c].

    Raises:
        ValueError: the channels are no multiple of 8, or a size is not positive; of `launch`, for arrays of other sizes
            or element types.
    """
    return _build("compile_transpose_ncdhw_ndhwc", n, c, s, 16)


def compile_transpose_ncdhw_ndhwc_fp8(n: int, c: int, s: int) -> Callable[..., None]:
    """:func:`compile_transpose_ncdhw_ndhwc` of elements of one byte; the channels are a multiple of 16."""
    return _build("compile_transpose_ncdhw_ndhwc_fp8", n, c, s, 8)
