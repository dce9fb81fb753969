"""Measures of agreement that tests of kernels use (torch tensors)."""

from __future__ import annotations

import torch

from .host.arrays import array_dtype
from .measure import bench_gpu_us_torch, bench_kernel_us, perftest, run_perftest
from .target import Target

__all__ = [
    "Draw", "Shapes", "bench_gpu_us_torch", "bench_kernel_us", "calc_diff", "checkAllclose", "cosine_difference",
    "perftest", "relative_l2", "run_perftest", "verify_output",
]


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


def checkAllclose(a: torch.Tensor, b: torch.Tensor, rtol: float = 1e-2, atol: float = 1e-2,  # noqa: N802
                  tol_err_ratio: float = 0.05, msg: str = "", printNum: int = 8, printLog: bool = True) -> float:
    """Fraction of the elements that are not close, 0 for equal tensors. A NaN is close to nothing.

    With `printLog` one line says how it went (a warning above `tol_err_ratio`), and the first `printNum` of the
    elements.
    """
    a, b = a.detach().double().cpu(), b.detach().double().cpu()
    if a.shape != b.shape:
        raise ValueError(f"checkAllclose: the shapes {tuple(a.shape)} and {tuple(b.shape)} differ")
    wrong = ~torch.isclose(a, b, rtol=rtol, atol=atol)
    ratio = float(wrong.double().mean()) if wrong.numel() else 0.0
    if printLog:
        how = "passed" if ratio == 0 else "warning" if ratio <= tol_err_ratio else "failed"
        print(f"{msg}[checkAllclose {atol=} {rtol=} {how}: {ratio:.1%} of {wrong.numel()} elements differ]")
        for place in wrong.nonzero()[:printNum].tolist():
            print(f"    {place}: {float(a[tuple(place)]):.6g} and {float(b[tuple(place)]):.6g}")
    return ratio


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
