"""The older name of the convolution."""

from __future__ import annotations

from typing import Any

__all__ = ["conv3d_implicit"]


def conv3d_implicit(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *, splitk: Any = None,
                    stream: Any = None, tile: Any = None, autotune: Any = None) -> Any:
    """``flydsl.kernels.ops.conv`` without dilation and groups, on a stream; not differentiable.

    `splitk`, `tile` and `autotune` chose among kernels that give the same values; they change nothing here.
    """
    from .op import CONV, convolution

    return convolution(lambda *given: CONV.run(*given, stream=stream), x, weight, bias, stride, padding)
