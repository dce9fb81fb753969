"""Marks of a kernel's own: where the waves of a kernel spend their time, as they say it themselves.

Calls of `fx.ktrace` stay in the kernel. They emit nothing, unless it is compiled inside of `fx.ktrace.capture`: then
each wave writes its marks and ranges, with the time of a clock that all waves share, to a buffer that is read
afterwards.

    python docs/examples/13_ktrace.py --export .      # a timeline for https://ui.perfetto.dev
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256


@flyc.kernel
def row_sums_kernel(X: fx.Tensor, Out: fx.Tensor, cols: fx.Int32):
    """One workgroup adds one row."""
    tid, row = fx.thread_idx.x, fx.block_idx.x
    fx.ktrace.mark("row", row)  # a number may come with a mark; that of the wave's first active lane is kept
    total = fx.Float32(0.0)
    with fx.ktrace.range("load and add"):
        for i in range(tid, cols, THREADS):
            total = total + X[row, i]
    with fx.ktrace.range("combine"):
        Reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
        space = fx.SharedAllocator().allocate(Reduce.SharedStorage)
        total = Reduce(total, fx.ReductionOp.ADD, storage=space)
    if tid == 0:
        Out[row] = total


@flyc.jit
def row_sums(X: fx.Tensor, Out: fx.Tensor, rows: fx.Int32, cols: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    """Out[r] = the sum of the float32 X[r, :]."""
    row_sums_kernel(X, Out, cols).launch(grid=rows, block=THREADS, stream=stream)


def main() -> None:
    """Trace a launch, and compare what was recorded with what the kernel does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", metavar="FOLDER", help="write the timeline there")
    folder = parser.parse_args().export
    common.require_arch("gfx942", "gfx950")

    rows, cols, waves = 3, 4000, THREADS // 64
    x = common.random_f32((rows, cols), 1)
    out = common.poisoned_like(x[:, 0])
    with fx.ktrace.capture("row_sums", out_dir=folder) as trace:
        row_sums(x, out, rows, cols)
        common.synchronize()
    # Each thread adds 4000 / 256 values one after the other, and eight sums of pairs follow.
    wide = np.abs(common.to_host(x).astype(np.float64)).sum(1)
    common.check("sums", out, common.to_host(x).astype(np.float64).sum(1), 24 * 2.0**-24 * wide)

    print(f"{rows} rows on {common.describe_device()}")
    for name, phase in trace.summary()["phases"].items():
        print(f"  {name:12} {phase['count']:3} times, {phase['total_ns'] / 1e3:.1f} us of all waves together")
    events = [[(e.kind, e.name) for e in wave.events] for wave in trace.read()]
    common.expect("a timeline for every wave:", len(events) == rows * waves)
    expected = [("mark", "row"), ("push", "load and add"), ("pop", ""), ("push", "combine"), ("pop", "")]
    common.expect("marks and ranges in the order of the program:", all(e == expected for e in events))
    if folder:
        print(f"open {trace.export()} in https://ui.perfetto.dev")


if __name__ == "__main__":
    main()
