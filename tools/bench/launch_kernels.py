"""Jit functions for the launch bench: kernels that do nothing, with typical parameters."""

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def three_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, m: fx.Int32, n: fx.Int32, alpha: fx.Float32):
    if fx.thread_idx.x < m + n:
        c[0, 0] = a[0, 0] * alpha + b[0, 0]


@flyc.jit
def three(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, m: fx.Int32, n: fx.Int32, alpha: fx.Float32, blocks: fx.Int32,
          stream: fx.Stream = fx.Stream(None)):
    three_kernel(a, b, c, m, n, alpha).launch(grid=(blocks,), block=64, stream=stream)


@flyc.kernel
def eight_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, e: fx.Tensor, f: fx.Tensor, g: fx.Tensor,
                 h: fx.Tensor):
    h[0, 0] = a[0, 0] + b[0, 0] + c[0, 0] + d[0, 0] + e[0, 0] + f[0, 0] + g[0, 0]


@flyc.jit
def eight(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, e: fx.Tensor, f: fx.Tensor, g: fx.Tensor,
          h: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    eight_kernel(a, b, c, d, e, f, g, h).launch(grid=(1,), block=64, stream=stream)
