"""Builders of the gradients of RMS norm and layer norm, and the choice between them."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from dataclasses import replace

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.rows import fits_registers
from ..target import Target, builder
from ..target import target as current
from .backward_kernel import launch_one_stage, launch_two_stage
from .config import NormConfig, make_config

__all__ = [
    "build_fused_add_rmsnorm_bwd_module", "build_fused_add_rmsnorm_bwd_two_stage_module", "build_layernorm_bwd_module",
    "build_rmsnorm_bwd_module", "build_rmsnorm_bwd_two_stage_module", "rmsnorm_bwd_programs",
]

TWO_STAGE_ROWS, TWO_STAGE_COLUMNS = 512, 8192
TWO_STAGE_THREADS = 512


def rmsnorm_bwd_programs(m: int, n: int, dtype_str: str, target: Target | None = None) -> int:
    """Programs of the two-stage backward for m rows of n columns, or 0 where one stage is better."""
    if m < TWO_STAGE_ROWS or n > TWO_STAGE_COLUMNS:
        return 0
    units = current(target).compute_units
    if dtype_str != "f32" and n >= 4096 and n % 8 == 0:
        programs = units if m < 2048 else units * 3 // 2
    else:
        programs = units if m < 1024 else units * 2
    return min(programs, m)


@builder
def build_rmsnorm_bwd_module(N: int, dtype_str: str, weight_dtype_str: str | None = None, *,
                             weight_offset: float = 0.0, target: Target):
    """``launch(Input, Gamma, DY, Rstd, DX, DWeight, m_in, stream=None)``.

    DWeight is f32[N] and must be zero: the kernel adds to it atomically.
    """
    config = make_config("build_rmsnorm_bwd_module", target, N, dtype_str, weight_dtype=weight_dtype_str,
                         weight_offset=weight_offset)

    @flyc.jit
    def rmsnorm_bwd(Input, Gamma, DY, Rstd, DX, DWeight, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_one_stage({"Input": Input, "Gamma": Gamma, "DY": DY, "Rstd": Rstd, "DX": DX, "DWeight": DWeight},
                         m_in, config, stream)

    return rmsnorm_bwd


@builder
def build_fused_add_rmsnorm_bwd_module(N: int, dtype_str: str, weight_dtype_str: str | None = None, *,
                                       weight_offset: float = 0.0, target: Target):
    """``launch(Input, Gamma, DY, DResidualOut, Rstd, DX, DWeight, m_in, stream=None)``; ``DX += DResidualOut``.

    Input is the rounded sum that the forward wrote. DWeight is f32[N] and must be zero.
    """
    config = make_config("build_fused_add_rmsnorm_bwd_module", target, N, dtype_str, weight_dtype=weight_dtype_str,
                         fused=True, weight_offset=weight_offset)

    @flyc.jit
    def fused_add_rmsnorm_bwd(Input, Gamma, DY, DResidualOut, Rstd, DX, DWeight, m_in: fx.Int32,
                              stream: fx.Stream = fx.Stream(None)):
        launch_one_stage({"Input": Input, "Gamma": Gamma, "DY": DY, "DResidualOut": DResidualOut, "Rstd": Rstd,
                          "DX": DX, "DWeight": DWeight}, m_in, config, stream)

    return fused_add_rmsnorm_bwd


def _two_stage(where: str, target: Target, n: int, dtype: str, programs: int, weight_dtype: str | None,
               fused: bool, weight_offset: float) -> NormConfig:
    config = make_config(where, target, n, dtype, weight_dtype=weight_dtype, fused=fused, weight_offset=weight_offset)
    if not isinstance(programs, int) or programs < 1:
        raise ValueError(f"{where}: num_programs must be a positive int, got {programs!r}")
    if not fits_registers(n):
        raise ValueError(f"{where}: N = {n} does not fit the registers of a workgroup; use the one-stage module")
    return replace(config, threads=TWO_STAGE_THREADS)


@builder
def build_rmsnorm_bwd_two_stage_module(N: int, dtype_str: str, num_programs: int,
                                       weight_dtype_str: str | None = None, *, weight_offset: float = 0.0,
                                       target: Target):
    """``launch(Input, Gamma, DY, Rstd, DX, DWeight, DWeightPartial, m_in, stream=None)``.

    DWeight has the weight dtype and is overwritten; DWeightPartial is scratch, f32[num_programs * N].
    """
    config = _two_stage("build_rmsnorm_bwd_two_stage_module", target, N, dtype_str, num_programs, weight_dtype_str,
                        False, weight_offset)

    @flyc.jit
    def rmsnorm_bwd_two_stage(Input, Gamma, DY, Rstd, DX, DWeight, DWeightPartial, m_in: fx.Int32,
                              stream: fx.Stream = fx.Stream(None)):
        launch_two_stage({"Input": Input, "Gamma": Gamma, "DY": DY, "Rstd": Rstd, "DX": DX, "DWeight": DWeight,
                          "DWeightPartial": DWeightPartial}, m_in, num_programs, config, stream)

    return rmsnorm_bwd_two_stage


@builder
def build_fused_add_rmsnorm_bwd_two_stage_module(N: int, dtype_str: str, num_programs: int,
                                                 weight_dtype_str: str | None = None, *, weight_offset: float = 0.0,
                                                 target: Target):
    """``launch(Input, Gamma, DY, DResidualOut, Rstd, DX, DWeight, DWeightPartial, m_in, stream=None)``."""
    config = _two_stage("build_fused_add_rmsnorm_bwd_two_stage_module", target, N, dtype_str, num_programs,
                        weight_dtype_str, True, weight_offset)

    @flyc.jit
    def fused_add_rmsnorm_bwd_two_stage(Input, Gamma, DY, DResidualOut, Rstd, DX, DWeight, DWeightPartial,
                                        m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_two_stage({"Input": Input, "Gamma": Gamma, "DY": DY, "DResidualOut": DResidualOut, "Rstd": Rstd,
                          "DX": DX, "DWeight": DWeight, "DWeightPartial": DWeightPartial},
                         m_in, num_programs, config, stream)

    return fused_add_rmsnorm_bwd_two_stage


@builder
def build_layernorm_bwd_module(N: int, dtype: str, *, weight_dtype_str: str | None = None, target: Target):
    """``launch(Input, Gamma, DY, Mean, Rstd, DX, DGamma, DBias, m_in, stream=None)``.

    DGamma and DBias are f32[N] and must be zero: the kernel adds to them atomically.
    """
    config = make_config("build_layernorm_bwd_module", target, N, dtype, centered=True,
                         weight_dtype=weight_dtype_str)

    @flyc.jit
    def layernorm_bwd(Input, Gamma, DY, Mean, Rstd, DX, DGamma, DBias, m_in: fx.Int32,
                      stream: fx.Stream = fx.Stream(None)):
        launch_one_stage({"Input": Input, "Gamma": Gamma, "DY": DY, "Mean": Mean, "Rstd": Rstd, "DX": DX,
                          "DWeight": DGamma, "DBias": DBias}, m_in, config, stream)

    return layernorm_bwd
