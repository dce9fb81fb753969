"""Vector add in two dimensions: C = A + B with 128-bit vector copies and predicated edges.

A workgroup of 128 threads handles a tile of 4 rows x 128 columns; a thread copies 4 consecutive float32 (128 bits)
of one row. Sizes need not be multiples of the tile: a coordinate tensor, partitioned like the data, says
which elements are inside, and the copies are predicated with it.

    python docs/examples/01_vector_add.py --sizes 100x1000 4096x4096
"""

from __future__ import annotations

import argparse

import _common as common
import _hip as hip
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt

THREADS = (4, 32)  # rows x columns of threads in a workgroup
VECTOR = 4         # consecutive float32 of one thread: 128 bits


@flyc.kernel
def add_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, rows: fx.Int32, cols: fx.Int32, tiled_copy: fx.TiledCopy):
    """One workgroup adds one tile."""
    tid, (bx, by, _) = fx.thread_idx.x, fx.block_idx
    coords = fx.make_view((0, 0), fx.make_identity_layout((rows, cols)))
    thread = tiled_copy.get_slice(tid)

    def my_part(tensor):
        tile = fx.flat_divide(tensor, tiled_copy.tile_mn)[None, None, by, bx]
        return thread.partition_S(tile)

    a, b, c = my_part(A), my_part(B), my_part(C)
    at = my_part(coords)[(0, None), None, None]
    inside = fx.make_fragment_like(at, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(inside.shape).unpack()):
        inside[i] = fx.elem_less(at[i], (rows, cols))

    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    ra, rb = fx.make_fragment_like(a), fx.make_fragment_like(b)
    fx.copy(atom, a, ra, pred=inside)
    fx.copy(atom, b, rb, pred=inside)
    ra.store(ra.load() + rb.load())
    fx.copy(atom, ra, c, pred=inside)


@flyc.jit
def add(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
        stream: fx.Stream = fx.Stream(None)):
    """C = A + B for row-major float32 matrices of rows x cols; cols is a multiple of 4."""
    tiled_copy = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32),
        fx.make_ordered_layout(THREADS, (1, 0)),
        fx.make_ordered_layout((1, VECTOR), (1, 0)),
    )
    tile_rows, tile_cols = tiled_copy.tile_mn.unpack()
    grid = (fx.ceildiv(cols, tile_cols), fx.ceildiv(rows, tile_rows), 1)
    add_kernel(A, B, C, rows, cols, tiled_copy).launch(
        grid=grid, block=THREADS[0] * THREADS[1], stream=stream
    )


def run(rows: int, cols: int) -> None:
    """Add two random matrices and compare with NumPy."""
    if cols % VECTOR:
        raise ValueError(f"{rows}x{cols}: the columns must be a multiple of {VECTOR}")
    a, b = common.random_f32((rows, cols), 1), common.random_f32((rows, cols), 2)
    c = common.poisoned_like(a)
    arguments = (a, b, c, rows, cols, fx.Stream(None))  # a compiled object takes all of them, in order
    compiled, start = common.compiled(add, *arguments)
    compiled(*arguments)  # loads the code object onto the device
    launch = common.timed(lambda: compiled(*arguments))
    print(f"{rows}x{cols} float32 on {common.describe_device()}: {start}, launch and run {launch * 1e3:.2f} ms")
    common.check(f"{rows}x{cols}", c, a + b)


def run_captured(rows: int, cols: int) -> None:
    """Record a launch in a graph, and replay it on new data in the same buffers."""
    a, b = common.random_f32((rows, cols), 1), common.random_f32((rows, cols), 2)
    c = common.poisoned_like(a)
    stream = rt.Stream()
    add(a, b, c, rows, cols, stream=stream)  # compiles and loads, which a capture must not
    stream.synchronize()
    c[...] = float("nan")
    graph = hip.Graph(stream, lambda: add(a, b, c, rows, cols, stream=stream))
    common.expect("recording runs nothing:", bool(np.isnan(common.to_host(c)).all()))
    for seed in (3, 4):
        a[...] = common.random_f32((rows, cols), seed)
        graph.replay()
        common.check(f"replay with data {seed}", c, a + b)


def example_call() -> tuple:
    """A call of `add` for tools that compile it without running it."""
    a = np.zeros((8, 128), np.float32)
    return add, a, a, a, 8, 128, fx.Stream(None)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["100x1000", "33x68"], help="ROWSxCOLS, columns a multiple of 4")
    for size in parser.parse_args().sizes:
        rows, cols = map(int, size.split("x"))
        run(rows, cols)
        run_captured(rows, cols)


if __name__ == "__main__":
    main()
