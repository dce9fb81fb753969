"""``flydsl.kernels.patch(model)``: modules of a torch model run the kernels where they can, and the report says where.

A module keeps its class, parameters and state; only its ``forward`` is replaced, and ``PatchReport.undo`` puts it
back. Copies of a module count at its call site. What cannot run a kernel keeps its own forward, with the reason in
the report. A call that turns out not to fit (a dtype, a device) runs the original forward, is counted with its reason,
and is announced once by a warning; with ``strict`` it is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .. import ops as _ops
from ..host.arrays import device_type
from ..op import operations
from ..target import target
from . import language, parts
from .attention import attention, refuse_attention, refuse_attention_call
from .experts import experts_forward, is_experts, refuse_experts, refuse_experts_call
from .logits import CappedForward, caps_logits, refuse_cap, refuse_capped_call
from .mlp import activation_module, gated_forward, is_gated, refuse_gated
from .moe import MixtureForward, is_mixture, refuse_mixture, refuse_mixture_call
from .moe import kernels_of as mixture_kernels
from .replaced import SDPA, Attending, Forward, Rule, Shared
from .report import CallSite, PatchReport

__all__ = ["CallSite", "PatchReport", "patch"]

ops: Any = _ops  # its forms are made from declarations
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_HALVES = (torch.float16, torch.bfloat16)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def _norm_call(module: Any, x: torch.Tensor) -> str:
    if x.dtype not in _FLOATS:
        return f"input dtype {x.dtype}"
    for name in ("weight", "bias"):
        vector = getattr(module, name, None)
        if vector is None:
            continue
        if vector.dtype not in (x.dtype, torch.float32):
            return f"{name} dtype {vector.dtype} with input dtype {x.dtype}"
        if vector.dtype != module.weight.dtype:
            return f"weight dtype {module.weight.dtype} with bias dtype {vector.dtype}"
        if vector.device != x.device:
            return f"{name} on device {vector.device}, input on {x.device}"
    if x.dim() == 0 or x.shape[-1] != _normalised(module):
        return f"the input has shape {tuple(x.shape)}, the last dimension must be {_normalised(module)}"
    return ""


def _normalised(module: Any) -> int:
    shape = getattr(module, "normalized_shape", None) or module.weight.shape
    return int(shape[-1])


def _one_dimension(module: nn.Module) -> str:
    shape = getattr(module, "normalized_shape", (0,))
    return f"it normalises {len(shape)} dimensions" if len(shape) != 1 else ""


def _is_torch_rmsnorm(module: nn.Module) -> bool:
    return parts.is_plain(module, nn.RMSNorm)


def _is_norm(module: nn.Module) -> bool:
    """torch's RMS norm, or one that a language model brings: with a usual name and one weight."""
    weight, name = getattr(module, "weight", None), type(module).__name__
    return _is_torch_rmsnorm(module) or (
        name.endswith(("RMSNorm", "LayerNorm")) and not isinstance(module, nn.LayerNorm)
        and isinstance(weight, torch.Tensor) and weight.dim() == 1 and getattr(module, "bias", None) is None
    )


def _own_epsilon(module: nn.Module) -> float | None:
    for name in ("variance_epsilon", "eps", "epsilon"):
        if isinstance(getattr(module, name, None), float):
            return float(getattr(module, name))
    return None


def _norm_module(module: Any) -> str:
    """A class that only has the name may compute something else (a weight from 0, a gate): it is tried."""
    if _is_torch_rmsnorm(module):
        return _one_dimension(module)
    eps = _own_epsilon(module)
    if eps is None:
        return "no epsilon was found (variance_epsilon or eps)"
    if module.weight.device.type == "meta":
        return "its weight has no values yet, so its definition cannot be checked"
    kind, why = parts.tried(lambda: parts.norm_kind(module, eps))
    return why or ("" if kind else "its forward is not x * rsqrt(mean(x**2) + eps) * weight, nor that with 1 + weight "
                                   "or of the distance from the mean")


def _norm_kernel(module: Any) -> str:
    layer = not _is_torch_rmsnorm(module) and parts.norm_kind(module, _own_epsilon(module) or 0.0) == "layer"
    return "flydsl::layernorm_fwd" if layer else "flydsl::rmsnorm_fwd"


def _norm(module: Any) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """What takes the place of a norm's forward."""
    if _is_torch_rmsnorm(module):
        # torch's own default is the machine epsilon of the input.
        return lambda m, x: ops.rmsnorm(x, m.weight, torch.finfo(x.dtype).eps if m.eps is None else m.eps)
    eps = _own_epsilon(module) or 0.0
    kind = parts.norm_kind(module, eps)
    if kind == "layer":
        return lambda m, x: ops.layernorm(x, m.weight, None, eps)
    if kind == "rms, 1 + weight":
        return lambda m, x: ops.rmsnorm(x, m.weight, eps, 1.0)
    # These multiply by the weight after rounding, so a wider weight makes a wider result.
    return lambda m, x: ops.rmsnorm(x, m.weight, eps).to(torch.promote_types(x.dtype, m.weight.dtype))


def _single_under_autocast(x: torch.Tensor) -> torch.Tensor:
    """torch computes norms and softmax in f32 under the autocast of GPUs, and as they come elsewhere."""
    return x.float() if x.is_cuda and torch.is_autocast_enabled("cuda") else x


def _softmax_module(module: nn.Module) -> str:
    return "" if module.dim == -1 else f"dim is {module.dim}; the kernel reduces the last dimension (-1)"


def _lacking(*names: str) -> str:
    """Which of these operators the architecture does not have, or ""."""
    for name in names:
        archs = getattr(operations(), name).archs
        if not target().name.startswith(archs):
            return f"flydsl::{name} is not available on {target().name}: it needs {' or '.join(archs)}"
    return ""


def _linear_module(module: Any) -> str:
    n, k = module.weight.shape
    return _lacking("gemm") or (
        "" if n % 8 == 0 and k % 8 == 0 else f"features must be multiples of 8, got {k} -> {n}")


def _linear_call(module: Any, x: torch.Tensor) -> str:
    weight, bias = module.weight, module.bias
    if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
        return f"the input has shape {tuple(x.shape)}, the last dimension must be {weight.shape[1]}"
    for tensor in (weight, bias):
        if tensor is not None and tensor.device != x.device:
            return f"parameters on device {tensor.device}, input on {x.device}"
    if torch.is_autocast_enabled(x.device.type):  # then operands of any float type are converted
        dtype = torch.get_autocast_dtype(x.device.type)
        single = all(t.dtype in _FLOATS for t in (x, weight))
        return "" if dtype in _HALVES and single else f"autocast to {dtype} of {x.dtype} and {weight.dtype}"
    if x.dtype not in _HALVES or weight.dtype != x.dtype:
        return f"input dtype {x.dtype}, weight dtype {weight.dtype}: both must be float16 or both bfloat16"
    return ""


_RULES = (
    Rule("flydsl::layernorm_fwd", lambda m: parts.is_plain(m, nn.LayerNorm), _one_dimension, _norm_call,
          lambda m, x: ops.layernorm(_single_under_autocast(x), m.weight, m.bias, m.eps)),
    Rule("flydsl::rmsnorm_fwd", _is_norm, _norm_module, _norm_call, bind=_norm, names=_norm_kernel),
    Rule("flydsl::softmax", lambda m: parts.is_plain(m, nn.Softmax), _softmax_module,
          lambda m, x: "" if x.dtype in _FLOATS and x.dim() else f"input dtype {x.dtype}, rank {x.dim()}",
          lambda m, x: ops.softmax(_single_under_autocast(x))),
    Rule("flydsl::linear", lambda m: parts.is_plain(m, nn.Linear), _linear_module, _linear_call,
          lambda m, x: ops.linear(x, m.weight, m.bias)),
    Rule("flydsl::linear, flydsl::softmax", lambda m: type(m) is nn.MultiheadAttention,
          lambda m: refuse_attention(m) or _lacking("gemm"), refuse_attention_call, attention, several=True),
    Rule("flydsl::activate", parts.is_activation, parts.refuse_activation,
          lambda m, x: "" if x.dtype in _FLOATS else f"input dtype {x.dtype}", bind=parts.activation_of),
    Rule("flydsl::embedding", parts.is_embedding, parts.refuse_embedding, parts.refuse_embedding_call,
          bind=parts.embedding_of),
    Rule("flydsl::conv", lambda m: any(parts.is_plain(m, kind) for kind in _CONVOLUTIONS), parts.refuse_conv,
          parts.refuse_conv_call, parts.convolve),
    Rule("flydsl::rope, flydsl::attention_fwd", language.is_language_attention, language.refuse_language_attention,
          language.refuse_language_call, bind=language.language_forward, several=True, names=language.kernels_of),
    Rule("flydsl::route, flydsl::moe", is_mixture, lambda m: _lacking("moe") or refuse_mixture(m), refuse_mixture_call,
          bind=MixtureForward, names=mixture_kernels),
    Rule("flydsl::moe", is_experts, lambda m: _lacking("moe") or refuse_experts(m), refuse_experts_call,
          experts_forward, several=True),
    Rule("flydsl::activate_pair", is_gated, refuse_gated,
          lambda m, x: "" if x.dtype in _FLOATS else f"input dtype {x.dtype}", bind=gated_forward,
          names=lambda m: "flydsl::activate_and_mul" if hasattr(m, "gate_up_proj") else "flydsl::activate_pair"),
    Rule("flydsl::activate", caps_logits, refuse_cap, refuse_capped_call, several=True,
          bind=CappedForward),
)


def _unknown_kind(module: nn.Module) -> str:
    """Why a module that computes what kernels could is left alone, or "" for any other module."""
    for kind in (nn.LayerNorm, nn.Softmax, nn.Linear, nn.MultiheadAttention, nn.Embedding, *_CONVOLUTIONS):
        if isinstance(module, kind):
            return f"it is a class of its own, {type(module).__name__}, made from {kind.__name__}"
    name = type(module).__name__
    if name.endswith(("RMSNorm", "LayerNorm")):
        return f"its class {name} is not known"
    if re.search("Experts|Mo[eE](Block|Layer)?$", name) and not isinstance(module, nn.ModuleList):
        return f"its class {name} is no mixture of experts that is known"
    return ""


def _computed_parts(module: nn.Module) -> list[nn.Module]:
    """Parts that a patched module computes itself, without calling them."""
    found: Any = module.__dict__.get("forward")
    found = found.within if isinstance(found, Attending) else found
    bind = found.shared.rule.bind if isinstance(found, Forward) else None
    if bind is MixtureForward:
        return list(found.module.experts.modules())
    return [activation_module(module)] if bind is gated_forward else []


def _is_replaced(module: nn.Module) -> bool:
    found = module.__dict__.get("forward")
    # A module that was pickled while patched has its own forward as an attribute.
    own = isinstance(found, functools.partial) and found.func is type(module).forward and found.args == (module,)
    return found is not None and not own


def _without_fused_path(layer: Any) -> Callable[[], None]:
    """Make an encoder layer call its modules in evaluation too: torch's fused form of it would bypass them."""
    before, layer.activation_relu_or_gelu = layer.activation_relu_or_gelu, 0
    return lambda: setattr(layer, "activation_relu_or_gelu", before)


def patch(model: nn.Module, *, strict: bool = False, only: str | tuple[str, ...] | None = None) -> PatchReport:
    """Let the modules of `model` run flydsl kernels: LayerNorm, RMSNorm (also of language models), Softmax, Linear,
    MultiheadAttention, SiLU and GELU, Embedding, convolutions, rotary embedding and attention of Hugging Face language
    models, their gated layers, mixtures of experts with routers, soft caps of logits, and whatever calls
    ``torch.nn.functional.scaled_dot_product_attention``.

    Args:
        model: changed in place; parameters and state stay.
        strict: a call that cannot run the kernel is a RuntimeError instead of a warning and the original forward.
        only: kinds to patch, e.g. ``("LayerNorm", "RMSNorm")``, or one; all by default.

    Returns:
        The report; its ``undo()`` restores the model.

    Raises:
        TypeError: the model is no module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"patch: expected a torch.nn.Module, got {type(model).__name__}")
    only = (only,) if isinstance(only, str) else only
    report = PatchReport()
    parts = {id(m.out_proj): m for m in model.modules() if isinstance(m, nn.MultiheadAttention)}
    within: set[int] = set()  # parts that are computed by the patched module that they are of
    for name, module in model.named_modules():
        kind, known = type(module).__name__, False
        if id(module) in within:
            continue
        if isinstance(module, torch.jit.ScriptModule):
            report.sites.append(CallSite(name, kind, None, "TorchScript runs its own code"))
            within.update(map(id, module.modules()))
            continue
        rule = next((r for r in _RULES if r.matches(module)), None)
        why = _unknown_kind(module) if rule is None else ""
        if id(module) in parts:
            if isinstance(parts[id(module)].__dict__.get("forward"), Forward):
                continue  # computed by its attention
            why = "torch's attention reads its weights and does not call it"
        if rule is None and not why:
            continue
        if only is not None and not any(kind.endswith(o) for o in only):
            why = f"only {', '.join(only)} was asked for"
        if rule is not None and not why:
            why = "its forward was replaced already" if _is_replaced(module) else rule.refuse(module)
            known = not why
        site = CallSite(name, kind, rule.operators(module) if rule is not None and known else None, why)
        report.sites.append(site)
        if rule is not None and known:
            shared = Shared(site, rule, strict, device_type())
            module.forward = Forward(module, shared)
            report._undo.append(shared.undo)
        within.update(map(id, _computed_parts(module)))
    _open_encoder_layers(model, report)
    wanted = (only is None or any(SDPA.endswith(o) for o in only)) and not _lacking("attention_fwd")
    whole = isinstance(model, nn.MultiheadAttention | torch.jit.ScriptModule)
    alone = whole or next(model.children(), None) is None
    own = model.__dict__.get("forward")
    inner = own if isinstance(own, Forward) and any(own.shared.site is site for site in report.sites) else None
    if wanted and not alone and (inner is not None or not _is_replaced(model)):
        attending = Attending(model, report, strict, inner)
        model.forward = attending
        report._undo.append(attending.undo)
    return report


def _open_encoder_layers(model: nn.Module, report: PatchReport) -> None:
    """Make encoder layers with patched modules call them in evaluation too."""
    for name, layer in model.named_modules():
        patched = any(isinstance(m.__dict__.get("forward"), Forward) for m in layer.modules())
        if isinstance(layer, nn.TransformerEncoderLayer) and patched:
            report._undo.append(_without_fused_path(layer))
            report.notes.append(f"{name or '<model>'} ({type(layer).__name__}): torch's fused form for evaluation, "
                                "which calls no module, is off")
