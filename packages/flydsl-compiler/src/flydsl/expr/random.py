"""Counter-based random numbers: Philox-4x32 of a seed and an offset. The same inputs give the same numbers.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC'11). `seed` and `offset` are integers or
integer vectors; a vector gives a vector of numbers.
"""

from __future__ import annotations

import math as _pymath
from typing import Any

from flydsl.tracing.locations import dsl_loc_tracing

from ._vector import Vector
from .arith import fastmath
from .math import cos, log, sin, sqrt
from .numeric import Float32, Uint32, Uint64

__all__ = ["rand", "rand4x", "randint", "randint4x", "randn", "randn4x"]

_KEY = (0x9E3779B9, 0xBB67AE85)
_MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
# The largest float below 1 divided by the largest signed word.
_TO_UNIT = 4.6566127342e-10


def _typed(value: Any, cls: Any) -> Any:
    return value.to(cls) if isinstance(value, Vector) else cls(value)


def _wide(value: Any) -> Any:
    return _typed(value, Uint64)


def _low(value: Any) -> Any:
    return _typed(value, Uint32)


def _words(value: Any) -> tuple[Any, Any]:
    """Low and high 32 bits; the high word of a 32-bit number is 0."""
    wide = _wide(_unsigned(value))
    return _low(wide), _low(wide >> 32)


def _unsigned(value: Any) -> Any:
    """An integer of 32 bits or less without its sign, so that widening does not copy it."""
    if isinstance(value, Vector):
        return value.to(Uint32) if value.dtype.width <= 32 else value
    if isinstance(value, int):
        return Uint64(value) if value >= 2**32 else Uint32(value)
    width = getattr(type(value), "width", 32)
    return Uint32(value) if width <= 32 else value


def _multiply(a: int, b: Any) -> tuple[Any, Any]:
    """High and low word of a 32x32-bit product."""
    product = _wide(b) * Uint64(a)
    return _low(product >> 32), _low(product)


@dsl_loc_tracing
def randint4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Four random 32-bit words (`Uint32`).

    Args:
        seed: the key, 64 bits are used. offset: the counter, 64 bits are used.
        n_rounds: Philox rounds; 10 is the published generator.
    """
    key = list(_words(seed))
    low, high = _words(offset)
    zero = low ^ low
    counter = [low, high, zero, zero]
    for _ in range(n_rounds):
        high0, low0 = _multiply(_MULTIPLIER[0], counter[0])
        high1, low1 = _multiply(_MULTIPLIER[1], counter[2])
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [key[0] + Uint32(_KEY[0]), key[1] + Uint32(_KEY[1])]
    return counter[0], counter[1], counter[2], counter[3]


def randint(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
    """One random 32-bit word (`Uint32`)."""
    return randint4x(seed, offset, n_rounds)[0]


def _to_unit(word: Any) -> Any:
    """A word as a `Float32` in [0, 1)."""
    from .numeric import Int32

    signed = _typed(word, Int32)
    folded = (signed < 0).select(~signed, signed)
    return folded.to(Float32) * Float32(_TO_UNIT)


@dsl_loc_tracing
def rand4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Four uniform numbers in [0, 1) (`Float32`)."""
    a, b, c, d = (_to_unit(w) for w in randint4x(seed, offset, n_rounds))
    return a, b, c, d


def rand(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
    """One uniform number in [0, 1) (`Float32`)."""
    return _to_unit(randint(seed, offset, n_rounds))


def _normal_pair(u1: Any, u2: Any) -> tuple[Any, Any]:
    """Box-Muller; a zero `u1` is raised to the smallest step, so that the logarithm is finite."""
    from .arith import max as maximum

    with fastmath(None):
        radius = sqrt(log(maximum(u1, Float32(1.0e-7))) * Float32(-2.0))
        angle = u2 * Float32(2.0 * _pymath.pi)
    return radius * cos(angle), radius * sin(angle)


@dsl_loc_tracing
def randn4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Four normal numbers with mean 0 and deviation 1 (`Float32`)."""
    u = rand4x(seed, offset, n_rounds)
    return (*_normal_pair(u[0], u[1]), *_normal_pair(u[2], u[3]))  # type: ignore[return-value]


def randn(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
    """One normal number with mean 0 and deviation 1 (`Float32`)."""
    u = rand4x(seed, offset, n_rounds)
    return _normal_pair(u[0], u[1])[0]


class _Universal:
    """The functions above, whatever a target would override. No target overrides them today."""

    randint, randint4x, rand, rand4x, randn, randn4x = (
        staticmethod(f) for f in (randint, randint4x, rand, rand4x, randn, randn4x)
    )


universal = _Universal()
