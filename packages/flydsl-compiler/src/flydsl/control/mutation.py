"""Python state that changes while the body of a run-time construct is traced.

A body is traced once, whatever the device does later. A variable, container, iterator or object of the user's
functions (or a global one that they name) that the body changes in Python would keep the new value on every path, so
such a change is an error that names the variable. Dictionaries and attributes may take SSA values (caches of views
do); using one of those outside the construct is found by the verifier, which :mod:`.diagnostics` reports as such.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, GeneratorType, SimpleNamespace
from typing import Any

from flydsl.tracing.diagnostics import DSLCompileError, fail, is_framework_file

_SCALARS = (bool, int, float, str, type(None))
_CONTAINERS = (list, deque, dict, set, SimpleNamespace)
#: What may have containers in it.
_NESTED: Any = frozenset([list, tuple, deque, dict, OrderedDict, defaultdict, SimpleNamespace])
_GENERATED = ("__ret_names", "__iv")


def _scalar(value: Any) -> Any:
    """A comparable mark of a plain value; None marks everything else."""
    if type(value) in _SCALARS:
        return (type(value), value)
    inner = getattr(value, "value", None) if type(value).__module__ == "flydsl.expr.numeric" else None
    return (type(value), inner) if type(inner) in (bool, int, float) else None


@functools.lru_cache(maxsize=256)
def _has_attributes(kind: Any) -> bool:
    """Whether a class is the user's and its instances have attributes."""
    package = kind.__module__.partition(".")[0]
    return package not in ("builtins", "flydsl", "numpy", "torch") and kind.__dictoffset__ != 0


def _is_iterator(kind: Any) -> bool:
    """Whether the instances of a class are generators or iterators of Python's own."""
    return hasattr(kind, "__next__") and kind.__module__ in ("builtins", "itertools")


def _position(iterator: Any) -> Any:
    """A comparable mark of how far an iterator is; None if it does not tell."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        if frame is None or iterator.gi_running:
            return frame is None
        variables = frame.f_locals.values()
        return frame.f_lasti, [id(v) for v in variables], [_position(v) for v in variables if _is_iterator(type(v))]
    if hasattr(iterator, "__length_hint__"):
        return operator.length_hint(iterator)
    if type(iterator) is itertools.count:
        return repr(iterator)
    inner = iterator.__reduce__()[1] if isinstance(iterator, (enumerate, zip, map, filter)) else ()
    return [_position(v) if _is_iterator(type(v)) else v for v in inner if _is_iterator(type(v)) or type(v) is int]


@functools.lru_cache(maxsize=256)
def _copier(kind: Any) -> Callable[[Any], Any] | None:
    """What copies the content of the instances of a class, one level of it; None for classes without any."""
    if issubclass(kind, (list, deque)):
        return list
    if issubclass(kind, (dict, set)):
        return dict if issubclass(kind, dict) else set
    if _is_iterator(kind):
        return _position
    return (lambda value: vars(value).copy()) if kind is SimpleNamespace or _has_attributes(kind) else None


def _copy(value: Any) -> Any:
    """A shallow copy of a container, of the attributes of an object, or the place of an iterator; None for the rest."""
    kind: Any = type(value)
    copier = _copier(kind)
    return None if copier is None else copier(value)


def _inner(value: Any, seen: set[int]) -> Iterator[Any]:
    """The containers in a container or tuple, at any depth."""
    if type(value) not in _NESTED or id(value) in seen:
        return
    seen.add(id(value))
    content = vars(value) if type(value) is SimpleNamespace else value
    for item in content.values() if isinstance(content, dict) else content:
        if isinstance(item, _CONTAINERS):
            yield item
        yield from _inner(item, seen)


def _marks(content: Any) -> Any:
    """The plain values in a container, by place."""
    if isinstance(content, set):
        return {v for v in content if _scalar(v) is not None}
    items = content.items() if isinstance(content, dict) else enumerate(content)
    return {k: mark for k, v in items if (mark := _scalar(v)) is not None}


def _changed(value: Any, before: Any, is_log: bool) -> bool:
    """Whether the plain values of a container or object differ from those in the copy; a log may have got more."""
    if _is_iterator(type(value)):
        return not is_log and _position(value) != before
    if not isinstance(value, _CONTAINERS):
        if is_log:
            return False  # it may count what is traced
        # A new attribute, or one that was None, is kept for later (a cache); the other ones have another value.
        now, old = _marks(vars(value)), _marks(before)
        return any(key in now and now[key] != mark for key, mark in old.items() if mark[1] is not None)
    content = vars(value) if isinstance(value, SimpleNamespace) else value
    if not isinstance(content, set) and len(content) == len(before) and all(map(operator.is_, content, before)):
        if not isinstance(content, dict) or all(map(operator.is_, content.values(), before.values())):
            return False  # as nearly always
    if isinstance(content, deque) and not is_log:
        return True  # unlike a list, it is never carried
    now, old = _marks(content), _marks(before)
    if isinstance(content, set):
        return not old <= now if is_log else len(content) != len(before) or now != old
    if is_log:
        return any(now.get(key) != mark for key, mark in old.items())
    return now != old or isinstance(content, (list, deque)) and len(content) != len(before)


@functools.lru_cache(maxsize=256)
def _global_names(code: CodeType) -> tuple[str, ...]:
    """The names that a function and the functions in it may look up as globals."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _global_names(constant)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


class _Snapshot:
    """What the names of the running traced functions are bound to, and what plain values their containers hold.

    Containers from outside of the trace (globals, variables of a function around the kernel) may be logs of what is
    traced: only what they held already must stay. Objects from there may count. Of containers in containers, those of
    the traced functions are looked at.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self.scopes: list[tuple[FrameType | None, list[tuple[str, Any, Any]]]] = []  # no frame: globals
        own: set[int] = set()  # of the traced functions themselves
        outside: set[int] = set()
        inner: list[tuple[str, Any, Any]] = []
        traced = False
        while frame is not None and not traced:
            code = frame.f_code
            traced = code.co_name == "trace" and frame.f_globals.get("__name__") == "flydsl.compiler.trace.module"
            if not is_framework_file(code.co_filename) and code.co_name != "<module>":
                values = {name: value for name, value in frame.f_locals.items() if name not in _GENERATED}
                mine = {name: value for name, value in values.items() if name not in code.co_freevars}
                own.update(map(id, mine.values()))
                outside.update(id(value) for name, value in values.items() if name not in mine)
                seen: set[int] = set()
                inner += [(name, v, _copy(v)) for name, value in mine.items() for v in _inner(value, seen)]
                self.scopes.append((frame, [(name, value, _copy(value)) for name, value in values.items()]))
                found = ((name, frame.f_globals.get(name)) for name in _global_names(code))
                self.scopes.append((None, [(n, v, content) for n, v in found if (content := _copy(v)) is not None]))
            frame = frame.f_back
        outside.update(id(value) for _, names in self.scopes[1::2] for _, value, _ in names)
        self.scopes.append((None, [entry for entry in inner if id(entry[1]) not in outside]))
        self.own = own.union(id(value) for _, value, _ in inner)
        if not traced:  # somebody builds operations by hand: there are no traced functions
            self.scopes = []

    def changed(self) -> tuple[str, str] | None:
        """The first name that changed and how, or None."""
        for frame, names in self.scopes:
            now = frame.f_locals if frame is not None else {}
            for name, value, content in names:
                if now.get(name, value) is not value:
                    return name, "gets a new value"
                if name == "self" and not isinstance(value, dict):
                    continue  # what the methods of an object count while tracing has always been theirs
                if content is not None and _changed(value, content, id(value) not in self.own):
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
