"""Rows of a table, copied by index; the gradient adds rows to the table's f32 sums by atomics.

Tables may be larger than a buffer descriptor reaches: rows of the table are addressed with 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import require_dense
from ..host.dtypes import FLOATS, float_dtype
from ..parts.indices import index_at, require_within
from ..parts.memory import MOST_BITS, Buffer, pointer
from ..parts.rows import THREADS, Units
from ..target import Target, builder

__all__ = ["build_embedding_bwd_module", "build_embedding_module"]


@dataclass(frozen=True)
class _Config(KernelConfig):
    n: int
    dtype: str
    vec: int
    backward: bool

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def units(self) -> Units:
        """The vectors of a row."""
        return Units(self.n // self.vec)

    def grid(self, m: Any) -> tuple[Any, ...]:
        return self.units.grid(m)


@flyc.kernel
def _embedding_kernel(tensors, m: fx.Int32, table_rows: fx.Int32, padding: fx.Int32, config: fx.Constexpr):
    element, n, vec = FLOATS[config.dtype], config.n, config.vec
    units = config.units
    row, unit = units.place()
    first = fx.block_idx.x * units.rows
    count = fx.min(m - first, units.rows)
    rows = Buffer(tensors["rows"], element, fx.Int64(first) * n, count * n)
    if (row < count) & (unit < units.count):
        index = require_within(index_at(tensors["indices"], first + row), 0, fx.Int64(table_rows))
        at = fx.Int64(index) * n + fx.Int64(unit * vec)
        if fx.const_expr(config.backward):
            if index != padding:
                value = rows.load(row * n + unit * vec, vec).to(fx.Float32)
                sums = pointer(tensors["table"], fx.Float32) + at
                for i in fx.range_constexpr(vec):
                    fx.atomic_add(sums + i, value[i])
        else:
            register = fx.make_rmem_tensor(vec, element)
            atom = fx.make_copy_atom(fx.UniversalCopy(vec * element.width), element)
            fx.copy(atom, fx.make_view(pointer(tensors["table"], element) + at, fx.make_layout(vec, 1)), register)
            rows.store(row * n + unit * vec, register.load())


def _config(where: str, target: Target, n: int, dtype: str, vector: int, backward: bool) -> _Config:
    float_dtype(dtype, where)
    require(where, isinstance(n, int) and n >= 1, f"N must be a positive int, got {n!r}")
    most = MOST_BITS // FLOATS[dtype].width
    require(where, vector >= 1 and most % vector == 0 and n % vector == 0,
            f"vector must be a power of two of at most {most} that divides {n}, got {vector!r}")
    return _Config(n, dtype, vector, backward, target=target)


@builder
def build_embedding_module(N: int, dtype: str = "bf16", vector: int = 1, *, target: Target):  # noqa: N803
    """``launch(Table, Indices, Out, m, table_rows, stream=None)``: ``Out[i, :] = Table[Indices[i], :]``.

    Args:
        N: columns of Table (table_rows, N) and Out (m, N), both row-major.
        dtype: of both: ``"f32"``, ``"f16"`` or ``"bf16"``.
        vector: elements that a thread copies at once; both are aligned to it.

    Indices are int32 or int64; one outside the table stops the launch.
    """
    config = _config("build_embedding_module", target, N, dtype, vector, False)

    @flyc.jit
    def embedding(Table, Indices, Out, m: fx.Int32, table_rows: fx.Int32,  # noqa: N803
                  stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"table": Table, "indices": Indices, "rows": Out}
        require_dense(tensors)
        _embedding_kernel(tensors, m, table_rows, fx.Int32(-1), config).launch(
            grid=config.grid(m), block=THREADS, stream=stream)

    return embedding


@builder
def build_embedding_bwd_module(N: int, dtype: str = "bf16", vector: int = 1, *, target: Target):  # noqa: N803
    """``launch(DY, Indices, DTable, m, table_rows, padding, stream=None)``: ``DTable[Indices[i], :] += DY[i, :]``.

    DTable is f32 and holds zeros, or sums to add to; DY has the `dtype`. Rows with the index `padding` (-1: none) are
    left out. The order of the sums is not defined.
    """
    config = _config("build_embedding_bwd_module", target, N, dtype, vector, True)

    @flyc.jit
    def embedding_bwd(DY, Indices, DTable, m: fx.Int32, table_rows: fx.Int32, padding: fx.Int32,  # noqa: N803
                      stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"table": DTable, "indices": Indices, "rows": DY}
        require_dense(tensors)
        _embedding_kernel(tensors, m, table_rows, padding, config).launch(
            grid=config.grid(m), block=THREADS, stream=stream)

    return embedding_bwd
