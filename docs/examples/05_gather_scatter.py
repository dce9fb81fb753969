"""Gather and scatter: rows of a table at run-time positions, as an embedding look-up and its reverse.

`gather_rows` writes out[i, :] = table[index[i], :], `scatter_rows` writes table[index[i], :] = src[i, :]. A workgroup
handles a tile of 8 rows x 128 columns. Each thread partitions the *regular* side as in a tiled copy; for the other
side it partitions the coordinates of the same tile and turns every coordinate into an element offset, which
`fx.gather` and `fx.scatter` add to the base pointer of the table, one 128-bit copy per offset.

    python docs/examples/05_gather_scatter.py --sizes 37x128 1000x512
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = (8, 32)  # rows x columns of threads in a workgroup
VECTOR = 4         # consecutive float32 of one copy: 128 bits


def locate(tensor: fx.Tensor, Index: fx.Tensor, Table: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
           tiled_copy: fx.TiledCopy) -> tuple:
    """This thread's part of its workgroup's tile of `tensor`, the element offsets of the same values in `Table`
    (one for each copy), and which of the copies are inside rows x cols."""
    by, bx, _ = fx.block_idx
    thread = tiled_copy.get_slice(fx.thread_idx.x)
    coords = fx.make_view((0, 0), fx.make_identity_layout((rows, cols)))

    def tile_of(whole):
        return fx.flat_divide(whole, tiled_copy.tile_mn)[None, None, by, bx]

    at = thread.partition_S(tile_of(coords))[(0, None), None, None]  # coordinates of the first value of each copy
    offsets, inside = fx.make_fragment_like(at, dtype=fx.Int64), fx.make_fragment_like(at, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(at.shape).unpack()):
        row, col = at[i].unpack()
        table_row = Index[(row < rows).select(row, 0)]  # a row past the end looks at index 0, and copies nothing
        offsets[i] = fx.Int64(fx.get_scalar(fx.crd2idx((table_row, col), Table.layout)))
        inside[i] = fx.elem_less(at[i], (rows, cols))
    return thread.partition_S(tile_of(tensor)), offsets, inside


@flyc.kernel
def gather_kernel(Table: fx.Tensor, Index: fx.Tensor, Out: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
                  tiled_copy: fx.TiledCopy):
    """One workgroup gathers one tile of `Out`."""
    out, offsets, inside = locate(Out, Index, Table, rows, cols, tiled_copy)
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    fragment = fx.make_fragment_like(out)
    fx.gather(atom, fx.get_iter(Table), offsets, fragment, pred=inside)
    fx.copy(atom, fragment, out, pred=inside)


@flyc.kernel
def scatter_kernel(Src: fx.Tensor, Index: fx.Tensor, Table: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
                   tiled_copy: fx.TiledCopy):
    """One workgroup scatters one tile of `Src`."""
    src, offsets, inside = locate(Src, Index, Table, rows, cols, tiled_copy)
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    fragment = fx.make_fragment_like(src)
    fx.copy(atom, src, fragment, pred=inside)
    fx.scatter(atom, fragment, fx.get_iter(Table), offsets, pred=inside)


def make_row_copy() -> fx.TiledCopy:
    """The tile of a workgroup: 8 x 32 threads, each with 4 consecutive values of a row."""
    return fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32),
        fx.make_ordered_layout(THREADS, (1, 0)),
        fx.make_ordered_layout((1, VECTOR), (1, 0)),
    )


def grid_of(rows: fx.Int32, cols: fx.Int32, tiled_copy: fx.TiledCopy) -> tuple:
    """Workgroups that cover rows x cols."""
    tile_rows, tile_cols = tiled_copy.tile_mn.unpack()
    return fx.ceildiv(rows, tile_rows), fx.ceildiv(cols, tile_cols), 1


@flyc.jit
def gather_rows(Table: fx.Tensor, Index: fx.Tensor, Out: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
                stream: fx.Stream = fx.Stream(None)):
    """Out[i, :] = Table[Index[i], :] for float32 rows of `cols` (a multiple of 4) and int32 indices in range."""
    tiled_copy = make_row_copy()
    gather_kernel(Table, Index, Out, rows, cols, tiled_copy).launch(
        grid=grid_of(rows, cols, tiled_copy), block=THREADS[0] * THREADS[1], stream=stream
    )


@flyc.jit
def scatter_rows(Src: fx.Tensor, Index: fx.Tensor, Table: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
                 stream: fx.Stream = fx.Stream(None)):
    """Table[Index[i], :] = Src[i, :]; the indices are in range and differ from each other."""
    tiled_copy = make_row_copy()
    scatter_kernel(Src, Index, Table, rows, cols, tiled_copy).launch(
        grid=grid_of(rows, cols, tiled_copy), block=THREADS[0] * THREADS[1], stream=stream
    )


def run(rows: int, cols: int) -> None:
    """Gather `rows` rows of a larger table (with repeats), scatter them to other places, compare bit for bit."""
    if cols % VECTOR:
        raise ValueError(f"{rows}x{cols}: the columns must be a multiple of {VECTOR}")
    rng = np.random.default_rng(rows)
    table = common.random_f32((2 * rows + 3, cols), 1)
    index = rng.integers(0, len(table), rows).astype(np.int32)
    out = common.poisoned_like(table[:rows])
    gather_rows(table, common.to_device(index), out, rows, cols)

    target = rng.permutation(len(table))[:rows].astype(np.int32)
    spread = common.poisoned_like(table)
    scatter_rows(out, common.to_device(target), spread, rows, cols)
    common.synchronize()

    print(f"{rows} rows of {cols} float32 on {common.describe_device()}")
    common.check("gather", out, common.to_host(table)[index])
    untouched = np.setdiff1d(np.arange(len(table)), target)
    common.check("scatter", common.to_host(spread)[target], common.to_host(table)[index])
    common.expect("untouched rows are still NaN:", bool(np.isnan(common.to_host(spread)[untouched]).all()))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["37x128", "64x260"], help="ROWSxCOLS, columns a multiple of 4")
    for size in parser.parse_args().sizes:
        rows, cols = map(int, size.split("x"))
        run(rows, cols)


if __name__ == "__main__":
    main()
