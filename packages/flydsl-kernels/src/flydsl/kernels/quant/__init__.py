"""Quantisation and dequantisation; :mod:`flydsl.kernels.quant.reference` has the same in torch."""

import importlib as _importlib
from typing import Any as _Any

from . import builders, callers, mx
from .builders import *  # noqa: F403
from .callers import *  # noqa: F403
from .mx import *  # noqa: F403

__all__ = [*builders.__all__, *callers.__all__, *mx.__all__]


def __getattr__(name: str) -> _Any:
    missing = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(missing)
    try:
        reference = _importlib.import_module(f"{__name__}.reference")
    except ModuleNotFoundError as error:
        # Importing a submodule asks for the attribute first: without torch the answer is no, not an error.
        if error.name != "torch":
            raise
        raise AttributeError(f"{missing} without torch") from error
    if name in reference.__all__:
        return getattr(reference, name)
    raise AttributeError(missing)
