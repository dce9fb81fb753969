"""A function as it was written: its bytecode as text, and which globals, cells and modules it reads."""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from flydsl.utils import env

from .bytecode import facts_of, nested

__all__ = ["FunctionSnapshot", "body_digest", "digest_of", "is_library", "with_places"]

_OPAQUE_LIBRARIES = frozenset({"numpy", "torch", "jax", "pytest", "_pytest", "hypothesis"})

_ABSENT = object()
_JUMPS = frozenset(code for code in (*dis.hasjrel, *dis.hasjabs) if code < 256)
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def digest_of(*parts: str) -> str:
    """32 hex digits over the parts."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@functools.lru_cache(maxsize=1024)
def is_library(module: str | None) -> bool:
    """Whether code of this module is covered by versions and the toolchain fingerprint."""
    if not module:
        return False
    top = module.partition(".")[0]
    if top == "flydsl":
        return not module.startswith("flydsl.kernels")
    return top in sys.stdlib_module_names or top in _OPAQUE_LIBRARIES


def _code_text(code: types.CodeType, lines: bool) -> str:
    """A text that changes when the behaviour of the code could.

    Docstrings do not enter, and positions in the file only with ``lines`` (code objects with line tables).
    """
    constants = list(code.co_consts)
    if constants and isinstance(constants[0], str) and code.co_flags & 0x2:  # a function's docstring, or unused
        constants[0] = None
    texts = [_code_text(c, lines) if isinstance(c, types.CodeType) else _constant_text(c) for c in constants]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    text = "|".join([code.co_name, repr(counts), code.co_code.hex(), repr(code.co_names), repr(code.co_varnames),
                     repr(code.co_cellvars), repr(code.co_freevars), *texts])
    if lines:
        text += f"|{code.co_filename}:{code.co_firstlineno}:{code.co_linetable.hex()}"
    return text


def _constant_text(value: Any) -> str:
    if isinstance(value, frozenset):  # its order depends on the hash seed
        return f"frozenset:{sorted(map(repr, value))}"
    return f"{type(value).__name__}:{value!r}"


def _import(name: str, level: int, package: str | None) -> types.ModuleType | None:
    """The module that an import statement names; None if it cannot be imported."""
    try:
        return importlib.import_module("." * level + name, package)
    except Exception:  # whatever importing raises, tracing will raise it where it happens
        return None


def _is_user_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and not is_library(value.__name__)


@functools.lru_cache(maxsize=4096)
def _body(code: types.CodeType, lines: bool, file: str) -> str:
    """Digest of the text of code; equal code of two files differs if lines matter."""
    return digest_of(_code_text(code, lines))


def with_places() -> bool:
    """Whether digests of code have its places in files: code objects have line tables."""
    return bool(env.debug.enable_debug_info)


def body_digest(code: types.CodeType, lines: bool) -> str:
    """Digest of code, with its places in files or without."""
    return _body(code, lines, code.co_filename if lines else "")


@dataclasses.dataclass
class FunctionSnapshot:
    """A function before it was rewritten.

    Attributes:
        code: the original code object.
        function: the live function, for its globals, cells, defaults and annotations.
    """

    code: types.CodeType
    function: Callable[..., Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionSnapshot:
        """Snapshot of a function that is about to be rewritten."""
        return cls(function.__code__, function)

    @property
    def module(self) -> str:
        """Where the function was defined."""
        return str(self.function.__module__)

    @property
    def straight(self) -> bool:
        """Whether the code has neither branch nor loop, and suspends nowhere: each statement runs once, in order."""
        return all(_JUMPS.isdisjoint(p.co_code[::2]) and not p.co_flags & _SUSPENDS for p in nested(self.code))

    def scope(self, watch: list[tuple[Any, ...]]) -> dict[str, Any]:
        """The reached objects by name, as they are now; appends guards of where they were found to ``watch``."""
        function: Any = self.function
        found: dict[str, Any] = {}
        facts = facts_of(self.code)
        for chain in facts.reads:
            names, value, used = function.__globals__, _ABSENT, []
            for part in chain:
                value = names.get(part, _ABSENT)
                watch.append(("item", names, part) if value is _ABSENT else ("item", names, part, value))
                used.append(part)
                if not isinstance(value, types.ModuleType) or is_library(value.__name__):
                    break
                names = value.__dict__
            if value is not _ABSENT:
                found[".".join(used)] = value
        for name, cell in zip(self.code.co_freevars, function.__closure__ or (), strict=False):
            value = _content(cell)
            watch.append(("cell", cell) if value is _ABSENT else ("cell", cell, value))
            found[f"<closure>.{name}"] = None if value is _ABSENT else value
        watch.append(("attr", function, "__defaults__", function.__defaults__))
        watch.append(("attr", function, "__kwdefaults__", function.__kwdefaults__))
        for i, default in enumerate(function.__defaults__ or ()):
            found[f"<default>.{i}"] = default
        for name, default in (function.__kwdefaults__ or {}).items():
            found[f"<default>.{name}"] = default
        for name, annotation in function.__annotations__.items():
            found[f"<annotation>.{name}"] = annotation
        attributes = {k: v for k, v in vars(function).items() if not k.startswith("__")}
        if attributes:
            watch.append(("dict", vars(function), dict(vars(function))))
            found.update({f"<attribute>.{name}": value for name, value in attributes.items()})
        for name, level, _ in facts.imports:
            if level or not is_library(name):
                found[f"<import>.{'.' * level}{name}"] = _import(name, level, function.__globals__.get("__package__"))
        if facts.reaches_globals:
            found["<globals>"] = sys.modules.get(function.__module__)
        self._expand(found, watch, facts.names)
        return found

    @staticmethod
    def _expand(found: dict[str, Any], watch: list[tuple[Any, ...]], names: frozenset[str] | None) -> None:
        """Add what the code may read of the modules in ``found``: a module by itself says nothing of its content."""
        pending = [(k, v) for k, v in found.items() if isinstance(v, types.ModuleType) and not is_library(v.__name__)]
        if not pending:
            return
        if names is not None:
            for value in found.values():
                code = getattr(getattr(value, "_original", value), "code", None) or getattr(value, "__code__", None)
                if isinstance(code, types.CodeType):  # the module may be handed to it
                    names |= {n for part in nested(code) for n in part.co_names}
        seen = set()
        while pending:
            key, module = pending.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            content = vars(module)
            if names is None:
                watch.append(("dict", content, dict(content)))
            for name in sorted(content if names is None else names & content.keys()):
                value = content[name]
                if name.startswith("__") and name.endswith("__"):
                    continue
                if names is not None:
                    watch.append(("item", content, name, value))
                found[f"{key}.{name}"] = value
                if _is_user_module(value):
                    pending.append((f"{key}.{name}", value))
