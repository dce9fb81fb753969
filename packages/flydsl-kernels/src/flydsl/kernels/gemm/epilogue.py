"""The epilogue of a matrix product: its steps (:mod:`..parts.epilogue`) by the names that the GEMMs' options have."""

from __future__ import annotations

from typing import Any

from ..parts.epilogue import Activate, Bias, Epilogue, Multiply, ScaleBoth, Step

__all__ = ["gemm_epilogue"]


def gemm_epilogue(tensors: dict[str, Any], m: Any, n: int, activation: str = "none", scaled: bool = False, *,
                  seed: Any = None, divisor: int = 1) -> Epilogue:
    """``act(acc / divisor * scale_a[row] * scale_b[column] + bias[column])`` in f32.

    Args:
        tensors: with ``scale_a``, ``scale_b`` if `scaled`, and ``bias`` if the activation's name has one.
        m, n: size of C.
        activation: ``"none"``, ``"bias"``, or ``"bias_"`` and one of ``ACTIVATE``.
        seed: for stochastic rounding.
        divisor: power of two by which the sums are too large; the division is exact.
    """
    steps: list[Step] = []
    if divisor > 1:
        steps.append(Multiply(1.0 / divisor))
    if scaled:
        steps.append(ScaleBoth(tensors["scale_a"], tensors["scale_b"], m, n))
    if activation != "none":
        steps.append(Bias(tensors["bias"], n))
        name = activation.removeprefix("bias").removeprefix("_")
        if name:
            steps.append(Activate(name))
    return Epilogue(tuple(steps), seed)
