"""Gradients of the collectives: each one's is a collective as well.

A result on every rank is an input of that rank's loss, and what is differentiated is the sum of the losses of all ranks
(as in ``torch.distributed.nn.functional``): the gradient of a sum over the ranks is the sum of their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["differentiated", "with_gradient"]


def differentiated(*operands: Any) -> bool:
    """Whether torch records a gradient of one of the operands."""
    import torch

    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in operands)


def with_gradient(forward: Callable[[Any, Any], Any], backward: Callable[[Any, Any], Any], x: Any, group: Any) -> Any:
    """``forward(x, group)``, whose gradient is ``backward(gradient, group)``."""
    import torch

    if not differentiated(x):
        return forward(x, group)

    class Collective(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return forward(x.detach(), group)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return backward(gradient, group)

    return Collective.apply(x)  # type: ignore[no-untyped-call]
