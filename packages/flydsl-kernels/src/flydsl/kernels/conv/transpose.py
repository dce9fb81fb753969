"""Channels first to channels last: a transposition in tiles of 64 channels by 64 positions, through LDS."""

from __future__ import annotations

from collections.abc import Callable

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..target import Target, builder

__all__ = ["compile_transpose_ncdhw_ndhwc"]

TILE, CHUNK, THREADS = 64, 8, 256
PITCH = TILE + CHUNK  # of a row in LDS, so that rows of neighbouring lanes are in other banks


@flyc.kernel
def transpose_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Constexpr[int], c: fx.Constexpr[int], s: fx.Constexpr[int]):
    """Y[n, s, c] = X[n, c, s] of 16-bit elements; one tile a workgroup."""
    thread, (positions, channels, image) = fx.thread_idx.x, fx.block_idx
    wide, single = (fx.make_copy_atom(fx.UniversalCopy(bits), X.dtype) for bits in (16 * CHUNK, 16))
    rows = fx.make_layout((THREADS * CHUNK // TILE, TILE // CHUNK), (TILE // CHUNK, 1))
    chunk = fx.make_layout((1, CHUNK), (CHUNK, 1))
    copy, gather = (fx.make_tiled_copy_tv(atom, rows, chunk).get_slice(thread) for atom in (wide, single))

    def tile(tensor, shape, place):
        view = fx.make_view(fx.get_iter(tensor), fx.make_layout((*shape, n), (shape[1], 1, c * s)))
        return fx.flat_divide(view, (TILE, TILE))[None, None, place[0], place[1], image]

    lds = fx.SharedAllocator().allocate(fx.Array[X.dtype, TILE * PITCH, 16]).peek()
    source = copy.partition_S(tile(X, (c, s), (channels, positions)))
    held = fx.make_fragment_like(source)
    fx.copy(wide, source, held, bounds=True)
    fx.copy(wide, held, copy.partition_D(lds.view(fx.make_layout((TILE, TILE), (PITCH, 1)))))
    fx.barrier()
    out = copy.partition_D(tile(Y, (s, c), (positions, channels)))
    moved = fx.make_fragment_like(out)
    fx.copy(single, gather.partition_S(lds.view(fx.make_layout((TILE, TILE), (1, PITCH)))), gather.retile(moved))
    fx.copy(wide, moved, out, bounds=True)


@builder
def compile_transpose_ncdhw_ndhwc(n: int, c: int, s: int, *, target: Target) -> Callable[..., None]:
    """``launch(y_ndhwc, x_ncdhw, stream=None)`` for one size: n images of c channels and s = d h w positions.

    Both arrays are dense, of one 16-bit element type; x is [n, c, ...] and y [n, ..., c].

    Raises:
        ValueError: the channels are no multiple of 8, or a size is not positive.
    """
    require("compile_transpose_ncdhw_ndhwc", min(n, c, s) > 0 and c % CHUNK == 0,
            f"n, c and s are positive and c is a multiple of {CHUNK}, got {n}, {c}, {s}")

    @flyc.jit
    def transpose(Y: fx.Tensor, X: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        transpose_kernel(X, Y, n, c, s).launch(grid=(fx.ceildiv(s, TILE), fx.ceildiv(c, TILE), n), block=THREADS,
                                               stream=stream)

    return transpose
