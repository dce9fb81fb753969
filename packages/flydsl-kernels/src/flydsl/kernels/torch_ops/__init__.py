"""``torch.ops.flydsl.*``: the kernels as torch custom operators, with fake rules and gradients.

Every operator returns fresh tensors and launches on the current stream. Importing this package registers them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..norm.config import EPS
from . import quantised  # noqa: F401 - registers its operators
from .matrices import _gemm
from .registry import NAMES
from .rows import _layernorm_fwd, _rmsnorm_fwd

__all__ = ["NAMES"]


def _define_short_forms() -> Any:
    """``rmsnorm``, ``layernorm`` and ``linear``: composites of the operators above."""
    library = torch.library.Library("flydsl", "FRAGMENT")
    forms: dict[str, tuple[str, Any]] = {
        "rmsnorm": ("(Tensor x, Tensor weight, float eps=1e-5) -> Tensor",
                    lambda x, weight, eps=EPS: _rmsnorm_fwd(x, weight, eps, True)[0]),
        "layernorm": ("(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor",
                      lambda x, weight, bias, eps=EPS: _layernorm_fwd(x, weight, bias, eps, True)[0]),
        "linear": ("(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", _linear),
    }  # fmt: skip
    for name, (schema, function) in forms.items():
        library.define(name + schema)
        library.impl(name, function, "CompositeImplicitAutograd")
        NAMES.append(name)
    return library


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _gemm(x.reshape(-1, x.shape[-1]), weight, bias, "nt").view(*x.shape[:-1], weight.shape[0])


_LIBRARY = _define_short_forms()
