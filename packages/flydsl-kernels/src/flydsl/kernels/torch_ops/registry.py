"""Registration of ``torch.ops.flydsl.*``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

__all__ = ["NAMES", "fake", "operator", "optional", "statistic"]

NAMES: list[str] = []


def operator(name: str) -> Callable[[Any], Any]:
    """Decorator: register a pure operator under ``flydsl::name``."""

    def register(function: Any) -> Any:
        NAMES.append(name)
        return custom_op(f"flydsl::{name}", function, mutates_args=())

    return register


def fake(op: Any) -> Callable[[Any], Any]:
    """Decorator: the rule that gives an operator's results without values.

    torch also calls it where one operand is a meta tensor and the others are not; that is refused here.
    """

    def register(rule: Any) -> Any:
        @functools.wraps(rule)
        def checked(*args: Any, **kwargs: Any) -> Any:
            devices = {a.device for a in (*args, *kwargs.values()) if isinstance(a, Tensor)}
            if len(devices) > 1:
                raise ValueError(f"{op._name}: operands must be on one device, got {', '.join(map(str, devices))}")
            return rule(*args, **kwargs)

        op.register_fake(checked)
        return checked

    return register


def statistic(x: Tensor, wanted: bool = True) -> Tensor:
    """An f32 value a row, or an empty tensor."""
    return x.new_empty(x.shape[:-1] if wanted else (0,), dtype=torch.float32)


def optional(value: Tensor | None, x: Tensor) -> Tensor:
    """An operator cannot return None."""
    return statistic(x, False) if value is None else value
