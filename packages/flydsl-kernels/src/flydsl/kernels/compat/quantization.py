"""Older name of :mod:`flydsl.kernels.quant`."""

from typing import Any as _Any

from flydsl.kernels import quant as _quant
from flydsl.kernels.quant import *  # noqa: F403


def __getattr__(name: str) -> _Any:
    """The references, which need torch."""
    return getattr(_quant, name)
