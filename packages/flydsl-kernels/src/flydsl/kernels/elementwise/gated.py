"""What stands between the two products of a gated layer: its definition and its gradient, of torch tensors."""

from __future__ import annotations

import math
from typing import Any

from ..parts.epilogue import SWIGLU_LIMIT

__all__ = ["activation_gradient", "activation_reference", "halves", "joined"]


def _gate(g: Any, activation: str) -> tuple[Any, Any]:
    """What the gate is multiplied by up with, and its derivative."""
    if activation == "gelu":
        a, b = math.sqrt(2 / math.pi), 0.044715
        t = (a * (g + b * g**3)).tanh()
        return 0.5 * g * (1 + t), 0.5 * (1 + t) + 0.5 * g * (1 - t * t) * a * (1 + 3 * b * g * g)
    if activation == "situ":
        t, s = g.tanh(), g.sigmoid()
        return t * s, (1 - t * t) * s + t * s * (1 - s)
    c = 1.702 if activation == "swiglu" else 1.0
    s = (c * g).sigmoid()
    return g * s, s + c * g * s * (1 - s)


def _up(u: Any, activation: str) -> tuple[Any, Any]:
    """The same of up."""
    if activation == "situ":
        t = u.tanh()
        return t, 1 - t * t
    return (u + 1 if activation == "swiglu" else u), 1.0


def _limit(activation: str, limit: float | None) -> float:
    """Where gate and up are clamped."""
    return limit or (SWIGLU_LIMIT if activation == "swiglu" else math.inf)


def activation_reference(gate: Any, up: Any, activation: str, limit: float | None) -> Any:
    """The activation by its definition, of tensors of any dtype; see :data:`flydsl.kernels.moe.op.MOE`."""
    limit = _limit(activation, limit)
    return _gate(gate.clamp(max=limit), activation)[0] * _up(up.clamp(-limit, limit), activation)[0]


def activation_gradient(gate: Any, up: Any, dh: Any, activation: str, limit: float | None) -> tuple[Any, Any, Any]:
    """(h, gradient of gate, gradient of up) of tensors of f32. By hand: within an operator torch records nothing, and
    `torch.func` fails under the modes in which operators are checked and compiled."""
    limit = _limit(activation, limit)
    f, df = _gate(gate.clamp(max=limit), activation)
    factor, slope = _up(up.clamp(-limit, limit), activation)
    return f * factor, dh * factor * df * (gate <= limit), dh * f * slope * (up.abs() <= limit)


def halves(z: Any, interleaved: bool) -> tuple[Any, Any]:
    """(gate, up) of the last dimension."""
    return (z[..., 0::2], z[..., 1::2]) if interleaved else z.chunk(2, -1)


def joined(gate: Any, up: Any, interleaved: bool) -> Any:
    """The inverse of :func:`halves`."""
    import torch

    return torch.stack((gate, up), -1).flatten(-2) if interleaved else torch.cat((gate, up), -1)
