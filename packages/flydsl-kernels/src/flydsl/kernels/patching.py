"""``flydsl.kernels.patch(model)``: modules of a torch model run the kernels where they can, and the report says where.

A module keeps its class, parameters and state; only its ``forward`` is replaced, and ``PatchReport.undo`` puts it
back. What cannot run a kernel keeps its own forward, with the reason in the report. A call that turns out not to fit
(a dtype, a device) runs the original forward, is counted with its reason, and is announced once by a warning; with
``strict`` it is an error.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from . import ops
from .common.arch import target
from .common.arrays import device_type

__all__ = ["CallSite", "PatchReport", "patch"]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_HALVES = (torch.float16, torch.bfloat16)


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
    """Which call sites use which kernel, and which do not, and why. Printable."""

    def __init__(self) -> None:
        self.sites: list[CallSite] = []
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
        return "\n".join(lines)


@dataclass(frozen=True)
class _Rule:
    """How a kind of module is replaced."""

    kernel: str
    matches: Callable[[nn.Module], bool]
    refuse: Callable[[Any], str]  # why the module cannot, or ""
    refuse_call: Callable[[Any, Any], str]  # why this input cannot, or ""
    run: Callable[[Any, Any], Any]


def _eps(module: nn.Module) -> float:
    value = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    return 1e-5 if value is None else float(value)


def _norm_call(module: Any, x: torch.Tensor) -> str:
    weight = module.weight
    if x.dtype not in _FLOATS:
        return f"input dtype {x.dtype}"
    if weight.dtype not in (x.dtype, torch.float32):
        return f"weight dtype {weight.dtype} with input dtype {x.dtype}"
    if x.shape[-1] != weight.shape[0]:
        return f"the last dimension is {x.shape[-1]}, the weight has {weight.shape[0]}"
    return ""


def _one_dimension(module: nn.Module) -> str:
    shape = getattr(module, "normalized_shape", None)
    if shape is not None and len(shape) != 1:
        return f"it normalises {len(shape)} dimensions"
    return "" if getattr(module, "weight", None) is not None else "it has no weight"


def _is_rmsnorm(module: nn.Module) -> bool:
    kind = type(module)
    if kind is getattr(nn, "RMSNorm", None):
        return True
    # Language models bring their own: a weight, an epsilon, and the usual name.
    return kind.__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon")


def _rmsnorm_eps(module: nn.Module, x: torch.Tensor) -> float:
    # torch's own default is the machine epsilon of the input.
    if type(module) is getattr(nn, "RMSNorm", None) and module.eps is None:
        return torch.finfo(x.dtype).eps
    return _eps(module)


def _softmax_module(module: nn.Module) -> str:
    return "" if module.dim == -1 else f"dim is {module.dim}; the kernel reduces the last dimension (-1)"


def _linear_module(module: Any) -> str:
    try:
        from .gemm.matrix import matrix_op

        matrix_op(target(), "bf16")
    except ValueError as error:
        return str(error)
    n, k = module.weight.shape
    return "" if n % 8 == 0 and k % 8 == 0 else f"features must be multiples of 8, got {k} -> {n}"


def _linear_call(module: Any, x: torch.Tensor) -> str:
    if x.dtype not in _HALVES or module.weight.dtype != x.dtype:
        return f"input dtype {x.dtype}, weight dtype {module.weight.dtype}: both must be float16 or both bfloat16"
    return ""


_RULES = (
    _Rule("flydsl::layernorm_fwd", lambda m: type(m) is nn.LayerNorm,
          lambda m: _one_dimension(m) or ("" if m.bias is not None else "it has no bias"), _norm_call,
          lambda m, x: ops.layernorm(x, m.weight, m.bias, m.eps)),
    _Rule("flydsl::rmsnorm_fwd", _is_rmsnorm, _one_dimension, _norm_call,
          lambda m, x: ops.rmsnorm(x, m.weight, _rmsnorm_eps(m, x))),
    _Rule("flydsl::softmax", lambda m: type(m) is nn.Softmax, _softmax_module,
          lambda m, x: "" if x.dtype in _FLOATS else f"input dtype {x.dtype}", lambda m, x: ops.softmax(x)),
    _Rule("flydsl::linear", lambda m: type(m) is nn.Linear, _linear_module, _linear_call,
          lambda m, x: ops.linear(x, m.weight, m.bias)),
)  # fmt: skip


def _install(module: nn.Module, site: CallSite, rule: _Rule, strict: bool) -> Callable[[], None]:
    original, needed = module.forward, device_type()
    announced: set[str] = set()

    def forward(x: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            why = "it was called with more than one argument"
        elif not isinstance(x, torch.Tensor):
            why = f"it was called with a {type(x).__name__}"
        elif x.device.type != needed:
            why = f"input on device {x.device.type!r}, kernels run on {needed!r}"
        else:
            why = rule.refuse_call(module, x)
        if not why:
            site.calls += 1
            return rule.run(module, x)
        if strict:
            raise RuntimeError(f"{site.name} ({site.kind}) cannot use {rule.kernel}: {why}")
        site.fallbacks[why] += 1
        if why not in announced:
            announced.add(why)
            warnings.warn(f"{site.name} ({site.kind}) does not use {rule.kernel}: {why}", stacklevel=2)
        return original(x, *args, **kwargs)

    module.forward = forward  # type: ignore[method-assign]
    return lambda: delattr(module, "forward")


def patch(model: nn.Module, *, strict: bool = False, only: tuple[str, ...] | None = None) -> PatchReport:
    """Let the modules of `model` run flydsl kernels: LayerNorm, RMSNorm (also of language models), Softmax, Linear.

    Args:
        model: changed in place; parameters and state stay.
        strict: a call that cannot run the kernel is a RuntimeError instead of a warning and the original forward.
        only: kinds to patch, e.g. ``("LayerNorm", "RMSNorm")``; all by default.

    Returns:
        The report; its ``undo()`` restores the model.
    """
    report = PatchReport()
    for name, module in model.named_modules():
        rule = next((r for r in _RULES if r.matches(module)), None)
        if rule is None:
            continue
        kind = type(module).__name__
        why = "" if only is None or any(kind.endswith(o) for o in only) else f"only {', '.join(only)} was asked for"
        if not why and "forward" in module.__dict__:
            why = "its forward was replaced already"
        why = why or rule.refuse(module)
        site = CallSite(name, kind, None if why else rule.kernel, why)
        report.sites.append(site)
        if not why:
            report._undo.append(_install(module, site, rule, strict))
    return report
