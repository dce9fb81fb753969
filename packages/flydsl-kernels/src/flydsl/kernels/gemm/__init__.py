"""Dense matrix products: ``C[M, N] = A[M, K] B[N, K]^T`` in the forms of the kernels' types and layouts."""

import importlib as _importlib
from typing import Any as _Any

from ..gemm_names import MODULES as _OLDER
from .dense import SPLIT_K_SEMAPHORE_MAX_LEN, build_gemm_module

# Name to module of what is loaded when it is asked for: some of it needs torch, which the builders do not.
_LATER = {
    **_OLDER,
    **dict.fromkeys(("blockscale_gemm", "linear", "mx_gemm", "preshuffle_gemm", "scaled_gemm"), "ops"),
    **dict.fromkeys(("shuffle_weight", "shuffle_weight_w4", "shuffle_scale_w4", "e8m0_shuffle", "preshuffle_b_16x16",
                     "preshuffle_b_fp8", "shuffle_scale_32x4", "shuffle_scale_for_int4", "layout_of"), "host.layouts"),
    **dict.fromkeys(("preshuffled", "clear_preshuffle_cache"), "host.weights"),
}

__all__ = ["SPLIT_K_SEMAPHORE_MAX_LEN", "build_gemm_module",
           *(name for name, module in _OLDER.items() if module != "gemm_callers")]


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        return getattr(_importlib.import_module(f"flydsl.kernels.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
