"""Quantisation of arrays: fresh arrays out. fp8 results need torch tensors, as do bf16 scales."""

from __future__ import annotations

import math
from typing import Any

from ..common.arrays import as_rows, contiguous, empty, is_torch, launch, zeros
from ..common.dtypes import dtype_name
from . import builders as b
from .kernels import GROUP

__all__ = [
    "dequantize", "dequantize_int4", "dequantize_mx", "pack_int4", "quantize_int4", "quantize_mx", "quantize_per_block",
    "quantize_per_group", "quantize_per_tensor", "quantize_per_token", "unpack_int4",
]  # fmt: skip

MX_GROUP = 32
PACKED = ("u8", "i8")


def _matrix(x: Any, where: str, allowed: tuple[str, ...] | None = None) -> tuple[str, Any, int, int]:
    name = dtype_name(x, where) if allowed is None else dtype_name(x, where, allowed)
    rows = as_rows(x, where)
    return name, rows, *rows.shape


def quantize_per_token(x: Any, quant: str = "i8", *, rounding: str = "nearest", stream: Any = None) -> tuple:
    """``(q, scale)``: one f32 scale of shape ``x.shape[:-1]`` a row, ``max|x| / Qmax`` (1 for a zero row).

    Args:
        x: f32, f16 or bf16 of any shape.
        quant: ``"i8"``, ``"i4"`` (a byte each), or ``"fp8"`` in the architecture's variant.
        rounding: of integers, ``"nearest"`` or ``"trunc"``.
    """
    dtype, rows, m, n = _matrix(x, "quantize_per_token")
    q, scale = empty(x, tuple(x.shape), quant), empty(x, tuple(x.shape[:-1]), "f32")
    if 0 not in x.shape:
        run, _ = b.build_quant_module(n, dtype, quant, rounding=rounding)
        launch(run, x, rows, q, scale.reshape(m), m, stream=stream)
    return q, scale


def quantize_per_group(x: Any, quant: str = "fp8", *, transposed_scale: bool = False, stream: Any = None) -> tuple:
    """``(q, scale)`` of a matrix with a scale per row and 128 columns: f32 (m, ceil(n/128)), or its transpose."""
    dtype, rows, m, n = _matrix(x, "quantize_per_group")
    groups = -(-n // GROUP)
    q = empty(x, tuple(x.shape), quant)
    scale = empty(x, (groups, m) if transposed_scale else (m, groups), "f32")
    if m and n:
        run = b.build_per_group_quant_module(n, dtype, quant, transposed_scale=transposed_scale)
        launch(run, x, rows, q, scale, m, stream=stream)
    return q, scale


def quantize_per_block(x: Any, quant: str = "fp8", *, stream: Any = None) -> tuple:
    """``(q, scale)`` of a matrix with a scale per 128 x 128 block: f32 (ceil(m/128), ceil(n/128))."""
    dtype, rows, m, n = _matrix(x, "quantize_per_block")
    q, scale = empty(x, tuple(x.shape), quant), empty(x, (-(-m // GROUP), -(-n // GROUP)), "f32")
    if m and n:
        launch(b.build_per_block_quant_module(n, dtype, quant), x, rows, q, scale, m, stream=stream)
    return q, scale


def quantize_per_tensor(x: Any, scale: Any = None, quant: str = "fp8", *, stream: Any = None) -> tuple:
    """``(q, scale[1])``: by the given f32 scale (one element), or by ``max|x| / Qmax``, 1 if x is zero or empty."""
    where = "quantize_per_tensor"
    dtype, rows, m, n = _matrix(x, where)
    q, dynamic = empty(x, tuple(x.shape), quant), scale is None
    if not dynamic and (math.prod(scale.shape) != 1 or dtype_name(scale, f"{where}: scale") != "f32"):
        raise ValueError(f"{where}: the scale must be one f32, got {scale.dtype} {tuple(scale.shape)}")
    if m and n:
        amax = zeros(x, (1,), "f32")
        given = empty(x, (1,), "f32") if dynamic else scale.reshape(1)
        run = b.build_per_tensor_quant_module(n, dtype, quant, dynamic=dynamic)
        launch(run, x, rows, q, given, amax, m, stream=stream)
    else:
        given = zeros(x, (1,), "f32") + 1 if dynamic else scale.reshape(1)
    # A torch operator may not return its input.
    return q, given if dynamic or not hasattr(given, "clone") else given.clone()


GRANULARITIES = ("tensor", "token", "group", "block")


def _granularity(q: Any, scale: Any, m: int, n: int, wanted: str) -> dict[str, Any]:
    """Arguments of the builder for scales of this shape.

    Raises:
        ValueError: no granularity, or more than one that differ, has scales of this shape.
    """
    where, shape, outer = "dequantize", tuple(scale.shape), tuple(q.shape[:-1])
    groups = -(-n // GROUP)
    shapes: dict[str, tuple[bool, dict[str, Any]]] = {
        "tensor": (math.prod(shape) == 1, {"per_tensor": True}),
        "token": (shape in (outer, (*outer, 1), (m,), (m, 1)), {}),
        "group": (shape == (m, groups), {"group": GROUP}),
        "block": (shape == (-(-m // GROUP), groups), {"group": GROUP, "block_rows": GROUP}),
    }
    if wanted and wanted not in shapes:
        raise ValueError(f"{where}: granularity must be one of {', '.join(GRANULARITIES)}, got {wanted!r}")
    fitting = [name for name, (fits, _) in shapes.items() if fits and wanted in ("", name)]
    if "tensor" in fitting or (set(fitting) == {"token", "group"} and groups == 1):
        fitting = fitting[:1]
    if set(fitting) == {"group", "block"} and m == 1:
        fitting = ["group"]
    if len(fitting) == 1:
        return shapes[fitting[0]][1]
    if fitting:
        raise ValueError(f"{where}: scales of shape {shape} can be those of {' or '.join(fitting)} here; say which "
                         f"with granularity=")  # fmt: skip
    if not wanted and len(shape) == 2 and shape[0] == m and shape[1] and n % shape[1] == 0:
        return {"group": n // shape[1]}
    raise ValueError(f"{where}: scales of shape {shape} do not fit a matrix of {m} x {n}"
                     + (f" with one for every {wanted}" if wanted else ""))  # fmt: skip


def dequantize(q: Any, scale: Any, dtype: str = "f32", granularity: str = "", *, stream: Any = None) -> Any:
    """``q * scale`` in `dtype`, of int8 or fp8 in the architecture's variant.

    Args:
        q: (..., n), m rows in all.
        scale: f32: one element (tensor); one a row, ``q.shape[:-1]`` (token); one a row and 128 columns
            (m, ceil(n/128)) (group); one a block of 128 x 128, (ceil(m/128), ceil(n/128)) (block); or (m, g) for g
            equal groups of columns.
        dtype: ``"f32"``, ``"f16"`` or ``"bf16"``.
        granularity: ``"tensor"``, ``"token"``, ``"group"`` or ``"block"``; found from the shape if empty.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: the scales do not fit, or their shape fits more than one granularity.
    """
    quant, rows, m, n = _matrix(q, "dequantize", ("i8", "fp8"))
    if quant == "fp8":
        _check_fp8(q, "dequantize")
    if dtype_name(scale, "dequantize: scale") != "f32":
        raise TypeError(f"dequantize: scales must be f32, got {scale.dtype}")
    out = empty(q, tuple(q.shape), dtype)
    if m and n:
        run = b.build_dequant_module(n, dtype, quant, **_granularity(q, scale, m, n, granularity))
        launch(run, q, rows, contiguous(scale).reshape(math.prod(scale.shape)), out, m, stream=stream)
    return out


def _check_fp8(q: Any, where: str) -> None:
    native = empty(q, (0,), "fp8").dtype
    if q.dtype != native:
        raise TypeError(f"{where}: the architecture's fp8 is {native}, got {q.dtype}")


# ------------------------------------------------------------------------------------------- packed formats


def _group_of(group: int, n: int) -> int:
    return min(group, n) or max(n, 1)


def quantize_int4(x: Any, group: int = 32, *, transposed_scale: bool = False, scale_dtype: str = "f32",
                  rounding: str = "nearest", stream: Any = None) -> tuple:  # fmt: skip
    """``(packed, scale)``: int4 with a scale per row and `group` columns (0: per row).

    packed is u8 (..., n/2) in the order of :func:`pack_int4`, n a multiple of 8. scale is f32 or bf16
    (m, ceil(n/group)), or (ceil(n/group), m) transposed, of ``max|x| / 7``.
    """
    dtype, rows, m, n = _matrix(x, "quantize_int4")
    run = b.build_int4_quant_module(max(n, 8), dtype, group=group, transposed_scale=transposed_scale,
                                    scale_dtype_str=scale_dtype, rounding=rounding)  # fmt: skip
    groups = -(-n // _group_of(group, n))
    q = empty(x, (*x.shape[:-1], n // 2), "u8")
    scale = empty(x, (groups, m) if transposed_scale else (m, groups), scale_dtype)
    if m and n:
        launch(run, x, rows, q, scale, m, stream=stream)
    return q, scale


def dequantize_int4(packed: Any, scale: Any, group: int = 32, dtype: str = "f32", *, transposed_scale: bool = False,
                    stream: Any = None) -> Any:  # fmt: skip
    """Values (..., n) in `dtype` of :func:`quantize_int4`'s result."""
    where = "dequantize_int4"
    _, rows, m, half = _matrix(packed, where, PACKED)
    n, scale_dtype = 2 * half, dtype_name(scale, f"{where}: scale")
    groups = -(-n // _group_of(group, n))
    expected = (groups, m) if transposed_scale else (m, groups)
    if tuple(scale.shape) != expected:
        raise ValueError(f"{where}: scales of shape {expected} are needed, got {tuple(scale.shape)}")
    run = b.build_int4_dequant_module(max(n, 8), dtype, group=group, transposed_scale=transposed_scale,
                                      scale_dtype_str=scale_dtype)  # fmt: skip
    out = empty(packed, (*packed.shape[:-1], n), dtype)
    if m and n:
        launch(run, packed, rows, contiguous(scale), out, m, stream=stream)
    return out


def pack_int4(values: Any, *, stream: Any = None) -> Any:
    """int8 values -8..7 (..., n) as u8 (..., n/2): of eight, byte j holds j in its low half and j + 4 in its high."""
    _, rows, m, n = _matrix(values, "pack_int4", ("i8",))
    run = b.build_int4_pack_module(max(n, 8))
    out = empty(values, (*values.shape[:-1], n // 2), "u8")
    if m and n:
        launch(run, values, rows, out, m, stream=stream)
    if is_torch(values):
        from ..gemm.layouts import tag_packed

        return tag_packed(out, values)
    return out


def unpack_int4(packed: Any, *, stream: Any = None) -> Any:
    """The int8 values (..., n) of packed bytes (..., n/2)."""
    _, rows, m, half = _matrix(packed, "unpack_int4", PACKED)
    run = b.build_int4_unpack_module(max(2 * half, 8))
    out = empty(packed, (*packed.shape[:-1], 2 * half), "i8")
    if m and half:
        launch(run, packed, rows, out, m, stream=stream)
    return out


def quantize_mx(x: Any, mode: str = "fp4", *, stream: Any = None) -> tuple:
    """``(bytes, scale)`` of bf16 (..., n) on gfx950: packed e2m1 (..., n/2) or e4m3fn (..., n), e8m0 (..., n/32)."""
    from .mx import THREADS, build_per_1x32_mx_quant_module

    _, rows, m, n = _matrix(x, "quantize_mx", ("bf16",))
    run = build_per_1x32_mx_quant_module(n or MX_GROUP, mode)
    q = empty(x, (*x.shape[:-1], n // 2 if mode == "fp4" else n), "u8")
    scale = empty(x, (*x.shape[:-1], n // MX_GROUP), "u8")
    if m and n:
        launch(run, x, rows, q, scale, m, -(-m * n // MX_GROUP // THREADS), stream=stream)
    return q, scale


def dequantize_mx(q: Any, scale: Any, mode: str = "fp4", dtype: str = "bf16", *, stream: Any = None) -> Any:
    """Values (..., n) in `dtype` of microscaled bytes (packed e2m1 (..., n/2) or e4m3fn (..., n)) with e8m0 scales."""
    where = "dequantize_mx"
    if hasattr(q, "view") and dtype_name(q, where, PACKED + ("fp8", "float4_e2m1fn_x2")) not in PACKED:
        q = q.view(scale.dtype)  # bytes
    _, rows, m, width = _matrix(q, where, PACKED)
    n = width * (2 if mode == "fp4" else 1)
    if tuple(scale.shape) != (*q.shape[:-1], n // MX_GROUP) or dtype_name(scale, where, PACKED) not in PACKED:
        raise ValueError(f"{where}: scales must be bytes of shape {(*q.shape[:-1], n // MX_GROUP)}, got {scale.dtype} "
                         f"{tuple(scale.shape)}")  # fmt: skip
    run = b.build_mx_dequant_module(n or MX_GROUP, mode, dtype)
    out = empty(q, (*q.shape[:-1], n), dtype)
    if m and n:
        launch(run, q, rows, contiguous(scale).reshape(math.prod(scale.shape)), out, m, stream=stream)
    return out
