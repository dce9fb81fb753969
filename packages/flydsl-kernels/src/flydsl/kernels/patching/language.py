"""The attention of Hugging Face language models: their own forward, with its rotary embedding and attention by kernels.

Such a module's ``forward`` calls names of its source file: ``apply_rotary_pos_emb`` (or, for pairs that are neighbours,
``apply_rotary_pos_emb_interleave``) and ``ALL_ATTENTION_FUNCTIONS``. The patched forward is the same code with other
values of these names, so caches, masks and everything else stay the model's. A rotary function is tried on small
tensors first and replaced only if it is the one that the kernel computes.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .. import ops as _ops
from ..attention.config import ARCHS as ATTENTION_ARCHS
from ..attention.config import LARGEST
from ..target import target

__all__ = ["is_language_attention", "kernels_of", "language_forward", "refuse_language_attention",
           "refuse_language_call"]

ops: Any = _ops  # its forms are made from declarations
ROTARY, ATTENTION = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave"), "ALL_ATTENTION_FUNCTIONS"


# ------------------------------------------------------------------------------------------- rotary embedding


def _full_tables(half: torch.Tensor) -> torch.Tensor:
    return torch.cat((half, half), -1)


def _definition(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Of x [B, H, S, D], with tables [B, S, R / 2]."""
    half = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _sorted_pairs(x: torch.Tensor) -> torch.Tensor:
    """The first of each pair of neighbours, then the second ones."""
    return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


@functools.lru_cache
def _takes(function: Callable[..., Any]) -> frozenset[str]:
    """Which tables a rotary function takes so that it computes the definition: ``"full"`` (a column for each feature),
    ``"half"`` (for each pair), ``"partial"`` (full, of fewer features); ``"pairs"``: full, and it sorts pairs of
    neighbours first (DeepSeek)."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, heads, 3, 8, dtype=torch.float64, generator=generator) for heads in (4, 2))
    found = set()
    for name, half, tables, ordered in (
            ("full", 4, _full_tables, _same), ("half", 4, _same, _same), ("partial", 2, _full_tables, _same),
            ("pairs", 4, _full_tables, _sorted_pairs)):
        cos, sin = (torch.randn(2, 3, half, dtype=torch.float64, generator=generator) for _ in range(2))
        try:
            results = function(q, k, tables(cos), tables(sin))
        except Exception:  # any: it is somebody else's code, which does not take these
            continue
        if isinstance(results, tuple) and len(results) == 2 and all(
                isinstance(r, torch.Tensor) and r.shape == x.shape
                and torch.allclose(r, _definition(ordered(x), cos, sin))
                for r, x in zip(results, (q, k), strict=True)):
            found.add(name)
    return frozenset(found)


def _rotary(takes: frozenset[str], original: Callable[..., Any]) -> Callable[..., Any]:
    """What takes the place of a rotary function."""

    def apply(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1,
              **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
        columns, dim = cos.shape[-1], q.shape[-1]
        whole = "pairs" if "pairs" in takes else "full"
        kind = whole if columns == dim else "half" if 2 * columns == dim and "half" in takes else "partial"
        if kind not in takes or more or cos.dim() != 3 or unsqueeze_dim not in (1, 2) or q.dtype == torch.float64:
            return original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim, **more)
        rotary = 2 * columns if kind == "half" else columns
        tables = [t.reshape(-1, columns) for t in (cos, sin)]
        rows = torch.arange(tables[0].shape[0], device=q.device).view(cos.shape[:2])
        by_sequence = (lambda x: x.transpose(1, 2)) if unsqueeze_dim == 1 else (lambda x: x)
        out = []
        for x in (q, k):
            x = by_sequence(_sorted_pairs(x) if kind == "pairs" else x)
            positions = rows.expand(x.shape[:2])
            out.append(by_sequence(ops.rope(x, *tables, positions=positions, rotary_dim=rotary)))
        return out[0], out[1]

    return apply


# ------------------------------------------------------------------------------------------- attention


def _added(mask: torch.Tensor, q: torch.Tensor, keys: int) -> torch.Tensor:
    """What is added to the scores [B, H, S, keys]; True in a mask of booleans is kept."""
    mask = mask[..., :keys].expand(-1, -1, q.shape[2], -1)
    if mask.dtype != torch.bool:
        return mask.to(q.dtype)
    return torch.zeros_like(mask, dtype=q.dtype).masked_fill_(~mask, -math.inf)


def _product_dtype(x: torch.Tensor) -> torch.dtype:
    """Of products of x: that of autocast, where it is on."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _attend(module: nn.Module, eager: bool, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
            attention_mask: torch.Tensor | None, scaling: float | None = None, dropout: float = 0.0,
            softcap: float | None = None, sliding_window: int | None = None, s_aux: torch.Tensor | None = None,
            is_causal: bool | None = None, position_bias: torch.Tensor | None = None,
            **_: Any) -> tuple[torch.Tensor, None]:
    """An attention function as Hugging Face's: [B, H, S, D] each; returns ([B, S, H, D], None).

    An `eager` function hides what its mask hides, and nothing else.
    """
    masked = eager or attention_mask is not None
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = causal and not masked and query.shape[2] > 1
    if causal and key.shape[2] > query.shape[2]:
        # The first tokens of a static cache: the others of its places are for later ones. Queries are the first rows of
        # a causal mask here, as in torch's function, and the last ones in ours.
        key, value = (x[:, :, : query.shape[2]] for x in (key, value))
    window = (sliding_window - 1, -1) if sliding_window and not masked else (-1, -1)
    dtype, keys = _product_dtype(query), key.shape[2]
    added = [_added(x, query, keys) for x in (attention_mask, position_bias) if x is not None]
    bias = functools.reduce(torch.add, added) if added else None
    q, k, v = (x.transpose(1, 2).to(dtype) for x in (query, key, value))
    out = ops.attention(q, k, v, causal=causal, scale=scaling, softcap=softcap or 0.0, window=window, bias=bias,
                        sink=None if s_aux is None else s_aux.float())
    return out, None


_KNOWN = frozenset(inspect.signature(_attend).parameters)
_PACKED = ("cu_seq_lens_q", "cu_seq_lens_k")  # which functions for packed sequences read without naming them


def _refuse_attending(own: Callable[..., Any], eager: bool, query: torch.Tensor, key: torch.Tensor,
                      value: torch.Tensor, attention_mask: Any, dropout: float = 0.0, position_bias: Any = None,
                      **more: Any) -> str:
    """Why a call of a model's own attention function cannot use the kernel, or ""."""
    dtype, columns = _product_dtype(query), max(query.shape[-1], value.shape[-1])
    if dtype not in (torch.float16, torch.bfloat16):
        return f"queries of {dtype}: float16 or bfloat16 is needed"
    if columns > LARGEST:
        return f"heads of {columns} columns, at most {LARGEST} are supported"
    if dropout:
        return f"dropout of {dropout}"
    for name, given in (("attention_mask", attention_mask), ("position_bias", position_bias)):
        if given is None:
            continue
        if not isinstance(given, torch.Tensor) or given.dim() != 4:
            return f"{name} is no tensor [B, H, queries, keys]"
        if eager and given.dtype == torch.bool:
            return f"{name} of booleans, which an eager function adds as numbers"
        if given.requires_grad and torch.is_grad_enabled():
            return f"{name} needs a gradient"
    code = getattr(own, "__code__", None)
    named = more if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name, given in more.items():
        if given is not None and (name in _PACKED or name in named and name not in _KNOWN):
            return f"its attention function takes {name}"
    return ""


def _attending(own: Callable[..., Any], eager: bool, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The kernel in the place of an attention function of a model, or that function for what the kernel cannot do."""
    why = _refuse_attending(own, eager, *args, **kwargs)
    if not why:
        return _attend(module, eager, *args, **kwargs)
    getattr(module.forward, "refused", warnings.warn)(why)  # of what took the place of the module's own
    return own(module, *args, **kwargs)


class _Interfaces:
    """Takes the place of the table of attention functions."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def get_interface(self, name: str | None, default: Callable[..., Any]) -> Callable[..., Any]:
        return functools.partial(_attending, self._table.get_interface(name, default), name in (None, "eager"))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return functools.partial(_attending, self._table[name], False)


# ------------------------------------------------------------------------------------------- the module


def _own_forward(module: nn.Module) -> Any:
    return type(module).forward


def is_language_attention(module: nn.Module) -> bool:
    """A module whose forward calls one of the two names of its source file."""
    forward = _own_forward(module)
    code = getattr(forward, "__code__", None)
    return code is not None and type(module).__name__.endswith("Attention") and any(
        name in code.co_names and name in forward.__globals__ for name in (*ROTARY, ATTENTION))


def _replacements(module: nn.Module) -> dict[str, Any]:
    """Other values of names of the module's source file."""
    forward = _own_forward(module)
    found: dict[str, Any] = {}
    names = {n for n in (*ROTARY, ATTENTION) if n in forward.__code__.co_names and n in forward.__globals__}
    for name in ROTARY:
        takes = _takes(forward.__globals__[name]) if name in names else frozenset()
        if takes:
            found[name] = _rotary(takes, forward.__globals__[name])
    if ATTENTION in names and target().name.startswith(ATTENTION_ARCHS):
        found[ATTENTION] = _Interfaces(forward.__globals__[ATTENTION])  # type: ignore[assignment]
    return found


def kernels_of(module: nn.Module) -> str:
    """The operators that the module's forward uses."""
    found = _replacements(module)
    rotary = ["flydsl::rope"] if any(name in found for name in ROTARY) else []
    return ", ".join(rotary + ["flydsl::attention_fwd"] * (ATTENTION in found))


def refuse_language_attention(module: nn.Module) -> str:
    """Why a module cannot use the kernels, or ""."""
    if _replacements(module):
        return ""
    called = _own_forward(module).__code__.co_names
    reasons = [f"its {name} computes something else" for name in ROTARY if name in called]
    if ATTENTION in called:
        reasons.append(f"attention is not available on {target().name}")
    return ", and ".join(reasons)


def refuse_language_call(module: nn.Module, *args: Any, **kwargs: Any) -> str:
    """Why a call cannot use the kernels, or ""."""
    x = args[0] if args else kwargs.get("hidden_states")
    if not isinstance(x, torch.Tensor) or _product_dtype(x) not in (torch.float16, torch.bfloat16):
        return f"input dtype {getattr(x, 'dtype', None)}: it must be float16 or bfloat16"
    if module.training and bool(getattr(module, "attention_dropout", False)):
        return f"dropout of {module.attention_dropout} in training"
    if kwargs.get("output_attentions"):
        return "attention weights are asked for"
    return ""


def _names(module: nn.Module) -> dict[str, Any]:
    """The names of the module's source file with some values replaced: those of a module of its own, by which
    torch.compile finds them again."""
    names, replaced = _own_forward(module).__globals__, _replacements(module)
    name = f"{names['__name__']}.flydsl_{'_'.join(str(id(names[k])) for k in replaced)}"
    if name not in sys.modules:
        made = types.ModuleType(name, "Names of a patched attention's source file.")
        made.__dict__.update({**names, **replaced, "__name__": name})
        sys.modules[name] = made
    return sys.modules[name].__dict__


def language_forward(module: nn.Module) -> Callable[..., Any]:
    """The module's forward, with the kernels."""
    forward = _own_forward(module)
    run = types.FunctionType(forward.__code__, _names(module), forward.__name__, forward.__defaults__,
                             forward.__closure__)
    run.__kwdefaults__ = forward.__kwdefaults__
    return run
