"""Older signatures of the general f16/bf16 GEMM."""

from __future__ import annotations

from typing import Any

from flydsl.kernels.gemm.dense import SPLIT_K_SEMAPHORE_MAX_LEN, build_gemm_module
from flydsl.kernels.gemm_a16w16 import gemm_a16w16, get_semaphore
from flydsl.kernels.gemm_a16w16 import get_default_kwargs as default_knobs

__all__ = [
    "SPLIT_K_SEMAPHORE_MAX_LEN", "compile_hgemm_kernel", "get_default_kwargs", "get_semaphore", "hgemm_splitk_",
]


def compile_hgemm_kernel(dtype: str, n: int, k: int, TILE_M: int = 128, TILE_N: int = 128, TILE_K: int = 64,
                         STAGES: int = 2, SPLIT_K: int = 1, BLOCK_M_WARPS: int = 2, BLOCK_N_WARPS: int = 2,
                         BLOCK_K_WARPS: int = 1, B_TO_LDS: bool = False,
                         HAS_BIAS: bool = False):  # noqa: N803
    """The older spelling of :func:`build_gemm_module` with layout "nt"; B_TO_LDS has no effect (B goes through LDS)."""
    return build_gemm_module(n, k, dtype, None, "nt", HAS_BIAS, block_m=TILE_M, block_n=TILE_N, block_k=TILE_K,
                             stages=STAGES, split_k=SPLIT_K, m_waves=BLOCK_M_WARPS, n_waves=BLOCK_N_WARPS,
                             k_waves=BLOCK_K_WARPS)


_OLD_KNOBS = {"TILE_M": "block_m", "TILE_N": "block_n", "TILE_K": "block_k", "STAGES": "stages", "SPLIT_K": "split_k",
              "BLOCK_M_WARPS": "m_waves", "BLOCK_N_WARPS": "n_waves", "BLOCK_K_WARPS": "k_waves"}


def get_default_kwargs(m: int, n: int, k: int) -> dict[str, int]:
    """Knobs for a problem size, as :func:`compile_hgemm_kernel` and :func:`hgemm_splitk_` take them."""
    knobs = default_knobs(m, n, k)
    return {old: knobs[new] for old, new in _OLD_KNOBS.items()}


def hgemm_splitk_(c: Any, a: Any, b: Any, bias: Any = None, hgemm_kwargs: dict[str, Any] | None = None,
                  stream: Any = None) -> None:
    """``c = a b^T + bias`` in place, with the older names of the knobs (TILE_M, SPLIT_K, ...) or the new ones.

    The slices of a split reduction add to c: no workspace, at most 256 tiles, one rounding a slice. With
    ``atomic=False`` they go through an f32 workspace as in :func:`gemm_a16w16`.
    """
    given = {"atomic": True}
    given |= {_OLD_KNOBS.get(key, key): value for key, value in (hgemm_kwargs or {}).items() if key != "B_TO_LDS"}
    gemm_a16w16(a, b, c, bias, given, stream)
