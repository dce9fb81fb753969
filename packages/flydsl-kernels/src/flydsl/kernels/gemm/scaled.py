"""Plans of products of fp8, int8 and microscaled torch tensors, by the kernel that the architecture has.

A plain weight is put in the order of its kernel once for each content of the tensor (:func:`..weights.in_order`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..host.arrays import array_dtype
from ..host.dtypes import dtype_name
from ..op import Plan
from ..target import Target
from .fp8_rowscale import BLOCK_K, compile_fp8_gemm_4w
from .fp8fp4 import DATA_FORMATS, compile_fp8fp4_gemm, compile_ptpc_gemm
from .layouts import (
    B_16X16,
    B_16X16_INT4,
    check_layout,
    e8m0_shuffle,
    layout_of,
    preshuffle_b_16x16,
    preshuffle_b_fp8,
    shuffle_scale_32x4,
    shuffle_weight,
    shuffle_weight_w4,
)
from .mx import compile_mxfp4_gemm
from .preshuffle import compile_blockscale_preshuffle_gemm, compile_preshuffle_gemm
from .preshuffle_config import ACTIVATIONS
from .rdna_fp8 import compile_rdna_fp8_gemm
from .tuned import BLOCK_SCALE, MX, PRESHUFFLE, Tile, choose, row_scale_block
from .weights import in_order, preshuffled, takes_preshuffled

__all__ = ["default_tiles", "plan_blockscale", "plan_mx", "plan_preshuffle", "plan_scaled"]

MX_GROUP = 32
STORED = {"fp4": 2, "fp6": 1, "fp8": 1}  # elements of a byte
_IN = {"i8": "int8", "fp8": "fp8", "f16": "fp16", "bf16": "bf16"}


def _require_cdna(target: Target, where: str) -> None:
    if target.arch not in PRESHUFFLE:
        raise ValueError(f"{where} is not available on {target.name}: it needs {' or '.join(PRESHUFFLE)}")


def default_tiles(target: Target, m: int, n: int, k: int, weight_bytes: float, kind: str = "") -> Tile:
    """The tile of a preshuffle GEMM of this size with weights of 2, 1 or 0.5 bytes; `kind` of its operands.

    ValueError if none divides N and K, or the architecture has none.
    """
    _require_cdna(target, "preshuffle_gemm")
    return choose(PRESHUFFLE[target.arch][weight_bytes], "preshuffle_gemm", target, kind, m, n, k)


def _matrix(x: torch.Tensor, k: int, where: str) -> torch.Tensor:
    if x.dim() < 1 or x.shape[-1] != k:
        raise ValueError(f"{where}: the last dimension of the activations must be {k}, got shape {tuple(x.shape)}")
    return x.reshape(-1, k).contiguous()


def _bytes(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int8) if x.element_size() == 1 else x


def _out_name(where: str, dtype: torch.dtype) -> str:
    if dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"{where}: out_dtype must be bfloat16 or float16, got {dtype}")
    return "bf16" if dtype == torch.bfloat16 else "f16"


def _scale(where: str, name: str, scale: torch.Tensor | None, size: int) -> torch.Tensor:
    if scale is None or scale.numel() != size or scale.dtype != torch.float32:
        given = "None" if scale is None else f"{scale.dtype} {tuple(scale.shape)}"
        raise ValueError(f"{where}: {name} must be f32 with {size} elements, got {given}")
    return scale.contiguous().view(-1)


def plan_preshuffle(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor | None,
                    scale_b: torch.Tensor | None, bias: torch.Tensor | None, activation: str,
                    out_dtype: torch.dtype) -> Plan | None:
    """``act(a b^T * scale_a[row] * scale_b[column] + bias)`` with a shuffled weight, whose tag is checked."""
    where = "preshuffle_gemm"
    int4 = layout_of(b) == B_16X16_INT4
    check_layout(b, B_16X16_INT4 if int4 else B_16X16, where)
    dtype, fp8 = dtype_name(a, where, tuple(_IN)), array_dtype(target, a, "fp8")
    if int4 and dtype != "i8":
        raise TypeError(f"{where}: int4 weights need int8 activations, got {a.dtype}")
    if b.dtype != a.dtype and not int4:
        raise TypeError(f"{where}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if dtype == "fp8" and a.dtype != fp8:
        raise TypeError(f"{where}: {target.name} computes with {fp8}, got {a.dtype}")
    out_name = _out_name(where, out_dtype)
    n, k = b.shape[0], b.shape[1] * (2 if int4 else 1)
    rows = _matrix(a, k, where)
    m, scaled = rows.shape[0], a.element_size() == 1
    scales = [_scale(where, name, scale, size) if scaled else None
              for name, scale, size in (("scale_a", scale_a, m), ("scale_b", scale_b, n))]
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"{where}: bias must have shape {(n,)}, got {tuple(bias.shape)}")
    epilogue = "bias" if bias is not None and activation == "none" else activation
    if activation != "none":
        epilogue = f"bias_{activation}"
        if bias is None:
            bias = torch.zeros(n, dtype=torch.float32, device=a.device)
    if epilogue not in ACTIVATIONS:
        raise ValueError(f"{where}: activation must be none, relu, silu or gelu, got {activation!r}")
    if not m or not n:
        return None
    tile = default_tiles(target, m, n, k, 0.5 if int4 else a.element_size(), "int4" if int4 else dtype)
    run = compile_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k,
                                  in_dtype="int4" if int4 else _IN[dtype], out_dtype=out_name, epilogue=epilogue,
                                  use_async_copy=tile.direct, xcd_swizzle=tile.group, target=target)

    def operands(out: torch.Tensor) -> tuple[Any, ...]:
        unused = out.view(-1)
        return (unused, _bytes(rows).view(-1), _bytes(b).view(-1), *(unused if s is None else s for s in scales),
                unused if bias is None else bias.contiguous(), m, n)

    return Plan(lambda: run, operands)


def plan_blockscale(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                    out_dtype: torch.dtype) -> Plan | None:
    """fp8 with a scale per (row, 128 k) of a, f32 (K/128, M), and per (128 columns, 128 k) of the shuffled b."""
    where = "blockscale_gemm"
    check_layout(b, B_16X16, where)
    fp8 = array_dtype(target, a, "fp8")
    if a.dtype != fp8 or b.dtype != a.dtype:
        raise TypeError(f"{where}: operands must be {fp8}, got {a.dtype} and {b.dtype}")
    n, k = b.shape
    rows = _matrix(a, k, where)
    m = rows.shape[0]
    for name, scale, shape in (("scale_a", scale_a, (k // 128, m)), ("scale_b", scale_b, (-(-n // 128), k // 128))):
        if tuple(scale.shape) != shape or scale.dtype != torch.float32:
            raise ValueError(f"{where}: {name} must be f32 of shape {shape}, got {scale.dtype} {tuple(scale.shape)}")
    out_name = _out_name(where, out_dtype)
    if not m or not n:
        return None
    _require_cdna(target, where)
    tile = choose(BLOCK_SCALE[target.arch], where, target, "fp8", m, n, k)
    run = compile_blockscale_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, out_dtype=out_name,
                                             target=target)
    scales = [s.contiguous().view(-1) for s in (scale_a, scale_b)]
    return Plan(lambda: run, lambda out: (out.view(-1), _bytes(rows).view(-1), _bytes(b).view(-1), *scales, m, n))


def plan_scaled(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                out_dtype: torch.dtype) -> Plan | None:
    """fp8 with f32 scales per row and a plain weight.

    gfx942 and gfx950 run the preshuffle GEMM, gfx950 the form with both operands in LDS where N is not a multiple of
    64, gfx120x the form without LDS, gfx1250 the general kernel.
    """
    where = "scaled_gemm"
    if target.fp8_name is None:
        raise ValueError(f"{where} is not available on {target.name}: it has no fp8")
    native = array_dtype(target, a, "fp8")
    if a.dtype != native or b.dtype != native:
        raise TypeError(f"{where}: {target.name} computes with {native}, got {a.dtype} and {b.dtype}")
    if b.dim() != 2 or a.dim() < 1 or a.shape[-1] != b.shape[1]:
        raise ValueError(f"{where}: shapes (..., K) and (N, K) are needed, got {tuple(a.shape)} and {tuple(b.shape)}")
    n, k = b.shape
    rows = a.reshape(-1, k).contiguous()
    m = rows.shape[0]
    scale_a, scale_b = _scale(where, "scale_a", scale_a, m), _scale(where, "scale_b", scale_b, n)
    if takes_preshuffled(target, n, k, 1):
        return plan_preshuffle(target, rows, preshuffled(b), scale_a, scale_b, None, "none", out_dtype)
    if out_dtype != torch.bfloat16:
        raise TypeError(f"{where}: out_dtype must be torch.bfloat16 here, got {out_dtype}")
    if not m or not n:
        return None
    data = rows.view(torch.int8)
    if target.matrix == "wmma" and not target.tensor_moves:
        run = compile_rdna_fp8_gemm(N=n, K=k, tile_n=256 if m >= 256 and n % 256 == 0 else 128, target=target)
        order = in_order(b, "rdna_fp8", lambda w: preshuffle_b_fp8(w.t())).view(torch.int8).reshape(-1)
        return Plan(lambda: run, lambda out: (out, data, order, scale_a, scale_b, m))
    if target.tensor_moves:
        run = compile_ptpc_gemm(N=n, K=k, tile_m=64, tile_n=_dividing(where, "N", n, (128, 64, 32)),
                                tile_k=_dividing(where, "K", k, (128,)), num_buffers=2, target=target)
        order = in_order(b, "gfx1250_16x16", lambda w: preshuffle_b_16x16(w, n, k)).view(torch.int8)
        return Plan(lambda: run, lambda out: (out, data, order, scale_a, scale_b, m, n, k, n))
    if target.dma128 and k % BLOCK_K == 0 and k >= 2 * BLOCK_K:
        rows_block, columns_block = row_scale_block(target, m, n)
        run = compile_fp8_gemm_4w(K=k, BLOCK_M=rows_block, BLOCK_N=columns_block, target=target)
        plain = b.contiguous().view(torch.int8)
        return Plan(lambda: run, lambda out: (data, plain, out, scale_a, scale_b, m, n))
    raise ValueError(f"{where}: on {target.name}, N must be a multiple of 64 and K of 64, got {n} and {k}")


def _dividing(where: str, name: str, size: int, tiles: tuple[int, ...]) -> int:
    found = next((t for t in tiles if size % t == 0), None)
    if found is None:
        raise ValueError(f"{where}: {name} must be a multiple of {tiles[-1]}, got {size}")
    return found


def plan_mx(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
            a_dtype: str, b_dtype: str, out_dtype: torch.dtype) -> Plan | None:
    """Microscaled operands with a plain weight: bytes with e8m0 scales per 32 k."""
    where = "mx_gemm"
    target.require(where, "gfx950", "gfx1250")
    if a_dtype not in STORED or b_dtype not in ("fp4", "fp8"):
        raise ValueError(f"{where}: a_dtype must be fp4, fp6 or fp8 and b_dtype fp4 or fp8, got {a_dtype!r} and "
                         f"{b_dtype!r}")
    out_name = _out_name(where, out_dtype)
    n, k = b.shape[0], b.shape[1] * STORED[b_dtype]
    rows = a.reshape(-1, a.shape[-1]).contiguous()
    m = rows.shape[0]
    shapes = ((a.shape[-1] * STORED[a_dtype], k), (tuple(scale_b.shape), (n, k // MX_GROUP)),
              (tuple(scale_a.shape), (*a.shape[:-1], k // MX_GROUP)))
    if any(x != y for x, y in shapes) or any(t.element_size() != 1 for t in (a, b, scale_a, scale_b)):
        raise ValueError(f"{where}: bytes of one K with a scale per {MX_GROUP} are needed, got {tuple(a.shape)} of "
                         f"{a_dtype}, {tuple(b.shape)} of {b_dtype}, scales {tuple(scale_a.shape)} and "
                         f"{tuple(scale_b.shape)}")
    if not m or not n:
        return None
    plan = _mx_gfx1250 if target.tensor_moves else _mx_gfx950
    return plan(where, target, rows, b, scale_a.reshape(m, -1), scale_b, (m, n, k), (a_dtype, b_dtype), out_name)


def _mx_gfx950(where: str, target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor,
               scale_b: torch.Tensor, sizes: tuple[int, int, int], dtypes: tuple[str, str],
               out_name: str) -> Plan:
    (m, n, k), (a_dtype, b_dtype) = sizes, dtypes
    tile = choose(MX[a_dtype, b_dtype], where, target, f"{a_dtype} {b_dtype}", m, n, k)
    run = compile_mxfp4_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, a_dtype=a_dtype, b_dtype=b_dtype,
                             out_dtype=out_name, target=target)
    shuffle: Callable[[torch.Tensor], Any] = shuffle_weight_w4 if b_dtype == "fp4" else shuffle_weight
    order = in_order(b, b_dtype, lambda w: shuffle(w.view(torch.int8)))
    scales = e8m0_shuffle(scale_a), in_order(scale_b, "e8m0", e8m0_shuffle)
    return Plan(lambda: run, lambda out: (out, a.view(torch.int8), order.view(torch.int8), *scales, m, n))


def _mx_gfx1250(where: str, target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor,
                scale_b: torch.Tensor, sizes: tuple[int, int, int], dtypes: tuple[str, str],
                out_name: str) -> Plan:
    m, n, k = sizes
    data_format = next((name for name, pair in DATA_FORMATS.items() if pair == dtypes), None)
    if data_format is None:
        known = ", ".join(" and ".join(pair) for pair in DATA_FORMATS.values())
        raise ValueError(f"{where}: a_dtype and b_dtype must be {known} on gfx1250, got {' and '.join(dtypes)}")
    run = compile_fp8fp4_gemm(data_format=data_format, N=n, K=k, tile_m=64, tile_k=_dividing(where, "K", k, (128,)),
                              tile_n=_dividing(where, "N", n, (128, 64, 32)), out_dtype=out_name,
                              target=target)
    order = in_order(b, "gfx1250_16x16", lambda w: preshuffle_b_16x16(w, *w.shape))
    scales = shuffle_scale_32x4(scale_a), in_order(scale_b, "gfx1250_32x4", shuffle_scale_32x4)
    return Plan(lambda: run, lambda out: (out, a.view(torch.int8), order.view(torch.int8), *scales, m, n, 0, 0))
