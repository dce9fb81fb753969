"""Products of torch tensors under the names and argument orders of serving libraries, which choose tiles themselves."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import torch

from flydsl.kernels.common.host import with_occupancy
from flydsl.kernels.fp8_rowscale_gemm import compile_fp8_gemm_8w
from flydsl.kernels.gemm.mx import PADDED_ROWS
from flydsl.kernels.gemm.tuned import MX, choose
from flydsl.kernels.gemm_a16w16 import gemm_a16w16
from flydsl.kernels.gemm_fp8fp4_gfx1250 import compile_ptpc_gemm
from flydsl.kernels.host.arrays import array_dtype, launch
from flydsl.kernels.host.dtypes import as_bytes, dtype_name, torch_dtype
from flydsl.kernels.mxfp4_preshuffle import launch_gemm
from flydsl.kernels.parts.index import align_up
from flydsl.kernels.parts.matrix import FORMATS, MICRO_GROUP
from flydsl.kernels.preshuffle_gemm import compile_preshuffle_gemm
from flydsl.kernels.target import target

__all__ = [
    "flydsl_8wave_gemm_a8", "flydsl_batched_gemm_mxfp4", "flydsl_hgemm", "flydsl_preshuffle_gemm_a8",
    "run_preshuffle_gemm_a8_gfx1250",
]


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


def run_preshuffle_gemm_a8_gfx1250(XQ: torch.Tensor, WQ: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor,
                                   Out: torch.Tensor, tile_m: int, tile_n: int, tile_k: int, m_warp: int = 2,
                                   n_warp: int = 2, num_buffers: int = 2, split_k: int = 1, cluster_m: int = 1,
                                   cluster_n: int = 1, waves_per_eu: int = 0) -> torch.Tensor:
    """:func:`flydsl_preshuffle_gemm_a8` of fp8 by the kernel of gfx1250, :func:`compile_ptpc_gemm`.

    Args:
        WQ: (N, K) in the order of ``shuffle_weight``, which for bytes is that of ``preshuffle_b_16x16``.
        m_warp, n_warp: waves along the rows and columns.
        num_buffers: LDS buffers, 2 to 4.
        split_k: workgroups that share a tile's reduction, and add to Out, rounding each share.
        cluster_m, cluster_n: workgroups along the rows and columns that load what they share once.
        waves_per_eu: occupancy hint, 0: none.
    """
    where = "run_preshuffle_gemm_a8_gfx1250"
    m, n, k, kind = _operands(where, XQ, WQ, x_scale, w_scale, Out)
    if kind != "fp8":
        raise TypeError(f"{where}: fp8 operands are needed, got {XQ.dtype}")
    run = compile_ptpc_gemm(N=n, K=k, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_warp=m_warp, n_warp=n_warp,
                            num_buffers=num_buffers, split_k=split_k, cluster_m=cluster_m, cluster_n=cluster_n,
                            waves_per_eu=waves_per_eu or None, out_dtype=dtype_name(Out, "Out"))
    if m:
        launch(run, XQ, Out, XQ.view(torch.int8), WQ.view(torch.int8), x_scale.contiguous().view(-1),
               w_scale.contiguous().view(-1), m, n, k, n)
    return Out


def flydsl_batched_gemm_mxfp4(a: torch.Tensor, w: torch.Tensor, a_scales: torch.Tensor, w_scales: torch.Tensor, N: int,
                              dtype: Any = torch.bfloat16, *, a_dtype: str = "fp4", layout: str = "bmn",
                              tile_m: int | None = None, tile_n: int | None = None, tile_k: int | None = None,
                              out: torch.Tensor | None = None) -> torch.Tensor:
    """A product of every entry of a batch of microscaled activations with its fp4 weight, by :func:`launch_gemm`.

    Args:
        a: bytes (B, M, K/2) of fp4, (B, M, K) of fp8 or padded fp6; (M, B, ...) in layout ``"mbn"``. Contiguous.
        w: bytes (B, N, K/2), each entry in the order of ``shuffle_weight_w4``.
        a_scales: e8m0 in the order of ``e8m0_shuffle``: of the (M, K/32) of each entry one after another, which fills
            them up to a multiple of 256 rows, or in layout ``"mbn"`` of all as one (M, B * K/32).
        w_scales: (B, N, K/32), each entry in that order; N is a multiple of 32.
        N: columns of a weight.
        dtype: bfloat16 or float16, of the result.
        layout: of the result: ``"bmn"`` or ``"mbn"``.
        tile_m, tile_n, tile_k: given together; by the size if they are None.
        out: contiguous, of that dtype and layout.

    Returns:
        (B, M, N) or (M, B, N): `out`, or new.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: the architecture, a shape or the tile is not supported.
    """
    where = "flydsl_batched_gemm_mxfp4"
    chip = target()
    chip.require(where, "gfx950")
    if layout not in ("bmn", "mbn") or (a_dtype, "fp4") not in MX:
        raise ValueError(f"{where}: layout must be 'bmn' or 'mbn' and a_dtype fp4, fp6 or fp8, got {layout!r} and "
                         f"{a_dtype!r}")
    for name, array, kind in (("a", a, a_dtype), ("w", w, "fp4")):
        as_bytes(array, kind, f"{where}: {name}")
    if a.dim() != 3 or w.dim() != 3 or w.shape[1] != N:
        raise ValueError(f"{where}: bytes a of 3 dimensions and w (B, {N}, K/2) are needed, got {a.dtype} "
                         f"{tuple(a.shape)} and {w.dtype} {tuple(w.shape)}")
    rows_first = layout == "mbn"
    m, batch = a.shape[:2] if rows_first else a.shape[1::-1]
    k, groups = w.shape[2] * FORMATS["fp4"].per_byte, w.shape[2] * FORMATS["fp4"].per_byte // MICRO_GROUP
    if w.shape[0] != batch or a.shape[2] * FORMATS[a_dtype].per_byte != k or k % 256:
        raise ValueError(f"{where}: a and w must have one batch and one K, a multiple of 256, got {tuple(a.shape)} of "
                         f"{a_dtype} in layout {layout} and {tuple(w.shape)}")
    padded = align_up(m, PADDED_ROWS)
    for name, scale, size in (("a_scales", a_scales, batch * padded * groups),
                              ("w_scales", w_scales, batch * N * groups)):
        if scale.numel() != size or scale.element_size() != 1:
            raise ValueError(f"{where}: {name} must be {size} bytes, got {scale.dtype} {tuple(scale.shape)}")
    shape = (m, batch, N) if rows_first else (batch, m, N)
    out = a.new_empty(shape, dtype=torch_dtype(dtype)) if out is None else out
    if tuple(out.shape) != shape or out.dtype != torch_dtype(dtype) or not all(t.is_contiguous() for t in (a, w, out)):
        raise ValueError(f"{where}: contiguous operands and a contiguous {torch_dtype(dtype)} out of shape {shape} are "
                         f"needed, got {out.dtype} {tuple(out.shape)}")
    sizes = tile_m, tile_n, tile_k
    if None in sizes:
        if any(sizes):
            raise ValueError(f"{where}: tile_m, tile_n and tile_k must be given together, got {sizes}")
        tile = choose(MX[a_dtype, "fp4"], where, chip, f"{a_dtype} fp4", m, N, k)
        sizes = tile.m, tile.n, tile.k
    static: dict[str, Any] = dict(N=N, K=k, tile_m=sizes[0], tile_n=sizes[1], tile_k=sizes[2], a_dtype=a_dtype,
                                  out_dtype=dtype_name(out, where, ("bf16", "f16")), batch=batch)
    if rows_first:
        static.update(a_row_stride=batch * a.shape[2], a_batch_stride=a.shape[2], sca_row_stride=batch * groups,
                      sca_batch_stride=MICRO_GROUP * groups, c_row_stride=batch * N, c_batch_stride=N)
    if m and batch:
        scales = (t.view(torch.uint8).contiguous() for t in (a_scales, w_scales))
        launch(launch_gemm, a, out, a.view(torch.int8), w.view(torch.int8), *scales, m, N, **static)
    return out
