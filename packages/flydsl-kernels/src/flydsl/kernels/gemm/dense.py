"""The general f16/bf16 GEMM: builder and plan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.arrays import allocate, contiguous, copy_into, padded, transposed
from ..host.dtypes import dtype_name
from ..op import Plan
from ..parts.memory import pointer
from ..target import Target, builder
from .dense_config import LAYOUTS, DenseConfig, dense_config
from .dense_kernel import launch_dense
from .tuned import dense_knobs

__all__ = ["SPLIT_K_SEMAPHORE_MAX_LEN", "build_gemm_module"]

SPLIT_K_SEMAPHORE_MAX_LEN = 256  # tiles of C of a split reduction that adds in place
_KNOBS = ("block_m", "block_n", "block_k", "stages", "split_k", "m_waves", "n_waves", "k_waves", "group_m", "cshuffle",
          "atomic", "tile_ahead")


@builder
def build_gemm_module(N: int, K: int, dtype_str: str = "bf16", out_dtype: str | None = None, layout: str = "nt",
                      bias: bool = False, use_async_copy: bool | None = False, scheduled: bool = True,
                      *, target: Target, **knobs: Any):  # noqa: N803
    """``launch(C, A, B, bias, workspace, M, stream=None)``: ``C[M, N] = op(A) op(B) + bias`` with f32 accumulation.

    A and B are row-major storage of what `layout` says: ``n`` the operand itself (M x K, K x N), ``t`` its transpose
    (K x M, N x K). `bias` and `workspace` are always passed (any tensor if unused); the workspace of split_k is
    f32[split_k * M * N]. With ``atomic=True`` there is no workspace: the slices add to C in turn of arrival, and
    `workspace` is i32[2, tiles], semaphores and signals, zero before and after (:func:`get_semaphore`).

    Args:
        N, K: K is a multiple of 8 (except for layout "tn"); N is one if B is row-major, M if A is column-major.
        dtype_str: ``"f16"`` or ``"bf16"``; `out_dtype` is the same (default) or ``"f32"``.
        use_async_copy: operands go to LDS without registers (gfx950); None: where that is possible.
        knobs: block_m, block_n, block_k, stages, split_k, m_waves, n_waves, k_waves, group_m, cshuffle (C goes
            through LDS in 16-byte stores; by default where the tile allows it), atomic and tile_ahead (fragments are
            read from LDS a whole tile ahead, for small tiles).

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    unknown = set(knobs) - set(_KNOBS)
    if unknown:
        raise ValueError(f"build_gemm_module: unknown options {', '.join(sorted(unknown))}; known: {', '.join(_KNOBS)}")
    return dense_launcher(dense_config(
        "build_gemm_module", target, n=N, k=K, dtype=dtype_str, out_dtype=out_dtype or dtype_str, layout=layout,
        bias=bias, scheduled=scheduled, use_async=use_async_copy, **{"cshuffle": None, **knobs}))


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


def check_a16w16(a: Any, b: Any, bias: Any, layout: str) -> tuple[int, int, int, str]:
    """(M, N, K, dtype name) of a product of matrices. TypeError or ValueError says what does not agree."""
    where = "gemm_a16w16"
    dtype = dtype_name(a, where, ("f16", "bf16"))
    if dtype_name(b, where, ("f16", "bf16")) != dtype:
        raise TypeError(f"{where}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if layout not in LAYOUTS:
        raise ValueError(f"{where}: layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    first, second = (tuple(x.shape) for x in (a, b))
    if len(first) != 2 or len(second) != 2:
        raise ValueError(f"{where}: operands must be matrices, got shapes {first} and {second}")
    (m, k), (k2, n) = (s if letter == "n" else s[::-1] for s, letter in zip((first, second), layout, strict=True))
    if k != k2:
        raise ValueError(f"{where}: the reduction lengths differ ({k} and {k2}) for layout {layout!r} and shapes "
                         f"{first}, {second}")
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"{where}: bias must have shape {(n,)}, got {tuple(bias.shape)}")
    if bias is not None:
        dtype_name(bias, f"{where}: bias")
    return m, n, k, dtype


def plan_a16w16(target: Target, a: Any, b: Any, bias: Any, layout: str, result: str,
                choose: Callable[..., dict[str, Any]] = dense_knobs,
                flags: Callable[[DenseConfig], Any] | None = None) -> Plan | None:
    """What computes ``op(a) op(b) + bias`` in the dtype name `result`.

    An operand whose stored rows the layout cannot take (M or N of a row-major side not a multiple of 8, K likewise) is
    copied: turned around where that helps, or filled up with zeros along k.

    Args:
        choose: ``choose(target, m, n, k, layout)`` gives the options of :func:`build_gemm_module`.
        flags: gives the semaphores and signals of slices that are added in place, if any are chosen.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not agree or are not supported.
    """
    m, n, k, dtype = check_a16w16(a, b, bias, layout)
    if m == 0 or n == 0:
        return None
    if k == 0:  # a sum over nothing, as in the gradient of a weight without rows
        return Plan(None, lambda out: (), finish=lambda out: copy_into(out, 0 if bias is None else bias))
    a, b, layout, k = _fitting(a, b, layout, m, n, k)
    knobs = choose(target, m, n, k, layout)
    run = build_gemm_module(n, k, dtype, result, layout, bias is not None, None, target=target, **knobs)
    workspace = None
    if run.config.atomic:
        assert flags is not None  # who chooses such slices gives them
        workspace = flags(run.config)
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
