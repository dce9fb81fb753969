"""Python state that changes while the body of a run-time construct is traced.

A body is traced once, whatever the device does later. A captured variable or container that the body changes
in Python would keep the new value on every path, so such a change is an error that names the variable.
Containers may take SSA values (caches of views do); using one of those outside the construct is found by the
verifier, which :mod:`.diagnostics` reports as such.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

from .diagnostics import DSLCompileError, fail, is_framework_file

_SCALARS = (bool, int, float, str, type(None))
_GENERATED = ("__ret_names", "__iv")


def _scalar(value: Any) -> Any:
    """A comparable mark of a plain value; None marks everything else."""
    if type(value) in _SCALARS:
        return (type(value), value)
    inner = getattr(value, "value", None) if type(value).__module__ == "flydsl.expr.numeric" else None
    return (type(value), inner) if type(inner) in (bool, int, float) else None


def _content(value: Any) -> Any:
    """The plain values in a container, by place; None for an object that is no container."""
    if type(value) is list:
        return {i: mark for i, v in enumerate(value) if (mark := _scalar(v)) is not None}
    if type(value) is dict:
        return {k: mark for k, v in value.items() if (mark := _scalar(v)) is not None}
    if type(value) is set:
        return {v: True for v in value if _scalar(v) is not None}
    if isinstance(value, SimpleNamespace):
        return {k: mark for k, v in vars(value).items() if (mark := _scalar(v)) is not None}
    return None


class _Snapshot:
    """Names of the user's running frames: what they are bound to, and what plain values their containers hold."""

    def __init__(self, frame: FrameType | None) -> None:
        self.entries: list[tuple[FrameType, dict[str, tuple[Any, Any]]]] = []
        while frame is not None:
            if not is_framework_file(frame.f_code.co_filename) and frame.f_code.co_name != "<module>":
                names = {n: (v, _content(v)) for n, v in frame.f_locals.items() if n not in _GENERATED}
                self.entries.append((frame, names))
            if frame.f_code.co_name == "trace" and frame.f_globals.get("__name__") == "flydsl.compiler.trace":
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
                if content is not None and _content(value) != content:
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
             DSLCompileError)  # fmt: skip
