"""The collectives as torch custom operators, which ``torch.compile`` keeps whole: ``flydsl::all_reduce`` and so on.

Groups are named in graphs; the empty name is the default group. :mod:`.op` calls these where a graph is made, eager
calls launch without torch's dispatcher.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.library import custom_op

from . import eager

__all__ = ["collective"]


def _group(name: str) -> Any:
    from torch.distributed.distributed_c10d import _resolve_process_group

    return _resolve_process_group(name) if name else None  # type: ignore[arg-type]


def collective(name: str, x: Tensor, group: Any, fp8: bool = False) -> Tensor:
    """The operator of a collective, as it is called in a graph."""
    operator = getattr(torch.ops.flydsl, name)
    found: Tensor = operator(x, "" if group is None else group.group_name, fp8)
    return found


def _register(name: str, run: Any, backward: str, rows: Any) -> None:
    def forward(x: Tensor, group: str, fp8: bool) -> Tensor:
        result = run(x, _group(group), fp8) if name == "all_reduce" else run(x, _group(group))
        return result.contiguous()

    operator = custom_op(f"flydsl::{name}", forward, mutates_args=(),
                         schema="(Tensor x, str group, bool fp8) -> Tensor")

    @operator.register_fake
    def fake(x: Tensor, group: str, fp8: bool) -> Tensor:
        ranks = dist.get_world_size(_group(group))
        return x.new_empty((rows(x.shape[0], ranks), *x.shape[1:]) if x.dim() else ())

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.group, ctx.fp8 = inputs[1:]

    def gradient(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return getattr(torch.ops.flydsl, backward)(grad.contiguous(), ctx.group, ctx.fp8), None, None

    operator.register_autograd(gradient, setup_context=save)


_register("all_reduce", eager.all_reduce_of, "all_reduce", lambda n, ranks: n)
_register("all_gather", eager.all_gather_of, "reduce_scatter", lambda n, ranks: n * ranks)
_register("reduce_scatter", eager.reduce_scatter_of, "all_gather", lambda n, ranks: n // ranks)
_register("all_to_all", eager.all_to_all_of, "all_to_all", lambda n, ranks: n)
