"""Index arithmetic of non-negative integers: shifts and masks where the divisor is a power of two."""

from __future__ import annotations

from typing import Any

__all__ = ["align_up", "cdiv", "div", "is_pow2", "mod"]


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
