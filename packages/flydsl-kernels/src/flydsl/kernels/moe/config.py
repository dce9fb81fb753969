"""Static arguments of the grouped products as one frozen value, and their checks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import flydsl.expr as fx

from ..host.config import require
from ..host.dense import Extent
from ..host.dtypes import FLOATS, element_of
from ..parts.epilogue import GATED
from ..parts.formats import BYTES, FORMATS, SCALE_K, Format
from ..parts.index import align_up, cdiv, div, mod
from ..parts.matrix import FORMATS as MICROFORMATS
from ..parts.matrix import SCALE_BLOCK, MatrixOp, matrix_op, microscaled_op
from ..parts.memory import WORDS
from ..parts.product_config import ProductConfig
from ..parts.reduce import Lds
from ..parts.scales import WORD_K
from ..parts.tensor_tile import TensorTile
from ..parts.tile import CHUNK_BYTES, RowTile
from ..target import MATRIX_ARCHS, Target

__all__ = ["FORMATS", "Format", "GroupedConfig", "grouped_config", "is_wide"]

ACTIVATIONS = ("none", *GATED)
WAVES = 4
BLOCKS = (16, 32, 64, 128, 256)
USUAL_ROWS = 128  # of a block, above which the waves of a workgroup also lie along the rows


PUBLIC = tuple(name for name in FORMATS if name not in ("a16i4", "a16u4", "mxfp8"))  # that `ops.moe` names
INT4_FACTOR = 16  # by which int4 weights are larger as the bytes that are multiplied
MICRO = ("fp4", "fp8")
MOVED_STAGES = 4  # of rows that tensor moves bring: a tile is there two before it is multiplied
FEW = 2  # tiles of 16 rows, all of whose values a lane has in registers
USUAL_SUMS, MANY_SUMS = 64, 256  # registers of sums, of those that instructions name directly


@dataclass(frozen=True, kw_only=True)
class GroupedConfig(ProductConfig):
    """``out[row] = f(x[row] w[expert of the row]^T)`` of sorted rows.

    Attributes:
        dtype: of the result, ``"f16"`` or ``"bf16"``; `out` may be ``"f32"``.
        quant: one of ``FORMATS``.
        tile_m: those of a block of sorting, or of a part of one.
        row_bytes: bytes of a row of x in a tile of k.
        gated: w has 2 n rows, and the result is ``activation(gate) * up``.
        limit: of the activation, see `activation`.
        source: which row of x a sorted row is: its ``"token"``, its ``"slot"`` (of (token, slot), or ``"slots"`` of
            (slot, token)), its own number (``"sorted"``), or the ``"row"``, where there is one expert and nothing is
            sorted.
        into: which row of the result: ``"token"`` (added to it), ``"slot"`` or ``"row"``; or ``"place"``, wherever the
            `out` of the kernel says that a sorted row's name belongs: it is an object with ``row(name, element)`` and
            ``scales(name)``, which give pointers.
        topk: slots of a token.
        weighted: multiply by the routing weight.
        bias: add bias[expert], f32.
        wide: x has 4 GiB or more.
        scale: element type of the scales of groups.
        turned_scales: scales of blocks of x are (blocks, rows).
        strips: where the 16-row strips of gate and up are in w: ``"halves"`` all of gate first, ``"pairs"`` in turn.
        w_scales: order of the scales of groups and microscales of w: ``"strips"`` of 16 rows, what a lane loads
            together; ``"words"`` of ``e8m0_shuffle``; ``"rows"`` one row after the other; ``"row"`` one of a row;
            ``"pairs"`` of
            ``shuffle_scale_for_int4``; of microscales on gfx1250 also ``"words"`` of ``shuffle_scale_32x4``.
        x_scales: microscales of x: ``"rows"``, or ``"words"`` of the sorted rows.
        lane_k: consecutive k of packed weights that a lane loads, where they are dequantised in registers.
        sort_block: rows of a block of sorting; 0: `tile_m`.
        skip_k, skip_n: k and columns at the end that are padding; whole tiles of them are left out.
        k_batch: workgroups that share the reduction, each adding its part.
        scale_one: microscales of x are 1, and not read.
        out_scales: order of the scales of a microscaled result (`out` is ``"fp4"`` or ``"fp8"``): ``"words"`` of the
            sorted rows, or ``"rows"`` of those of the result.
        cache: bits of the loads of w (2: non-temporal).
        group: blocks of rows that a die walks down before the next columns; 0: as launched.
        experts: of which w has weights, if it is known.
    """

    dtype: str
    tile_m: int = 64
    tile_n: int = 128
    quant: str = "none"
    out: str = ""
    row_bytes: int = 128
    gated: bool = False
    activation: str = "none"
    limit: float | None = None
    source: Literal["token", "slot", "slots", "sorted", "row"] = "row"
    into: Literal["token", "slot", "row", "place"] = "row"
    topk: int = 1
    weighted: bool = False
    bias: bool = False
    wide: bool = False
    scale: str = "f32"
    turned_scales: bool = False
    strips: Literal["halves", "pairs"] = "halves"
    w_scales: Literal["strips", "words", "rows", "row", "pairs"] = "strips"
    x_scales: Literal["rows", "words"] = "rows"
    lane_k: int = 32
    sort_block: int = 0
    skip_k: int = 0
    skip_n: int = 0
    k_batch: int = 1
    scale_one: bool = False
    out_scales: Literal["words", "rows"] = "words"
    cache: int = 0
    group: int = 0
    experts: int = 0

    @property
    def format(self) -> Format:
        return FORMATS[self.quant]

    @property
    def op(self) -> MatrixOp:
        kind = self.format
        if kind.scales != "micro":
            return matrix_op(self.target, kind.a or self.dtype, True)
        return microscaled_op(self.target, kind.a or "", kind.b or kind.a or "")

    def extents(self, tokens: Any, sorted_rows: Any) -> dict[str, Extent]:
        """What a launch takes of its operands. Only the kind is known of sorted rows, since the last block may end
        behind them, and of weights where the number of experts is not."""
        kind, blocks = self.format.a or self.dtype, fx.ceildiv(sorted_rows, self.sort_block or self.tile_m)
        slots = {"token": 1, "slot": self.topk, "slots": self.topk}
        x, w = (MICROFORMATS["fp4"].element if name == "fp4" else element_of(BYTES.get(name, name), self.target)
                for name in (kind, self.format.b or kind))
        of_x, columns = fx.Int64(tokens) * slots.get(self.source, 0), self.experts * self.n * self.streams
        found = {"x": Extent(of_x * self.k, x), "w": Extent(self.experts * self.expert_words * 32 // w.width, w)}
        if not self.micro_out and self.into != "place":
            found["out"] = Extent(fx.Int64(tokens) * (slots.get(self.into, 0) * self.n), self.element)
        if self.routed:
            found.update(rows=Extent(0, fx.Int32), experts=Extent(blocks, fx.Int32), valid=Extent(1, fx.Int32))
        if self.weighted:
            found["weights"] = Extent(0, fx.Float32)
        if self.bias:
            found["bias"] = Extent(columns, fx.Float32)
        if self.format.scales is not None:
            found["w_scale"] = Extent(self.experts * self.expert_scales, element_of(self.scale_type, self.target))
        if self.format.scales not in (None, "groups") and not self.scale_one:
            along = 0 if self.x_scales == "words" else 1 if self.format.scale_k is None else self.scales_k
            found["x_scale"] = Extent(of_x * along, element_of(self.scale_type, self.target))
        return found

    @property
    def scale_type(self) -> str:
        """Element type of the scales."""
        return {"groups": self.scale, "micro": "e8m0"}.get(self.format.scales or "", "f32")

    @property
    def routed(self) -> bool:
        """Whether rows have names, of sorting."""
        return self.source != "row"

    @property
    def waves_of_simd(self) -> int:
        """Waves may have more than the usual registers: many sums need them, sums that are scaled block by block, and
        operands that come straight to them. Beside narrow weights, which are loaded far ahead or converted, many sums
        take all; nothing else has room beside those of 128 x 128."""
        sums = self.sums * (2 if self.format.scales == "blocks" else 1)
        if sums <= USUAL_SUMS and not self.direct:
            return 0
        return 1 if sums >= MANY_SUMS * (1 if self.format.bits_b < 16 else 2) else 2

    @property
    def columns(self) -> int:
        """Workgroups along the columns."""
        return cdiv(self.n - self.skip_n, self.tile_n)

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for m blocks of rows."""
        return m * self.columns, self.k_batch

    @property
    def adds(self) -> bool:
        """Whether results are added to what is there."""
        return self.into == "token" or self.k_batch > 1

    @property
    def element(self) -> Any:
        """Class of the result's elements, where it is not microscaled."""
        return FLOATS[self.out or self.dtype]

    @property
    def micro_out(self) -> bool:
        """Whether the result is microscaled."""
        return self.out in MICRO

    @property
    def adjoining(self) -> bool:
        """Whether the strips of a wave lie side by side; otherwise those of the waves alternate. Strips side by side
        have one scale of blocks; of gate and up, gfx9 has no registers for the loads that are then further ahead."""
        if self.format.scales == "blocks":
            return self.target.tensor_moves or not self.gated
        return self.micro_out or (self.format.scales == "micro" and self.w_scales == "words")

    @property
    def direct(self) -> bool:
        """Whether rows of x go straight to the registers of the lanes that multiply them: few, so that waves with the
        same k may load them again. Nothing then waits for LDS or for other waves."""
        return self.m_repeat <= min(FEW, self.k_waves) and not self.wide

    @property
    def tile_rows(self) -> int:
        """Rows of a tile of x in LDS: what the threads load at once at least. Those past the block do not exist."""
        return max(self.tile_m, self.threads * CHUNK_BYTES // self.row_bytes)

    @property
    def gathers(self) -> bool:
        """Whether tensor moves bring the rows of x to LDS."""
        return self.target.tensor_moves and self.k_waves == 1 and not self.direct

    @property
    def a_tile(self) -> Any:
        """A tile of x in LDS."""
        if self.gathers:
            return TensorTile(self.tile_m, self.row_bytes, True)
        return RowTile(self.tile_rows, self.row_bytes, self.threads, 256 if self.target.mx else 128)

    def stage_bytes(self, stage: int) -> int:
        return max(0 if self.direct else self.a_tile.bytes, 0 if stage else self.sum_bytes)

    def stages_in(self, memory: Lds) -> list[Any]:
        """As others, or one array of all where tensor moves name places of a ring."""
        return [memory.array(fx.Int32, self.lds_bytes // 4).ptr] if self.gathers else super().stages_in(memory)

    @property
    def streams(self) -> int:
        """Strips of w for 16 columns of the result."""
        return 2 if self.gated else 1

    @property
    def n_tiles(self) -> int:
        return self.n_repeat * self.streams

    @property
    def joined(self) -> bool:
        """Whether neighbouring lanes join their columns before they store: where stores go over a link, in whole
        tiles."""
        sizes = self.element.width, self.op.acc_len, self.n_repeat % 2, self.n % self.tile_n
        return self.into == "place" and not self.micro_out and sizes == (16, 4, 0, 0)

    @property
    def pieces(self) -> tuple[tuple[range, range], ...]:
        """(row tiles, strips) of what is finished at once. Of an activation, for which there is nothing else to do
        after the loop, waves that share k take turns; those of fp8 store two row tiles together, so that a lane has 16
        bytes."""
        turns, rows, strips = self.k_waves > 1 and (self.gated or self.micro_out), self.m_repeat, self.n_repeat
        if turns or self.micro_out:
            rows = 2 if not turns and self.out == "fp8" and self.op.acc_len == 4 and self.m_repeat % 2 == 0 else 1
        if turns:
            strips = 2 if self.micro_out or self.joined else 1
        return tuple((range(mi, mi + rows), range(ni, ni + strips)) for mi in range(0, self.m_repeat, rows)
                     for ni in range(0, self.n_repeat, strips))

    @property
    def blocks(self) -> int:
        """Chunks that a lane has of a row of a tile."""
        return self.row_bytes // self.op.block_bytes // self.k_waves

    @property
    def spread(self) -> int:
        """Chunks of x for 16 bytes of w where it is dequantised in registers: a lane has their k after each other."""
        return self.lane_k * self.format.bits_a // 128 if self.format.scales == "groups" else 1

    def chunk_at(self, place: Any) -> Any:
        """Chunk of a row of x at a place of a tile, where the lane groups of a block of k are side by side."""
        inside = mod(place, self.spread * self.op.groups)
        return place - inside + mod(inside, self.op.groups) * self.spread + div(inside, self.op.groups)

    @property
    def tile_k(self) -> int:
        """Elements of k of a tile."""
        return self.row_bytes * 8 // self.format.bits_a

    @property
    def share_k(self) -> int:
        """Those of a wave."""
        return self.tile_k // self.k_waves

    @property
    def scales_k(self) -> int:
        """Scales along k of a row, of whole tiles for groups."""
        if self.format.scales == "groups" and self.w_scales == "strips":
            return self.stored_tiles * self.tile_k // SCALE_K["groups"]
        return cdiv(self.k, self.format.scale_k or self.k)

    @property
    def scale_tiles(self) -> int:
        """Tiles of k whose scales of blocks are loaded together."""
        together = self.format.scales == "blocks" and not self.turned_scales and self.k_waves == 1
        return max(512 // self.tile_k, 1) if together else 1

    @property
    def scale_unit(self) -> int:
        """To a multiple of which the scales of a row of w are padded."""
        return 8 if self.w_scales == "words" and self.target.matrix == "mfma" else 1

    @property
    def expert_scales(self) -> int:
        """Scales of the weights of an expert."""
        if self.format.scales in ("groups", "micro"):
            return self.rows_b * (1 if self.w_scales == "row" else align_up(self.scales_k, self.scale_unit))
        return math.prod(self.format.scale_shape(1, self.n * self.streams, self.k))

    @property
    def a_row_words(self) -> int:
        """i32 of a row of x."""
        return self.k * self.format.bits_a // 32

    @property
    def stored_tiles(self) -> int:
        """Tiles along k."""
        return cdiv(self.a_row_words * 4, self.row_bytes)

    @property
    def k_tiles(self) -> int:
        """Those of a workgroup."""
        return cdiv(cdiv(self.k - self.skip_k, self.tile_k), self.k_batch)

    @property
    def ragged(self) -> bool:
        """Whether the last tile of k goes past the end of a row."""
        return self.a_row_words * 4 % self.row_bytes != 0

    @property
    def load_words(self) -> int:
        """i32 of a load of w."""
        return 4 * self.format.bits_b * self.spread // self.format.bits_a if self.format.scales != "micro" else WORDS

    @property
    def b_blocks(self) -> int:
        """Loads of a strip of w in a tile."""
        return self.row_bytes * self.format.bits_b // self.format.bits_a // (self.op.groups * self.load_words * 4)

    @property
    def strip_words(self) -> int:
        """i32 of 16 rows of w, whose k is padded to whole tiles."""
        return self.stored_tiles * self.b_blocks * self.wave * self.load_words

    @property
    def rows_b(self) -> int:
        """Rows of w of an expert, gate and up padded to 16."""
        return align_up(self.n, 16) * self.streams

    @property
    def expert_words(self) -> int:
        """i32 of the weights of an expert."""
        return self.rows_b // 16 * self.strip_words


def is_wide(rows: int, columns: int) -> bool:
    """Whether 16-bit rows leave the 4 GiB that an offset reaches (half of it: a tile further is computed)."""
    return rows * columns * 2 >= 1 << 31


def grouped_config(where: str, target: Target, *, waves: int = WAVES, m_waves: int = 1,
                   k_waves: int = 1, **fields: Any) -> GroupedConfig:
    """A checked configuration of so many `waves`. ValueError says what is not supported."""
    target.require(where, *MATRIX_ARCHS)
    require(where, k_waves in (1, 2, 4), f"1, 2 or 4 groups of waves share k, got {k_waves}")
    config = GroupedConfig(target=target, m_waves=m_waves, n_waves=waves // (m_waves * k_waves), k_waves=k_waves,
                           **fields)
    for name, known in (("dtype", ("f16", "bf16")), ("activation", ACTIVATIONS[config.gated :])):
        require(where, getattr(config, name) in known,
                f"{name} must be one of {', '.join(known)}, got {getattr(config, name)!r}")
    require(where, config.limit is None or config.limit > 0, f"limit must be positive, got {config.limit}")
    require(where, config.tile_m % 16 == 0 and 16 <= config.tile_m <= 256,
            f"a block must have 16 to 256 rows, a multiple of 16, got {config.tile_m}")
    require(where, config.tile_n % (16 * config.n_waves) == 0,
            f"a tile must have a multiple of {16 * config.n_waves} columns, got {config.tile_n}")
    require(where, config.n > 0 and config.n % 8 == 0, f"columns must be a multiple of 8, got {config.n}")
    blocked = config.format.scales == "blocks" and config.gated
    require(where, not blocked or config.n % 16 == 0,
            f"inter must be a multiple of 16 for block scales, got {config.n}")
    unit = 32 if config.format.b else 128 // config.format.bits_a
    if config.format.scales == "micro":
        target.require(f"{where}: quant={config.quant!r} (elsewhere 'a16w4' takes the same weights)",
                       "gfx950", "gfx1250")
        unit = 128
    require(where, config.k > 0 and config.k % unit == 0, f"the reduction must be a multiple of {unit}, got {config.k}")
    for grown in (2, 4):  # a thread has whole chunks, and a tile whole loads of w and scales
        unit = 16 * config.op.groups * config.spread * config.op.blocks * config.k_waves
        if config.format.scales == "blocks":
            unit = max(unit, SCALE_BLOCK * config.k_waves)
        larger = replace(config, row_bytes=fields.get("row_bytes", 128) * grown)
        few = config.tile_m < config.tile_rows and (config.ragged or not larger.ragged)
        words = "words" in (config.w_scales, config.x_scales)
        few = few and not (words and larger.share_k > WORD_K) and (config.k - config.skip_k) % larger.tile_k == 0
        if few or not _dealt(config) or config.row_bytes % unit:
            config = larger
    require(where, _dealt(config), f"a tile of {config.tile_m} rows cannot be dealt to {config.threads} threads")
    _check_orders(where, config)
    if config.gathers:
        config = replace(config, stages=MOVED_STAGES)
    return config.fitting(where)


def _dealt(config: GroupedConfig) -> bool:
    """Whether each thread moves as many chunks of a tile of x."""
    return config.direct or config.gathers or config.a_tile.bytes % (config.threads * CHUNK_BYTES) == 0


def _check_orders(where: str, config: GroupedConfig) -> None:
    """What the orders of strips and scales, and the shares of the reduction, need."""
    require(where, not (config.skip_k or config.k_batch > 1) or not config.ragged,
            f"K must be a multiple of {config.tile_k}, got {config.k}")
    words = "words" in (config.w_scales, config.x_scales) and config.target.matrix == "mfma"
    require(where, config.k_waves == 1 or not words or config.format.scales != "micro" or config.share_k == WORD_K,
            f"waves that share k have {WORD_K} of it for scales of 32 x 256, got {config.share_k}")
    tiles = cdiv(config.k - config.skip_k, config.tile_k)
    unit = cdiv(WORD_K, config.tile_k) if words else 1
    require(where, config.k_batch == 1 or tiles % (config.k_batch * unit) == 0,
            f"{tiles} tiles of {config.tile_k} k cannot be dealt to {config.k_batch} workgroups, by {unit}")
    require(where, config.k_batch == 1 or not (config.gated or config.micro_out),
            "workgroups that share a reduction add what has no activation yet")
    if config.w_scales == "words" or config.micro_out:
        require(where, config.n % 32 == 0, f"columns must be a multiple of 32 for scales of 32 x 256, got {config.n}")
    require(where, not config.micro_out or config.dtype == "bf16",
            f"microscaled results are made of bf16, got {config.dtype}")
    require(where, not config.micro_out or config.n_repeat % 2 == 0,
            f"a wave needs whole groups of 32 columns, and has {config.n_repeat * 16}")
    sort_block = config.sort_block or config.tile_m
    require(where, sort_block % config.tile_m == 0,
            f"blocks of sorting must be multiples of the tile's rows, got {sort_block} and {config.tile_m}")
