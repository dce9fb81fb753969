"""Names that programs read from `flydsl` itself: a namespace of several packages, it has no file to hold them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

__all__ = ["install"]

_NAMES = {"__version__": "flydsl.compiler", "Config": "flydsl.autotune"}


def _find(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'flydsl' has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def install() -> None:
    """Let `flydsl.__version__` and `from flydsl import Config` be found in this process."""
    vars(sys.modules["flydsl"])["__getattr__"] = _find
