"""Builders of quantisation kernels. Matrices are row-major; a scale multiplies the stored values.

A launch with ``m_in = 0`` does nothing.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import dataclasses
import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import require_dense
from ..host.dtypes import FLOATS, float_dtype
from ..parts.convert import PER_WORD, ROUNDINGS
from ..parts.rows import fits_registers, launch_rows
from ..target import Target, builder
from .groups import plan_groups
from .kernels import (
    GROUP,
    QuantConfig,
    amax_kernel,
    block_quant_kernel,
    group_dequant_kernel,
    group_quant_kernel,
    pack_int4_kernel,
    tensor_quant_kernel,
    unpack_int4_kernel,
)

__all__ = [
    "build_dequant_module", "build_int4_dequant_module", "build_int4_pack_module", "build_int4_quant_module",
    "build_int4_unpack_module", "build_mx_dequant_module", "build_per_block_quant_module",
    "build_per_group_quant_module", "build_per_tensor_quant_module", "build_quant_module",
]

BLOCK_THREADS = 256
MX_GROUP = 32
SCALES = ("f32", "bf16")


def _columns(where: str, n: Any, multiple: int = 1) -> None:
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"{where}: N must be a positive int, got {n!r}")
    if n % multiple:
        raise ValueError(f"{where}: N must be a multiple of {multiple}, got {n}")


def _check(where: str, target: Target, n: int, dtype: str, quant: str, rounding: str = "nearest") -> None:
    _columns(where, n)
    float_dtype(dtype, where)
    if quant not in ("i8", "i4", "fp8"):
        raise ValueError(f"{where}: quant_dtype_str must be 'i8' or 'fp8' (or 'i4'), got {quant!r}")
    if quant == "fp8":
        target.require_fp8(where)
    if rounding not in ROUNDINGS:
        raise ValueError(f"{where}: rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")


def _check_group(where: str, n: int, group: int, scale: str) -> int:
    """The group size, with 0 for a whole row."""
    if not isinstance(group, int) or group < 0 or group % PER_WORD["i4"]:
        raise ValueError(f"{where}: group must be a multiple of {PER_WORD['i4']}, or 0 for rows, got {group!r}")
    if scale not in SCALES:
        raise ValueError(f"{where}: scale_dtype_str must be one of {', '.join(SCALES)}, got {scale!r}")
    return min(group, n) or n


def _config(target: Target, n: int, dtype: str, quant: str, rounding: str = "nearest", *, size: int = 0, vec: int = 0,
            block_rows: int = 1, transposed: bool = False, **options: Any) -> QuantConfig:
    """While tracing: with the plan of groups of `size` columns (0: rows) for the architecture's wave."""
    target.require_traced()
    groups = plan_groups(n, size or n, FLOATS[dtype].width, target.wave, BLOCK_THREADS, vec,
                         block_rows=block_rows, transposed=transposed)
    return QuantConfig(dtype, quant, rounding, groups, keep=fits_registers(size or n), target=target, **options)


def _launch(kernel: Any, operands: tuple[Any, ...], m: Any, config: QuantConfig, stream: Any) -> None:
    plan = config.groups.rows
    require_dense({f"argument {i}": x for i, x in enumerate(operands)})
    launch_rows(lambda: kernel(*operands, m, config), m * config.groups.count, plan.rows, plan.threads, stream)


@builder
def build_quant_module(N: int, dtype_str: str = "f16", quant_dtype_str: str = "i8", *, rounding: str = "nearest",
                       target: Target):
    """Per-row quantisation: ``(launch_quant, config)``, ``launch_quant(Input, Output, Scales, m_in, stream=None)``.

    Args:
        N: columns, any positive number.
        dtype_str: of Input: ``"f32"``, ``"f16"`` or ``"bf16"``.
        quant_dtype_str: of Output: ``"i8"``, ``"i4"`` (-7..7, a byte each), or ``"fp8"`` in the architecture's variant.
        rounding: of integers: ``"nearest"`` (ties to even) or ``"trunc"``.

    Returns:
        The launcher and a dict of what it does. Scales is f32[m_in].

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_quant_module", target, N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_rows(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(target, N, dtype_str, quant_dtype_str, rounding)
        _launch(group_quant_kernel, (Input, Output, Scales), m_in, config, stream)

    return quantise_rows, {"N": N, "BLOCK_THREADS": BLOCK_THREADS, "dtype": dtype_str, "quant_dtype": quant_dtype_str}


@builder
def build_per_group_quant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *,
                                 transposed_scale: bool = False, rounding: str = "nearest",
                                 target: Target):
    """A scale per row and 128 columns: ``launch(Input, Output, Scales, m_in, stream=None)``.

    Scales is f32[m_in, ceil(N/128)], or f32[ceil(N/128), m_in] with `transposed_scale`, the order that the block-scale
    GEMM reads. The last group of a row may be shorter.

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_per_group_quant_module", target, N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_groups(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(target, N, dtype_str, quant_dtype_str, rounding, size=GROUP, transposed=transposed_scale)
        _launch(group_quant_kernel, (Input, Output, Scales), m_in, config, stream)

    return quantise_groups


@builder
def build_per_block_quant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *,
                                 rounding: str = "nearest", target: Target):
    """A scale per 128 x 128 block: ``launch(Input, Output, Scales, m_in, stream=None)``.

    Scales is f32[ceil(m_in/128), ceil(N/128)], row-major; blocks at the edges may be smaller.

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_per_block_quant_module", target, N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_blocks(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        vec = math.gcd(N, 128 // FLOATS[dtype_str].width)
        config = _config(target, GROUP, dtype_str, quant_dtype_str, rounding, vec=vec)
        lanes = GROUP // vec
        plan = dataclasses.replace(config.groups.rows, lanes=lanes, rows=max(BLOCK_THREADS // lanes, 1), tiles=1)
        config = dataclasses.replace(config, groups=dataclasses.replace(config.groups, rows=plan))
        if m_in > 0:
            block_quant_kernel(Input, Output, Scales, m_in, N, config).launch(
                grid=(-(-N // GROUP), fx.ceildiv(m_in, GROUP)), block=plan.threads, stream=stream
            )

    return quantise_blocks


@builder
def build_per_tensor_quant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *,
                                  dynamic: bool = True, rounding: str = "nearest", target: Target):
    """One scale: ``launch(Input, Output, Scale, Amax, m_in, stream=None)`` of a matrix with N columns.

    With `dynamic`, Amax is f32[1] and must be zero: the kernel leaves the maximum magnitude in it and stores
    ``Scale[0] = Amax / Qmax``. Otherwise Scale[0] is given and Amax is not touched.

    Raises:
        ValueError: an argument is not supported.
    """
    _check("build_per_tensor_quant_module", target, N, dtype_str, quant_dtype_str, rounding)

    @flyc.jit
    def quantise_tensor(Input, Output, Scale, Amax, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(target, N, dtype_str, quant_dtype_str, rounding)
        plan = config.groups.rows
        if fx.const_expr(dynamic):
            launch_rows(lambda: amax_kernel(Input, Amax, m_in, config), m_in, plan.rows, plan.threads, stream)
        launch_rows(lambda: tensor_quant_kernel(Input, Output, Scale, Amax, m_in, dynamic, config),
                    m_in, plan.rows, plan.threads, stream)

    return quantise_tensor


@builder
def build_dequant_module(N: int, dtype_str: str = "bf16", quant_dtype_str: str = "fp8", *, per_tensor: bool = False,
                         group: int = 0, block_rows: int = 1, target: Target):
    """``launch(Input, Scales, Output, m_in, stream=None)``: ``Output = Input * Scales`` of an (m_in, N) matrix.

    Args:
        per_tensor: Scales is f32[1].
        group: columns that share a scale; 0 for whole rows.
        block_rows: rows that share a scale: 128 with ``group=128`` for blocks.

    Scales is f32[ceil(m_in/block_rows), ceil(N/group)] otherwise.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_dequant_module"
    _check(where, target, N, dtype_str, quant_dtype_str)
    if group < 0 or block_rows < 1:
        raise ValueError(f"{where}: group must not be negative and block_rows positive, got {group}, {block_rows}")

    @flyc.jit
    def dequantise(Input, Scales, Output, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        kind = "i8" if quant_dtype_str == "i4" else quant_dtype_str  # in bytes, both are
        config = _config(target, N, dtype_str, kind, size=group, block_rows=block_rows, per_tensor=per_tensor)
        _launch(group_dequant_kernel, (Input, Scales, Output), m_in, config, stream)

    return dequantise


# ------------------------------------------------------------------------------------------- packed formats


@builder
def build_int4_quant_module(N: int, dtype_str: str = "bf16", *, group: int = 32, transposed_scale: bool = False,
                            scale_dtype_str: str = "f32", rounding: str = "nearest", target: Target):
    """int4, packed, with a scale per row and `group` columns: ``launch(Input, Output, Scales, m_in, stream=None)``.

    Args:
        N: columns, a multiple of 8.
        dtype_str: of Input.
        group: columns of a scale, a multiple of 8; 0 for one scale a row. The last group of a row may be shorter.
        transposed_scale: Scales is (ceil(N/group), m_in), the order of group scales of weights, else its transpose.
        scale_dtype_str: of Scales: ``"f32"`` or ``"bf16"``; values are divided by the rounded scale.
        rounding: ``"nearest"`` (ties to even) or ``"trunc"``.

    Output is u8 (m_in, N/2) in the order of ``pack_int4``: of eight values, byte j holds j (low half) and j + 4.
    Values are -7..7, with scales ``max|x| / 7``.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_int4_quant_module"
    _check(where, target, N, dtype_str, "i4", rounding)
    _columns(where, N, PER_WORD["i4"])
    size = _check_group(where, N, group, scale_dtype_str)

    @flyc.jit
    def quantise_int4(Input, Output, Scales, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(target, N, dtype_str, "i4", rounding, size=size, vec=PER_WORD["i4"],
                         transposed=transposed_scale, packed=True, scale=scale_dtype_str)
        _launch(group_quant_kernel, (Input, Output, Scales), m_in, config, stream)

    return quantise_int4


@builder
def build_int4_dequant_module(N: int, dtype_str: str = "bf16", *, group: int = 32, transposed_scale: bool = False,
                              scale_dtype_str: str = "f32", target: Target):
    """The inverse: ``launch(Input, Scales, Output, m_in, stream=None)`` with Input u8 (m_in, N/2), Output (m_in, N).

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_int4_dequant_module"
    _check(where, target, N, dtype_str, "i4")
    _columns(where, N, PER_WORD["i4"])
    size = _check_group(where, N, group, scale_dtype_str)

    @flyc.jit
    def dequantise_int4(Input, Scales, Output, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(target, N, dtype_str, "i4", size=size, vec=PER_WORD["i4"], transposed=transposed_scale,
                         scale=scale_dtype_str)
        _launch(group_dequant_kernel, (Input, Scales, Output), m_in, config, stream)

    return dequantise_int4


def _flat(target: Target, n: int) -> QuantConfig:
    """While tracing: rows of int4 values."""
    return _config(target, n, "f16", "i4", vec=PER_WORD["i4"])


@builder
def build_int4_pack_module(N: int, *, target: Target):
    """``launch(Values, Packed, m_in, stream=None)``: int8 (m_in, N) values -8..7 as u8 (m_in, N/2).

    Only the low four bits of a value count. N is a multiple of 8.
    """
    _columns("build_int4_pack_module", N, PER_WORD["i4"])

    @flyc.jit
    def pack_int4(Values, Packed, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        _launch(pack_int4_kernel, (Values, Packed), m_in, _flat(target, N), stream)

    return pack_int4


@builder
def build_int4_unpack_module(N: int, *, target: Target):
    """``launch(Packed, Values, m_in, stream=None)``: the inverse of :func:`build_int4_pack_module`."""
    _columns("build_int4_unpack_module", N, PER_WORD["i4"])

    @flyc.jit
    def unpack_int4(Packed, Values, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        _launch(unpack_int4_kernel, (Packed, Values), m_in, _flat(target, N), stream)

    return unpack_int4


@builder
def build_mx_dequant_module(N: int, quant_mode: str = "fp4", dtype_str: str = "bf16", *, target: Target):
    """Microscaled values back: ``launch(Input, Scales, Output, m_in, stream=None)``, on every architecture.

    Args:
        N: columns, a multiple of 32.
        quant_mode: ``"fp4"`` (Input packed e2m1, u8 (m_in, N/2)) or ``"fp8"`` (Input e4m3fn, (m_in, N)).
        dtype_str: of Output (m_in, N).

    Scales is u8 (m_in, N/32), e8m0.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_mx_dequant_module"
    if quant_mode not in ("fp4", "fp8"):
        raise ValueError(f"{where}: quant_mode must be 'fp4' or 'fp8', got {quant_mode!r}")
    _columns(where, N, MX_GROUP)
    float_dtype(dtype_str, where)
    kind = "fp4" if quant_mode == "fp4" else "e4m3"

    @flyc.jit
    def mx_dequantise(Input, Scales, Output, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config = _config(target, N, dtype_str, kind, size=MX_GROUP, vec=8, scale="e8m0")
        _launch(group_dequant_kernel, (Input, Scales, Output), m_in, config, stream)

    return mx_dequantise
