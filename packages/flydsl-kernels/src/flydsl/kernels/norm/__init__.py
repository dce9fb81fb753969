"""RMS norm and layer norm: forward, with residual add and quantised output, and backward."""

from typing import Any as _Any

from . import backward, layer_builders, rms_builders
from .backward import *  # noqa: F403
from .layer_builders import *  # noqa: F403
from .rms_builders import *  # noqa: F403

__all__ = [*rms_builders.__all__, *layer_builders.__all__, *backward.__all__]


# The forms for arrays, whose module is loaded when one is asked for.
_ARRAY_FORMS = (
    "fused_add_layernorm", "fused_add_rmsnorm", "fused_add_rmsnorm_bwd", "fused_add_rmsnorm_fwd", "layernorm",
    "layernorm_bwd", "layernorm_fwd", "rmsnorm", "rmsnorm_bwd", "rmsnorm_fwd",
)


def __getattr__(name: str) -> _Any:
    if name in ("rmsnorm_autotuned", "rmsnorm_configs"):
        import importlib

        return getattr(importlib.import_module(f"{__name__}.autotuned"), name)
    if name in _ARRAY_FORMS:
        from .. import ops

        return getattr(ops, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
