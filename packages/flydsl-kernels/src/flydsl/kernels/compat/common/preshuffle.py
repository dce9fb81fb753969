"""Layouts of preshuffled weights and scales, for kernels that address them by coordinates."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["make_preshuffle_b_layout", "make_preshuffle_scale_layout"]

NLANE = 16


def make_preshuffle_b_layout(*_context: Any, c_n: int, c_k: int, kpack_bytes: int = 16, elem_bytes: int = 1,
                             k_major: bool = False) -> Any:
    """Layout of a (16, 16)-shuffled weight in elements: ``(N/16, Kbytes/64, 4, 16, kpack)``.

    Args:
        _context: ignored: what older callers made operations with.
        c_n, c_k: rows and columns of the weight, in elements.
        kpack_bytes: bytes of k that a lane reads at once, 16 or 8.
        elem_bytes: 1 or 2.
        k_major: the k block is outermost and has two groups of lanes instead of four.

    Returns:
        The layout; coordinates are (row block, k block, lane group, row, element).

    Raises:
        ValueError: a size is not a multiple of its block.
    """
    if kpack_bytes not in (8, 16) or elem_bytes not in (1, 2):
        raise ValueError(f"make_preshuffle_b_layout: kpack_bytes must be 8 or 16 and elem_bytes 1 or 2, got "
                         f"{kpack_bytes} and {elem_bytes}")
    groups = 2 if k_major else 4
    block = 16 * groups  # bytes of k of a block
    if c_n % NLANE or c_k * elem_bytes % block:
        raise ValueError(f"make_preshuffle_b_layout: N must be a multiple of {NLANE} and K of {block // elem_bytes}, "
                         f"got {c_n} and {c_k}")
    pack = kpack_bytes // elem_bytes
    n0, k0 = c_n // NLANE, c_k * elem_bytes // block
    inner = groups * NLANE * pack
    outer = (inner, n0 * inner) if k_major else (k0 * inner, inner)
    return fx.make_layout((n0, k0, groups, NLANE, pack), (*outer, NLANE * pack, pack, 1))


def make_preshuffle_scale_layout(*_context: Any, c_mn: int, c_k: int, mn_pack: int = 2, k_pack: int = 2,
                                 elem_bytes: int = 4, scale_block_size: int = 32) -> Any:
    """Layout in dwords of scales in the order of ``e8m0_shuffle``: ``(mn/32, (K/32)/8, 4, 16)``.

    Args:
        _context: ignored, as of :func:`make_preshuffle_b_layout`.
        c_mn, c_k: rows of the matrix (a multiple of 32) and its columns (of 256).

    Raises:
        ValueError: a size is not a multiple of its block, or another packing is asked for.
    """
    if (mn_pack, k_pack, elem_bytes) != (2, 2, 4):
        raise ValueError(f"make_preshuffle_scale_layout: a dword holds 2 x 2 scales, got mn_pack = {mn_pack}, k_pack "
                         f"= {k_pack}, elem_bytes = {elem_bytes}")
    rows, columns = NLANE * mn_pack, 4 * k_pack * scale_block_size
    if c_mn % rows or c_k % columns:
        raise ValueError(f"make_preshuffle_scale_layout: rows must be a multiple of {rows} and K of {columns}, got "
                         f"{c_mn} and {c_k}")
    k1 = c_k // columns
    return fx.make_layout((c_mn // rows, k1, 4, NLANE), (k1 * 64, 64, NLANE, 1))
