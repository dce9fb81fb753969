"""The older names of the convolution."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..host.arrays import contiguous
from ..host.arrays import launch as run
from ..host.config import require
from ..host.dtypes import dtype_name
from ..host.tuned import forced
from ..parts.index import align_up
from ..settings import kernels as settings
from ..target import kept, target
from .config import TILES

__all__ = ["compile_conv3d_implicit", "compile_conv3d_implicit_fp8", "conv3d_implicit", "conv3d_implicit_fp8"]

FP8_BLOCK, FP8_REDUCTION = 128, 256  # what callers fill up the rows of fp8 weights to: multiples, and the least


def conv3d_implicit(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *, splitk: Any = None,
                    stream: Any = None, tile: Any = None, autotune: Any = None) -> Any:
    """``flydsl.kernels.ops.conv`` without dilation and groups, on a stream; not differentiable.

    `splitk` and `tile` chose among kernels that give the same values; here the shapes do, or with `autotune` (None:
    ``FLYDSL_CONV3D_AUTOTUNE``) a search for the tile in the first call of these shapes and
    dtypes, whose winner later calls and processes take (:mod:`flydsl.autotune`).
    """
    from .op import CONV, convolution

    if autotune is None:
        autotune = settings.conv_autotune
    if autotune:
        return convolution(lambda *given: _searched()(*given, stream=stream), x, weight, bias, stride, padding)
    return convolution(lambda *given: CONV.run(*given, stream=stream), x, weight, bias, stride, padding)


@functools.cache
def _searched() -> Any:
    """The convolution whose tile is searched for."""
    from flydsl.autotune import Config
    from flydsl.autotune import autotune as tuned

    from .op import CONV

    def conv3d_implicit(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int,
                        stream: Any = None, **tile: int) -> Any:
        with forced(tile):
            return CONV.run(x, weight, bias, stride, padding, dilation, groups, stream=stream)

    def candidates(*given: Any, stream: Any = None) -> list[Any]:
        CONV.run(*given, stream=stream)  # what no tile can compute is refused before the search
        return [Config(block_m=m, block_n=n) for m, n in TILES]

    return tuned(configs=candidates, key=["x", "weight", "bias", "stride", "padding"], check=False)(conv3d_implicit)


def conv3d_implicit_fp8(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, stream: Any = None,
                        wgm: Any = None, autotune: Any = None) -> Any:
    """The same of the chip's fp8, to bfloat16; `wgm` changes nothing here.

    Raises:
        ValueError: x is not of fp8.
    """
    require("conv3d_implicit_fp8", x.dtype.itemsize == 1, f"x must be fp8, got {x.dtype}")
    return conv3d_implicit(x, weight, bias, stride, padding, stream=stream, autotune=autotune)


@kept
def compile_conv3d_implicit(n: int, c: int, d: int, h: int, w: int, k: int, kt: int, kh: int, kw: int, st: int, sh: int,
                            sw: int, pt: int, ph: int, pw: int, has_bias: bool = False, splitk: int = 1,
                            tile: Any = None, wgm: int = 1) -> Callable[..., None]:
    """``launch(y, x_ndhwc, w_ktrsc, bias=None, stream=None)`` for one size: channels last, y (n, k, do, ho, wo) dense.

    With `splitk` of more than one, y may also be f32 (n do ho wo, k): the sums themselves, without a bias, for callers
    that finish them. `splitk`, `tile` and `wgm` chose among kernels that give the same values; here the shapes do.

    Raises:
        ValueError: of `launch`, for arrays of other sizes, or a bias that is not empty where there is none.
    """
    return _launcher("compile_conv3d_implicit", (n, d, h, w, c), (k, kt, kh, kw, c), (st, sh, sw), (pt, ph, pw),
                     has_bias, 2, splitk > 1)


@kept
def compile_conv3d_implicit_fp8(n: int, c: int, d: int, h: int, width: int, k: int, kt: int, kh: int, kw: int, st: int,
                                sh: int, sw: int, pt: int, ph: int, pw: int, has_bias: bool = False,
                                wgm: int = 1) -> Callable[..., None]:
    """:func:`compile_conv3d_implicit` of the chip's fp8, to bfloat16.

    w_ktrsc may also have the rows that callers fill up with zeros for tiles of 128: (k, kt kh kw c rounded up to
    that, and at least 256), or flat.
    """
    return _launcher("compile_conv3d_implicit_fp8", (n, d, h, width, c), (k, kt, kh, kw, c), (st, sh, sw), (pt, ph, pw),
                     has_bias, 1, filled=max(FP8_REDUCTION, align_up(kt * kh * kw * c, FP8_BLOCK)))


def _launcher(where: str, x_shape: tuple[int, ...], w_shape: tuple[int, ...], stride: tuple[int, ...],
              padding: tuple[int, ...], has_bias: bool, element_bytes: int, sums: bool = False,
              filled: int = 0) -> Callable[..., None]:
    """`filled`: elements of the weight's rows where the caller filled them up with zeros."""
    from .op import CONV, checked_sizes, plan_sums

    x_first, w_first = ((shape[0], shape[-1], *shape[1:-1]) for shape in (x_shape, w_shape))
    sizes = checked_sizes(where, x_first, w_first, None, stride, padding, (1, 1, 1), 1)
    y_shape = x_shape[0], w_shape[0], *sizes
    sums_shape = x_shape[0] * math.prod(sizes), w_shape[0]

    def launch(y: Any, x_ndhwc: Any, w_ktrsc: Any, bias: Any = None, stream: Any = None) -> None:
        if filled and tuple(w_ktrsc.shape) in ((w_shape[0], filled), (w_shape[0] * filled,)):
            w_ktrsc = w_ktrsc.reshape(w_shape[0], filled)[:, : math.prod(w_shape[1:])].reshape(w_shape)
        unfinished = sums and dtype_name(y, f"{where}: y", ("f32", "f16", "bf16")) == "f32"
        for name, array, shape in (("y", y, sums_shape if unfinished else y_shape), ("x_ndhwc", x_ndhwc, x_shape),
                                   ("w_ktrsc", w_ktrsc, w_shape)):
            _require_shape(where, name, array, shape)
        require(where, x_ndhwc.dtype.itemsize == element_bytes,
                f"x_ndhwc must have elements of {element_bytes} bytes, got {x_ndhwc.dtype}")
        given = bias is not None and math.prod(bias.shape) > 0
        require(where, has_bias or not given, "it was built without a bias: has_bias=True takes one")
        require(where, given or not has_bias, "it was built with a bias, and got none")
        x, w = (array.reshape(shape).movedim(-1, 1) for array, shape in ((x_ndhwc, x_shape), (w_ktrsc, w_shape)))
        if unfinished:
            require(where, contiguous(y) is y, "y must be dense")
            plan = plan_sums(where, target(), x, w, stride, padding)
            assert plan.launcher is not None
            run(plan.launcher(), x, *plan.operands(y), stream=stream)
            return
        CONV.run(x, w, bias if given else None, stride, padding, (1, 1, 1), 1, stream=stream, into=(y.view(y_shape),))

    return launch


def _require_shape(where: str, name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Of that shape, or flat: other shapes of as many elements have another order."""
    require(where, tuple(array.shape) in (shape, (math.prod(shape),)),
            f"{name} must have shape {shape} or be flat, got {tuple(array.shape)}")
