"""What takes the place of a ``forward``: of a module that a rule is for, and of a model whose attention is torch's."""

from __future__ import annotations

import copy
import functools
import types
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..host.arrays import device_type
from . import parts
from .report import CallSite, PatchReport
from .sdpa import Redirected, refuse_sdpa, sdpa

__all__ = ["SDPA", "Attending", "Forward", "Rule", "Shared"]


@dataclass(frozen=True)
class Rule:
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


class Replacement:
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


class Forward(Replacement):
    """Takes the place of a module's ``forward``.

    A deep copy of the module gets one of its own that works on the copy and is counted at the same call site.
    """

    def __init__(self, module: nn.Module, shared: Shared, run: Callable[..., Any] | None = None) -> None:
        self.module, self.shared = module, shared
        rule = shared.rule
        self.run: Any = run or (rule.run if rule.bind is None else rule.bind(module))
        shared.modules.append(weakref.ref(module))

    def __deepcopy__(self, memo: dict[int, Any]) -> Forward:
        return Forward(copy.deepcopy(self.module, memo), self.shared, copy.copy(self.run))

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


SDPA = "scaled_dot_product_attention"


class Attending(Replacement):
    """Takes the place of a model's ``forward``: calls of torch's attention function within it run the kernel.

    Copies of the model count at the same call site.
    """

    def __init__(self, module: nn.Module, report: PatchReport, strict: bool, within: Forward | None = None,
                 site: CallSite | None = None) -> None:
        self.module, self.report, self.strict = module, report, strict
        self.within = within  # what took the place of the model's forward before
        self.device = device_type()
        self.site = site or CallSite(SDPA, "function", "flydsl::attention_fwd")
        self.announced: set[str] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> Attending:
        return Attending(copy.deepcopy(self.module, memo), self.report, self.strict, copy.deepcopy(self.within, memo),
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
            raise RuntimeError(f"{SDPA} cannot use {self.site.kernel}: {why}")
        self.site.fallbacks[why] += 1
        if why not in self.announced:
            self.announced.add(why)
            warnings.warn(f"{SDPA} does not use {self.site.kernel}: {why}", stacklevel=2)
        return nn.functional.scaled_dot_product_attention(*args, **kwargs)

    def undo(self) -> None:
        if isinstance(self.module.__dict__.get("forward"), Attending):
            del self.module.__dict__["forward"]
            if self.within is not None:
                self.module.forward = self.within


@dataclass
class Shared:
    """What the forwards of a call site (of a module and its copies) have in common."""

    site: CallSite
    rule: Rule
    strict: bool
    device: str
    announced: set[str] = field(default_factory=set)
    modules: list[weakref.ref[nn.Module]] = field(default_factory=list)

    def undo(self) -> None:
        for module in [m for m in (reference() for reference in self.modules) if m is not None]:
            found = module.__dict__.get("forward")
            if isinstance(found, Forward):
                del module.__dict__["forward"]
            elif isinstance(found, Attending):  # of a copy
                found.within = None
        self.modules.clear()
