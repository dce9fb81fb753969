"""Names of the gfx11 GEMM, which this library does not have."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

__all__ = ["pick_tile", "rdna3_gemm_autotuned"]

_MISSING = ("needs the gfx11 GEMM (16-element WMMA operands repeated over the half-waves), which is not implemented; "
            "gfx120x has create_wmma_gemm_module")


def pick_tile(M: int, N: int, K: int) -> Any:
    """The tile of a gfx11 GEMM. NotImplementedError: there is no such kernel."""
    raise NotImplementedError(f"pick_tile {_MISSING}")


def rdna3_gemm_autotuned(C: Any, A: Any, B_T: Any, **options: Any) -> None:
    """``C = A B_T^T`` on gfx11. NotImplementedError: there is no such kernel."""
    raise NotImplementedError(f"rdna3_gemm_autotuned {_MISSING}")
