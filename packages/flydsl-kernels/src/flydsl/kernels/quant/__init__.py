"""Quantisation and dequantisation; :mod:`flydsl.kernels.quant.reference` has the same in torch."""

import importlib as _importlib
from typing import Any as _Any

from . import builders, mx
from .builders import *  # noqa: F403
from .mx import *  # noqa: F403

__all__ = [*builders.__all__, *mx.__all__]


def __getattr__(name: str) -> _Any:
    reference = _importlib.import_module(f"{__name__}.reference") if not name.startswith("_") else None
    if reference is not None and name in reference.__all__:
        return getattr(reference, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
