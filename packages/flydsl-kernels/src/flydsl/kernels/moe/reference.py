"""What quantised experts multiply, in f64: values of weights, and of rows once they are quantised. torch only."""

from __future__ import annotations

from typing import Any

import torch

from ..parts.index import align_up
from ..quant.reference import e8m0_ceil, e8m0_to_f32, f32_to_mxfp4, mxfp4_to_f32, pack_fp4, unpack_int4
from .config import FORMATS

__all__ = ["row_values", "sample_weight", "weight_values"]

SMALLEST = 1e-10  # of the largest magnitude of 32 values that share a scale


def _repeated(scale: torch.Tensor, k: int, *dims: int) -> torch.Tensor:
    """Scales of `k` elements each along some dimensions."""
    for dim in dims:
        scale = scale.repeat_interleave(k, dim)
    return scale


def weight_values(codes: torch.Tensor, scale: Any, quant: str) -> torch.Tensor:
    """The values (E, rows, k) of weights in the format `quant` of ``ops.moe``."""
    kind = FORMATS[quant]
    if quant == "none":
        return codes.double()
    values = mxfp4_to_f32(codes) if kind.b == "fp4" else unpack_int4(codes) if kind.b == "i4" else codes
    factor = (e8m0_to_f32(scale) if scale.dtype == torch.uint8 else scale).double()
    rows, k = values.shape[1:]
    if kind.scales == "rows":
        return values.double() * factor[..., None]
    dims = (1, 2) if kind.scales == "blocks" else (2,)
    return values.double() * _repeated(factor, kind.scale_k or 1, *dims)[:, :rows, :k]


def row_values(x: torch.Tensor, codes: torch.Tensor, quant: str) -> torch.Tensor:
    """The values of rows of f16 or bf16 as they are multiplied with `codes`, weights of the format `quant`."""
    kind, k, fp8 = FORMATS[quant], x.shape[-1], torch.float8_e4m3fn
    if kind.a is None:
        return x.double()
    if kind.a == "fp8" and kind.b is None:  # the architecture's own
        fp8 = codes.dtype
    group = kind.scale_k or k
    groups = torch.nn.functional.pad(x.float(), (0, align_up(k, group) - k)).unflatten(-1, (-1, group))
    top = groups.abs().amax(-1, keepdim=True)
    if kind.scales == "micro":
        unit = e8m0_to_f32(e8m0_ceil(top.clamp_min(SMALLEST), kind.a))
    else:
        unit = torch.where(top == 0, 1.0, top / (127 if kind.a == "i8" else torch.finfo(fp8).max))
    y = groups / unit
    if kind.a == "fp4":
        y = mxfp4_to_f32(pack_fp4(f32_to_mxfp4(y)))
    else:
        y = y.round() if kind.a == "i8" else y.to(fp8)
    return (y.double() * unit.double()).flatten(-2)[..., :k]


def sample_weight(draw: Any, quant: str, experts: int, rows: int, k: int, dtype: str) -> tuple[Any, Any]:
    """(codes, scales) of weights whose products with rows of standard normal values are about as large as these; the
    scales are None of ``"none"``, whose weights are of `dtype`."""
    kind, size = FORMATS[quant], k**-0.5
    if quant == "none":
        return draw.normal(experts, rows, k, dtype=dtype, scale=size), None
    shape = kind.scale_shape(experts, rows, k)
    if kind.b == "fp4":
        return draw.integers(0, 256, experts, rows, k // 2), draw.integers(121, 126, *shape)
    if kind.b == "i4":
        return draw.integers(0, 256, experts, rows, k // 2), draw.positive(*shape) * (size / 4)
    codes, unit = draw.normal(experts, rows, k, dtype=kind.a), size / 20 if kind.a == "i8" else size
    return codes, draw.positive(*shape) * unit
