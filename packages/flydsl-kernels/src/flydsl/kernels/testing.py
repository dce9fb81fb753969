"""Measures of agreement that tests of kernels use (torch tensors)."""

from __future__ import annotations

from typing import Any

import torch

from .host.arrays import array_dtype
from .target import Target

__all__ = ["Draw", "Shapes", "calc_diff", "cosine_difference", "relative_l2", "run_perftest", "verify_output"]


class Draw:
    """Reproducible operands of samples, as torch tensors on the host. Calls draw different data.

    Args:
        target: whose fp8 variant is drawn.
    """

    def __init__(self, target: Target, seed: int = 0) -> None:
        self.target, self._generator = target, torch.Generator().manual_seed(seed)

    def _dtype(self, name: str) -> torch.dtype:
        return array_dtype(self.target, torch.empty(0), name)

    def normal(self, *shape: int, dtype: str = "f32", scale: float = 1.0) -> torch.Tensor:
        """Normal data of a standard deviation; ``"i8"`` has one of 20 for a scale of 1."""
        values = torch.randn(*shape, generator=self._generator) * scale
        return (values * 20).clamp(-127, 127).to(torch.int8) if dtype == "i8" else values.to(self._dtype(dtype))

    def positive(self, *shape: int) -> torch.Tensor:
        """f32 scales of 0.5 and more."""
        return self.normal(*shape).abs() + 0.5

    def integers(self, low: int, high: int, *shape: int, dtype: str = "u8") -> torch.Tensor:
        """Integers of low .. high - 1."""
        return torch.randint(low, high, shape, generator=self._generator, dtype=self._dtype(dtype))


class Shapes(Draw):
    """Operands that have a shape and a dtype, and whatever is in memory."""

    def normal(self, *shape: int, dtype: str = "f32", scale: float = 1.0) -> torch.Tensor:
        """As :meth:`Draw.normal`."""
        return torch.empty(shape, dtype=self._dtype(dtype))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "u8") -> torch.Tensor:
        """As :meth:`Draw.integers`, all zero: they may be places."""
        return torch.zeros(shape, dtype=self._dtype(dtype))

    def positive(self, *shape: int) -> torch.Tensor:
        """As :meth:`Draw.positive`."""
        return torch.empty(shape)


def cosine_difference(out: torch.Tensor, ref: torch.Tensor) -> float:
    """``1 - 2 sum(x y) / (sum(x**2) + sum(y**2))`` in f64; 0 for equal tensors, also if both are zero."""
    x, y = out.double(), ref.double()
    power = (x * x + y * y).sum()
    return 0.0 if power == 0 else float(1 - 2 * (x * y).sum() / power)


calc_diff = cosine_difference


def relative_l2(out: torch.Tensor, ref: torch.Tensor) -> float:
    """``norm(out - ref) / norm(ref)`` in f64."""
    return float((out.double() - ref.double()).norm() / ref.double().norm())


def verify_output(out: torch.Tensor, ref: torch.Tensor, atol: float = 1e-2, rtol: float = 1e-2,
                  logits_diff_threshold: float = 2e-3) -> bool:
    """Whether less than 5 % of the elements are not close, or else the cosine difference is below the threshold.

    A NaN anywhere fails.
    """
    if not bool(torch.isfinite(out.double()).all()):
        return False
    bad = ~torch.isclose(out.double(), ref.double(), atol=atol, rtol=rtol)
    if float(bad.double().mean()) < 0.05:
        return True
    return cosine_difference(out, ref) <= logits_diff_threshold


def run_perftest(fn: Any, *args: Any, num_iters: int = 20, num_warmup: int = 3) -> tuple[Any, float]:
    """Result of ``fn(*args)`` and seconds a call, over rotated copies of the arguments.

    On the simulator the time is that of the simulation, not of a GPU.
    """
    import time

    import flydsl.runtime as rt

    def copied() -> list[Any]:
        return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]

    sets = [copied() for _ in range(max(1, min(4, num_iters)))]
    out = None
    for i in range(num_warmup):
        out = fn(*sets[i % len(sets)])
    rt.synchronize()
    start = time.perf_counter()
    for i in range(num_iters):
        out = fn(*sets[i % len(sets)])
    rt.synchronize()
    return out, (time.perf_counter() - start) / num_iters
