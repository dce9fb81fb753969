"""Source locations: `dsl_loc_tracing` decorates op builders.

The outermost decorated call captures the user's source location once, and everything built inside carries it.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Any, TypeVar

from flydsl._mlir import ir

from .ambient import STATE, boundary_code, kernel_scope, trace_table, tracing_option, user_frame, user_frames
from .lazy import diagnostics

__all__ = ["capture_user_location", "dsl_loc_tracing", "needs_trace", "note_buffer_argument"]

F = TypeVar("F", bound=Callable[..., Any])
_DEFAULT_LOC_DEPTH = 5
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


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


class _Place:
    """A place in the user's code together with the calls that led there; `inner` has those that it leads to."""

    __slots__ = ("code", "inner", "location")

    def __init__(self, code: CodeType | None) -> None:
        self.code = code  # kept, so that its identity stays its own
        self.inner: dict[tuple[int, int], _Place] = {}
        self.location: ir.Location | None = None

    def at(self, frame: FrameType) -> _Place:
        # Code objects compare by their contents, which takes longer than the rest: they are told apart by identity.
        key = id(frame.f_code), frame.f_lasti
        place = self.inner.get(key)
        if place is None:
            place = self.inner[key] = _Place(frame.f_code)
        return place


class _Calls:
    """The places that a traced function came to. What is unrolled comes by the same calls again."""

    def __init__(self, boundary: CodeType | None, depth: int) -> None:
        self.boundary, self.depth = boundary, depth
        self.root = _Place(None)
        self.around: dict[FrameType, _Place] = {}  # of active frames: where they were called, outermost first

    def location(self, frame: FrameType) -> ir.Location:
        place = self._called_from(frame).at(frame)
        if place.location is None:
            place.location = _callsite(user_frames(), self.depth)
        return place.location

    def _called_from(self, frame: FrameType) -> _Place:
        """The place of a frame's caller. It stays where it is until the frame ends, but for generators."""
        known = self.around.get(frame)
        if known is not None and not frame.f_code.co_flags & _RESUMED:
            return known
        outer = None if frame.f_code is self.boundary or self.boundary is None else user_frame(frame.f_back)
        place = self.root if outer is None else self._called_from(outer).at(outer)
        while self.around and next(reversed(self.around)) is not outer:  # what has ended
            self.around.popitem()
        self.around[frame] = place
        return place


def capture_user_location() -> ir.Location:
    """MLIR location of the user's code: the innermost user frame, inside call-site locations up to the boundary.

    At most ``max_loc_depth`` innermost frames are kept; the boundary frame is always the outermost one.
    """
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return ir.Location.unknown()
    depth, boundary = max(1, _max_depth()), boundary_code()
    if not STATE.frames:
        return _callsite(user_frames(), depth)
    known = trace_table("locations")
    key = ir.Context.current, id(boundary), depth
    calls = known.get(key)
    if calls is None:
        calls = known[key] = _Calls(boundary, depth)
    return calls.location(frame)


def _callsite(frames: list[FrameType], depth: int) -> ir.Location:
    if len(frames) > depth:
        frames = frames[:depth] + ([frames[-1]] if frames[-1] is not frames[depth - 1] else [])
    locations = [_file_location(frame) for frame in frames]
    return locations[0] if len(locations) == 1 else ir.Location.callsite(locations[0], locations[1:])


def _asked_for(func: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """``logical_divide of (64):(1) by (3,5):(1,7)``: what an operation of the layout algebra was given."""
    name = getattr(func, "__name__", "")
    if not name.endswith(("_divide", "_product", "composition", "complement", "coalesce", "_inverse", "tile_to_shape",
                          "recast_layout")):
        return ""
    # Of a recast the widths follow, which are no operands of the algebra.
    given = [_operand_text(a) for a in args[:1 if name == "recast_layout" else 2]]
    return f"{name} of {' by '.join(given)}" if given and all(given) else ""


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


@contextmanager
def _outside_of_traces() -> Iterator[None]:
    """What static values give works anywhere; what needs IR says where there is some."""
    try:
        yield
    except RuntimeError as error:
        if not re.search("requires a (Context|Location)", str(error)):
            raise
        raise RuntimeError(
            "layouts, tensors, vectors, types, atoms and what the device computes exist while a function is traced: "
            "write this in one that is decorated with @flyc.kernel or @flyc.jit (flydsl.layout has the layouts of "
            "the host)"
        ) from None


def needs_trace(func: F) -> F:
    """Decorator of what makes types: there are none outside of a trace."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if ir.Context.current is not None:
            return func(*args, **kwargs)
        with _outside_of_traces():
            return func(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


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
        if STATE.in_builder and loc is None:
            return func(*args, **kwargs)
        if ir.Context.current is None:
            with _outside_of_traces():
                return func(*args, **kwargs)
        outer, STATE.in_builder = STATE.in_builder, True
        try:
            with loc if loc is not None else capture_user_location():
                return func(*args, **kwargs)
        except ir.MLIRError as error:
            raise diagnostics.value_error(error, _asked_for(func, args)) from None
        finally:
            STATE.in_builder = outer

    return wrapper  # type: ignore[return-value]
