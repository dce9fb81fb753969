"""What the older builders of a mixture's two products share: their rows of formats, tiles and launchers.

A launcher takes tensors in the order ``out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights,
num_valid_ids``, the sizes ``tokens, n, k, size_expert_ids`` and the stream. The blocks of sorting are `tile_m` rows.
Formats are rows of tables: what multiplies them, and the orders of their scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.host.arrays import allocate
from flydsl.kernels.host.config import require
from flydsl.kernels.moe.config import FORMATS, GroupedConfig, grouped_config
from flydsl.kernels.moe.grouped import launch_grouped
from flydsl.kernels.target import Target

from .moe_reduction import compile_moe_reduction

__all__ = ["MoeGemm2Mode", "by_mode", "launch_product", "launcher", "named", "product_config", "tiled"]

Row = tuple[str, dict[str, Any]]  # of a table: the format, and options of `GroupedConfig`
F16, BF16 = {"dtype": "f16"}, {"dtype": "bf16"}
OUT = {"f16": "f16", "fp16": "f16", "bf16": "bf16", "f32": "f32", "fp8": "fp8", "fp4": "fp4"}
FLOATS = ("f16", "bf16", "f32")


class MoeGemm2Mode(Enum):
    """What becomes of the results of a token's slots: they are added where they are made, or by a reduction."""

    ATOMIC = "atomic"
    REDUCE = "reduce"


def tiled(where: str, target: Target, n: int, k: int, tile: tuple[int, int, int], quant: str, out_dtype: str,
          **options: Any) -> GroupedConfig:
    """A configuration of weights that are given in the order of a kernel, with a tile near to the one asked for.
    `out_dtype` is also that of 16-bit activations, unless `options` have a ``dtype``."""
    out, kind = OUT[out_dtype], FORMATS[quant]
    options = {"dtype": out if out in ("f16", "bf16") else "bf16", **options}
    used = k - options.get("skip_k", 0)
    most = 256 * kind.bits_a // 8 if kind.scales == "micro" else 256  # two steps of the scaled instruction
    sizes = [b for b in (tile[2] * kind.bits_a // 8, 256, 128, 64) if b <= most and b % 64 == 0]
    row_bytes = next((b for b in sizes if k * kind.bits_a // 8 % b == 0 == used * kind.bits_a // 8 % b), 64)
    config = grouped_config(where, target, n=n, k=k, quant=quant, out=out, tile_m=tile[0],
                            tile_n=min(max(tile[1], 64), 128), row_bytes=row_bytes, **options)
    require(where, not config.ragged, f"K must be a multiple of {config.tile_k} for these tiles, got {k}")
    require(where, n % 16 == 0, f"the shuffled weight has whole strips of 16 rows, got {n}")
    return config


def product_config(where: str, target: Target, table: dict[Any, Row], kind: Any, names: str, up: bool,
                   sizes: tuple[int, int], tile: tuple[int, int, int], out_dtype: str, weighted: bool, *,
                   experts: int, topk: int, accumulate: bool = True, k_batch: int = 1, act: str = "silu",
                   limit: float = 0.0, outs: Any = FLOATS, **options: Any) -> GroupedConfig:
    """The configuration of gate and `up`, or of down, of a row of a table; `sizes` are (model, inter), `names` the
    arguments that `kind` comes from."""
    found = table.get(kind)
    known = ", ".join(" x ".join(k) if isinstance(k, tuple) else str(k) for k in table)
    require(where, found is not None, f"{names} must be one of {known}, got {kind}")
    require(where, OUT.get(out_dtype) in outs, f"out_dtype must be one of {', '.join(outs)}, got {out_dtype!r}")
    # Of experts that are on several devices, a token may choose more than are here.
    require(where, topk >= 1 and experts >= 1, f"topk and experts must be positive, got {topk} and {experts}")
    require(where, min(tile) > 0, f"tile_m, tile_n and tile_k must be positive, got {tile}")
    assert found is not None
    (quant, given), (k, n) = found, (sizes if up else sizes[::-1])
    if not up:
        require(where, accumulate or out_dtype != "f32", "results that are not added up are f16 or bf16, not f32")
        out: dict[str, Any] = dict(source="slot", into="token" if accumulate else "slot", weighted=weighted)
    elif k_batch > 1:
        require(where, not weighted, "k_batch > 1 leaves routing weights to the caller (doweight_stage1)")
        n, out = 2 * n, dict(into="slot", k_batch=k_batch)
    else:
        out = dict(into="slot", gated=True, activation=act, limit=limit or None, weighted=weighted)
    given = {"source": "token", **given, **out}
    return tiled(where, target, n, k, tile, quant, out_dtype, topk=topk, experts=experts, **given, **options)


def launch_product(config: GroupedConfig, out: Any, operands: tuple[Any, ...], tokens: Any, size_expert_ids: Any,
                   stream: Any, **others: Any) -> None:
    """From a jit function: the product of `operands` in the order of launchers."""
    names = ("x", "w", "x_scale", "w_scale", "rows", "experts", "weights", "valid")
    tensors = dict(zip(names, operands, strict=True), out=out, **others)
    sort_block = config.sort_block or config.tile_m
    launch_grouped(tensors, tokens, size_expert_ids * (sort_block // config.tile_m), size_expert_ids * sort_block,
                   config, stream)


def named(function: Any, config: GroupedConfig, name: str) -> Any:
    """A launcher with its name, and with what it was built from, for tools."""
    function.__name__, function.config = name, config
    return function


def launcher(config: GroupedConfig, name: str) -> Any:
    @flyc.jit
    def moe_gemm(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids,
                 tokens: fx.Int32, n: fx.Int32, k: fx.Int32, size_expert_ids: fx.Int32,
                 stream: fx.Stream = fx.Stream(None)):
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        launch_product(config, out, operands, tokens, size_expert_ids, stream)

    return named(moe_gemm, config, name)


def by_mode(build: Callable[..., Any]) -> Callable[..., Any]:
    """A builder of the second product that says by a mode what becomes of a token's slots."""

    def chosen(*, mode: MoeGemm2Mode | str = MoeGemm2Mode.ATOMIC, valid_mask: Any = None, **options: Any) -> Any:
        atomic = MoeGemm2Mode(mode) is MoeGemm2Mode.ATOMIC
        require(chosen.__name__, valid_mask is None or not atomic, "valid_mask is of mode 'reduce'")
        product = build(accumulate=atomic, **options)
        return product if atomic else _reduced(product, valid_mask is not None)

    chosen.__name__ = chosen.__qualname__ = f"{build.__name__}_ex"
    chosen.__doc__ = f""":func:`{build.__name__}` with `accumulate` by its mode, ``"atomic"`` or ``"reduce"``.

    Of the second, out is (T topk, model), slot by slot, or (T, model): then it is their sum, of the slots alone that a
    `valid_mask` (T, topk) of the call marks if one was given here too.
    """
    return chosen


def _reduced(product: Any, masked: bool) -> Callable[..., None]:
    """A launcher of results that are not added up, whose out may be their sum."""
    config = product.config
    where = product.__name__
    add = compile_moe_reduction(topk=config.topk, model_dim=config.n, dtype_str=config.out, target=config.target)

    def reduced(out: Any, x: Any, w: Any, scale_x: Any, scale_w: Any, sorted_token_ids: Any, expert_ids: Any,
                sorted_weights: Any, num_valid_ids: Any, tokens: int, n: int, k: int, size_expert_ids: int,
                stream: Any = None, *, valid_mask: Any = None) -> None:
        require(where, masked == (valid_mask is not None), "valid_mask is given to the builder and to the call, or not")
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        size, total = math.prod(out.shape), tokens * config.n
        if size == config.topk * total and not masked:
            product(out, *operands, tokens, n, k, size_expert_ids, stream)
            return
        slots = "" if masked else f", or of {config.topk} for each"
        require(where, size == total, f"out must be of {tokens} rows of {config.n}{slots}; got {tuple(out.shape)}")
        # A slot of an expert that has no rows here is written by nobody.
        each = allocate(config.target, out, (tokens, config.topk, config.n), config.out, zero=True)
        product(each, *operands, tokens, n, k, size_expert_ids, stream)
        if masked:
            each[valid_mask == 0] = 0
        add(each, out, None, None, tokens, stream)

    return named(reduced, config, where)
