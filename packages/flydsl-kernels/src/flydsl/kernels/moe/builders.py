"""The two products of a mixture of experts under the names and with the arguments of existing callers.

A launcher takes tensors in the order ``out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights,
num_valid_ids``, the sizes ``tokens, n, k, size_expert_ids`` and the stream. The blocks of sorting are `tile_m` rows.
Formats are rows of tables: what multiplies them, and the orders of their scales.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..target import Target, builder
from .config import FORMATS, GroupedConfig, grouped_config
from .grouped import launch_grouped

__all__ = [
    "GateMode", "MoeGemm2Mode", "compile_mixed_moe_gemm1", "compile_mixed_moe_gemm2", "compile_moe_blockscale_gemm1",
    "compile_moe_blockscale_gemm2", "compile_moe_blockscale_gemm2_ex", "compile_moe_gemm1", "compile_moe_gemm2",
    "compile_moe_gemm2_ex", "compile_mxscale_moe_gemm1", "compile_mxscale_moe_gemm2", "compile_mxscale_moe_gemm2_ex",
]

Row = tuple[str, dict[str, Any]]  # of a table: the format, and options of `GroupedConfig`
_F16, _BF16 = {"dtype": "f16"}, {"dtype": "bf16"}
_FP4 = dict(w_scales="words", scale="e8m0")
_INT4 = dict(w_scales="rows", scale="bf16", lane_k=16)
_MICRO = dict(w_scales="words", x_scales="words")
TWO_STAGE: dict[str, Row] = {
    "fp8": ("fp8", {}), "int8": ("int8", {}), "int8smooth": ("int8", {"source": "slots"}), "int4": ("int4", {}),
    "fp16": ("none", _F16), "bf16": ("none", _BF16), "int4_bf16": ("a16i4", {**_BF16, "lane_k": 16}),
}
MIXED: dict[tuple[str, str], Row] = {
    ("fp8", "fp4"): ("a8w4", _MICRO), ("fp4", "fp4"): ("mxfp4", _MICRO), ("fp8", "fp8"): ("mxfp8", _MICRO),
    ("fp16", "fp4"): ("a16w4", {**_F16, **_FP4}), ("bf16", "fp4"): ("a16w4", {**_BF16, **_FP4}),
    ("fp16", "int4"): ("a16i4", {**_F16, **_INT4}), ("bf16", "int4"): ("a16i4", {**_BF16, **_INT4}),
    ("int8", "int8"): ("int8", {}), ("int8smooth", "int8"): ("int8", {"source": "slots"}),
    ("int8", "int4"): ("int4", {}), ("fp16", "fp16"): ("none", _F16), ("bf16", "bf16"): ("none", _BF16),
}
MXSCALE: dict[str, Row] = {"fp4": ("mxfp4", {"w_scales": "words"}), "fp8": ("mxfp8", {"w_scales": "words"}),
                           "a8w4": ("a8w4", {"w_scales": "words"}), "fp16": TWO_STAGE["fp16"],
                           "bf16": TWO_STAGE["bf16"]}
BLOCKS: dict[int, Row] = {128: ("fp8_block", {"turned_scales": True})}  # k of a scale
OUT = {"f16": "f16", "fp16": "f16", "bf16": "bf16", "f32": "f32", "fp8": "fp8", "fp4": "fp4"}
FLOATS = ("f16", "bf16", "f32")
HALF = ("fp16", "bf16")


class MoeGemm2Mode(Enum):
    """What becomes of the results of a token's slots: they are added where they are made, or by a reduction."""

    ATOMIC = "atomic"
    REDUCE = "reduce"


class GateMode(Enum):
    """Where gate and up rows are in w.

    SEPARATED: all gate rows first, two streams. MOCK_GATE_ONLY: the same, as one stream of 2 inter rows (with
    `k_batch`). INTERLEAVE: in turn, in tiles of 16 rows. GATE_ONLY: not used.
    """

    SEPARATED = "separated"
    MOCK_GATE_ONLY = "mock_gate_only"
    GATE_ONLY = "gate_only"
    INTERLEAVE = "interleave"


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
    config = grouped_config(where, target, n=n, k=k, quant=quant, out=out, block_m=tile[0],
                            block_n=min(max(tile[1], 64), 128), row_bytes=row_bytes, **options)
    require(where, not config.ragged, f"K must be a multiple of {config.tile_k} for these tiles, got {k}")
    require(where, n % 16 == 0, f"the shuffled weight has whole strips of 16 rows, got {n}")
    return config


def _product(where: str, target: Target, table: dict[Any, Row], kind: Any, names: str, up: bool,
             sizes: tuple[int, int], tile: tuple[int, int, int], out_dtype: str, weighted: bool, *,
             accumulate: bool = True, k_batch: int = 1, act: str = "silu", limit: float = 0.0, outs: Any = FLOATS,
             **options: Any) -> GroupedConfig:
    """The configuration of gate and `up`, or of down, of a row of a table; `sizes` are (model, inter), `names` the
    arguments that `kind` comes from."""
    found = table.get(kind)
    known = ", ".join(" x ".join(k) if isinstance(k, tuple) else str(k) for k in table)
    require(where, found is not None, f"{names} must be one of {known}, got {kind}")
    require(where, OUT.get(out_dtype) in outs, f"out_dtype must be one of {', '.join(outs)}, got {out_dtype!r}")
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
    return tiled(where, target, n, k, tile, quant, out_dtype, **given, **options)


def launch_product(config: GroupedConfig, out: Any, operands: tuple[Any, ...], tokens: Any, size_expert_ids: Any,
                   stream: Any, **others: Any) -> None:
    """From a jit function: the product of `operands` in the order of launchers."""
    names = ("x", "w", "x_scale", "w_scale", "rows", "experts", "weights", "valid")
    tensors = dict(zip(names, operands, strict=True), out=out, **others)
    sort_block = config.sort_block or config.block_m
    launch_grouped(tensors, tokens, size_expert_ids * (sort_block // config.block_m), size_expert_ids * sort_block,
                   config, stream)


def named(function: Any, config: GroupedConfig, name: str) -> Any:
    """A launcher with its name, and with what it was built from, for tools."""
    function.__name__, function.config = name, config
    return function


def _launcher(config: GroupedConfig, name: str) -> Any:
    @flyc.jit
    def moe_gemm(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids,
                 tokens: fx.Int32, n: fx.Int32, k: fx.Int32, size_expert_ids: fx.Int32,
                 stream: fx.Stream = fx.Stream(None)):
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        launch_product(config, out, operands, tokens, size_expert_ids, stream)

    return named(moe_gemm, config, name)


def _by_mode(build: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*, mode: MoeGemm2Mode = MoeGemm2Mode.ATOMIC, valid_mask: Any = None, **options: Any) -> Any:
        require(chosen.__name__, valid_mask is None,
                "the mask of slots is an argument of compile_moe_reduction (use_mask)")
        return build(accumulate=mode is MoeGemm2Mode.ATOMIC, **options)

    chosen.__name__ = chosen.__qualname__ = f"{build.__name__}_ex"
    chosen.__doc__ = f":func:`{build.__name__}` with `accumulate` by its mode."
    return chosen


# ------------------------------------------------------------------------------------------- one type, scales of rows


def _groups(where: str, target: Target, in_dtype: str, group_size: int, scale_is_bf16: bool) -> dict[str, Any]:
    if in_dtype != "int4_bf16":
        return {}
    require(where, group_size in (-1, 32), f"group_size must be -1 or 32, got {group_size}")
    require(where, target.matrix == "mfma", f"int4_bf16 needs matrix instructions of 64 lanes, not {target.name}")
    return dict(w_scales="pairs" if group_size == 32 else "row", scale="bf16" if scale_is_bf16 else "f32")


@builder
def compile_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int, tile_k: int,
                      doweight_stage1: bool, out_dtype: str = "f16", in_dtype: str = "fp8", group_size: int = -1,
                      scale_is_bf16: bool = False, use_cshuffle_epilog: bool | None = None, target: Target) -> Any:
    """``out[T, topk, inter] = silu(gate) * up`` (times the routing weight if `doweight_stage1`) of sorted tokens.

    x is (T, model), of int8smooth (topk T, model) slot by slot; w is (E, 2 inter, model) in the order of
    ``shuffle_weight`` (int4: packed after it), scale_x f32[T] and scale_w f32[E 2 inter], both unused by 16-bit types.
    ``"int4_bf16"`` has bf16 activations and int4 weights, whose scales (bf16 if `scale_is_bf16`) are of rows, or of
    32 k with a `group_size` of 32, in the order of ``shuffle_scale_for_int4``.
    `use_cshuffle_epilog` is a hint that is not taken: a lane has consecutive columns.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_moe_gemm1"
    config = _product(where, target, TWO_STAGE, in_dtype, "in_dtype", True, (model_dim, inter_dim),
                      (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, topk=topk,
                      **_groups(where, target, in_dtype, group_size, scale_is_bf16))
    return _launcher(config, "moe_gemm1")


@builder
def compile_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int, tile_k: int,
                      doweight_stage2: bool, out_dtype: str = "f16", in_dtype: str = "fp8", accumulate: bool = True,
                      group_size: int = -1, scale_is_bf16: bool = False, use_cshuffle_epilog: bool | None = None,
                      target: Target) -> Any:
    """The product of x (T topk, inter) with w (E, model, inter), times the routing weights if `doweight_stage2`.

    With `accumulate` the slots of a token are added to out (T, model), zero before, in any order (f16, bf16, f32);
    otherwise out is (T topk, model), see ``compile_moe_reduction`` (f16, bf16). Otherwise as
    :func:`compile_moe_gemm1`, scale_x f32[T topk] and scale_w f32[E model].

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_moe_gemm2"
    config = _product(where, target, TWO_STAGE, in_dtype, "in_dtype", False, (model_dim, inter_dim),
                      (tile_m, tile_n, tile_k), out_dtype, doweight_stage2, accumulate=accumulate, topk=topk,
                      **_groups(where, target, in_dtype, group_size, scale_is_bf16))
    return _launcher(config, "moe_gemm2")


compile_moe_gemm2_ex = _by_mode(compile_moe_gemm2)


@builder
def compile_moe_blockscale_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                                 tile_k: int, doweight_stage1: bool, scale_block_k: int = 128, out_dtype: str = "f16",
                                 use_cshuffle_epilog: bool | None = None, waves_per_eu: int | None = None,
                                 target: Target) -> Any:
    """:func:`compile_moe_gemm1` of fp8 with scale_x f32[model/128, T] and scale_w f32[E, 2 inter/128, model/128].
    `waves_per_eu` is a hint that is not taken: the registers of the tile say it."""
    config = _product("compile_moe_blockscale_gemm1", target, BLOCKS, scale_block_k, "scale_block_k", True,
                      (model_dim, inter_dim), (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, topk=topk)
    return _launcher(config, "moe_blockscale_gemm1")


@builder
def compile_moe_blockscale_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                                 tile_k: int, doweight_stage2: bool, scale_block_k: int = 128, out_dtype: str = "f16",
                                 accumulate: bool = True, use_cshuffle_epilog: bool | None = None,
                                 waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm2` of fp8 with scale_x f32[inter/128, T topk] and scale_w f32[E, model/128, inter/128];
    hints as of :func:`compile_moe_blockscale_gemm1`."""
    config = _product("compile_moe_blockscale_gemm2", target, BLOCKS, scale_block_k, "scale_block_k", False,
                      (model_dim, inter_dim), (tile_m, tile_n, tile_k), out_dtype, doweight_stage2,
                      accumulate=accumulate, topk=topk)
    return _launcher(config, "moe_blockscale_gemm2")


compile_moe_blockscale_gemm2_ex = _by_mode(compile_moe_blockscale_gemm2)


# ------------------------------------------------------------------------------------------- operands of several types


def _pairs(mode: GateMode | str, k_batch: int, where: str) -> str:
    """How gate and up rows lie in w."""
    mode = GateMode(mode.value if isinstance(mode, Enum) else mode)
    require(where, mode is not GateMode.GATE_ONLY, "gate_mode 'gate_only' is reserved: use 'separated' or 'interleave'")
    require(where, mode is not GateMode.MOCK_GATE_ONLY or k_batch > 1, "gate_mode 'mock_gate_only' needs k_batch > 1")
    require(where, mode is not GateMode.INTERLEAVE or k_batch == 1,
            "k_batch > 1 leaves the activation to the caller, who takes all gate columns first: use 'separated'")
    return "pairs" if mode is GateMode.INTERLEAVE else "halves"


def _mixed(where: str, target: Target, a_dtype: str, b_dtype: str, pads: tuple[int, int], *arguments: Any,
           **options: Any) -> GroupedConfig:
    if FORMATS[MIXED.get((a_dtype, b_dtype), ("none", {}))[0]].scales in ("groups", "micro"):
        target.require(where, "gfx942", "gfx950")
    # Only what is a multiple of a step of the instruction can be left out: the rest of a step is multiplied.
    return _product(where, target, MIXED, (a_dtype, b_dtype), "a_dtype and b_dtype", *arguments,
                    skip_n=pads[0] // 16 * 16, skip_k=pads[1] // 128 * 128, **options)


@builder
def compile_mixed_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                            tile_k: int, doweight_stage1: bool, a_dtype: str = "fp8", b_dtype: str = "fp4",
                            out_dtype: str = "f16", act: str = "silu", use_cshuffle_epilog: bool | None = None,
                            enable_bias: bool = False, model_dim_pad: int = 0, inter_dim_pad: int = 0,
                            persist_m: int = 1, use_async_copy: bool = False, waves_per_eu: int | None = 4,
                            k_batch: int = 1, b_nt: int = 0, gate_mode: GateMode | str = GateMode.SEPARATED,
                            a_scale_one: bool = False, xcd_swizzle: int = 0, swiglu_limit: float = 0.0,
                            target: Target) -> Any:
    """``launch(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias,
    out_scale_sorted, tokens, inter, model, size_expert_ids, stream=None)``: the activation of gate and up.

    x is (T, model) and out (T, topk, inter); w (E, 2 inter, model) is in the order of ``shuffle_weight`` (of
    ``shuffle_weight_w4`` with `gate_up` and `moe_gemm` where gate and up take turns; int4 packed after it).

    Scales of fp4 and fp8 are e8m0 of 32 k: scale_w in the order of ``e8m0_shuffle`` (``shuffle_scale_w4`` with
    `gate_up` where they take turns), scale_x of the sorted rows, by ``moe_mxfp4_sort``, not read with `a_scale_one`.
    Scales of int8 are f32 of rows; those of int4 weights with 16-bit activations bf16 (E, 2 inter, model/32).

    Args:
        a_dtype, b_dtype: ``"fp4"``, ``"fp8"``, ``"fp16"``, ``"bf16"``, ``"int8"`` or ``"int8smooth"`` with ``"fp4"``,
            ``"fp8"``, ``"int4"``, ``"int8"`` or the same 16-bit type.
        out_dtype: ``"f16"``, ``"bf16"``; or ``"fp4"``, ``"fp8"``: quantised by 32 columns, with scales in
            out_scale_sorted in the order of those of x.
        act: ``"silu"``, ``"swiglu"``, ``"gelu"`` or ``"situ"``; `swiglu_limit` clamps gate and up if it is positive.
        enable_bias: add bias f32 (E, 2 inter), all of gate first.
        model_dim_pad, inter_dim_pad: of model and inter so much is padding, which whole tiles leave out.
        k_batch: workgroups that share a reduction. They add to out, (T, topk, 2 inter) of f16 or bf16 and zero
            before, and the activation is the caller's (``silu_and_mul``); routing weights then are too.
        b_nt: cache bits of the loads of w (2: non-temporal).
        xcd_swizzle: tiles of neighbouring columns and of so many blocks of rows run on one die; 0: as launched.
        use_cshuffle_epilog, persist_m, use_async_copy, waves_per_eu: hints that are not taken.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_mixed_moe_gemm1"
    strips = _pairs(gate_mode, k_batch, where)
    require(where, k_batch == 1 or inter_dim_pad == 0, "k_batch > 1 makes all columns (inter_dim_pad)")
    config = _mixed(where, target, a_dtype, b_dtype, (inter_dim_pad, model_dim_pad), True, (model_dim, inter_dim),
                    (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, k_batch=k_batch, act=act, limit=swiglu_limit,
                    outs=(*FLOATS, "fp4", "fp8"), strips=strips, bias=enable_bias, scale_one=a_scale_one, topk=topk,
                    cache=b_nt, group=xcd_swizzle)

    @flyc.jit
    def mixed_moe_gemm1(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias,
                        out_scale_sorted, tokens: fx.Int32, inter: fx.Int32, model: fx.Int32,
                        size_expert_ids: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        launch_product(config, out, operands, tokens, size_expert_ids, stream, bias=bias, out_scale=out_scale_sorted)

    return named(mixed_moe_gemm1, config, "mixed_moe_gemm1")


@builder
def compile_mixed_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                            tile_k: int, doweight_stage2: bool, a_dtype: str = "fp8", b_dtype: str = "fp4",
                            out_dtype: str = "f16", use_cshuffle_epilog: bool | None = None, accumulate: bool = True,
                            enable_bias: bool = False, model_dim_pad: int = 0, inter_dim_pad: int = 0,
                            persist_m: int = 4, sort_block_m: int = 0, use_async_copy: bool = False,
                            waves_per_eu: int | None = None, b_nt: int = 2, a_scale_one: bool = False,
                            xcd_swizzle: int = 0, target: Target) -> Any:
    """``launch(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias, tokens,
    model, inter, size_expert_ids, stream=None)``: the product of x (T, topk, inter) with w (E, model, inter).

    With `accumulate` the slots of a token are added to out (T, model), zero before; otherwise out is (T topk, model).
    bias is f32 (E, model), `sort_block_m` the rows of a block of sorting (0: tile_m). Otherwise as
    :func:`compile_mixed_moe_gemm1`.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    config = _mixed("compile_mixed_moe_gemm2", target, a_dtype, b_dtype, (model_dim_pad, inter_dim_pad), False,
                    (model_dim, inter_dim), (tile_m, tile_n, tile_k), out_dtype, doweight_stage2,
                    accumulate=accumulate, bias=enable_bias, sort_block=sort_block_m, scale_one=a_scale_one, topk=topk,
                    cache=b_nt, group=xcd_swizzle)

    @flyc.jit
    def mixed_moe_gemm2(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias,
                        tokens: fx.Int32, model: fx.Int32, inter: fx.Int32, size_expert_ids: fx.Int32,
                        stream: fx.Stream = fx.Stream(None)):
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        launch_product(config, out, operands, tokens, size_expert_ids, stream, bias=bias)

    return named(mixed_moe_gemm2, config, "mixed_moe_gemm2")


# ------------------------------------------------------------------------------------------- gfx1250


@builder
def compile_mxscale_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                              tile_k: int, doweight_stage1: bool, in_dtype: str = "a8w4", out_dtype: str = "bf16",
                              act: str = "silu", k_batch: int = 1, num_buffers: int = 2, use_tdm_gather: bool = True,
                              use_tdm_store: bool = True, cluster_m: int = 1, cluster_n: int = 1,
                              waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm1` of gfx1250 for microscaled operands: of ``"fp4"``, ``"fp8"`` (e4m3) or ``"a8w4"`` (e4m3
    with weights of fp4), and of ``"fp16"`` and ``"bf16"`` as there.

    w is (E, 2 inter, model) by ``preshuffle_b_16x16``, scale_w of it, each expert's by ``shuffle_scale_32x4``; scale_x
    e8m0 (T, model/32), row by row.

    Args:
        act: ``"silu"``, ``"swiglu"``, ``"gelu"`` or ``"situ"``.
        k_batch: workgroups that share a reduction. They add to out, (T, topk, 2 inter) and zero before, and activation
            and routing weights are the caller's.
        num_buffers, use_tdm_gather, use_tdm_store, cluster_m, cluster_n, waves_per_eu: hints that are not taken: rows
            that are gathered one by one have other ways to LDS.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_mxscale_moe_gemm1"
    if in_dtype not in HALF:
        target.require(where, "gfx1250")
    config = _product(where, target, MXSCALE, in_dtype, "in_dtype", True, (model_dim, inter_dim),
                      (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, k_batch=k_batch, act=act, topk=topk)
    return _launcher(config, "mxscale_moe_gemm1")


@builder
def compile_mxscale_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                              tile_k: int, doweight_stage2: bool, in_dtype: str = "a8w4", out_dtype: str = "bf16",
                              accumulate: bool = True, num_buffers: int = 2, use_tdm_gather: bool = True,
                              use_tdm_store: bool = True, cluster_m: int = 1, cluster_n: int = 1,
                              waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm2` of gfx1250 for the operands of :func:`compile_mxscale_moe_gemm1`."""
    where = "compile_mxscale_moe_gemm2"
    if in_dtype not in HALF:
        target.require(where, "gfx1250")
    config = _product(where, target, MXSCALE, in_dtype, "in_dtype", False, (model_dim, inter_dim),
                      (tile_m, tile_n, tile_k), out_dtype, doweight_stage2, accumulate=accumulate, topk=topk)
    return _launcher(config, "mxscale_moe_gemm2")


compile_mxscale_moe_gemm2_ex = _by_mode(compile_mxscale_moe_gemm2)
