"""Static arguments of the grouped products as one frozen value, and their checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..parts.index import align_up, cdiv
from ..parts.matrix import MatrixOp, matrix_op, microscaled_op
from ..parts.memory import WORDS
from ..parts.tile import CHUNK_BYTES, RowTile
from ..target import Target

__all__ = ["ACTIVATIONS", "FORMATS", "Format", "GroupedConfig", "grouped_config", "is_wide", "pick_block",
           "tile_columns"]

ACTIVATIONS = ("none", "silu", "gelu", "swiglu", "situ")
SWIGLU_LIMIT = 7.0
WAVES = 4
BLOCKS = (16, 32, 64, 128)


@dataclass(frozen=True)
class Format:
    """How activations and weights are stored, and what multiplies them.

    Attributes:
        matrix: type of the matrix instruction; None: that of the activations.
        bits_a, bits_b: of an element.
        a: what activations are quantised to (``"fp8"``, ``"i8"``), or None.
        b: of packed weights, ``"i4"`` or ``"fp4"``.
        scales: None, ``"rows"`` (one a row of each), ``"blocks"`` (128 k of activations, 128 x 128 of weights),
            ``"groups"`` (32 k of weights) or ``"micro"`` (32 k of both).
    """

    matrix: str | None = None
    bits_a: int = 16
    bits_b: int = 16
    a: str | None = None
    b: str | None = None
    scales: str | None = None


FORMATS = {
    "none": Format(),
    "fp8": Format("fp8", 8, 8, "fp8", None, "rows"),
    "int8": Format("i8", 8, 8, "i8", None, "rows"),
    "int4": Format("i8", 8, 4, "i8", "i4", "rows"),
    "fp8_block": Format("fp8", 8, 8, "fp8", None, "blocks"),
    "a16w4": Format(None, 16, 4, None, "fp4", "groups"),
    "a16i4": Format(None, 16, 4, None, "i4", "groups"),
    "mxfp4": Format("fp4", 4, 4, "fp4", "fp4", "micro"),
    "a8w4": Format("fp8", 8, 4, "fp8", "fp4", "micro"),
}
INT4_FACTOR = 16  # by which int4 weights are larger as the bytes that are multiplied
SCALE_K = {"blocks": 128, "groups": 32, "micro": 32}


@dataclass(frozen=True)
class GroupedConfig(KernelConfig):
    """``out[row] = f(x[row] w[expert of the row]^T)`` of sorted rows.

    Attributes:
        n, k: columns of the result and length of the reduction.
        dtype: of the result, ``"f16"`` or ``"bf16"``; `out` may be ``"f32"``.
        quant: one of ``FORMATS``.
        block_m: rows of a workgroup, those of a block of sorting; block_n: columns.
        row_bytes: bytes of a row of x in a tile of k.
        gated: w has 2 n rows, and the result is ``activation(gate) * up``.
        limit: of the activation, see `activation`.
        source: which row of x a sorted row is: its ``"token"``, its ``"slot"`` (of (token, slot), or ``"slots"`` of
            (slot, token)), or the ``"row"`` itself, where there is one expert and nothing is sorted.
        into: which row of the result: ``"token"`` (added to it), ``"slot"`` or ``"row"``.
        topk: slots of a token.
        weighted: multiply by the routing weight.
        bias: add bias[expert], f32.
        wide: x has 4 GiB or more.
        scale: element type of the scales of groups.
        turned_scales: scales of blocks of x are (blocks, rows).
    """

    n: int
    k: int
    dtype: str
    quant: str = "none"
    out: str = ""
    block_m: int = 64
    block_n: int = 128
    row_bytes: int = 128
    gated: bool = False
    activation: str = "none"
    limit: float | None = None
    source: str = "row"
    into: str = "row"
    topk: int = 1
    weighted: bool = False
    bias: bool = False
    wide: bool = False
    scale: str = "f32"
    turned_scales: bool = False

    @property
    def format(self) -> Format:
        return FORMATS[self.quant]

    @property
    def op(self) -> MatrixOp:
        kind = self.format
        if kind.scales != "micro":
            return matrix_op(self.target, kind.matrix or self.dtype, True)
        if self.target.matrix == "wmma":
            return microscaled_op(self.target, kind.matrix or "", kind.b or "")
        op = microscaled_op(self.target, kind.b or "", kind.matrix or "")  # the weights are its first operand
        return replace(op, of_a=op.of_b, of_b=op.of_a, blocks=op.b_blocks, b_blocks=op.blocks)

    @property
    def routed(self) -> bool:
        """Whether rows are sorted."""
        return self.source != "row"

    @property
    def wave(self) -> int:
        return self.target.wave

    @property
    def threads(self) -> int:
        return WAVES * self.wave

    @property
    def columns(self) -> int:
        """Workgroups along the columns."""
        return cdiv(self.n, self.block_n)

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for m blocks of rows."""
        return (m * self.columns,)

    @property
    def a_tile(self) -> RowTile:
        return RowTile(self.block_m, self.row_bytes, self.threads, 256 if self.target.mx else 128)

    @property
    def lds_bytes(self) -> int:
        return 2 * self.a_tile.bytes

    @property
    def m_repeat(self) -> int:
        return self.block_m // 16

    @property
    def streams(self) -> int:
        """Strips of w for 16 columns of the result."""
        return 2 if self.gated else 1

    @property
    def n_repeat(self) -> int:
        """16-column strips of a wave."""
        return self.block_n // (16 * WAVES)

    @property
    def blocks(self) -> int:
        """Chunks that a lane has of a row of a tile."""
        return self.row_bytes // self.op.block_bytes

    @property
    def spread(self) -> int:
        """Chunks of x for 16 bytes of w where it is dequantised in registers: a lane has their k after each other."""
        return self.format.bits_a // self.format.bits_b if self.format.scales == "groups" else 1

    @property
    def tile_k(self) -> int:
        """Elements of k of a tile."""
        return self.row_bytes * 8 // self.format.bits_a

    @property
    def scales_k(self) -> int:
        """Scales along k of a row, of whole tiles for groups."""
        if self.format.scales == "groups":
            return self.k_tiles * self.tile_k // SCALE_K["groups"]
        return cdiv(self.k, SCALE_K.get(self.format.scales or "", self.k))

    @property
    def a_row_words(self) -> int:
        """i32 of a row of x."""
        return self.k * self.format.bits_a // 32

    @property
    def k_tiles(self) -> int:
        return cdiv(self.a_row_words * 4, self.row_bytes)

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
        return self.k_tiles * self.b_blocks * self.wave * self.load_words

    @property
    def rows_b(self) -> int:
        """Rows of w of an expert, gate and up padded to 16."""
        return align_up(self.n, 16) * self.streams


def pick_block(rows: int, experts: int) -> int:
    """Rows of a block for the rows that experts have on average."""
    return next((b for b in BLOCKS[:-1] if rows <= b * experts), BLOCKS[-1])


def tile_columns(target: Target, block: int, gated: bool) -> int:
    """Columns of a workgroup: as many as the registers hold; few where rows are, so that there are more workgroups."""
    if block == 16:
        return 64
    wide = 256 if target.wave == 64 and block <= 64 else 128
    return wide // 2 if gated else wide


def is_wide(rows: int, columns: int) -> bool:
    """Whether 16-bit rows leave the 4 GiB that an offset reaches (half of it: a tile further is computed)."""
    return rows * columns * 2 >= 1 << 31


def grouped_config(where: str, target: Target, **fields: Any) -> GroupedConfig:
    """A checked configuration. ValueError says what is not supported."""
    target.require(where, "gfx942", "gfx950", "gfx120", "gfx1250")
    config = GroupedConfig(target=target, **fields)
    require(where, config.dtype in ("f16", "bf16"), f"activations must be f16 or bf16, got {config.dtype}")
    require(where, config.activation in ACTIVATIONS,
            f"activation must be one of {', '.join(ACTIVATIONS[1:])}, got {config.activation!r}")
    require(where, config.limit is None or config.limit > 0, f"limit must be positive, got {config.limit}")
    require(where, config.block_m % 16 == 0 and 16 <= config.block_m <= 256,
            f"a block must have 16 to 256 rows, a multiple of 16, got {config.block_m}")
    require(where, config.block_n % (16 * WAVES) == 0,
            f"a tile must have a multiple of {16 * WAVES} columns, got {config.block_n}")
    require(where, config.n > 0 and config.n % 8 == 0, f"columns must be a multiple of 8, got {config.n}")
    blocked = config.format.scales == "blocks" and config.gated
    require(where, not blocked or config.n % 16 == 0,
            f"inter must be a multiple of 16 for block scales, got {config.n}")
    unit = 32 if config.format.b else 128 // config.format.bits_a
    if config.format.scales == "micro":
        target.require(f"{where}: quant={config.quant!r} (elsewhere 'a16w4' takes the same weights)",
                       "gfx950", "gfx1250")
        unit = 128
        require(where, config.dtype == "bf16", f"microscaled activations are made of bf16, got {config.dtype}")
    require(where, config.k > 0 and config.k % unit == 0, f"the reduction must be a multiple of {unit}, got {config.k}")
    for grown in (2, 4):  # a thread has whole chunks, and a tile whole loads of w and scales
        unit = 16 * config.op.groups * config.spread * config.op.blocks
        if config.format.scales == "blocks":
            unit = max(unit, SCALE_K["blocks"])
        if config.a_tile.bytes % (config.threads * CHUNK_BYTES) or config.row_bytes % unit:
            config = replace(config, row_bytes=fields.get("row_bytes", 128) * grown)
    require(where, config.a_tile.bytes % (config.threads * CHUNK_BYTES) == 0,
            f"a tile of {config.block_m} rows cannot be dealt to {config.threads} threads")
    return config.fitting(where)


OUT = {"f16": fx.Float16, "bf16": fx.BFloat16, "f32": fx.Float32}
