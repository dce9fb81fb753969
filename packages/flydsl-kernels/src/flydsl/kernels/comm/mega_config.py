"""How a mixture of experts over several GPUs is run, by the number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..host.config import KernelConfig, require
from ..parts.index import align_up
from ..target import Target
from .peers import MOST_RANKS, PLACES, one_after_another

__all__ = ["GROUP", "SCHEMES", "MegaExchange", "MegaMoEConfig", "Stage1Config", "Stage2Config", "mega_exchange",
           "select_mega_moe_config"]

GROUP = 32  # elements of a scale
SHARED_K = 512  # of a tile whose k two waves share, where each would have too few columns
MOST_WORKGROUPS = 8 * 256  # of stage 1: 8 for each compute unit
MOST_EXPERTS = 1024  # of all ranks: counts lie in LDS three times
SCHEMES = ("fixedslot", "compact", "large")
P2P = ("none", "fp8_blockwise_1x32")  # how results travel
MOST_FIXED_TOKENS, MOST_COMPACT_TOKENS = 255, 1024  # of a rank, by scheme
MOST_FIXED_EXPERTS = 64
BUCKETS = (1, 4, *(1 << p for p in range(3, 16)))


@dataclass(frozen=True, kw_only=True)
class MegaExchange(KernelConfig):
    """Rows of tokens between the ranks, sorted by expert where they arrive.

    Attributes:
        ranks, experts: of the group, and of all ranks together; `topk` of a token.
        model: elements of a token, which travels as fp8 with a scale of every 32.
        tokens: most of a rank.
        block: rows to whose multiples those of an expert are padded.
        quantised: results travel as tokens do; else as bf16.
        producers: workgroups of stage 1 that send; `consumers`: workgroups of stage 2.
        by_block: tiles wait for the rows of their block, and not for all of their expert.
    """

    ranks: int
    experts: int
    topk: int
    model: int
    tokens: int
    block: int
    quantised: bool = False
    producers: int = 32
    consumers: int = 256
    by_block: bool = False

    @property
    def threads(self) -> int:
        """Of a workgroup that combines."""
        return 512

    @property
    def lds_bytes(self) -> int:
        """Of the workgroup that plans."""
        return 3 * 4 * self.experts

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (1,)

    @property
    def local(self) -> int:
        """Experts of a rank."""
        return self.experts // self.ranks

    @property
    def origins(self) -> int:
        """Tokens of all ranks."""
        return self.ranks * self.tokens

    @property
    def capacity(self) -> int:
        """Rows that a rank may receive: all slots of all tokens, each expert's padded."""
        return align_up(self.origins * self.topk + self.local * (self.block - 1), max(self.block, GROUP))

    @property
    def awaited(self) -> int:
        """What rows are counted by when they arrive: blocks or experts."""
        return self.capacity // self.block if self.by_block else self.local

    @property
    def sent_bytes(self) -> int:
        """Of a result on its way; rows begin at whole 16 bytes."""
        return align_up(self.model + self.model // GROUP, 16) if self.quantised else 2 * self.model

    def places(self) -> dict[str, int]:
        """Byte offsets in the payload, and under ``"end"`` its size."""
        return one_after_another({
            "counts": self.ranks * self.experts * 4, "arrived": self.awaited * self.ranks * 4,
            "names": self.capacity * 4, "weights": self.capacity * 4,
            "scales": self.capacity * (self.model // GROUP), "rows": self.capacity * self.model,
            "combined": self.tokens * self.topk * self.sent_bytes,
        })


def mega_exchange(where: str, target: Target, **fields: Any) -> MegaExchange:
    """A checked configuration. ValueError says what is not supported."""
    target.require(where, "gfx950")
    config = MegaExchange(target=target, **fields)
    most = config.tokens
    require(where, 2 <= config.ranks <= MOST_RANKS, f"2 to {MOST_RANKS} ranks are supported, got {config.ranks}")
    require(where, most > 0 and most & (most - 1) == 0 and config.origins <= 1 << 24,
            f"max_tok_per_rank must be a power of two, and at most 2**24 with all ranks, got {most}")
    require(where, config.experts > 0 and config.experts % config.ranks == 0,
            f"{config.experts} experts must be a multiple of the {config.ranks} ranks")
    require(where, config.experts <= MOST_EXPERTS, f"at most {MOST_EXPERTS} experts are supported, got "
            f"{config.experts}")
    require(where, 1 <= config.topk <= 256, f"1 to 256 experts of a token are supported, got {config.topk}")
    require(where, config.model % 256 == 0, f"model_dim must be a multiple of 256, got {config.model}")
    require(where, config.capacity < 1 << 31, f"{config.capacity} rows do not fit 31 bits")
    require(where, config.producers > 0 and 0 < config.consumers <= PLACES,
            f"1 to {PLACES} workgroups of stage 2 can wait for each other, got {config.consumers}")
    return config.fitting(where)


@dataclass(frozen=True)
class Stage1Config:
    """Dispatch and the product with gate and up.

    Attributes:
        scheme: one of :data:`SCHEMES`.
        sort_block_m: rows to whose multiples those of an expert are padded, and of a tile (64 at most of 8 waves).
        num_waves: of a workgroup; tile_n: columns of gate and up of a tile.
        payload_tile_ready: tiles wait for the rows of their block, instead of all of their expert.
    """

    scheme: str
    sort_block_m: int
    num_waves: int
    tile_n: int
    payload_tile_ready: bool = False


@dataclass(frozen=True)
class Stage2Config:
    """The product with the down projection, and the way back.

    Attributes:
        BM, BN: rows and columns of a tile.
        use_nt: weights are loaded past the caches.
        persist: a workgroup has tiles that follow each other.
        p2p_quant_type: one of :data:`P2P`: how results travel.
    """

    BM: int
    BN: int
    use_nt: bool
    persist: bool
    p2p_quant_type: str


@dataclass(frozen=True)
class MegaMoEConfig:
    """Both stages for a number of tokens."""

    tokens: int
    stage1: Stage1Config
    stage2: Stage2Config


def select_mega_moe_config(tokens: int, mtpr: int, *, experts_per_rank: int = 48, model_dim: int = 7168,
                           inter_dim: int = 3072) -> MegaMoEConfig:
    """The configuration for `tokens` tokens of a rank that may have `mtpr`; the nearest number of ``BUCKETS`` counts.

    Of up to 255 tokens (and 64 experts) of a rank slots are fixed, up to 1024 compact, above that large. Tiles of fewer
    columns than 64 for each wave need a `model_dim` of whole multiples of 512; without it tiles or waves are others.

    Raises:
        ValueError: there are more tokens than `mtpr`.
    """
    require("select_mega_moe_config", 0 <= tokens <= mtpr, f"{tokens} tokens, at most {mtpr}")
    bucket = min(BUCKETS, key=lambda b: abs(b - tokens))
    shares = model_dim % SHARED_K == 0  # whether waves may share k
    if mtpr <= MOST_FIXED_TOKENS and experts_per_rank <= MOST_FIXED_EXPERTS:
        stage1 = Stage1Config("fixedslot", 32, 4, 256 if bucket <= 8 or not shares else 128)
    else:
        large, tile_n = mtpr > MOST_COMPACT_TOKENS, 512 if inter_dim >= 2048 else 256
        block = 32 if bucket <= 128 else 64 if bucket <= 2048 or not large else 128
        waves = 8 if tile_n == 512 or shares else 4
        stage1 = Stage1Config("large" if large else "compact", block, waves, tile_n, payload_tile_ready=large)
    quantised = P2P[1] if stage1.scheme == "large" else P2P[0]
    stage2 = Stage2Config(64 if stage1.sort_block_m == 128 else 32, 256 if model_dim % 256 == 0 else 128,
                          bucket <= 128, bucket > 128, quantised)
    return MegaMoEConfig(bucket, stage1, stage2)
