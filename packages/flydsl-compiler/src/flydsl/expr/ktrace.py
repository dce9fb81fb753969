"""In-kernel event tracing: marks and ranges on a per-wave timeline.

The device functions do nothing while tracing is off, so they can stay in kernels. Recording (`capture`) is not
implemented; the simulator's own timeline (``FLYDSL_SIM_TRACE``) shows the same kernels without marks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from .meta import dsl_loc_tracing
from .numeric import Boolean, Float, Int32, Integer

__all__ = [
    "Capture", "RangeToken", "capture", "collect", "inactive_token", "mark", "range", "range_pop", "range_push",
    "range_start", "range_stop", "summary", "tracing_enabled",
]  # fmt: skip


class RangeToken(Int32):
    """A running range; a DSL value that loops and branches may carry. 0 when tracing is off."""


def _not_recorded(what: str) -> NoReturn:
    raise NotImplementedError(f"fx.ktrace.{what}: recording of kernel events is not implemented")


def _check(name: Any, payload: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"an event name must be a non-empty str, got {name!r}")
    if payload is not None and not isinstance(payload, (bool, int, float, Boolean, Integer, Float)):
        raise TypeError(f"a payload is one integer, bool or float, got {type(payload).__name__}")
    if getattr(payload, "width", 0) > 64 or (isinstance(payload, int) and not -(2**63) <= payload < 2**64):
        raise ValueError("a payload has at most 64 bits")
    if tracing_enabled():
        _not_recorded("mark")


def tracing_enabled() -> bool:
    """Whether kernels compiled now would record events (``FLYDSL_KTRACE_ENABLE``)."""
    from flydsl.utils import env

    return bool(env.ktrace.enable)


@dsl_loc_tracing
def mark(name: str, payload: Any = None) -> None:
    """An event at this point."""
    _check(name, payload)


@dsl_loc_tracing
def range_push(name: str, payload: Any = None) -> None:
    """Open a nested range."""
    _check(name, payload)


@dsl_loc_tracing
def range_pop() -> None:
    """Close the innermost range."""


@contextlib.contextmanager
def range(name: str, payload: Any = None) -> Iterator[None]:  # noqa: A001 - the published name
    """A range around a block."""
    range_push(name, payload)
    yield
    range_pop()


@dsl_loc_tracing
def range_start(name: str, payload: Any = None) -> RangeToken:
    """Open a range that `range_stop` closes, not necessarily nested."""
    _check(name, payload)
    return RangeToken(0)


@dsl_loc_tracing
def range_stop(token: Any, payload: Any = None) -> None:
    """Close the range of `token`."""
    if not isinstance(token, Int32):
        raise TypeError(f"range_stop takes the token of range_start, got {type(token).__name__}")
    _check("range", payload)


@dsl_loc_tracing
def inactive_token(name: str) -> RangeToken:
    """A token that closes nothing."""
    _check(name, None)
    return RangeToken(0)


class Capture:
    """Events recorded by a `capture` block."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_recorded("Capture")


def capture(kernel: str = "kernel", *, blocks: Any = None, out_dir: Any = None) -> Capture:
    """Record the kernels compiled inside the block (not implemented)."""
    _not_recorded("capture")


def collect(kernel: str, out_dir: Any = None) -> Any:
    """Write the recorded events of a kernel (not implemented)."""
    _not_recorded("collect")


def summary() -> Any:
    """Totals of the recorded events (not implemented)."""
    _not_recorded("summary")
