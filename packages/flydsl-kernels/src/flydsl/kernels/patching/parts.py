"""Patched modules without a state of their own: activations, embeddings, convolutions, and norms that models bring.

What a module of a known kind of name computes is tried before it is patched.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import ops as _ops
from ..target import MATRIX_ARCHS, target

__all__ = [
    "activation_kind", "activation_of", "convolve", "embedding_of", "is_activation", "is_embedding", "is_plain",
    "norm_kind", "refuse_activation", "refuse_conv", "refuse_conv_call", "refuse_embedding", "refuse_embedding_call",
    "refuse_tensors", "tried",
]

T = TypeVar("T")
ops: Any = _ops  # its forms are made from declarations
_KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "silu": (F.silu, lambda x: ops.silu(x)),
    "gelu": (F.gelu, lambda x: ops.gelu(x)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda x: ops.gelu(x, "tanh")),
}


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether it is of torch's class, or of one made from it with the same forward, and its parameters are its own and
    made already."""
    return (isinstance(module, kind) and type(module).forward is kind.forward and not is_parametrized(module)
            and not any(map(is_lazy, module.parameters())))


def refuse_tensors(tensors: Iterable[torch.Tensor | None]) -> str:
    """Why kernels cannot take one of these, or "": a tensor of a class that computes by itself (sharded, quantised), a
    nested or a sparse one."""
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.is_nested or is_traceable_wrapper_subclass(tensor) or tensor.layout is not torch.strided:
            kind = "nested tensor" if tensor.is_nested else f"{type(tensor).__name__} of layout {tensor.layout}"
            return f"an operand is a {kind}: plain tensors are needed"
    return ""


def tried(run: Callable[[], T]) -> tuple[T | None, str]:
    """What `run`, which calls a module's own forward, found out, and ""; or None and why it could not be tried."""
    try:
        return run(), ""
    except Exception as error:  # any: it is somebody else's code, and a reason is all that is needed
        return None, f"its forward could not be tried ({type(error).__name__}: {error})"


# ------------------------------------------------------------------------------------------- activations


def is_activation(module: nn.Module) -> bool:
    """A module without parameters whose class is named after SiLU or GELU."""
    named = re.search("silu|gelu|swish", type(module).__name__, re.IGNORECASE)
    return named is not None and not list(module.parameters()) and not list(module.children())


def activation_kind(module: nn.Module) -> str | None:
    """What an activation computes, found by trying it."""
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)
    with torch.no_grad():
        found = type(module).forward(module, x)
    for kind, (definition, _) in _KINDS.items():
        if isinstance(found, torch.Tensor) and torch.allclose(found, definition(x), rtol=1e-9, atol=1e-12):
            return kind
    return None


def refuse_activation(module: nn.Module) -> str:
    """Why a module cannot use the kernels, or ""."""
    kind, why = tried(lambda: activation_kind(module))
    return why or ("" if kind else f"its forward is none of {', '.join(_KINDS)}")


def activation_of(module: nn.Module) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
    """What takes the place of its forward."""
    kind = activation_kind(module)
    assert kind is not None
    run = _KINDS[kind][1]
    return lambda _, x: run(x)


# ------------------------------------------------------------------------------------------- norms


def norm_kind(module: Any, eps: float) -> str | None:
    """What a norm with one weight computes, found by trying it: ``"rms"``; ``"rms, 1 + weight"``; ``"layer"``, of the
    distance from the mean; None if it is something else.

    Raises:
        Exception: what its forward raises.
    """
    size, options = module.weight.numel(), {"device": module.weight.device}
    x = torch.linspace(-1.0, 2.0, 2 * size, **options).view(2, -1).sin().to(module.weight.dtype)
    # Its own weight may be all ones, which hides the difference of 2 x weight and x (1 + weight), or be sharded.
    weight = torch.linspace(0.5, 3.0, size, **options).cos().to(module.weight.dtype)
    probe = copy.deepcopy(module)
    del probe.weight
    probe.weight = weight
    with torch.no_grad():
        found = type(module).forward(probe, x)
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        return None
    wide, factor = x.double(), weight.double()
    normal, centred = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
                       for y in (wide, wide - wide.mean(-1, keepdim=True)))
    for kind, expected in (("rms", normal * factor), ("rms, 1 + weight", normal * (factor + 1)),
                           ("layer", centred * factor)):
        tolerance = 16 * torch.finfo(weight.dtype).eps * float(expected.abs().max().clamp_min(1e-30))
        if float((found.double() - expected).abs().max()) <= tolerance:
            return kind
    return None


# ------------------------------------------------------------------------------------------- embeddings


def is_embedding(module: nn.Module) -> bool:
    """torch's, or one that multiplies by its ``embed_scale``."""
    return is_plain(module, nn.Embedding) or (isinstance(module, nn.Embedding) and hasattr(module, "embed_scale"))


def refuse_embedding(module: Any) -> str:
    """Why a module cannot use the kernels, or ""."""
    for name in ("max_norm", "scale_grad_by_freq", "sparse"):
        if getattr(module, name):
            return f"{name} is set"
    plain = is_plain(module, nn.Embedding)
    if plain or module.weight.device.type == "meta":
        return "" if plain else "its weight has no values yet, so it cannot be tried"
    x = torch.arange(min(module.num_embeddings, 4), device=module.weight.device)
    with torch.no_grad():
        same = torch.equal(type(module).forward(module, x), F.embedding(x, module.weight) * _scale(module))
    return "" if same else "its forward is not weight[x] * embed_scale"


def _scale(module: Any) -> Any:
    scale = module.embed_scale
    return scale.to(module.weight.dtype) if isinstance(scale, torch.Tensor) else scale


def refuse_embedding_call(module: Any, x: torch.Tensor) -> str:
    """Why a call cannot use the kernels, or ""."""
    if x.dtype not in (torch.int32, torch.int64):
        return f"index dtype {x.dtype}"
    weight = module.weight
    if weight.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"weight dtype {weight.dtype}"
    return f"weight on device {weight.device}, indices on {x.device}" if weight.device != x.device else ""


def embedding_of(module: nn.Module) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """What takes the place of its forward."""
    if is_plain(module, nn.Embedding):
        return lambda m, x: ops.embedding(x, m.weight, m.padding_idx)
    return lambda m, x: ops.embedding(x, m.weight, m.padding_idx) * _scale(m)


# ------------------------------------------------------------------------------------------- convolutions


def refuse_conv(module: Any) -> str:
    """Why a module cannot use the kernels, or ""."""
    if not target().name.startswith(MATRIX_ARCHS):
        return f"convolutions are not available on {target().name}: they need {' or '.join(MATRIX_ARCHS)}"
    if module.padding_mode != "zeros":
        return f"padding mode {module.padding_mode}"
    odd = any(d * (t - 1) % 2 for t, d in zip(module.kernel_size, module.dilation, strict=True))
    return "padding 'same' differs at both ends" if module.padding == "same" and odd else ""


def refuse_conv_call(module: Any, x: torch.Tensor) -> str:
    """Why a call cannot use the kernels, or ""."""
    if x.dtype not in (torch.float16, torch.bfloat16) or module.weight.dtype != x.dtype:
        return f"input dtype {x.dtype}, weight dtype {module.weight.dtype}: both must be float16 or both bfloat16"
    if module.weight.device != x.device:
        return f"weight on device {module.weight.device}, input on {x.device}"
    if torch.is_autocast_enabled(x.device.type):
        return "autocast"
    if x.dim() not in (module.weight.dim() - 1, module.weight.dim()):
        return f"the input has shape {tuple(x.shape)}"
    return "" if math.prod(x.shape) else "an input without elements"


def convolve(module: Any, x: torch.Tensor) -> torch.Tensor:
    return ops.conv(x, module.weight, module.bias, module.stride, module.padding, module.dilation, module.groups)
