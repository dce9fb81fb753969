"""Quantisation under the names and with the arguments of existing callers (torch tensors)."""

from __future__ import annotations

from typing import Any

from .op import QUANTIZE_MX

__all__ = ["per_1x32_mx_quant"]


def per_1x32_mx_quant(x: Any, quant_mode: str = "fp4", stream: Any = None) -> tuple[Any, Any]:
    """``(y, scale)`` of a bf16 torch tensor (..., n): packed fp4 (..., n/2) or e4m3fn (..., n), and u8 (..., n/32)."""
    import torch

    y, scale = QUANTIZE_MX.run(x, quant_mode, stream=stream)
    return y.view(torch.float4_e2m1fn_x2 if quant_mode == "fp4" else torch.float8_e4m3fn), scale
