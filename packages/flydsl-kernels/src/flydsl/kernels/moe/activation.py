"""What stands between the two products of a gated layer: its definition and its gradient, of torch tensors."""

from __future__ import annotations

from typing import Any, cast

from .config import SWIGLU_LIMIT

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


def activation_gradient(gate: Any, up: Any, dh: Any, activation: str, limit: float | None) -> tuple[Any, Any, Any]:
    """(h, gradient of gate, gradient of up): that of the definition, of tensors of f32."""
    from torch.func import vjp

    h, back = cast(Any, vjp(lambda g, u: activation_reference(g, u, activation, limit), gate, up))
    return h, *back(dh)


def halves(z: Any, interleaved: bool) -> tuple[Any, Any]:
    """(gate, up) of the last dimension."""
    return (z[..., 0::2], z[..., 1::2]) if interleaved else z.chunk(2, -1)


def joined(gate: Any, up: Any, interleaved: bool) -> Any:
    """The inverse of :func:`halves`."""
    import torch

    return torch.stack((gate, up), -1).flatten(-2) if interleaved else torch.cat((gate, up), -1)
