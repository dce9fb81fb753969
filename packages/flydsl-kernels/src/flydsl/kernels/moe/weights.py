"""Weights, scales and biases of experts in the order of the grouped product: made once, and kept while they live.

torch on the host. In memory, gate rows stand before up rows, or alternate with them (`interleaved`).
"""

from __future__ import annotations

from typing import Any

from ..host.arrays import array_dtype, contiguous, flattened
from ..host.config import require
from ..host.dtypes import SCALES, dtype_name
from ..host.weights import in_order
from ..parts.index import align_up
from .config import GroupedConfig

__all__ = ["of_rows", "ordered", "scales_of", "weight_dtype"]

PACKED = ("u8", "i8", "float4_e2m1fn_x2")
GROUP_SCALES = {"i4": ("bf16", "f16", "f32"), "fp4": ("u8", "float8_e8m0fnu")}


def weight_dtype(weight: Any, config: GroupedConfig, where: str) -> None:
    """TypeError unless a weight has a dtype of the format, fp8 that of the architecture."""
    kind = config.format
    name = dtype_name(weight, where, PACKED if kind.b else (kind.a or config.dtype,))
    if name == "fp8" and weight.dtype != (native := array_dtype(config.target, weight, "fp8")):
        raise TypeError(f"{where}: {config.target.name} computes with {native}, got {weight.dtype}")


def _halves(array: Any, config: GroupedConfig, interleaved: bool) -> list[Any]:
    """The rows of gate and of up (or all) of (E, rows, ...)."""
    return [array[:, s :: config.streams] if interleaved else array[:, s * config.n : (s + 1) * config.n]
            for s in range(config.streams)]


def _padded(array: Any, config: GroupedConfig, interleaved: bool, columns: int) -> Any:
    """Rows of gate and up each padded to whole strips of 16, and columns, with zeros: (E, strips, 16, columns)."""
    rows = align_up(config.n, 16)
    out = array.new_zeros((array.shape[0], config.streams * rows, columns))
    for s, half in enumerate(_halves(array, config, interleaved)):
        out[:, s * rows : s * rows + config.n, : array.shape[2]] = half
    whole = out.unflatten(1, (-1, 16))
    pairs = config.streams == 2 and config.strips == "pairs"
    return whole.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2) if pairs else whole


def ordered(weight: Any, config: GroupedConfig, interleaved: bool = False) -> Any:
    """Weights (E, rows, k) or (rows, k), packed ones k/2 bytes, as i32: of 16 rows, what a lane loads together."""

    def make(w: Any) -> Any:
        import torch

        unit, w = 4 * config.load_words, w if w.dim() == 3 else w[None]
        whole = _padded(w.view(torch.uint8), config, interleaved, config.strip_words // 4)
        return flattened(whole.unflatten(3, (-1, unit)).transpose(2, 3).contiguous().view(torch.int32))

    key = f"{config.quant} {config.n} {config.streams} {config.strips} {interleaved} {config.strip_words}"
    return in_order(weight, f"moe {key}", make)


def of_rows(values: Any, config: GroupedConfig, interleaved: bool) -> Any:
    """Biases or scales (E, rows) as f32, gate before up, of which an expert may have a single one; None stays."""

    def make(v: Any) -> Any:
        import torch

        every = v.float().reshape(v.shape[0], -1).expand(-1, config.n * config.streams)
        return torch.cat(_halves(every, config, interleaved), 1)

    return None if values is None else in_order(values, f"moe rows {config.streams} {interleaved}", make)


def _grouped(scale: Any, config: GroupedConfig, interleaved: bool) -> Any:
    each = 4 if config.format.scales == "micro" else 1  # that a lane loads together

    def make(s: Any) -> Any:
        import torch

        s = s.view(torch.uint8) if s.element_size() == 1 else s
        columns = align_up(config.scales_k, config.scale_unit)
        whole = _padded(s, config, interleaved, columns)
        if config.w_scales == "words":
            whole = whole.unflatten(1, (-1, 2)).unflatten(4, (-1, 2, 4))  # (E, 32 rows, half, 16, 256 k, half, 4)
            return flattened(whole.permute(0, 1, 4, 6, 3, 5, 2))
        return flattened(whole.unflatten(3, (-1, each)).transpose(2, 3))

    key = f"{each} {config.n} {config.streams} {config.strips} {interleaved} {config.scales_k} {config.w_scales}"
    return in_order(scale, f"moe groups {key}", make)


def scales_of(scale: Any, experts: int, config: GroupedConfig, interleaved: bool, where: str) -> Any:
    """The scales of a weight, checked, in the order of the kernel; None if the format has none.

    Raises:
        TypeError: the dtype is not one of the format.
        ValueError: there are none, or there should be none, or the shape is not that of the format.
    """
    kind, rows = config.format.scales, config.n * config.streams
    require(where, (scale is None) == (kind is None),
            f"scales are needed for quant={config.quant!r}" if scale is None else "without quant there are no scales")
    if scale is None:
        return None
    shape = config.format.scale_shape(experts, rows, config.k)
    # Of rows there may be one an expert, of either kind with dimensions of 1 behind: of_rows() makes them one a row.
    shapes = [shape, (experts,)] if kind == "rows" else [shape]
    taken = {(*s, *(1,) * more) for s in shapes for more in range(3 - len(s) + 1)} if kind == "rows" else {shape}
    require(where, tuple(scale.shape) in taken,
            f"must have shape {' or '.join(map(str, shapes))}, got {tuple(scale.shape)}")
    if kind in ("groups", "micro"):
        dtype_name(scale, where, GROUP_SCALES[config.format.b or ""])
        return _grouped(scale, config, interleaved)
    name = dtype_name(scale, where, SCALES)
    if kind == "blocks":
        require(where, not interleaved, "blocks of 128 rows have one scale: gate and up rows cannot alternate")
        return contiguous(scale) if name == "f32" else in_order(scale, "f32", lambda s: s.float())
    return of_rows(scale, config, interleaved)
