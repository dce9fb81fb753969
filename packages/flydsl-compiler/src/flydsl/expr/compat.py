"""Names of earlier releases and of published material, defined by today's functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flydsl.tracing.locations import dsl_loc_tracing

from . import arith, gpu
from ._vector import Vector
from .arith import select_by_index as select_by_index
from .numeric import Boolean, as_numeric


@dsl_loc_tracing
def vec_broadcast(x: Any, shape: Any) -> Vector:
    """Splat of the scalar `x` to `shape`."""
    scalar = as_numeric(x)
    return Vector.filled(shape, scalar, type(scalar))


@dsl_loc_tracing
def vec_select(mask: Any, a: Any, b: Any) -> Any:
    """Lane-wise ``mask ? a : b``; the mask may be a scalar."""
    if isinstance(mask, Vector):
        return mask.select(a, b)
    return Boolean(mask).select(a, b)


def default_f8_type() -> Any:
    """MLIR type of the arch's native 8-bit float with 3 mantissa bits."""
    from ._target import target_row
    from .numeric import Float8E4M3FN, Float8E4M3FNUZ

    row = target_row()
    if row.has("wmma_gfx11"):
        raise RuntimeError(f"{row.name} has no 8-bit float instructions")
    cls = Float8E4M3FN if row.has("convert_fp8") and not row.has("fp8_fnuz") else Float8E4M3FNUZ
    return cls.ir_type


def _block_product() -> Any:
    from .primitive import blocked_product

    return blocked_product


def _default_f8() -> Callable[[], Any]:
    return default_f8_type


legacy: dict[str, Callable[[], Any]] = {
    "thread_id": lambda: gpu.thread_id,
    "block_id": lambda: gpu.block_id,
    "smem_space": lambda: gpu.smem_space,
    "lds_space": lambda: gpu.lds_space,
    "block_product": _block_product,
    "default_f8_type": _default_f8,
    **{
        name: functools.partial(getattr, arith, name)
        for name in ("ArithValue", "_to_raw", "andi", "constant", "index", "int_to_fp", "shli", "sitofp", "trunc_f",
                     "unwrap", "xori")
    },
}
