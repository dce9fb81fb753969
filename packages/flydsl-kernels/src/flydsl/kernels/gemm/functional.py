"""GEMMs of torch tensors: fresh tensors out, tiles chosen by size, each weight preshuffled once while it lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..common.arrays import _dtype, launch
from ..common.dtypes import dtype_name
from ..target import Target, target
from .config import ACTIVATIONS
from .dense import gemm_a16w16
from .dense_config import LAYOUTS
from .layouts import B_16X16, B_16X16_INT4, check_layout, layout_of, shuffle_weight
from .preshuffle import compile_blockscale_preshuffle_gemm, compile_preshuffle_gemm
from .tuned import BLOCK_SCALE, PRESHUFFLE, Tile, choose

__all__ = [
    "blockscale_gemm", "clear_preshuffle_cache", "default_tiles", "gemm", "in_order", "linear", "preshuffle_gemm",
    "preshuffled", "takes_preshuffled",
]  # fmt: skip

_IN = {"i8": "int8", "fp8": "fp8", "f16": "fp16", "bf16": "bf16"}
_OUT = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_shuffled: dict[tuple[int, str], tuple[Any, tuple[Any, ...], torch.Tensor]] = {}


def _on_cdna(where: str) -> Target:
    found = target()
    if found.arch not in PRESHUFFLE:
        raise ValueError(f"{where} is not available on {found.arch}: it needs {' or '.join(PRESHUFFLE)}")
    return found


def default_tiles(m: int, n: int, k: int, weight_bytes: float) -> Tile:
    """The tile of a preshuffle GEMM of this size with weights of 2, 1 or 0.5 bytes.

    ValueError if none divides N and K, or the architecture has none.
    """
    found = _on_cdna("preshuffle_gemm")
    return choose(PRESHUFFLE[found.arch][weight_bytes], "preshuffle_gemm", found, m, n, k)


def takes_preshuffled(n: int, k: int, element_bytes: int) -> bool:
    """Whether the preshuffle GEMM runs a weight of n x k on the current architecture."""
    return target().arch in PRESHUFFLE and n % 64 == 0 and k * element_bytes % 64 == 0


def _matrix(x: torch.Tensor, k: int, where: str) -> torch.Tensor:
    if x.shape[-1] != k:
        raise ValueError(f"{where}: the last dimension of the activations must be {k}, got shape {tuple(x.shape)}")
    return x.reshape(-1, k).contiguous()


def _bytes(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int8) if x.element_size() == 1 else x


def preshuffle_gemm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor | None = None,
                    scale_b: torch.Tensor | None = None, bias: torch.Tensor | None = None, activation: str = "none",
                    out_dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:  # fmt: skip
    """``act(a b^T * scale_a[row] * scale_b[column] + bias)`` with a shuffled weight.

    Args:
        a: (..., K) of fp8, int8, f16 or bf16.
        b: (N, K) of the same dtype, made by ``shuffle_weight`` (its tag is checked); or for int8 activations
            ``pack_int4(shuffle_weight(w))`` of int8 values -8..7, which is uint8 (N, K/2).
        scale_a, scale_b: f32 (rows,), (N,); for 8-bit data only.
        bias: (N,), any float dtype.
        activation: ``"none"``, ``"relu"``, ``"silu"`` or ``"gelu"``; the last three need a bias.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: the weight is not shuffled, or a shape is not supported.
    """
    where = "preshuffle_gemm"
    int4 = layout_of(b) == B_16X16_INT4
    check_layout(b, B_16X16_INT4 if int4 else B_16X16, where)
    dtype = dtype_name(a, where, tuple(_IN))
    if int4 and dtype != "i8":
        raise TypeError(f"{where}: int4 weights need int8 activations, got {a.dtype}")
    if b.dtype != a.dtype and not int4:
        raise TypeError(f"{where}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if dtype == "fp8" and a.dtype != _dtype(a, "fp8"):
        raise TypeError(f"{where}: {target().arch} computes with {_dtype(a, 'fp8')}, got {a.dtype}")
    if out_dtype not in _OUT:
        raise TypeError(f"{where}: out_dtype must be bfloat16 or float16, got {out_dtype}")
    n, k = b.shape[0], b.shape[1] * (2 if int4 else 1)
    rows = _matrix(a, k, where)
    m = rows.shape[0]
    scaled = a.element_size() == 1
    for name, scale, size in (("scale_a", scale_a, m), ("scale_b", scale_b, n)):
        if scaled and (scale is None or scale.numel() != size or scale.dtype != torch.float32):
            raise ValueError(f"{where}: {name} must be f32 with {size} elements for {a.dtype}")
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"{where}: bias must have shape {(n,)}, got {tuple(bias.shape)}")
    epilogue = "bias" if bias is not None and activation == "none" else activation
    if activation != "none":
        epilogue = f"bias_{activation}"
        if bias is None:
            bias = torch.zeros(n, dtype=torch.float32, device=a.device)
    if epilogue not in ACTIVATIONS:
        raise ValueError(f"{where}: activation must be none, relu, silu or gelu, got {activation!r}")
    out = a.new_empty((m, n), dtype=out_dtype)
    if m and n:
        tile = default_tiles(m, n, k, 0.5 if int4 else a.element_size())
        kind = "int4" if int4 else _IN[dtype]
        run = compile_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, in_dtype=kind,
                                      out_dtype=_OUT[out_dtype], epilogue=epilogue, use_async_copy=tile.direct,
                                      xcd_swizzle=tile.group)  # fmt: skip
        unused = out.view(-1)
        launch(run, a, unused, _bytes(rows).view(-1), _bytes(b).view(-1),
               *(unused if s is None or not scaled else s.contiguous().view(-1) for s in (scale_a, scale_b)),
               unused if bias is None else bias.contiguous(), m, n)  # fmt: skip
    return out.view(*a.shape[:-1], n)


def blockscale_gemm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                    out_dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:  # fmt: skip
    """fp8 GEMM with a scale per (row, 128 k) of a and per (128 columns, 128 k) of b.

    Args:
        a: (M, K) fp8; K a multiple of 128.
        b: (N, K) fp8, made by ``shuffle_weight``.
        scale_a: f32 (K/128, M), as ``quantize_per_group(..., transposed_scale=True)`` gives it.
        scale_b: f32 (ceil(N/128), K/128).
    """
    where = "blockscale_gemm"
    check_layout(b, B_16X16, where)
    if a.dtype != _dtype(a, "fp8") or b.dtype != a.dtype:
        raise TypeError(f"{where}: operands must be {_dtype(a, 'fp8')}, got {a.dtype} and {b.dtype}")
    n, k = b.shape
    rows = _matrix(a, k, where)
    m = rows.shape[0]
    for name, scale, shape in (("scale_a", scale_a, (k // 128, m)), ("scale_b", scale_b, (-(-n // 128), k // 128))):
        if tuple(scale.shape) != shape or scale.dtype != torch.float32:
            raise ValueError(f"{where}: {name} must be f32 of shape {shape}, got {scale.dtype} {tuple(scale.shape)}")
    if out_dtype not in _OUT:
        raise TypeError(f"{where}: out_dtype must be bfloat16 or float16, got {out_dtype}")
    out = a.new_empty((m, n), dtype=out_dtype)
    if m:
        found = _on_cdna(where)
        tile = choose(BLOCK_SCALE[found.arch], where, found, m, n, k)
        run = compile_blockscale_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k,
                                                 out_dtype=_OUT[out_dtype])  # fmt: skip
        launch(run, a, out.view(-1), _bytes(rows).view(-1), _bytes(b).view(-1), scale_a.contiguous().view(-1),
               scale_b.contiguous().view(-1), m, n)  # fmt: skip
    return out.view(*a.shape[:-1], n)


# ------------------------------------------------------------------------------------------- 16-bit


def gemm(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, layout: str = "nt",
         out_dtype: torch.dtype | None = None) -> torch.Tensor:  # fmt: skip
    """``op(a) op(b) + bias`` of f16 or bf16 matrices; see :func:`gemm_a16w16`."""
    if out_dtype not in (None, a.dtype, torch.float32):
        raise TypeError(f"gemm: out_dtype must be {a.dtype} or torch.float32, got {out_dtype}")
    if layout in LAYOUTS and a.dim() == b.dim() == 2 and 0 == a.shape[layout[0] == "n"] == b.shape[layout[1] == "t"]:
        # A sum over nothing, as in the gradient of a weight without rows.
        out = a.new_zeros((a.shape[layout[0] == "t"], b.shape[layout[1] == "n"]), dtype=out_dtype)
        return out if bias is None else out + bias.to(out.dtype)
    return gemm_a16w16(a, b, None, bias, layout=layout, out_dtype=out_dtype)


def in_order(weight: torch.Tensor, order: str, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """``make(weight)``, made once for each content of the tensor and each name of an order.

    It is made again when the tensor was changed in place (its version counter moved) or its storage was replaced, and
    dropped when the tensor is gone. A change through ``weight.data`` does not move the counter: call
    :func:`clear_preshuffle_cache` after one.
    """
    if weight.is_inference():  # no version counter to trust
        return make(weight.detach())
    key = id(weight), order
    state = (weight._version, weight.data_ptr(), tuple(weight.shape), weight.stride(), weight.dtype)
    found = _shuffled.get(key)
    if found is not None and found[0]() is weight and found[1] == state:
        return found[2]
    made = make(weight.detach().contiguous())
    _shuffled[key] = (weakref.ref(weight, lambda _: _shuffled.pop(key, None)), state, made)
    return made


def preshuffled(weight: torch.Tensor) -> torch.Tensor:
    """The shuffled form of a weight, kept by :func:`in_order`; a shuffled weight as it is."""
    return weight if layout_of(weight) is not None else in_order(weight, B_16X16, shuffle_weight)


def clear_preshuffle_cache() -> None:
    """Forget all shuffled weights."""
    _shuffled.clear()


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *,
           shuffle: bool = False) -> torch.Tensor:  # fmt: skip
    """``x weight^T + bias`` for f16 or bf16 x (..., K) and weight (N, K).

    Args:
        shuffle: use the preshuffle GEMM with a shuffled copy of the weight that is kept (:func:`preshuffled`); for
            inference, where the architecture and the size allow it.
    """
    n, k = weight.shape
    rows = _matrix(x, k, "linear")
    dtype_name(x, "linear", ("f16", "bf16"))
    if shuffle and takes_preshuffled(n, k, 2) and x.dtype in _OUT:
        return preshuffle_gemm(x, preshuffled(weight), None, None, bias, "none", x.dtype)
    return gemm_a16w16(rows, weight, None, bias).view(*x.shape[:-1], n)
