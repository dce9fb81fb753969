"""The next token of arrays of logits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..host.arrays import as_rows
from ..host.config import require
from ..host.dtypes import dtype_name
from ..host.models import Model
from ..op import Op, Plan, Result
from ..target import Target
from .kernel import build_argmax_module, build_sample_module

__all__ = ["OPS"]

SMALLEST = 1e-30  # temperature whose reciprocal is finite in f32
SIGN = 1 << 63  # of 64 bits


def _rows(where: str, x: Any) -> tuple[str, Any]:
    dtype = dtype_name(x, where)
    require(where, len(x.shape) >= 1 and x.shape[-1] >= 1,
            f"rows of one or more values are needed, got shape {tuple(x.shape)}")
    return dtype, as_rows(x, where)


def _results(x: Any, *_: Any) -> tuple[Result, ...]:
    return (Result(tuple(x.shape[:-1]), "i64"),)


def _plan_argmax(target: Target, x: Any) -> Plan | None:
    dtype, rows = _rows("argmax", x)
    m, n = rows.shape
    if not m:
        return None
    return Plan(lambda: build_argmax_module(n, dtype, target=target), lambda out: (rows, out.reshape(m), m))


def _plan_sample(target: Target, logits: Any, temperature: float, top_k: int, top_p: float, seed: int) -> Plan | None:
    where = "sample"
    dtype, rows = _rows(where, logits)
    require(where, temperature == 0 or SMALLEST <= temperature < math.inf,
            f"the temperature must be 0 (the largest logit) or at least {SMALLEST}, got {temperature!r}")
    require(where, top_k >= 0, f"top_k must be 0 (all) or positive, got {top_k!r}")
    require(where, 0 < top_p <= 1, f"top_p must be above 0 and at most 1, got {top_p!r}")
    m, n = rows.shape
    if not m:
        return None
    by_k, by_p = 0 < top_k < n, top_p < 1
    if temperature == 0:
        return _plan_argmax(target, logits)
    return Plan(lambda: build_sample_module(n, dtype, top_k=by_k, top_p=by_p, target=target),
                lambda out: (rows, out.reshape(m), m, float(temperature), min(top_k, n), float(top_p), seed))


# ------------------------------------------------------------------------------------------- definitions in f64


def philox(seed: int, rows: int, columns: int) -> Any:
    """The 32-bit words of the noise (rows, columns), int64: word ``j % 4`` of counter ``(j // 4, row)``."""
    import torch

    low = (1 << 32) - 1
    counter = torch.arange(-(-columns // 4)).repeat(rows, 1)
    c = [counter, torch.arange(rows)[:, None].expand_as(counter), torch.zeros_like(counter), torch.zeros_like(counter)]
    k = [seed & low, (seed >> 32) & low]

    def product(x: Any, factor: int) -> tuple[Any, Any]:
        """High and low half of a product of 32-bit numbers, in pieces that int64 holds."""
        high, rest = x >> 16, x & 0xFFFF
        upper, lower = high * factor, rest * factor
        total = ((upper & 0xFFFF) << 16) + lower
        return (upper >> 16) + (total >> 32), total & low

    for _ in range(10):
        (h0, l0), (h1, l1) = product(c[0], 0xD2511F53), product(c[2], 0xCD9E8D57)
        c = [h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return torch.stack(c, -1).reshape(rows, -1)[:, :columns]


def kept(logits: Any, temperature: float, top_k: int, top_p: float) -> Any:
    """Probabilities in float64 of what top-k and top-p leave; of equal values, all stay or none."""
    import torch

    x = logits.double() / temperature
    n = x.shape[-1]
    if 0 < top_k < n:
        least = x.topk(top_k, -1).values[..., -1:]
        x = x.masked_fill(x < least, -math.inf)
    p = x.softmax(-1)
    if top_p < 1:
        ordered = p.sort(-1, descending=True).values
        count = (ordered.cumsum(-1) < top_p).sum(-1, keepdim=True).clamp(max=n - 1)
        p = p.masked_fill(p < ordered.gather(-1, count), 0)
    return p / p.sum(-1, keepdim=True) if isinstance(p, torch.Tensor) else p


def _reference_sample(logits: Any, temperature: float, top_k: int, top_p: float, seed: int) -> tuple[Any, ...]:
    import torch

    if temperature == 0:
        return (logits.argmax(-1).double(),)
    shape, n = logits.shape[:-1], logits.shape[-1]
    uniform = (philox(seed, math.prod(shape), n).double() + 0.5) * 2.0**-32
    scores = kept(logits.reshape(-1, n), temperature, top_k, top_p) / -torch.log1p(-uniform)
    return (scores.argmax(-1).reshape(shape).double(),)


def _sample_op(op: Op, logits: Any, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
               seed: int = 0) -> Any:
    """A token drawn from ``softmax(logits / temperature)`` of each row.

    Args:
        logits: (..., N): float32, float16 or bfloat16.
        temperature: 0 takes the largest logit.
        top_k: only values that are at least the k-th largest; 0: all.
        top_p: after that, only the largest values whose probabilities together reach p.
        seed: of 64 bits, signed or not. What is drawn depends on it, the row and the logits alone: take another one for
            every step.

    Returns:
        int64 of shape (...,); -1 for a row with a NaN, +inf or nothing above -inf (but at temperature 0 the first of
        the largest, where NaN is largest). Equal values are kept or left out together.

    Raises:
        TypeError: the dtype is not supported.
        ValueError: an option is out of range.
    """
    require("sample", -SIGN <= seed < 2 * SIGN, f"the seed must have 64 bits, got {seed!r}")
    signed = ((seed + SIGN) % (2 * SIGN)) - SIGN  # as an operator of torch and a kernel take it
    return op(logits, float(temperature), top_k, float(top_p), signed)


def _logits(op: Op, draw: Any, model: Model) -> Iterator[tuple[Any, ...]]:
    """Of a model's vocabulary."""
    return (op.sample(draw, 1, model.vocabulary, dtype=dtype) for dtype in ("bf16", "f32"))


ARGMAX = Op(
    "argmax", "(Tensor x) -> Tensor",
    "int64 index of the largest value over the last dimension: the first of equal ones; NaN is largest",
    results=_results, plan=_plan_argmax, widths=(96, 101),
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, n, dtype=dtype),),
    reference=lambda x: (x.argmax(-1).double(),),
    bench=lambda target, rows: [("argmax", (rows // 8, 32768), {"dtype": "bf16"})], prebuilt=_logits,
)

SAMPLE = Op(
    "sample", "(Tensor logits, float temperature=1.0, int top_k=0, float top_p=1.0, int seed=0) -> Tensor",
    "int64 index drawn from the softmax of each row, with temperature, top-k, top-p and a seed",
    results=_results, plan=_plan_sample, reference=_reference_sample, widths=(96, 101), form=_sample_op,
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, n, dtype=dtype, scale=2.0), 0.7, 20, 0.9, 5),
    bench=lambda target, rows: [("sample top-k top-p", (rows // 64, 32768), {"dtype": "bf16"})], prebuilt=_logits,
)

OPS = [ARGMAX, SAMPLE]
