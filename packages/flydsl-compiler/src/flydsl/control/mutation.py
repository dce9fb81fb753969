"""Python state that changes while the body of a run-time construct is traced.

A body is traced once, whatever the device does later. A captured variable or container that the body changes
in Python would keep the new value on every path, so such a change is an error that names the variable.
Containers may take SSA values (caches of views do); using one of those outside the construct is found by the
verifier, which :mod:`.diagnostics` reports as such.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

from flydsl.tracing.diagnostics import DSLCompileError, fail, is_framework_file

_SCALARS = (bool, int, float, str, type(None))
_GENERATED = ("__ret_names", "__iv")


def _scalar(value: Any) -> Any:
    """A comparable mark of a plain value; None marks everything else."""
    if type(value) in _SCALARS:
        return (type(value), value)
    inner = getattr(value, "value", None) if type(value).__module__ == "flydsl.expr.numeric" else None
    return (type(value), inner) if type(inner) in (bool, int, float) else None


def _copy(value: Any) -> Any:
    """A shallow copy of a container; None for an object that is no container."""
    kind = type(value)
    if kind is list or kind is dict or kind is set:
        return value.copy()
    return vars(value).copy() if isinstance(value, SimpleNamespace) else None


def _marks(content: Any) -> Any:
    """The plain values in a container, by place."""
    if isinstance(content, set):
        return {v for v in content if _scalar(v) is not None}
    items = enumerate(content) if isinstance(content, list) else content.items()
    return {k: mark for k, v in items if (mark := _scalar(v)) is not None}


def _changed(value: Any, before: Any) -> bool:
    """Whether the plain values of a container differ from those in the copy."""
    now = vars(value) if isinstance(value, SimpleNamespace) else value
    if isinstance(now, set):
        return len(now) != len(before) or _marks(now) != _marks(before)
    if len(now) == len(before):
        pairs = (now, before) if isinstance(now, list) else (now.values(), before.values())
        same_keys = isinstance(now, list) or list(now) == list(before)
        if same_keys and all(map(operator.is_, *pairs)):
            return False
    return _marks(now) != _marks(before)


class _Snapshot:
    """Names of the user's running frames: what they are bound to, and what plain values their containers hold."""

    def __init__(self, frame: FrameType | None) -> None:
        self.entries: list[tuple[FrameType, dict[str, tuple[Any, Any]]]] = []
        while frame is not None:
            if not is_framework_file(frame.f_code.co_filename) and frame.f_code.co_name != "<module>":
                names = {n: (v, _copy(v)) for n, v in frame.f_locals.items() if n not in _GENERATED}
                self.entries.append((frame, names))
            if frame.f_code.co_name == "trace" and frame.f_globals.get("__name__") == "flydsl.compiler.trace.module":
                break
            frame = frame.f_back

    def changed(self) -> tuple[str, str] | None:
        """The first name that changed and how, or None."""
        for frame, names in self.entries:
            now = frame.f_locals
            for name, (value, content) in names.items():
                if name not in now:
                    continue
                if now[name] is not value:
                    return name, "gets a new value"
                if content is not None and _changed(value, content):
                    return name, f"({type(value).__name__}) is changed"
        return None


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Check that tracing the block changes no captured variable of the user's functions."""
    before = _Snapshot(sys._getframe(2))
    yield
    found = before.changed()
    if found is not None:
        name, how = found
        fail(f"captured variable {name!r} {how} inside a branch or loop that runs on the device: the body is traced "
             "once, so the change would be kept on every path (and made once). Give the variable to the function and "
             "return the new value, or assign it in the branch or loop itself so that it is carried",
             DSLCompileError)
