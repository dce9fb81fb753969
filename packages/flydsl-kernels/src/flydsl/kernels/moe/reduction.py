"""The sum over the slots of a token, of the results of its experts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dtypes import FLOATS, float_dtype
from ..parts.epilogue import FAR
from ..parts.index import cdiv
from ..parts.memory import Buffer
from ..target import Target, builder

__all__ = ["ReduceConfig", "compile_moe_reduction", "launch_reduce"]

THREADS = 256
ACCESS_BITS = 128


@dataclass(frozen=True)
class ReduceConfig(KernelConfig):
    """``y[t] = sum over slots of x[t topk + slot]``, in f32.

    Attributes:
        n: columns.
        dtype, out: of x and y.
        experts: slots of experts that are not in 0 .. experts - 1 are left out; 0: every slot counts.
        mask: as are those whose expert is masked.
    """

    topk: int
    n: int
    dtype: str
    out: str
    experts: int = 0
    mask: bool = False

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def vector(self) -> int:
        """Elements of a thread."""
        return math.gcd(self.n, ACCESS_BITS // max(FLOATS[self.dtype].width, FLOATS[self.out].width))

    def grid(self, m: Any) -> tuple[Any, ...]:
        return m, cdiv(self.n, THREADS * self.vector)


@flyc.kernel
def _reduce_kernel(tensors, config: fx.Constexpr):
    token, width, n = fx.block_idx.x, config.vector, config.n
    column = (fx.block_idx.y * THREADS + fx.thread_idx.x) * width
    x = Buffer(tensors["x"], FLOATS[config.dtype], fx.Int64(token) * (config.topk * n), config.topk * n)
    y = Buffer(tensors["y"], FLOATS[config.out], fx.Int64(token) * n, n)
    ids: Any = None
    mask: Any = None
    if fx.const_expr(config.experts > 0):
        ids = Buffer(tensors["ids"], fx.Int32, fx.Int64(token) * config.topk, config.topk)
    if fx.const_expr(config.mask):
        mask = Buffer(tensors["mask"], fx.Int32, None, config.experts)
    values = []
    for slot in fx.range_constexpr(config.topk):
        counts = column < n
        if fx.const_expr(config.experts > 0):
            expert = ids.load(slot, 1)[0]
            counts = counts & (expert >= 0) & (expert < config.experts)
            if fx.const_expr(config.mask):
                counts = counts & (mask.load(fx.max(expert, 0), 1)[0] != 0)
        # What does not count is read past the end, as zero.
        values.append(x.load(counts.select(slot * n + column, FAR // (x.element.width // 8)), width))
    total = values[0].to(fx.Float32)
    for value in values[1:]:
        total = total + value.to(fx.Float32)
    y.store((column < n).select(column, FAR // (y.element.width // 8)), total.to(y.element))


def launch_reduce(tensors: dict[str, Any], tokens: Any, config: ReduceConfig, stream: Any) -> None:
    """From a jit function; tensors: x (tokens topk, n), y (tokens, n), as configured ids (tokens, topk) and mask."""
    config.target.require_traced()
    _reduce_kernel(tensors, config).launch(grid=config.grid(tokens), block=THREADS, stream=stream)


@builder
def compile_moe_reduction(*, topk: int, model_dim: int, dtype_str: str = "f16", use_mask: bool = False,
                          num_experts: int = 0, out_dtype_str: str | None = None, target: Target):
    """``launch(X, Y, expert_mask, topk_ids, m_tokens, stream=None)``: the sum of the `topk` rows of each token.

    Args:
        dtype_str: of X (tokens topk, model_dim): ``"f16"``, ``"bf16"`` or ``"f32"``; `out_dtype_str` of Y, the same by
            default.
        use_mask: leave out slots whose expert (topk_ids i32) is masked out (expert_mask i32[num_experts] of 0).

    Raises:
        ValueError: an argument is not supported.
    """
    where = "compile_moe_reduction"
    if topk < 1 or model_dim < 1:
        raise ValueError(f"{where}: topk and model_dim must be positive, got {topk} and {model_dim}")
    if use_mask and num_experts < 1:
        raise ValueError(f"{where}: a mask needs num_experts")
    config = ReduceConfig(topk, model_dim, float_dtype(dtype_str, where),
                          float_dtype(out_dtype_str or dtype_str, where),
                          num_experts if use_mask else 0, use_mask, target=target)

    @flyc.jit
    def moe_reduction(X, Y, expert_mask, topk_ids, m_tokens: fx.Int32,  # noqa: N803
                      stream: fx.Stream = fx.Stream(None)):
        if m_tokens > 0:
            launch_reduce(dict(x=X, y=Y, mask=expert_mask, ids=topk_ids), m_tokens, config, stream)

    return moe_reduction
