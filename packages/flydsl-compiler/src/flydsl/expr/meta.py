"""Ambient tracing state and source locations.

A thread-local stack of frames holds the traced function (the boundary for locations) and options such
as the ambient fast-math flags. `dsl_loc_tracing` decorates op builders: the outermost decorated call
captures the user's source location once, and everything built inside carries it.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Any, TypeVar

from flydsl._mlir import ir
from flydsl.utils.frames import is_framework_file

from ._lazy import diagnostics

__all__ = ["capture_user_location", "dsl_loc_tracing", "dsl_wrap_result", "tracing_context", "tracing_option"]

F = TypeVar("F", bound=Callable[..., Any])
_MISSING = object()
_DEFAULT_LOC_DEPTH = 5


class _State(threading.local):
    def __init__(self) -> None:
        self.frames: list[tuple[CodeType | None, dict[str, Any]]] = []
        self.in_builder = False
        self.untraced: dict[str, Any] = {}  # tables of builders that run outside of a trace


_state = _State()


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
    if boundary is None and _state.frames:
        boundary = _state.frames[-1][0]
    _state.frames.append((boundary, options))
    # A builder may trace a nested function: its ops get their own locations again.
    outer, _state.in_builder = _state.in_builder, False
    try:
        yield
    finally:
        _state.in_builder = outer
        _state.frames.pop()


def tracing_option(key: str, default: Any = None) -> Any:
    """The innermost setting of `key`; `default` when no frame sets it."""
    for _, options in reversed(_state.frames):
        value = options.get(key, _MISSING)
        if value is not _MISSING:
            return value
    return default


def kernel_scope() -> dict[str, Any] | None:
    """Options of the kernel body being traced: the innermost frame that sets ``known_block_size``.

    A `SharedAllocator` puts itself here under ``shared_allocator``; ``buffer_arguments`` has the numbers of the
    arguments that are addressed whole through a buffer resource, ``stored_arguments`` those of the arguments that the
    kernel stores to.
    """
    for _, options in reversed(_state.frames):
        if "known_block_size" in options:
            return options
    return None


def trace_table(name: str) -> dict[Any, Any]:
    """A dictionary that lives as long as the trace (the outermost frame) of this thread."""
    options = _state.frames[0][1] if _state.frames else _state.untraced
    return options.setdefault(name, {})


def note_buffer_argument(tensor: Any) -> None:
    """Tell the launch of a kernel that a tensor argument must not be larger than a buffer offset can say."""
    scope, owner = kernel_scope(), tensor.owner if isinstance(tensor, ir.Value) else None
    if scope is not None and isinstance(owner, ir.Block) and owner.owner.operation.name == "gpu.func":
        scope.setdefault("buffer_arguments", set()).add(ir.BlockArgument(tensor).arg_number)


@functools.lru_cache(maxsize=16384)
def _position(code: CodeType, lasti: int) -> tuple[int, int]:
    if hasattr(code, "co_positions"):
        line, _, column, _ = next(islice(code.co_positions(), lasti // 2, None), (None, None, None, None))
        if line is not None:
            return line, (column or 0) + 1
    return code.co_firstlineno, 1


def _file_location(frame: FrameType) -> ir.Location:
    line, column = _position(frame.f_code, frame.f_lasti)
    return ir.Location.file(frame.f_code.co_filename, line if line > 0 else frame.f_lineno, column)


def _max_depth() -> int:
    value = tracing_option("max_loc_depth")
    return value if value is not None else _DEFAULT_LOC_DEPTH


def boundary_code() -> CodeType | None:
    """Code of the traced function that bounds locations."""
    return _state.frames[-1][0] if _state.frames else None


def user_frames() -> list[FrameType]:
    """User frames of the current call, innermost first, up to the boundary function."""
    boundary = _state.frames[-1][0] if _state.frames else None
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_framework_file(frame.f_code.co_filename):
            frames.append(frame)
            if frame.f_code is boundary:
                break
            if boundary is None:
                break
        frame = frame.f_back
    return frames


def capture_user_location() -> ir.Location:
    """MLIR location of the user's code: the innermost user frame, inside call-site locations up to the boundary.

    At most ``max_loc_depth`` innermost frames are kept; the boundary frame is always the outermost one.
    """
    frames = user_frames()
    if not frames:
        return ir.Location.unknown()
    depth = max(1, _max_depth())
    if len(frames) > depth:
        frames = frames[:depth] + ([frames[-1]] if frames[-1] is not frames[depth - 1] else [])
    locations = [_file_location(frame) for frame in frames]
    if len(locations) == 1:
        return locations[0]
    return ir.Location.callsite(locations[0], locations[1:])


def _asked_for(func: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """``logical_divide of (64):(1) by (3,5):(1,7)``: what an operation of the layout algebra was given."""
    name = getattr(func, "__name__", "")
    if not name.endswith(("_divide", "_product", "composition", "complement", "coalesce", "_inverse")):
        return ""
    given = [_operand_text(a) for a in args]
    return f"{name} of {' by '.join(given[:2])}" if all(given) else ""


def _operand_text(value: Any) -> str:
    """A layout-like operand in the notation of the algebra, "" for anything else."""
    if isinstance(value, (int, tuple)):
        entries = [_operand_text(v) if isinstance(v, (tuple, ir.Value)) else str(v) for v in value] \
            if isinstance(value, tuple) else []
        return f"({', '.join(entries)})" if isinstance(value, tuple) else str(value)
    if not isinstance(value, ir.Value):
        return ""
    text = str(value.type)
    found = re.fullmatch(r"!fly\.(?:layout|int_tuple|tile)<(.*)>", text)
    if found:
        return found.group(1)
    found = re.fullmatch(r"!fly\.memref<([^,]*), .*, ([^,]*(?:\(.*\))?[^,]*:.*)>", text)
    return f"a tensor {found.group(2)}" if found else text


def dsl_loc_tracing(func: F) -> F:
    """Decorator of op builders: capture the user's location once per outermost call and make it current."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # Releases before 0.2 passed these to every builder.
        loc = kwargs.pop("loc", None)
        ip = kwargs.pop("ip", None)
        if ip is not None:
            with ip:
                return wrapper(*args, **kwargs, loc=loc)
        if _state.in_builder and loc is None:
            return func(*args, **kwargs)
        if ir.Context.current is None:
            return func(*args, **kwargs)
        outer, _state.in_builder = _state.in_builder, True
        try:
            with loc if loc is not None else capture_user_location():
                return func(*args, **kwargs)
        except ir.MLIRError as error:
            raise diagnostics.value_error(error, _asked_for(func, args)) from None
        finally:
            _state.in_builder = outer

    return wrapper  # type: ignore[return-value]


def dsl_wrap_result(func: Any = None, target: type | None = None) -> Any:
    """Decorator: pass the function's result through `as_dsl_value` (to `target`, when given)."""
    if isinstance(func, type) and target is None:
        return functools.partial(dsl_wrap_result, target=func)
    if func is None:
        return functools.partial(dsl_wrap_result, target=target)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from .utils.convert import as_dsl_value

        result = func(*args, **kwargs)
        return None if result is None else as_dsl_value(result, target)

    return wrapper
