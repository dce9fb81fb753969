"""Index arithmetic of non-negative integers: shifts and masks where the divisor is a power of two."""

from __future__ import annotations

from typing import Any

__all__ = ["align_up", "cdiv", "compute_mcast_masks", "div", "is_pow2", "mod"]


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
    return x >> (n.bit_length() - 1) if is_pow2(n) else x // n


def mod(x: Any, n: int) -> Any:
    """``x % n`` of a non-negative x."""
    return x & (n - 1) if is_pow2(n) else x % n


def compute_mcast_masks(local_x: Any, local_y: Any, cluster_m: int, cluster_n: int) -> tuple[Any, Any]:
    """Masks of the workgroups of a cluster that share the tile of A and that of B.

    Args:
        local_x, local_y: position in the cluster; workgroup ``x + y cluster_m`` has that bit.
        cluster_m, cluster_n: size of the cluster.
    """
    column = sum(1 << (y * cluster_m) for y in range(cluster_n))
    return column << local_x, ((1 << cluster_m) - 1) << (local_y * cluster_m)
