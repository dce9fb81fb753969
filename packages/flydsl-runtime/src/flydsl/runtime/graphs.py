"""Graphs: launches recorded once and replayed as one."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from . import _native
from .streams import Stream, destroy

__all__ = ["Graph"]


class Graph:
    """What is queued in a stream within the ``with`` block: recorded, not run; then replayed by :meth:`launch`.

    The launches keep their arguments: a replay reads and writes the same memory. Code must have been loaded before
    (call the function once), and memory that a graph uses must outlive it.

        with rt.Graph() as graph:
            scale(x, 3.0, graph.stream)
        graph.launch()
        graph.synchronize()

    Args:
        stream: whose work is recorded, and where it is replayed. Not the default stream, which cannot be captured. By
            default a new one that is ordered with the default stream: what is queued there while this is recorded
            would be left out, and is an error instead.
    """

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = Stream(ordered=True) if stream is None else stream
        self._executable = 0
        self._functions: list[Callable[[], None]] = []  # HIP has only their addresses
        self._failure: BaseException | None = None

    def __enter__(self) -> Graph:
        """Begin to record. Raises HipError if the stream cannot, or is being captured already."""
        if self._executable:
            raise RuntimeError("the graph was recorded already: make another one")
        _native.stream_begin_capture(self.stream.ptr)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """End it. Raises HipError if something was queued that cannot be recorded."""
        try:
            self._executable = _native.stream_end_capture(self.stream.ptr, error is None)
        except RuntimeError:
            if error is None:  # else what went wrong first is raised
                raise

    def call(self, function: Callable[[], object]) -> None:
        """Record a call of a host function, between what is recorded before and after it.

        It must not use the device. What it raises, :meth:`synchronize` raises, or the next :meth:`launch`; those that
        follow are not called until then.
        """

        def run() -> None:
            if self._failure is None:
                try:
                    function()
                except BaseException as failure:  # any: it is not this thread's to handle
                    self._failure = failure

        self._functions.append(run)
        _native.stream_launch_host_function(self.stream.ptr, run)

    def launch(self) -> None:
        """Queue a replay. Raises RuntimeError if nothing was recorded, or what a host function raised that nobody was
        told of."""
        if not self._executable:
            raise RuntimeError("the graph was not recorded: queue work in its stream within `with graph:`")
        self._raise_failure()
        _native.graph_launch(self._executable, self.stream.ptr)

    def synchronize(self) -> None:
        """Wait for all replays. Raises what one of their host functions raised, else as the stream's does."""
        try:
            self.stream.synchronize()
        finally:
            self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __del__(self) -> None:
        if getattr(self, "_executable", 0):
            destroy(_native.graph_destroy, self._executable)

    def __repr__(self) -> str:
        return f"Graph({self._executable:#x})"
