"""Older builders of the GEMMs of RDNA (gfx11xx and gfx120x), whose tiles are whole 16 x 16 products."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.config import FLOAT_NAMES
from flydsl.kernels.gemm.dense import dense_config, launch_dense
from flydsl.kernels.gemm.rdna_fp8 import launch_rdna_fp8, rdna_fp8_config
from flydsl.kernels.gemm_a16w16 import gemm_a16w16
from flydsl.kernels.host.config import require
from flydsl.kernels.parts.index import cdiv
from flydsl.kernels.target import Target, builder, target

__all__ = [
    "compile_fp8_gemm", "compile_rdna_fp8_gemm", "create_wmma_gemm_module", "pick_tile", "rdna3_gemm_autotuned",
]

RDNA3 = "gfx11"


@builder
def create_wmma_gemm_module(M: int, N: int, K: int, in_dtype: str = "bf16", out_dtype: str = "bf16", *,
                            rounding: str = "rn", reg_m: int = 4, reg_n: int = 4, reg_k: int = 2, waves_m: int = 2,
                            waves_n: int = 2, group_m: int = 8, a_k_pad: int = 8, b_k_pad: int = 8,
                            lds_layout: str = "pad", sched_hint: Any = None, stagger: Any = None,
                            persistent_wgs: int = 0, lda: int | None = None, ldb: int | None = None,
                            ldc: int | None = None, target: Target):
    """RDNA GEMM ``C = A Bt^T``: ``(launch(c, a, bt, stream=None, sr_seed=0), BM, BN, BK)``.

    Args:
        M, N, K: multiples of BM = 16 reg_m waves_m, BN = 16 reg_n waves_n, BK = 16 reg_k; at least two k tiles.
        in_dtype, out_dtype: ``"bf16"``, ``"fp16"`` (or ``"f16"``); out_dtype also ``"f32"``.
        rounding: ``"rn"`` nearest even, ``"rs"`` stochastic (bf16 out).
        group_m: block rows of a group in the launch order.
        a_k_pad, b_k_pad, lds_layout (``"pad"`` or ``"kblock"``), sched_hint, stagger: accepted; LDS rows are exchanged
            rather than padded, and the order of the loop is derived.
        persistent_wgs: 0 or the number of tiles: every workgroup has one.
        lda, ldb, ldc: elements from a row of A, Bt and C to the next, multiples of 8; None: K, K and N.

    Raises:
        ValueError: the architecture, a size or a dtype is not supported.
    """
    where = "create_wmma_gemm_module"
    target.require(where, RDNA3, "gfx120")
    config = dense_config(where, target, n=N, k=K, dtype=FLOAT_NAMES.get(in_dtype, in_dtype), layout="nt",
                          out_dtype=FLOAT_NAMES.get(out_dtype, out_dtype), block_m=16 * reg_m * waves_m,
                          block_n=16 * reg_n * waves_n, block_k=16 * reg_k, m_waves=waves_m, n_waves=waves_n,
                          group_m=group_m, stochastic=rounding == "rs", lda=lda or 0, ldb=ldb or 0, ldc=ldc or 0)
    for name, size, tile in (("M", M, config.tile_m), ("N", N, config.tile_n), ("K", K, config.tile_k)):
        require(where, size >= tile and size % tile == 0, f"{name} = {size} must be a multiple of the tile's {tile}")
    require(where, K // config.tile_k >= 2, f"at least two tiles of k are needed, got K = {K}, BK = {config.tile_k}")
    require(where, rounding in ("rn", "rs"), f"rounding must be 'rn' or 'rs', got {rounding!r}")
    require(where, rounding == "rn" or config.out_dtype == "bf16",
            f"stochastic rounding is for bf16 output, got {out_dtype!r}")
    require(where, lds_layout in ("pad", "kblock"), f"lds_layout must be 'pad' or 'kblock', got {lds_layout!r}")
    tiles = M // config.tile_m * (N // config.tile_n)
    require(where, persistent_wgs in (0, tiles), f"persistent_wgs must be 0 or the {tiles} tiles, got {persistent_wgs}")

    @flyc.jit
    def wmma_gemm(c, a, bt, stream: fx.Stream = fx.Stream(None), sr_seed: fx.Int32 = 0):  # type: ignore[assignment]
        launch_dense({"c": c, "a": a, "b": bt, "seed": sr_seed}, fx.Int32(M), config, stream)

    return wmma_gemm, config.tile_m, config.tile_n, config.tile_k


@dataclass(frozen=True)
class _Registers:
    """A tile in 16 x 16 x 16 products of a wave, and its waves."""

    reg_m: int
    reg_n: int
    reg_k: int
    waves_m: int
    waves_n: int

    def size(self) -> tuple[int, int, int]:
        return 16 * self.reg_m * self.waves_m, 16 * self.reg_n * self.waves_n, 16 * self.reg_k


#: Tiles of RDNA3, the workgroups that each is for, per compute unit, and the least K where a larger one divides the
#: problem: the first that has as many is taken.
_LADDER = ((_Registers(4, 4, 2, 4, 4), 5.0, 0), (_Registers(4, 4, 2, 2, 2), 2.5, 0),
           (_Registers(4, 2, 2, 2, 2), 1.0, 0), (_Registers(2, 2, 4, 2, 2), 0.25, 0),
           (_Registers(1, 2, 4, 2, 2), 0.25, 0), (_Registers(1, 1, 4, 2, 2), 0.0, 2048))


def pick_tile(M: int, N: int, K: int) -> dict[str, int]:
    """reg_m, reg_n, reg_k, waves_m and waves_n of :func:`create_wmma_gemm_module` for a problem on gfx11xx: the largest
    tile that divides it and leaves work for every compute unit.

    Raises:
        ValueError: the architecture is another, or no tile divides the problem.
    """
    found = target()
    found.require("pick_tile", RDNA3)
    fitting: list[tuple[_Registers, bool]] = []
    for registers, least, long in _LADDER:
        m, n, k = registers.size()
        if M % m == 0 and N % n == 0 and K % k == 0 and K >= 2 * k and (K >= long or not fitting):
            fitting.append((registers, cdiv(M, m) * cdiv(N, n) >= least * found.compute_units))
    require("pick_tile", bool(fitting), f"no tile divides {M} x {N} x {K}: M and N must be multiples of 32, K of 64, "
            "and at least 128; gemm_a16w16 takes any size")
    return asdict(next((registers for registers, busy in fitting if busy), fitting[-1][0]))


def rdna3_gemm_autotuned(C: Any, A: Any, B_T: Any, stream: Any = None) -> None:
    """``C = A B_T^T`` on gfx11xx for any sizes, with the tile that the tuned table has for them.

    Args:
        C: (M, N), of the operands' dtype or f32; A (M, K) and B_T (N, K) are f16 or bf16.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: the architecture is another, or shapes do not agree.
    """
    target().require("rdna3_gemm_autotuned", RDNA3)
    gemm_a16w16(A, B_T, C, stream=stream)


@builder
def compile_rdna_fp8_gemm(*, N: int, K: int, tile_m: int = 32, tile_n: int = 128, tile_k: int = 32,
                          k_unroll: int | None = None, group_m: int = 8, target: Target):
    """``launch(c, a, b_shuf, scale_a, scale_b, M, stream=None)`` on gfx120x: M is free.

    ``c = a b * scale_a[row] * scale_b[column]``; c is bf16 (M, N), a e4m3fn (M, K) row-major, b_shuf made by
    ``preshuffle_b_fp8`` from (K, N); scales are f32.

    Args:
        N, K: multiples of tile_n, and of the unrolled tile.
        tile_k, k_unroll: a tile of k is their product; k_unroll is by default the most of 4, 2 and 1 that K allows.
        group_m: block rows of a group in the launch order.

    Raises:
        ValueError: the architecture or a size is not supported.
    """
    config = rdna_fp8_config("compile_rdna_fp8_gemm", target, n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k,
                             k_unroll=k_unroll, group=group_m)

    @flyc.jit
    def rdna_fp8_gemm(c, a, b_shuf, scale_a, scale_b, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_rdna_fp8({"c": c, "a": a, "b": b_shuf, "scale_a": scale_a, "scale_b": scale_b}, M, config, stream)

    return rdna_fp8_gemm


@builder
def compile_fp8_gemm(*, M: int, N: int, K: int, tile_m: int = 32, tile_n: int | None = None, tile_k: int = 32,
                     k_unroll: int | None = None, group_m: int = 8, target: Target):
    """:func:`compile_rdna_fp8_gemm` for a fixed M: ``launch(c, a, b_shuf, scale_a, scale_b, stream=None)``.

    tile_n is 256 for M of at least 256, else 128, by default. The kernel is that of any M; only the launcher has it.

    Raises:
        ValueError: the architecture or a size is not supported.
    """
    where = "compile_fp8_gemm"
    require(where, M >= 1, f"M must be positive, got {M}")
    config = rdna_fp8_config(where, target, n=N, k=K, tile_m=tile_m, tile_n=tile_n or (256 if M >= 256 else 128),
                             tile_k=tile_k, k_unroll=k_unroll, group=group_m)

    @flyc.jit
    def fp8_gemm(c, a, b_shuf, scale_a, scale_b, stream: fx.Stream = fx.Stream(None)):
        tensors = {"c": c, "a": a, "b": b_shuf, "scale_a": scale_a, "scale_b": scale_b}
        launch_rdna_fp8(tensors, fx.Int32(M), config, stream)

    return fp8_gemm
