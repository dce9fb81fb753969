"""Matrix products of arrays. Quantised operands are torch tensors; their plans (`scaled`) are loaded when asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from ..host.arrays import autocast, is_torch
from ..host.dtypes import dtype_name, float_name, torch_dtype
from ..host.models import Model
from ..op import Form, Gradient, Op, Plan, Result
from ..parts.index import align_up, cdiv
from ..parts.matrix import SCALE_BLOCK
from ..target import Target
from .dense import check_a16w16, plan_a16w16
from .tuned import BLOCK_SCALE, DENSE_TUNING, MX, PRESHUFFLE, WMMA, dense_knobs, takes_preshuffled, tile_tuning

__all__ = ["OPS"]

GENERAL = ("gfx942", "gfx950", "gfx120", "gfx1250")
HALF = ("gfx90a", *GENERAL, "gfx11")  # products of 16-bit floats
CDNA = ("gfx942", "gfx950")
F32 = 4
LAYOUT = "b_16x16"


# ------------------------------------------------------------------------------------------- 16-bit


def _gemm_results(a: Any, b: Any, bias: Any, layout: str, out_dtype: Any) -> tuple[Result]:
    shape = a.shape[layout[0] != "n"], b.shape[layout[1] == "n"]
    return (Result(shape, a.dtype if out_dtype is None else out_dtype),)


def _plan_gemm(target: Target, a: Any, b: Any, bias: Any, layout: str, out_dtype: Any) -> Plan | None:
    _, _, _, dtype = check_a16w16(a, b, bias, layout)
    out = float_name(out_dtype, "gemm: out_dtype") or dtype
    if out not in (dtype, "f32"):
        raise TypeError(f"gemm: out_dtype must be {a.dtype} or float32, got {out_dtype}")
    return plan_a16w16(target, a, b, bias, layout, out)


def _gemm(op: Op, a: Any, b: Any, bias: Any = None, layout: str = "nt", out_dtype: Any = None) -> Any:
    """``op(a) op(b) + bias`` of f16 or bf16 matrices with f32 accumulation; differentiable in torch.

    A letter of `layout` per operand: ``n`` stored as it is (M x K, K x N), ``t`` stored transposed. "nt" is the usual
    (M, K) activations with a weight (N, K). `out_dtype` float32 gives an f32 result. Operands follow torch's autocast.
    Any strides and sizes are taken; operands that are not contiguous, or whose rows are not multiples of 16 bytes, are
    copied first.
    """
    if not is_torch(a):
        name = float_name(out_dtype, "gemm: out_dtype")
        return op.run(a, b, bias, layout, None if name == dtype_name(a, "gemm") else name)
    return op(*autocast(a, b, bias), layout, torch_dtype(out_dtype))


def _gemm_save(ctx: Any, inputs: Any, output: Any) -> None:
    a, b, bias, ctx.layout, _ = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(a, b)


def _gemm_gradient(ctx: Any, g: Any) -> tuple:
    # With C = A B: dA = G B^T, dB = A^T G, each stored as its operand is. A letter says how the stored matrix is read.
    a, b = ctx.saved_tensors
    g = g.to(a.dtype).contiguous()
    a_letter, b_letter = ctx.layout
    flip = {"n": "t", "t": "n"}
    da = db = dbias = None
    if ctx.needs_input_grad[0]:
        da = GEMM(g, b, None, "n" + flip[b_letter]) if a_letter == "n" else GEMM(b, g, None, b_letter + "t")
    if ctx.needs_input_grad[1]:
        db = GEMM(a, g, None, flip[a_letter] + "n") if b_letter == "n" else GEMM(g, a, None, "t" + a_letter)
    if ctx.bias_dtype is not None and ctx.needs_input_grad[2]:
        dbias = g.float().sum(0).to(ctx.bias_dtype)
    return da, db, dbias, None, None


def _gemm_workspace(target: Target, a: Any, b: Any, bias: Any, layout: str, out_dtype: Any) -> int:
    """A split reduction takes an f32 result for every part."""
    m, n, k, _ = check_a16w16(a, b, bias, layout)
    split = dense_knobs(target, m, n, k, layout)["split_k"] if m and n and k else 1
    return split * m * n * F32 if split > 1 else 0


def _gemm_reference(a: Any, b: Any, bias: Any, layout: str, out_dtype: Any) -> tuple[Any]:
    a, b = (x.double() if letter == "n" else x.double().T for x, letter in ((a, layout[0]), (b, layout[1])))
    return (a @ b if bias is None else a @ b + bias.double(),)


def _half(draw: Any, m: int, n: int, dtype: str = "bf16", columns: int = 64) -> tuple[Any, ...]:
    """(m, n), a weight (columns, n) and a bias."""
    return draw.normal(m, n, dtype=dtype), draw.normal(columns, n, dtype=dtype), draw.normal(columns, dtype=dtype)


def _gemm_flops(a: Any, b: Any, *rest: Any) -> int:
    return 2 * math.prod(a.shape) * b.shape[0]


GEMM = Op(
    "gemm", '(Tensor a, Tensor b, Tensor? bias=None, str layout="nt", ScalarType? out_dtype=None) -> Tensor',
    "`op(a) op(b) + bias` of f16 or bf16 matrices with f32 accumulation; a letter of `layout` per operand",
    results=_gemm_results, plan=_plan_gemm, form=_gemm, archs=HALF, widths=(64, 72, 101), tolerance=2.0**-8,
    sample=lambda draw, m, n, layout="nt", **options: (*_half(draw, m, n, **options), layout, None),
    reference=_gemm_reference, gradient=Gradient(_gemm_gradient, _gemm_save), workspace=_gemm_workspace,
    flops=_gemm_flops, tuning=DENSE_TUNING,
)


# ------------------------------------------------------------------------------------------- linear


def _plan_linear(target: Target, x: Any, weight: Any, bias: Any) -> Plan | None:
    if len(weight.shape) != 2 or len(x.shape) < 1 or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"linear: x of shape (..., K) and a weight (N, K) are needed, got {tuple(x.shape)} and "
                         f"{tuple(weight.shape)}")
    dtype = dtype_name(x, "linear", ("f16", "bf16"))
    n, k = weight.shape
    rows = x.reshape(math.prod(x.shape[:-1]), k)
    if not n:
        return None
    if k and is_torch(x):
        from ..host.weights import preshuffled
        from .scaled import plan_preshuffle

        if takes_preshuffled(target, n, k, 2) and weight.dtype == x.dtype:
            return plan_preshuffle(target, rows, preshuffled(weight), None, None, bias, "none", x.dtype)
    plan = plan_a16w16(target, rows, weight, bias, "nt", dtype)
    return plan and replace(plan, operands=lambda out: plan.operands(out.reshape(-1, n)))


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x weight^T + bias`` of f16 or bf16, x (..., K), weight (N, K).

    Differentiable. Where no gradient is wanted and the size allows it, the preshuffle GEMM runs with a shuffled copy of
    the weight, which is made again when the weight changes. Operands follow torch's autocast.
    """
    if not is_torch(x):
        return LINEAR_INFERENCE.run(x, weight, bias)
    import torch

    given = weight
    x, weight, bias = autocast(x, weight, bias)
    differentiated = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias))
    if differentiated or weight is not given:  # a converted weight is a new tensor every time
        return torch.ops.flydsl.linear(x, weight, bias)
    return LINEAR_INFERENCE(x, weight, bias)


def _linear_of_gemm(x: Any, weight: Any, bias: Any = None) -> Any:
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return GEMM(rows, weight, bias, "nt").view(*x.shape[:-1], weight.shape[0])


MODEL_ROWS = (1, 32, 128, 512, 2048, 8192)  # of which kernels for a model's layers are prebuilt


def _model_calls(op: Op, draw: Any, model: Model) -> Iterator[tuple[Any, ...]]:
    """The dense layers of a model, with as many rows as make a difference."""
    for n, k in model.projections:
        weight = draw.normal(n, k, dtype="bf16")
        yield from ((draw.normal(m, k, dtype="bf16"), weight, None) for m in MODEL_ROWS)


LINEAR_INFERENCE = Op(
    "linear_inference", "(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
    "`x weight^T + bias` with a kept copy of the weight in the order of its kernel",
    results=lambda x, weight, bias: _weight_results(x, weight, None, None, x.dtype), plan=_plan_linear, public=False,
    archs=HALF, widths=(64, 72, 101), tolerance=2.0**-8,
    sample=_half, reference=lambda x, weight, bias: _gemm_reference(x, weight, bias, "nt", None), flops=_gemm_flops,
    workspace=lambda target, x, weight, bias: 0 if target.arch in CDNA else
    _gemm_workspace(target, x.reshape(-1, x.shape[-1]), weight, bias, "nt", None), prebuilt=_model_calls,
)


# ------------------------------------------------------------------------------------------- quantised


def _later(name: str, target: Target, *given: Any) -> Plan | None:
    """A plan of :mod:`.scaled`, which needs torch and is loaded when it is asked for."""
    from . import scaled

    return getattr(scaled, name)(target, *given)


def _preshuffle_gemm(op: Op, a: Any, b: Any, scale_a: Any = None, scale_b: Any = None, bias: Any = None,
                     activation: str = "none", out_dtype: Any = None) -> Any:
    """``act(a b^T * scale_a[row] * scale_b[column] + bias)`` with a shuffled weight.

    N that is no multiple of 64, or K of 64 bytes, is filled up with zeros: a copy of the weight is kept.

    Args:
        a: (..., K) of fp8, int8, f16 or bf16.
        b: (N, K) of the same dtype, made by ``shuffle_weight`` (its tag is checked); or for int8 activations
            ``pack_int4(shuffle_weight(w))`` of int8 values -8..7, which is uint8 (N, K/2).
        scale_a, scale_b: f32 (rows,), (N,), or of one element for all; for 8-bit data only. f16, bf16 and e8m0 are
            taken too.
        bias: (N,), any float dtype.
        activation: ``"none"``, ``"relu"``, ``"silu"`` or ``"gelu"``.
        out_dtype: bfloat16 (default) or float16.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: the weight is not shuffled, or a shape is not supported.
    """
    return op(a, b, scale_a, scale_b, bias, activation, torch_dtype(out_dtype or "bf16"))


def _blockscale_gemm(op: Op, a: Any, b: Any, scale_a: Any, scale_b: Any, out_dtype: Any = None) -> Any:
    """fp8 GEMM with scales f32 (K/128, M) of a and (N/128, K/128) of the shuffled weight b (N, K), rounded up; f16,
    bf16 and e8m0 are taken too.

    N that is no multiple of 64, or K of 128, is filled up with zeros: a copy of the weight is kept.
    """
    return op(a, b, scale_a, scale_b, torch_dtype(out_dtype or "bf16"))


def _scaled_gemm(op: Op, a: Any, b: Any, scale_a: Any, scale_b: Any, out_dtype: Any = None) -> Any:
    """``(a b^T) * scale_a[row] * scale_b[column]`` of fp8 torch tensors (..., K) and (N, K) with a plain weight. Scales
    are f32, f16, bf16 or e8m0, one a row and column or one for all.

    Any sizes are taken; what is no multiple of the kernel's tile (N of 64 and K of 64 on gfx942 and gfx950, of 128 and
    32 on gfx120x, of 32 and 128 on gfx1250) is filled up with zeros: a copy of the weight is kept, the activations are
    copied. out_dtype is bfloat16; float16 too on gfx942 and gfx950.
    """
    return op(a, b, scale_a, scale_b, torch_dtype(out_dtype or "bf16"))


def _mx_gemm(op: Op, a: Any, b: Any, scale_a: Any, scale_b: Any, a_dtype: str = "fp4", b_dtype: str = "fp4",
             out_dtype: Any = None) -> Any:
    """Product of microscaled torch tensors on gfx950 and gfx1250: bytes (..., K/2) of fp4, or (..., K) of fp8 or of fp6
    in groups padded to 32 bytes, and a plain weight (N, K/2) or (N, K), with e8m0 scales (..., K/32) and (N, K/32), as
    :func:`quantize_mx` gives them. On gfx1250 not fp6, and not fp4 with a weight of fp8. K is a multiple of 32; what is
    no multiple of the kernel's tile (N of 64, on gfx1250 of 32, and K of 128) is filled up with zeros: a copy of the
    weight is kept, the activations are copied."""
    return op(a, b, scale_a, scale_b, a_dtype, b_dtype, torch_dtype(out_dtype or "bf16"))


def _weight_results(a: Any, b: Any, scale_a: Any, scale_b: Any, out_dtype: Any, *_: Any) -> tuple[Result]:
    return (Result((*a.shape[:-1], b.shape[0]), out_dtype),)


def _sample_preshuffle(draw: Any, m: int, n: int, columns: int = 64) -> tuple[Any, ...]:
    from ..host.layouts import shuffle_weight

    a, weight = draw.normal(m, n, dtype="i8"), shuffle_weight(draw.normal(columns, n, dtype="i8"))
    return a, weight, draw.positive(m), draw.positive(columns), None, "none", torch_dtype("bf16"), LAYOUT


def _plain(shuffled: Any) -> Any:
    """The weight that ``shuffle_weight`` was given, of bytes."""
    n, k = shuffled.shape
    bytes_ = shuffled.view(dtype=torch_dtype("int8")).view(n // 16, k // 32, 2, 16, 16).permute(0, 3, 1, 2, 4)
    return bytes_.reshape(n, k).view(shuffled.dtype)


def _sample_blockscale(draw: Any, m: int, n: int, columns: int = 64) -> tuple[Any, ...]:
    from ..host.layouts import shuffle_weight

    a, b = draw.normal(m, n, dtype="fp8"), draw.normal(columns, n, dtype="fp8")
    b = shuffle_weight(b.view(dtype=torch_dtype("int8"))).view(b.dtype)
    blocks = cdiv(n, SCALE_BLOCK)
    scales = draw.positive(blocks, m), draw.positive(cdiv(columns, SCALE_BLOCK), blocks)
    return a, b, *scales, torch_dtype("bf16"), LAYOUT


def _scaled_reference(a: Any, b: Any, scale_a: Any, scale_b: Any, *_: Any) -> tuple[Any]:
    return (a.double() @ b.double().T * scale_a.double()[:, None] * scale_b.double(),)


def _blockscale_reference(a: Any, b: Any, scale_a: Any, scale_b: Any, *_: Any) -> tuple[Any]:
    n, k = b.shape
    left = a.double() * scale_a.double().T.repeat_interleave(SCALE_BLOCK, 1)[:, :k]
    columns = scale_b.double().repeat_interleave(SCALE_BLOCK, 0)[:n].repeat_interleave(SCALE_BLOCK, 1)[:, :k]
    return (left @ (_plain(b).double() * columns).T,)


def _sample_scaled(draw: Any, m: int, n: int, columns: int = 128) -> tuple[Any, ...]:
    a, b = draw.normal(m, n, dtype="fp8"), draw.normal(columns, n, dtype="fp8")
    return a, b, draw.positive(m), draw.positive(columns), torch_dtype("bf16")


def _sample_mx(draw: Any, m: int, n: int, columns: int = 128) -> tuple[Any, ...]:
    data = [draw.integers(0, 256, rows, n // 2) for rows in (m, columns)]
    scales = [draw.integers(124, 130, rows, n // 32) for rows in (m, columns)]
    return (*data, *scales, "fp4", "fp4", torch_dtype("bf16"))


def _mx_reference(a: Any, b: Any, scale_a: Any, scale_b: Any, *_: Any) -> tuple[Any]:
    from ..quant.reference import e8m0_to_f32, mxfp4_to_f32

    def values(data: Any, scale: Any) -> Any:
        return mxfp4_to_f32(data).double() * e8m0_to_f32(scale).double().repeat_interleave(32, -1)

    return (values(a, scale_a) @ values(b, scale_b).T,)


def _mx_workspace(target: Target, a: Any, b: Any, scale_a: Any, *_: Any) -> int:
    """Activation scales of all rows, padded and in the order of the kernel; besides, every weight and its scales are
    kept in the order of the kernel while they live."""
    rows, columns = (32, 4) if target.tensor_moves else (256, 8)
    groups = scale_a.shape[-1]
    return 2 * align_up(math.prod(scale_a.shape) // max(groups, 1), rows) * align_up(groups, columns)


_quantised = partial(Op, numpy=False, tolerance=2.0**-8, flops=_gemm_flops)

PRESHUFFLE_GEMM = _quantised(
    "preshuffle_gemm",
    "(Tensor a, Tensor b, Tensor? scale_a, Tensor? scale_b, Tensor? bias, str activation, ScalarType out_dtype, "
    'str layout="") -> Tensor',
    "`act(a b^T * scale_a[row] * scale_b[column] + bias)` with a weight made by `shuffle_weight`",
    results=lambda a, b, scale_a, scale_b, bias, activation, *rest: _weight_results(a, b, scale_a, scale_b, *rest),
    plan=partial(_later, "plan_preshuffle"), form=_preshuffle_gemm, archs=CDNA, widths=(128, 192),
    sample=_sample_preshuffle, reference=lambda a, b, *rest: _scaled_reference(a, _plain(b), *rest),
    tuning=tile_tuning(lambda target, _: PRESHUFFLE[target.arch][1], "i8"),
)

BLOCKSCALE_GEMM = _quantised(
    "blockscale_gemm",
    '(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, ScalarType out_dtype, str layout="") -> Tensor',
    "fp8 with f32 scales (K/128, M) of a and (ceil(N/128), K/128) of the shuffled weight",
    results=_weight_results, plan=partial(_later, "plan_blockscale"), form=_blockscale_gemm, archs=CDNA, fp8=True,
    widths=(128, 256), sample=_sample_blockscale, reference=_blockscale_reference,
    tuning=tile_tuning(lambda target, _: BLOCK_SCALE[target.arch], "fp8"),
)

SCALED_GEMM = _quantised(
    "scaled_gemm", "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, ScalarType out_dtype) -> Tensor",
    "`(a b^T) * scale_a[row] * scale_b[column]` of fp8 with a plain weight (N, K)",
    results=_weight_results, plan=partial(_later, "plan_scaled"), form=_scaled_gemm, archs=GENERAL, fp8=True,
    widths=(256, 384), sample=_sample_scaled, reference=_scaled_reference,
    tuning=tile_tuning(lambda target, kind: {"gfx1250": WMMA}[target.arch][kind,], "fp8"),
)

MX_GEMM = _quantised(
    "mx_gemm",
    "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, str a_dtype, str b_dtype, ScalarType out_dtype) -> Tensor",
    "Product of microscaled operands with a plain weight, e8m0 scales (..., K/32) and (N, K/32)",
    results=lambda *given: _weight_results(*given[:4], given[-1]),
    plan=partial(_later, "plan_mx"), form=_mx_gemm, archs=("gfx950", "gfx1250"), widths=(256, 384),
    sample=_sample_mx, reference=_mx_reference, workspace=_mx_workspace,
    tuning=tile_tuning(lambda target, kind: (WMMA if target.tensor_moves else MX)[tuple(kind.split())], "fp4 fp4"),
)

OPS = [
    GEMM, LINEAR_INFERENCE, PRESHUFFLE_GEMM, BLOCKSCALE_GEMM, SCALED_GEMM, MX_GEMM,
    Form("linear", linear, ("linear", "(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", _linear_of_gemm)),
]
