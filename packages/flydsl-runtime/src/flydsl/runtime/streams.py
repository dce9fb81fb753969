"""Streams and events."""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["Event", "Stream", "destroy"]


class Stream:
    """A queue of launches and copies on the current device.

    Owns the HIP stream it creates; ``Stream(handle)`` wraps an existing one (0 is the default
    stream) without owning it. Launchers take a Stream, a handle, ``None`` or a framework's stream.

    Args:
        handle: of an existing stream.
        ordered: work of a new stream and of the default one wait for each other; by default they do not.

    Raises:
        ValueError: `ordered` is said of an existing stream.
    """

    def __init__(self, handle: int | None = None, *, ordered: bool = False) -> None:
        if ordered and handle is not None:
            raise ValueError("Stream: ordered is for a new stream; an existing one is as it was made")
        self._owned = handle is None
        self._handle = _native.stream_create(ordered) if handle is None else handle

    @property
    def ptr(self) -> int:
        """The HIP handle."""
        return self._handle

    @property
    def cuda_stream(self) -> int:
        """The HIP handle, by the name that frameworks give it; so a jit call takes this stream like a framework's."""
        return self._handle

    def synchronize(self) -> None:
        """Wait for all work queued so far. Raises HipError if some of it failed."""
        _native.stream_synchronize(self._handle)

    def query(self) -> bool:
        """True if all work queued so far is done."""
        return _native.stream_query(self._handle)

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream wait for ``event``."""
        _native.stream_wait_event(self._handle, event.ptr)

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event`` (default: a new one) behind the work queued so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            destroy(_native.stream_destroy, self._handle)

    def __repr__(self) -> str:
        return f"Stream({self._handle:#x})"


class Event:
    """A point in a stream's work; two of them give the time between."""

    def __init__(self, timing: bool = True) -> None:
        self._handle = _native.event_create(timing)

    @property
    def ptr(self) -> int:
        """The HIP handle."""
        return self._handle

    def record(self, stream: Stream | int | None = None) -> None:
        """Mark the end of the work queued so far in ``stream`` (default: the default stream)."""
        handle = stream.ptr if isinstance(stream, Stream) else stream or 0
        _native.event_record(self._handle, handle)

    def synchronize(self) -> None:
        """Wait until the recorded point is reached."""
        _native.event_synchronize(self._handle)

    def query(self) -> bool:
        """True if the recorded point is reached."""
        return _native.event_query(self._handle)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``. Raises HipError unless both have happened."""
        return _native.event_elapsed_time(self._handle, end._handle)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            destroy(_native.event_destroy, handle)

    def __repr__(self) -> str:
        return f"Event({self._handle:#x})"


def destroy(function: Any, handle: int) -> None:
    """Give a handle back, from a finaliser."""
    try:
        function(handle)
    except RuntimeError:
        # A finaliser cannot report; a handle that HIP no longer knows needs no destruction.
        pass
