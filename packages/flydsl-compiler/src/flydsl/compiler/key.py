"""Identity of a traced function: its code and everything that the code reaches.

Reached means: globals that the bytecode loads (through modules too), closure cells, defaults, helpers and
classes found that way, recursively and wherever they live. FlyDSL itself and the standard library are
covered by the toolchain fingerprint and the version instead.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import fnmatch
import functools
import hashlib
import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flydsl.utils import env

from .artifact import FORMAT

__all__ = ["FunctionSnapshot", "digest_of", "stable_digest", "toolchain_fingerprint"]

_SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))
_OPAQUE_LIBRARIES = frozenset({"numpy", "torch", "jax", "pytest", "_pytest", "hypothesis"})


_ABSENT = object()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def digest_of(*parts: str) -> str:
    """32 hex digits over the parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _is_library(module: str | None) -> bool:
    """Whether code of this module is covered by versions and the toolchain fingerprint."""
    if not module:
        return False
    top = module.partition(".")[0]
    if top == "flydsl":
        return not module.startswith("flydsl.kernels")
    return top in sys.stdlib_module_names or top in _OPAQUE_LIBRARIES


def _code_text(code: types.CodeType) -> str:
    """A text that changes when the behaviour of the code could; line numbers do not enter."""
    constants = [
        _code_text(c) if isinstance(c, types.CodeType) else f"{type(c).__name__}:{c!r}" for c in code.co_consts
    ]
    return "|".join(
        [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars), *constants]
    )


def _global_reads(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Chains of loaded globals: ``("helpers", "scale")`` for ``helpers.scale(x)``."""
    chain: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if chain:
                yield tuple(chain)
            chain = [str(instruction.argval)]
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(instruction.argval))
        elif instruction.opname not in ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"):
            if chain:
                yield tuple(chain)
            chain = []
    if chain:
        yield tuple(chain)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_reads(constant)


@dataclasses.dataclass
class FunctionSnapshot:
    """A function before it was rewritten.

    Attributes:
        code: the original code object. source: its text, empty when it cannot be read.
        function: the live function, for its globals, cells and defaults.
    """

    code: types.CodeType
    source: str
    function: Callable[..., Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionSnapshot:
        """Snapshot of a function that is about to be rewritten."""
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):
            source = ""
        return cls(function.__code__, source, function)

    @functools.cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """Distinct chains of globals that the code loads."""
        return tuple(dict.fromkeys(_global_reads(self.code)))

    def watch(self) -> list[tuple[dict[str, Any], str, Any]]:
        """(namespace, name, value) of every global that the code reads: compared by identity on each call."""
        entries = []
        for chain in self.reads:
            names = self.function.__globals__  # type: ignore[attr-defined]
            for part in chain:
                value = names.get(part, _ABSENT)
                entries.append((names, part, value))
                if not isinstance(value, types.ModuleType) or _is_library(value.__name__):
                    break
                names = value.__dict__
        return entries

    def cells(self) -> list[tuple[types.CellType, Any]]:
        """Closure cells and their present values."""
        return [(cell, _content(cell)) for cell in self.function.__closure__ or ()]  # type: ignore[attr-defined]

    def scope(self) -> dict[str, Any]:
        """The reached objects by name, as they are now."""
        found: dict[str, Any] = {}
        names = self.function.__globals__  # type: ignore[attr-defined]
        for chain in self.reads:
            if chain[0] not in names:
                continue
            value, used = names[chain[0]], [chain[0]]
            for attribute in chain[1:]:
                if not isinstance(value, types.ModuleType) or _is_library(value.__name__):
                    break
                value = getattr(value, attribute, None)
                used.append(attribute)
            found[".".join(used)] = value
        cells = self.function.__closure__ or ()  # type: ignore[attr-defined]
        for name, cell in zip(self.code.co_freevars, cells, strict=False):
            try:
                found[f"<closure>.{name}"] = cell.cell_contents
            except ValueError:
                found[f"<closure>.{name}"] = None
        for i, default in enumerate(self.function.__defaults__ or ()):  # type: ignore[attr-defined]
            found[f"<default>.{i}"] = default
        return found


class _Walker:
    """Builds one text for an object graph; cycles become back references."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []
        self.snapshots: list[FunctionSnapshot] = []
        self.mutable = False

    def text(self, value: Any) -> str:
        if isinstance(value, _SCALARS) and type(value) in _SCALARS:
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, enum.Enum):
            return f"enum:{type(value).__module__}.{type(value).__qualname__}.{value.name}:{value.value!r}"
        if id(value) in self.seen:
            return f"ref:{self.seen[id(value)]}"
        self.seen[id(value)] = len(self.seen)
        self.keep.append(value)
        return self._compound(value)

    def _compound(self, value: Any) -> str:
        self.mutable = self.mutable or isinstance(value, (list, dict, set))
        if isinstance(value, (list, tuple)):
            return f"{type(value).__name__}[{','.join(self.text(v) for v in value)}]"
        if isinstance(value, (set, frozenset)):
            return f"set[{','.join(sorted(self.text(v) for v in value))}]"
        if isinstance(value, dict):
            return f"dict[{','.join(f'{self.text(k)}={self.text(v)}' for k, v in value.items())}]"
        if isinstance(value, types.ModuleType):
            return f"module:{value.__name__}"
        snapshot = getattr(value, "_original", None)
        if isinstance(snapshot, FunctionSnapshot):
            return self.function(
                snapshot, repr(getattr(value, "known_block_size", None)) + repr(getattr(value, "_name", None))
            )
        if isinstance(value, types.MethodType):
            return f"method:{self.text(value.__func__)}:{self.text(value.__self__)}"
        if isinstance(value, types.FunctionType):
            return self._plain_function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, functools.partial):
            return f"partial:{self.text(value.func)}:{self.text(value.args)}:{self.text(value.keywords)}"
        return self._object(value)

    def function(self, snapshot: FunctionSnapshot, extra: str = "") -> str:
        self.snapshots.append(snapshot)
        body = snapshot.source or _code_text(snapshot.code)
        scope = ",".join(f"{name}={self.text(value)}" for name, value in sorted(snapshot.scope().items()))
        return f"function:{extra}:{digest_of(body)}({scope})"

    def _plain_function(self, function: types.FunctionType) -> str:
        if _is_library(function.__module__):
            return f"library:{function.__module__}.{function.__qualname__}"
        code = function.__dict__.get("__fly_original__", function.__code__)
        return self.function(FunctionSnapshot(code, "", function))

    def _class(self, cls: type) -> str:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if _is_library(cls.__module__):
            return f"class:{name}"
        members = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__", "__doc__", "__module__")}
        texts = [
            f"{k}={self.text(getattr(v, '__func__', v))}"
            for k, v in sorted(members.items())
            if not k.startswith("__abc")
        ]
        return f"class:{name}({','.join(texts)})"

    def _object(self, value: Any) -> str:
        cls = type(value)
        name = f"{cls.__module__}.{cls.__qualname__}"
        signature = getattr(value, "__cache_signature__", None)
        if signature is not None and not _holds_ir(value):
            return f"dsl:{name}:{signature()!r}:{getattr(value, 'value', None)!r}"
        if hasattr(value, "__array_interface__") and hasattr(value, "tobytes"):
            return f"array:{value.dtype}:{value.shape}:{hashlib.sha256(value.tobytes()).hexdigest()}"
        if callable(value) and not hasattr(value, "__dict__"):
            return f"callable:{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', name)}"
        self.mutable = self.mutable or not _is_frozen(value)
        fields = _fields(value)
        if fields is None:
            # Nothing of the object can be compared, so nothing may be shared across processes.
            return f"opaque:{name}:{os.getpid()}:{id(value)}"
        return f"object:{name}({','.join(f'{k}={self.text(v)}' for k, v in sorted(fields.items()))})"


def _is_frozen(value: Any) -> bool:
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _holds_ir(value: Any) -> bool:
    module = sys.modules.get("flydsl._mlir.ir")
    return module is not None and isinstance(getattr(value, "value", None), module.Value)


def _fields(value: Any) -> dict[str, Any] | None:
    found: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    slots = [s for cls in type(value).__mro__ for s in _slots(cls)]
    found.update({s: getattr(value, s) for s in slots if hasattr(value, s)})
    return found if found or hasattr(value, "__dict__") or slots else None


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else slots
    return tuple(s for s in slots if s not in ("__dict__", "__weakref__"))


def stable_digest(value: Any) -> str:
    """Digest of a value by content."""
    return digest_of(_Walker().text(value))


class Identity:
    """Digest of a function and of everything it reaches, recomputed when any of it was rebound or may have changed."""

    def __init__(self, snapshot: FunctionSnapshot) -> None:
        self._snapshot = snapshot
        self._digest = ""
        self._watch: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._mutable = True

    def _rebound(self) -> bool:
        return any(names.get(name, _ABSENT) is not value for names, name, value in self._watch) or any(
            _content(cell) is not value for cell, value in self._cells
        )

    def digest(self) -> str:
        """The digest as of now."""
        if self._mutable or self._rebound():
            walker = _Walker()
            self._digest = digest_of(walker.function(self._snapshot))
            self._watch = [entry for s in walker.snapshots for entry in s.watch()]
            self._cells = [entry for s in walker.snapshots for entry in s.cells()]
            self._mutable = walker.mutable
        return self._digest


# ---- toolchain ---------------------------------------------------------------------------------------------------

_PYTHON_PARTS = ("compiler", "expr", "extension", "runtime", "utils", "ir")


def _walk(directory: str, keep: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    """Files below a directory with their status. `pathlib` would take longer than the rest of a cached start."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walk(entry.path, keep)
        elif keep(entry.name):
            yield entry.path, entry.stat()


def _toolchain_files(patterns: tuple[str, ...], extra: tuple[str, ...]) -> list[tuple[str, str, int, int]]:
    """(relative name, path, size, time) of the files that decide what a compile produces."""
    import flydsl

    found = []

    def add(base: str, directory: str, keep: Callable[[str], bool]) -> None:
        for path, status in _walk(directory, keep):
            found.append((os.path.relpath(path, base), path, status.st_size, status.st_mtime_ns))

    def is_python(name: str) -> bool:
        return name.endswith(".py")

    for root in flydsl.__path__:
        for part in _PYTHON_PARTS:
            add(root, os.path.join(root, part), is_python)
        for pattern in patterns:
            folder, name = os.path.split(pattern)
            add(root, os.path.join(root, folder), functools.partial(_matches, name))
    for directory in extra:
        add(directory, directory, is_python)
    return sorted(found)


def _matches(pattern: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


@functools.lru_cache(maxsize=4)
def _fingerprint(
    root: str | None, version: str, backend: str, patterns: tuple[str, ...], extra: tuple[str, ...]
) -> str:
    files = _toolchain_files(patterns, extra)
    stats = [(name, size, time) for name, _, size, time in files]
    # Hashing 100 MB of libraries takes longer than a whole cached start, so the content hash is remembered
    # for an unchanged set of sizes and times.
    stamp = digest_of(json.dumps(stats))
    memo = None if root is None else Path(root) / f"toolchain-{stamp[:16]}.json"
    content = _read_memo(memo, stamp)
    if content is None:
        sha = hashlib.sha256()
        for name, path, _, _ in files:
            sha.update(name.encode())
            with open(path, "rb") as handle:
                for block in iter(lambda: handle.read(1 << 20), b""):
                    sha.update(block)
        content = sha.hexdigest()
        _write_memo(memo, stamp, content)
    return f"flydsl:{version}:{FORMAT}:{backend}-{content}"


def _read_memo(memo: Path | None, stamp: str) -> str | None:
    if memo is None:
        return None
    try:
        data = json.loads(memo.read_text())
        return data["content"] if data["stamp"] == stamp and len(data["content"]) == 64 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_memo(memo: Path | None, stamp: str, content: str) -> None:
    if memo is None:
        return
    from flydsl.utils.file import atomic_write

    try:
        memo.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(memo) as handle:
            json.dump({"stamp": stamp, "content": content}, handle)
    except OSError:
        return


def toolchain_fingerprint(backend: Any) -> str:
    """Identity of everything that turns a function into an artifact: versions, sources, libraries, backend."""
    from . import __version__
    from .cache import cache_root

    root = cache_root()
    return _fingerprint(None if root is None else str(root), __version__, backend.hash(),
                        tuple(backend.native_lib_patterns()), tuple(env.compile.extra_source_dirs))  # fmt: skip
