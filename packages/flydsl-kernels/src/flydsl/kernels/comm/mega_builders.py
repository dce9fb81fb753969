"""The stages of the mixture of experts over several GPUs by their older arguments. What computes something else has its
effect or is refused; hints for the schedule of another kernel are not taken."""

from __future__ import annotations

from typing import Any

from ..host.config import require
from ..moe.config import GroupedConfig, grouped_config
from ..target import Target, builder
from .mega_config import (
    GROUP,
    MOST_FIXED_EXPERTS,
    MOST_FIXED_TOKENS,
    P2P,
    SHARED_K,
    MegaExchange,
    Stage1Config,
    Stage2Config,
    mega_exchange,
)
from .mega_kernels import MegaStage1, MegaStage2, build_gemm1, build_stage1, build_stage2

__all__ = ["compile_gemm1", "compile_mega_moe_stage1", "compile_mega_moe_stage2", "mega_down", "mega_up",
           "require_fixed"]

GRID_MULTIPLES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
TILES_K = (128, 256)
FEW_TOKENS = 128  # up to which weights are read once, and need no place in a cache
CACHED, STREAMED = 0, 2  # bits of a load: non-temporal
CONSUMERS = 256  # workgroups of stage 2


def mega_up(where: str, target: Target, *, model: int, inter: int, topk: int, limit: float | None, tiles: Stage1Config,
            tile_k: int = 128, cache: int = CACHED) -> GroupedConfig:
    """The product with gate and up. ValueError says what is not supported."""
    require(where, tiles.tile_n % (32 * tiles.num_waves) == 0,
            f"tile_n must be a multiple of 32 for each of the {tiles.num_waves} waves, got {tiles.tile_n}")
    # A wave quantises 32 columns of gate and 32 of up. Where it would have half of them, two waves share k.
    shares = max(64 * tiles.num_waves // tiles.tile_n, 1)
    require(where, shares == 1 or model % SHARED_K == 0,
            f"{tiles.num_waves} waves for tile_n {tiles.tile_n} share k by {SHARED_K}: model_dim must be a multiple of "
            f"it, got {model}")
    require(where, inter > 0 and inter % 256 == 0, f"inter_dim must be a multiple of 256, got {inter}")
    # Eight waves leave each half of the registers.
    rows = min(tiles.sort_block_m, 64) if tiles.num_waves == 8 else tiles.sort_block_m
    return _product(where, target, topk, rows, sort_block=tiles.sort_block_m, n=inter, k=model, gated=True,
                    activation="silu", limit=limit, source="sorted", into="row", out="fp8", strips="pairs",
                    x_scales="rows", tile_n=tiles.tile_n // 2, waves=tiles.num_waves, k_waves=shares,
                    row_bytes=SHARED_K if shares > 1 else tile_k, cache=cache)


def mega_down(where: str, target: Target, exchange: MegaExchange, inter: int, tiles: Stage2Config,
              tile_k: int = 128) -> GroupedConfig:
    """The product with down. ValueError says what is not supported."""
    require(where, inter > 0 and inter % 256 == 0, f"inter_dim must be a multiple of 256, got {inter}")
    require(where, tiles.BM > 0 and tiles.BM % 32 == 0 and exchange.block % tiles.BM == 0,
            f"BM must be a multiple of 32 that divides the {exchange.block} rows of a block, got {tiles.BM}")
    require(where, tiles.BN in (128, 256), f"BN must be 128 or 256, got {tiles.BN}")
    return _product(where, target, exchange.topk, tiles.BM, n=exchange.model, k=inter, source="sorted", into="place",
                    weighted=True, x_scales="words", out="fp8" if exchange.quantised else "", tile_n=tiles.BN,
                    row_bytes=tile_k, sort_block=exchange.block, cache=STREAMED if tiles.use_nt else CACHED)


def _product(where: str, target: Target, topk: int, block: int, **fields: Any) -> GroupedConfig:
    return grouped_config(where, target, dtype="bf16", quant="a8w4", tile_m=block, topk=topk, w_scales="words",
                          **fields)


def require_fixed(where: str, tokens: int, local: int) -> None:
    """ValueError if a rank has more tokens or experts than the scheme with fixed slots is for."""
    require(where, tokens <= MOST_FIXED_TOKENS and local <= MOST_FIXED_EXPERTS,
            f"fixed slots are for at most {MOST_FIXED_TOKENS} tokens and {MOST_FIXED_EXPERTS} experts of a rank, got "
            f"{tokens} and {local}: use 'compact'")


@builder
def compile_gemm1(*, model_dim: int, inter_dim: int, sort_block_m: int = 32, swiglu_limit: float = 0.0,
                  target: Target) -> Any:
    """The product of stage 1 alone: gate and up of rows that are here already, sorted by expert.

    Returns:
        ``launch(tensors, rows, stream=None)`` of rows, a multiple of `sort_block_m`; `tensors` are x fp8 (rows, model)
        and x_scale e8m0 (rows, model / 32), w and w_scale as of :class:`MegaMoEV2`, rows i32 (rows,) (names; all ones
        in the low 24 bits of what is padding), experts i32 (rows / sort_block_m,), valid i32 (1,) rows that count; out
        fp8 (rows, inter) and out_scale u8 (rows, inter / 32 up to whole 32 x 8, in the order of ``e8m0_shuffle``) are
        written.

    Raises:
        ValueError: a size or the architecture is not supported.
    """
    where = "compile_gemm1"
    target.require(where, "gfx950")
    return build_gemm1(mega_up(where, target, model=model_dim, inter=inter_dim, topk=1, limit=swiglu_limit or None,
                               tiles=Stage1Config("compact", sort_block_m, 4, 256)))


@builder
def compile_mega_moe_stage1(*, model_dim: int, inter_dim: int, rank: int, experts_per_rank: int, fuse_npes: int,
                            fuse_topk: int, fuse_cap: int, fuse_mtpr: int, fuse_scale_dim: int,
                            fixed_slot_dispatch: bool, sort_block_m: int = 32, tile_n: int = 256, tile_k: int = 256,
                            num_waves: int = 4, grid_mult: int = 8, pipe_weights: bool = True,
                            mfma_amajor: bool = False, swizzle_a: bool = True, async_a_copy: bool = False,
                            use_tile_resource: bool = True, waves_per_eu_hint: int = 2, num_cu: int = 256,
                            num_dispatch_cu: int = 32, b_nt: int = -1, work_shards: int | None = None,
                            external_grouping: bool | None = None, external_counting: bool | None = None,
                            payload_chunk_rows: int = 0, payload_tile_ready: bool = False, swiglu_limit: float = 0.0,
                            target: Target) -> Any:
    """Dispatch and the product with gate and up in one launch: :func:`flydsl.kernels.comm.mega_kernels.build_stage1`.

    Args:
        fuse_npes, experts_per_rank, fuse_topk, fuse_mtpr: ranks, experts of a rank and of a token, tokens of a rank.
        fuse_cap: rows that there are places for; 0, or at least all tokens: the memory has places for every slot.
        fixed_slot_dispatch: for at most 255 tokens and 64 experts of a rank. Rows are sorted by expert by the counts
            of all ranks in any case: see :mod:`flydsl.kernels.comm.mega_kernels`.
        sort_block_m: rows to whose multiples those of an expert are padded, and of a tile (64 at most of 8 waves): 32,
            64 or 128.
        tile_n: columns of gate and up of a tile, `tile_k` elements of k: 128 or 256.
        num_waves: of a workgroup, 4 or 8.
        grid_mult, num_cu: at most so many times so many workgroups.
        num_dispatch_cu: those that send.
        b_nt: bits of the cache policy of loads of weights (2: non-temporal); -1: non-temporal for up to 128 tokens.
        payload_tile_ready: tiles wait for the rows of their block, instead of all of their expert.
        payload_chunk_rows: a multiple of `sort_block_m`.
        swiglu_limit: L; 0: none.
        others: hints that are not taken, as `payload_chunk_rows`; nothing that is computed depends on them.

    Raises:
        ValueError: a size, an option or the architecture is not supported.
    """
    where = "compile_mega_moe_stage1"
    require(where, 0 <= rank < fuse_npes, f"rank must be one of {fuse_npes}, got {rank}")
    require(where, fuse_scale_dim == model_dim // GROUP, f"fuse_scale_dim must be model_dim / {GROUP}, got "
            f"{fuse_scale_dim}")
    require(where, fuse_cap == 0 or fuse_cap >= fuse_npes * fuse_mtpr,
            f"fuse_cap must be 0 or at least the {fuse_npes * fuse_mtpr} tokens of all ranks, got {fuse_cap}: no row "
            "is dropped")
    require(where, sort_block_m in (32, 64, 128), f"sort_block_m must be 32, 64 or 128, got {sort_block_m}")
    require(where, num_waves in (4, 8), f"num_waves must be 4 or 8, got {num_waves}")
    require(where, tile_k in TILES_K, f"tile_k must be one of {TILES_K}, got {tile_k}")
    require(where, tile_n > 0 and 2 * inter_dim % tile_n == 0,
            f"tile_n must divide the {2 * inter_dim} columns of gate and up, got {tile_n}")
    require(where, grid_mult in GRID_MULTIPLES, f"grid_mult must be one of {GRID_MULTIPLES}, got {grid_mult}")
    require(where, 1 + num_dispatch_cu < grid_mult * num_cu,
            f"{grid_mult} x {num_cu} workgroups must be more than the {num_dispatch_cu} that send and the one that "
            "plans")
    require(where, -1 <= b_nt <= 3, f"b_nt must be -1 to 3, got {b_nt}")
    require(where, payload_chunk_rows >= 0 and payload_chunk_rows % sort_block_m == 0,
            f"payload_chunk_rows must be a multiple of the {sort_block_m} rows of a block, got {payload_chunk_rows}")
    if fixed_slot_dispatch:
        require_fixed(where, fuse_mtpr, experts_per_rank)
    exchange = mega_exchange(where, target, ranks=fuse_npes, experts=fuse_npes * experts_per_rank, topk=fuse_topk,
                             model=model_dim, tokens=fuse_mtpr, block=sort_block_m, producers=num_dispatch_cu,
                             by_block=payload_tile_ready)
    cache = b_nt if b_nt >= 0 else STREAMED if fuse_mtpr <= FEW_TOKENS else CACHED
    up = mega_up(where, target, model=model_dim, inter=inter_dim, topk=fuse_topk, limit=swiglu_limit or None,
                 tiles=Stage1Config("compact", sort_block_m, num_waves, tile_n), tile_k=tile_k, cache=cache)
    return build_stage1(MegaStage1(exchange, up, grid_mult * num_cu))


@builder
def compile_mega_moe_stage2(*, model_dim: int, inter_dim: int, experts: int, topk: int, rank: int, npes: int,
                            max_tok: int, recv_cap: int | None = None, comb_inp_nbytes: int | None = None,
                            BM: int = 32, BN: int = 256, BK: int = 256, use_nt: bool = True,  # noqa: N803
                            HIDDEN_MAX: int = 8192, INTER_MAX: int = 8192, a_dtype: str = "fp8",  # noqa: N803
                            SBM: int | None = None, persist: bool = False, cu_num: int = 0,  # noqa: N803
                            has_pad: bool = False, g2_bhoist: bool | None = None, g2_ascale_pf: bool | None = None,
                            g2_spart: bool | None = None, persist_strided: bool = False, g2_bf16_lds: bool = False,
                            p2p_quant_type: str = "none", fixed_slot_dispatch: bool = False, skew_cu: int = 0,
                            target: Target) -> Any:
    """The product with down and the way back in one launch: :func:`flydsl.kernels.comm.mega_kernels.build_stage2`.

    Args:
        experts: of all ranks; `topk` of a token; `max_tok` of a rank.
        recv_cap, comb_inp_nbytes: rows that a rank may receive, and bytes of the results of its tokens' slots: at least
            what the memory has places for.
        BM, BN, BK: of a tile: rows, a multiple of 32 that divides `SBM`; columns and elements of k, 128 or 256.
        use_nt: weights are loaded past the caches.
        HIDDEN_MAX, INTER_MAX: bounds of `model_dim` and `inter_dim`.
        SBM: rows to whose multiples those of an expert are padded, `BM` by default.
        persist: `cu_num` workgroups (0: 256) have tiles that follow each other, with `persist_strided` every so
            many'th; without, 256 have every 256th.
        p2p_quant_type: ``"none"`` or ``"fp8_blockwise_1x32"``.
        fixed_slot_dispatch: as of :func:`compile_mega_moe_stage1`.
        g2_bhoist, g2_ascale_pf, g2_spart, g2_bf16_lds, skew_cu: hints that are not taken.

    Raises:
        ValueError: a size, an option or the architecture is not supported.
    """
    where = "compile_mega_moe_stage2"
    require(where, 0 <= rank < npes, f"rank must be one of {npes}, got {rank}")
    require(where, a_dtype == "fp8", f"a_dtype must be 'fp8', got {a_dtype!r}")
    require(where, p2p_quant_type in P2P, f"p2p_quant_type must be one of {', '.join(P2P)}, got {p2p_quant_type!r}")
    for name, size, most in (("model_dim", model_dim, HIDDEN_MAX), ("inter_dim", inter_dim, INTER_MAX)):
        require(where, size <= most, f"{name} must be at most {most}, got {size}")
    require(where, BK in TILES_K, f"BK must be one of {TILES_K}, got {BK}")
    require(where, persist or not (cu_num or persist_strided), "cu_num and persist_strided are for persist=True")
    require(where, not has_pad, "has_pad must be False: model_dim and inter_dim are multiples of 256")
    if fixed_slot_dispatch:
        require_fixed(where, max_tok, experts // npes)
    exchange = mega_exchange(where, target, ranks=npes, experts=experts, topk=topk, model=model_dim, tokens=max_tok,
                             block=SBM or BM, quantised=p2p_quant_type != "none", consumers=cu_num or CONSUMERS)
    require(where, recv_cap is None or recv_cap >= exchange.capacity,
            f"recv_cap must be at least the {exchange.capacity} rows that may come, got {recv_cap}: no row is dropped")
    sent = max_tok * topk * exchange.sent_bytes
    require(where, comb_inp_nbytes is None or comb_inp_nbytes >= sent,
            f"comb_inp_nbytes must be at least {sent}, got {comb_inp_nbytes}")
    tiles = Stage2Config(BM, BN, use_nt, persist, p2p_quant_type)
    return build_stage2(MegaStage2(exchange, mega_down(where, target, exchange, inter_dim, tiles, BK),
                                   persist and not persist_strided))
