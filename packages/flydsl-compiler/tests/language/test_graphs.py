"""Graph capture of jit calls: recorded without running, replayed on new data."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl import runtime

pytestmark = pytest.mark.usefixtures("device")

SOURCE = """
@flyc.kernel
def add(X: fx.Tensor, Y: fx.Tensor, v: fx.Float32):
    t = fx.thread_idx.x
    Y[t] = X[t] + v

@flyc.kernel
def double(Y: fx.Tensor):
    t = fx.thread_idx.x
    Y[t] = Y[t] * 2.0

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, v: fx.Float32, times: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    add(X, Y, v).launch(grid=1, block=64, stream=stream)
    for i in range(times):
        double(Y).launch(grid=1, block=64, stream=stream)
"""


def _call(function: str, *arguments: Any) -> int:
    return int(getattr(ctypes.CDLL(runtime.library_path()), function)(*arguments))


def _capture(stream: Any, record: Callable[[], None]) -> ctypes.c_void_p:
    handle, graph, executable = ctypes.c_void_p(stream.ptr), ctypes.c_void_p(), ctypes.c_void_p()
    assert _call("hipStreamBeginCapture", handle, 0) == 0  # global mode: unsafe calls fail
    try:
        record()
    finally:
        ended = _call("hipStreamEndCapture", handle, ctypes.byref(graph))
    assert ended == 0
    assert _call("hipGraphInstantiate", ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0)) == 0
    assert _call("hipGraphDestroy", graph) == 0
    return executable


@pytest.mark.parametrize("compiled", [False, True])
def test_capture_and_replay(load: Any, compiled: bool) -> None:
    import flydsl.compiler as flyc

    module, stream = load(SOURCE), runtime.Stream()
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    arguments = (x, y, 1.0, 2, stream)
    module.run(*arguments)  # compiles and loads, which must not happen while capturing
    stream.synchronize()
    call = flyc.compile(module.run, *arguments) if compiled else module.run
    call(*arguments)
    stream.synchronize()
    np.testing.assert_array_equal(y, (x + 1) * 4)
    y[:] = -1
    graph = _capture(stream, lambda: call(*arguments))
    stream.synchronize()
    assert (y == -1).all()  # recorded, not run
    for offset in (0, 10):
        x[:] = np.arange(64) + offset
        assert _call("hipGraphLaunch", graph, ctypes.c_void_p(stream.ptr)) == 0
        stream.synchronize()
        np.testing.assert_array_equal(y, (x + 1) * 4)
    assert _call("hipGraphExecDestroy", graph) == 0
