"""Activations with their derivatives, lane-wise on vectors of f32; each takes the value and a number.

A quotient or a product that would be inf times 0 is avoided where the limit is finite, but not at the infinities
themselves: silu(-inf) is NaN as torch's is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..parts.mathx import LOG2E, exp2, sigmoid, tanh

__all__ = ["ACTIVATIONS", "Activation"]


@dataclass(frozen=True)
class Activation:
    """``value(x, p)`` and its derivative by x, ``slope(x, p)``."""

    value: Callable[[Any, float], Any]
    slope: Callable[[Any, float], Any]


def _silu_slope(x: Any, _: float) -> Any:
    s = sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


def _normal_below(x: Any) -> Any:
    """Probability that a standard normal number is below x."""
    return 0.5 * (1.0 + fx.math.erf(x * math.sqrt(0.5)))


def _gelu_slope(x: Any, _: float) -> Any:
    density = exp2(x * x * (-0.5 * LOG2E)) * (1.0 / math.sqrt(2.0 * math.pi))
    return _normal_below(x) + x * density


ROOT, CUBIC = math.sqrt(2.0 / math.pi), 0.044715  # of the approximation of the normal distribution by tanh


def _inner(x: Any) -> Any:
    return ROOT * (x + CUBIC * x * x * x)


def _gelu_tanh_slope(x: Any, _: float) -> Any:
    t = tanh(_inner(x))
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (ROOT * (1.0 + 3.0 * CUBIC * x * x))


def _cap_slope(x: Any, cap: float) -> Any:
    t = tanh(x * (1.0 / cap))
    return 1.0 - t * t


ACTIVATIONS = {
    "silu": Activation(lambda x, _: x * sigmoid(x), _silu_slope),
    "gelu": Activation(lambda x, _: x * _normal_below(x), _gelu_slope),
    "gelu_tanh": Activation(lambda x, _: 0.5 * x * (1.0 + tanh(_inner(x))), _gelu_tanh_slope),
    "soft_cap": Activation(lambda x, cap: cap * tanh(x * (1.0 / cap)), _cap_slope),
}
