"""Builder of convolution kernels."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..target import Target, builder
from .config import ConvConfig
from .kernel import launch_conv

__all__ = ["build_conv_module"]

_SIZES = ("m", "n", "d", "h", "w", "do", "ho", "wo", "tiles", "kd", "kh", "kw", "c")


@builder
def build_conv_module(config: ConvConfig, *, target: Target):
    """``launch(X, W[, Bias], Y, Parts, m, n, d, h, w, do, ho, wo, tiles, kd, kh, kw, c, groups, zeros, image,
    stream=None)``.

    Args:
        config: what is computed.

    X is [groups, N, d, h, w, c] and 8 zeros at element `zeros`; W is [groups, n, kd, kh, kw, c], its rows filled up
    with zeros to `tiles` tiles of 64; Bias is f32[groups n]; Y is [N, groups n, do, ho, wo]. m = N do ho wo; `image`
    is the elements of a group of X. `zeros` and `image` are Int64. Parts is f32 of `splits` outputs, or any tensor.
    """
    if config.bias:

        @flyc.jit
        def conv_bias(X, W, Bias, Y, Parts, m: fx.Int32, n: fx.Int32, d: fx.Int32, h: fx.Int32, w: fx.Int32,  # noqa: N803
                      do: fx.Int32, ho: fx.Int32, wo: fx.Int32, tiles: fx.Int32, kd: fx.Int32, kh: fx.Int32,
                      kw: fx.Int32, c: fx.Int32, groups: fx.Int32, zeros: fx.Int64, image: fx.Int64,
                      stream: fx.Stream = fx.Stream(None)):
            sizes = dict(zip(_SIZES, (m, n, d, h, w, do, ho, wo, tiles, kd, kh, kw, c), strict=True))
            tensors = {"x": X, "w": W, "bias": Bias, "y": Y, "parts": Parts}
            launch_conv(tensors, {**sizes, "zeros": zeros, "image": image}, groups, config, stream)

        return conv_bias

    @flyc.jit
    def conv(X, W, Y, Parts, m: fx.Int32, n: fx.Int32, d: fx.Int32, h: fx.Int32, w: fx.Int32, do: fx.Int32,  # noqa: N803
             ho: fx.Int32, wo: fx.Int32, tiles: fx.Int32, kd: fx.Int32, kh: fx.Int32, kw: fx.Int32, c: fx.Int32,
             groups: fx.Int32, zeros: fx.Int64, image: fx.Int64, stream: fx.Stream = fx.Stream(None)):
        sizes = dict(zip(_SIZES, (m, n, d, h, w, do, ho, wo, tiles, kd, kh, kw, c), strict=True))
        tensors = {"x": X, "w": W, "y": Y, "parts": Parts}
        launch_conv(tensors, {**sizes, "zeros": zeros, "image": image}, groups, config, stream)

    return conv
