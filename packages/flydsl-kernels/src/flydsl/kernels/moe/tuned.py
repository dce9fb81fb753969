"""The tiles of a mixture of experts: by rule, or what a search found."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from ..host.tuned import Problem, Tuning, known
from ..parts.index import cdiv
from ..target import Target
from .config import (
    BLOCKS,
    FORMATS,
    PUBLIC,
    SCALE_ROWS,
    WAVES,
    most_rows,
    pick_block,
    shared_tile,
    tile_columns,
    tile_of,
    whole_tile,
)

__all__ = ["TUNING", "expert_tiles", "is_fused"]

EXPERTS, TOPK = 8, 2  # of the mixtures that a search runs
PARTS = ("up_", "down_")  # before the names of the tile of each product
STEP = 2.0**-5  # of the largest result: what a step of a few rows' values makes of it


def is_fused(target: Target, quant: str) -> bool:
    """Whether rows between the products are sorted and quantised where they are made."""
    return FORMATS[quant].scales == "micro" and target.converts_fp4


def _columns(target: Target, quant: str, block: int, gated: bool) -> int:
    """Most columns of a workgroup, and as many as scales that are made have to have."""
    columns = tile_columns(target, block, gated, quant)
    return max(columns, 2 * 16 * WAVES) if gated and is_fused(target, quant) else columns


def expert_tiles(target: Target, quant: str, rows: int, experts: int, model: int,
                 inter: int) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Rows of a block of sorting, and the tiles of both products as of :func:`~.config.tile_of`.

    Args:
        rows: of all experts.
    """
    found = known("moe", target, quant, cdiv(rows, experts), inter, model)
    if found is not None:
        up, down = ({name.removeprefix(part): value for name, value in found.items() if name.startswith(part)}
                    for part in PARTS)
        return found["block_m"], up, down
    block = pick_block(rows, experts)
    block = max(block, SCALE_ROWS) if is_fused(target, quant) else block
    block = min(block, most_rows(target, quant))
    up, down = (tile_of(target, quant, block, _columns(target, quant, block, gated), k)
                for gated, k in ((True, model), (False, inter)))
    return block, up, down


def _choices(target: Target, problem: Problem) -> Iterable[dict[str, Any]]:
    """Blocks of all sizes with all columns or half of them, whose k one, two or four groups of waves share, for both
    products alike."""
    quant, inter, model = problem.kind, problem.n, problem.k
    for block, waves, halves in product(BLOCKS, (1, 2, 4), (1, 2)):
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
