"""Memory operations that say how far they reach, under their older names: their values, and their instructions."""

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.common import communication_ops_utils as ops


@flyc.kernel
def _kernel(a, out):
    words = fx.ptrtoint(fx.get_iter(a))
    results = fx.ptrtoint(fx.get_iter(out))
    if fx.thread_idx.x == 0:
        ops.store_i32_system(words, 2, fx.Int32(7))
        ops.fence_system_release()
        ops.store_i64_global_system(words + 16, fx.Int64(1 << 40))
        ops.fence_system_acquire()
        first = ops.load_i64_global(words + 16)
        before = ops.atomic_add_agent(words + 24, fx.Int32(5))
        ops.fence_agent_release()
        again = ops.atomic_add_system(words + 24, fx.Int32(6))
        ops.fence_agent_acquire()
        least = ops.atomic_add_system(words + 24, 7)
        raw = ops.atomic_add_agent(words + 24, fx.arith.constant(8, type=fx.T.i32))
        last = ops.atomic_xchg_global_at(words + 24, 100, "agent")
        wide = ops.atomic_add_global_at(words + 32, fx.Int64(1 << 33))
        for i, value in enumerate((first, before, again, least, raw, last, wide)):
            ops.store_i64_global_system(results + 8 * i, fx.Int64(value))


@flyc.jit
def _launch(a, out, stream: fx.Stream = fx.Stream(None)):
    _kernel(a, out).launch(grid=1, block=64, stream=stream)


def test_values():
    a, out = np.arange(16, dtype=np.int32), np.full(7, -1, np.int64)
    _launch(a, out)
    six, wide = 6, 8 | 9 << 32
    assert out.tolist() == [1 << 40, six, six + 5, six + 11, six + 18, six + 26, wide]
    expected = np.arange(16, dtype=np.int32)
    expected[2], expected[6] = 7, 100
    expected[4:6] = np.array([1 << 40]).view(np.int32)
    expected[8:10] = np.array([wide + (1 << 33)]).view(np.int32)
    np.testing.assert_array_equal(a, expected)
