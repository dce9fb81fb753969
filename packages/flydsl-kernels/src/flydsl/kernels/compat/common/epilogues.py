"""Epilogues of MFMA tiles for kernels that bring their own accumulators: direct, or through LDS.

A lane holds column ``lane % 16`` and rows ``4 (lane // 16) + 0..3`` of every 16 x 16 tile. Callbacks are called by
keyword where they declare keyword-only parameters, and by position otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.parts.memory import lds_read

__all__ = ["c_shuffle_epilog", "default_epilog", "mfma_epilog"]

TILE, ROWS = 16, 4  # rows and columns of an MFMA tile; rows of a lane in it


def _call(function: Callable[..., Any], **values: Any) -> Any:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters):
        return function(**values)
    return function(*values.values())


def default_epilog(*, m_repeat: int, lane_div_16: Any, bx_m: Any, body_row: Callable[..., None]) -> None:
    """Call ``body_row(mi, ii, row_in_tile, row)`` for every row that this lane holds.

    Args:
        m_repeat: tiles of 16 rows of the wave.
        lane_div_16: lane group, 0 to 3.
        bx_m: first row of the workgroup's tile.
        body_row: stores the row: `mi` and `ii` say which accumulator, ``row_in_tile = 16 mi + 4 lane_div_16 + ii``,
            ``row = bx_m + row_in_tile``.
    """
    for mi in range(m_repeat):
        for ii in range(ROWS):
            row_in_tile = lane_div_16 * ROWS + (mi * TILE + ii)
            _call(body_row, mi=mi, ii=ii, row_in_tile=row_in_tile, row=bx_m + row_in_tile)


@flyc.jit
def _when(predicate: Any, body: Callable[[], None]) -> None:
    if predicate:
        body()


def c_shuffle_epilog(*, tile_m: int, tile_n: int, e_vec: int = 2, cshuffle_nlane: int = 32, block_size: int = 256,
                     m_repeat: int, num_acc_n: int, tx: Any, lane_div_16: Any, lane_mod_16: Any, bx_m: Any, by_n: Any,
                     n_tile_base: Any, lds_out: Any, frag_elem_type: Any = fx.Float16,
                     write_row_to_lds: Callable[..., None], precompute_row: Callable[..., Any] | None = None,
                     store_pair: Callable[..., None], lds_out_split: Any = None,
                     lds_row_offset: Any = None) -> None:
    """Put a tile of C in LDS row by row and read it back along the rows, so that stores are consecutive.

    All threads of the workgroup must call it. Barrier, write, barrier; then threads are placed as
    ``(block_size / cshuffle_nlane, cshuffle_nlane)``, all row contexts are computed, and every thread reads `e_vec`
    elements at a time.

    Args:
        tile_m, tile_n: tile of the workgroup.
        tx: thread; `lane_div_16` and `lane_mod_16` are those of its lane.
        bx_m, by_n: first row and column of the tile in C; `n_tile_base` is the wave's first column in the tile.
        lds_out: pointer to `tile_m * tile_n` elements of `frag_elem_type` in LDS, that others may still be reading.
        write_row_to_lds: ``(mi, ii, row_in_tile, row, row_base_lds, col_base_local, num_acc_n, lds_out)`` stores what
            the lane holds of a row at ``row_base_lds + col_base_local + 16 ni``.
        precompute_row: ``(row_local, row)`` gives the context of a row, or ``(context, predicate)``: rows whose
            predicate is false are not stored.
        store_pair: ``(row_local, row, ctx, col_pair0, col_g0, frag)`` stores the vector `frag` at column `col_g0`
            (`col_pair0` in the tile).
        lds_out_split: a second buffer. The first half of the threads then has the columns below ``tile_n / 2`` in
            `lds_out`, the second half the others in this one (`n_tile_base` is there); each holds ``tile_m * tile_n /
            2`` elements, and is read back by the threads that wrote it.
        lds_row_offset: added to the element offset of every row in LDS.

    Raises:
        ValueError: the threads do not divide the tile.
    """
    halves = 1 if lds_out_split is None else 2
    threads, columns = block_size // halves, tile_n // halves
    rows_at_once, columns_at_once = threads // cshuffle_nlane, cshuffle_nlane * e_vec
    if threads % cshuffle_nlane or tile_m % rows_at_once or tile_n % (columns_at_once * halves):
        raise ValueError(f"c_shuffle_epilog: a tile of {tile_m} x {tile_n} must be a multiple of {rows_at_once} x "
                         f"{columns_at_once * halves} (threads of a buffer / cshuffle_nlane, cshuffle_nlane * e_vec of "
                         "each buffer)")
    offset = 0 if lds_row_offset is None else lds_row_offset
    begin, first_column, buffer = tx, 0, lds_out
    if lds_out_split is not None:
        begin, half = tx % threads, tx // threads
        first_column, buffer = half * columns, (half == 0).select(lds_out, lds_out_split)
    staged = fx.recast_iter(frag_elem_type, buffer)

    def write_row(mi: int, ii: int, row_in_tile: Any, row: Any) -> None:
        _call(write_row_to_lds, mi=mi, ii=ii, row_in_tile=row_in_tile, row=row,
              row_base_lds=row_in_tile * columns + offset, col_base_local=n_tile_base - first_column + lane_mod_16,
              num_acc_n=num_acc_n, lds_out=buffer)

    fx.barrier()
    default_epilog(m_repeat=m_repeat, lane_div_16=lane_div_16, bx_m=bx_m, body_row=write_row)
    fx.barrier()
    first, lane = begin // cshuffle_nlane, begin % cshuffle_nlane
    rows = [first + i * rows_at_once for i in range(tile_m // rows_at_once)]
    contexts = [None if precompute_row is None else _call(precompute_row, row_local=r, row=bx_m + r) for r in rows]
    for row_local, context in zip(rows, contexts, strict=True):
        ctx, predicate = context if isinstance(context, tuple) else (context, None)

        def store(row_local: Any = row_local, ctx: Any = ctx) -> None:
            for j in range(columns // columns_at_once):
                place = lane * e_vec + j * columns_at_once
                frag = lds_read(staged, row_local * columns + offset + place, e_vec)
                column = first_column + place
                names = {"row_local": row_local, "row": bx_m + row_local, "ctx": ctx, "col_pair0": column,
                         "col_g0": by_n + column, "frag": frag}
                if "row_ctx" in inspect.signature(store_pair).parameters:
                    names = {"row_ctx" if key == "ctx" else key: value for key, value in names.items()}
                _call(store_pair, **names)

        if predicate is None:
            store()
        else:
            _when(predicate, store)


def mfma_epilog(use_cshuffle: bool, *, m_repeat: int, lane_div_16: Any, bx_m: Any,
                body_row: Callable[..., None] | None = None, **shuffle: Any) -> None:
    """:func:`c_shuffle_epilog` with the arguments in `shuffle`, or :func:`default_epilog` with `body_row`.

    Raises:
        ValueError: the arguments of the chosen form are missing.
    """
    if use_cshuffle:
        needed = ("tile_m", "tile_n", "num_acc_n", "tx", "lane_mod_16", "by_n", "n_tile_base", "lds_out",
                  "write_row_to_lds", "store_pair")
        missing = [name for name in needed if shuffle.get(name) is None]
        if missing:
            raise ValueError(f"mfma_epilog: use_cshuffle needs {', '.join(missing)}")
        c_shuffle_epilog(m_repeat=m_repeat, lane_div_16=lane_div_16, bx_m=bx_m, **shuffle)
        return
    if body_row is None:
        raise ValueError("mfma_epilog: body_row is needed without use_cshuffle")
    default_epilog(m_repeat=m_repeat, lane_div_16=lane_div_16, bx_m=bx_m, body_row=body_row)
