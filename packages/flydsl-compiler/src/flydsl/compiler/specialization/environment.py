"""Environment variables of a call: those of the compiler, and those that traced code reads.

Traced code that reads an environment variable compiles to something that depends on it. The reads are
recorded while tracing, and the variables belong to the cache key of the function from then on.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from flydsl.runtime import requested_checks
from flydsl.utils import env

from ..backends import compile_backend_name
from .snapshot import is_library

__all__ = ["KEY_VARIABLES", "KeyEnvironment", "environment_guards", "key_environment", "recorded_reads"]

#: Settings that only code generation reads: a change of them reuses the traced and lowered module.
_CODE_GENERATION: tuple[tuple[env.EnvManager, str], ...] = ((env.compile, "opt_level"),)
#: Settings that the stages before read.
_FRONT: tuple[tuple[env.EnvManager, str], ...] = (
    (env.compile, "llvm_dir"), (env.compile, "extra_source_dirs"), (env.ktrace, "enable"), (env.ktrace, "blocks"),
    (env.ktrace, "buffer_bytes"),
)
#: Variables of the settings whose value belongs to every key.
KEY_VARIABLES = (
    env.compile.options["backend"].var, *(group.options[name].var for group, name in (*_CODE_GENERATION, *_FRONT)),
)
# Variables of LLVM, which are no settings: they belong to every key as they are.
_LLVM_VARIABLES = ("LLVM_GFX1250_ANY_XNACK_CODEGEN",)
# Variables that decide what a call does, and belong to the key by what they come to.
_CALL_VARIABLES = ("COMPILE_ONLY", "ARCH", "FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION", "FLYDSL_RUNTIME_KIND",
                   "FLYDSL_SIM_CHECK", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO")

#: Stands for code that looked at the whole environment.
ALL = "*"


class KeyEnvironment(NamedTuple):
    """Values of the variables that belong to a key, by the stage that reads them."""

    code_generation: tuple[Any, ...]
    front: tuple[Any, ...]


def key_environment(reads: frozenset[str] | set[str]) -> KeyEnvironment:
    """What belongs to the key of a function whose traced code has read ``reads``.

    Settings count by their value: two spellings of one are one key, and one that is overridden is another.
    """
    get = os.environ.get
    code_generation = tuple(getattr(group, name) for group, name in _CODE_GENERATION)
    values: list[Any] = [compile_backend_name(), *(_hashable(getattr(group, name)) for group, name in _FRONT)]
    values.append(env.debug.enable_debug_info)  # what it comes to, which depends on the device
    if env.extents_checked():
        values.append("extents")
    values.append(tuple(get(name, "") for name in _LLVM_VARIABLES))
    read = sorted(os.environ.items()) if ALL in reads else ((name, get(name)) for name in sorted(reads))
    return KeyEnvironment(code_generation, (*values, tuple(read)))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def environment_guards(reads: frozenset[str] | set[str]) -> list[tuple[Any, ...]]:
    """Guards of every variable that matters to a call."""
    environ = os.environ
    data = getattr(environ, "_data", None)
    guards: list[tuple[Any, ...]] = [
        ("item", vars(os), "environ", environ), ("item", vars(requested_checks), "active", requested_checks.active)
    ]
    if type(data) is not dict:
        # A replaced os.environ has no known storage: its variables are looked up one by one.
        return [*guards, ("attr", os, "__flydsl_no_environment__", None)]
    if ALL in reads:
        return [*guards, ("dict", data, dict(data))]
    for name in (*KEY_VARIABLES, *_LLVM_VARIABLES, *_CALL_VARIABLES, *sorted(reads)):
        key = environ.encodekey(name)  # type: ignore[attr-defined]
        guards.append(("item", data, key, data[key]) if key in data else ("item", data, key))
    return guards


class _Recorder(threading.local):
    def __init__(self) -> None:
        self.reads: list[set[str]] = []


_recorder = _Recorder()
_lock = threading.Lock()
_active = 0


class _RecordingEnviron(os._Environ):  # type: ignore[type-arg]
    """`os.environ` while something is traced: remembers what user code reads on this thread."""

    def __getitem__(self, key: Any) -> Any:
        if _recorder.reads and _read_by_user():
            _recorder.reads[-1].add(str(key))
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        if _recorder.reads and _read_by_user():
            _recorder.reads[-1].add(ALL)
        return super().__iter__()


def _read_by_user() -> bool:
    """Whether the innermost frame outside of `os` and the mapping helpers is user code."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name not in ("os", "_collections_abc", "collections.abc"):
            return not is_library(name)
        frame = frame.f_back
    return False


@contextlib.contextmanager
def recorded_reads() -> Iterator[set[str]]:
    """Collect the names of the environment variables that user code reads in the block, on this thread."""
    global _active
    found: set[str] = set()
    with _lock:
        _active += 1
        if _active == 1 and type(os.environ) is os._Environ:
            os.environ.__class__ = _RecordingEnviron
    _recorder.reads.append(found)
    try:
        yield found
    finally:
        _recorder.reads.pop()
        with _lock:
            _active -= 1
            if _active == 0 and type(os.environ) is _RecordingEnviron:
                os.environ.__class__ = os._Environ  # type: ignore[assignment]
