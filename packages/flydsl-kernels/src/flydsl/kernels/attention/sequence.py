"""Where the heads of a sequence are: sizes and strides of a call, packed sequences, a head as a matrix."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..parts.indices import require_within
from ..parts.memory import Buffer, pointer
from .config import BackwardConfig, ForwardConfig
from .scores import Band, Logits

__all__ = ["HeldRows", "Sequence", "Sizes", "Strides", "head_matrix", "logits_of", "store_head"]


@fx.struct
class Strides:
    """In elements: from sequence to sequence (or page to page), row to row, head to head."""

    batch: fx.Int64
    row: fx.Int32
    head: fx.Int64


@fx.struct
class Sizes:
    """Shapes and strides, in elements; of packed sequences `rows` is the longest one. `pages`: their number; `splits`:
    workgroups that share the keys of a row. Bounds of the band and the scale."""

    heads: fx.Int32
    rows: fx.Int32
    keys: fx.Int32
    total: fx.Int32
    q: Strides
    k: Strides
    v: Strides
    bias: Strides
    slope_batch: fx.Int32
    descale_batch: fx.Int32
    descale_head: fx.Int32
    table_row: fx.Int32
    pages: fx.Int32
    splits: fx.Int32
    left: fx.Int32
    right: fx.Int32
    scale: fx.Float32
    cap: fx.Float32


class Sequence:
    """The sequence of a workgroup: its rows and keys, and where they begin. More keys than there is room for stop the
    launch.

    Attributes:
        row, key: of packed tensors, the first of the sequence; else None.
        rows, keys: numbers of them.
        shift: the key at the place of row 0.
    """

    def __init__(self, batch: Any, sizes: Any, config: ForwardConfig, starts_q: Any, starts_k: Any,
                 lengths: Any) -> None:
        self.batch, self.rows, self.keys, self.row, self.key = batch, sizes.rows, sizes.keys, None, None
        if starts_q is not None:
            self.row = starts_q[batch]
            self.rows = starts_q[batch + 1] - self.row
        if starts_k is not None:
            self.key = starts_k[batch]
            self.keys = starts_k[batch + 1] - self.key
        if lengths is not None:
            self.keys = require_within(fx.Int64(lengths[batch]), 0, fx.Int64(sizes.keys) + 1)
        self.shift = self.keys - self.rows

    def start(self, first: Any, head: Any, strides: Any) -> Any:
        """The first element of a head."""
        begin = self.batch.to(fx.Int64) * strides.batch if first is None else first.to(fx.Int64) * strides.row
        return begin + head.to(fx.Int64) * strides.head

    def dense(self, first: Any, head: Any, length: Any, heads: Any, columns: int) -> tuple[Any, Any]:
        """The first element of a head, and the elements of a row, of a dense [B, length, heads, columns]."""
        row = heads * columns
        return self.start(first, head, Strides(fx.Int64(length) * row, row, fx.Int64(columns))), row

    def statistic(self, head: Any, sizes: Any) -> Any:
        """The place of row 0 of a head among values a row, [B, H, Sq] or packed [H, total]."""
        if self.row is None:
            return (self.batch * sizes.heads + head) * sizes.rows
        return head * sizes.total + self.row


def head_matrix(data: Any, element: Any, start: Any, rows: Any, columns: int, stride: Any) -> Any:
    """A head as a buffer tensor (rows, columns) that ends with its last row."""
    view = fx.make_view(pointer(data, element) + start, fx.make_layout((rows, columns), (stride, 1)))
    extent = (rows > 0).select((rows - 1) * stride + columns, 0)
    return fx.rocdl.make_buffer_tensor(view, num_records_bytes=extent.to(fx.Int64) * (element.width // 8))


class HeldRows:
    """Block number `block` of the rows of a head's matrix, on the way to the registers of a thread.

    Attributes:
        operand: operand B of a tiled product, in the type of the products, when they have arrived.
    """

    def __init__(self, head: Any, columns: int, block: Any, mma: Any, thread: Any, config: ForwardConfig) -> None:
        stored, shape, self._config = config.stored_element, (config.rows, columns), config
        self._atom = fx.make_copy_atom(fx.rocdl.BufferCopy(8 * stored.width), stored)
        self._copy = fx.make_tiled_copy_B(self._atom, mma).get_slice(thread)
        self._source = self._copy.partition_S(fx.flat_divide(head, shape)[None, None, block, 0])
        self.operand = mma.get_slice(thread).make_fragment_B(shape)
        self._loaded = fx.make_fragment_like(self.operand, stored)

    def load(self) -> None:
        """Start loading them."""
        fx.copy(self._atom, self._source, self._copy.retile(self._loaded))

    def arrive(self) -> None:
        """Wait for them."""
        self.operand.store(self._loaded.load().to(self._config.element))


def logits_of(config: ForwardConfig, sizes: Any, here: Sequence, head: Any, block: Any, bias: Any, slopes: Any,
              scale: Any) -> Logits:
    """What a workgroup makes of products, for block number `block` of a head's rows (or keys)."""
    by_keys = isinstance(config, BackwardConfig) and config.by_keys
    low = here.shift - sizes.left if config.left else None
    high = here.shift + sizes.right if config.right else None
    count = here.keys
    if by_keys:  # key - row between low and high: row - key between -high and -low
        low, high, count = (None if high is None else -high), (None if low is None else -low), here.rows
    addend = slope = None
    if config.bias:
        at = here.start(here.row, head, sizes.bias)
        addend = Buffer(bias, FLOATS[config.bias], at, (here.rows - 1) * sizes.bias.row + here.keys)
    if config.alibi:
        slope = slopes[here.batch * sizes.slope_batch + head]
    band = Band(block * config.rows, config.rows, count, low, high)
    cap = sizes.cap if config.softcap else None
    return Logits(config, band, scale, cap, addend, sizes.bias.row, slope, here.shift, by_keys)


def store_head(out: Any, element: Any, mma: Any, tid: Any, columns: int, block: Any, size: int,
               values: Any, factor: Any) -> None:
    """Store the accumulator (columns, size) of a workgroup to the rows of a head, scaled and rounded.

    Args:
        out: buffer tensor of the head, of `element`; `block`: which `size` rows of it.
        mma: tiled product whose accumulator `values` is.
    """
    result = fx.make_fragment_like(values, element)
    result.store((values.load() * factor).to(element))
    run = fx.get_leaves(fx.get_shape(values))[0]  # columns of a lane that follow each other
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(min(run * element.width, 128)), element)
    (rows, _), (row, _) = fx.get_shape(out), fx.get_stride(out)
    turned = fx.make_view(fx.get_iter(out), fx.make_layout((columns, rows), (1, row)))
    tile = fx.flat_divide(turned, (columns, size))[None, None, 0, block]
    copy = fx.make_tiled_copy_C(atom, mma).get_slice(tid)
    fx.copy(atom, copy.retile(result), copy.partition_D(tile))
