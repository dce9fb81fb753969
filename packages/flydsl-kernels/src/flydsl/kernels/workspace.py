"""Memory that an operation of :mod:`flydsl.kernels.ops` takes beyond its results, in bytes.

Everything that is not named here takes none for contiguous operands; one that is not contiguous is copied first.
"""

from __future__ import annotations

from .common.dtypes import float_dtype
from .common.index import align_up, cdiv
from .norm.backward import rmsnorm_bwd_programs
from .target import target

__all__ = [
    "gemm_workspace", "layernorm_bwd_workspace", "mx_gemm_workspace", "quantize_per_tensor_workspace",
    "rmsnorm_bwd_workspace",
]  # fmt: skip

F32 = 4


def rmsnorm_bwd_workspace(m: int, n: int, dtype: str, weight_dtype: str = "") -> int:
    """Gradient of (fused add +) RMS norm of m rows of n elements.

    Two stages take the partial sums of their programs; one stage takes f32 sums where the weight has another dtype.
    """
    programs = rmsnorm_bwd_programs(m, n, float_dtype(dtype, "rmsnorm_bwd_workspace"))
    if programs:
        return programs * n * F32
    return 0 if (weight_dtype or dtype) == "f32" else n * F32


def layernorm_bwd_workspace(m: int, n: int, dtype: str, weight_dtype: str = "") -> int:
    """Gradient of layer norm: f32 sums of both weight gradients where the weights have another dtype."""
    return 0 if (weight_dtype or dtype) == "f32" else 2 * n * F32


def quantize_per_tensor_workspace() -> int:
    """The maximum."""
    return F32


def gemm_workspace(m: int, n: int, split_k: int) -> int:
    """A split reduction takes an f32 result for every part."""
    return split_k * m * n * F32 if split_k > 1 else 0


def mx_gemm_workspace(m: int, k: int) -> int:
    """Activation scales of m rows, padded and in the order of the kernel; besides, every weight and its scales are kept
    in the order of the kernel while they live."""
    rows, columns = (32, 4) if target().arch == "gfx1250" else (256, 8)
    return 2 * align_up(m, rows) * align_up(cdiv(k, 32), columns)
