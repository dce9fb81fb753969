"""Matrix instructions on raw vectors: ``rocdl.mfma_*(result_type, [a, b, c, controls...])``."""

from __future__ import annotations

import functools
from typing import Any

from flydsl.tracing.lazy import rocdl
from flydsl.tracing.locations import dsl_loc_tracing

from .._emit import mlir_type
from .utils import operand

# ruff: noqa: N803 - the published names of the controls

_DEFAULT_CONTROLS = 3  # cbsz, abid, blgp

WRAPPED = (
    "mfma_f32_32x32x8f16", "mfma_f32_32x32x8bf16_1k", "mfma_f32_32x32x16_f16", "mfma_f32_32x32x16_bf16",
    "mfma_f32_16x16x16f16", "mfma_f32_16x16x16bf16_1k", "mfma_f32_16x16x32_fp8_fp8", "mfma_i32_16x16x32_i8",
    "mfma_f32_16x16x32_f16", "mfma_f32_16x16x32_bf16", "mfma_scale_f32_16x16x128_f8f6f4",
    "mfma_scale_f32_32x32x64_f8f6f4",
)


def _builder(name: str) -> Any:
    try:
        return getattr(rocdl, name + "_")
    except AttributeError:
        raise AttributeError(f"ROCDL op not found: {name}") from None


def _wmma(name: str, result_type: Any, operands: tuple[Any, ...], **options: Any) -> Any:
    return _builder(name)(mlir_type(result_type), *(operand(o) for o in operands), **options)


@dsl_loc_tracing
def wmma_scale_f32_16x16x128_f8f6f4(
    result_type: Any, a: Any, b: Any, c: Any, scaleA: Any, scaleB: Any, *, fmtA: int = 4, fmtB: int = 4, modC: int = 0,
    scaleAType: int = 0, fmtScaleA: int = 0, scaleBType: int = 0, fmtScaleB: int = 0, reuseA: bool = False,
    reuseB: bool = False,
) -> Any:
    """gfx1250: block-scaled product. Formats: 0 fp8, 1 bf8, 2 e2m3, 3 e3m2, 4 e2m1 (the default)."""
    return _wmma("wmma_scale_f32_16x16x128_f8f6f4", result_type, (a, b, c, scaleA, scaleB), fmt_a=fmtA, fmt_b=fmtB,
                 mod_c=modC, scale_a_type=scaleAType, fmt_scale_a=fmtScaleA, scale_b_type=scaleBType,
                 fmt_scale_b=fmtScaleB, reuse_a=reuseA, reuse_b=reuseB)


@dsl_loc_tracing
def wmma_scale_f32_32x16x128_f4(
    result_type: Any, a: Any, b: Any, c: Any, scaleA: Any, scaleB: Any, *, modC: int = 0, scaleAType: int = 0,
    fmtScaleA: int = 0, scaleBType: int = 0, fmtScaleB: int = 0, reuseA: bool = False, reuseB: bool = False,
) -> Any:
    """gfx1250: block-scaled product of e2m1 operands."""
    return _wmma("wmma_scale_f32_32x16x128_f4", result_type, (a, b, c, scaleA, scaleB), mod_c=modC,
                 scale_a_type=scaleAType, fmt_scale_a=fmtScaleA, scale_b_type=scaleBType, fmt_scale_b=fmtScaleB,
                 reuse_a=reuseA, reuse_b=reuseB)


@dsl_loc_tracing
def wmma_f32_16x16x128_fp8_fp8(
    result_type: Any, a: Any, b: Any, c: Any, *, modC: int = 0, reuseA: bool = False, reuseB: bool = False
) -> Any:
    """gfx1250: product of fp8 operands."""
    return _wmma("wmma_f32_16x16x128_fp8_fp8", result_type, (a, b, c), mod_c=modC, reuse_a=reuseA, reuse_b=reuseB)


@functools.cache
def wrapper(name: str) -> Any:
    """Function form of a matrix op. Calling it raises AttributeError when the dialect lacks the op."""

    @dsl_loc_tracing
    def call(result_type: Any, operands: Any) -> Any:
        builder = _builder(name)
        values = [operand(o) for o in operands]
        if not name.startswith("mfma_scale"):
            values += [operand(0) for _ in range(3 + _DEFAULT_CONTROLS - len(values))]
        return builder(mlir_type(result_type), values)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _describe(name)
    return call


def _describe(name: str) -> str:
    """The docstring of a matrix instruction, from its name: shape, types, architectures."""
    family, _, rest = name.partition("_")
    scaled = rest.startswith("scale_")
    result, _, shape = rest.removeprefix("scale_").partition("_")
    where = "gfx942 and gfx950 (shapes of twice the depth: gfx950)" if family == "mfma" else "gfx1250"
    wave = 64 if family == "mfma" else 32
    scales = ", then the scales and their selectors" if scaled else ""
    return (f"``{name}``: D = A x B + C of a wave of {wave} lanes, M x N x K and the types of A and B in the name "
            f"({shape}), C and D {result}.\n\nOperands: the result type (the vector of a lane's elements of D), "
            f"then the vectors of A, B and C of a lane{scales}. Architectures: {where}. "
            "`fx.gemm` with an atom chooses and "
            "checks these; this form emits one instruction as it is.")
