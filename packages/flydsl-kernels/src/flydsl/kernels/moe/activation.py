"""What stands between the two products of a gated layer: its definition and its gradient, of torch tensors."""

from __future__ import annotations

import math
from typing import Any

from ..parts.epilogue import SWIGLU_LIMIT

__all__ = ["activation_gradient", "activation_reference", "halves", "joined"]


def activation_reference(gate: Any, up: Any, activation: str, limit: float | None) -> Any:
    """The activation by its definition, of tensors of any dtype; see :data:`flydsl.kernels.moe.op.MOE`."""
    from torch.nn import functional

    limit = SWIGLU_LIMIT if activation == "swiglu" and limit is None else limit
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    if activation == "swiglu":
        return gate * (1.702 * gate).sigmoid() * (up + 1)
    if activation == "situ":
        return gate.tanh() * gate.sigmoid() * up.tanh()
    return (functional.silu(gate) if activation == "silu" else functional.gelu(gate, approximate="tanh")) * up


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


def activation_gradient(gate: Any, up: Any, dh: Any, activation: str, limit: float | None) -> tuple[Any, Any, Any]:
    """(h, gradient of gate, gradient of up) of tensors of f32. By hand: within an operator torch records nothing, and
    `torch.func` fails under the modes in which operators are checked and compiled."""
    limit = SWIGLU_LIMIT if activation == "swiglu" and limit is None else limit
    inside: tuple[Any, Any] = (1.0, 1.0)
    if limit is not None:
        inside = (gate <= limit).float(), (up.abs() <= limit).float()
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    f, df = _gate(gate, activation)
    factor, slope = up, 1.0
    if activation == "swiglu":
        factor = up + 1
    elif activation == "situ":
        factor = up.tanh()
        slope = 1 - factor * factor
    return f * factor, dh * factor * df * inside[0], dh * f * slope * inside[1]


def halves(z: Any, interleaved: bool) -> tuple[Any, Any]:
    """(gate, up) of the last dimension."""
    return (z[..., 0::2], z[..., 1::2]) if interleaved else z.chunk(2, -1)


def joined(gate: Any, up: Any, interleaved: bool) -> Any:
    """The inverse of :func:`halves`."""
    import torch

    return torch.stack((gate, up), -1).flatten(-2) if interleaved else torch.cat((gate, up), -1)
