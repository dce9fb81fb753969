"""Builders of the fused rotary embedding and cache write."""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..cache.layout import BlockLayout, packed_blocks
from ..host.config import require
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS, float_dtype
from ..parts.memory import pointer
from ..target import Target, builder
from .cache_kernel import CacheConfig, launch_rope_cache
from .config import ACCESS_BITS, Rotation, rotation

__all__ = ["build_fused_rope_cache_module", "build_rope_cache_module"]

_INDEX = {"i32": fx.Int32, "i64": fx.Int64}


def _config(where: str, target: Target, turn: Rotation, q_heads: int, kv_heads: int, dtype: str, cache_dtype: str,
            keys: BlockLayout, values: BlockLayout, scaled: bool, eps: float | None = None,
            weight_offset: float = 0.0, spaced: bool = False) -> CacheConfig:
    float_dtype(dtype, where)
    require(where, cache_dtype in (dtype, "fp8"), f"the caches must have the dtype {dtype} of the keys or fp8, got "
            f"{cache_dtype}")
    require(where, q_heads >= 1 and kv_heads >= 1, f"heads must be positive, got {q_heads} and {kv_heads}")
    require(where, not scaled or cache_dtype == "fp8", "scales are of fp8 caches")
    if cache_dtype == "fp8":
        target.require_fp8(where)
    vec = math.gcd(values.dim, ACCESS_BITS // FLOATS[dtype].width)
    return CacheConfig(turn, Rotation(values.dim, 0, vec, False), q_heads, kv_heads, dtype, cache_dtype, keys, values,
                       scaled, eps, float(weight_offset), spaced, target=target).fitting(where)


@builder
def build_rope_cache_module(q_heads: int, keys: BlockLayout, values: BlockLayout, dtype: str = "bf16",
                            cache_dtype: str = "bf16", *, interleaved: bool = False, scaled: bool = False,
                            rotary_dim: int | None = None, full_table: bool = False, eps: float | None = None,
                            weight_offset: float = 0.0, target: Target):
    """``launch(Q, K, V, Cos, Sin, Positions, KeyCache, ValueCache, Slots, KScale, VScale, QWeight, KWeight, QOut, KOut,
    tokens, blocks, table_rows, stream=None)``.

    Args:
        q_heads: Q is (tokens, q_heads, D); K and V are (tokens, heads, D or Dv), with heads and sizes of the layouts.
        keys, values: layouts of a block of the caches.
        dtype, cache_dtype: of Q, K, V and of the caches (the same, or ``"fp8"``).
        interleaved, rotary_dim, full_table: see :func:`~flydsl.kernels.rope.build_rope_module`.
        scaled: with KScale and VScale, f32 of one element: what is stored is ``x / scale``; else any tensors.
        eps: heads of Q and K are divided by ``sqrt(mean(x**2) + eps)`` and multiplied by QWeight and KWeight (D,)
            before they are rotated; None: they are not, and the weights are any tensors.
        weight_offset: added to the weights in f32: 1 for weights that are differences from one (Gemma).

    The tables are (table_rows, rotary_dim / 2), or (table_rows, rotary_dim) with `full_table`. A token with a negative
    slot is not stored; slots of ``blocks * size`` and more, or positions outside the tables, stop the launch.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_rope_cache_module"
    turn = rotation(where, keys.dim, rotary_dim, interleaved, dtype, full_table)
    config = _config(where, target, turn, q_heads, keys.heads, dtype, cache_dtype, keys, values, scaled, eps,
                     weight_offset)

    @flyc.jit
    def rope_cache(Q, K, V, Cos, Sin, Positions, KeyCache, ValueCache, Slots, KScale, VScale,  # noqa: N803
                   QWeight, KWeight, QOut, KOut, tokens: fx.Int32, blocks: fx.Int32,  # noqa: N803
                   table_rows: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        tensors = {"q": Q, "k": K, "v": V, "cos": Cos, "sin": Sin, "positions": Positions, "k_cache": KeyCache,
                   "v_cache": ValueCache, "slots": Slots, "k_scale": KScale, "v_scale": VScale, "q_weight": QWeight,
                   "k_weight": KWeight, "q_out": QOut, "k_out": KOut}
        launch_rope_cache(tensors, tokens, blocks, table_rows, config, stream)

    return rope_cache


@builder
def build_fused_rope_cache_module(head_dim: int = 64, rotary_dim: int = -1, num_q_heads: int = 8, num_kv_heads: int = 1,
                                  block_size: int = 16, is_neox: bool = True, flash_layout: bool = True,
                                  dtype_str: str = "bf16", apply_scale: bool = False,
                                  reuse_freqs_front_part: bool = True, pos_dtype: str = "i32", *, target: Target):
    """``launch(Q, K, V, Positions, CosCache, SinCache, SlotMapping, KeyCache, ValueCache, Q_out, K_out, num_tokens,
    KScale, VScale, stream=None)``.

    Args:
        head_dim, rotary_dim, num_q_heads, num_kv_heads: of Q[T, QH, D], K and V[T, KH, D], whose tokens and heads may
            lie apart, as do those of Q_out and K_out; -1 rotates all features.
        block_size: positions of a block of the caches.
        is_neox: pairs ``(i, i + rotary_dim / 2)``, else neighbours.
        flash_layout: caches are ``[blocks, block_size, KH, D]``; else keys ``[blocks, KH, D/16, block_size, 16]`` and
            values ``[blocks, KH, D, block_size]``. Blocks may lie apart, as those of ``[blocks, 2, ...]`` do.
        dtype_str: ``"bf16"`` or ``"f16"``.
        apply_scale: the caches are fp8 and hold ``x / scale``; else KScale and VScale are ignored.
        reuse_freqs_front_part: the tables are (positions, rotary_dim / 2), else (positions, rotary_dim); their rows may
            lie apart, as in halves of one tensor.
        pos_dtype: of Positions and SlotMapping: ``"i32"`` or ``"i64"``.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_fused_rope_cache_module"
    require(where, dtype_str in ("bf16", "f16"), f"dtype_str must be 'bf16' or 'f16', got {dtype_str!r}")
    require(where, pos_dtype in _INDEX, f"pos_dtype must be 'i32' or 'i64', got {pos_dtype!r}")
    require(where, flash_layout or head_dim % 16 == 0, f"the packed layout needs heads of a multiple of 16, got "
            f"{head_dim}")
    turn = rotation(where, head_dim, None if rotary_dim == -1 else rotary_dim, not is_neox, dtype_str,
                    full_table=not reuse_freqs_front_part)
    keys, values = packed_blocks(block_size, num_kv_heads, head_dim, None if flash_layout else 16)
    config = _config(where, target, turn, num_q_heads, num_kv_heads, dtype_str, "fp8" if apply_scale else dtype_str,
                     keys, values, apply_scale, spaced=True)
    index = _INDEX[pos_dtype]

    @flyc.jit
    def fused_rope_cache(Q, K, V, Positions, CosCache, SinCache, SlotMapping, KeyCache, ValueCache,  # noqa: N803
                         Q_out, K_out, num_tokens: fx.Int32, KScale, VScale,  # noqa: N803
                         stream: fx.Stream = fx.Stream(None)):
        tensors = {"q": Q, "k": K, "v": V, "cos": CosCache, "sin": SinCache, "q_out": Q_out, "k_out": K_out,
                   "k_cache": KeyCache, "v_cache": ValueCache}
        indices = {"positions": Positions, "slots": SlotMapping}
        require_operands(tensors | indices, dict.fromkeys(indices, Extent(num_tokens, index)))
        tensors |= {name: pointer(data, index) for name, data in indices.items()}
        if apply_scale:
            tensors |= {"k_scale": KScale, "v_scale": VScale}
        launch_rope_cache(tensors, num_tokens, _count(KeyCache), _count(CosCache), config, stream)

    return fused_rope_cache


def _count(data: Any) -> Any:
    """Size of the first mode of a tensor argument; of bare storage it is not known, and nothing is refused."""
    if isinstance(data, fx.Pointer):
        return fx.Int32((1 << 31) - 1)
    return fx.Int32(fx.get_scalar(fx.get_layout(data).shape[0]))
