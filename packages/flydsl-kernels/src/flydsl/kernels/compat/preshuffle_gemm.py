"""Older builders of the preshuffle GEMMs."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.common.host import with_occupancy
from flydsl.kernels.gemm.preshuffle import PreshuffleConfig, launch_preshuffle, preshuffle_config
from flydsl.kernels.mxfp4_preshuffle import compile_mxfp4_gemm, compile_mxfp6_gemm
from flydsl.kernels.target import Target, builder

__all__ = [
    "compile_blockscale_preshuffle_gemm", "compile_mxfp4_gemm", "compile_mxfp6_gemm", "compile_preshuffle_gemm",
    "compile_preshuffle_gemm_a8", "compile_preshuffle_gemm_v2", "compile_preshuffle_gemm_w4",
]


def _launch(tensors: dict[str, Any], m: Any, n: Any, config: PreshuffleConfig, stream: Any) -> None:
    """From a jit function that is told N again: it must be that of the kernel."""
    fx.host_assert(n == config.n, f"the kernel was built for N = {config.n}, and is called for another")
    launch_preshuffle(tensors, m, config, stream)


@builder
def compile_preshuffle_gemm(*, N: int, K: int, tile_m: int, tile_n: int, tile_k: int, in_dtype: str = "fp8",
                            out_dtype: str = "bf16", epilogue: str = "none", waves_per_eu: int | None = None,
                            enable_scheduler: bool = True, use_async_copy: bool = False, xcd_swizzle: int = 0,
                            lds_stage: int = 2, preload: tuple[int, int] | None = None, target: Target):
    """``fn(C, A, B, scale_a, scale_b, bias, M, N, stream=None)``: ``C[M, N] = A[M, K] B[N, K]^T`` on gfx942, gfx950.

    8-bit: ``act(acc * scale_a[row] * scale_b[column] + bias)``; 16-bit: ``act(acc + bias)``. B is in the order of
    :func:`shuffle_weight`. Tensors may be flat; fp8 may be passed as int8. `bias` is always passed (empty if unused),
    scales are ignored for 16-bit data. M is free.

    Args:
        N, K: multiples of tile_n, tile_k.
        tile_m, tile_n, tile_k: multiples of 16, 64 and 64 bytes.
        in_dtype: ``"fp8"`` (the variant of the chip), ``"int8"``, ``"int4"`` (weights packed by ``pack_int4`` after the
            shuffle), ``"fp16"`` or ``"bf16"``.
        out_dtype: ``"bf16"`` or ``"fp16"``.
        epilogue: ``"none"``, ``"bias"``, ``"bias_relu"``, ``"bias_silu"`` or ``"bias_gelu"``.
        waves_per_eu: occupancy hint for the compiler.
        enable_scheduler: emit the derived order of the hot loop as hints.
        use_async_copy: A goes to LDS without registers (gfx950).
        xcd_swizzle: block rows of a group in the order over the dies; 0: plain order.
        lds_stage: LDS buffers of A, 1 or 2.
        preload: LDS reads and global loads before the first matrix instruction; None: by rule.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    config = preshuffle_config("compile_preshuffle_gemm", target, n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k,
                               in_dtype=in_dtype, out_dtype=out_dtype, epilogue=epilogue, scheduled=enable_scheduler,
                               use_async=use_async_copy, group=xcd_swizzle, stages=lds_stage,
                               preload=preload)

    @flyc.jit
    def preshuffle_gemm(C, A, B, scale_a, scale_b, bias, M: fx.Int32, N: fx.Int32,
                        stream: fx.Stream = fx.Stream(None)):
        _launch({"c": C, "a": A, "b": B, "scale_a": scale_a, "scale_b": scale_b, "bias": bias}, M, N, config, stream)

    return with_occupancy(preshuffle_gemm, waves_per_eu)


@builder
def compile_preshuffle_gemm_v2(*, N: int, K: int, tile_m: int, tile_n: int, tile_k: int, in_dtype: str = "fp8",
                               out_dtype: str = "bf16", waves_per_eu: int | None = None,
                               enable_scheduler: bool = True, use_async_copy: bool = False, lds_stage: int = 2,
                               preload: tuple[int, int] | None = None, target: Target):
    """:func:`compile_preshuffle_gemm` without epilogue: ``fn(C, A, B, scale_a, scale_b, M, N, stream=None)``."""
    config = preshuffle_config("compile_preshuffle_gemm_v2", target, n=N, k=K, tile_m=tile_m, tile_n=tile_n,
                               tile_k=tile_k, in_dtype=in_dtype, out_dtype=out_dtype, scheduled=enable_scheduler,
                               use_async=use_async_copy, stages=lds_stage, preload=preload)

    @flyc.jit
    def preshuffle_gemm_v2(C, A, B, scale_a, scale_b, M: fx.Int32, N: fx.Int32,
                           stream: fx.Stream = fx.Stream(None)):
        _launch({"c": C, "a": A, "b": B, "scale_a": scale_a, "scale_b": scale_b}, M, N, config, stream)

    return with_occupancy(preshuffle_gemm_v2, waves_per_eu)


@builder
def compile_preshuffle_gemm_a8(*, M: int = 0, N: int = 0, K: int, tile_m: int, tile_n: int, tile_k: int,
                               in_dtype: str = "fp8", out_dtype: str = "fp16", lds_stage: int = 2,
                               use_cshuffle_epilog: bool = False, waves_per_eu: int | None = None,
                               use_async_copy: bool = False, dsrd_preload: int = -1, dvmem_preload: int = -1,
                               epilogue: str = "none", xcd_swizzle: int = 0, target: Target):
    """The older interface: ``fn(c, a, b, bias, scale_a, scale_b, M, N, stream=None)``.

    The M given here is ignored. With N = 0 the launcher takes N at the call and compiles a kernel for each.
    With use_cshuffle_epilog C goes through LDS and is stored 16 bytes a lane.

    Arguments as in :func:`compile_preshuffle_gemm`; negative preloads mean the rule's.
    """
    where = "compile_preshuffle_gemm_a8"
    preload = None if dsrd_preload < 0 or dvmem_preload < 0 else (dsrd_preload, dvmem_preload)

    def config_of(n: int) -> PreshuffleConfig:
        return preshuffle_config(where, target, n=n, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k,
                                 in_dtype=in_dtype, out_dtype=out_dtype, epilogue=epilogue, use_async=use_async_copy,
                                 group=xcd_swizzle, stages=lds_stage, preload=preload,
                                 cshuffle=use_cshuffle_epilog)

    config = config_of(N or tile_n)  # its errors at once
    if not N:

        @flyc.jit
        def preshuffle_gemm_a8_any_n(c, a, b, bias, scale_a, scale_b, M: fx.Int32, N: fx.Constexpr[int],
                                     stream: fx.Stream = fx.Stream(None)):
            launch_preshuffle({"c": c, "a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "bias": bias}, M,
                              config_of(N), stream)

        return with_occupancy(preshuffle_gemm_a8_any_n, waves_per_eu)

    @flyc.jit
    def preshuffle_gemm_a8(c, a, b, bias, scale_a, scale_b, M: fx.Int32, N: fx.Int32,
                           stream: fx.Stream = fx.Stream(None)):
        _launch({"c": c, "a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "bias": bias}, M, N, config, stream)

    return with_occupancy(preshuffle_gemm_a8, waves_per_eu)


def compile_preshuffle_gemm_w4(*, N: int, K: int, tile_m: int, tile_n: int, tile_k: int, out_dtype: str = "bf16",
                               **options):
    """:func:`compile_preshuffle_gemm` with int8 activations and int4 weights."""
    return compile_preshuffle_gemm(N=N, K=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, in_dtype="int4",
                                   out_dtype=out_dtype, **options)


@builder
def compile_blockscale_preshuffle_gemm(*, M: int = 0, N: int, K: int, tile_m: int, tile_n: int, tile_k: int,
                                       scale_block_k: int = 128, out_dtype: str = "bf16",
                                       use_cshuffle_epilog: bool = False, waves_per_eu: int | None = None,
                                       use_async_copy: bool = False, target: Target):
    """fp8 GEMM with block scales: ``fn(C, A, B, scale_a, scale_b, M, N, stream=None)`` on gfx942 and gfx950.

    ``C = sum over 128-k blocks of (A_block B_block^T) * scale_a[block, row] * scale_b[column // 128, block]``. B is
    in the order of :func:`shuffle_weight`; scale_a is f32[K/128, M], scale_b f32[ceil(N/128), K/128]. M is free.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    where = "compile_blockscale_preshuffle_gemm"
    if scale_block_k != 128:
        raise ValueError(f"{where}: scale_block_k must be 128, got {scale_block_k}")
    config = preshuffle_config(where, target, n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, in_dtype="fp8",
                               out_dtype=out_dtype, block_scale=True, use_async=use_async_copy,
                               cshuffle=use_cshuffle_epilog)

    @flyc.jit
    def blockscale_gemm(C, A, B, scale_a, scale_b, M: fx.Int32, N: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        _launch({"c": C, "a": A, "b": B, "scale_a": scale_a, "scale_b": scale_b}, M, N, config, stream)

    return with_occupancy(blockscale_gemm, waves_per_eu)
