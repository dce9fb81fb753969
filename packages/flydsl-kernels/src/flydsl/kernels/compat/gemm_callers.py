"""Products of torch tensors under the names and argument orders of serving libraries, which choose tiles themselves."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import torch

from flydsl.kernels.common.host import with_occupancy
from flydsl.kernels.fp8_rowscale_gemm import compile_fp8_gemm_8w
from flydsl.kernels.gemm_a16w16 import gemm_a16w16
from flydsl.kernels.host.arrays import array_dtype, launch
from flydsl.kernels.host.dtypes import dtype_name
from flydsl.kernels.preshuffle_gemm import compile_preshuffle_gemm
from flydsl.kernels.target import target

__all__ = ["flydsl_8wave_gemm_a8", "flydsl_hgemm", "flydsl_preshuffle_gemm_a8"]


def flydsl_hgemm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None, *,
                 bias: torch.Tensor | None = None, tile_m: int = 128, tile_n: int = 128, tile_k: int = 64,
                 split_k: int = 1, block_m_warps: int = 2, block_n_warps: int = 2, block_k_warps: int = 1,
                 stages: int = 2, b_to_lds: bool = True, kernel_family: str | None = None,
                 stream: Any = None) -> torch.Tensor:
    """``a b^T + bias`` of f16 or bf16 matrices (M, K) and (N, K) with a given tile; see :func:`gemm_a16w16`.

    Args:
        b_to_lds, kernel_family: accepted; there is one kernel, whose operands both go through LDS.
    """
    knobs = dict(block_m=tile_m, block_n=tile_n, block_k=tile_k, split_k=split_k, m_waves=block_m_warps,
                 n_waves=block_n_warps, k_waves=block_k_warps, stages=stages)
    return gemm_a16w16(a, b, out, bias, knobs, stream)


def _operands(where: str, x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor,
              out: torch.Tensor) -> tuple[int, int, int, str]:
    """(M, N, K, type of the operands) of a product of 8-bit tensors with scales per row, checked."""
    kind = dtype_name(x, where, ("i8", "fp8"))
    if x.dtype != w.dtype or (kind == "fp8" and x.dtype != array_dtype(target(), x, "fp8")):
        raise TypeError(f"{where}: operands must both be int8 or {array_dtype(target(), x, 'fp8')}, got {x.dtype} and "
                        f"{w.dtype}")
    if x.dim() != 2 or w.dim() != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(f"{where}: shapes (M, K) and (N, K) are needed, got {tuple(x.shape)} and {tuple(w.shape)}")
    (m, k), n = x.shape, w.shape[0]
    if tuple(out.shape) != (m, n) or not all(t.is_contiguous() for t in (x, w, out)):
        raise ValueError(f"{where}: contiguous operands and a contiguous Out of shape {(m, n)} are needed, got "
                         f"{tuple(out.shape)}")
    if out.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"{where}: Out must be bfloat16 or float16, got {out.dtype}")
    for name, scale, size in (("x_scale", x_scale, m), ("w_scale", w_scale, n)):
        if scale.numel() != size or scale.dtype != torch.float32:
            raise ValueError(f"{where}: {name} must be f32 with {size} elements, got {scale.dtype} "
                             f"{tuple(scale.shape)}")
    return m, n, k, {"i8": "int8", "fp8": "fp8"}[kind]


def flydsl_preshuffle_gemm_a8(XQ: torch.Tensor, WQ: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor,
                              Out: torch.Tensor, tile_m: int, tile_n: int, tile_k: int, use_async_copy: int = 0,
                              waves_per_eu: int = 0, xcd_swizzle: int = 0, lds_stage: int = 2,
                              enable_scheduler: bool = True) -> torch.Tensor:
    """``Out = XQ WQ^T * x_scale[row] * w_scale[column]`` of int8 or fp8, by :func:`compile_preshuffle_gemm`.

    Args:
        XQ: (M, K).
        WQ: (N, K) in the order of ``shuffle_weight``; its tag is not looked at, callers shuffle at load time.
        x_scale, w_scale: f32 of one element a row of XQ and of WQ.
        Out: (M, N), bfloat16 or float16.
        waves_per_eu: 0: no hint. The other options are those of the builder.

    Returns:
        Out.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape, the tile or the architecture is not supported.
    """
    m, n, k, kind = _operands("flydsl_preshuffle_gemm_a8", XQ, WQ, x_scale, w_scale, Out)
    run = compile_preshuffle_gemm(N=n, K=k, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, in_dtype=kind,
                                  out_dtype=dtype_name(Out, "Out"), use_async_copy=bool(use_async_copy),
                                  waves_per_eu=waves_per_eu or None, xcd_swizzle=xcd_swizzle, lds_stage=lds_stage,
                                  enable_scheduler=enable_scheduler)
    if m:
        flat = (t.view(torch.int8).view(-1) for t in (XQ, WQ))
        launch(run, XQ, Out.view(-1), *flat, x_scale.contiguous().view(-1), w_scale.contiguous().view(-1),
               Out.new_empty(0), m, n)
    return Out


def flydsl_8wave_gemm_a8(XQ: torch.Tensor, WQ: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor,
                         Out: torch.Tensor, block_m: int, block_n: int, *, waves_per_eu: int = 2,
                         xcd_swizzle: int = 0) -> torch.Tensor:
    """:func:`flydsl_preshuffle_gemm_a8` of fp8 by the 8-wave kernel of gfx950; Out is bfloat16.

    Args:
        block_m, block_n: multiples of 128 and 256.
        waves_per_eu: occupancy hint, 0: none.
        xcd_swizzle: accepted; the kernel has one launch order.
    """
    where = "flydsl_8wave_gemm_a8"
    m, n, k, kind = _operands(where, XQ, WQ, x_scale, w_scale, Out)
    if kind != "fp8" or Out.dtype != torch.bfloat16:
        raise TypeError(f"{where}: fp8 operands and a bfloat16 Out are needed, got {XQ.dtype} and {Out.dtype}")
    run = with_occupancy(compile_fp8_gemm_8w(K=k, BLOCK_M=block_m, BLOCK_N=block_n, b_preshuffled=True), waves_per_eu)
    if m:
        launch(run, XQ, XQ.view(torch.int8), WQ.view(torch.int8), Out, x_scale.contiguous().view(-1),
               w_scale.contiguous().view(-1), m, n)
    return Out
