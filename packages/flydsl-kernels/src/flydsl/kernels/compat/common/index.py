"""Index arithmetic of older kernels: places of a thread's chunks in a tile, and exchanges of chunks in LDS."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.kernels.parts.grid import block_of
from flydsl.kernels.parts.index import cdiv, div, is_pow2, mod

__all__ = [
    "ceildiv", "compute_global_swizzle", "pow2_shift", "split_row_major_2d", "swizzle_128", "swizzle_xor16",
    "tile_chunk_coord_i32", "udiv_const", "urem_const", "xcd_remap_bx_by",
]

CDNA_WAVE = 64

ceildiv, udiv_const, urem_const = cdiv, div, mod


def pow2_shift(n: int) -> int:
    """The exponent of a power of two. ValueError for other numbers."""
    if not is_pow2(n):
        raise ValueError(f"pow2_shift: a power of two is needed, got {n}")
    return n.bit_length() - 1


def split_row_major_2d(index: Any, columns: int) -> tuple[Any, Any]:
    """(row, column) of a non-negative linear index."""
    return div(index, columns), mod(index, columns)


def tile_chunk_coord_i32(*_context: Any, tx_i32_base: Any, i: int, total_threads: int, layout_tile_div4: Any,
                         chunk_i32: int = 4) -> tuple[Any, Any]:
    """(row, i32 column) of the i-th chunk that a thread copies of a tile.

    Args:
        _context: ignored: what older callers made operations with.
        tx_i32_base: thread times `chunk_i32`.
        layout_tile_div4: layout of the tile in i32, of two dimensions; or the i32 of a row of a row-major one.
    """
    at = tx_i32_base + i * total_threads * chunk_i32
    if isinstance(layout_tile_div4, int):
        return split_row_major_2d(at, layout_tile_div4)
    place = fx.idx2crd(at, layout_tile_div4)
    return fx.get_scalar(fx.get(place, 0)), fx.get_scalar(fx.get(place, 1))


def swizzle_xor16(row: Any, col: Any, k_blocks16: int) -> Any:
    """Byte column `col` of `row` in LDS: chunks of 16 bytes are exchanged by the row, `k_blocks16` (a power of two)
    of them."""
    return col ^ (mod(row, k_blocks16) * 16)


def swizzle_128(row: Any, col: Any) -> Any:
    """Byte offset of (row, byte column) in LDS rows of 128 bytes, chunks of 16 exchanged by pairs of rows."""
    offset = row * 128 + col
    return offset ^ (div(mod(offset, 2048), 256) * 16)


def compute_global_swizzle(lane: Any, wave: Any, K: int, n_rounds: int, preshuffled: bool,  # noqa: N803
                           waves: Any = None) -> list[Any]:
    """Byte offsets at which a lane copies 16 bytes of an fp8 operand (rows, K) to LDS in each round: 8 rows x 128 bytes
    a wave, which LDS takes as they come.

    Args:
        preshuffled: the operand is in the order of ``shuffle_weight``; else it is row-major, and the chunks of a row
            are exchanged here, as by :func:`swizzle_128`, since copies to LDS do not scatter.
        waves: of the workgroup, whose rows follow each other; by its threads if it is None.
    """
    waves = div(fx.block_dim.x, CDNA_WAVE) if waves is None else waves
    offsets = []
    for r in range(n_rounds):
        first = 8 * (wave + r * waves)
        if preshuffled:
            row, column = first + mod(lane, 8), div(lane, 8) * 16
            inner = mod(row, 16) * 16 + div(column, 64) * 1024 + mod(div(column, 16), 4) * 256
            offsets.append(div(row, 16) * (16 * K) + inner)
        else:
            row, column = first + div(lane, 8), mod(lane, 8) * 16
            offsets.append(row * K + mod(swizzle_128(row, column), 128))
    return offsets


def xcd_remap_bx_by(bx: Any, by: Any, c_m: Any, *, tile_m: int, tile_n: int, N: int, xcd_swizzle: int,
                    num_xcds: int = 8) -> tuple[Any, Any]:  # noqa: N803
    """Block coordinates (row, column) such that neighbours in memory run on one die; see :func:`block_of`.

    Args:
        bx, by: block row and block column as launched; `c_m` is the number of rows of the matrix.
        xcd_swizzle: block rows of a group; 0 changes nothing.
    """
    return block_of(bx, by, fx.ceildiv(c_m, tile_m), N // tile_n, xcd_swizzle, num_xcds)
