"""Gated layers of language models, ``down(act(gate(x)) * up(x))``: the activation and the product as one kernel.

The layers stay modules that are patched for themselves. Known by the names of its parts, and then tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .. import ops as _ops
from . import parts

__all__ = ["activation_module", "gated_forward", "is_gated", "refuse_gated"]

ops: Any = _ops  # its forms are made from declarations
_APART, _TOGETHER = {"gate_proj", "up_proj", "down_proj"}, {"gate_up_proj", "down_proj"}
_ACTIVATIONS = {"act_fn", "activation_fn"}
_KERNELS: dict[str, Callable[..., Any]] = {
    "silu": lambda gate, up=None: ops.silu_and_mul(gate, up),
    "gelu": lambda gate, up=None: ops.gelu_and_mul(gate, "none", up),
    "gelu_tanh": lambda gate, up=None: ops.gelu_and_mul(gate, "tanh", up),
}


def activation_module(m: nn.Module) -> nn.Module:
    """The part that is computed with the product."""
    return next(module for name, module in m.named_children() if name in _ACTIVATIONS)


def is_gated(m: nn.Module) -> bool:
    """Whether a module has the parts of gated layers, and no others."""
    children = dict(m.named_children())
    layers = children.keys() - _ACTIVATIONS
    return (len(children) == len(layers) + 1 and (layers == _APART or layers == _TOGETHER)
            and all(isinstance(children[name], nn.Linear) for name in layers)
            and next(m.parameters(recurse=False), None) is None)


def _compute(m: Any, x: torch.Tensor, gate: Callable[..., torch.Tensor]) -> torch.Tensor:
    """`gate` is called with both halves in one tensor, or with two tensors."""
    together = hasattr(m, "gate_up_proj")
    return m.down_proj(gate(m.gate_up_proj(x)) if together else gate(m.gate_proj(x), m.up_proj(x)))


def refuse_gated(m: Any) -> str:
    """Why a module cannot use the kernel, or ""."""
    activation = activation_module(m)
    why = parts.refuse_activation(activation)
    if why:
        return f"its activation {type(activation).__name__} cannot: {why}"
    weight = m.down_proj.weight
    if weight.device.type == "meta":
        return "its weights have no values yet, so its definition cannot be checked"
    x = torch.linspace(-1.0, 2.0, 2 * weight.shape[0], device=weight.device).mul(7).sin()
    x = x.view(2, -1).to(weight.dtype)

    def definition(gate: torch.Tensor, up: torch.Tensor | None = None) -> torch.Tensor:
        if up is None:
            gate, up = gate.chunk(2, -1)
        return activation(gate) * up

    with torch.no_grad():
        same, why = parts.tried(lambda: torch.equal(type(m).forward(m, x), _compute(m, x, definition)))
    return why or ("" if same else "its forward is not that of gated layers")


def gated_forward(m: Any) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """What takes the place of its forward."""
    kernel = _KERNELS[parts.activation_kind(activation_module(m)) or ""]
    return lambda m, x: _compute(m, x, kernel)
