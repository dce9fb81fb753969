"""Collectives between the GPUs of one machine, by kernels that read the peers' memory."""

from typing import Any

from .group import CollectiveError, Communicator, communicator
from .symmetric import empty, rendezvous

__all__ = ["CollectiveError", "ColumnParallelLinear", "Communicator", "RowParallelLinear", "communicator", "empty",
           "functional_collectives", "rendezvous"]


# Names that callers look for here; what they need is loaded with them.
_TRANSPORT = ("FlyDSLDispatchCombineConfig", "FlyDSLDispatchCombineIntraNodeOp", "GeometryTuningTable",
              "make_combine_jit", "make_dispatch_jit")
_ALLREDUCE = ("FlyDSLAllreduce", "init_custom_ar", "make_allreduce_kernels", "meta_size")


def __getattr__(name: str) -> Any:
    if name in ("ColumnParallelLinear", "RowParallelLinear"):  # they need torch
        from . import linear

        return getattr(linear, name)
    if name in _TRANSPORT:
        from . import transport

        return getattr(transport, name)
    if name in _ALLREDUCE:
        from flydsl.kernels import custom_all_reduce

        return getattr(custom_all_reduce, name)
    if name == "functional_collectives":
        from . import functional

        return functional.functional_collectives
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
