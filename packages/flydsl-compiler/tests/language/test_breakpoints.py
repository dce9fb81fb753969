"""Looking into a kernel written in FlyDSL: break at a line of its Python source, read tensors by name, step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.runtime as rt

SOURCE = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, scale: fx.Float32, n: fx.Int32):
    t = fx.thread_idx.x
    row = fx.block_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    tile[t] = X[row, t]
    fx.barrier()
    value = tile[63 - t] * scale
    Y[row, t] = value

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, scale: fx.Float32, n: fx.Int32):
    k(X, Y, scale, n).launch(grid=n, block=64)
"""
STORE = SOURCE.splitlines().index("    Y[row, t] = value") + 3  # two lines of imports come first


@pytest.mark.l2_device
def test_break_at_a_source_line_and_read_by_name(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    module = load(SOURCE)
    x = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    y = np.full((4, 64), -1, np.float32)
    seen: list[Any] = []

    def look(state: rt.WaveState) -> int:
        store = "global_store" in state.text or "buffer_store" in state.text
        if store:
            vector = [word.strip("v,") for word in state.text.split() if word.startswith("v") and word[1].isdigit()]
            values = [state.vgpr(int(word), "f4") for word in vector]
            seen.append((state.workgroup, state.argument("X"), state.argument("Y"), state.argument("scale"),
                         state.argument("n"), state.lds("f4")[:64], values, state.source))
        return rt.CONTINUE if store else rt.STEP

    place = rt.Breakpoint(source=f"{module.__name__}.py:{STORE}", workgroup=(2, 0, 0), wave=0)
    with rt.breakpoints(place, call=look):
        module.run(x, y, 3.0, 4)
        rt.synchronize()
    ((group, tensor, target, scale, n, lds, values, source),) = seen
    assert group == (2, 0, 0) and source.endswith(f"{module.__name__}.py:{STORE}")
    np.testing.assert_array_equal(tensor, x)
    np.testing.assert_array_equal(target[2], np.full(64, -1))  # this row is not yet written
    assert (scale, n) == (3.0, 4)
    np.testing.assert_array_equal(lds, x[2])
    assert any(np.array_equal(v, 3 * x[2, ::-1]) for v in values)
    np.testing.assert_array_equal(y, 3 * x[:, ::-1])


@pytest.mark.l2_device
def test_tensors_of_other_types_and_strides(load: Any) -> None:
    """A transposed half-precision view and int64: the bytes of the call, through its strides."""
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, I: fx.Tensor):
    t = fx.thread_idx.x
    I[t] = I[t] + X[t, 1].to(fx.Int64)

@flyc.jit
def run(X: fx.Tensor, I: fx.Tensor):
    k(X, I).launch(grid=1, block=8)
""")
    x = np.arange(24, dtype=np.float16).reshape(3, 8).T
    i = np.arange(8, dtype=np.int64)
    seen = []
    with rt.breakpoints(rt.Breakpoint(), call=lambda s: seen.append((s.argument("X"), s.argument("I")))):
        module.run(x, i)
        rt.synchronize()
    np.testing.assert_array_equal(seen[0][0], x)
    np.testing.assert_array_equal(seen[0][1], np.arange(8))
    assert seen[0][0].dtype == np.float16 and seen[0][1].dtype == np.int64
