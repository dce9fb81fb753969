"""The experts of a mixture: what they compute, read from their attributes, and a module of stacked experts by itself.

Such a module is called with rows, the chosen experts and their weights, ``experts(x, ids, weights)``. It is patched
where the mixture around it routes in a way of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .. import ops as _ops
from .op import MOE_MODULES, stacked
from .parts import tried

__all__ = ["HALVES", "Experts", "differs", "experts_forward", "expert_weights", "in_double", "is_experts", "moe",
           "read_experts", "refuse_experts", "refuse_experts_call", "refuse_parameters"]

ops: Any = _ops  # its forms are made from declarations
HALVES = (torch.float16, torch.bfloat16)
_LAYERS = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))  # of an expert: gate, up, down
_TOLERANCE = 4  # roundings of the dtype that a tried forward may be off, of the largest value


@dataclass(frozen=True)
class Experts:
    """What experts compute; names as of `ops.moe`.

    Attributes:
        layers: names of the layers of expert modules; None where parameters are stacked.
        transposed: parameters are (experts, inputs, outputs).
    """

    activation: str
    limit: float | None
    interleaved: bool
    layers: tuple[str, ...] | None
    transposed: bool


def _activation(function: Any) -> str:
    name = (function if isinstance(function, str) else
            getattr(function, "__name__", "") if not isinstance(function, nn.Module) else type(function).__name__)
    return {"silu": "silu", "siluactivation": "silu", "swish": "silu", "gelutanh": "gelu",
            "pytorchgelutanh": "gelu", "gelu_pytorch_tanh": "gelu"}.get(name.lower(), "")


def read_experts(experts: Any) -> Experts | str:
    """What experts compute, or why it is nothing that is known."""
    layers, transposed = None, False
    if isinstance(experts, nn.ModuleList):
        layers = next((names for names in _LAYERS if all(hasattr(e, n) for e in experts for n in names)), None)
        if layers is None:
            return "its experts have no layers gate_proj, up_proj, down_proj or w1, w3, w2"
    elif not is_experts(experts):
        return "its experts are neither modules nor stacked as gate_up_proj and down_proj"
    else:
        w1, w2 = (tuple(w.shape) for w in (experts.gate_up_proj, experts.down_proj))
        transposed = w1[1:] == (w2[2], 2 * w2[1])
        if w1[0] != w2[0] or not transposed and w1[1:] != (2 * w2[2], w2[1]):
            return f"its gate_up_proj {w1} and down_proj {w2} are no gated layers"
    clipped = layers is None and getattr(experts, "alpha", None) == 1.702
    named = getattr(experts[0] if layers else experts, "act_fn", None)
    activation = "swiglu" if clipped else _activation("" if named is None else named)
    if not activation:
        return f"the activation {named} of its experts is not known"
    return Experts(activation, float(experts.limit) if clipped else None, clipped, layers, transposed)


def expert_weights(experts: Any, found: Experts) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """w1 and w2 of `moe_modules`: gate and up, and down, of each expert; or the stacked parameters."""
    if found.layers is None:
        return [experts.gate_up_proj], [experts.down_proj]
    gate, up, down = found.layers
    return [getattr(e, n).weight for e in experts for n in (gate, up)], [getattr(e, down).weight for e in experts]


def _biases(experts: Any) -> list[Any]:
    return [getattr(experts, f"{n}_bias", None) for n in ("gate_up_proj", "down_proj")]


def moe(experts: Any, found: Experts, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The product of the experts; weights in the kernel's order are kept where no gradients are wanted."""
    (w1, w2), biases, given = expert_weights(experts, found), _biases(experts), (found.activation, found.limit)
    if torch.is_grad_enabled() and any(p.requires_grad for p in (x, *w1, *w2, weights, *biases) if p is not None):
        return ops.moe(x, *stacked(w1, w2, found.transposed), weights, ids, *given, b1=biases[0], b2=biases[1],
                       interleaved=found.interleaved)
    return MOE_MODULES(x, w1, w2, weights, ids, *given, *biases, found.interleaved, found.transposed)


def in_double(experts: Any, found: Experts, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The definition."""
    return MOE_MODULES.reference(x, *expert_weights(experts, found), weights, ids, found.activation, found.limit,
                                 *_biases(experts), found.interleaved, found.transposed)[0]


def differs(given: Any, expected: torch.Tensor) -> bool:
    """Whether a tried forward gives something else."""
    if not isinstance(given, torch.Tensor) or given.numel() != expected.numel():
        return True
    error = (given.double().flatten() - expected.double().flatten()).abs().max()
    return float(error) > _TOLERANCE * torch.finfo(given.dtype).eps * float(expected.abs().max().clamp_min(1e-30))


def refuse_parameters(experts: Any) -> str:
    """Why experts of these parameters cannot use the kernels, or ""."""
    parameters = list(experts.parameters())
    if len({p.dtype for p in parameters}) > 1 or parameters[0].dtype not in HALVES:
        return f"its experts are {parameters[0].dtype}: float16 or bfloat16 is needed"
    if any(p.device.type == "meta" for p in parameters):
        return "its weights have no values yet, so its definition cannot be checked"
    return ""


# ------------------------------------------------------------------------------------------- by themselves


def is_experts(m: nn.Module) -> bool:
    """Whether a module has the stacked parameters of experts."""
    return all(isinstance(w, torch.Tensor) and w.dim() == 3
               for w in (getattr(m, n, None) for n in ("gate_up_proj", "down_proj")))


def refuse_experts(m: Any) -> str:
    """Why a module cannot use the kernels, or ""."""
    found = read_experts(m)
    why = found if isinstance(found, str) else refuse_parameters(m)
    if why or isinstance(found, str):
        return why
    number, width = m.down_proj.shape[0], m.down_proj.shape[2 if found.transposed else 1]
    x = torch.linspace(-1.0, 2.0, 3 * width, device=m.down_proj.device).mul(7).sin().view(3, -1).to(m.down_proj.dtype)
    slots = torch.arange(3 * min(number, 2), device=x.device).view(3, -1)
    weights = (slots.to(x.dtype) + 1) / 8
    with torch.no_grad():
        other, why = tried(lambda: differs(type(m).forward(m, x, slots % number, weights),
                                           in_double(m, found, x, weights.float(), (slots % number).int())))
    return why or ("its forward is not that of experts by its attributes, of (rows, experts, weights)" if other else "")


def refuse_experts_call(m: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> str:
    """Why a call cannot use the kernels, or ""."""
    if len(args) != 2 or kwargs:
        return "it was called with other arguments than (rows, experts, weights)"
    ids, weights = args
    if x.dtype != m.down_proj.dtype or x.dtype not in HALVES:
        return f"input dtype {x.dtype}, weight dtype {m.down_proj.dtype}: both must be float16 or both bfloat16"
    if not (x.dim() == 2 and ids.dim() == 2 and ids.shape == weights.shape and ids.shape[0] == x.shape[0]):
        return f"shapes {', '.join(str(tuple(t.shape)) for t in (x, ids, weights))} of rows, experts and weights"
    return f"autocast of {x.dtype}" if torch.is_autocast_enabled(x.device.type) else ""


def experts_forward(m: Any, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """What takes the place of its forward."""
    found = read_experts(m)
    assert isinstance(found, Experts)
    return moe(m, found, x, weights.float(), ids.int()).to(x.dtype)
