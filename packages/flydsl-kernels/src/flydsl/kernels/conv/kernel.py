"""Convolution as a matrix product: operand A is the input, whose element (row, k) lies where the filter's tap looks.

Nothing is unfolded in memory: *im2col* is the address of operand A. A row is an output position, a chunk of k eight
channels of one tap; both together give the position in the channels-last input, with 64 bits. Taps beside the input
read a chunk of zeros that follows the input, so that there is one path. From there on it is a product: both operands go
through swizzled LDS in two stages, loads of the next tile are under way while one is multiplied.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import require_operands
from ..parts.index import cdiv, div, mod
from ..parts.memory import pointer
from ..parts.reduce import Lds
from .config import BLOCK_K, CHUNK, STAGES, ConvConfig

__all__ = ["launch_conv"]

AHEAD = 2  # tiles whose loads are under way
OUTSIDE = -(1 << 30)  # a position that no tap brings back into the input


class Im2col:
    """Where chunks of operand A lie in the input [N, D, H, W, C].

    Args:
        sizes: of the launch, by name; see :func:`conv_kernel`.
    """

    def __init__(self, sizes: dict[str, Any], config: ConvConfig) -> None:
        self.config, self.size = config, (sizes["d"], sizes["h"], sizes["w"])
        self.out = (sizes["do"], sizes["ho"], sizes["wo"])
        self.taps = config.taps or (sizes["kd"], sizes["kh"], sizes["kw"])
        self.channels, self.rows = config.channels or sizes["c"], sizes["m"]
        self.zeros = sizes["zeros"]

    def row(self, row: Any) -> tuple[Any, ...]:
        """(element of the first tap's chunk, position of the first tap) of an output position; one that does not exist
        looks outside. With `upsample` the element is that of the image."""
        c = self.config
        rest, w = row // self.out[2], row % self.out[2]
        rest, h = rest // self.out[1], rest % self.out[1]
        image, d = rest // self.out[0], rest % self.out[0]
        z, y, x = (v * stride - pad for v, stride, pad in zip((d, h, w), c.stride, c.padding, strict=True))
        start = fx.Int64(image) * self.size[0]
        element = start * self.size[1] * self.size[2] * self.channels if self.sparse else self._element(start + z, y, x)
        return element, (row < self.rows).select(z, OUTSIDE), y, x

    @property
    def sparse(self) -> bool:
        """There are zeros between the elements, so places are not sums of a row's and a tap's."""
        return max(self.config.upsample) > 1

    def _element(self, plane: Any, y: Any, x: Any) -> Any:
        return ((plane * self.size[1] + y) * self.size[2] + x) * self.channels

    def tap(self, k: Any) -> tuple[Any, ...]:
        """(element, offsets along d, h and w) of an element of k, the first of a chunk, from a row's first tap. With
        `upsample` the element is the channel."""
        chunk = div(k, CHUNK)
        tap, channel = _divided(chunk, div(self.channels, CHUNK))
        rest, x = _divided(tap, self.taps[2])
        z, y = _divided(rest, self.taps[1])
        z, y, x = (t * step for t, step in zip((z, y, x), self.config.dilation, strict=True))
        beyond = z >= self.taps[0] * self.config.dilation[0]  # k is filled up to whole tiles
        element = fx.Int64(channel * CHUNK)
        return element if self.sparse else element + self._element(fx.Int64(z), y, x), beyond.select(OUTSIDE, z), y, x

    def place(self, row: tuple[Any, ...], tap: tuple[Any, ...]) -> Any:
        """Element of the chunk of a row and a tap, Int64."""
        at: list[Any] = []
        inside: Any = None
        for start, offset, size, up in zip(row[1:], tap[1:], self.size, self.config.upsample, strict=True):
            x = start + offset
            ok: Any = None
            if up > 1:
                ok, x = (x >= 0) & (mod(x, up) == 0), div(x, up)
            within = x.to(fx.Uint32) < size.to(fx.Uint32)  # a negative one is large
            ok = within if ok is None else ok & within
            at.append(x)
            inside = ok if inside is None else inside & ok
        element = row[0] + tap[0]
        return inside.select(element + self._element(fx.Int64(at[0]), *at[1:]) if self.sparse else element, self.zeros)


def _divided(x: Any, n: Any) -> tuple[Any, Any]:
    """Quotient and remainder of a non-negative number."""
    return (div(x, n), mod(x, n)) if isinstance(n, int) else (x // n, x % n)


@flyc.kernel
def conv_kernel(tensors, sizes, mma: fx.TiledMma, copy: fx.TiledCopy, config: fx.Constexpr):
    """One workgroup computes a tile of one group's output.

    `sizes`: m output positions, n output channels of a group; d, h, w of the input and do, ho, wo of the output; tiles
    of k; kd, kh, kw and c where they are not static; zeros, the element of a chunk of zeros; image, the elements of a
    group's input.
    """
    word, (bm, bn) = config.word, (config.block_m, config.block_n)
    thread, (tile_m, tile_n, share) = fx.thread_idx.x, fx.block_idx
    group, share = _divided(share, config.splits)
    im2col, n = Im2col(sizes, config), sizes["n"]
    tiles = config.tiles(sizes)
    lds, swizzle = Lds(), fx.static(config.swizzle(16))
    a_lds, b_lds = (lds.array(word, STAGES * rows * BLOCK_K).view(fx.make_composed_layout(
        swizzle, fx.make_ordered_layout((rows, BLOCK_K, STAGES), (1, 0, 2)))) for rows in (bm, bn))
    bring = copy.get_slice(thread)
    a_write, b_write = bring.partition_D(a_lds), bring.partition_D(b_lds)
    staged = [[fx.make_fragment_like(w[None, None, None, 0]) for w in (a_write, b_write)] for _ in range(AHEAD)]
    a_at, b_at = (_chunks(bring, rows) for rows in (bm, bn))
    a_from, b_from = (fx.make_rmem_tensor(at.shape, fx.Int64) for at in (a_at, b_at))
    rows = [im2col.row(tile_m * bm + at[0]) for at in _coordinates(a_at)]
    first_k = _coordinates(a_at)[0][1]  # a thread's chunks have one k
    filter_row = fx.Int64(tiles) * BLOCK_K
    each = cdiv(tiles, config.splits) if isinstance(tiles, int) else fx.ceildiv(tiles, config.splits)
    first_tile = share * each if config.splits > 1 else 0
    mine = fx.min(tiles - first_tile, each) if config.splits > 1 else tiles
    # Filters past the last are those of the last: their columns are dropped.
    starts = [(fx.Int64(group) * n + fx.min(tile_n * bn + row, n - 1)) * filter_row + k
              for row, k in _coordinates(b_at)]
    x = pointer(tensors["x"], word) + fx.Int64(group) * sizes["image"]
    w = pointer(tensors["w"], word)
    zeros = sizes["zeros"] - fx.Int64(group) * sizes["image"]
    im2col.zeros = zeros
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), word)

    def load(tile, slot):
        tile = first_tile + tile
        tap = im2col.tap(tile * BLOCK_K + first_k)
        for i in fx.range_constexpr(len(rows)):
            a_from[i] = im2col.place(rows[i], tap)
        for i in fx.range_constexpr(len(starts)):
            b_from[i] = starts[i] + fx.Int64(tile * BLOCK_K)
        fx.gather(wide, x, a_from, staged[slot][0])
        fx.gather(wide, w, b_from, staged[slot][1])

    def store(slot, stage):
        fx.copy(wide, staged[slot][0], a_write[None, None, None, stage])
        fx.copy(wide, staged[slot][1], b_write[None, None, None, stage])

    part, chunk = mma.get_slice(thread), config.operand_copy
    a_lds, b_lds = (_elements(view, rows, config) for view, rows in ((a_lds, bm), (b_lds, bn)))
    a, b = part.make_fragment_A(a_lds[None, None, 0]), part.make_fragment_B(b_lds[None, None, 0])
    total = part.make_fragment_C((bm, bn))
    read_a, read_b = (make(chunk, mma).get_slice(thread) for make in (fx.make_tiled_copy_A, fx.make_tiled_copy_B))
    a_read, b_read = read_a.partition_S(a_lds), read_b.partition_S(b_lds)
    total.fill(0.0)
    for step in fx.pipeline_range(fx.Pipeline(mine, STAGES, fx.Staged(load, store, AHEAD))):
        fx.copy(chunk, a_read[None, None, None, step.stage], read_a.retile(a))
        fx.copy(chunk, b_read[None, None, None, step.stage], read_b.retile(b))
        fx.gemm(mma, total, a, b, total)
    _store(tensors, sizes, mma, total, group, share, config)


def _elements(words: Any, rows: int, config: ConvConfig) -> Any:
    """A tile in LDS by the elements of its words: the same chunks of 16 bytes, in the same places."""
    per = config.per_word
    if per == 1:
        return words
    swizzle = fx.static(config.swizzle(8))
    layout = fx.make_composed_layout(swizzle, fx.make_ordered_layout((rows, BLOCK_K * per, STAGES), (1, 0, 2)))
    return fx.make_view(fx.recast_iter(config.element, fx.get_iter(words)), layout)


def _chunks(bring: Any, rows: int) -> Any:
    """Coordinates (row, k) of this thread's chunks of a tile: of the first element of each."""
    tile = fx.make_view((0, 0), fx.make_identity_layout((rows, BLOCK_K)))
    return bring.partition_S(tile)[(0, None), None, None]


def _coordinates(at: Any) -> list[Any]:
    """The coordinates of a partition, each a tuple of Int32."""
    return [at[i].unpack() for i in range(fx.size(at.shape).unpack())]


@flyc.jit
def _store(tensors, sizes, mma, total, group, share, config):
    """The output [N, channels, positions] of a group (sums [N, positions, channels]), or its part in f32: a lane holds
    some positions of one or a few channels."""
    split = config.splits > 1
    element, (tile_m, tile_n, _) = fx.Float32 if split else config.out, fx.block_idx
    m, n, volume = sizes["m"], sizes["n"], sizes["do"] * sizes["ho"] * sizes["wo"]
    single = fx.make_copy_atom(fx.UniversalCopy16b(), config.word)
    mine = fx.make_tiled_copy_C(single, mma).get_slice(fx.thread_idx.x)
    tile = fx.make_view((0, 0), fx.make_identity_layout((config.block_m, config.block_n)))
    at = mine.partition_D(tile)
    flat = mine.retile(total)
    channels = fx.Int64(fx.grid_dim.z // config.splits) * n
    y = pointer(tensors["parts" if split else "y"], element) + fx.Int64(share) * channels * m
    for i in fx.range_constexpr(fx.size(at.shape).unpack()):
        row, column = at[i].unpack()
        row, column = row + tile_m * config.block_m, column + tile_n * config.block_n
        if (row < m) & (column < n):
            value = flat[i]
            if fx.const_expr(config.bias and not split):
                value = value + (pointer(tensors["bias"], fx.Float32) + (group * n + column)).load()
            channel = group * n + column
            if fx.const_expr(config.sums):
                place = row * channels + channel
            else:
                place = (fx.Int64(row // volume) * channels + channel) * volume + row % volume
            (y + place).store(value.to(element))


@flyc.kernel
def add_parts_kernel(tensors, count: fx.Int64, channels: fx.Int32, volume: fx.Int32, config: fx.Constexpr):
    """A thread adds the parts of an element of the output, of `count` in all, in their order. With a bias it is [N,
    channels, volume]."""
    at = fx.Int64(fx.block_idx.x) * config.threads + fx.thread_idx.x
    if at < count:
        parts, total = pointer(tensors["parts"], fx.Float32) + at, fx.Float32(0.0)
        for part in fx.range_constexpr(config.splits):
            total = total + (parts + count * part).load()
        if fx.const_expr(config.bias):
            total = total + (pointer(tensors["bias"], fx.Float32) + (at // volume) % channels).load()
        (pointer(tensors["y"], config.out) + at).store(total.to(config.out))


def launch_conv(tensors: dict[str, Any], sizes: dict[str, Any], groups: Any, config: ConvConfig, stream: Any) -> None:
    """Launch from a jit function. A call is refused whose operands do not fit."""
    config.target.require_traced()
    require_operands(tensors, config.extents(sizes, groups))
    tiles = fx.Int32(config.tiles(sizes))
    if config.taps is None:
        volume = fx.Int64(sizes["kd"]) * sizes["kh"] * sizes["kw"] * (config.channels or sizes["c"])
        fx.host_assert(fx.Int64(tiles) * BLOCK_K >= volume, f"tiles of {BLOCK_K} must cover kd * kh * kw * c")
    if config.splits > 1:
        each = fx.ceildiv(tiles, config.splits)
        fx.host_assert(each * (config.splits - 1) < tiles, f"there are too few tiles of {BLOCK_K} for the splits")
    grid = (fx.ceildiv(sizes["m"], config.block_m), fx.ceildiv(sizes["n"], config.block_n), groups * config.splits)
    conv_kernel(tensors, sizes, config.tiled_mma(), config.tiled_copy(), config).launch(
        grid=grid, block=config.threads, stream=stream)
    if config.splits > 1:
        count = fx.Int64(groups) * sizes["n"] * sizes["m"]
        blocks = (count + (config.threads - 1)) // config.threads
        add_parts_kernel(tensors, count, groups * sizes["n"], sizes["do"] * sizes["ho"] * sizes["wo"], config).launch(
            grid=blocks.to(fx.Int32), block=config.threads, stream=stream)
