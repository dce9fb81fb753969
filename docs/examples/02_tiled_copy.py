"""Tiled copy: a thread-value layout says which elements of a tile each thread owns.

16 x 4 threads, each with 1 x 4 consecutive float32 values, copy a tile of 16 x 16. `partition_S` and `partition_D`
give a thread its part of the source and of the destination tile; a fragment in registers stands between them.

    python docs/examples/02_tiled_copy.py
"""

from __future__ import annotations

import _common as common

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = (16, 4)
VALUES = (1, 4)


@flyc.kernel
def copy_kernel(A: fx.Tensor, B: fx.Tensor):
    """Workgroup b copies tile b (column-major over the grid of tiles)."""
    tile, tv = fx.make_layout_tv(fx.make_layout(THREADS, (4, 1)), fx.make_layout(VALUES, (4, 1)))
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    thread = fx.make_tiled_copy(atom, tv, tile).get_slice(fx.thread_idx.x)
    src = thread.partition_S(fx.slice(fx.zipped_divide(A, tile), (None, fx.block_idx.x)))
    dst = thread.partition_D(fx.slice(fx.zipped_divide(B, tile), (None, fx.block_idx.x)))
    fragment = fx.make_fragment_like(src)
    fx.copy(atom, src, fragment)
    fx.copy(atom, fragment, dst)


@flyc.jit
def tiled_copy(A: fx.Tensor, B: fx.Tensor, tiles: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    """B = A for row-major float32 matrices whose sizes are multiples of 16."""
    copy_kernel(A, B).launch(grid=tiles, block=THREADS[0] * THREADS[1], stream=stream)


def run(rows: int, cols: int) -> None:
    """Copy a random matrix and compare bit for bit."""
    a = common.random_f32((rows, cols), 3)
    b = common.poisoned_like(a)
    tiled_copy(a, b, (rows // 16) * (cols // 16))
    common.timed(lambda: None)
    print(f"{rows}x{cols} float32 on {common.describe_device()}")
    common.check(f"{rows}x{cols}", b, a)


def main() -> None:
    """Two shapes, one of them not square."""
    run(64, 64)
    run(48, 160)


if __name__ == "__main__":
    main()
