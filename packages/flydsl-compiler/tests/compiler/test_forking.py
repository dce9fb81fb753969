"""Forks while another thread compiles: the child has a copy of every lock, and none of the threads that hold them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from flydsl.ir import _forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")

SOURCE = """
    import threading
    import time
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    inside = threading.Event()

    @flyc.kernel
    def fill(X: fx.Tensor, c: fx.Constexpr[float], seconds: fx.Constexpr[float]):
        inside.set()
        time.sleep(seconds)
        X[fx.thread_idx.x] = fx.Float32(c)

    @flyc.jit
    def run(X: fx.Tensor, c: fx.Constexpr[float], seconds: fx.Constexpr[float]):
        fill(X, c, seconds).launch(grid=1, block=64)
"""


def in_child(body: Callable[[], None]) -> str:
    """What ``body`` raises in a forked child, as text; a child that does not end is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            body()
            said = "done"
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read() if status == 0 else f"killed by signal {os.WTERMSIG(status)}"


@pytest.fixture
def compiling(load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of which another thread compiles a function for 0.3 seconds."""
    module, threads = load(SOURCE), []

    def start(seconds: float) -> Any:
        threads.append(threading.Thread(target=module.run, args=(np.zeros(64, np.float32), 1.0, seconds)))
        threads[0].start()
        assert module.inside.wait(20)
        return module

    yield start
    for thread in threads:
        thread.join()


def test_the_child_can_compile(compiling: Any) -> None:
    module = compiling(0.2)
    start = time.monotonic()

    def body() -> None:
        for c in (1.0, 2.0):
            x = np.zeros(64, np.float32)
            module.run(x, c, 0.0)
            assert (x == c).all()

    assert in_child(body) == "done"
    assert time.monotonic() - start >= 0.2, "the fork has not waited for the other thread"


def test_the_child_of_a_fork_that_did_not_wait(compiling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forking._gate, "seconds", 0.01)
    module = compiling(0.3)
    said = in_child(lambda: module.run(np.zeros(64, np.float32), 1.0, 0.0))
    assert "forked while a thread of its parent compiled" in said
    x = np.zeros(64, np.float32)
    module.run(x, 4.0, 0.0)  # the parent goes on
    assert (x == 4).all()


def test_a_thread_that_compiles_may_fork(load: Callable[[str], Any]) -> None:
    module = load(SOURCE)
    with _forking.compiling():
        assert in_child(lambda: module.run(np.zeros(64, np.float32), 1.0, 0.0)) == "done"
