"""Counter-based random bits: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["philox4x32", "round_bf16_stochastic"]

_MULTIPLY = (0xD2511F53, 0xCD9E8D57)
_KEY = (0x9E3779B9, 0xBB67AE85)


def _high_low(value: Any, factor: int) -> tuple[Any, Any]:
    product = fx.Uint64(value) * fx.Uint64(factor)
    return (product >> 32).to(fx.Uint32), product.to(fx.Uint32)


def philox4x32(seed: Any, counter: Any, rounds: int = 10, *, row: Any = 0, seed_high: Any = 0) -> list[Any]:
    """Four Uint32 of random bits, a function of a seed of 64 bits and a counter of 64 (`row` is its upper half)."""
    c = [fx.Uint32(counter), fx.Uint32(row), fx.Uint32(0), fx.Uint32(0)]
    k = [fx.Uint32(seed), fx.Uint32(seed_high)]
    for _ in range(rounds):
        high0, low0 = _high_low(c[0], _MULTIPLY[0])
        high1, low1 = _high_low(c[2], _MULTIPLY[1])
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [k[0] + fx.Uint32(_KEY[0]), k[1] + fx.Uint32(_KEY[1])]
    return c


def round_bf16_stochastic(value: Any, bits16: Any) -> Any:
    """f32 to bf16 by adding 16 random bits below the last place and cutting off."""
    word = value.bitcast(fx.Uint32) + bits16
    return (word >> 16).to(fx.Uint16).bitcast(fx.BFloat16)
