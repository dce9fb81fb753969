"""The tiles of a mixture of experts: by rule, or what a search found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Any

from ..host.tuned import Problem, Tuning, known
from ..parts.index import cdiv
from ..parts.scales import WORD_K, WORD_ROWS
from ..target import Target
from .config import BLOCKS, FEW, FORMATS, PUBLIC, USUAL_ROWS, WAVES

__all__ = ["TUNING", "Tiles", "expert_tiles", "filling_block", "filling_tile", "is_fused", "most_rows", "pick_block",
           "tile_columns", "tile_of", "tiles_of_block"]

EXPERTS, TOPK = 8, 2  # of the mixtures that a search runs
Tiles = tuple[int, dict[str, Any], dict[str, Any]]  # rows of a block, tiles of up and down
PARTS = ("up_", "down_")  # before the names of the tile of each product
SCATTERED = 12  # rows on average, of which few experts have more than the smallest block
FEW_UNITS = 64  # compute units
#: Formats of which gfx1250 has blocks of 256 rows, by waves of 128 x 128, and the rows of an expert on average above
#: which it has. With fewer rows in a block, L2 binds sooner, of 4-bit weights LDS; but half a block of each expert is
#: padding, which costs few rows of int4 more than the seventh that it gains. Sums that are scaled block by block have
#: no room for as many; fp4 times fp4, whose tile has twice the k, spills; int8 has L2 to spare with 128;
#: and a16w4 has as much with 128 rows of 2 x 2 waves.
SQUARE = {"none": USUAL_ROWS, "fp8": USUAL_ROWS, "a8w4": USUAL_ROWS, "int4": 3 * USUAL_ROWS, "a16i4": USUAL_ROWS}
STEP = 2.0**-5  # of the largest result: what a step of a few rows' values makes of it


def pick_block(rows: int, experts: int) -> int:
    """Rows of a block for the rows that experts have on average.

    Those of several scatter about it: were there 16 on average, every other one would have a second block of 16, for
    which its weights are read again.
    """
    if rows <= (BLOCKS[0] if experts == 1 else SCATTERED) * experts:
        return BLOCKS[0]
    return next((b for b in BLOCKS[1:-1] if rows <= b * experts), BLOCKS[-1])


def load(target: Target, blocks: float, n: int, columns: int) -> float:
    """Workgroups for each compute unit, of `columns` of n for each block of rows."""
    return blocks * cdiv(n, columns) / target.compute_units


def filling_block(target: Target, quant: str, block: int, rows: int, inter: int) -> int:
    """`block` rows, or fewer where workgroups with as many would leave compute units idle: of the first product there
    must be one for each with 128 rows or more, for every other one with 64 (they are as wide again). Where weights are
    converted for each block, and where 32 rows have no way of their own to registers, blocks stay at 64."""
    least = 16 * FEW if target.matrix == "mfma" and FORMATS[quant].scales != "groups" else 64
    while block > least:
        columns = _columns(target, quant, block, True)
        if load(target, rows / block, inter, columns) >= min(block / USUAL_ROWS, 1):
            break
        block //= 2
    return block


def crowded(target: Target, quant: str) -> bool:
    """Whether sums that are scaled block by block leave few of a wave's registers for a tile's operands."""
    return FORMATS[quant].scales == "blocks" and target.wave_registers <= 256


def most_rows(target: Target, quant: str) -> int:
    """The largest block whose sums leave a wave registers for the rest of the loop."""
    if crowded(target, quant):
        return 16 * FEW
    # Tables that turn e2m1 into bf16 take registers, too.
    converts = FORMATS[quant].scales == "groups" and FORMATS[quant].b == "fp4"
    if converts and target.wave_registers <= 256:
        return 64
    return BLOCKS[-1] if target.tensor_moves and quant in SQUARE else USUAL_ROWS


def tile_columns(target: Target, block: int, gated: bool, quant: str = "none") -> int:
    """Columns of a workgroup: as many as the registers hold; few where rows are, so that there are more workgroups."""
    if block == 16:
        return 64
    kind = FORMATS[quant]
    if target.tensor_moves:  # more products for each row that is read from LDS; int4 in bytes is slower with more
        wide = 128 if quant == "int4" else 256
    else:
        # Scales of blocks take the registers of a second wave of a SIMD in any case; gfx950 then is faster with more
        # columns for each row of x and its scale.
        alone = kind.scales == "blocks" and target.mx
        wide = 256 if target.wave == 64 and (block <= 64 or alone) else 128
    return wide // 2 if gated else wide


def tile_of(target: Target, quant: str, block: int, gated: bool, n: int, k: int,
            blocks: float = math.inf) -> dict[str, Any]:
    """Groups of waves that share a tile's k, columns of a workgroup, and bytes of a row of x in a tile, for about so
    many blocks of rows (by default as many as fill a device)."""
    # Few compute units keep the memory busy with workgroups of any size; rows of two tiles would then only be read more
    # often.
    if block <= 16 * (1 if target.compute_units <= FEW_UNITS else FEW):
        return _streaming_tile(target, quant, block, gated, n, k, blocks)
    tile = whole_tile(target, quant, block, _columns(target, quant, block, gated), k)
    return filling_tile(target, quant, tile, block, gated, n, k, blocks)


def _streaming_tile(target: Target, quant: str, block: int, gated: bool, n: int, k: int,
                    blocks: float) -> dict[str, Any]:
    """That of few rows: weights are read by as many workgroups as possible, of few columns; as far as the weights need
    no other padding than for one."""
    kind, columns = FORMATS[quant], _columns(target, quant, block, gated)
    least = min(columns, 128 if kind.scales == "micro" else 64)  # of four waves side by side
    if block > 16 and kind.scales == "groups":
        # Each workgroup reads two tiles of 16-bit rows, which are more bytes than few columns of 4 bits. Where no
        # instruction converts these, more of them take too many registers.
        streams, most = 2 if gated else 1, 256 if target.mx else 128
        while 2 * least * streams <= most and load(target, blocks * streams, n, 2 * least // WAVES) >= 2:
            least *= 2
    for waves in (4, 2):
        if shared := shared_tile(target, quant, block, least // waves, k, waves):
            return shared
    return whole_tile(target, quant, block, columns, k)


def filling_tile(target: Target, quant: str, tile: dict[str, Any], block: int, gated: bool, n: int, k: int,
                 blocks: float) -> dict[str, Any]:
    """`tile`, or a narrower one while there are no two workgroups for each compute unit, one of which works while the
    other waits for memory. One that is alone waits half as often if its waves share k, but reads more for it, of gate
    and up too much."""
    kind = FORMATS[quant]
    if target.matrix != "mfma" and (kind.scales is not None or block > USUAL_ROWS):
        return tile  # fewer products for each scale, or byte of L2, cost more than idle units
    along_k = target.matrix != "mfma" or kind.scales in ("blocks", "micro")
    least = 16 * WAVES * (2 if along_k else 1)
    while load(target, blocks, n, tile["tile_n"]) < 2 and tile["tile_n"] > least:
        tile = {**tile, "tile_n": tile["tile_n"] // 2}
    if not gated and not along_k and kind.scales != "groups":
        for columns in (least // 2, least):
            shared = shared_tile(target, quant, block, columns, k, 2)
            if shared and load(target, blocks, n, columns) <= 1:
                return shared
    return tile


def whole_tile(target: Target, quant: str, block: int, columns: int, k: int) -> dict[str, Any]:
    """A tile all of whose k each wave has, as :func:`tile_of`."""
    row_bytes = tile_row_bytes(target, block)
    deep = USUAL_ROWS if quant in ("fp8", "a8w4") else 64 if quant == "fp8_block" else 0
    if target.tensor_moves and block <= deep and k % 256 == 0:
        row_bytes = 256  # as many products between two barriers as of 16-bit rows, whose instruction has a quarter of k
    if quant == "mxfp4":  # whole tiles: behind a row are the scales of another, and 0 times a NaN is none
        row_bytes = 128 if k % WORD_K == 0 else 64
    # 2 x 2 waves read half as many rows from LDS. Two of them convert the same weights, eight fp4 in an instruction.
    square = block > USUAL_ROWS or (target.tensor_moves and quant == "a16w4" and block == USUAL_ROWS)
    return dict(k_waves=1, tile_n=columns, row_bytes=row_bytes, **(dict(m_waves=2) if square else {}))


def shared_tile(target: Target, quant: str, block: int, columns: int, k: int, waves: int) -> dict[str, Any] | None:
    """A tile whose k `waves` groups of waves share, as :func:`tile_of`; None where k is not whole ones."""
    kind, row_bytes = FORMATS[quant], tile_row_bytes(target, block)
    # As much for each wave as fits: what is on its way must cover the latency of memory, and the conversion of the
    # tile before.
    shares = (WORD_K * kind.bits_a // 8,) if kind.scales == "micro" else (2 * row_bytes, row_bytes)
    if crowded(target, quant):
        shares = (row_bytes,)
    if kind.scales == "groups" and target.converts_fp4 and block == 16:
        shares = (4 * row_bytes, *shares)
    # Through LDS they come in two stages.
    most = target.lds_bytes // (2 * block * waves) if block > 16 * FEW else max(shares)
    fitting = [share for share in shares if share <= most and k * kind.bits_a // 8 % (waves * share) == 0]
    return dict(k_waves=waves, tile_n=columns, row_bytes=waves * fitting[0]) if fitting else None


def tile_row_bytes(target: Target, block: int) -> int:
    """Bytes of a row of x in a tile of k; fewer of many rows where they would not fit beside the sums in registers."""
    return 64 if target.wave_registers <= 256 and block == 128 else 128


def is_fused(target: Target, quant: str) -> bool:
    """Whether rows between the products are sorted and quantised where they are made."""
    return FORMATS[quant].scales == "micro" and target.converts_fp4


def _columns(target: Target, quant: str, block: int, gated: bool) -> int:
    """Most columns of a workgroup, and as many as scales that are made have to have."""
    columns = tile_columns(target, block, gated, quant)
    return max(columns, 2 * 16 * WAVES) if gated and is_fused(target, quant) else columns


def expert_tiles(target: Target, quant: str, rows: int, experts: int, model: int, inter: int) -> Tiles:
    """Rows of a block of sorting, and the tiles of both products as of :func:`tile_of`.

    Args:
        rows: of all experts.
    """
    found = known("moe", target, quant, cdiv(rows, experts), inter, model)
    if found is not None:
        up, down = ({name.removeprefix(part): value for name, value in found.items() if name.startswith(part)}
                    for part in PARTS)
        return found["block_m"], up, down
    block = pick_block(rows, experts)
    block = max(block, WORD_ROWS) if is_fused(target, quant) else block
    block = min(block, most_rows(target, quant))
    if rows <= SQUARE.get(quant, 0) * experts:
        block = min(block, USUAL_ROWS)
    block = filling_block(target, quant, block, rows, inter)
    # Half of the last block of each of several experts is padding.
    return tiles_of_block(target, quant, block, model, inter, cdiv(rows, block) + experts // 2)


def tiles_of_block(target: Target, quant: str, block: int, model: int, inter: int,
                   blocks: float = math.inf) -> Tiles:
    """Those of blocks of `block` rows, as :func:`tile_of`."""
    up, down = (tile_of(target, quant, block, gated, n, k, blocks)
                for gated, n, k in ((True, inter, model), (False, model, inter)))
    return block, up, down


def _choices(target: Target, problem: Problem) -> Iterable[dict[str, Any]]:
    """Blocks of all sizes with all columns or half of them, whose k one, two or four groups of waves share, for both
    products alike."""
    quant, inter, model = problem.kind, problem.n, problem.k
    blocks = [block for block in BLOCKS if block <= max(most_rows(target, quant), USUAL_ROWS)]
    for block, waves, halves in product(blocks, (1, 2, 4), (1, 2)):
        tiles = []
        for gated, k in ((True, model), (False, inter)):
            columns = _columns(target, quant, block, gated) // (waves * halves)
            whole = columns % (16 * WAVES // waves) == 0
            tiles.append(None if not whole else whole_tile(target, quant, block, columns, k) if waves == 1 else
                         shared_tile(target, quant, block, columns, k, waves))
        if all(tiles):
            yield dict(block_m=block, **{part + name: value for part, tile in zip(PARTS, tiles, strict=True)
                                         for name, value in (tile or {}).items()})


#: What a search tries. Where rows between the products are quantised, a last bit before may be a whole step after.
TUNING = Tuning(PUBLIC, _choices, lambda op, draw, p: op.sample(
    draw, cdiv(p.m * EXPERTS, TOPK), p.k, experts=EXPERTS, inter=p.n, topk=TOPK, quant=p.kind),
    "rows of an expert, inter, model", {name: STEP for name in PUBLIC if FORMATS[name].a})
