"""Index arithmetic of non-negative integers: shifts and masks where the divisor is a power of two."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["align_up", "cdiv", "compute_mcast_masks", "div", "is_pow2", "mod", "xcd_remap_bx_by"]


def is_pow2(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def cdiv(a: int, b: int) -> int:
    """Quotient of integers, rounded up."""
    return -(-a // b)


def align_up(a: int, b: int) -> int:
    """`a` rounded up to a multiple of `b`."""
    return cdiv(a, b) * b


def div(x: Any, n: int) -> Any:
    """``x // n`` of a non-negative x."""
    if isinstance(x, int):
        return x // n
    return x >> (n.bit_length() - 1) if is_pow2(n) else x // n


def mod(x: Any, n: int) -> Any:
    """``x % n`` of a non-negative x."""
    if isinstance(x, int):
        return x % n
    return x & (n - 1) if is_pow2(n) else x % n


def compute_mcast_masks(local_x: Any, local_y: Any, cluster_m: int, cluster_n: int) -> tuple[Any, Any]:
    """Masks of the workgroups of a cluster that share the tile of A and that of B.

    Args:
        local_x, local_y: position in the cluster; workgroup ``x + y cluster_m`` has that bit.
        cluster_m, cluster_n: size of the cluster.
    """
    column = sum(1 << (y * cluster_m) for y in range(cluster_n))
    return column << local_x, ((1 << cluster_m) - 1) << (local_y * cluster_m)


def xcd_remap_bx_by(bx: Any, by: Any, c_m: Any, *, tile_m: int, tile_n: int, N: int, xcd_swizzle: int,
                    num_xcds: int = 8) -> tuple[Any, Any]:  # noqa: N803
    """Block coordinates (row, column) such that neighbours in memory run on one die.

    Workgroups are dealt to the dies in turn. Each die gets a consecutive range of the linear order, and within it
    blocks walk down `xcd_swizzle` block rows before the next column.

    Args:
        bx, by: block row and block column as launched; `c_m` is the number of rows of the matrix.
        xcd_swizzle: block rows of a group; 0 changes nothing.
    """
    if not xcd_swizzle:
        return bx, by
    gx, gy = fx.ceildiv(c_m, tile_m), N // tile_n
    total = gx * gy
    linear = by * gx + bx
    q, r = total // num_xcds, total % num_xcds
    die = linear % num_xcds
    w = die * q + fx.min(die, r) + linear // num_xcds
    width = xcd_swizzle * gy
    group = w // width
    size = fx.min(gx - group * xcd_swizzle, xcd_swizzle)
    inside = w % width
    return group * xcd_swizzle + inside % size, inside // size
