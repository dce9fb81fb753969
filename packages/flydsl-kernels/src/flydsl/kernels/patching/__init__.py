"""Lets the modules of torch models run the kernels, and reports every site."""

import importlib as _importlib
from typing import Any as _Any

__all__ = ["CallSite", "PatchReport", "patch"]


def __getattr__(name: str) -> _Any:  # torch is needed where a model is patched, not for the declarations in `op`
    if name in __all__:
        return getattr(_importlib.import_module(".rules", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
