"""Convolutions of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..host.arrays import array_dtype, contiguous, is_torch, permuted
from ..host.config import require
from ..host.dtypes import dtype_name
from ..op import Gradient, Op, Plan, Result
from ..target import MATRIX_ARCHS, Target
from .operands import Product, filter_bytes, input_bytes, parts_bytes, plan_product

__all__ = ["OPS"]

HALVES = ("f16", "bf16")
_OPTIONS = "int[] stride, int[] padding, int[] dilation, int groups"


# ------------------------------------------------------------------------------------------- shapes


def _three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Sizes of 1 to 3 dimensions as those of 3."""
    return (fill,) * (3 - len(values)) + tuple(values)


def _view(x: Any, axis: int, groups: int, order: tuple[int, ...]) -> Any:
    """A view with three dimensions of positions and its channels (dimension `axis`) in groups: the six in an order."""
    while len(x.shape) < 5:
        x = x[:, :, None]
    before, count, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    return permuted(x.reshape(*before, groups, count // groups, *after), order)


def _float32(bias: Any) -> Any:
    """A contiguous bias in f32; None stays."""
    if bias is None or not is_torch(bias):
        return None if bias is None else contiguous(bias.astype("float32", copy=False))
    return bias.detach().float().contiguous()


def out_sizes(space: Sequence[Any], taps: Sequence[Any], stride: Sequence[int], padding: Sequence[int],
              dilation: Sequence[int]) -> tuple[Any, ...]:
    """Output positions along each dimension."""
    return tuple((n + 2 * p - d * (t - 1) - 1) // s + 1
                 for n, t, s, p, d in zip(space, taps, stride, padding, dilation, strict=True))


def checked_sizes(where: str, x_shape: Any, w_shape: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
                  groups: int) -> tuple[Any, ...]:
    """Output positions along each dimension. ValueError if there are none, or for other sizes that do not fit."""
    rank = len(w_shape) - 2
    require(where, rank in (1, 2, 3), f"the weight must have 1 to 3 dimensions of taps, got shape {tuple(w_shape)}")
    require(where, len(x_shape) == rank + 2,
            f"x must have rank {rank + 2} as the weight {tuple(w_shape)}, got shape {tuple(x_shape)}")
    for name, values, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        require(where, len(values) == rank and min(values) >= least,
                f"{name} must be {rank} numbers of at least {least}, got {list(values)}")
    require(where, groups >= 1 and x_shape[1] == w_shape[1] * groups and w_shape[0] % groups == 0,
            f"{groups} groups do not fit x {tuple(x_shape)} and weight {tuple(w_shape)}: x has groups * "
            "weight.shape[1] channels, and the groups divide weight.shape[0]")
    require(where, bias is None or tuple(bias.shape) == (w_shape[0],),
            f"bias must have the shape ({w_shape[0]},), got {None if bias is None else tuple(bias.shape)}")
    out = out_sizes(x_shape[2:], w_shape[2:], stride, padding, dilation)
    require(where, min(w_shape) > 0, f"a weight of one or more channels and taps is needed, got {tuple(w_shape)}")
    require(where, min(out) > 0,
            f"the filter {tuple(w_shape[2:])} with dilation {list(dilation)} does not fit the padded input "
            f"{[n + 2 * p for n, p in zip(x_shape[2:], padding, strict=True)]}")
    return out


def _dtypes(where: str, x: Any, *others: Any, accepted: tuple[str, ...] = HALVES) -> str:
    dtype = dtype_name(x, where, accepted)
    for other in others:
        require(where, other.dtype == x.dtype, f"operands must have one dtype, got {x.dtype} and {other.dtype}")
    return dtype


# ------------------------------------------------------------------------------------------- plans


def _product(x: Any, weight: Any, out: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Product:
    return Product(_view(x, 1, groups, (1, 0, 3, 4, 5, 2)), _view(weight, 0, groups, (0, 1, 3, 4, 5, 2)),
                   _three(out, 1), _three(stride, 1), _three(padding, 0), _three(dilation, 1),
                   keep=(weight, f"conv {groups}"))


def plan_sums(where: str, target: Target, x: Any, weight: Any, stride: Any, padding: Any) -> Plan:
    """The plan of a convolution of 16-bit arrays of checked shapes, whose result is f32 [positions, channels]."""
    dtype, once = _dtypes(where, x, weight), (1, 1, 1)
    out = out_sizes(x.shape[2:], weight.shape[2:], stride, padding, once)
    product = _product(x, weight, out, stride, padding, once, 1)
    return plan_product(where, target, dtype, product, sums=True)


def _plan(target: Target, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
          groups: int) -> Plan | None:
    where = "conv"
    target.require(where, *MATRIX_ARCHS)
    dtype = _dtypes(where, x, weight, accepted=(*HALVES, "fp8"))
    if dtype == "fp8":
        target.require_fp8(where)
        native = array_dtype(target, x, "fp8")
        require(where, x.dtype == native, f"{target.name} has {native}, x is {x.dtype}")
    if bias is not None:
        dtype_name(bias, f"{where}: bias")
    out = checked_sizes(where, x.shape, weight.shape, bias, stride, padding, dilation, groups)
    if 0 in x.shape:
        return None
    product = _product(x, weight, out, stride, padding, dilation, groups)
    return plan_product(where, target, dtype, product, _float32(bias))


def _plan_input(target: Target, dy: Any, weight: Any, size: Any, stride: Any, padding: Any, dilation: Any,
                groups: int) -> Plan | None:
    """The transposed convolution: zeros between the elements of dy, the filter turned around."""
    where = "conv_input_grad"
    target.require(where, *MATRIX_ARCHS)
    dtype = _dtypes(where, dy, weight)
    _require_ranks(where, dy=dy, weight=weight)
    _check_gradient(where, dy, weight.shape, (dy.shape[0], weight.shape[1] * groups, *size), stride, padding, dilation,
                    groups)
    if 0 in dy.shape or not math.prod(size):
        return None
    taps, apart = _three(weight.shape[2:], 1), _three(dilation, 1)
    before = tuple(d * (t - 1) - p for d, t, p in zip(apart, taps, _three(padding, 0), strict=True))
    filters = _view(weight, 0, groups, (0, 2, 3, 4, 5, 1)).flip(2, 3, 4)
    product = Product(_view(dy, 1, groups, (1, 0, 3, 4, 5, 2)), filters, _three(size, 1), padding=before,
                      dilation=apart, upsample=_three(stride, 1), keep=(weight, f"conv input {groups}"))
    return plan_product(where, target, dtype, product)


def _plan_weight(target: Target, dy: Any, x: Any, taps: Any, stride: Any, padding: Any, dilation: Any,
                 groups: int) -> Plan | None:
    """Input channels as images, images as channels, dy as the filter: stride and dilation change places."""
    where = "conv_weight_grad"
    target.require(where, *MATRIX_ARCHS)
    dtype = _dtypes(where, dy, x)
    _require_ranks(where, dy=dy, x=x)
    require(where, groups >= 1, f"groups must be positive, got {groups}")
    shape = (dy.shape[1], x.shape[1] // groups, *taps)
    _check_gradient(where, dy, shape, x.shape, stride, padding, dilation, groups)
    if 0 in dy.shape or 0 in x.shape:
        return None
    product = Product(_view(x, 1, groups, (1, 2, 3, 4, 5, 0)), _view(dy, 1, groups, (1, 2, 3, 4, 5, 0)),
                      _three(taps, 1), _three(dilation, 1), _three(padding, 0), _three(stride, 1))
    turned = dy.new_empty(shape[1], shape[0], *taps)

    def finish(dw: Any) -> None:
        dw.copy_(turned.transpose(0, 1))

    return plan_product(where, target, dtype, product, finish=finish, result=turned)


def _require_ranks(where: str, **arrays: Any) -> None:
    for name, array in arrays.items():
        require(where, len(array.shape) in (3, 4, 5),
                f"{name} must have images, channels and 1 to 3 dimensions more, got shape {tuple(array.shape)}")


def _check_gradient(where: str, dy: Any, w_shape: Any, x_shape: Any, stride: Any, padding: Any, dilation: Any,
                    groups: int) -> None:
    out = checked_sizes(where, x_shape, w_shape, None, stride, padding, dilation, groups)
    require(where, tuple(dy.shape) == (x_shape[0], w_shape[0], *out),
            f"dy must have the shape {(x_shape[0], w_shape[0], *out)} of the convolution's output, got "
            f"{tuple(dy.shape)}")


def _workspace(target: Target, x: Any, weight: Any, bias: Any, *rest: Any) -> int:
    """The input with its channels last, and a bias in f32; the order of a torch filter lives as long as the filter."""
    stride, padding, dilation, groups = rest
    out = out_sizes(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    parts = parts_bytes(target, x.shape[0] * math.prod(out), weight.shape[0] // groups, groups, weight.shape[2:],
                        weight.shape[1], 2 // x.dtype.itemsize)
    copied = parts if bias is None or "float32" in str(bias.dtype) else bias.shape[0] * 4 + parts
    if not is_torch(weight):
        copied += filter_bytes(groups, weight.shape[0] // groups, weight.shape[2:], weight.shape[1])
    return input_bytes(groups, x.shape[0], x.shape[2:], x.shape[1] // groups, 2 // x.dtype.itemsize) + copied


def _input_workspace(target: Target, dy: Any, weight: Any, *rest: Any) -> int:
    """dy with its channels last, and the filter turned around."""
    groups = rest[-1]
    return (input_bytes(groups, dy.shape[0], dy.shape[2:], dy.shape[1] // groups)
            + math.prod(weight.shape) * 2
            + parts_bytes(target, dy.shape[0] * math.prod(rest[0]), weight.shape[1], groups, weight.shape[2:],
                          weight.shape[0] // groups))


def _weight_workspace(target: Target, dy: Any, x: Any, taps: Any, *rest: Any) -> int:
    """Both operands with the images last, and the result with its channels exchanged."""
    groups, images = rest[-1], x.shape[0]
    inside = x.shape[1] // groups
    return (input_bytes(groups, inside, x.shape[2:], images)
            + filter_bytes(groups, dy.shape[1] // groups, dy.shape[2:], images)
            + dy.shape[1] * inside * math.prod(taps) * 2
            + parts_bytes(target, inside * math.prod(taps), dy.shape[1] // groups, groups, dy.shape[2:], images))


# ------------------------------------------------------------------------------------------- definitions in f64


def _reference(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple:
    from torch.nn import functional

    form = (functional.conv1d, functional.conv2d, functional.conv3d)[weight.dim() - 3]
    return (form(x.double(), weight.double(), None if bias is None else bias.double(), tuple(stride), tuple(padding),
                 tuple(dilation), groups),)


def _reference_gradient(dy: Any, x: Any, weight: Any, which: int, stride: Any, padding: Any, dilation: Any,
                        groups: int) -> tuple[Any, ...]:
    import torch

    with torch.enable_grad():
        given = [t.detach().double().requires_grad_() for t in (x, weight)]
        out: Any = _reference(given[0], given[1], None, stride, padding, dilation, groups)[0]
        return torch.autograd.grad(out, given[which], dy.double())


# ------------------------------------------------------------------------------------------- forms, gradients


def _each(value: Any, rank: int) -> list[int]:
    values = [value] * rank if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def _padding(padding: Any, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    if not isinstance(padding, str):
        return _each(padding, len(taps))
    require("conv", padding in ("same", "valid"), f"padding must be numbers, 'same' or 'valid', got {padding!r}")
    if padding == "valid":
        return [0] * len(taps)
    both = [d * (t - 1) for t, d in zip(taps, dilation, strict=True)]
    require("conv", max(stride) == 1, f"padding 'same' needs stride 1, got {list(stride)}")
    require("conv", all(n % 2 == 0 for n in both), f"padding 'same' of the filter {list(taps)} with dilation "
            f"{list(dilation)} differs at both ends: pad x with torch.nn.functional.pad")
    return [n // 2 for n in both]


def _conv(op: Op, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
          groups: int = 1) -> Any:
    """Convolution in 1 to 3 dimensions, as torch's conv1d, conv2d and conv3d; differentiable.

    Args:
        x: (N, groups C, ...) or without N, of any size and stride: float16, bfloat16 or the chip's fp8 (not gfx90a and
            gfx11; fp8 without gradients).
        weight: (K, C, taps ...), of the same dtype; K is a multiple of the groups.
        bias: (K,) of float32, float16 or bfloat16.
        stride, padding, dilation: one number or one for each dimension; padding may be ``"valid"`` or ``"same"``.
        groups: channels are convolved in so many groups.

    Returns:
        (N, K, ...), summed in f32 and rounded once, of fp8 to bfloat16.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape, an option or the architecture is not supported.
    """
    return convolution(op, x, weight, bias, stride, padding, dilation, groups)


def convolution(run: Callable[..., Any], x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                dilation: Any = 1, groups: int = 1) -> Any:
    """`run` of the options of :func:`_conv`, one number for each dimension, and of a batch."""
    rank = len(weight.shape) - 2
    stride, dilation = _each(stride, rank), _each(dilation, rank)
    padding = _padding(padding, tuple(weight.shape[2:]), stride, dilation)
    if len(x.shape) == rank + 1:
        return run(x[None], weight, bias, stride, padding, dilation, groups)[0]
    return run(x, weight, bias, stride, padding, dilation, groups)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, *ctx.options = inputs
    ctx.bias = None if bias is None else bias.dtype
    ctx.save_for_backward(x, weight)


def _gradient(ctx: Any, dy: Any) -> tuple:
    x, weight = ctx.saved_tensors
    dx = dw = db = None
    if ctx.needs_input_grad[0]:
        dx = CONV_INPUT_GRAD(dy, weight, list(x.shape[2:]), *ctx.options)
    if ctx.needs_input_grad[1]:
        dw = CONV_WEIGHT_GRAD(dy, x, list(weight.shape[2:]), *ctx.options)
    if ctx.bias is not None and ctx.needs_input_grad[2]:
        db = dy.float().sum([0, *range(2, dy.dim())]).to(ctx.bias)
    return dx, dw, db, None, None, None, None


# ------------------------------------------------------------------------------------------- declarations

_SAMPLE = ([2, 1], [1, 0], [1, 2], 2)  # stride, padding, dilation, groups


def _operands(draw: Any, m: int, n: int, dtype: str) -> tuple[Any, Any, Any]:
    """x, weight and dy of the sample's options."""
    x, weight = draw.normal(m, 6, 5, n, dtype=dtype), draw.normal(4, 3, 3, 2, dtype=dtype)
    return x, weight, draw.normal(m, 4, *out_sizes((5, n), (3, 2), *_SAMPLE[:3]), dtype=dtype)


def _sample(draw: Any, m: int, n: int, dtype: str = "f16", channels: int = 0) -> tuple[Any, ...]:
    """With `channels`, a 3 x 3 filter over an image of m x n; else a little of everything."""
    if channels:
        x, weight = draw.normal(1, channels, m, n, dtype=dtype), draw.normal(channels, channels, 3, 3, dtype=dtype)
        return x, weight, None, [1, 1], [1, 1], [1, 1], 1
    x, weight, _ = _operands(draw, m, n, dtype)
    return x, weight, draw.normal(4), *map(list, _SAMPLE[:3]), _SAMPLE[3]


def _flops(x: Any, weight: Any, *_: Any) -> int:
    """Of the bench's convolutions, whose output is as large as the input."""
    return 2 * x.shape[0] * math.prod(x.shape[2:]) * math.prod(weight.shape)


def _sample_input(draw: Any, m: int, n: int, dtype: str = "f16") -> tuple[Any, ...]:
    _, weight, dy = _operands(draw, m, n, dtype)
    return dy, weight, [5, n], *map(list, _SAMPLE[:3]), _SAMPLE[3]


def _sample_weight(draw: Any, m: int, n: int, dtype: str = "f16") -> tuple[Any, ...]:
    x, _, dy = _operands(draw, m, n, dtype)
    return dy, x, [3, 2], *map(list, _SAMPLE[:3]), _SAMPLE[3]


CONV_INPUT_GRAD = Op(
    "conv_input_grad", f"(Tensor dy, Tensor weight, int[] size, {_OPTIONS}) -> Tensor",
    "Gradient of the input of `conv`, of a size: the transposed convolution", public=False, numpy=False,
    results=lambda dy, weight, size, stride, padding, dilation, groups: (
        Result((dy.shape[0], weight.shape[1] * groups, *size), dy.dtype),),
    plan=_plan_input, sample=_sample_input, archs=MATRIX_ARCHS, widths=(9,), workspace=_input_workspace,
    reference=lambda dy, weight, size, *options: _reference_gradient(
        dy, dy.new_zeros(dy.shape[0], weight.shape[1] * options[-1], *size), weight, 0, *options),
)

CONV_WEIGHT_GRAD = Op(
    "conv_weight_grad", f"(Tensor dy, Tensor x, int[] taps, {_OPTIONS}) -> Tensor",
    "Gradient of the weight of `conv`", public=False, numpy=False,
    results=lambda dy, x, taps, stride, padding, dilation, groups: (
        Result((dy.shape[1], x.shape[1] // groups, *taps), dy.dtype),),
    plan=_plan_weight, sample=_sample_weight, archs=MATRIX_ARCHS, widths=(9,), workspace=_weight_workspace,
    reference=lambda dy, x, taps, *options: _reference_gradient(
        dy, x, dy.new_zeros(dy.shape[1], x.shape[1] // options[-1], *taps), 1, *options),
)

CONV = Op(
    "conv", f"(Tensor x, Tensor weight, Tensor? bias, {_OPTIONS}) -> Tensor",
    "Convolution in 1 to 3 dimensions with stride, padding, dilation and groups; f16, bf16 or fp8",
    results=lambda x, weight, bias, stride, padding, dilation, groups: (Result((
        x.shape[0], weight.shape[0],
        *checked_sizes("conv", x.shape, weight.shape, bias, stride, padding, dilation, groups)),
        "bf16" if x.dtype.itemsize == 1 else x.dtype),),
    plan=_plan, sample=_sample, reference=_reference, archs=MATRIX_ARCHS, widths=(9, 4), workspace=_workspace,
    form=_conv,
    gradient=Gradient(_gradient, _save), flops=_flops,
    bench=lambda target, rows: [(f"conv 3 x 3, 128 channels, {dtype}", (56, 56), {"dtype": dtype, "channels": 128})
                                for dtype in ("bf16", "fp8")],
)

OPS = [CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD]
