"""Block reduction: the sum and the maximum of every row, one workgroup for a row.

Three levels, each with the tool that fits it: a thread adds its own elements in registers (128-bit loads, a run-time
loop whose accumulators are carried automatically); the lanes of a wave combine with a butterfly of shuffles; the
waves of the workgroup meet in shared memory. The sum of a row is rounded differently from NumPy's, so it is compared
with a bound derived from the number of additions; the maximum is exact.

    python docs/examples/06_block_reduction.py --sizes 4x1000 64x8192
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256
VECTOR = 4      # consecutive float32 of one load: 128 bits
LOWEST = float("-inf")


@flyc.kernel(known_block_size=[THREADS, 1, 1])
def reduce_kernel(X: fx.Tensor, Sum: fx.Tensor, Max: fx.Tensor, cols: fx.Int32):
    """Workgroup b reduces row b."""
    lanes = fx.num_warp_threads()  # 64 on CDNA, 32 on RDNA: known while the kernel is traced
    waves = THREADS // lanes
    tid, row = fx.thread_idx.x, fx.block_idx.x
    lane, wave = tid % lanes, tid // lanes

    @fx.struct
    class Partials:
        sum: fx.Array[fx.Float32, waves, 16]
        max: fx.Array[fx.Float32, waves, 16]

    partials = fx.SharedAllocator().allocate(Partials).peek()

    def across_wave(total, largest, width):
        """Butterfly: afterwards every lane of a group of `width` holds the result of the group."""
        step = width // 2
        while step > 0:
            total = total + fx.shuffle_xor(total, step, width)
            largest = fx.max(largest, fx.shuffle_xor(largest, step, width))
            step //= 2
        return total, largest

    # 1. registers: thread t takes vectors t, t + THREADS, ...
    vectors = fx.logical_divide(fx.slice(X, (row, None)), fx.make_layout(VECTOR, 1))
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    fragment = fx.make_rmem_tensor(VECTOR, fx.Float32)
    total, largest = fx.Float32(0.0), fx.Float32(LOWEST)
    for i in range(tid, cols // VECTOR, THREADS):
        fx.copy_atom_call(atom, fx.slice(vectors, (None, i)), fragment)
        value = fragment.load()
        total = total + value.reduce(fx.ReductionOp.ADD)
        largest = fx.max(largest, value.reduce(fx.ReductionOp.MAX))

    # 2. lanes of a wave
    total, largest = across_wave(total, largest, lanes)
    if lane == 0:
        partials.sum[wave] = total
        partials.max[wave] = largest
    fx.barrier()

    # 3. waves of the workgroup: the first `waves` lanes of wave 0 hold one partial result each
    if wave == 0:
        live = lane < waves
        slot = live.select(lane, 0)
        total, largest = live.select(partials.sum[slot], 0.0), live.select(partials.max[slot], LOWEST)
        total, largest = across_wave(total, largest, waves)
        if lane == 0:
            Sum[row] = total
            Max[row] = largest


@flyc.jit
def reduce_rows(X: fx.Tensor, Sum: fx.Tensor, Max: fx.Tensor, rows: fx.Int32, cols: fx.Int32,
                stream: fx.Stream = fx.Stream(None)):
    """Sum[i] and Max[i] of row i of the row-major float32 matrix X; cols is a multiple of 4."""
    reduce_kernel(X, Sum, Max, cols).launch(grid=rows, block=THREADS, stream=stream)


def run(rows: int, cols: int) -> None:
    """Reduce a random matrix and compare with NumPy in double precision."""
    if cols % VECTOR:
        raise ValueError(f"{rows}x{cols}: the columns must be a multiple of {VECTOR}")
    x = common.random_f32((rows, cols), 5)
    sums, largest = (common.poisoned_like(common.random_f32((rows,), 6)) for _ in range(2))
    reduce_rows(x, sums, largest, rows, cols)
    common.synchronize()
    exact = common.to_host(x).astype(np.float64)
    # A tree of depth d rounds every element at most d times; 2^-24 is half a unit in the last place of float32.
    depth = cols / THREADS + 8
    bound = depth * 2.0**-24 * np.abs(exact).sum(axis=1)
    print(f"{rows}x{cols} float32 on {common.describe_device()}")
    common.check("sum", sums, exact.sum(axis=1), bound)
    common.check("max", largest, exact.max(axis=1))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["5x1000", "16x4096", "3x4"],
                        help="ROWSxCOLS, columns a multiple of 4")
    for size in parser.parse_args().sizes:
        rows, cols = map(int, size.split("x"))
        run(rows, cols)


if __name__ == "__main__":
    main()
