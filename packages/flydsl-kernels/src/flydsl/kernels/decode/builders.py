"""Launchers of paged attention."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.combine import CombineConfig, combine_kernel
from ..cache.pages import context_of
from ..host.dense import require_operands
from ..target import Target, builder
from .config import DecodeConfig, paged_config
from .kernel import Share, Sizes, attend_pages
from .merge import Place, Results
from .mla_config import MlaConfig, mla_config
from .mla_kernel import attend_latents

__all__ = ["build_combine_module", "build_mla_decode_module", "build_paged_attention_module"]


@flyc.kernel
def decode_kernel(tensors, sizes, config: fx.Constexpr):
    """Workgroup (key head x row block, sequence, part)."""
    which, sequence, part = fx.block_idx
    head, block = which // config.row_blocks, which % config.row_blocks
    table, context = context_of(tensors, sequence, sizes, config.page, config.lists)
    oldest = fx.max(context - config.queries - sizes.reach, 0) if config.left else 0
    share = Share.of(table, context, config.step, part, sizes.parts, oldest)
    place = Place.of(config, head, block, sequence, sizes.heads, part, sizes.parts)
    attend = attend_latents if isinstance(config, MlaConfig) else attend_pages
    attend(tensors, sizes, config, share, Results(tensors, place, config.split))


def _launch(tensors: dict[str, Any], sizes: Any, config: DecodeConfig, batch: Any, stream: Any, combined: bool) -> None:
    """Attention, and the sum of its parts if they are `combined`. A call is refused whose operands do not fit."""
    require_operands(tensors, config.extents(sizes, batch, combined))
    launch: Any = decode_kernel(tensors, sizes, config, value_attrs=config.hints)
    launch.launch(grid=(sizes.heads // config.group * config.row_blocks, batch, sizes.parts), block=config.threads,
                  stream=stream)
    if combined:
        combine = CombineConfig(config.dim, config.out, config.sink, config.parts_dtype, target=config.target)
        parts, lse = tensors["parts"], tensors["lse"]
        launch = combine_kernel(parts, lse, tensors.get("sink", lse), tensors["out"], lse, sizes.heads,
                                fx.Int32(config.queries), sizes.parts, combine)
        launch.launch(grid=batch * config.queries * sizes.heads, block=combine.threads, stream=stream)


@builder
def build_paged_attention_module(dim: int, group: int, queries: int = 1, dtype: str = "bf16", cache: str = "bf16",
                                 out: str = "bf16", page: int = 16, *, window: bool = False, softcap: bool = False,
                                 sink: bool = False, key_scales: str = "", value_scales: str = "", split: bool = True,
                                 key_unit: int = 0, value_unit: int = 0, lists: bool = False, parts_dtype: str = "f32",
                                 combined: bool = True, target: Target) -> Any:
    """``launch(Q, K, V, Table, Lengths, Sink, KScale, VScale, Starts, Out, Parts, Lse, batch, sizes, stream=None)``,
    where `sizes` is of :func:`.kernel.sizes_of`.

    Args:
        dim: elements of a head, a multiple of 32 from 64 to 256.
        group: query heads of a key head; `queries`: tokens of a sequence, 1 to 16.
        dtype: of Q, ``"f16"`` or ``"bf16"``; `cache`: of K and V, the same or ``"fp8"``; `out`: of Out.
        page: tokens of a page; `pages`: of the caches. Page numbers that are looked at and are none of them stop the
            launch.
        window: keys more than `reach` tokens back are hidden.
        softcap: scores are ``softcap * tanh(score / softcap)``.
        sink: Sink, f32 [heads], adds ``exp(sink)`` to the denominators.
        key_scales, value_scales: ``"tensor"``: f32 [1]; ``"head"``: f32 [key heads]; ``"token"``: f32 [pages, key
            heads, page]; ``""``: none.
        split: contexts are divided among `parts` workgroups. Parts is [batch * queries * heads * parts, dim] of
            `parts_dtype`, and Lse f32 of as many rows.
        key_unit: 0, or the x of keys [pages, key heads, dim / x, page, x]; value_unit: 0, or the tokens that lie
            together in values [pages, key heads, dim, page] (page) or [pages, key heads, page / x, dim, x] (x). Of
            these, the unit of keys is from x features to the next, a token of values from a feature to the next and
            their unit from x tokens to the next.
        combined: the parts are added; else :func:`build_combine_module` does it.
        lists: Table is one list of page numbers, those of sequence b from ``Starts[b]`` to ``Starts[b + 1]``.

    Q and Out are [batch, queries, heads, dim] in row-major order; K and V have the strides that are given, in elements.
    What the configuration does not have is not looked at: pass any tensor.

    Raises:
        ValueError: an argument is not supported.
    """
    config = paged_config("build_paged_attention_module", target, dim, group, queries, dtype, cache, out, page,
                          window=window, softcap=softcap, sink=sink, key_scales=key_scales,
                          value_scales=value_scales, split=split, key_unit=key_unit, value_unit=value_unit,
                          lists=lists, parts_dtype=parts_dtype)

    @flyc.jit
    def paged_attention(Q, K, V, Table, Lengths, Sink, KScale, VScale, Starts, Out, Parts, Lse,  # noqa: N803
                        batch: fx.Int32, sizes: Sizes, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"q": Q, "k_cache": K, "v_cache": V, "table": Table, "lengths": Lengths, "starts": Starts,
                   "sink": Sink, "k_scale": KScale, "v_scale": VScale, "out": Out, "parts": Parts, "lse": Lse}
        _launch(tensors, sizes, config, batch, stream, split and combined)

    return paged_attention


@builder
def build_combine_module(dim: int, out: str = "bf16", parts_dtype: str = "f32", *, target: Target) -> Any:
    """``launch(Parts, Lse, Out, rows, parts, stream=None)``: adds the parts of a launch that was not `combined`.

    Parts is [rows, parts, dim] of `parts_dtype`, Lse f32 [rows, parts] with natural logarithms of the sums of weights.
    """
    combine = CombineConfig(dim, out, False, parts_dtype, target=target)

    @flyc.jit
    def combine_parts(Parts, Lse, Out, rows: fx.Int32, parts: fx.Int32,  # noqa: N803
                      stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        combine_kernel(Parts, Lse, Lse, Out, Lse, fx.Int32(1), rows, parts, combine).launch(
            grid=rows, block=combine.threads, stream=stream)

    return combine_parts


@builder
def build_mla_decode_module(heads: int, queries: int = 1, query: str = "bf16", cache: str = "bf16", out: str = "bf16",
                            page: int = 1, *, q_scaled: bool = False, kv_scaled: bool = False, split: bool = True,
                            parts_dtype: str = "f32", target: Target) -> Any:
    """``launch(Q, Cache, Table, Lengths, QScale, KvScale, Out, Parts, Lse, batch, sizes, stream=None)``, where `sizes`
    is of :func:`.kernel.sizes_of`, with the cache as keys.

    Args:
        heads: of a token; `queries`: tokens of a sequence, 1 to 16.
        query, cache: dtypes of Q and Cache: ``"f16"`` or ``"bf16"``, or ``"fp8"``; `out`: of Out.
        page: tokens of a page.
        split, parts_dtype: as of :func:`build_paged_attention_module`; Parts has 512 columns.

    Q is [batch, queries, heads, 576] and Out [batch, queries, heads, 512] in row-major order; a token of Cache is 576
    consecutive elements. QScale and KvScale are f32 [1], or any tensors unless `q_scaled` and `kv_scaled`.

    Raises:
        ValueError: an argument is not supported.
    """
    config = mla_config("build_mla_decode_module", target, heads, queries, query, cache, out, page,
                        q_scaled=q_scaled, kv_scaled=kv_scaled, split=split, parts_dtype=parts_dtype)

    @flyc.jit
    def mla_decode(Q, Cache, Table, Lengths, QScale, KvScale, Out, Parts, Lse, batch: fx.Int32,  # noqa: N803
                   sizes: Sizes, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"q": Q, "cache": Cache, "table": Table, "lengths": Lengths, "q_scale": QScale,
                   "kv_scale": KvScale, "out": Out, "parts": Parts, "lse": Lse}
        _launch(tensors, sizes, config, batch, stream, split)

    launcher: Any = mla_decode
    launcher.config = config
    return launcher
