"""Mixtures of experts of language models (Mixtral, Qwen3-MoE, DeepSeek-V3, GPT-OSS) as their modules write them.

Known by its parts: `experts` (modules with gate, up and down layers, or stacked parameters) and a router with a weight
(experts, features). What it computes is read from its attributes and then tried: the forward must give what the
definition of :func:`flydsl.kernels.ops.moe` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from .. import ops as _ops
from ..route.op import ROUTE
from .experts import HALVES, Experts, differs, in_double, moe, read_experts, refuse_parameters
from .parts import refuse_tensors, tried

__all__ = ["MixtureForward", "is_mixture", "kernels_of", "refuse_mixture", "refuse_mixture_call"]

ops: Any = _ops  # its forms are made from declarations


@dataclass(frozen=True)
class _Mixture:
    """What a module computes; names as of `ops.route`."""

    topk: int
    scoring: str
    groups: tuple[int, int]
    renormalize: bool
    scale: float
    experts: Experts


def _router(m: Any) -> Any:
    return getattr(m, "gate", None) if isinstance(getattr(m, "gate", None), nn.Module) else getattr(m, "router", None)


def is_mixture(m: nn.Module) -> bool:
    """Whether a module has the parts of a mixture of experts."""
    weight = getattr(_router(m), "weight", None)
    return isinstance(getattr(m, "experts", None), nn.Module) and isinstance(weight, torch.Tensor) and weight.dim() == 2


def _first(name: str, *owners: Any, default: Any = None) -> Any:
    """The first of the owners' attributes of that name."""
    return next((getattr(o, name) for o in owners if getattr(o, name, None) is not None), default)


def _read(m: Any) -> _Mixture | str:
    """What a module computes, by its attributes, or why it is none that is known."""
    router = _router(m)
    experts = read_experts(m.experts)
    if isinstance(experts, str):
        return experts
    topk = _first("top_k", m, router, default=_first("num_experts_per_tok", m, router))
    if not isinstance(topk, int):
        return "it does not say how many experts a token has (top_k)"
    corrected = getattr(router, "e_score_correction_bias", None) is not None
    return _Mixture(
        topk, "sigmoid" if corrected else "softmax",
        (_first("n_group", router, m, default=_first("num_group", router, m, default=1)),
         _first("topk_group", router, m, default=1)),
        _first("norm_topk_prob", m, router, default=True), float(_first("routed_scaling_factor", router, m, default=1)),
        experts)


def _torch_product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, wide: bool) -> torch.Tensor:
    """x weight^T + bias, `wide`: in f32, as routers compute whose choice has a bias."""
    return F.linear(x.float(), weight.float()) if wide else F.linear(x, weight, bias)


def _has_product(weight: torch.Tensor) -> bool:
    """Whether the router's product is a kernel's."""
    return weight.dtype in HALVES and not any(size % 8 for size in weight.shape)


def _product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, wide: bool) -> torch.Tensor:
    """The same by a kernel, whose sums are f32; torch's for a router of other sizes or in f32."""
    if x.dtype != weight.dtype or not _has_product(weight):
        return _torch_product(x, weight, bias, wide)
    return ops.gemm(x, weight, out_dtype=torch.float32) if wide else ops.linear(x, weight, bias)


def kernels_of(m: nn.Module) -> str:
    """The operators that a module uses."""
    return "flydsl::linear, flydsl::route, flydsl::moe" if _has_product(_router(m).weight) else (
        "flydsl::route, flydsl::moe")


def _compute(m: Any, x: torch.Tensor, found: _Mixture, product: Any, route: Any,
             product_of_experts: Any) -> tuple[torch.Tensor, ...]:
    """(output of the routed experts, logits, weights, ids) of rows x, by the given functions."""
    router = _router(m)
    logits = product(x, router.weight, getattr(router, "bias", None), found.scoring == "sigmoid")
    bias = getattr(router, "e_score_correction_bias", None)
    weights, ids = route(logits, found.topk, found.scoring, None if bias is None else bias.float(), *found.groups,
                         found.renormalize, found.scale)
    y = product_of_experts(m.experts, found.experts, x, weights.float(), ids.int())
    return y, logits, weights, ids


def _result(m: Any, x: torch.Tensor, parts: tuple[torch.Tensor, ...], second: str) -> Any:
    """What the module's forward returns."""
    y, logits, weights, ids = parts
    y = y.to(x.dtype).view(x.shape)
    shared = getattr(m, "shared_experts", None)
    y = y if shared is None else y + shared(x)
    if not second:
        return y
    weights = weights.to(logits.dtype)
    scores = torch.zeros_like(logits).scatter(1, ids.long(), weights)
    return y, {"logits": logits, "scores": scores, "weights": weights}[second]


def _second_of(m: Any, found: _Mixture) -> str | None:
    """What the forward returns besides its output ("", "logits", "scores" or "weights"); None if it is another one."""
    weight = _router(m).weight
    x = torch.linspace(-1.0, 2.0, 3 * weight.shape[1], device=weight.device).mul(7).sin()
    x = x.view(1, 3, -1).to(next(m.experts.parameters()).dtype)
    with torch.no_grad():
        given = type(m).forward(m, x)
        parts = _compute(m, x[0], found, _torch_product, ROUTE.reference, in_double)
        expected = _result(m, x, (parts[0].to(x.dtype), *parts[1:]), "")
    if isinstance(given, torch.Tensor):
        return None if differs(given, expected) else ""
    if not isinstance(given, tuple) or len(given) != 2 or differs(given[0], expected):
        return None
    for second in ("logits", "scores", "weights"):
        if not differs(given[1], _result(m, x, parts, second)[1]):
            return second
    return None


def _second_result(m: Any) -> tuple[str, str]:
    """Why a module cannot use the kernels, or "", and what `_second_of` says of its forward."""
    found = _read(m)
    if isinstance(found, str):
        return found, ""
    why = refuse_parameters(m.experts)
    if why:
        return why, ""
    second, why = tried(lambda: _second_of(m, found))
    if second is None:
        return why or "its forward is not that of a mixture of experts by its attributes", ""
    return "", second


def refuse_mixture(m: Any) -> str:
    """Why a module cannot use the kernels, or ""."""
    return _second_result(m)[0]


def refuse_mixture_call(m: Any, x: torch.Tensor) -> str:
    """Why a call cannot use the kernels, or ""."""
    weight = next(m.experts.parameters())
    why = refuse_tensors((weight,))
    if why:
        return why
    if x.dtype != weight.dtype or x.dtype not in HALVES:
        return f"input dtype {x.dtype}, weight dtype {weight.dtype}: both must be float16 or both bfloat16"
    if x.device != weight.device:
        return f"parameters on device {weight.device}, input on {x.device}"
    if x.dim() == 0 or x.shape[-1] != _router(m).weight.shape[1]:
        return f"the input has shape {tuple(x.shape)}, the last dimension must be {_router(m).weight.shape[1]}"
    if m.training and (getattr(m, "jitter_noise", 0) or 0) > 0:
        return "noise on the input of the router in training"
    return f"autocast of {x.dtype}" if torch.is_autocast_enabled(x.device.type) else ""


class MixtureForward:
    """Takes the place of a module's forward. A copy of it is for another module, which is tried when that is called."""

    def __init__(self, m: Any = None) -> None:
        # Here and not in a table of all modules: what torch.compile guards must not change when others are collected.
        self.second: str | None = None
        if m is not None:
            self._try(m)

    def __copy__(self) -> MixtureForward:
        return MixtureForward()

    def _try(self, m: Any) -> str:
        why, second = _second_result(m)
        if why:
            raise RuntimeError(f"{type(m).__name__} was changed since it was patched: {why}")
        self.second = second
        return second

    def __call__(self, m: Any, x: torch.Tensor) -> Any:
        second = self._try(m) if self.second is None else self.second
        found = _read(m)
        assert isinstance(found, _Mixture)
        rows = x.reshape(-1, x.shape[-1])
        return _result(m, x, _compute(m, rows, found, _product, ops.route, moe), second)
