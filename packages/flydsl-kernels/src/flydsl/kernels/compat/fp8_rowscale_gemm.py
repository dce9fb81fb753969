"""Older builders of the fp8 GEMM of gfx950 with scales per row and column: 4-wave and 8-wave forms."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.dense import launch_dense, row_scale_config
from flydsl.kernels.host.config import require
from flydsl.kernels.target import Target, builder

__all__ = ["compile_fp8_gemm_4w", "compile_fp8_gemm_8w"]

GROUP_M = 4


def _build(where: str, target: Target, K: int, block: tuple[int, int], units: tuple[int, int], n_waves: int,
           group_m: int, shuffled: bool) -> Any:
    target.require(where, "gfx95")
    for name, value, unit in zip(("BLOCK_M", "BLOCK_N"), block, units, strict=True):
        require(where, value >= unit and value % unit == 0,
                f"{name} must be a positive multiple of {unit}, got {value}")
    row_scale_config(where, target, block[1], K, block, n_waves, group_m, shuffled)  # its errors at once

    @flyc.jit
    def fp8_gemm(A, B_T, C, A_scale, B_scale, c_m: fx.Int32, c_n: fx.Constexpr[int],
                 stream: fx.Stream = fx.Stream(None)):
        if shuffled and c_n % 16:
            raise ValueError(f"{where}: the columns of a shuffled weight are a multiple of 16, got {c_n}")
        config = row_scale_config(where, target, c_n, K, block, n_waves, group_m, shuffled)
        launch_dense({"c": C, "a": A, "b": B_T, "scale_a": A_scale, "scale_b": B_scale}, c_m, config, stream)

    return fp8_gemm


@builder
def compile_fp8_gemm_4w(*, K: int, BLOCK_M: int = 256, BLOCK_N: int = 256, use_xcd_remap: bool = True,
                        b_preshuffled: bool = False, target: Target):
    """``launch(A, B_T, C, A_scale, B_scale, c_m, c_n, stream=None)`` on gfx95x, 2 x 2 waves (2 x 4 for large blocks).

    ``C[m, n] = sum_k A[m, k] B_T[n, k] * (A_scale[m] * B_scale[n])``: A and B_T e4m3fn (may be passed as int8), C bf16,
    scales f32. Rows and columns need not be multiples of the block; c_n is fixed when the kernel is compiled.

    Args:
        K: a multiple of 128, at least 256.
        BLOCK_M, BLOCK_N: multiples of 64 and of 32.
        use_xcd_remap: deal blocks to the dies in groups of four block rows.
        b_preshuffled: B_T is in the order of ``shuffle_weight``.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    return _build("compile_fp8_gemm_4w", target, K, (BLOCK_M, BLOCK_N), (64, 32), 2, GROUP_M if use_xcd_remap else 0,
                  b_preshuffled)


@builder
def compile_fp8_gemm_8w(*, K: int, BLOCK_M: int = 256, BLOCK_N: int = 256, b_preshuffled: bool = False, target: Target):
    """:func:`compile_fp8_gemm_4w` with 2 x 4 waves: BLOCK_M a multiple of 128, BLOCK_N of 256."""
    return _build("compile_fp8_gemm_8w", target, K, (BLOCK_M, BLOCK_N), (128, 256), 4, 0, b_preshuffled)
