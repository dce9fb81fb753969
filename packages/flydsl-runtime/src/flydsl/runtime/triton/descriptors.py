"""Tensor descriptors that a program makes on the host, as a kernel takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TensorMove:
    """The 20 words of a tensor move's descriptor (groups of 4, 8, 4 and 4), and the tensor that it moves."""

    base: Any
    words: ctypes.Array[ctypes.c_uint32]


def arguments(descriptor: Any, facts: Mapping[str, Any] | None, warps: int,
              name: str) -> Iterator[tuple[str, Any, str]]:
    """Type, value and name of the kernel's arguments for a descriptor.

    :param facts: what the compiler says of the tensor moves that use it (gfx1250); None for a target without tensor
        moves, whose kernels take the parts of a descriptor
    """
    if facts is not None:
        yield "tensordesc", TensorMove(descriptor.base, encode(descriptor, facts, warps)), name
    else:
        yield "*i8", descriptor.base, name
        for number in (*descriptor.shape, *descriptor.strides):
            yield "i64", number, name
        yield "i1", getattr(descriptor, "padding", "zero") == "nan", name
        if hasattr(descriptor, "round_f32_to_tf32"):
            yield "i1", descriptor.round_f32_to_tf32, name
    for number in descriptor.shape:
        yield "i32", number, name
    for number in descriptor.strides:
        yield "i64", number, name


def encode(descriptor: Any, facts: Mapping[str, Any], warps: int) -> ctypes.Array[ctypes.c_uint32]:
    """The descriptor of a tensor move as the ISA has it, of the part of the block that each wave moves.

    Raises ValueError for a tensor that it cannot describe.
    """
    bits, block = facts["elem_bits"], facts["block_size"]
    rank = len(block)
    if not len(descriptor.shape) == len(descriptor.strides) == rank <= 5:
        raise ValueError(f"a tensor descriptor has at most 5 dimensions, those of its block: "
                         f"shape {list(descriptor.shape)}, block {list(block)}")
    # The innermost dimension comes first; what a tensor does not have is zero.
    shape, stride, tile = ([*reversed(extents), *[0] * (5 - rank)]
                           for extents in (descriptor.shape, descriptor.strides, wave_block(block, warps)))
    padded, interval, amount = 0, 1, 0
    for every, extra in facts.get("interval_padding_pairs") or ():  # of elements; the hardware counts words
        if every * bits >= 32 and extra * bits >= 32:
            padded, interval, amount = 1, every * bits // 32, extra * bits // 32 - 1
    fields = [
        (1, 64), (descriptor.base.data_ptr(), 62), (2, 2),  # predicate (the kernel adds the LDS address); type
        (0, 16), ((bits // 8).bit_length() - 1, 2), (0, 2), (padded, 1), (0, 1),
        (max(interval.bit_length() - 2, 0), 3), (amount, 7), (0, 16),
        (shape[0], 32), (shape[1], 32), (tile[0], 16), (tile[1], 16), (tile[2], 16), (stride[1], 48), (stride[2], 48),
        (shape[2], 32), (shape[3], 32), (stride[3], 48), (tile[3], 16),
        (stride[4], 48), (shape[4], 32), (tile[4], 16), (0, 32),
    ]
    number = at = 0
    for value, width in fields:
        if not 0 <= value < 1 << width:
            raise ValueError(f"{value} does not fit into {width} bits of a tensor descriptor: shape "
                             f"{list(descriptor.shape)}, strides {list(descriptor.strides)}, block {list(block)}")
        number |= value << at
        at += width
    return (ctypes.c_uint32 * 20).from_buffer_copy(number.to_bytes(80, "little"))


def wave_block(block: Sequence[int], warps: int) -> list[int]:
    """What each wave moves of a block: Triton halves the outer dimensions first, a single one by waves."""
    if len(block) == 1:
        return [-(-block[0] // warps)]
    parts = []
    for extent in block:
        share = 1
        while warps > 1 and share * 2 <= extent:
            share, warps = share * 2, warps // 2
        parts.append(-(-extent // share))
    return parts
