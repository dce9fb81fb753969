"""The functional collectives of torch, by our kernels: what models under ``torch.compile``, FSDP and DTensor call.

``torch.distributed._functional_collectives`` are operators of the namespace ``_c10d_functional``, eager and in compiled
graphs. Within :func:`functional_collectives` they are ours for what our kernels take; everything else goes to the
implementation that was there, which is reported once with the reason.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.library import Library

from . import eager
from .group import report

__all__ = ["functional_collectives"]

Calls = collections.Counter[tuple[str, str]]


def _group(name: Any) -> Any:
    """The process group that torch names."""
    from torch.distributed.distributed_c10d import _resolve_process_group

    return _resolve_process_group(name) if isinstance(name, str) else name  # type: ignore[arg-type]


def _not_a_sum(reduce_op: str) -> str:
    return "" if reduce_op.lower() == "sum" else f"{reduce_op} is not a sum"


def _shares(x: Any, ranks: int) -> str:
    return "" if x.dim() and x.shape[0] % ranks == 0 else f"{tuple(x.shape)} is not made of {ranks} equal shares"


def _all_reduce(x: Any, reduce_op: str, name: Any) -> tuple[Any, str, Any, bool]:
    return x, _not_a_sum(reduce_op), eager.all_reduce_of, True


def _all_gather(x: Any, group_size: int, name: Any) -> tuple[Any, str, Any, bool]:
    return x, "" if x.dim() else "a scalar has no first dimension", eager.all_gather_of, False


def _reduce_scatter(x: Any, reduce_op: str, group_size: int, name: Any) -> tuple[Any, str, Any, bool]:
    return x, _not_a_sum(reduce_op) or _shares(x, group_size), eager.reduce_scatter_of, True


def _all_to_all(x: Any, outputs: Any, inputs: Any, name: Any) -> tuple[Any, str, Any, bool]:
    ranks = _group(name).size()
    even = all(len({*sizes, x.shape[0] // ranks if x.dim() else -1}) == 1 for sizes in (outputs, inputs) if len(sizes))
    return x, _shares(x, ranks) or ("" if even else "shares are of several sizes"), eager.all_to_all_of, False


# By operator: what reads its arguments as (operand, reason against, our function, whether it sums).
_OPERATORS: dict[str, Callable[..., tuple[Any, str, Any, bool]]] = {
    "all_reduce": _all_reduce, "all_gather_into_tensor": _all_gather, "reduce_scatter_tensor": _reduce_scatter,
    "all_to_all_single": _all_to_all,
}
_IN_PLACE = {"all_reduce_": "all_reduce", "all_gather_into_tensor_out": "all_gather_into_tensor",
             "reduce_scatter_tensor_out": "reduce_scatter_tensor"}
_COALESCED = {"all_reduce_coalesced": "all_reduce", "all_gather_into_tensor_coalesced": "all_gather_into_tensor",
              "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor"}


class _Routes:
    """Our implementations of the operators for a dispatch key, while they are registered."""

    def __init__(self, key: str) -> None:
        self.calls: Calls = collections.Counter()
        self._key, self._library = key, Library("_c10d_functional", "IMPL")  # noqa: TOR901 - it is ended
        for name in (*_OPERATORS, *_IN_PLACE, *_COALESCED):
            if hasattr(torch.ops._c10d_functional, name):
                self._route(name)

    def _route(self, name: str) -> None:
        theirs = torch.library.get_kernel(f"_c10d_functional::{name}", self._key)
        single = _IN_PLACE.get(name) or _COALESCED.get(name) or name
        read = _OPERATORS[single]

        def one(x: Any, *rest: Any) -> tuple[Any, str]:
            """Our result, or why there is none."""
            operand, reason, ours, summed = read(x, *rest)
            group = _group(rest[-1])
            reason = reason or eager.reason_against(operand, group.size(), summed)
            return (None, reason) if reason else (ours(operand, group), "")

        def run(keys: Any, x: Any, *rest: Any, out: Any = None) -> Any:
            several = list(x) if name in _COALESCED else [x]
            results = []
            for operand in several:
                result, reason = one(operand, *rest)
                if reason:
                    self.calls[single, "backend"] += 1
                    report(f"{name} is done by the group's backend: {reason}")
                    return theirs.call_boxed(keys, x, *rest, **({} if out is None else {"out": out}))
                results.append(result)
            self.calls[single, "kernels"] += len(results)
            if name in _COALESCED:
                return results
            target = x if name == "all_reduce_" else out
            return results[0] if target is None else target.copy_(results[0])

        self._library.impl(name, run, self._key, with_keyset=True)

    def end(self) -> None:
        """Torch's implementations again."""
        self._library._destroy()  # type: ignore[no-untyped-call]


_routes: list[_Routes] = []


@contextlib.contextmanager
def functional_collectives() -> Iterator[Calls]:
    """Within this context torch's functional collectives of this device's tensors are ours, also in compiled graphs.

    Sums (f32, f16, bf16), gathers, and exchanges of equal shares, on groups of 2 to 8 ranks of one machine and operands
    of up to 64 MiB; other calls go to the group's backend, which is reported once with the reason. All ranks enter it
    together: both sides of a collective must be the same.

    Yields:
        How often an operator was done, by ``(operator, "kernels" or "backend")``.

    Raises:
        RuntimeError: torch is older than 2.9, or it is entered twice.
    """
    import flydsl.runtime as rt

    if not hasattr(torch.library, "get_kernel"):
        raise RuntimeError(f"functional_collectives needs torch 2.9 or newer, this is {torch.__version__}")
    if _routes:
        raise RuntimeError("functional_collectives is active already")
    _routes.append(_Routes("CUDA" if rt.kind() == "rocm" else "CPU"))
    try:
        yield _routes[0].calls
    finally:
        _routes.pop().end()
