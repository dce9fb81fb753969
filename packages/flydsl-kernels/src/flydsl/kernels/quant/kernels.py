"""Quantisation and dequantisation kernels: a scale per row, per group of 128 columns, per 128 x 128 block, per tensor.

A scale is ``max|x| / Qmax`` (1 where all is zero) and multiplies the stored value to give x back. Each input is read
once: a group stays in registers between its maximum and its store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.convert import from_quantised, quantised_max, to_quantised
from ..common.dtypes import element_of
from ..common.reduce import Lds, block_reduce, fmax, reduce_rows
from ..common.rows import Held, Place, RowPlan, Rows, RowScalars, each, fold, pointer

__all__ = [
    "GROUP", "QuantConfig", "amax_kernel", "block_quant_kernel", "dequant_kernel", "row_quant_kernel",
    "tensor_quant_kernel",
]  # fmt: skip

GROUP = 128


@dataclass(frozen=True)
class QuantConfig:
    """A quantisation kernel.

    Attributes:
        dtype: of the high-precision side, ``"f32"``, ``"f16"`` or ``"bf16"``.
        quant: ``"i8"`` or ``"fp8"``.
        rounding: of int8.
        plan: of the rows (or groups) of one scale.
        groups: groups of a row of the matrix; 1 when a row has one scale.
        transposed: scales are stored (groups, m) instead of (m, groups).
        keep: a row stays in registers.
    """

    dtype: str
    quant: str
    rounding: str
    plan: RowPlan
    groups: int = 1
    transposed: bool = False
    keep: bool = True


def _scale_of(top: Any, quant: str) -> Any:
    return (top == 0.0).select(1.0, top / quantised_max(quant))


@flyc.kernel
def row_quant_kernel(X, Q, Scale, m: fx.Int32, config: fx.Constexpr):
    """Rows of ``config.plan.n`` elements with one scale each; `m` counts them."""
    plan, lds = config.plan, Lds()
    place = Place(plan, m)
    x = Rows(X, element_of(config.dtype), place)
    row = Held(lambda i: x.load(i).to(fx.Float32), plan.tiles, config.keep)
    zero = fx.full(plan.vec, 0.0, fx.Float32)
    top = fold(plan.tiles, config.keep, zero, lambda total, i: fmax(total, place.masked(i, abs(row[i]), 0.0)))
    (top,) = reduce_rows(place, [top.reduce("max")], fmax, lds)
    scale = _scale_of(top, config.quant)
    inverse = 1.0 / scale
    if place.lane == 0:
        if fx.const_expr(config.transposed):
            number = place.first if place.row is None else place.first + place.row
            if number < m:
                at = (number % config.groups) * (m // config.groups) + number // config.groups
                (pointer(Scale, fx.Float32) + at).store(scale)
        else:
            RowScalars(Scale, fx.Float32, place).store(scale)
    out = Rows(Q, element_of(config.quant), place)
    each(plan.tiles, config.keep,
         lambda i: out.store(i, to_quantised(row[i] * inverse, config.quant, config.rounding)))  # fmt: skip


@flyc.kernel
def block_quant_kernel(X, Q, Scale, m: fx.Int32, n: fx.Constexpr[int], config: fx.Constexpr):
    """One workgroup quantises a block of 128 x 128 with one scale, stored (row blocks, column blocks).

    ``config.plan`` describes the 128 columns of a block: ``plan.lanes`` lanes a row, ``plan.rows`` rows at a time.
    """
    plan, lds = config.plan, Lds()
    thread, bx, by = fx.thread_idx.x, fx.block_idx.x, fx.block_idx.y
    rows_left = fx.min(m - by * GROUP, GROUP)
    row, column = thread // plan.lanes, bx * GROUP + thread % plan.lanes * plan.vec
    source, target_type = element_of(config.dtype), element_of(config.quant)
    first = fx.Int64(by * GROUP) * n
    passes = GROUP // plan.rows

    def buffer(data, element):
        records = fx.Int64(rows_left) * (n * element.width // 8)
        return fx.rocdl.make_buffer_ptr(pointer(data, element) + first, records)

    def view(base, i, element):
        at = (row + i * plan.rows) * n + column
        at = (column < n).select(at, (1 << 30) // (element.width // 8))
        return fx.make_view(base + at, fx.make_layout(plan.vec, 1))

    x, q = buffer(X, source), buffer(Q, target_type)
    load = fx.make_copy_atom(fx.rocdl.BufferCopy(plan.vec * source.width), source)
    store = fx.make_copy_atom(fx.rocdl.BufferCopy(plan.vec * target_type.width), target_type)
    values = []
    for i in fx.range_constexpr(passes):
        register = fx.make_rmem_tensor(plan.vec, source)
        fx.copy(load, view(x, i, source), register)
        values.append(register.load().to(fx.Float32))
    top = fx.full(plan.vec, 0.0, fx.Float32)
    for value in values:
        top = fmax(top, abs(value))
    (top,) = block_reduce([top.reduce("max")], fmax, thread, plan.threads, lds)
    scale = _scale_of(top, config.quant)
    inverse = 1.0 / scale
    if thread == 0:
        (pointer(Scale, fx.Float32) + by * (-(-n // GROUP)) + bx).store(scale)
    for i in fx.range_constexpr(passes):
        register = fx.make_rmem_tensor(plan.vec, target_type)
        register.store(to_quantised(values[i] * inverse, config.quant, config.rounding))
        fx.copy(store, register, view(q, i, target_type))


@flyc.kernel
def amax_kernel(X, Amax, m: fx.Int32, config: fx.Constexpr):
    """Add the maximum magnitude of some rows to Amax, i32 bits of a float that starts at zero."""
    plan, lds = config.plan, Lds()
    place = Place(plan, m)
    x = Rows(X, element_of(config.dtype), place)
    zero = fx.full(plan.vec, 0.0, fx.Float32)
    top = fold(plan.tiles, config.keep, zero, lambda total, i: fmax(total, abs(x.load(i).to(fx.Float32))))
    (top,) = block_reduce([top.reduce("max")], fmax, place.thread, plan.threads, lds)
    if place.thread == 0:
        # Bit patterns of non-negative floats are ordered like the floats.
        atom = fx.make_copy_atom(fx.UniversalAtomicMax(fx.Int32), fx.Int32)
        register = fx.make_rmem_tensor(1, fx.Int32)
        register.store(fx.Vector.from_elements([top.bitcast(fx.Int32)], fx.Int32))
        fx.copy(atom, register, fx.make_view(pointer(Amax, fx.Int32), fx.make_layout(1, 1)))


@flyc.kernel
def tensor_quant_kernel(X, Q, Scale, Amax, m: fx.Int32, dynamic: fx.Constexpr[bool], config: fx.Constexpr):
    """Quantise by one scale: the given one, or that of Amax, which is then stored in Scale."""
    plan = config.plan
    place = Place(plan, m)
    if fx.const_expr(dynamic):
        scale = _scale_of(pointer(Amax, fx.Float32).load(), config.quant)
        if fx.block_idx.x == 0:
            if place.thread == 0:
                pointer(Scale, fx.Float32).store(scale)
    else:
        scale = pointer(Scale, fx.Float32).load()
    inverse = 1.0 / scale
    x, out = Rows(X, element_of(config.dtype), place), Rows(Q, element_of(config.quant), place)

    def quantised(i):
        return to_quantised(x.load(i).to(fx.Float32) * inverse, config.quant, config.rounding)

    each(plan.tiles, config.keep, lambda i: out.store(i, quantised(i)))


@flyc.kernel
def dequant_kernel(Q, Scale, X, m: fx.Int32, per_tensor: fx.Constexpr[bool], config: fx.Constexpr):
    """``x = q * scale`` of rows (or groups) with one scale each, or of a tensor with one scale."""
    plan = config.plan
    place = Place(plan, m)
    if fx.const_expr(per_tensor):
        scale = pointer(Scale, fx.Float32).load()
    else:
        scale = RowScalars(Scale, fx.Float32, place).load()
    q, out = Rows(Q, fx.Int8, place), Rows(X, element_of(config.dtype), place)
    each(plan.tiles, config.keep, lambda i: out.store(i, from_quantised(q.load(i), config.quant) * scale))
