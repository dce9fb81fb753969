"""Production kernels: one subpackage an operation, functional forms in :mod:`flydsl.kernels.ops`.

``patch(model)`` lets the modules of a torch model use them. The operators are registered as ``torch.ops.flydsl.*``
when torch was imported before this package, at the first use of :mod:`flydsl.kernels.ops` with a torch tensor, and by
``register_torch_ops()``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

__version__ = "0.1.0"
__all__ = ["capture", "ops", "patch", "register_torch_ops"]
# The compiler leaves functions to their first trace.
__traced_by_tests__ = True

# Older module names are found in a folder of their own.
__path__ = [*__path__, os.path.join(os.path.dirname(__file__), "compat")]


def register_torch_ops() -> list[str]:
    """Register ``torch.ops.flydsl.*``; the names of the operators."""
    from . import torch_ops

    return list(torch_ops.NAMES)


def patch(model: Any, **options: Any) -> Any:
    """Let the modules of a torch model run the kernels; see :func:`flydsl.kernels.patching.patch`."""
    from .patching import patch as run

    return run(model, **options)


def capture(function: Callable[[], Any], warmup: int = 1) -> Any:
    """Record what a function of torch tensors computes, to be replayed; see :func:`flydsl.kernels.graphs.capture`."""
    from .graphs import capture as run

    return run(function, warmup)


def __getattr__(name: str) -> Any:
    if name == "ops":
        import importlib

        return importlib.import_module(f"{__name__}.ops")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "torch" in sys.modules and hasattr(sys.modules["torch"], "library"):
    register_torch_ops()
