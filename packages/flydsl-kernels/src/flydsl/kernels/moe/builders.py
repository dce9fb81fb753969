"""The two products of a mixture of experts under the names and with the arguments of existing callers.

A launcher takes tensors in the order ``out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights,
num_valid_ids``, the sizes ``tokens, n, k, size_expert_ids`` and the stream. The blocks of sorting are `tile_m` rows.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..target import Target, builder
from .config import GroupedConfig, grouped_config
from .grouped import launch_grouped

__all__ = [
    "MoeGemm2Mode", "compile_moe_blockscale_gemm1", "compile_moe_blockscale_gemm2", "compile_moe_blockscale_gemm2_ex",
    "compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex",
]

FORMATS = {"fp8": "fp8", "int8": "int8", "int8smooth": "int8", "int4": "int4", "fp16": "none", "bf16": "none"}
OUT = {"f16": "f16", "fp16": "f16", "bf16": "bf16", "f32": "f32"}


class MoeGemm2Mode(Enum):
    """What becomes of the results of a token's slots: they are added where they are made, or by a reduction."""

    ATOMIC = "atomic"
    REDUCE = "reduce"


def _config(where: str, target: Target, n: int, k: int, tile: tuple[int, int, int], in_dtype: str, out_dtype: str,
            topk: int, quant: str | None = None, **options: Any) -> GroupedConfig:
    require(where, in_dtype in FORMATS, f"in_dtype must be one of {', '.join(FORMATS)}, got {in_dtype!r}")
    require(where, out_dtype in OUT, f"out_dtype must be one of {', '.join(OUT)}, got {out_dtype!r}")
    out, dtype = OUT[out_dtype], {"fp16": "f16", "bf16": "bf16"}.get(in_dtype) or OUT[out_dtype].replace("32", "16")
    bits = 16 if in_dtype in ("fp16", "bf16") else 8
    row_bytes = next((b for b in (tile[2] * bits // 8, 256, 128, 64) if k * bits // 8 % b == 0), 64)
    config = grouped_config(where, target, n=n, k=k, dtype=dtype, out=out, quant=quant or FORMATS[in_dtype],
                            block_m=tile[0], block_n=min(max(tile[1], 64), 128), row_bytes=row_bytes, topk=topk,
                            **options)
    unit = config.row_bytes * 8 // bits
    require(where, not config.ragged, f"K must be a multiple of {unit} for these tiles, got {k}")
    require(where, n % 16 == 0, f"the shuffled weight has whole strips of 16 rows, got {n}")
    return config


def _launcher(config: GroupedConfig, name: str) -> Any:
    @flyc.jit
    def moe_gemm(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids,
                 tokens: fx.Int32, n: fx.Int32, k: fx.Int32, size_expert_ids: fx.Int32,
                 stream: fx.Stream = fx.Stream(None)):
        tensors = dict(out=out, x=x, w=w, x_scale=scale_x, w_scale=scale_w, rows=sorted_token_ids, experts=expert_ids,
                       weights=sorted_weights, valid=num_valid_ids)
        launch_grouped(tensors, tokens, size_expert_ids, size_expert_ids * config.block_m, config, stream)

    moe_gemm.__name__ = name
    moe_gemm.config = config  # type: ignore[attr-defined]  # what the launcher was built from, for tools
    return moe_gemm


@builder
def compile_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int, tile_k: int,
                      doweight_stage1: bool, out_dtype: str = "f16", in_dtype: str = "fp8",
                      use_cshuffle_epilog: bool | None = None, target: Target) -> Any:
    """``out[T, topk, inter] = silu(gate) * up`` (times the routing weight if `doweight_stage1`) of sorted tokens.

    x is (T, model), of int8smooth (topk T, model) slot by slot; w is (E, 2 inter, model) in the order of
    ``shuffle_weight`` (int4: packed after it), scale_x f32[T] and scale_w f32[E 2 inter], both unused by 16-bit types.
    `use_cshuffle_epilog` changes nothing: a lane has consecutive columns.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_moe_gemm1"
    source = "slots" if in_dtype == "int8smooth" else "token"
    config = _config(where, target, inter_dim, model_dim, (tile_m, tile_n, tile_k), in_dtype, out_dtype, topk,
                     gated=True, activation="silu", source=source, into="slot", weighted=doweight_stage1)
    return _launcher(config, "moe_gemm1")


@builder
def compile_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int, tile_k: int,
                      doweight_stage2: bool, out_dtype: str = "f16", in_dtype: str = "fp8", accumulate: bool = True,
                      use_cshuffle_epilog: bool | None = None, target: Target) -> Any:
    """The product with w (E, model, inter) of x (T topk, inter), times the routing weight if `doweight_stage2`.

    With `accumulate` the slots of a token are added to out (T, model), zero before, in any order (f16, bf16, f32);
    otherwise out is (T topk, model), see ``compile_moe_reduction`` (f16, bf16). Otherwise as
    :func:`compile_moe_gemm1`, scale_x f32[T topk] and scale_w f32[E model].

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_moe_gemm2"
    require(where, accumulate or out_dtype != "f32", "results that are not added up are f16 or bf16, not f32")
    config = _config(where, target, model_dim, inter_dim, (tile_m, tile_n, tile_k), in_dtype, out_dtype, topk,
                     source="slot", into="token" if accumulate else "slot", weighted=doweight_stage2)
    return _launcher(config, "moe_gemm2")


def _mode(mode: MoeGemm2Mode, valid_mask: Any, where: str) -> bool:
    require(where, valid_mask is None, "the mask of slots is an argument of compile_moe_reduction (use_mask)")
    return mode is MoeGemm2Mode.ATOMIC


def compile_moe_gemm2_ex(*, mode: MoeGemm2Mode = MoeGemm2Mode.ATOMIC, valid_mask: Any = None, **options: Any) -> Any:
    """:func:`compile_moe_gemm2` with `accumulate` by its mode."""
    return compile_moe_gemm2(accumulate=_mode(mode, valid_mask, "compile_moe_gemm2_ex"), **options)


def _blockscale(where: str, scale_block_k: int) -> dict[str, Any]:
    require(where, scale_block_k == 128, f"scales are of 128 k, got {scale_block_k}")
    return dict(quant="fp8_block", turned_scales=True)


@builder
def compile_moe_blockscale_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                                 tile_k: int, doweight_stage1: bool, scale_block_k: int = 128, out_dtype: str = "f16",
                                 use_cshuffle_epilog: bool | None = None, waves_per_eu: int | None = None,
                                 target: Target) -> Any:
    """:func:`compile_moe_gemm1` of fp8 with scale_x f32[model/128, T] and scale_w f32[E, 2 inter/128, model/128]."""
    where = "compile_moe_blockscale_gemm1"
    config = _config(where, target, inter_dim, model_dim, (tile_m, tile_n, tile_k), "fp8", out_dtype, topk, gated=True,
                     activation="silu", source="token", into="slot", weighted=doweight_stage1,
                     **_blockscale(where, scale_block_k))
    return _launcher(config, "moe_blockscale_gemm1")


@builder
def compile_moe_blockscale_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                                 tile_k: int, doweight_stage2: bool, scale_block_k: int = 128, out_dtype: str = "f16",
                                 accumulate: bool = True, use_cshuffle_epilog: bool | None = None,
                                 waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm2` of fp8 with scale_x f32[inter/128, T topk] and scale_w f32[E, model/128, inter/128]."""
    where = "compile_moe_blockscale_gemm2"
    config = _config(where, target, model_dim, inter_dim, (tile_m, tile_n, tile_k), "fp8", out_dtype, topk,
                     source="slot", into="token" if accumulate else "slot", weighted=doweight_stage2,
                     **_blockscale(where, scale_block_k))
    return _launcher(config, "moe_blockscale_gemm2")


def compile_moe_blockscale_gemm2_ex(*, mode: MoeGemm2Mode = MoeGemm2Mode.ATOMIC, valid_mask: Any = None,
                                    **options: Any) -> Any:
    """:func:`compile_moe_blockscale_gemm2` with `accumulate` by its mode."""
    return compile_moe_blockscale_gemm2(accumulate=_mode(mode, valid_mask, "compile_moe_blockscale_gemm2_ex"),
                                        **options)
