"""Quantisation of arrays. fp8 results need torch tensors, as do bf16 scales."""

from __future__ import annotations

import math
from typing import Any

from ..host.arrays import allocate, array_dtype, as_rows, contiguous, copy_into, is_torch
from ..host.dtypes import as_bytes, dtype_name
from ..op import Op, Plan, Result, hidden_rows, like, statistic
from ..parts.convert import PER_WORD
from ..target import Target
from . import builders as b
from .kernels import GROUP
from .mx import THREADS, build_per_1x32_mx_quant_module

__all__ = ["GRANULARITIES", "MX_GROUP", "OPS"]

MX_GROUP = 32
WORD = PER_WORD["i4"]
PACKED = ("u8", "i8")
GRANULARITIES = ("tensor", "token", "group", "block")


def _matrix(x: Any, where: str, allowed: tuple[str, ...] | None = None) -> tuple[str, Any, int, int]:
    name = dtype_name(x, where) if allowed is None else dtype_name(x, where, allowed)
    rows = as_rows(x, where)
    return name, rows, *rows.shape


def _rows(x: Any) -> Any:
    """Rows, of symbolic sizes too."""
    return math.prod(x.shape[:-1])


def _blocks(n: Any, size: int) -> Any:
    # Arithmetic only, so that symbolic sizes stay symbolic.
    return (n + size - 1) // size


def _grid(rows: Any, groups: Any, transposed: bool) -> tuple[Any, Any]:
    return (groups, rows) if transposed else (rows, groups)


def _flat(array: Any) -> Any:
    return contiguous(array).reshape(math.prod(array.shape))


# ------------------------------------------------------------------------------------------- per row, group, block


def _plan_per_token(target: Target, x: Any, quant: str) -> Plan | None:
    dtype, rows, m, n = _matrix(x, "quantize_per_token")
    if not m or not n:
        return None
    return Plan(lambda: b.build_quant_module(n, dtype, quant, target=target)[0],
                lambda q, scale: (rows, q, scale.reshape(m), m), by_rows=True)


def _plan_per_group(target: Target, x: Any, quant: str, transposed_scale: bool) -> Plan | None:
    dtype, rows, m, n = _matrix(x, "quantize_per_group")
    if not m or not n:
        return None
    return Plan(lambda: b.build_per_group_quant_module(n, dtype, quant, transposed_scale=transposed_scale,
                                                       target=target),
                lambda q, scale: (rows, q, scale, m), by_rows=True)


def _plan_per_block(target: Target, x: Any, quant: str) -> Plan | None:
    dtype, rows, m, n = _matrix(x, "quantize_per_block")
    if not m or not n:
        return None
    return Plan(lambda: b.build_per_block_quant_module(n, dtype, quant, target=target),
                lambda q, scale: (rows, q, scale, m), by_rows=True)


def _plan_per_tensor(target: Target, x: Any, quant: str, scale: Any) -> Plan | None:
    where = "quantize_per_tensor"
    dtype, rows, m, n = _matrix(x, where)
    dynamic = scale is None
    if not dynamic and (math.prod(scale.shape) != 1 or dtype_name(scale, f"{where}: scale") != "f32"):
        raise ValueError(f"{where}: the scale must be one f32, got {scale.dtype} {tuple(scale.shape)}")
    given = 1.0 if dynamic else scale.reshape(1)
    if not m or not n:
        return Plan(None, lambda q, out: (), finish=lambda q, out: copy_into(out, given))
    amax = allocate(target, x, (1,), "f32", True)
    return Plan(lambda: b.build_per_tensor_quant_module(n, dtype, quant, dynamic=dynamic, target=target),
                lambda q, out: (rows, q, out if dynamic else given, amax, m),
                finish=None if dynamic else lambda q, out: copy_into(out, given))


def _per_tensor(op: Op, x: Any, quant_dtype: str = "fp8", scale: Any = None) -> tuple[Any, Any]:
    """``(q, scale[1])`` with one scale: the given one (a number or one f32), or ``max|x| / Qmax`` (1 if x is zero)."""
    if isinstance(scale, int | float):
        number, scale = scale, _one(x)
        copy_into(scale, number)
    return op(x, quant_dtype, scale)


def _one(x: Any) -> Any:
    if is_torch(x):
        import torch

        return x.new_empty((1,), dtype=torch.float32)
    import numpy as np

    return np.empty(1, np.float32)


def _granularity(q: Any, scale: Any, m: int, n: int, wanted: str) -> dict[str, Any]:
    """Arguments of the builder for scales of this shape.

    Raises:
        ValueError: no granularity, or more than one that differ, has scales of this shape.
    """
    where, shape, outer = "dequantize", tuple(scale.shape), tuple(q.shape[:-1])
    groups = -(-n // GROUP)
    shapes: dict[str, tuple[bool, dict[str, Any]]] = {
        "tensor": (math.prod(shape) == 1, {"per_tensor": True}),
        "token": (shape in (outer, (*outer, 1), (m,), (m, 1)), {}),
        "group": (shape == (m, groups), {"group": GROUP}),
        "block": (shape == (-(-m // GROUP), groups), {"group": GROUP, "block_rows": GROUP}),
    }
    if wanted and wanted not in shapes:
        raise ValueError(f"{where}: granularity must be one of {', '.join(GRANULARITIES)}, got {wanted!r}")
    fitting = [name for name, (fits, _) in shapes.items() if fits and wanted in ("", name)]
    if "tensor" in fitting or (set(fitting) == {"token", "group"} and groups == 1):
        fitting = fitting[:1]
    if set(fitting) == {"group", "block"} and m == 1:
        fitting = ["group"]
    if len(fitting) == 1:
        return shapes[fitting[0]][1]
    if fitting:
        raise ValueError(f"{where}: scales of shape {shape} can be those of {' or '.join(fitting)} here; say which "
                         f"with granularity=")
    if not wanted and len(shape) == 2 and shape[0] == m and shape[1] and n % shape[1] == 0:
        return {"group": n // shape[1]}
    raise ValueError(f"{where}: scales of shape {shape} do not fit a matrix of {m} x {n}"
                     + (f" with one for every {wanted}" if wanted else ""))


def _plan_dequantize(target: Target, q: Any, scale: Any, dtype: str, granularity: str) -> Plan | None:
    quant, rows, m, n = _matrix(q, "dequantize", ("i8", "fp8"))
    if quant == "fp8" and q.dtype != array_dtype(target, q, "fp8"):
        raise TypeError(f"dequantize: the architecture's fp8 is {array_dtype(target, q, 'fp8')}, got {q.dtype}")
    if dtype_name(scale, "dequantize: scale") != "f32":
        raise TypeError(f"dequantize: scales must be f32, got {scale.dtype}")
    if not m or not n:
        return None
    options, scales = _granularity(q, scale, m, n, granularity), _flat(scale)
    return Plan(lambda: b.build_dequant_module(n, dtype, quant, target=target, **options),
                lambda out: (rows, scales, out, m), by_rows=True)


# ------------------------------------------------------------------------------------------- packed formats


def _group_of(group: int, n: int) -> int:
    return min(group, n) or max(n, 1)


def _int4_groups(n: Any, group: int) -> Any:
    return _blocks(n, group) if group else 1


def _plan_quantize_int4(target: Target, x: Any, group: int, transposed_scale: bool, scale_dtype: str,
                        rounding: str) -> Plan | None:
    dtype, rows, m, n = _matrix(x, "quantize_int4")
    run = b.build_int4_quant_module(n or WORD, dtype, group=group, transposed_scale=transposed_scale,
                                    scale_dtype_str=scale_dtype, rounding=rounding, target=target)
    return Plan(lambda: run, lambda q, scale: (rows, q, scale, m), by_rows=True) if m and n else None


def _plan_dequantize_int4(target: Target, packed: Any, scale: Any, group: int, dtype: str,
                          transposed_scale: bool) -> Plan | None:
    where = "dequantize_int4"
    _, rows, m, half = _matrix(packed, where, PACKED)
    n, scale_dtype = 2 * half, dtype_name(scale, f"{where}: scale")
    expected = _grid(m, -(-n // _group_of(group, n)), transposed_scale)
    if tuple(scale.shape) != expected:
        raise ValueError(f"{where}: scales of shape {expected} are needed, got {tuple(scale.shape)}")
    run = b.build_int4_dequant_module(n or WORD, dtype, group=group, transposed_scale=transposed_scale,
                                      scale_dtype_str=scale_dtype, target=target)
    scales = contiguous(scale)
    return Plan(lambda: run, lambda out: (rows, scales, out, m), by_rows=True) if m and n else None


def _plan_pack_int4(target: Target, values: Any) -> Plan | None:
    _, rows, m, n = _matrix(values, "pack_int4", ("i8",))
    run = b.build_int4_pack_module(n or WORD, target=target)
    return Plan(lambda: run, lambda out: (rows, out, m), by_rows=True) if m and n else None


def _pack_int4(op: Op, values: Any) -> Any:
    """int8 values -8..7 (..., n) as bytes (..., n/2): of eight, byte j holds j (low half) and j + 4 (high half).

    What is packed from a torch tensor made by ``shuffle_weight`` is a weight for :func:`preshuffle_gemm`.
    """
    if not is_torch(values):
        return op(values)
    from ..host.layouts import tag_packed

    return tag_packed(op(values), values)


def _plan_unpack_int4(target: Target, packed: Any) -> Plan | None:
    _, rows, m, half = _matrix(packed, "unpack_int4", PACKED)
    run = b.build_int4_unpack_module(2 * half or WORD, target=target)
    return Plan(lambda: run, lambda out: (rows, out, m), by_rows=True) if m and half else None


def _plan_quantize_mx(target: Target, x: Any, mode: str) -> Plan | None:
    _, rows, m, n = _matrix(x, "quantize_mx", ("bf16",))
    run = build_per_1x32_mx_quant_module(n or MX_GROUP, mode, target=target)
    blocks = -(-m * n // MX_GROUP // THREADS)
    return Plan(lambda: run, lambda q, scale: (rows, q, scale, m, blocks)) if m and n else None


def _plan_dequantize_mx(target: Target, q: Any, scale: Any, mode: str, dtype: str) -> Plan | None:
    where = "dequantize_mx"
    q, scale = as_bytes(q, mode, f"{where}: q"), as_bytes(scale, "e8m0", f"{where}: scale")
    _, rows, m, width = _matrix(q, where, PACKED)
    n = width * (2 if mode == "fp4" else 1)
    if tuple(scale.shape) != (*q.shape[:-1], n // MX_GROUP):
        raise ValueError(f"{where}: scales must be bytes of shape {(*q.shape[:-1], n // MX_GROUP)}, got {scale.dtype} "
                         f"{tuple(scale.shape)}")
    run = b.build_mx_dequant_module(n or MX_GROUP, mode, dtype, target=target)
    scales = _flat(scale)
    return Plan(lambda: run, lambda out: (rows, scales, out, m), by_rows=True) if m and n else None


def _widened(q: Any, mode: str, dtype: str) -> tuple[Result]:
    return (Result((*q.shape[:-1], q.shape[-1] * (2 if mode == "fp4" else 1)), dtype),)


# ------------------------------------------------------------------------------------------- definitions in f64


def _tiles(x: Any, rows: int, columns: int) -> Any:
    """The largest magnitude of each block, ragged ones at the edges, for every element of x, and one of each block."""
    import torch

    wide = x.double().abs()
    m, n = wide.shape
    padded = torch.nn.functional.pad(wide, (0, -n % columns, 0, -m % rows))
    top = padded.view(padded.shape[0] // rows, rows, -1, columns).amax((1, 3))
    return top.repeat_interleave(rows, 0)[:m].repeat_interleave(columns, 1)[:, :n], top


def _spread(scale: Any, q: Any, rows: int, columns: int) -> Any:
    m, n = q.shape
    return scale.double().repeat_interleave(rows, 0)[:m].repeat_interleave(columns, 1)[:, :n]


def _int4_values(packed: Any) -> Any:
    from .reference import unpack_int4

    return unpack_int4(packed).double()


def _mx_values(q: Any, scale: Any, mode: str) -> Any:
    import torch

    from .reference import e8m0_to_f32, mxfp4_to_f32

    bytes_ = q.view(torch.uint8)
    values = mxfp4_to_f32(bytes_) if mode == "fp4" else bytes_.view(torch.float8_e4m3fn).double()
    return values.double() * e8m0_to_f32(scale.view(torch.uint8)).double().repeat_interleave(MX_GROUP, -1)


def _mx_scales(x: Any, mode: str) -> Any:
    """e8m0: the largest magnitude of 32 over the format's largest, rounded up to a power of two."""
    top = x.double().unflatten(-1, (-1, MX_GROUP)).abs().amax(-1).clamp_min(1e-10)
    return (top / (6.0 if mode == "fp4" else 448.0)).log2().ceil() + 127


_STEP = 0.51 / 127


def _fp8_case(target: Target, rows: int, name: str) -> list[Any]:
    kind = "fp8" if target.fp8_name else "i8"
    return [(f"{name} {kind}", (rows, 8192), {"dtype": "bf16", "quant": kind})]


QUANTIZE_PER_TOKEN = Op(
    "quantize_per_token", '(Tensor x, str quant_dtype="i8") -> (Tensor, Tensor)',
    "`(q, scale)`: one f32 scale of shape `x.shape[:-1]` a row, `max|x| / Qmax` (1 for a zero row)",
    results=lambda x, quant: (like(x, quant), statistic(x)), plan=_plan_per_token, widths=(96, 101, 130, 66),
    sample=lambda draw, m, n, dtype="f32", quant="i8": (draw.normal(2, m, n, dtype=dtype), quant),
    reference=lambda x, quant: (x.double(), x.double().abs().amax(-1) / 127), tolerance=_STEP,
    decode=lambda arguments, results: (results[0].double() * results[1].double()[..., None], results[1]),
    bench=lambda target, rows: [(f"quant per token {kind}", (rows // 2, 8192), {"dtype": "bf16", "quant": kind})
                                for kind in ("i8", *(("fp8",) if target.fp8_name else ()))],
    prebuilt=hidden_rows,
)

QUANTIZE_PER_GROUP = Op(
    "quantize_per_group",
    '(Tensor x, str quant_dtype="fp8", bool transposed_scale=False) -> (Tensor, Tensor)',
    "`(q, scale)` with a scale per row and 128 columns: f32 (m, ceil(n/128)), or its transpose",
    results=lambda x, quant, transposed: (
        like(x, quant), Result(_grid(_rows(x), _blocks(x.shape[-1], GROUP), transposed), "f32")),
    plan=_plan_per_group, widths=(256, 131, 1), tolerance=_STEP,
    sample=lambda draw, m, n, dtype="f32", quant="i8": (draw.normal(m, n, dtype=dtype), quant, True),
    reference=lambda x, quant, transposed: (x.double(), (_tiles(x, 1, GROUP)[1] / 127).T),
    decode=lambda arguments, results: (results[0].double() * _spread(results[1].T, results[0], 1, GROUP), results[1]),
    bench=lambda target, rows: _fp8_case(target, rows, "quant per group"),
    prebuilt=hidden_rows,
)

QUANTIZE_PER_BLOCK = Op(
    "quantize_per_block", '(Tensor x, str quant_dtype="fp8") -> (Tensor, Tensor)',
    "`(q, scale)` with a scale per 128 x 128 block: f32 (ceil(m/128), ceil(n/128))",
    results=lambda x, quant: (like(x, quant), Result((_blocks(_rows(x), GROUP), _blocks(x.shape[-1], GROUP)), "f32")),
    plan=_plan_per_block, widths=(256, 131), tolerance=_STEP,
    sample=lambda draw, m, n, dtype="f32", quant="i8": (draw.normal(m, n, dtype=dtype), quant),
    reference=lambda x, quant: (x.double(), _tiles(x, GROUP, GROUP)[1] / 127),
    decode=lambda arguments, results: (results[0].double() * _spread(results[1], results[0], GROUP, GROUP), results[1]),
    bench=lambda target, rows: _fp8_case(target, rows, "quant per block"),
    prebuilt=hidden_rows,
)

QUANTIZE_PER_TENSOR = Op(
    "quantize_per_tensor", '(Tensor x, str quant_dtype="fp8", Tensor? scale=None) -> (Tensor, Tensor)',
    "`(q, scale[1])` with one scale: the given f32, or `max|x| / Qmax`",
    results=lambda x, quant, scale: (like(x, quant), Result((1,), "f32")), plan=_plan_per_tensor, form=_per_tensor,
    widths=(256, 131), tolerance=0.51 / 25, workspace=lambda target, *_: 4,
    sample=lambda draw, m, n, dtype="f32", quant="i8": (draw.normal(m, n, dtype=dtype), quant,
                                                        draw.positive(1) * 0 + 0.05),
    reference=lambda x, quant, scale: (x.double().clamp(-127 * 0.05, 127 * 0.05), scale.double()),
    decode=lambda arguments, results: (results[0].double() * results[1].double(), results[1]),
    bench=lambda target, rows: _fp8_case(target, rows, "quant per tensor"),
    prebuilt=hidden_rows,
)

DEQUANTIZE = Op(
    "dequantize", '(Tensor q, Tensor scale, str dtype="f32", str granularity="") -> Tensor',
    """`q * scale` in `dtype`, of int8 or fp8: a scale for all, per row, per row and 128 columns (or equal groups), or \
per 128 x 128 block, by the shape of `scale`

    Where the shape fits two of them (a ValueError), say which: ``"tensor"``, ``"token"``, ``"group"`` or ``"block"``.
    """,
    results=lambda q, scale, dtype, granularity: (like(q, dtype),), plan=_plan_dequantize, widths=(256, 131),
    sample=lambda draw, m, n, dtype="bf16": (draw.normal(m, n, dtype="i8"), draw.positive(m), dtype, ""),
    reference=lambda q, scale, dtype, granularity: (q.double() * scale.double()[:, None],), tolerance=2.0**-8,
    bench=lambda target, rows: [("dequant per token", (rows, 8192), {"dtype": "bf16"})],
    prebuilt=hidden_rows,
)

QUANTIZE_INT4 = Op(
    "quantize_int4",
    '(Tensor x, int group=32, bool transposed_scale=False, str scale_dtype="f32", str rounding="nearest") -> '
    "(Tensor, Tensor)",
    """`(packed, scale)`: int4 (..., n/2) bytes in the order of `pack_int4`, a scale `max|x| / 7` per row and `group` \
columns (0: per row), f32 or bf16 (m, ceil(n/group)) or its transpose""",
    results=lambda x, group, transposed, scale_dtype, rounding: (
        Result((*x.shape[:-1], x.shape[-1] // 2), "u8"),
        Result(_grid(_rows(x), _int4_groups(x.shape[-1], group), transposed), scale_dtype)),
    plan=_plan_quantize_int4, widths=(256, 40), tolerance=0.51 / 7,
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, n, dtype=dtype), 32, True, "bf16", "nearest"),
    reference=lambda x, group, *_: (x.double(), (_tiles(x, 1, group)[1] / 7).T),
    decode=lambda arguments, results: (
        _int4_values(results[0]) * _spread(results[1].T, _int4_values(results[0]), 1, arguments[1]), results[1]),
    bench=lambda target, rows: [("quant int4, groups of 32", (rows, 8192), {"dtype": "bf16"})],
    prebuilt=hidden_rows,
)

DEQUANTIZE_INT4 = Op(
    "dequantize_int4",
    '(Tensor packed, Tensor scale, int group=32, str dtype="f32", bool transposed_scale=False) -> Tensor',
    "Values (..., n) in `dtype` of what `quantize_int4` gave",
    results=lambda packed, scale, group, dtype, transposed: (
        Result((*packed.shape[:-1], packed.shape[-1] * 2), dtype),),
    plan=_plan_dequantize_int4, widths=(256, 40),
    sample=lambda draw, m, n, dtype="f32": (draw.integers(0, 256, m, n // 2), draw.positive(m, -(-n // 32)), 32, dtype,
                                            False),
    reference=lambda packed, scale, group, dtype, transposed: (
        _int4_values(packed) * _spread(scale, _int4_values(packed), 1, group),),
    bench=lambda target, rows: [("dequant int4, groups of 32", (rows, 8192), {"dtype": "bf16"})],
    prebuilt=hidden_rows,
)

PACK_INT4 = Op(
    "pack_int4", "(Tensor values) -> Tensor",
    "int8 values -8..7 (..., n) as bytes (..., n/2): of eight, byte j holds j (low half) and j + 4 (high half)",
    results=lambda values: (Result((*values.shape[:-1], values.shape[-1] // 2), "u8"),), plan=_plan_pack_int4,
    form=_pack_int4, widths=(256, 40), sample=lambda draw, m, n: (draw.integers(-8, 8, m, n, dtype="i8"),),
    reference=lambda values: (values.double(),),
    decode=lambda arguments, results: (_int4_values(results[0]),),
)

UNPACK_INT4 = Op(
    "unpack_int4", "(Tensor packed) -> Tensor", "The int8 values (..., n) of packed bytes (..., n/2)",
    results=lambda packed: (Result((*packed.shape[:-1], packed.shape[-1] * 2), "i8"),), plan=_plan_unpack_int4,
    widths=(256, 40), sample=lambda draw, m, n: (draw.integers(0, 256, m, n // 2),),
    reference=lambda packed: (_int4_values(packed),),
)

QUANTIZE_MX = Op(
    "quantize_mx", '(Tensor x, str mode="fp4") -> (Tensor, Tensor)',
    "`(bytes, scale)` of bf16 (..., n): packed e2m1 (..., n/2) or e4m3fn (..., n), e8m0 (..., n/32)",
    results=lambda x, mode: (Result((*x.shape[:-1], x.shape[-1] // 2 if mode == "fp4" else x.shape[-1]), "u8"),
                             Result((*x.shape[:-1], x.shape[-1] // MX_GROUP), "u8")),
    plan=_plan_quantize_mx, widths=(256, 96), archs=("gfx950", "gfx1250"), numpy=False, tolerance=1 / 6,
    sample=lambda draw, m, n, mode="fp4": (draw.normal(m, n, dtype="bf16"), mode),
    reference=lambda x, mode: (x.double(), _mx_scales(x, mode)),
    decode=lambda arguments, results: (_mx_values(results[0], results[1], arguments[1]), results[1]),
    bench=lambda target, rows: [(f"quant mx{mode}", (rows, 8192), {"mode": mode}) for mode in ("fp4", "fp8")],
    prebuilt=hidden_rows,
)

DEQUANTIZE_MX = Op(
    "dequantize_mx", '(Tensor q, Tensor scale, str mode="fp4", str dtype="bf16") -> Tensor',
    'Values (..., n) in `dtype` of microscaled bytes, `"fp4"` or `"fp8"`, with e8m0 scales; any architecture',
    results=lambda q, scale, mode, dtype: _widened(q, mode, dtype), plan=_plan_dequantize_mx, widths=(256, 96),
    sample=lambda draw, m, n, dtype="f32": (draw.integers(0, 256, m, n) & 0xF7, draw.integers(110, 140, m, n // 32),
                                            "fp8", dtype),
    reference=lambda q, scale, mode, dtype: (_mx_values(q, scale, mode),),
)

OPS = [
    QUANTIZE_PER_TOKEN, QUANTIZE_PER_GROUP, QUANTIZE_PER_BLOCK, QUANTIZE_PER_TENSOR, DEQUANTIZE, QUANTIZE_INT4,
    DEQUANTIZE_INT4, PACK_INT4, UNPACK_INT4, QUANTIZE_MX, DEQUANTIZE_MX,
]
