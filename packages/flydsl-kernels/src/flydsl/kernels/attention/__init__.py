"""Attention: softmax(Q K^T) V, forward and backward."""

import importlib as _importlib
from typing import Any as _Any

from .backward import build_attention_backward
from .forward import build_attention_forward

#: Functions with the signatures of existing callers, which are imported when they are used.
_CALLERS = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flydsl_flash_attn_func")

__all__ = [
    "build_attention_backward", "build_attention_forward", "flash_attn_func", "flash_attn_varlen_func",
    "flash_attn_with_kvcache", "flydsl_flash_attn_func",
]


def __getattr__(name: str) -> _Any:
    if name in _CALLERS:
        return getattr(_importlib.import_module("flydsl.kernels.flash_attn_callers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
