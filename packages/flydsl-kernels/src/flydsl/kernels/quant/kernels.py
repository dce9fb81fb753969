"""Quantisation and dequantisation kernels: a scale per row, per group of columns, per 128 x 128 block, per tensor.

A scale is ``max|x| / Qmax`` (1 where all is zero) and multiplies the stored value to give x back. Each input is read
once: a group stays in registers between its maximum and its store. A group that holds a NaN or an infinity gets a scale
that is one, so that it dequantises to NaN: nothing is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dtypes import element_of
from ..parts.convert import PER_WORD, e8m0_value, pack_int4, scale_of, to_quantised, unpack
from ..parts.memory import pointer
from ..parts.reduce import Lds, amax_of, block_reduce, magnitude
from ..parts.rows import Held, Place, Rows, each, fold
from .groups import GroupPlan, Groups

__all__ = [
    "GROUP", "QuantConfig", "amax_kernel", "block_quant_kernel", "group_dequant_kernel", "group_quant_kernel",
    "pack_int4_kernel", "tensor_quant_kernel", "unpack_int4_kernel",
]

GROUP = 128


@dataclass(frozen=True)
class QuantConfig(KernelConfig):
    """A quantisation or dequantisation kernel.

    Attributes:
        dtype: of the high-precision side, ``"f32"``, ``"f16"`` or ``"bf16"``.
        quant: ``"i8"``, ``"i4"`` or ``"fp8"``; dequantisation also ``"fp4"`` and ``"e4m3"``.
        rounding: of integers.
        groups: the unit of one scale.
        keep: a group stays in registers.
        packed: two 4-bit values a byte.
        scale: element type of the scales: ``"f32"``, ``"bf16"`` or ``"e8m0"``.
        per_tensor: one scale for all.
    """

    dtype: str
    quant: str
    rounding: str
    groups: GroupPlan
    keep: bool = True
    packed: bool = False
    scale: str = "f32"
    per_tensor: bool = False

    @property
    def threads(self) -> int:
        return self.groups.rows.threads

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (fx.ceildiv(m * self.groups.count, self.groups.rows.rows),)


@flyc.kernel
def group_quant_kernel(X, Q, Scale, m: fx.Int32, config: fx.Constexpr):
    """Groups of columns of an (m, n) matrix, or whole rows, with one scale each."""
    plan, lds = config.groups.rows, Lds()
    place = Groups(config.groups, m)
    x = place.elements(X, element_of(config.dtype))
    row = Held(lambda i: x.load(i).to(fx.Float32), plan.tiles, config.keep)
    scale = scale_of(amax_of(place, row, config.keep, lds), config.quant, config.target)
    element = element_of(config.scale)
    if fx.const_expr(config.scale != "f32"):
        scale = scale.to(element).to(fx.Float32)  # what the reader of the scale multiplies by
    inverse = 1.0 / scale
    if place.lane == 0:
        if place.exists:
            (pointer(Scale, element) + place.scale_at).store(scale.to(element))

    def quantised(i):
        return to_quantised(row[i] * inverse, config.quant, config.rounding, config.target)

    if fx.const_expr(config.packed):
        words = place.words(Q, PER_WORD["i4"])
        each(plan.tiles, config.keep, lambda i: words.store(i, packed_words(quantised(i))))
    else:
        out = place.elements(Q, element_of(config.quant, config.target))
        each(plan.tiles, config.keep, lambda i: out.store(i, quantised(i)))


def packed_words(values: Any) -> list[Any]:
    """Words of a vector of int4 in bytes."""
    eight = PER_WORD["i4"]
    return [pack_int4([values[w + i] for i in range(eight)]) for w in range(0, values.numel, eight)]


@flyc.kernel
def group_dequant_kernel(Q, Scale, X, m: fx.Int32, config: fx.Constexpr):
    """``x = q * scale`` of groups with one scale each, or of a tensor with one scale."""
    plan = config.groups.rows
    place = Groups(config.groups, m)
    at = fx.Int32(0) if config.per_tensor else place.exists.select(place.scale_at, 0)
    scale = (pointer(Scale, element_of(config.scale)) + at).load()
    scale = e8m0_value(scale.to(fx.Int32) & 0xFF) if config.scale == "e8m0" else scale.to(fx.Float32)
    out = place.elements(X, element_of(config.dtype))
    if fx.const_expr(config.quant in PER_WORD):
        words = place.words(Q, PER_WORD[config.quant])
        each(plan.tiles, config.keep, lambda i: out.store(i, unpack(words.load(i), config.quant) * scale))
    else:
        q = place.elements(Q, fx.Int8 if config.quant == "i8" else config.target.fp8)
        each(plan.tiles, config.keep, lambda i: out.store(i, q.load(i).to(fx.Float32) * scale))


@flyc.kernel
def pack_int4_kernel(Values, Packed, m: fx.Int32, config: fx.Constexpr):
    """int8 values -8..7 of an (m, n) matrix as (m, n/2) bytes."""
    place = Groups(config.groups, m)
    values, words = place.elements(Values, fx.Int8), place.words(Packed, PER_WORD["i4"])
    each(place.plan.tiles, config.keep, lambda i: words.store(i, packed_words(values.load(i))))


@flyc.kernel
def unpack_int4_kernel(Packed, Values, m: fx.Int32, config: fx.Constexpr):
    """The inverse of :func:`pack_int4_kernel`."""
    place = Groups(config.groups, m)
    words, values = place.words(Packed, PER_WORD["i4"]), place.elements(Values, fx.Int8)
    each(place.plan.tiles, config.keep, lambda i: values.store(i, unpack(words.load(i), "i4")))


@flyc.kernel
def block_quant_kernel(X, Q, Scale, m: fx.Int32, n: fx.Constexpr[int], config: fx.Constexpr):
    """One workgroup quantises a block of 128 x 128 with one scale, stored (row blocks, column blocks).

    ``config.groups.rows`` describes the 128 columns of a block: how many lanes a row has and how many rows go together.
    """
    plan, lds = config.groups.rows, Lds()
    thread, bx, by = fx.thread_idx.x, fx.block_idx.x, fx.block_idx.y
    rows_left = fx.min(m - by * GROUP, GROUP)
    row, column = thread // plan.lanes, bx * GROUP + thread % plan.lanes * plan.vec
    source, target_type = element_of(config.dtype), element_of(config.quant, config.target)
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
    top = fx.full(plan.vec, 0, fx.Int32)
    for value in values:
        top = fx.max(top, magnitude(value))
    (top,) = block_reduce([top.reduce("max")], fx.max, thread, plan.threads, lds)
    scale = scale_of(top.bitcast(fx.Float32), config.quant, config.target)
    inverse = 1.0 / scale
    if thread == 0:
        (pointer(Scale, fx.Float32) + by * (-(-n // GROUP)) + bx).store(scale)
    for i in fx.range_constexpr(passes):
        register = fx.make_rmem_tensor(plan.vec, target_type)
        register.store(to_quantised(values[i] * inverse, config.quant, config.rounding, config.target))
        fx.copy(store, register, view(q, i, target_type))


@flyc.kernel
def amax_kernel(X, Amax, m: fx.Int32, config: fx.Constexpr):
    """Fold the maximum magnitude of some rows into Amax, the bits of a float that starts at zero."""
    plan, lds = config.groups.rows, Lds()
    place = Place(plan, m)
    x = Rows(X, element_of(config.dtype), place)
    zero = fx.full(plan.vec, 0, fx.Int32)
    top = fold(plan.tiles, config.keep, zero, lambda total, i: fx.max(total, magnitude(x.load(i).to(fx.Float32))))
    (top,) = block_reduce([top.reduce("max")], fx.max, place.thread, plan.threads, lds)
    if place.thread == 0:
        # Without a scope, which is the whole system, LLVM makes a loop of it.
        fx.llvm.atomic_max(pointer(Amax, fx.Int32).llvm_ptr, top, syncscope="agent")


@flyc.kernel
def tensor_quant_kernel(X, Q, Scale, Amax, m: fx.Int32, dynamic: fx.Constexpr[bool], config: fx.Constexpr):
    """Quantise by one scale: the given one, or that of Amax, which is then stored in Scale."""
    plan = config.groups.rows
    place = Place(plan, m)
    if fx.const_expr(dynamic):
        scale = scale_of(pointer(Amax, fx.Float32).load(), config.quant, config.target)
        if fx.block_idx.x == 0:
            if place.thread == 0:
                pointer(Scale, fx.Float32).store(scale)
    else:
        scale = pointer(Scale, fx.Float32).load()
    inverse = 1.0 / scale
    x, out = Rows(X, element_of(config.dtype), place), Rows(Q, element_of(config.quant, config.target), place)

    def quantised(i):
        return to_quantised(x.load(i).to(fx.Float32) * inverse, config.quant, config.rounding, config.target)

    each(plan.tiles, config.keep, lambda i: out.store(i, quantised(i)))
