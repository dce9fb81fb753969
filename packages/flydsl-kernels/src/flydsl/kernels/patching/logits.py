"""Language models whose own forward caps their logits, ``cap * tanh(logits / cap)`` (Gemma 2): the cap by its kernel.

The cap is written out in the forward of the whole model, behind its head. The patched forward is the same code on a
*view* of the model: another object with the same parts, whose head caps and whose configuration has no cap.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from .. import ops as _ops
from .parts import tried

__all__ = ["CappedForward", "caps_logits", "refuse_cap", "refuse_capped_call"]

ops: Any = _ops  # its forms are made from declarations
CAP, HEAD = "final_logit_softcapping", "lm_head"  # of the configuration, of the model
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _cap(model: Any) -> Any:
    return getattr(getattr(model, "config", None), CAP, None)


def caps_logits(model: nn.Module) -> bool:
    """Whether a model has a head, and a cap of its logits in its configuration."""
    return isinstance(model._modules.get(HEAD), nn.Module) and bool(_cap(model))


class _CappedHead(nn.Module):
    """A head with the cap behind it."""

    def __init__(self, head: nn.Module, cap: float) -> None:
        super().__init__()
        self.head, self.cap = head, cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.soft_cap(self.head(x), self.cap)


def _viewed(view: Any, model: Any, cap: float | None, parts: dict[str, nn.Module]) -> Any:
    """`view` with the state of a model, but with another cap in its configuration, and other parts."""
    config = copy.copy(model.config)
    setattr(config, CAP, cap)
    view.__dict__.update(model.__dict__, config=config, _modules={**model._modules, **parts})
    view.__dict__.pop("forward", None)
    return view


class CappedForward:
    """Takes the place of a model's forward: its own one, on a view of the model as it is in each call.

    A copy of it is for another model, which it knows when that is called.
    """

    def __init__(self, model: Any = None) -> None:
        # Here and not in a table of all models: what torch.compile guards must not change when others are collected.
        self.view: Any = None
        if model is not None:
            self._see(model)

    def __copy__(self) -> CappedForward:
        return CappedForward()

    def _see(self, model: Any) -> None:
        if self.view is None:
            self.view = object.__new__(type(model))
        _viewed(self.view, model, None, {HEAD: _CappedHead(model._modules[HEAD], float(_cap(model)))})

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            self._see(model)
        # Views are not made while a model is traced.
        elif self.view is None or self.view.lm_head.head is not model.lm_head or self.view.lm_head.cap != _cap(model):
            raise RuntimeError("the model is another one than in its last call: call it once before it is compiled")
        return type(model).forward(self.view, *args, **kwargs)


class _Stub(nn.Module):
    """Takes the place of what is below the head, and gives the same states always."""

    def __init__(self, states: torch.Tensor) -> None:
        super().__init__()
        self.states = states

    def forward(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(last_hidden_state=self.states, past_key_values=None, hidden_states=None,
                               attentions=None)


def _is_cap(model: Any) -> bool:
    """Whether its forward caps what the head gives, and does not without a cap in the configuration: tried with states
    whose logits are up to twice the cap."""
    head, cap = model._modules[HEAD], float(_cap(model))
    width = head.weight.shape[-1]
    states = torch.linspace(-1.0, 2.0, 2 * width, device=head.weight.device).mul(7).sin().view(1, 2, width)
    with torch.no_grad():
        largest = head(states.to(head.weight.dtype)).abs().max().float().clamp_min(1e-6)
        states = (states * (2 * cap / largest)).to(head.weight.dtype)
        logits = head(states)
        results = []
        for given in (None, cap):
            view = _viewed(object.__new__(type(model)), model, given, {model.base_model_prefix: _Stub(states)})
            results.append(type(model).forward(view, torch.zeros(1, 2, dtype=torch.long)).logits)
    plain, capped = results
    expected = cap * torch.tanh(logits.double() / cap)
    tolerance = 8 * torch.finfo(logits.dtype).eps * cap
    return torch.equal(plain, logits) and float((capped.double() - expected).abs().max()) <= tolerance


def refuse_cap(model: Any) -> str:
    """Why a model cannot use the kernel, or ""."""
    head = model._modules[HEAD]
    weight = getattr(head, "weight", None)
    if weight is None or weight.dtype not in _FLOATS:
        return f"its head {type(head).__name__} has no weight of float32, float16 or bfloat16"
    if weight.device.type == "meta":
        return "its weights have no values yet, so its definition cannot be checked"
    same, why = tried(lambda: _is_cap(model))
    return why or ("" if same else f"its forward is not that of a head with {CAP} behind it")


def refuse_capped_call(model: Any, *_: Any, **__: Any) -> str:
    """Why a call cannot use the kernel, or ""."""
    return "" if _cap(model) else f"its {CAP} was taken away"
