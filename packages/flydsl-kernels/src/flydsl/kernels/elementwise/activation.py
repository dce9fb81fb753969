"""Activations, alone and gated, and their gradients: read once, computed in f32, written once.

Alone, the operand is one vector, cut into pieces of a workgroup. Gated, a row is ``(gate, up)`` of N columns each and
the result ``act(gate) * up``; or both are vectors of their own, a *pair*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import require_dense
from ..host.dtypes import FLOATS, float_dtype
from ..parts.memory import Buffer
from ..parts.rows import THREADS, Units
from ..target import Target, builder
from .add import VECTOR_BITS
from .functions import ACTIVATIONS

__all__ = ["build_activation_module"]

STREAMED = 2  # cache modifier: written data are not read again


@dataclass(frozen=True)
class _Config(KernelConfig):
    kind: str
    parameter: float
    dtype: str
    columns: int  # of a row of the result; of a workgroup's piece where not gated
    vec: int
    gated: bool
    pair: bool
    backward: bool

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def units(self) -> Units:
        """The vectors of a row."""
        return Units(self.columns // self.vec)

    @property
    def block(self) -> int:
        """Elements of the result of a workgroup."""
        return self.units.rows * self.columns

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for m elements of the result (Int64)."""
        return (((m + (self.block - 1)) // self.block).to(fx.Int32), self.units.across)


def _gradients(act: Any, parameter: float, dy: Any, x: Any, up: Any) -> tuple[Any, ...]:
    slope = dy * act.slope(x, parameter)
    return (slope,) if up is None else (slope * up, dy * act.value(x, parameter))


@flyc.kernel
def _activation_kernel(tensors, total: fx.Int64, config: fx.Constexpr):
    """`total` is the number of elements of the result (of dy in the backward)."""
    act, element, columns, vec = ACTIVATIONS[config.kind], FLOATS[config.dtype], config.columns, config.vec
    row, unit = config.units.place()
    parts = 2 if config.gated else 1
    first = fx.Int64(fx.block_idx.x) * config.block
    count = fx.min(total - first, fx.Int64(config.block)).to(fx.Int32)
    wide = Buffer(tensors["x"], element, first * parts, count * parts)
    narrow = Buffer(tensors["y"], element, first, count)
    at, column = row * columns + unit * vec, unit * vec
    where = row * (columns * parts) + column
    if (unit < config.units.count) & (at < count):
        with fx.fastmath("contract"):
            x = wide.load(where, vec).to(fx.Float32)
            up = None
            if fx.const_expr(config.gated):
                up = wide.load(where + columns, vec).to(fx.Float32)
            elif fx.const_expr(config.pair):
                up = Buffer(tensors["up"], element, first, count).load(at, vec).to(fx.Float32)
            if fx.const_expr(config.backward):
                dy = narrow.load(at, vec).to(fx.Float32)
                gradients = _gradients(act, config.parameter, dy, x, up)
                for i in fx.range_constexpr(len(gradients)):
                    out = Buffer(tensors["dup" if config.pair and i else "dx"], element, first * parts, count * parts)
                    out.store(where if config.pair else where + i * columns, gradients[i].to(element), STREAMED)
            else:
                y = act.value(x, config.parameter)
                if fx.const_expr(up is not None):
                    y = y * up
                narrow.store(at, y.to(element), STREAMED)


@builder
def build_activation_module(kind: str, dtype: str = "bf16", *, vector: int | None = None, columns: int | None = None,
                            pair: bool = False, parameter: float = 0.0, backward: bool = False, target: Target):
    """``launch(X, Y, total, stream=None)`` of ``Y = act(X)``, or ``launch(DY, X, DX, total, stream=None)``; of a pair
    ``launch(GATE, UP, Y, ...)`` or ``launch(DY, GATE, UP, DGATE, DUP, ...)``.

    Args:
        kind: ``"silu"``, ``"gelu"`` (by erf), ``"gelu_tanh"`` or ``"soft_cap"`` (``p * tanh(x / p)``).
        dtype: of all operands: ``"f32"``, ``"f16"`` or ``"bf16"``.
        vector: elements that a thread accesses at once, a divisor of `columns` or `total`; 128 bits by default.
        columns: gated, ``act(gate) * up`` of rows ``(gate, up)`` of 2 `columns`; not gated if None.
        pair: gated, ``act(gate) * up`` of two operands.
        parameter: p of the activation.
        backward: the gradient of X.

    `total` is the number of elements of Y (Int64).

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_activation_module"
    float_dtype(dtype, where)
    require(where, kind in ACTIVATIONS, f"kind must be one of {', '.join(ACTIVATIONS)}, got {kind!r}")
    require(where, kind != "soft_cap" or parameter > 0, f"the cap must be positive, got {parameter!r}")
    most = VECTOR_BITS // FLOATS[dtype].width
    vec = most if vector is None else vector
    require(where, vec >= 1 and most % vec == 0, f"vector must be a power of two of at most {most}, got {vector!r}")
    require(where, columns is None or (columns >= 1 and columns % vec == 0),
            f"columns must be a multiple of the vector {vec}, got {columns!r}")
    require(where, columns is None or not pair, "a pair has no rows of both, so no columns")
    config = _Config(kind, float(parameter), dtype, columns or THREADS * vec, vec, columns is not None, pair, backward,
                     target=target)

    def run(tensors, total, stream):
        target.require_traced()
        require_dense(tensors)
        _activation_kernel(tensors, total, config).launch(grid=config.grid(total), block=THREADS, stream=stream)

    if pair and backward:

        @flyc.jit
        def pair_bwd(DY, GATE, UP, DGATE, DUP, total: fx.Int64, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
            run({"y": DY, "x": GATE, "up": UP, "dx": DGATE, "dup": DUP}, total, stream)

        return pair_bwd

    if pair:

        @flyc.jit
        def activation_pair(GATE, UP, Y, total: fx.Int64, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
            run({"x": GATE, "up": UP, "y": Y}, total, stream)

        return activation_pair

    if backward:

        @flyc.jit
        def activation_bwd(DY, X, DX, total: fx.Int64, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
            run({"y": DY, "x": X, "dx": DX}, total, stream)

        return activation_bwd

    @flyc.jit
    def activation(X, Y, total: fx.Int64, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        run({"x": X, "y": Y}, total, stream)

    return activation
