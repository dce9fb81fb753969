"""Builders of RMS norm kernels: ``y = x * rsqrt(mean(x**2) + eps) * gamma``.

Every launcher takes row-major (m_in, N) tensors, or pointers to such storage, and an optional stream.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..target import Target, builder
from ..target import target as current
from .config import BLOCK_THREADS, EPS, make_config
from .forward import launch_norm

__all__ = [
    "build_fused_add_rmsnorm_dynamicquant_module", "build_fused_add_rmsnorm_module",
    "build_fused_add_rmsnorm_smoothquant_module", "build_rmsnorm_dynamicquant_module", "build_rmsnorm_module",
    "build_rmsnorm_smoothquant_module", "rmsnorm_direct",
]


@builder
def build_rmsnorm_module(N: int, dtype_str: str, store_rstd: bool = False, eps: float = EPS,
                         BLOCK_THREADS: int = BLOCK_THREADS, weight_dtype_str: str | None = None, *,
                         weight_offset: float = 0.0, target: Target):
    """``launch(Input, Gamma, Output[, Rstd], m_in, stream=None)``; Rstd is f32[m_in], with `store_rstd`.

    Args:
        N: columns, any positive number.
        dtype_str: ``"f32"``, ``"f16"`` or ``"bf16"``.
        eps: added to the mean square, fixed in the kernel.
        BLOCK_THREADS: threads that share a row of more than 2048 elements.
        weight_dtype_str: dtype of Gamma: that of the activations (default) or ``"f32"``.
        weight_offset: added to Gamma in f32: 1 for weights that are differences from one (Gemma).

    Raises:
        ValueError: an argument is not supported.
    """
    config = make_config("build_rmsnorm_module", target, N, dtype_str, weight_dtype=weight_dtype_str, eps=eps,
                         threads=BLOCK_THREADS, stats=store_rstd, weight_offset=weight_offset)
    if store_rstd:

        @flyc.jit
        def rmsnorm_with_rstd(Input, Gamma, Output, Rstd, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
            launch_norm({"Input": Input, "Gamma": Gamma, "Output": Output, "Rstd": Rstd}, m_in, config, stream)

        return rmsnorm_with_rstd

    @flyc.jit
    def rmsnorm(Input, Gamma, Output, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "Gamma": Gamma, "Output": Output}, m_in, config, stream)

    return rmsnorm


@flyc.jit
def rmsnorm_direct(Input, Gamma, Output, m_in: fx.Int32, N: fx.Constexpr[int], dtype_str: fx.Constexpr[str],
                   BLOCK_THREADS: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None),
                   weight_dtype_str: fx.Constexpr[str] = ""):
    """RMS norm with the static arguments at the call, the form that an autotuner sweeps."""
    config = make_config("rmsnorm_direct", current(), N, dtype_str, weight_dtype=weight_dtype_str,
                         threads=BLOCK_THREADS)
    launch_norm({"Input": Input, "Gamma": Gamma, "Output": Output}, m_in, config, stream)


@builder
def build_fused_add_rmsnorm_module(N: int, dtype_str: str, store_rstd: bool = False, eps: float = EPS,
                                   weight_dtype_str: str | None = None, *, weight_offset: float = 0.0, target: Target):
    """``launch(Input, ResidualIn, Gamma, Output, ResidualOut[, Rstd], m_in, stream=None)``.

    ``ResidualOut = Input + ResidualIn``, added in f32 and rounded; the norm is that of the rounded sum.
    """
    config = make_config("build_fused_add_rmsnorm_module", target, N, dtype_str, weight_dtype=weight_dtype_str, eps=eps,
                         fused=True, stats=store_rstd, weight_offset=weight_offset)
    if store_rstd:

        @flyc.jit
        def fused_add_rmsnorm_with_rstd(Input, ResidualIn, Gamma, Output, ResidualOut, Rstd, m_in: fx.Int32,
                                        stream: fx.Stream = fx.Stream(None)):
            launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "Output": Output,
                         "ResidualOut": ResidualOut, "Rstd": Rstd}, m_in, config, stream)

        return fused_add_rmsnorm_with_rstd

    @flyc.jit
    def fused_add_rmsnorm(Input, ResidualIn, Gamma, Output, ResidualOut, m_in: fx.Int32,
                          stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "Output": Output,
                     "ResidualOut": ResidualOut}, m_in, config, stream)

    return fused_add_rmsnorm


@builder
def build_rmsnorm_dynamicquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *, eps: float = EPS,
                                      rounding: str = "nearest", weight_dtype_str: str | None = None,
                                      target: Target):
    """``launch(Input, Gamma, Output, YScale, m_in, stream=None)``: quantised rows with one f32 scale each.

    ``YScale = max|y| / Qmax`` (1 for a zero row), ``Output = y / YScale`` in int8 or the native fp8.
    """
    config = make_config("build_rmsnorm_dynamicquant_module", target, N, dtype_str, quant=quant_dtype_str, eps=eps,
                         rounding=rounding, weight_dtype=weight_dtype_str)

    @flyc.jit
    def rmsnorm_dynamicquant(Input, Gamma, Output, YScale, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "Gamma": Gamma, "Output": Output, "YScale": YScale}, m_in, config, stream)

    return rmsnorm_dynamicquant


@builder
def build_rmsnorm_smoothquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *, eps: float = EPS,
                                     rounding: str = "nearest", weight_dtype_str: str | None = None,
                                     target: Target):
    """``launch(Input, Gamma, XScale, Output, YScale, m_in, stream=None)``: y is multiplied by XScale[N] first."""
    config = make_config("build_rmsnorm_smoothquant_module", target, N, dtype_str, quant=quant_dtype_str, eps=eps,
                         rounding=rounding, weight_dtype=weight_dtype_str, smooth=True)

    @flyc.jit
    def rmsnorm_smoothquant(Input, Gamma, XScale, Output, YScale, m_in: fx.Int32,
                            stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "Gamma": Gamma, "XScale": XScale, "Output": Output, "YScale": YScale},
                    m_in, config, stream)

    return rmsnorm_smoothquant


@builder
def build_fused_add_rmsnorm_dynamicquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *,
                                                eps: float = EPS, rounding: str = "nearest",
                                                weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, ResidualIn, Gamma, Output, ResidualOut, YScale, m_in, stream=None)``."""
    config = make_config("build_fused_add_rmsnorm_dynamicquant_module", target, N, dtype_str, quant=quant_dtype_str,
                         eps=eps, rounding=rounding, weight_dtype=weight_dtype_str, fused=True)

    @flyc.jit
    def fused_add_rmsnorm_dynamicquant(Input, ResidualIn, Gamma, Output, ResidualOut, YScale, m_in: fx.Int32,
                                       stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "Output": Output,
                     "ResidualOut": ResidualOut, "YScale": YScale}, m_in, config, stream)

    return fused_add_rmsnorm_dynamicquant


@builder
def build_fused_add_rmsnorm_smoothquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *,
                                               eps: float = EPS, rounding: str = "nearest",
                                               weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, ResidualIn, Gamma, XScale, Output, ResidualOut, YScale, m_in, stream=None)``."""
    config = make_config("build_fused_add_rmsnorm_smoothquant_module", target, N, dtype_str, quant=quant_dtype_str,
                         eps=eps, rounding=rounding, weight_dtype=weight_dtype_str, fused=True,
                         smooth=True)

    @flyc.jit
    def fused_add_rmsnorm_smoothquant(Input, ResidualIn, Gamma, XScale, Output, ResidualOut, YScale, m_in: fx.Int32,
                                      stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "XScale": XScale, "Output": Output,
                     "ResidualOut": ResidualOut, "YScale": YScale}, m_in, config, stream)

    return fused_add_rmsnorm_smoothquant
