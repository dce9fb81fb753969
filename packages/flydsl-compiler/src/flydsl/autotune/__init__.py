"""Autotuning: the best of several configurations of a jit function, searched once and remembered.

    @autotune(configs=[Config(tile=64), Config(tile=128, waves_per_eu=2)], key=["n"])
    @flyc.jit
    def run(x: fx.Tensor, n: fx.Int32, tile: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)): ...
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .bench import do_bench
from .config import Config
from .tuner import Autotuner, autotune

__all__ = ["Autotuner", "Config", "autotune", "do_bench"]


class _Decorator(ModuleType):
    """`from flydsl import autotune` gives this module, and programs decorate with it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return autotune(*args, **kwargs)


sys.modules[__name__].__class__ = _Decorator
