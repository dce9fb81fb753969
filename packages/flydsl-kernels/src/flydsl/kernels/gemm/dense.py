"""The general f16/bf16 GEMM: builder and functional form."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.arrays import allocate, contiguous, launch, padded, transposed
from ..host.config import require
from ..host.dtypes import dtype_name
from ..op import Plan
from ..parts.index import cdiv
from ..parts.rows import pointer
from ..target import Target, builder
from ..target import target as current
from .dense_config import LAYOUTS, DenseConfig, dense_config
from .dense_kernel import launch_dense
from .tuned import dense_knobs

__all__ = ["SPLIT_K_SEMAPHORE_MAX_LEN", "build_gemm_module", "gemm_a16w16", "get_default_kwargs", "get_semaphore"]

SPLIT_K_SEMAPHORE_MAX_LEN = 256  # tiles of C of a split reduction that adds in place
_semaphores: dict[tuple[Any, str], tuple[Any, Any]] = {}
_KNOBS = ("block_m", "block_n", "block_k", "stages", "split_k", "m_waves", "n_waves", "k_waves", "group_m", "cshuffle",
          "atomic")


@builder
def build_gemm_module(N: int, K: int, dtype_str: str = "bf16", out_dtype: str | None = None, layout: str = "nt",
                      bias: bool = False, use_async_copy: bool = False, scheduled: bool = True,
                      *, target: Target, **knobs: Any):  # noqa: N803
    """``launch(C, A, B, bias, workspace, M, stream=None)``: ``C[M, N] = op(A) op(B) + bias`` with f32 accumulation.

    A and B are row-major storage of what `layout` says: ``n`` the operand itself (M x K, K x N), ``t`` its transpose
    (K x M, N x K). `bias` and `workspace` are always passed (any tensor if unused); the workspace of split_k is
    f32[split_k * M * N]. With ``atomic=True`` there is no workspace: the slices add to C in turn of arrival, and
    `workspace` is i32[2, tiles], semaphores and signals, zero before and after (:func:`get_semaphore`).

    Args:
        N, K: K is a multiple of 8 (except for layout "tn"); N is one if B is row-major, M if A is column-major.
        dtype_str: ``"f16"`` or ``"bf16"``; `out_dtype` is the same (default) or ``"f32"``.
        use_async_copy: operands go to LDS without registers (gfx950).
        knobs: block_m, block_n, block_k, stages, split_k, m_waves, n_waves, k_waves, group_m, cshuffle (C goes
            through LDS in 16-byte stores; by default where the tile allows it) and atomic.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    unknown = set(knobs) - set(_KNOBS)
    if unknown:
        raise ValueError(f"build_gemm_module: unknown options {', '.join(sorted(unknown))}; known: {', '.join(_KNOBS)}")
    fields: dict[str, Any] = dict(n=N, k=K, dtype=dtype_str, out_dtype=out_dtype or dtype_str, layout=layout,
                                  bias=bias, scheduled=scheduled, **{"cshuffle": None, **knobs})
    config = dense_config("build_gemm_module", target, **fields)
    require("build_gemm_module", config.copies_directly or not use_async_copy,
            "direct copies to LDS need gfx950, K a multiple of block_k * split_k and, where an operand is not "
            "consecutive in k, blocks of 64 or multiples of 128")
    return dense_launcher(replace(config, use_async=use_async_copy).fitting("build_gemm_module"))


@functools.cache  # the configuration has the target
def dense_launcher(config: DenseConfig) -> Any:
    """The launcher of a configuration, as :func:`build_gemm_module` describes it."""

    @flyc.jit
    def gemm(C, A, B, bias, workspace, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        tensors = {"c": C, "a": A, "b": B, "bias": bias, "workspace": workspace}
        if fx.const_expr(config.atomic):
            flags = pointer(workspace, fx.Int32)
            tensors.update(semaphore=flags, signal=flags + SPLIT_K_SEMAPHORE_MAX_LEN)
        launch_dense(tensors, M, config, stream)

    gemm.config = config  # type: ignore[attr-defined]  # what the launcher was built from, for tools
    return gemm


def _waves(wave: int, block_m: int, block_n: int, block_k: int, given: dict[str, int]) -> dict[str, int]:
    """Waves along m, n and k, those not given chosen such that each loader thread has whole chunks."""
    k_waves = given.get("k_waves", 1)
    for m_waves in (given["m_waves"],) if "m_waves" in given else (2, 1):
        for n_waves in (given["n_waves"],) if "n_waves" in given else (2, 1):
            chunks = m_waves * n_waves * k_waves * wave * 8
            sizes = (block_m % (16 * m_waves), block_n % (16 * n_waves), block_m * block_k % chunks,
                     block_n * block_k % chunks)
            if not any(sizes):
                return dict(m_waves=m_waves, n_waves=n_waves, k_waves=k_waves)
    raise ValueError(f"no arrangement of waves fits a tile of {block_m} x {block_n} x {block_k}")


def get_default_kwargs(m: int, n: int, k: int, layout: str = "nt") -> dict[str, int]:
    """Knobs for a problem size: smaller tiles and a split reduction where there are too few of the large ones."""
    return dense_knobs(current(), m, n, k, layout)


def _operands(a: Any, b: Any, layout: str) -> tuple[int, int, int]:
    if layout not in LAYOUTS:
        raise ValueError(f"gemm_a16w16: layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ValueError(f"gemm_a16w16: operands must be matrices, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    (m, k), (k2, n) = (tuple(a.shape) if layout[0] == "n" else tuple(a.shape)[::-1],
                       tuple(b.shape) if layout[1] == "n" else tuple(b.shape)[::-1])
    if k != k2:
        raise ValueError(f"gemm_a16w16: the reduction lengths differ ({k} and {k2}) for layout {layout!r} and shapes "
                         f"{tuple(a.shape)}, {tuple(b.shape)}")
    return m, n, k


def check_a16w16(a: Any, b: Any, bias: Any, layout: str) -> tuple[int, int, int, str]:
    """(M, N, K, dtype name) of a product of matrices. TypeError or ValueError says what does not agree."""
    where = "gemm_a16w16"
    dtype = dtype_name(a, where, ("f16", "bf16"))
    if dtype_name(b, where, ("f16", "bf16")) != dtype:
        raise TypeError(f"{where}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    m, n, k = _operands(a, b, layout)
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"{where}: bias must have shape {(n,)}, got {tuple(bias.shape)}")
    return m, n, k, dtype


def _knobs(target: Target, m: int, n: int, k: int, layout: str, given: dict[str, Any]) -> dict[str, Any]:
    """The chosen options, replaced by the given ones."""
    knobs, given = dense_knobs(target, m, n, k, layout), dict(given)
    given.pop("use_half_tile_interleaved", None)
    if any(x in given for x in ("block_m", "block_n", "block_k")) and not {"m_waves", "n_waves"} <= given.keys():
        block_m, block_n, block_k = (given.get(x, knobs[x]) for x in ("block_m", "block_n", "block_k"))
        knobs.update(_waves(target.wave, block_m, block_n, block_k, given))
    knobs.update(given)
    if knobs["split_k"] == 1:
        knobs.pop("atomic", None)
    return knobs


def plan_a16w16(target: Target, a: Any, b: Any, bias: Any, layout: str, result: str, given: dict[str, Any],
                stream: Any = None) -> Plan | None:
    """What computes ``op(a) op(b) + bias`` in the dtype name `result`, with options as of :func:`gemm_a16w16`.

    An operand whose stored rows the layout cannot take (M or N of a row-major side not a multiple of 8, K likewise) is
    copied: turned around where that helps, or filled up with zeros along k.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not agree or are not supported.
    """
    m, n, k, dtype = check_a16w16(a, b, bias, layout)
    if m == 0 or n == 0:
        return None
    a, b, layout, k = _fitting(a, b, layout, m, n, k)
    knobs = _knobs(target, m, n, k, layout, given)
    run = build_gemm_module(n, k, dtype, result, layout, bias is not None, target=target, **knobs)
    if run.config.copies_directly:  # LDS is filled without registers where that is possible
        run = dense_launcher(replace(run.config, use_async=True).fitting("gemm_a16w16"))
    workspace = None
    if run.config.atomic:
        tiles = cdiv(m, run.config.tile_m) * cdiv(n, run.config.tile_n)
        if tiles > SPLIT_K_SEMAPHORE_MAX_LEN:
            raise ValueError(f"gemm_a16w16: slices that add to C need at most {SPLIT_K_SEMAPHORE_MAX_LEN} tiles, a "
                             f"{m} x {n} result has {tiles}; use larger tiles or split_k=1")
        workspace = _flags(target, a, stream)
    elif knobs["split_k"] > 1:
        workspace = allocate(target, a, (knobs["split_k"] * m * n,), "f32")
    a, b, bias = contiguous(a), contiguous(b), None if bias is None else contiguous(bias)

    def operands(out: Any) -> tuple[Any, ...]:
        return out, a, b, out if bias is None else bias, out if workspace is None else workspace, m

    return Plan(lambda: run, operands)


ROW = 8  # elements of 16 bits that are loaded at once


def _fitting(a: Any, b: Any, layout: str, m: int, n: int, k: int) -> tuple[Any, Any, str, int]:
    """Operands and their layout, with copies of those whose stored rows are not multiples of what is loaded."""
    a_letter, b_letter = layout[0], layout[1]
    if a_letter == "t" and m % ROW:  # stored K x M: loads go along m
        a, a_letter = transposed(a), "n"
    if b_letter == "n" and n % ROW:  # stored K x N: loads go along n
        b, b_letter = transposed(b), "t"
    if k % ROW and (a_letter == "n" or b_letter == "t"):
        a = padded(a, -k % ROW, 1 if a_letter == "n" else 0)
        b = padded(b, -k % ROW, 0 if b_letter == "n" else 1)
        k += -k % ROW
    return a, b, a_letter + b_letter, k


def gemm_a16w16(a: Any, b: Any, out: Any = None, bias: Any = None, user_kwargs: dict[str, Any] | None = None,
                stream: Any = None, layout: str = "nt", out_dtype: Any = None) -> Any:
    """``op(a) op(b) + bias`` for f16 or bf16 matrices (M, N), f32 accumulation.

    Args:
        a, b: stored matrices; with layout letter ``n`` the operand itself (M x K, K x N), with ``t`` its transpose.
            "nt" is the usual (M, K) times a weight (N, K).
        out: matrix to write; a new one by default.
        bias: f32 or the operands' dtype, (N,).
        user_kwargs: knobs that replace the chosen ones: block_m, block_n, block_k, stages, split_k, m_waves, n_waves,
            k_waves, group_m, cshuffle, atomic (and use_half_tile_interleaved, which is accepted and has no effect).
        out_dtype: the operands' dtype (default) or float32: a name or a dtype.

    Returns:
        out.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not agree or are not supported.
    """
    target = current()
    m, n, _, dtype = check_a16w16(a, b, bias, layout)
    result = "f32" if str(out_dtype).rpartition(".")[2] in ("f32", "float32") else dtype
    if out is None:
        out = allocate(target, a, (m, n), result)
    elif tuple(out.shape) != (m, n):
        raise ValueError(f"gemm_a16w16: out must have shape {(m, n)}, got {tuple(out.shape)}")
    else:
        result = dtype_name(out, "gemm_a16w16: out", (dtype, "f32"))
    plan = plan_a16w16(target, a, b, bias, layout, result, user_kwargs or {}, stream)
    if plan is not None and plan.launcher is not None:
        launch(plan.launcher(), a, *plan.operands(out), stream=stream)
    return out


def _flags(target: Target, like: Any, stream: Any) -> Any:
    """Semaphores and signals of a stream and device, i32[2, 256], made zero at the first use."""
    key = (getattr(stream, "cuda_stream", stream), str(getattr(like, "device", "cpu")))
    if key not in _semaphores:
        flags = allocate(target, like, (2, SPLIT_K_SEMAPHORE_MAX_LEN), "i32", True)
        _semaphores[key] = (flags, tuple(flags))
    return _semaphores[key][0]


def get_semaphore(stream: Any = None, device: Any = "cpu") -> tuple[Any, Any]:
    """(semaphores, signals) of a stream and device: two i32[256], zero unless a launch of that stream is running."""
    import torch

    like = torch.empty(0, device=device)
    _flags(current(), like, stream)
    return _semaphores[(getattr(stream, "cuda_stream", stream), str(like.device))][1]
