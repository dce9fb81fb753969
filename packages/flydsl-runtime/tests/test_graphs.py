"""Graphs: copies and host functions recorded on a stream and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_simulator import SIMULATOR, pytestmark  # noqa: F401 - where this build has it

import flydsl.runtime as rt
from flydsl.runtime import _native


@pytest.fixture(scope="module", autouse=True)
def simulator(fake_library: Path) -> Iterator[None]:
    """The library in use is the simulator."""
    if SIMULATOR is not None:
        _native.load_library(str(SIMULATOR / "libamdhip64.so.7"), "sim", "gfx942", True)
    yield
    _native.load_library(str(fake_library), "", "gfx942", False)


def test_recorded_and_replayed() -> None:
    """Nothing runs while it is recorded; a replay runs all of it in order, of what is in memory then."""
    source, middle, target = (np.zeros(4, np.int32) for _ in range(3))

    def double() -> None:
        middle[:] *= 2

    with rt.Graph() as graph:
        rt.memcpy(middle, source, stream=graph.stream)
        graph.call(double)
        rt.memcpy(target, middle, stream=graph.stream)
    source[:] = 1
    graph.synchronize()
    assert not middle.any() and not target.any()
    for value in (3, 8):
        source[:] = value
        graph.launch()
        graph.synchronize()
        assert (target == 2 * value).all()


def test_a_given_stream_is_free_again() -> None:
    stream, x = rt.Stream(), np.ones(4, np.int32)
    with rt.Graph(stream) as graph:
        rt.memset(x, 0, stream=stream)
    assert graph.stream is stream
    rt.memset(x, 255, stream=stream)
    stream.synchronize()
    assert (x == -1).all()
    graph.launch()
    graph.synchronize()
    assert not x.any()


def test_a_host_function_that_fails() -> None:
    called, wrong = [], [True]

    def first() -> None:
        called.append(1)
        if wrong[0]:
            raise KeyError("first")

    with rt.Graph() as graph:
        graph.call(first)
        graph.call(lambda: called.append(2))
    graph.launch()
    with pytest.raises(KeyError, match="first"):
        graph.synchronize()
    assert called == [1]
    graph.synchronize()  # it was told
    graph.launch()
    graph.stream.synchronize()
    wrong[0] = False
    with pytest.raises(KeyError, match="first"):  # not lost with the next replay
        graph.launch()
    graph.launch()
    graph.synchronize()
    assert called == [1, 1, 1, 2]


def test_what_is_not_recorded() -> None:
    graph = rt.Graph()
    with pytest.raises(RuntimeError, match="the graph was not recorded"):
        graph.launch()
    with pytest.raises(ZeroDivisionError), graph:  # what went wrong first
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="the graph was not recorded"):
        graph.launch()
    with graph:  # the stream is free again
        pass
    graph.launch()
    graph.synchronize()
    with pytest.raises(RuntimeError, match="the graph was recorded already"), graph:
        pass


def test_what_cannot_be_captured() -> None:
    graph = rt.Graph()
    with pytest.raises(rt.HipError), graph:
        graph.stream.synchronize()
    with pytest.raises(rt.HipError, match="the null stream cannot be captured"), rt.Graph(rt.Stream(0)):
        pass


def test_work_of_the_default_stream_is_not_left_out() -> None:
    """A launch that forgot the graph's stream would be run once, now, and never by a replay."""
    x = np.ones(4, np.int32)
    with pytest.raises(rt.HipError, match="work on the null stream"), rt.Graph() as graph:
        rt.memset(x, 255, stream=rt.Stream(0))
    assert (x == 1).all()
    with pytest.raises(RuntimeError, match="the graph was not recorded"):
        graph.launch()
    rt.memset(x, 0, stream=rt.Stream(0))  # it is free again
    assert not x.any()


def test_a_library_without_graphs(fake_library: Path) -> None:
    _native.load_library(str(fake_library), "", "gfx942", False)
    with pytest.raises(rt.HipError, match="has no hipStreamBeginCapture"), rt.Graph(rt.Stream(5)):
        pass
