"""Dense matrix products: ``C[M, N] = A[M, K] B[N, K]^T`` in the forms of the kernels' types and layouts."""

import importlib as _importlib
from typing import Any as _Any

from . import a16w16, dense, fp8_rowscale, fp8fp4, gfx1250, mx, preshuffle, rdna, rdna_fp8
from .a16w16 import *  # noqa: F403
from .dense import *  # noqa: F403
from .fp8_rowscale import *  # noqa: F403
from .fp8fp4 import *  # noqa: F403
from .gfx1250 import *  # noqa: F403
from .mx import *  # noqa: F403
from .preshuffle import *  # noqa: F403
from .rdna import *  # noqa: F403
from .rdna_fp8 import *  # noqa: F403

# These need torch, which the builders do not.
_TORCH = {
    "shuffle_weight": "layouts", "shuffle_weight_w4": "layouts", "shuffle_scale_w4": "layouts",
    "e8m0_shuffle": "layouts", "preshuffle_b_16x16": "layouts", "preshuffle_b_fp8": "layouts",
    "shuffle_scale_32x4": "layouts", "shuffle_scale_for_int4": "layouts", "layout_of": "layouts",
    "preshuffled": "weights", "clear_preshuffle_cache": "weights",
    "flydsl_hgemm": "callers", "flydsl_preshuffle_gemm_a8": "callers", "flydsl_8wave_gemm_a8": "callers",
}

_FORMS = ("blockscale_gemm", "linear", "mx_gemm", "preshuffle_gemm", "scaled_gemm")

__all__ = [
    *preshuffle.__all__, *dense.__all__, *a16w16.__all__, *fp8_rowscale.__all__, *fp8fp4.__all__, *gfx1250.__all__,
    *mx.__all__, *rdna.__all__, *rdna_fp8.__all__,
]


def __getattr__(name: str) -> _Any:
    if name in _FORMS:
        return getattr(_importlib.import_module("flydsl.kernels.ops"), name)
    if name in _TORCH:
        return getattr(_importlib.import_module(f"{__name__}.{_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
