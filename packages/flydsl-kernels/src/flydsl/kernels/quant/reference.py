"""Quantisers in torch: the reference of the device kernels and the producers of test data.

Formulas follow the OCP microscaling formats; which rounding of a scale applies is stated at each function.
"""

from __future__ import annotations

from typing import Any

import torch

from ..host.layouts import tag_packed

__all__ = [
    "FP4_VALUES", "dynamic_mxfp4_quant", "e8m0_ceil", "e8m0_to_f32", "f32_to_e8m0", "f32_to_mxfp4",
    "fp8_e4m3_to_f32", "fp8_quantize_per_channel", "fp8_quantize_per_token", "moe_mxfp4_sort", "mxfp4_to_f32",
    "pack_fp4", "pack_int4",
    "per_1x32_f4_quant", "per_1x32_f6_quant", "per_1x32_f8_quant", "pertoken_quant", "random_e8m0", "unpack_fp4",
    "unpack_int4",
]

MX_BLOCK = 32
FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# 1/6 and 1/448 as the device rounds them.
_RECIPROCAL_BITS = {"fp4": 0x3E2AAAAB, "fp8": 0x3B124925}


def pertoken_quant(x: torch.Tensor, scale: torch.Tensor | None = None, x_scale: torch.Tensor | None = None,
                   scale_dtype: torch.dtype = torch.float32, quant_dtype: torch.dtype = torch.int8,
                   dtypeMax: float | None = None) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: N803
    """Quantise rows: ``(q, scale)`` with scale of shape (..., 1), ``max|x| / dtypeMax`` (1 for a zero row) unless
    given.

    Args:
        x: any shape, rows are the last dimension.
        scale: scale to use.
        x_scale: multiplied into x first (smooth quantisation).
        quant_dtype: int8 or an fp8 dtype. The cast rounds as torch casts do: toward zero for int8.
        dtypeMax: largest magnitude; by default that of `quant_dtype`.
    """
    x = x.to(torch.float32)
    if x_scale is not None:
        x = x * x_scale
    if dtypeMax is None:
        info = torch.finfo(quant_dtype) if quant_dtype.is_floating_point else torch.iinfo(quant_dtype)
        dtypeMax = float(info.max)  # noqa: N806
    if scale is None:
        scale = x.abs().amax(-1, keepdim=True) / dtypeMax
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return (x / scale).to(quant_dtype), scale.to(scale_dtype)


def fp8_quantize_per_token(x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[Any, Any]:
    """``(q, scale[rows])`` of a matrix, one scale a row."""
    q, scale = pertoken_quant(x, quant_dtype=dtype)
    return q, scale.squeeze(-1)


def fp8_quantize_per_channel(w: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[Any, Any]:
    """``(q, scale[n])`` of a weight (n, k): ``scale = max(max|w|, 1e-12) / Qmax``."""
    limit = torch.finfo(dtype).max
    scale = w.float().abs().amax(-1).clamp_min(1e-12) / limit
    return (w.float() / scale[:, None]).clamp(-limit, limit).to(dtype), scale


def fp8_e4m3_to_f32(x: torch.Tensor) -> torch.Tensor:
    """f32 values of an fp8 tensor, or of bytes in the e4m3fn encoding."""
    return (x.view(torch.float8_e4m3fn) if x.dtype in (torch.uint8, torch.int8) else x).to(torch.float32)


# ------------------------------------------------------------------------------------------- e8m0


def f32_to_e8m0(x: torch.Tensor) -> torch.Tensor:
    """e8m0 bytes of positive values: the exponent, rounded up from mantissa 1.5 (1.5 itself in normal numbers only)."""
    bits = x.to(torch.float32).contiguous().view(torch.int32)
    exponent = (bits >> 23) & 0xFF
    up = ((bits & 0x400000) != 0) & (((bits & 0x3FFFFF) != 0) | (exponent != 0))
    rounded = torch.where(exponent == 0xFF, exponent, exponent + up.to(torch.int32))
    return rounded.to(torch.uint8)


def e8m0_ceil(amax: torch.Tensor, mode: str) -> torch.Tensor:
    """e8m0 bytes of the device quantiser: ``amax * (1/Qmax)`` rounded up to a power of two.

    Args:
        amax: positive magnitudes.
        mode: ``"fp4"`` (Qmax 6) or ``"fp8"`` (Qmax 448).
    """
    reciprocal = torch.tensor(_RECIPROCAL_BITS[mode], dtype=torch.int32).view(torch.float32)
    bits = (amax.to(torch.float32) * reciprocal).view(torch.int32)
    exponent = ((bits >> 23) & 0xFF) + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    return exponent.clamp_max(255).to(torch.uint8)


def e8m0_to_f32(x: torch.Tensor) -> torch.Tensor:
    """``2**(b - 127)`` of each byte; 255 is NaN."""
    bits = x.view(torch.uint8).to(torch.int32)
    value = torch.ldexp(torch.ones_like(bits, dtype=torch.float64), bits - 127).to(torch.float32)
    return torch.where(bits == 255, torch.full_like(value, float("nan")), value)


def random_e8m0(shape: tuple[int, ...], low: int = 124, high: int = 130,
                generator: torch.Generator | None = None) -> torch.Tensor:
    """Random scale bytes in ``[low, high)``."""
    return torch.randint(low, high, shape, dtype=torch.uint8, generator=generator)


# ------------------------------------------------------------------------------------------- fp4, fp6


def _nearest_code(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Index of the nearest of the ascending `values`, ties to the even index, saturating."""
    magnitude = x.abs().to(torch.float64)
    middle = (values[1:] + values[:-1]) / 2
    code = torch.bucketize(magnitude, middle, right=True)
    tie = (code > 0) & (magnitude == middle[(code - 1).clamp_min(0)]) & (code % 2 == 1)
    return code - tie.to(code.dtype)


def f32_to_mxfp4(x: torch.Tensor) -> torch.Tensor:
    """e2m1 codes, one a byte (0..15): nearest, ties to even, saturating at 6."""
    values = torch.tensor(FP4_VALUES, dtype=torch.float64, device=x.device)
    return (_nearest_code(x, values) | (torch.signbit(x).to(torch.int64) << 3)).to(torch.uint8)


def mxfp4_to_f32(x: torch.Tensor) -> torch.Tensor:
    """f32 values of packed e2m1 bytes: the last dimension doubles."""
    codes = unpack_fp4(x).to(torch.int64)
    table = torch.tensor([*FP4_VALUES, *(-v for v in FP4_VALUES)], dtype=torch.float32, device=x.device)
    return table[codes]


def pack_fp4(codes: torch.Tensor) -> torch.Tensor:
    """Two 4-bit codes a byte, the first in the low half."""
    codes = codes.to(torch.uint8)
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_fp4(packed: torch.Tensor) -> torch.Tensor:
    """One 4-bit code a byte, from bytes that hold two."""
    packed = packed.view(torch.uint8)
    return torch.stack((packed & 0xF, packed >> 4), -1).flatten(-2)


def _grouped(x: torch.Tensor) -> torch.Tensor:
    if x.shape[-1] % MX_BLOCK:
        raise ValueError(f"the last dimension must be a multiple of {MX_BLOCK}, got {x.shape[-1]}")
    return x.to(torch.float32).unflatten(-1, (-1, MX_BLOCK))


def per_1x32_f4_quant(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """MX fp4: packed codes (..., n/2) and e8m0 scales (..., n/32) of ``f32_to_e8m0(amax / 4)``."""
    groups = _grouped(x)
    scale = f32_to_e8m0(groups.abs().amax(-1) / 4.0)
    return pack_fp4(f32_to_mxfp4(groups / e8m0_to_f32(scale)[..., None]).flatten(-2)), scale


dynamic_mxfp4_quant = per_1x32_f4_quant


def per_1x32_f6_quant(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """MX fp6 e2m3: 6-bit codes packed into the first 24 of every 32 bytes (..., n), scales of ``amax / 4``."""
    groups = _grouped(x)
    scale = f32_to_e8m0(groups.abs().amax(-1) / 4.0)
    scaled = groups / e8m0_to_f32(scale)[..., None]
    table = [m / 8.0 for m in range(8)] + [(1 + m / 8.0) * 2.0**e for e in range(3) for m in range(8)]
    codes = _nearest_code(scaled, torch.tensor(table, dtype=torch.float64, device=x.device))
    codes = codes | (torch.signbit(scaled).to(torch.int64) << 5)
    four = codes.unflatten(-1, (-1, 4))
    word = four[..., 0] | four[..., 1] << 6 | four[..., 2] << 12 | four[..., 3] << 18
    data = torch.stack([(word >> s) & 0xFF for s in (0, 8, 16)], -1).flatten(-2).to(torch.uint8)
    return torch.nn.functional.pad(data, (0, 8)).flatten(-2), scale


def per_1x32_f8_quant(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """MX fp8 e4m3fn (..., n) and e8m0 scales (..., n/32) of ``f32_to_e8m0(amax / 448)``."""
    groups = _grouped(x)
    scale = f32_to_e8m0(groups.abs().amax(-1) / 448.0)
    scaled = (groups / e8m0_to_f32(scale)[..., None]).clamp(-448.0, 448.0)
    return scaled.flatten(-2).to(torch.float8_e4m3fn), scale


def moe_mxfp4_sort(scale: torch.Tensor, sorted_ids: torch.Tensor, num_valid_ids: torch.Tensor, token_num: int,
                   block_size: int = 32) -> torch.Tensor:
    """Scales (tokens, K/32) gathered by the low 24 bits of sorted_ids, in the order of ``e8m0_shuffle`` (unpadded).

    Rows past ``num_valid_ids[0]``, rounded up to `block_size`, are zero.
    """
    tokens = (sorted_ids.long() & 0xFFFFFF).clamp_max(token_num - 1)
    rows = -(-tokens.shape[0] // block_size) * block_size
    gathered = torch.zeros(rows, scale.shape[1], dtype=torch.uint8, device=scale.device)
    gathered[: tokens.shape[0]] = scale.view(torch.uint8)[tokens]
    gathered[-(-int(num_valid_ids[0]) // block_size) * block_size :] = 0
    view = gathered.view(rows // 32, 2, 16, scale.shape[1] // 8, 2, 4).permute(0, 3, 5, 2, 4, 1)
    return view.contiguous().view(rows, scale.shape[1])


# ------------------------------------------------------------------------------------------- int4


def pack_int4(values: torch.Tensor) -> torch.Tensor:
    """Signed values -8..7 in the order of the int4 kernels: of eight, byte j holds j (low half) and j + 4.

    Args:
        values: int8 (..., n), n a multiple of 8.

    Returns:
        uint8 (..., n/2), tagged as a weight if `values` are one of ``shuffle_weight``.
    """
    if values.shape[-1] % 8:
        raise ValueError(f"the last dimension must be a multiple of 8, got {values.shape[-1]}")
    eight = values.to(torch.int16).unflatten(-1, (-1, 8)) & 0xF
    return tag_packed((eight[..., :4] | (eight[..., 4:] << 4)).flatten(-2).to(torch.uint8), values)


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """The int8 values (..., n) of :func:`pack_int4`'s bytes (..., n/2)."""
    four = packed.view(torch.uint8).to(torch.int16).unflatten(-1, (-1, 4))
    eight = torch.cat((four & 0xF, four >> 4), -1)
    return ((eight ^ 8) - 8).flatten(-2).to(torch.int8)
