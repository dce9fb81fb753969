"""The fp8 and fp4 GEMMs of gfx1250 under the names their callers use.

Scales per row and column ("ptpc") of fp8 operands run on the general GEMM kernel. Microscaled operands need the scaled
WMMA with its scale operands in LDS, which this library does not have: those names raise NotImplementedError.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .config import with_occupancy
from .dense_config import DenseConfig
from .dense_kernel import launch_dense
from .gfx1250 import _config, _no_clusters

__all__ = [
    "compile_a8w4_gemm", "compile_fp8fp4_gemm", "compile_mxfp8_gemm", "compile_mxscale_gemm",
    "launch_gemm_a8w4_mxscale",
]  # fmt: skip

DATA_FORMATS = ("fp4", "fp8", "a8w4")


def _no_scaled_wmma(where: str, what: str) -> NotImplementedError:
    return NotImplementedError(f"{where}: {what} needs the scaled 16x16x128 WMMA of gfx1250 with its e8m0 scale "
                               "operands, which is not implemented; fp8 with scales per row and column is "
                               "(compile_ptpc_gemm)")  # fmt: skip


@functools.lru_cache
def compile_fp8fp4_gemm(*, data_format: str = "fp4", scale_mode: str = "mxscale", N: int = 0, K: int,
                        tile_m: int = 128, tile_n: int = 128, tile_k: int = 128, m_warp: int = 2, n_warp: int = 2,
                        num_buffers: int = 2, waves_per_eu: int | None = None, l2_prefetch_distance: int = 2,
                        cluster_m: int = 1, cluster_n: int = 1, out_dtype: str = "f32", inst_prefetch: bool = False,
                        split_k: int = 1, expert_sched_mode: bool = True, atomic_barrier_enable: bool = False,
                        ascale_load_path: str = "vgpr") -> Any:  # fmt: skip
    """``fn(c, a, b, a_scale, b_scale, M, N, lda, ldc, stream=None)`` on gfx1250.

    Args:
        data_format: ``"fp8"`` is implemented; ``"fp4"`` and ``"a8w4"`` are microscaled.
        scale_mode: ``"ptpc"``: f32 scales ``a_scale[M]`` and ``b_scale[N]``; ``"mxscale"`` is not implemented.
        N: fixed when the kernel is compiled; 0: taken from the call. It is a multiple of tile_n, K of tile_k.
        out_dtype: ``"f32"`` or ``"bf16"``.
        num_buffers: LDS buffers, 2 to 4.
        l2_prefetch_distance, inst_prefetch, expert_sched_mode, atomic_barrier_enable, ascale_load_path: accepted;
            they tune what this kernel does not use.

    Raises:
        ValueError: the architecture or an argument is not supported.
        NotImplementedError: microscaled operands, clusters, a split reduction, or rows that are not contiguous.
    """
    where = "compile_fp8fp4_gemm"
    if data_format not in DATA_FORMATS or scale_mode not in ("mxscale", "ptpc"):
        raise ValueError(f"{where}: data_format must be one of {', '.join(DATA_FORMATS)} and scale_mode 'mxscale' or "
                         f"'ptpc', got {data_format!r} and {scale_mode!r}")  # fmt: skip
    if out_dtype not in ("f32", "bf16"):
        raise ValueError(f"{where}: out_dtype must be 'f32' or 'bf16', got {out_dtype!r}")
    if scale_mode == "ptpc" and data_format != "fp8":
        raise ValueError(f"{where}: scales per row and column are for data_format 'fp8', got {data_format!r}")
    _no_clusters(where, cluster_m, cluster_n)
    if split_k != 1:
        raise NotImplementedError(f"{where}: a split reduction is not implemented for fp8, got split_k = {split_k}")

    def config_of(n: int) -> DenseConfig:
        return _config(where, n, K, "fp8", out_dtype, (tile_m, tile_n, tile_k), (m_warp, n_warp), num_buffers, True)

    config_of(N or tile_n)  # its errors at once
    if scale_mode == "mxscale":
        raise _no_scaled_wmma(where, f"data_format {data_format!r} with e8m0 scales")

    @flyc.jit
    def fp8_gemm(c, a, b, a_scale, b_scale, M: fx.Int32, N: fx.Constexpr[int], lda: fx.Constexpr[int],
                 ldc: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):  # fmt: skip
        if fx.const_expr(lda not in (0, K) or ldc not in (0, N)):
            raise NotImplementedError(f"{where}: rows must be contiguous, got lda = {lda}, ldc = {ldc}")
        tensors = {"c": c, "a": a, "b": b, "scale_a": a_scale, "scale_b": b_scale}
        launch_dense(tensors, M, config_of(N), stream)

    return with_occupancy(fp8_gemm, waves_per_eu)


def _microscaled(data_format: str, name: str, description: str) -> Any:
    def compile_(**options: Any) -> Any:
        options.setdefault("data_format", data_format)
        options = {"num_buffers": 4, "out_dtype": "bf16", **options}
        return compile_fp8fp4_gemm(scale_mode="mxscale", **options)

    compile_.__name__ = compile_.__qualname__ = name
    compile_.__doc__ = f"""{description} on gfx1250: :func:`compile_fp8fp4_gemm` with e8m0 scales.

    Raises:
        ValueError: the architecture or an argument is not supported.
        NotImplementedError: always otherwise; the scaled WMMA is missing.
    """
    return compile_


compile_mxscale_gemm = _microscaled("fp4", "compile_mxscale_gemm", "Microscaled GEMM (data_format)")
compile_mxfp4_gemm = _microscaled("fp4", "compile_mxfp4_gemm", "fp4 activations and weights")
compile_mxfp8_gemm = _microscaled("fp8", "compile_mxfp8_gemm", "fp8 activations and weights")
compile_a8w4_gemm = _microscaled("a8w4", "compile_a8w4_gemm", "fp8 activations and fp4 weights")


def launch_gemm_a8w4_mxscale(c: Any, a: Any, b: Any, sa: Any, sb: Any, M: int, stream: Any, N: int, K: int,
                             lda: int = 0, ldc: int = 0, tile_m: int = 128, tile_n: int = 128, tile_k: int = 128,
                             m_warp: int = 2, n_warp: int = 2, out_is_f16: int = 0, num_buffers: int = 2,
                             cluster_m: int = 1, cluster_n: int = 1) -> None:  # fmt: skip
    """fp8 activations (M, K), fp4 weights by ``preshuffle_b_16x16``, e8m0 scales "32x4", on gfx1250.

    Raises:
        ValueError: the architecture or an argument is not supported.
        NotImplementedError: always otherwise; the scaled WMMA is missing.
    """
    compile_a8w4_gemm(N=N, K=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_warp=m_warp, n_warp=n_warp,
                      num_buffers=num_buffers, cluster_m=cluster_m, cluster_n=cluster_n,
                      out_dtype="bf16")  # fmt: skip
