"""Products of fp8 and microscaled torch tensors with plain weights, by the kernel that the architecture has.

A weight is put in the order of its kernel once for each content of the tensor (:func:`..functional.in_order`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..common.arrays import _dtype, launch
from ..target import target
from .fp8_rowscale import BLOCK_K, compile_fp8_gemm_8w
from .fp8fp4 import DATA_FORMATS, compile_fp8fp4_gemm
from .functional import in_order, preshuffle_gemm, preshuffled, takes_preshuffled
from .gfx1250 import compile_ptpc_gemm
from .layouts import (
    e8m0_shuffle,
    preshuffle_b_16x16,
    preshuffle_b_fp8,
    shuffle_scale_32x4,
    shuffle_weight,
    shuffle_weight_w4,
)
from .mx import compile_mxfp4_gemm
from .rdna_fp8 import compile_fp8_gemm
from .tuned import MX, choose

__all__ = ["mx_gemm", "scaled_gemm"]

MX_GROUP = 32
STORED = {"fp4": 2, "fp6": 1, "fp8": 1}  # elements of a byte
_OUT = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def _scale(where: str, name: str, scale: torch.Tensor, size: int) -> torch.Tensor:
    if scale.numel() != size or scale.dtype != torch.float32:
        raise ValueError(f"{where}: {name} must be f32 with {size} elements, got {scale.dtype} {tuple(scale.shape)}")
    return scale.contiguous().view(-1)


def scaled_gemm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                out_dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:  # fmt: skip
    """``(a b^T) * scale_a[row] * scale_b[column]`` of fp8 in the architecture's variant, summed in f32.

    gfx942 and gfx950 run the preshuffle GEMM, gfx950 the 8-wave form where N is not a multiple of 64, gfx120x the form
    without LDS, gfx1250 the general kernel.

    Args:
        a: (..., K); `b`: (N, K) as it is, without an order of its own.
        scale_a, scale_b: f32 of one element a row of a and of b.
        out_dtype: bfloat16; float16 too on gfx942 and gfx950.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape or the architecture is not supported.
    """
    where = "scaled_gemm"
    found = target()
    if found.fp8_name is None:
        raise ValueError(f"{where} is not available on {found.arch}: it has no fp8")
    native = _dtype(a, "fp8")
    if a.dtype != native or b.dtype != native:
        raise TypeError(f"{where}: {found.arch} computes with {native}, got {a.dtype} and {b.dtype}")
    if b.dim() != 2 or a.dim() < 1 or a.shape[-1] != b.shape[1]:
        raise ValueError(f"{where}: shapes (..., K) and (N, K) are needed, got {tuple(a.shape)} and {tuple(b.shape)}")
    n, k = b.shape
    rows = a.reshape(-1, k).contiguous()
    m = rows.shape[0]
    scale_a, scale_b = _scale(where, "scale_a", scale_a, m), _scale(where, "scale_b", scale_b, n)
    if takes_preshuffled(n, k, 1):
        return preshuffle_gemm(a, preshuffled(b), scale_a, scale_b, None, "none", out_dtype)
    if out_dtype != torch.bfloat16:
        raise TypeError(f"{where}: out_dtype must be torch.bfloat16 here, got {out_dtype}")
    out = a.new_empty((m, n), dtype=out_dtype)
    if m and n:
        _other_kernels(where, rows, b, scale_a, scale_b, out)
    return out.view(*a.shape[:-1], n)


def _other_kernels(where: str, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                   out: torch.Tensor) -> None:  # fmt: skip
    (m, k), n, arch = a.shape, b.shape[0], target().arch
    data = a.view(torch.int8)
    if arch == "gfx120":
        run = compile_fp8_gemm(M=m, N=n, K=k)
        order = in_order(b, "rdna_fp8", lambda w: preshuffle_b_fp8(w.t()))
        launch(run, a, out, data, order.view(torch.int8).reshape(-1), scale_a, scale_b)
    elif arch == "gfx1250":
        tile = functools.partial(_dividing, where)
        run = compile_ptpc_gemm(N=n, K=k, tile_m=64, tile_n=tile("N", n, (128, 64, 32)),
                                tile_k=tile("K", k, (128,)), num_buffers=2)  # fmt: skip
        order = in_order(b, "gfx1250_16x16", lambda w: preshuffle_b_16x16(w, n, k))
        launch(run, a, out, data, order.view(torch.int8), scale_a, scale_b, m, n, k, n)
    elif arch == "gfx950" and k % BLOCK_K == 0 and k >= 2 * BLOCK_K:
        launch(compile_fp8_gemm_8w(K=k), a, data, b.contiguous().view(torch.int8), out, scale_a, scale_b, m, n)
    else:
        raise ValueError(f"{where}: on {arch}, N must be a multiple of 64 and K of 64, got {n} and {k}")


def _dividing(where: str, name: str, size: int, tiles: tuple[int, ...]) -> int:
    found = next((t for t in tiles if size % t == 0), None)
    if found is None:
        raise ValueError(f"{where}: {name} must be a multiple of {tiles[-1]}, got {size}")
    return found


def mx_gemm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, a_dtype: str = "fp4",
            b_dtype: str = "fp4", out_dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:  # fmt: skip
    """``dequantised(a) dequantised(b)^T`` of microscaled operands on gfx950 and gfx1250, summed in f32.

    Args:
        a: bytes (..., K/2) of fp4, or (..., K) of fp8 or of fp6 in groups padded to 32 bytes, as ``quantize_mx`` and
            ``per_1x32_f6_quant`` give them.
        b: bytes (N, K/2) of fp4 or (N, K) of fp8, as they are, without an order of their own.
        scale_a, scale_b: e8m0 bytes (..., K/32) and (N, K/32).
        a_dtype: ``"fp4"``, ``"fp6"`` or ``"fp8"``; `b_dtype` ``"fp4"`` or ``"fp8"``. On gfx1250 not fp6, and not fp4
            with a weight of fp8.
        out_dtype: bfloat16 or float16.

    Raises:
        TypeError: out_dtype is not supported.
        ValueError: a type, a shape or the architecture is not supported.
    """
    where = "mx_gemm"
    found = target()
    found.require(where, "gfx950", "gfx1250")
    if a_dtype not in STORED or b_dtype not in ("fp4", "fp8"):
        raise ValueError(f"{where}: a_dtype must be fp4, fp6 or fp8 and b_dtype fp4 or fp8, got {a_dtype!r} and "
                         f"{b_dtype!r}")  # fmt: skip
    if out_dtype not in _OUT:
        raise TypeError(f"{where}: out_dtype must be bfloat16 or float16, got {out_dtype}")
    n, k = b.shape[0], b.shape[1] * STORED[b_dtype]
    rows = a.reshape(-1, a.shape[-1]).contiguous()
    m = rows.shape[0]
    shapes = ((a.shape[-1] * STORED[a_dtype], k), (tuple(scale_b.shape), (n, k // MX_GROUP)),
              (tuple(scale_a.shape), (*a.shape[:-1], k // MX_GROUP)))  # fmt: skip
    if any(x != y for x, y in shapes) or any(t.element_size() != 1 for t in (a, b, scale_a, scale_b)):
        raise ValueError(f"{where}: bytes of one K with a scale per {MX_GROUP} are needed, got {tuple(a.shape)} of "
                         f"{a_dtype}, {tuple(b.shape)} of {b_dtype}, scales {tuple(scale_a.shape)} and "
                         f"{tuple(scale_b.shape)}")  # fmt: skip
    out = a.new_empty((m, n), dtype=out_dtype)
    if m and n:
        run = _mx_gfx1250 if found.arch == "gfx1250" else _mx_gfx950
        run(where, rows, b, scale_a.reshape(m, -1), scale_b, out, (m, n, k), (a_dtype, b_dtype))
    return out.view(*a.shape[:-1], n)


def _mx_gfx950(where: str, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
               out: torch.Tensor, sizes: tuple[int, int, int], dtypes: tuple[str, str]) -> None:  # fmt: skip
    (m, n, k), (a_dtype, b_dtype) = sizes, dtypes
    tile = choose(MX[a_dtype, b_dtype], where, target(), m, n, k)
    run = compile_mxfp4_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, a_dtype=a_dtype, b_dtype=b_dtype,
                             out_dtype=_OUT[out.dtype])  # fmt: skip
    shuffle: Callable[[torch.Tensor], Any] = shuffle_weight_w4 if b_dtype == "fp4" else shuffle_weight
    order = in_order(b, b_dtype, lambda w: shuffle(w.view(torch.int8)))
    scales = e8m0_shuffle(scale_a), in_order(scale_b, "e8m0", e8m0_shuffle)
    launch(run, a, out, a.view(torch.int8), order.view(torch.int8), *scales, m, n)


def _mx_gfx1250(where: str, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                out: torch.Tensor, sizes: tuple[int, int, int], dtypes: tuple[str, str]) -> None:  # fmt: skip
    m, n, k = sizes
    data_format = next((name for name, pair in DATA_FORMATS.items() if pair == dtypes), None)
    if data_format is None:
        known = ", ".join(" and ".join(pair) for pair in DATA_FORMATS.values())
        raise ValueError(f"{where}: a_dtype and b_dtype must be {known} on gfx1250, got {' and '.join(dtypes)}")
    run = compile_fp8fp4_gemm(data_format=data_format, N=n, K=k, tile_m=64, tile_k=_dividing(where, "K", k, (128,)),
                              tile_n=_dividing(where, "N", n, (128, 64, 32)),
                              out_dtype=_OUT[out.dtype].replace("fp", "f"))  # fmt: skip
    order = in_order(b, "gfx1250_16x16", lambda w: preshuffle_b_16x16(w, *w.shape))
    scales = shuffle_scale_32x4(scale_a), in_order(scale_b, "gfx1250_32x4", shuffle_scale_32x4)
    launch(run, a, out, a.view(torch.int8), order.view(torch.int8), *scales, m, n, 0, 0)
