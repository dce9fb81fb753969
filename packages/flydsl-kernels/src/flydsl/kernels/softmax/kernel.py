"""Row softmax and its gradient.

Forward: ``p = exp2((x - max) * log2 e)``, ``p / sum p``. Backward: ``dx = y * (dy - sum(dy * y))``. All arithmetic
is in f32 and one rounding happens at the store. A row is read once: it stays in registers between the passes, except
rows that do not fit, which are read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dense import require_dense, require_held
from ..host.dtypes import FLOATS, float_dtype
from ..parts.mathx import LOG2E, exp2
from ..parts.reduce import Lds, add, reduce_rows
from ..parts.rows import Held, Place, RowPlan, Rows, each, fits_registers, fold, launch_rows, plan_rows
from ..target import Target, builder

__all__ = ["build_softmax_bwd_module", "build_softmax_module", "softmax_bwd_buffered_operands"]

BOTH_RESIDENT, ONE_RESIDENT = 16384, 32768  # columns up to which the backward always keeps two operands, one operand
STREAMED = 2  # cache modifier: written data are not read again


@dataclass(frozen=True)
class _Config(KernelConfig):
    dtype: str
    plan: RowPlan
    resident: int  # operands kept in registers

    @property
    def threads(self) -> int:
        return self.plan.threads

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (fx.ceildiv(m, self.plan.rows),)


def _config(target: Target, n: int, dtype: str, resident: int) -> _Config:
    return _Config(dtype, plan_rows(n, FLOATS[dtype].width, target.wave), resident, target=target)


@flyc.kernel
def _softmax_kernel(X, Y, m: fx.Int32, config: fx.Constexpr):
    plan, element, lds = config.plan, FLOATS[config.dtype], Lds()
    tiles, keep = plan.tiles, config.resident > 0
    place = Place(plan, m)
    rows, y = Rows(X, element, place), Rows(Y, element, place, STREAMED)
    x = Held(rows.load, tiles, keep)

    def masked(i):
        return place.masked(i, x[i].to(fx.Float32), -math.inf)

    with fx.fastmath("contract"):
        low, zero = (fx.full(plan.vec, v, fx.Float32) for v in (-math.inf, 0.0))
        top = fold(tiles, keep, low, lambda total, i: fx.maxnumf(total, masked(i)))
        (top,) = reduce_rows(place, [top.reduce("max")], fx.maxnumf, lds)
        power = Held(lambda i: exp2((masked(i) - top) * LOG2E), tiles, keep)
        total = fold(tiles, keep, zero, lambda total, i: total + power[i])
        (total,) = reduce_rows(place, [total.reduce("add")], add, lds)
        scale = 1.0 / total
        each(tiles, keep, lambda i: y.store(i, power[i] * scale))


@flyc.kernel
def _softmax_bwd_kernel(DY, Y, DX, m: fx.Int32, config: fx.Constexpr):
    plan, element, lds = config.plan, FLOATS[config.dtype], Lds()
    tiles, unroll = plan.tiles, config.resident > 0
    place = Place(plan, m)
    y_rows, dy_rows, dx = Rows(Y, element, place), Rows(DY, element, place), Rows(DX, element, place, STREAMED)
    y = Held(y_rows.load, tiles, config.resident > 0)
    dy = Held(dy_rows.load, tiles, config.resident > 1)

    def pair(i):
        return dy[i].to(fx.Float32), y[i].to(fx.Float32)

    def product(i):
        g, p = pair(i)
        return g * p

    def gradient(i, dot):
        g, p = pair(i)
        return p * (g - dot)

    with fx.fastmath("contract"):
        dot = fold(tiles, unroll, fx.full(plan.vec, 0.0, fx.Float32), lambda total, i: total + product(i))
        (dot,) = reduce_rows(place, [dot.reduce("add")], add, lds)
        each(tiles, unroll, lambda i: dx.store(i, gradient(i, dot)))


def _columns(n: Any, where: str) -> int:
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"{where}: N must be a positive int, got {n!r}")
    return n


def _require_matrices(tensors: dict[str, Any], m: Any, n: int, dtype: str) -> None:
    """From a jit function: a call is refused of tensors with gaps, or with less than m rows."""
    require_dense(tensors)
    require_held(tensors, tensors, fx.Int64(m) * n, FLOATS[dtype])


@builder
def build_softmax_module(M: Any, N: int, dtype_str: str = "f32", *, target: Target):  # noqa: N803 - the specified names
    """Launcher ``launch(A, C, m_in, stream=None)`` of ``C = softmax(A)`` over rows of N elements.

    Args:
        M: ignored; rows are given at the call.
        N: columns, any positive number.
        dtype_str: ``"f32"``, ``"f16"`` or ``"bf16"``, of both matrices.

    A and C are row-major (m_in, N) tensors or pointers to such storage.

    Raises:
        ValueError: N or dtype_str is not supported.
    """
    n, dtype = _columns(N, "build_softmax_module"), float_dtype(dtype_str, "build_softmax_module")
    config = _config(target, n, dtype, int(fits_registers(n)))

    @flyc.jit
    def softmax(A, C, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        _require_matrices({"A": A, "C": C}, m_in, n, dtype)
        launch_rows(lambda: _softmax_kernel(A, C, m_in, config), m_in, config.plan.rows, config.threads, stream)

    return softmax


def softmax_bwd_buffered_operands(N: int, dtype: str) -> int:  # noqa: N803
    """How many operands of the backward stay in registers at least: 2 (dY and Y), 1 (Y) or 0."""
    float_dtype(dtype, "softmax_bwd_buffered_operands")
    return 2 if N <= BOTH_RESIDENT else int(N <= ONE_RESIDENT)


def _resident(n: int, dtype: str) -> int:
    """How many the kernel keeps: where registers have room one more, as L2 no longer has what rows of this length read
    again. It costs waves but no spills."""
    return min(softmax_bwd_buffered_operands(n, dtype) + fits_registers(n), 2)


@builder
def build_softmax_bwd_module(N: int, dtype_str: str = "f32", *, target: Target):  # noqa: N803
    """Launcher ``launch(dY, Y, dX, m_in, stream=None)`` of ``dX = Y * (dY - sum(dY * Y))`` over rows of N elements.

    Args:
        N: columns, any positive number.
        dtype_str: ``"f32"``, ``"f16"`` or ``"bf16"``, of the three matrices.

    Raises:
        ValueError: N or dtype_str is not supported.
    """
    n, dtype = _columns(N, "build_softmax_bwd_module"), float_dtype(dtype_str, "build_softmax_bwd_module")
    config = _config(target, n, dtype, _resident(n, dtype))

    @flyc.jit
    def softmax_bwd(dY, Y, dX, m_in: fx.Int32, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        target.require_traced()
        _require_matrices({"dY": dY, "Y": Y, "dX": dX}, m_in, n, dtype)
        launch_rows(lambda: _softmax_bwd_kernel(dY, Y, dX, m_in, config), m_in, config.plan.rows, config.threads,
                    stream)

    return softmax_bwd
