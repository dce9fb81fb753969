"""``flydsl.kernels.patch(model)``: modules of a torch model run the kernels where they can, and the report says where.

A module keeps its class, parameters and state; only its ``forward`` is replaced, and ``PatchReport.undo`` puts it
back. Copies of a module count at its call site. What cannot run a kernel keeps its own forward, with the reason in
the report. A call that turns out not to fit (a dtype, a device) runs the original forward, is counted with its reason,
and is announced once by a warning; with ``strict`` it is an error.
"""

from __future__ import annotations

import copy
import functools
import re
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
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
from .sdpa import Redirected, refuse_sdpa, sdpa

__all__ = ["CallSite", "PatchReport", "patch"]

ops: Any = _ops  # its forms are made from declarations
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_HALVES = (torch.float16, torch.bfloat16)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass
class CallSite:
    """One module of the model.

    Attributes:
        name, kind: its path and class name.
        kernel: the operator that it uses now, or None.
        reason: why it uses none.
        calls: calls that ran the kernel.
        fallbacks: calls that ran the original forward, by reason.
    """

    name: str
    kind: str
    kernel: str | None
    reason: str = ""
    calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)


class PatchReport:
    """Which call sites use which kernel, and which do not, and why. Printable.

    Attributes:
        sites: one for each module of a kind that has kernels, or that computes what kernels could; and one for
            ``scaled_dot_product_attention`` when the model has called it.
        notes: what else was changed in the model.
    """

    def __init__(self) -> None:
        self.sites: list[CallSite] = []
        self.notes: list[str] = []
        self._undo: list[Callable[[], None]] = []

    @property
    def patched(self) -> list[CallSite]:
        return [s for s in self.sites if s.kernel]

    @property
    def skipped(self) -> list[CallSite]:
        return [s for s in self.sites if not s.kernel]

    def undo(self) -> None:
        """Put all forwards back."""
        while self._undo:
            self._undo.pop()()

    def __str__(self) -> str:
        lines = [f"{len(self.patched)} of {len(self.sites)} call sites use flydsl kernels on {target().arch}"]
        for site in self.sites:
            what = f"-> {site.kernel} ({site.calls} calls)" if site.kernel else f"unchanged: {site.reason}"
            lines.append(f"  {site.name or '<model>'} ({site.kind}) {what}")
            lines += [f"    fell back {n} times: {why}" for why, n in site.fallbacks.items()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Rule:
    """How a kind of module is replaced."""

    kernel: str
    matches: Callable[[nn.Module], bool]
    refuse: Callable[[Any], str]  # why the module cannot, or ""
    refuse_call: Callable[..., str]  # why a call with these arguments cannot, or ""
    run: Callable[..., Any] | None = None
    bind: Callable[[Any], Callable[..., Any]] | None = None  # gives `run` for a module
    several: bool = False  # whether calls have more than one argument
    names: Callable[[Any], str] | None = None  # the operators of a module, if not all of `kernel`

    def operators(self, module: nn.Module) -> str:
        return self.kernel if self.names is None else self.names(module)


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
    _Rule("flydsl::layernorm_fwd", lambda m: parts.is_plain(m, nn.LayerNorm), _one_dimension, _norm_call,
          lambda m, x: ops.layernorm(_single_under_autocast(x), m.weight, m.bias, m.eps)),
    _Rule("flydsl::rmsnorm_fwd", _is_norm, _norm_module, _norm_call, bind=_norm, names=_norm_kernel),
    _Rule("flydsl::softmax", lambda m: parts.is_plain(m, nn.Softmax), _softmax_module,
          lambda m, x: "" if x.dtype in _FLOATS and x.dim() else f"input dtype {x.dtype}, rank {x.dim()}",
          lambda m, x: ops.softmax(_single_under_autocast(x))),
    _Rule("flydsl::linear", lambda m: parts.is_plain(m, nn.Linear), _linear_module, _linear_call,
          lambda m, x: ops.linear(x, m.weight, m.bias)),
    _Rule("flydsl::linear, flydsl::softmax", lambda m: type(m) is nn.MultiheadAttention,
          lambda m: refuse_attention(m) or _lacking("gemm"), refuse_attention_call, attention, several=True),
    _Rule("flydsl::activate", parts.is_activation, parts.refuse_activation,
          lambda m, x: "" if x.dtype in _FLOATS else f"input dtype {x.dtype}", bind=parts.activation_of),
    _Rule("flydsl::embedding", parts.is_embedding, parts.refuse_embedding, parts.refuse_embedding_call,
          bind=parts.embedding_of),
    _Rule("flydsl::conv", lambda m: any(parts.is_plain(m, kind) for kind in _CONVOLUTIONS), parts.refuse_conv,
          parts.refuse_conv_call, parts.convolve),
    _Rule("flydsl::rope, flydsl::attention_fwd", language.is_language_attention, language.refuse_language_attention,
          language.refuse_language_call, bind=language.language_forward, several=True, names=language.kernels_of),
    _Rule("flydsl::route, flydsl::moe", is_mixture, lambda m: _lacking("moe") or refuse_mixture(m), refuse_mixture_call,
          bind=MixtureForward, names=mixture_kernels),
    _Rule("flydsl::moe", is_experts, lambda m: _lacking("moe") or refuse_experts(m), refuse_experts_call,
          experts_forward, several=True),
    _Rule("flydsl::activate_pair", is_gated, refuse_gated,
          lambda m, x: "" if x.dtype in _FLOATS else f"input dtype {x.dtype}", bind=gated_forward,
          names=lambda m: "flydsl::activate_and_mul" if hasattr(m, "gate_up_proj") else "flydsl::activate_pair"),
    _Rule("flydsl::activate", caps_logits, refuse_cap, refuse_capped_call, several=True,
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


class _Replacement:
    """Takes the place of the ``forward`` of `module`, and has its signature and code for those who ask for them (the
    trainer of Hugging Face, torch.export). A pickled module is loaded with its own forward."""

    module: nn.Module

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return types.MethodType(type(self.module).forward, self.module)

    @property
    def __code__(self) -> types.CodeType:
        return type(self.module).forward.__code__

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (type(self.module).forward, self.module)


class _Forward(_Replacement):
    """Takes the place of a module's ``forward``.

    A deep copy of the module gets one of its own that works on the copy and is counted at the same call site.
    """

    def __init__(self, module: nn.Module, shared: _Shared, run: Callable[..., Any] | None = None) -> None:
        self.module, self.shared = module, shared
        rule = shared.rule
        self.run: Any = run or (rule.run if rule.bind is None else rule.bind(module))
        shared.modules.append(weakref.ref(module))

    def __deepcopy__(self, memo: dict[int, Any]) -> _Forward:
        return _Forward(copy.deepcopy(self.module, memo), self.shared, copy.copy(self.run))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module, shared = self.module, self.shared
        site, rule = shared.site, shared.rule
        values = (*args, *kwargs.values())
        if rule.several:  # the first may be None, with another tensor in its stead
            values = (*(v for v in values if isinstance(v, torch.Tensor)), *values)
        x = values[0] if values else None
        if len(values) != 1 and not rule.several:
            why = f"it was called with {len(values)} arguments"
        elif not isinstance(x, torch.Tensor):
            why = f"it was called with a {type(x).__name__}"
        elif x.device.type != shared.device:
            why = f"input on device {x.device.type!r}, kernels run on {shared.device!r}"
        else:
            tensors = (v for v in values if isinstance(v, torch.Tensor))
            why = parts.refuse_tensors((*tensors, *module._parameters.values())) or (
                rule.refuse_call(module, *args, **kwargs) if rule.several else rule.refuse_call(module, x))
        if not why:
            site.calls += 1
            assert self.run is not None  # a rule has it, or makes it for the module
            return self.run(module, *args, **kwargs) if rule.several else self.run(module, x)
        self.refused(why)
        return type(module).forward(module, *args, **kwargs)

    def refused(self, why: str) -> None:
        """Count a call that runs the original code, and say so once. RuntimeError if that may not be."""
        site, shared = self.shared.site, self.shared
        if shared.strict:
            raise RuntimeError(f"{site.name} ({site.kind}) cannot use {shared.rule.kernel}: {why}")
        site.fallbacks[why] += 1
        if why not in shared.announced:
            shared.announced.add(why)
            warnings.warn(f"{site.name} ({site.kind}) does not use {shared.rule.kernel}: {why}", stacklevel=3)


_SDPA = "scaled_dot_product_attention"


class _Attending(_Replacement):
    """Takes the place of a model's ``forward``: calls of torch's attention function within it run the kernel.

    Copies of the model count at the same call site.
    """

    def __init__(self, module: nn.Module, report: PatchReport, strict: bool, within: _Forward | None = None,
                 site: CallSite | None = None) -> None:
        self.module, self.report, self.strict = module, report, strict
        self.within = within  # what took the place of the model's forward before
        self.device = device_type()
        self.site = site or CallSite(_SDPA, "function", "flydsl::attention_fwd")
        self.announced: set[str] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Attending:
        return _Attending(copy.deepcopy(self.module, memo), self.report, self.strict, copy.deepcopy(self.within, memo),
                          self.site)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.run(*args, **kwargs)
        with Redirected(self.attend):
            return self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The forward itself."""
        if self.within is not None:
            return self.within(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)

    def attend(self, *args: Any, **kwargs: Any) -> Any:
        """A call of torch's function."""
        if self.site not in self.report.sites:
            self.report.sites.append(self.site)
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        device = tensors[0].device.type
        why = parts.refuse_tensors(tensors) or refuse_sdpa(*args, **kwargs) if device == self.device else (
            f"operands on device {device!r}, kernels run on {self.device!r}")
        if not why:
            self.site.calls += 1
            return sdpa(*args, **kwargs)
        if self.strict:
            raise RuntimeError(f"{_SDPA} cannot use {self.site.kernel}: {why}")
        self.site.fallbacks[why] += 1
        if why not in self.announced:
            self.announced.add(why)
            warnings.warn(f"{_SDPA} does not use {self.site.kernel}: {why}", stacklevel=2)
        return nn.functional.scaled_dot_product_attention(*args, **kwargs)

    def undo(self) -> None:
        if isinstance(self.module.__dict__.get("forward"), _Attending):
            del self.module.__dict__["forward"]
            if self.within is not None:
                self.module.forward = self.within


@dataclass
class _Shared:
    """What the forwards of a call site (of a module and its copies) have in common."""

    site: CallSite
    rule: _Rule
    strict: bool
    device: str
    announced: set[str] = field(default_factory=set)
    modules: list[weakref.ref[nn.Module]] = field(default_factory=list)

    def undo(self) -> None:
        for module in [m for m in (reference() for reference in self.modules) if m is not None]:
            found = module.__dict__.get("forward")
            if isinstance(found, _Forward):
                del module.__dict__["forward"]
            elif isinstance(found, _Attending):  # of a copy
                found.within = None
        self.modules.clear()


def _computed_parts(module: nn.Module) -> list[nn.Module]:
    """Parts that a patched module computes itself, without calling them."""
    found: Any = module.__dict__.get("forward")
    found = found.within if isinstance(found, _Attending) else found
    bind = found.shared.rule.bind if isinstance(found, _Forward) else None
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
            if isinstance(parts[id(module)].__dict__.get("forward"), _Forward):
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
            shared = _Shared(site, rule, strict, device_type())
            module.forward = _Forward(module, shared)
            report._undo.append(shared.undo)
        within.update(map(id, _computed_parts(module)))
    _open_encoder_layers(model, report)
    wanted = (only is None or any(_SDPA.endswith(o) for o in only)) and not _lacking("attention_fwd")
    whole = isinstance(model, nn.MultiheadAttention | torch.jit.ScriptModule)
    alone = whole or next(model.children(), None) is None
    own = model.__dict__.get("forward")
    inner = own if isinstance(own, _Forward) and any(own.shared.site is site for site in report.sites) else None
    if wanted and not alone and (inner is not None or not _is_replaced(model)):
        attending = _Attending(model, report, strict, inner)
        model.forward = attending
        report._undo.append(attending.undo)
    return report


def _open_encoder_layers(model: nn.Module, report: PatchReport) -> None:
    """Make encoder layers with patched modules call them in evaluation too."""
    for name, layer in model.named_modules():
        patched = any(isinstance(m.__dict__.get("forward"), _Forward) for m in layer.modules())
        if isinstance(layer, nn.TransformerEncoderLayer) and patched:
            report._undo.append(_without_fused_path(layer))
            report.notes.append(f"{name or '<model>'} ({type(layer).__name__}): torch's fused form for evaluation, "
                                "which calls no module, is off")
