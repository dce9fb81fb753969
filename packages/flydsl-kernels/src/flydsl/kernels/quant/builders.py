"""Builders of quantisation kernels. Matrices are row-major; scales are f32 and multiply the stored values."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.arch import target
from ..common.convert import ROUNDINGS
from ..common.dtypes import FLOATS, float_dtype
from ..common.rows import fits_registers, plan_rows
from .kernels import (
    GROUP,
    QuantConfig,
    amax_kernel,
    block_quant_kernel,
    dequant_kernel,
    row_quant_kernel,
    tensor_quant_kernel,
)

__all__ = [
    "build_dequant_module", "build_per_block_quant_module", "build_per_group_quant_module",
    "build_per_tensor_quant_module", "build_quant_module",
]  # fmt: skip

BLOCK_THREADS = 256


def _check(where: str, n: int, dtype: str, quant: str, rounding: str = "nearest") -> None:
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"{where}: N must be a positive int, got {n!r}")
    float_dtype(dtype, where)
    if quant not in ("i8", "fp8"):
        raise ValueError(f"{where}: quant_dtype_str must be 'i8' or 'fp8', got {quant!r}")
    if quant == "fp8" and target().fp8_name is None:
        raise ValueError(f"{where}: {target().arch} has no fp8 type")
    if rounding not in ROUNDINGS:
        raise ValueError(f"{where}: rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")


def _config(n: int, dtype: str, quant: str, rounding: str = "nearest", **options: Any) -> QuantConfig:
    """While tracing: with the plan for the architecture's wave."""
    plan = plan_rows(n, FLOATS[dtype].width, fx.num_warp_threads(), BLOCK_THREADS)
    return QuantConfig(dtype, quant, rounding, plan, keep=fits_registers(n), **options)


@functools.lru_cache
def build_quant_module(N: int, dtype_str: str = "f16", quant_dtype_str: str = "i8", *, rounding: str = "nearest"):
    """Per-row quantisation: ``(launch_quant, config)``, ``launch_quant(Input, Output, Scales, m_in, stream=None)``.

    Args:
        N: columns, any positive number.
        dtype_str: of Input: ``"f32"``, ``"f16"`` or ``"bf16"``.
        quant_dtype_str: of Output: ``"i8"``, or ``"fp8"`` in the architecture's variant.
        rounding: of int8: ``"nearest"`` (ties to even) or ``"trunc"``.

    Returns:
        The launcher and a dict of what it does. Scales is f32[m_in].

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_quant_module", N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_rows(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(N, dtype_str, quant_dtype_str, rounding)
        row_quant_kernel(Input, Output, Scales, m_in, config).launch(
            grid=fx.ceildiv(m_in, config.plan.rows), block=config.plan.threads, stream=stream
        )

    return quantise_rows, {"N": N, "BLOCK_THREADS": BLOCK_THREADS, "dtype": dtype_str, "quant_dtype": quant_dtype_str}


@functools.lru_cache
def build_per_group_quant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *,
                                 transposed_scale: bool = False, rounding: str = "nearest"):  # fmt: skip
    """A scale per row and 128 columns: ``launch(Input, Output, Scales, m_in, stream=None)``.

    Scales is f32[m_in, N/128], or f32[N/128, m_in] with `transposed_scale`, the order that the block-scale GEMM reads.

    Raises:
        ValueError: N is not a multiple of 128, or another argument is not supported.
    """
    where = "build_per_group_quant_module"
    _check(where, N, dtype_str, quant_dtype_str, rounding)
    if N % GROUP:
        raise ValueError(f"{where}: N must be a multiple of {GROUP}, got {N}")
    groups = N // GROUP

    @flyc.jit
    def quantise_groups(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(GROUP, dtype_str, quant_dtype_str, rounding, groups=groups, transposed=transposed_scale)
        count = m_in * groups
        row_quant_kernel(Input, Output, Scales, count, config).launch(
            grid=fx.ceildiv(count, config.plan.rows), block=config.plan.threads, stream=stream
        )

    return quantise_groups


@functools.lru_cache
def build_per_block_quant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *,
                                 rounding: str = "nearest"):  # fmt: skip
    """A scale per 128 x 128 block: ``launch(Input, Output, Scales, m_in, stream=None)``.

    Scales is f32[ceil(m_in/128), ceil(N/128)], row-major; blocks at the edges may be smaller.

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_per_block_quant_module", N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_blocks(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(GROUP, dtype_str, quant_dtype_str, rounding)
        vec = math.gcd(N, config.plan.vec)
        lanes = GROUP // vec
        plan = dataclasses.replace(config.plan, vec=vec, lanes=lanes, rows=max(BLOCK_THREADS // lanes, 1), tiles=1)
        config = dataclasses.replace(config, plan=plan)
        block_quant_kernel(Input, Output, Scales, m_in, N, config).launch(
            grid=(-(-N // GROUP), fx.ceildiv(m_in, GROUP)), block=plan.threads, stream=stream
        )

    return quantise_blocks


@functools.lru_cache
def build_per_tensor_quant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *,
                                  dynamic: bool = True, rounding: str = "nearest"):  # fmt: skip
    """One scale: ``launch(Input, Output, Scale, Amax, m_in, stream=None)`` of a matrix with N columns.

    With `dynamic`, Amax is f32[1] and must be zero: the kernel leaves the maximum magnitude in it and stores
    ``Scale[0] = Amax / Qmax``. Otherwise Scale[0] is given and Amax is not touched.

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_per_tensor_quant_module", N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_tensor(Input, Output, Scale, Amax, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(N, dtype_str, quant_dtype_str, rounding)
        grid, block = fx.ceildiv(m_in, config.plan.rows), config.plan.threads
        if fx.const_expr(dynamic):
            amax_kernel(Input, Amax, m_in, config).launch(grid=grid, block=block, stream=stream)
        tensor_quant_kernel(Input, Output, Scale, Amax, m_in, dynamic, config).launch(
            grid=grid, block=block, stream=stream
        )

    return quantise_tensor


@functools.lru_cache
def build_dequant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *, per_tensor: bool = False):
    """``launch(Input, Scales, Output, m_in, stream=None)``: ``Output = Input * Scales`` of rows of N elements.

    Scales is f32[m_in], or f32[1] with `per_tensor`. Groups of 128 columns are rows of N = 128.

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_dequant_module", N, dtype_str, quant_dtype_str)

    @flyc.jit
    def dequantise(Input, Scales, Output, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(N, dtype_str, quant_dtype_str)
        dequant_kernel(Input, Scales, Output, m_in, per_tensor, config).launch(
            grid=fx.ceildiv(m_in, config.plan.rows), block=config.plan.threads, stream=stream
        )

    return dequantise
