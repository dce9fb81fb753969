"""Bare hardware math instructions, lane-wise on scalars and vectors of f32, and functions made of them.

They skip the range handling of the library functions: results below the smallest normal number flush to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flydsl.expr as fx

__all__ = ["LN2", "LOG2E", "LOWEST", "exp2", "gelu", "rcp", "relu", "rsqrt", "sigmoid", "silu", "tanh"]

LOG2E = math.log2(math.e)
LN2 = math.log(2.0)
LOWEST = -float.fromhex("0x1.fffffep127")  # of f32: the maximum of nothing, where exp2(-inf - LOWEST) is 0, not NaN


def _lanewise(instruction: Callable[[Any, Any], Any], x: Any) -> Any:
    def one(value: Any) -> Any:
        return fx.Float32(instruction(fx.T.f32, value.ir_value()))

    if not isinstance(x, fx.Vector):
        return one(x)
    return fx.Vector.from_elements([one(v) for v in x], fx.Float32)


def exp2(x: Any) -> Any:
    """2**x by the hardware instruction (1 ulp)."""
    return _lanewise(fx.rocdl.exp2, x)


def rcp(x: Any) -> Any:
    """1/x by the hardware instruction (1 ulp)."""
    return _lanewise(fx.rocdl.rcp, x)


def rsqrt(x: Any) -> Any:
    """1/sqrt(x) of a positive x."""
    return 1.0 / _lanewise(fx.rocdl.sqrt, x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e**-x), with a reciprocal in place of the division."""
    return rcp(1.0 + exp2(x * -LOG2E))


def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def relu(x: Any) -> Any:
    """max(x, 0); NaN stays NaN."""
    return (x < 0.0).select(x * 0.0, x)


def tanh(x: Any) -> Any:
    """tanh from e**(-2|x|), which cannot overflow."""
    e = exp2(abs(x) * (-2.0 * LOG2E))
    y = (1.0 - e) * rcp(1.0 + e)
    return (x < 0.0).select(-y, y)


def gelu(x: Any) -> Any:
    """0.5 x (1 + tanh(0.7978845608 (x + 0.044715 x**3)))."""
    return 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
