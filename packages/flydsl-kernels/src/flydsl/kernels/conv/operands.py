"""Inputs and filters in the order in which the convolution kernel reads them, and the product of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..gemm.weights import in_order
from ..host.config import require
from ..op import Plan
from ..parts.index import align_up, cdiv
from ..target import Target
from .builders import build_conv_module
from .config import BLOCK_K, CHUNK, make_config

__all__ = ["Product", "filter_order", "input_bytes", "input_order", "plan_product"]

MOST_POSITIONS = 1 << 31


def input_order(x: Any) -> Any:
    """A view [groups, N, D, H, W, C] as one vector with C filled up to a multiple of 8 by zeros, and 8 more zeros."""
    groups, images, *space, channels = x.shape
    padded = align_up(channels, CHUNK)
    count = groups * images * math.prod(space) * padded
    out = x.new_empty(count + CHUNK)
    whole = out[:count].view(groups, images, *space, padded)
    whole[..., :channels] = x
    whole[..., channels:] = 0
    out[count:] = 0
    return out


def input_bytes(groups: int, images: int, space: Any, channels: int) -> int:
    """Of :func:`input_order`."""
    return (groups * images * math.prod(space) * align_up(channels, CHUNK) + CHUNK) * 2


def filter_order(w: Any) -> Any:
    """A view [groups, K, D, H, W, C] as a matrix (groups K, k), k filled up to whole tiles by zeros."""
    groups, count, *taps, channels = w.shape
    padded = align_up(channels, CHUNK)
    volume = math.prod(taps) * padded
    out = w.new_zeros(groups * count, align_up(volume, BLOCK_K))
    out[:, :volume].view(groups, count, *taps, padded)[..., :channels] = w
    return out


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
                 result: Any = None) -> Plan:
    """The plan of a product whose filter's taps are static where it is kept, else given at the launch.

    Args:
        bias: f32 of each output channel, or None.
        result: where it is written, if not to the operation's result.
    """
    groups, images, *space, channels = p.x.shape
    count, taps = p.w.shape[1], tuple(p.w.shape[2:5])
    m, padded = images * math.prod(p.out), align_up(channels, CHUNK)
    require(where, m < MOST_POSITIONS, f"there are {m} output positions, at most {MOST_POSITIONS - 1} are supported")
    static = p.keep is not None
    config = make_config(where, target, dtype, m, count, stride=p.stride, padding=p.padding, dilation=p.dilation,
                         upsample=p.upsample, bias=bias is not None, taps=taps if static else None,
                         channels=padded if static else None)
    x = input_order(p.x)
    w = filter_order(p.w) if p.keep is None else in_order(p.keep[0], p.keep[1], lambda _: filter_order(p.w))
    sizes = (m, count, *space, *p.out, cdiv(math.prod(taps) * padded, BLOCK_K), *taps, padded, groups,
             x.shape[0] - CHUNK, (x.shape[0] - CHUNK) // groups)
    return Plan(lambda: build_conv_module(config, target=target),
                lambda y: (x, w, *(() if bias is None else (bias,)),
                           (y if result is None else result).reshape(-1), *sizes), finish=finish)
