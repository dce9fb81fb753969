"""The functions being traced on this thread, and the options that hold inside them.

A thread-local stack of frames holds the traced function (the boundary for locations) and options such as the ambient
fast-math flags.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from flydsl.utils.frames import is_framework_file

__all__ = [
    "STATE", "boundary_code", "kernel_scope", "made_of_unknown", "note_unknown", "trace_table", "tracing_context",
    "tracing_option", "user_frame", "user_frames",
]

_MISSING = object()


class _State(threading.local):
    def __init__(self) -> None:
        self.frames: list[tuple[CodeType | None, dict[str, Any]]] = []
        self.in_builder = False
        self.untraced: dict[str, Any] = {}  # tables of builders that run outside of a trace
        self.unknown: tuple[CodeType, int] | None = None  # where a run-time value was made text last


STATE = _State()


def _code_of(func: Any) -> CodeType | None:
    while func is not None and not hasattr(func, "__code__"):
        func = getattr(func, "func", None) or getattr(func, "__wrapped__", None) or getattr(func, "_func", None)
    return getattr(func, "__code__", None)


@contextmanager
def tracing_context(func: Any = None, **options: Any) -> Iterator[None]:
    """Push a tracing frame for this thread.

    `func` marks the outermost user frame for locations (default: that of the enclosing frame).
    `options` are ambient settings read by `tracing_option`; an explicit ``None`` masks an outer value.
    """
    boundary = _code_of(func)
    if boundary is None and STATE.frames:
        boundary = STATE.frames[-1][0]
    STATE.frames.append((boundary, options))
    # A builder may trace a nested function: its ops get their own locations again.
    outer, STATE.in_builder = STATE.in_builder, False
    try:
        yield
    finally:
        STATE.in_builder = outer
        STATE.frames.pop()


def tracing_option(key: str, default: Any = None) -> Any:
    """The innermost setting of `key`; `default` when no frame sets it."""
    for _, options in reversed(STATE.frames):
        value = options.get(key, _MISSING)
        if value is not _MISSING:
            return value
    return default


def kernel_scope() -> dict[str, Any] | None:
    """Options of the kernel body being traced: the innermost frame that sets ``known_block_size``.

    A `SharedAllocator` puts itself here under ``shared_allocator``; ``buffer_arguments`` has the numbers of the
    arguments that are addressed whole through a buffer resource, ``stored_arguments`` those of the arguments that the
    kernel stores to, ``word_arguments`` those of which it copies whole words through a buffer resource.
    ``on_element_store`` is called with the tensor and the coordinate before each store of an element,
    ``on_copy`` with a tensor before all of it is stored to, and the predicate and the atom of the copy or None.
    """
    for _, options in reversed(STATE.frames):
        if "known_block_size" in options:
            return options
    return None


def trace_table(name: str) -> dict[Any, Any]:
    """A dictionary that lives as long as the trace (the outermost frame) of this thread."""
    options = STATE.frames[0][1] if STATE.frames else STATE.untraced
    return options.setdefault(name, {})


def boundary_code() -> CodeType | None:
    """Code of the traced function that bounds locations."""
    return STATE.frames[-1][0] if STATE.frames else None


def note_unknown() -> None:
    """Remember that the user's current line makes text of a value that has none while tracing."""
    frame = user_frame(sys._getframe(1))
    STATE.unknown = None if frame is None else (frame.f_code, frame.f_lineno)


def made_of_unknown() -> bool:
    """Whether text that the user's current statement passes was made there of a value that has none while tracing."""
    frame = user_frame(sys._getframe(1))
    if frame is None or STATE.unknown is None or STATE.unknown[0] is not frame.f_code:
        return False
    first = last = frame.f_lineno
    if hasattr(frame.f_code, "co_positions"):
        first, last, *_ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return bool(first and last and first <= STATE.unknown[1] <= last)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost user frame, from `frame` outwards."""
    while frame is not None and is_framework_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_frames() -> list[FrameType]:
    """User frames of the current call, innermost first, up to the boundary function."""
    boundary = boundary_code()
    frames: list[FrameType] = []
    frame = user_frame(sys._getframe(1))
    while frame is not None:
        frames.append(frame)
        frame = None if boundary is None or frame.f_code is boundary else user_frame(frame.f_back)
    return frames
