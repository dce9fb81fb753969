"""Inputs and filters in the order in which the convolution kernel reads them, and the product of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..host.arrays import allocate
from ..host.config import require
from ..host.weights import in_order
from ..op import Plan
from ..parts.index import align_up, cdiv
from ..target import Target
from .builders import build_conv_module
from .config import BLOCK_K, CHUNK, TILES, choose_splits, make_config

__all__ = ["Product", "filter_order", "input_bytes", "input_order", "parts_bytes", "plan_product"]

MOST_POSITIONS = (1 << 31) - max(rows for rows, _ in TILES)  # those behind the last in its tile have 32 bits too


def _bytes(x: Any) -> Any:
    """fp8 as bytes, for which torch has all operations."""
    return x.view(_torch().uint8) if x.dtype.itemsize == 1 else x


def _words(x: Any) -> Any:
    """A vector or matrix of bytes as words of 16 bits."""
    return x.view(_torch().bfloat16) if x.dtype.itemsize == 1 else x


def _torch() -> Any:
    import torch

    return torch


def input_order(target: Target, x: Any, per: int = 1) -> Any:
    """A view [groups, N, D, H, W, C] as one vector of words of `per` elements, with C filled up to a multiple of 8
    words by zeros, and 8 more words of zeros."""
    groups, images, *space, channels = x.shape
    x, padded = _bytes(x), align_up(channels, CHUNK * per)
    count = groups * images * math.prod(space) * padded
    out = allocate(target, x, (count + CHUNK * per,), x.dtype)
    whole = out[:count].reshape(groups, images, *space, padded)
    whole[..., :channels] = x
    whole[..., channels:] = 0
    out[count:] = 0
    return _words(out)


def input_bytes(groups: int, images: int, space: Any, channels: int, per: int = 1) -> int:
    """Of :func:`input_order`."""
    return (groups * images * math.prod(space) * align_up(channels, CHUNK * per) // per + CHUNK) * 2


def filter_order(target: Target, w: Any, per: int = 1) -> Any:
    """A view [groups, K, D, H, W, C] as a matrix (groups K, k) of words of `per` elements, k filled up to whole tiles
    by zeros."""
    groups, count, *taps, channels = w.shape
    w, padded = _bytes(w), align_up(channels, CHUNK * per)
    volume = math.prod(taps) * padded
    out = allocate(target, w, (groups * count, align_up(volume, BLOCK_K * per)), w.dtype, zero=True)
    out[:, :volume].reshape(groups, count, *taps, padded)[..., :channels] = w  # a view: dimensions are only divided
    return _words(out)


def filter_bytes(groups: int, count: int, taps: Any, channels: int) -> int:
    """Of :func:`filter_order`."""
    return groups * count * align_up(math.prod(taps) * align_up(channels, CHUNK), BLOCK_K) * 2


@dataclass(frozen=True)
class Product:
    """``y[image, group count + k, o] = sum over (tap, c) of x[group, image, o * stride - padding + tap * dilation, c] *
    w[group, k, tap, c]``, where x has `upsample - 1` zeros between its elements.

    Attributes:
        x, w: views [groups, images, D, H, W, C] and [groups, count, D, H, W, C].
        out: (D, H, W) of the output.
        keep: a tensor and a name under which the filter's order is kept, or None.
    """

    x: Any
    w: Any
    out: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    upsample: tuple[int, ...] = (1, 1, 1)
    keep: tuple[Any, str] | None = None


def plan_product(where: str, target: Target, dtype: str, p: Product, bias: Any = None, finish: Any = None,
                 result: Any = None, sums: bool = False) -> Plan:
    """The plan of a product whose filter's taps are static where it is kept, else given at the launch.

    fp8 operands are laid out as bytes and passed as words of two.

    Args:
        bias: f32 of each output channel, or None.
        result: where it is written, if not to the operation's result.
        sums: the result is f32 [positions, channels].
    """
    groups, images, *space, channels = p.x.shape
    count, taps = p.w.shape[1], tuple(p.w.shape[2:5])
    per = 2 if dtype == "fp8" else 1  # elements of a word
    m, padded = images * math.prod(p.out), align_up(channels, CHUNK * per) // per
    require(where, m <= MOST_POSITIONS, f"there are {m} output positions, at most {MOST_POSITIONS} are supported")
    static, tiles = p.keep is not None, cdiv(math.prod(taps) * padded, BLOCK_K)
    splits = choose_splits(target, m, count, groups, tiles)
    config = make_config(where, target, dtype, m, count, stride=p.stride, padding=p.padding, dilation=p.dilation,
                         upsample=p.upsample, splits=splits, bias=bias is not None, sums=sums,
                         taps=taps if static else None, channels=padded if static else None)
    x = input_order(target, p.x, per)
    w = filter_order(target, p.w, per) if p.keep is None else in_order(
        p.keep[0], p.keep[1], lambda _: filter_order(target, p.w, per))
    sizes = (m, count, *space, *p.out, tiles, *taps, padded, groups,
             x.shape[0] - CHUNK, (x.shape[0] - CHUNK) // groups)

    def operands(y: Any) -> tuple[Any, ...]:
        parts = x if splits == 1 else allocate(target, x, (splits * groups * count * m,), "f32")
        return (x, w, *(() if bias is None else (bias,)), (y if result is None else result).reshape(-1), parts, *sizes)

    return Plan(lambda: build_conv_module(config, target=target), operands, finish=finish)


def parts_bytes(target: Target, m: int, columns: int, groups: int, taps: Any, channels: int, per: int = 1) -> int:
    """Of the sums of a product that workgroups share: f32 of each output, for each of them."""
    tiles = cdiv(math.prod(taps) * align_up(channels, CHUNK * per) // per, BLOCK_K)
    splits = choose_splits(target, m, columns, groups, tiles)
    return 0 if splits == 1 else 4 * splits * groups * columns * m
