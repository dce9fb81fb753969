"""Index arithmetic of older kernels: places of a thread's chunks in a tile, and exchanges of chunks in LDS."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.kernels.parts.grid import block_of
from flydsl.kernels.parts.index import cdiv, div, is_pow2, mod

__all__ = [
    "ceildiv", "pow2_shift", "split_row_major_2d", "swizzle_128", "swizzle_xor16", "tile_chunk_coord_i32", "udiv_const",
    "urem_const", "xcd_remap_bx_by",
]

ceildiv, udiv_const, urem_const = cdiv, div, mod


def pow2_shift(n: int) -> int:
    """The exponent of a power of two. ValueError for other numbers."""
    if not is_pow2(n):
        raise ValueError(f"pow2_shift: a power of two is needed, got {n}")
    return n.bit_length() - 1


def split_row_major_2d(index: Any, columns: int) -> tuple[Any, Any]:
    """(row, column) of a non-negative linear index."""
    return div(index, columns), mod(index, columns)


def tile_chunk_coord_i32(tx_i32_base: Any, i: int, total_threads: int, layout_tile_div4: int,
                         chunk_i32: int = 4) -> tuple[Any, Any]:
    """(row, i32 column) of the i-th chunk that a thread copies of a row-major tile.

    Args:
        tx_i32_base: thread times `chunk_i32`.
        layout_tile_div4: i32 of a row of the tile.
    """
    return split_row_major_2d(tx_i32_base + i * total_threads * chunk_i32, layout_tile_div4)


def swizzle_xor16(row: Any, col: Any, k_blocks16: int) -> Any:
    """Byte column `col` of `row` in LDS: chunks of 16 bytes are exchanged by the row, `k_blocks16` (a power of two)
    of them."""
    return col ^ (mod(row, k_blocks16) * 16)


def swizzle_128(row: Any, col: Any) -> Any:
    """Byte offset of (row, byte column) in LDS rows of 128 bytes, chunks of 16 exchanged by pairs of rows."""
    offset = row * 128 + col
    return offset ^ (div(mod(offset, 2048), 256) * 16)


def xcd_remap_bx_by(bx: Any, by: Any, c_m: Any, *, tile_m: int, tile_n: int, N: int, xcd_swizzle: int,
                    num_xcds: int = 8) -> tuple[Any, Any]:  # noqa: N803
    """Block coordinates (row, column) such that neighbours in memory run on one die; see :func:`block_of`.

    Args:
        bx, by: block row and block column as launched; `c_m` is the number of rows of the matrix.
        xcd_swizzle: block rows of a group; 0 changes nothing.
    """
    return block_of(bx, by, fx.ceildiv(c_m, tile_m), N // tile_n, xcd_swizzle, num_xcds)
