"""A function as it was written: its bytecode as text, and which globals, cells and modules it reads."""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flydsl.utils import env

__all__ = ["FunctionSnapshot", "body_digest", "digest_of", "is_library", "with_places"]

_OPAQUE_LIBRARIES = frozenset({"numpy", "torch", "jax", "pytest", "_pytest", "hypothesis"})

_ABSENT = object()


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


def _opcodes() -> tuple[re.Pattern[bytes], dict[int, int]] | None:
    """A chain as a pattern of this Python's opcodes, and {opcode: shift of its name index}; None if it is unknown."""
    if not (3, 10) <= sys.version_info[:2] <= (3, 14):
        return None
    number = dis.opmap.get
    shift_global = 1 if sys.version_info >= (3, 11) else 0
    shift_attribute = 1 if sys.version_info >= (3, 12) else 0
    first = {number("LOAD_GLOBAL"): shift_global, number("LOAD_NAME"): 0}
    more = {number("LOAD_ATTR"): shift_attribute, number("LOAD_METHOD"): 0}

    def one_of(names: Iterable[int | None]) -> bytes:
        # Opcodes over 255 are the compiler's own and in no code.
        return b"[" + b"".join(re.escape(bytes([n])) for n in names if n is not None and n < 256) + b"]"

    # Between the names of a chain there is nothing that does anything.
    extended = re.escape(bytes([dis.EXTENDED_ARG]))
    skipped = one_of(map(number, ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG")))
    pattern = b"(?:%b)*%b(?:%b*%b)*" % (extended, one_of(first), skipped, one_of(more))
    shifts = {code: shift for code, shift in {**first, **more}.items() if code is not None}
    return re.compile(pattern, re.DOTALL), shifts


_OPCODES = _opcodes()


def _chains(code: types.CodeType) -> list[tuple[str, ...]]:
    """Chains of loaded globals in one code object, see `_global_reads`."""
    # A cached start spends much of its time here, and `dis` is ten times slower.
    if _OPCODES is None:
        return _chains_by_dis(code)
    pattern, shifts = _OPCODES
    opcodes, arguments, names = code.co_code[::2], code.co_code[1::2], code.co_names
    extended_arg = dis.EXTENDED_ARG
    found: list[tuple[str, ...]] = []
    for match in pattern.finditer(opcodes):
        chain, extended = [], 0
        for position in range(*match.span()):
            shift = shifts.get(opcodes[position])
            if shift is not None:
                chain.append(names[(arguments[position] | extended) >> shift])
                extended = 0
            elif opcodes[position] == extended_arg:
                extended = (arguments[position] | extended) << 8
        found.append(tuple(chain))
    return found


def _chains_by_dis(code: types.CodeType) -> list[tuple[str, ...]]:
    """`_chains` on a Python whose opcodes are not known here."""
    found: list[tuple[str, ...]] = []
    chain: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"):
            continue
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if chain:
                chain.append(str(instruction.argval))
            continue
        if chain:
            found.append(tuple(chain))
        chain = [str(instruction.argval)] if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") else []
    return [*found, tuple(chain)] if chain else found


def _global_reads(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Chains of loaded globals: ``("helpers", "scale")`` for ``helpers.scale(x)``."""
    yield from _chains(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_reads(constant)


# Names by which code can get at attributes that its bytecode does not name.
_DYNAMIC_GLOBALS = frozenset({"globals", "eval", "exec"})
_DYNAMIC_ACCESS = _DYNAMIC_GLOBALS | {"getattr", "vars", "__dict__", "attrgetter"}
_IMPORT_NAME, _LOAD_CONST = dis.opmap["IMPORT_NAME"], dis.opmap["LOAD_CONST"]
_SKIPPED = {dis.EXTENDED_ARG, dis.opmap.get("CACHE")}
_JUMPS = frozenset(code for code in (*dis.hasjrel, *dis.hasjabs) if code < 256)
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _imports(code: types.CodeType) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """(module, level, names after ``from``) of the import statements in the code."""
    for part in _nested(code):
        opcodes, arguments = part.co_code[::2], part.co_code[1::2]
        if _IMPORT_NAME not in opcodes:
            continue
        before: tuple[Any, Any] = (0, None)  # what the two instructions before load: the level, and the names
        extended = 0
        for opcode, argument in zip(opcodes, arguments, strict=True):
            argument |= extended << 8
            extended = argument if opcode == dis.EXTENDED_ARG else 0
            if opcode == _IMPORT_NAME:
                yield part.co_names[argument], before[0] or 0, before[1] or ()
            if opcode in _SKIPPED:
                continue
            loaded = part.co_consts[argument] if opcode == _LOAD_CONST else argument
            before = before[1], loaded


def _import(name: str, level: int, package: str | None) -> types.ModuleType | None:
    """The module that an import statement names; None if it cannot be imported."""
    try:
        return importlib.import_module("." * level + name, package)
    except Exception:  # whatever importing raises, tracing will raise it where it happens
        return None


def _is_user_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and not is_library(value.__name__)


# Facts about code, which are asked for each function that reaches it. Code objects are equal if they do the same.


@functools.lru_cache(maxsize=4096)
def _reads(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Distinct chains of globals that the code loads."""
    return tuple(dict.fromkeys(_global_reads(code)))


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> frozenset[str] | None:
    """Every attribute or global that the code names; None when it may reach others, by ``getattr`` and the like."""
    found = frozenset(n for part in _nested(code) for n in part.co_names)
    return None if found & _DYNAMIC_ACCESS else found


@functools.lru_cache(maxsize=4096)
def _imported(code: types.CodeType) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """Import statements in the code: (module, level, names)."""
    return tuple(dict.fromkeys(_imports(code)))


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
        parts = list(_nested(self.code))
        return all(_JUMPS.isdisjoint(p.co_code[::2]) and not p.co_flags & _SUSPENDS for p in parts)

    def scope(self, watch: list[tuple[Any, ...]]) -> dict[str, Any]:
        """The reached objects by name, as they are now; appends guards of where they were found to ``watch``."""
        function: Any = self.function
        found: dict[str, Any] = {}
        for chain in _reads(self.code):
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
        for name, level, _ in _imported(self.code):
            if level or not is_library(name):
                found[f"<import>.{'.' * level}{name}"] = _import(name, level, function.__globals__.get("__package__"))
        if _names(self.code) is None and any(_DYNAMIC_GLOBALS & set(code.co_names) for code in _nested(self.code)):
            found["<globals>"] = sys.modules.get(function.__module__)
        self._expand(found, watch)
        return found

    def _expand(self, found: dict[str, Any], watch: list[tuple[Any, ...]]) -> None:
        """Add what the code may read of the modules in ``found``: a module by itself says nothing of its content."""
        pending = [(key, value) for key, value in found.items() if _is_user_module(value)]
        if not pending:
            return
        names = _names(self.code)
        if names is not None:
            for value in found.values():
                code = getattr(getattr(value, "_original", value), "code", None) or getattr(value, "__code__", None)
                if isinstance(code, types.CodeType):  # the module may be handed to it
                    names |= {n for part in _nested(code) for n in part.co_names}
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
