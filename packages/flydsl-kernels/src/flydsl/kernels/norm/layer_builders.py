"""Builders of layer norm kernels: ``y = (x - mean) * rsqrt(var + eps) * gamma + beta``.

Every launcher takes row-major (m_in, N) tensors, or pointers to such storage, and an optional stream.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..target import Target, builder
from .config import EPS, make_config
from .forward import launch_norm

__all__ = [
    "build_fused_add_layernorm_dynamicquant_module", "build_fused_add_layernorm_module",
    "build_fused_add_layernorm_smoothquant_module", "build_layernorm_dynamicquant_module", "build_layernorm_module",
    "build_layernorm_smoothquant_module",
]


@builder
def build_layernorm_module(N: int, dtype_str: str, store_stats: bool = False, eps: float = EPS, *,
                           weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, Gamma, Beta, Output[, Mean, Rstd], m_in, stream=None)``; f32[m_in] statistics on request.

    Args:
        N: columns, any positive number.
        dtype_str: ``"f32"``, ``"f16"`` or ``"bf16"``.
        eps: added to the variance, fixed in the kernel.
        weight_dtype_str: dtype of Gamma and Beta: that of the activations (default) or ``"f32"``.

    Raises:
        ValueError: an argument is not supported.
    """
    config = make_config("build_layernorm_module", target, N, dtype_str, centered=True, stats=store_stats, eps=eps,
                         weight_dtype=weight_dtype_str)
    if store_stats:

        @flyc.jit
        def layernorm_with_stats(Input, Gamma, Beta, Output, Mean, Rstd, m_in: fx.Int32,
                                 stream: fx.Stream = fx.Stream(None)):
            launch_norm({"Input": Input, "Gamma": Gamma, "Beta": Beta, "Output": Output, "Mean": Mean, "Rstd": Rstd},
                        m_in, config, stream)

        return layernorm_with_stats

    @flyc.jit
    def layernorm(Input, Gamma, Beta, Output, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "Gamma": Gamma, "Beta": Beta, "Output": Output}, m_in, config, stream)

    return layernorm


@builder
def build_fused_add_layernorm_module(N: int, dtype: str, *, eps: float = EPS,
                                     weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, ResidualIn, Gamma, Beta, Output, ResidualOut, m_in, stream=None)``.

    ``ResidualOut = Input + ResidualIn``, added in f32 and rounded; the norm is that of the rounded sum.
    """
    config = make_config("build_fused_add_layernorm_module", target, N, dtype, centered=True, fused=True, eps=eps,
                         weight_dtype=weight_dtype_str)

    @flyc.jit
    def fused_add_layernorm(Input, ResidualIn, Gamma, Beta, Output, ResidualOut, m_in: fx.Int32,
                            stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "Beta": Beta, "Output": Output,
                     "ResidualOut": ResidualOut}, m_in, config, stream)

    return fused_add_layernorm


@builder
def build_layernorm_dynamicquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *, eps: float = EPS,
                                        rounding: str = "nearest", weight_dtype_str: str | None = None,
                                        target: Target):
    """``launch(Input, Gamma, Beta, Output, YScale, m_in, stream=None)``: quantised rows with one f32 scale each."""
    config = make_config("build_layernorm_dynamicquant_module", target, N, dtype_str, centered=True,
                         quant=quant_dtype_str, eps=eps, rounding=rounding, weight_dtype=weight_dtype_str)

    @flyc.jit
    def layernorm_dynamicquant(Input, Gamma, Beta, Output, YScale, m_in: fx.Int32,
                               stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "Gamma": Gamma, "Beta": Beta, "Output": Output, "YScale": YScale},
                    m_in, config, stream)

    return layernorm_dynamicquant


@builder
def build_layernorm_smoothquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *, eps: float = EPS,
                                       rounding: str = "nearest", weight_dtype_str: str | None = None,
                                       target: Target):
    """``launch(Input, Gamma, Beta, XScale, Output, YScale, m_in, stream=None)``: y is multiplied by XScale[N] first."""
    config = make_config("build_layernorm_smoothquant_module", target, N, dtype_str, centered=True,
                         quant=quant_dtype_str, eps=eps, rounding=rounding, weight_dtype=weight_dtype_str,
                         smooth=True)

    @flyc.jit
    def layernorm_smoothquant(Input, Gamma, Beta, XScale, Output, YScale, m_in: fx.Int32,
                              stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "Gamma": Gamma, "Beta": Beta, "XScale": XScale, "Output": Output,
                     "YScale": YScale}, m_in, config, stream)

    return layernorm_smoothquant


@builder
def build_fused_add_layernorm_dynamicquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *,
                                                  eps: float = EPS, rounding: str = "nearest",
                                                  weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, ResidualIn, Gamma, Beta, Output, ResidualOut, YScale, m_in, stream=None)``."""
    config = make_config("build_fused_add_layernorm_dynamicquant_module", target, N, dtype_str, centered=True,
                         fused=True, quant=quant_dtype_str, eps=eps, rounding=rounding,
                         weight_dtype=weight_dtype_str)

    @flyc.jit
    def fused_add_layernorm_dynamicquant(Input, ResidualIn, Gamma, Beta, Output, ResidualOut, YScale, m_in: fx.Int32,
                                         stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "Beta": Beta, "Output": Output,
                     "ResidualOut": ResidualOut, "YScale": YScale}, m_in, config, stream)

    return fused_add_layernorm_dynamicquant


@builder
def build_fused_add_layernorm_smoothquant_module(N: int, dtype_str: str, quant_dtype_str: str = "i8", *,
                                                 eps: float = EPS, rounding: str = "nearest",
                                                 weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, ResidualIn, Gamma, Beta, XScale, Output, ResidualOut, YScale, m_in, stream=None)``."""
    config = make_config("build_fused_add_layernorm_smoothquant_module", target, N, dtype_str, centered=True,
                         fused=True, smooth=True, quant=quant_dtype_str, eps=eps, rounding=rounding,
                         weight_dtype=weight_dtype_str)

    @flyc.jit
    def fused_add_layernorm_smoothquant(Input, ResidualIn, Gamma, Beta, XScale, Output, ResidualOut, YScale,
                                        m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_norm({"Input": Input, "ResidualIn": ResidualIn, "Gamma": Gamma, "Beta": Beta, "XScale": XScale,
                     "Output": Output, "ResidualOut": ResidualOut, "YScale": YScale},
                    m_in, config, stream)

    return fused_add_layernorm_smoothquant
