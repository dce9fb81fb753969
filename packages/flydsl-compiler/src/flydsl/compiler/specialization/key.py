"""Identity of a traced function: its code and everything that the code reaches.

Reached means: globals that the bytecode loads (through modules too), closure cells, defaults, annotations,
helpers and classes found that way, recursively and wherever they live. FlyDSL itself and the standard
library are covered by the toolchain fingerprint and the Python version instead.

Code enters as bytecode, so that comments, formatting and the place in the file do not matter.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from flydsl.utils import env

__all__ = ["FunctionSnapshot", "Identity", "digest_of", "stable_digest"]

_SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))
_OPAQUE_LIBRARIES = frozenset({"numpy", "torch", "jax", "pytest", "_pytest", "hypothesis"})
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
                types.MethodDescriptorType, types.BuiltinFunctionType, types.MethodWrapperType)
# Members of a class that say where it is or cache something, and nothing of what it does.
_CLASS_NOISE = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__",
                          "__static_attributes__", "__abstractmethods__", "_abc_impl"})
_ARRAY_LIMIT = 1 << 24  # bytes of a captured tensor that are worth hashing

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
def _is_library(module: str | None) -> bool:
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
        text += f"|{code.co_filename}:{list(code.co_lines())!r}"
    return text


def _constant_text(value: Any) -> str:
    if isinstance(value, frozenset):  # its order depends on the hash seed
        return f"frozenset:{sorted(map(repr, value))}"
    return f"{type(value).__name__}:{value!r}"


def _opcodes() -> tuple[dict[int, tuple[bool, int]], frozenset[int]] | None:
    """({opcode: (starts a chain, shift of its name index)}, opcodes to skip) of this Python; None if unknown."""
    if not (3, 10) <= sys.version_info[:2] <= (3, 14):
        return None
    number = dis.opmap.get
    shift_global = 1 if sys.version_info >= (3, 11) else 0
    shift_attribute = 1 if sys.version_info >= (3, 12) else 0
    named = {
        number("LOAD_GLOBAL"): (True, shift_global), number("LOAD_NAME"): (True, 0),
        number("LOAD_ATTR"): (False, shift_attribute), number("LOAD_METHOD"): (False, 0),
    }
    skipped = frozenset(n for n in map(number, ("PRECALL", "CACHE", "PUSH_NULL")) if n is not None)
    return {code: how for code, how in named.items() if code is not None}, skipped


_OPCODES = _opcodes()


def _chains(code: types.CodeType) -> list[tuple[str, ...]]:
    """Chains of loaded globals in one code object, see `_global_reads`."""
    # A cached start spends much of its time here, and `dis` is ten times slower.
    if _OPCODES is None:
        return _chains_by_dis(code)
    named, skipped = _OPCODES
    data, names, extended = code.co_code, code.co_names, 0
    extended_arg = dis.EXTENDED_ARG
    found: list[tuple[str, ...]] = []
    chain: list[str] = []
    for position in range(0, len(data), 2):
        opcode = data[position]
        how = named.get(opcode)
        if how is None:
            if opcode == extended_arg:
                extended = (data[position + 1] | extended) << 8
            elif opcode not in skipped:
                extended = 0
                if chain:
                    found.append(tuple(chain))
                    chain = []
            continue
        name = names[(data[position + 1] | extended) >> how[1]]
        extended = 0
        if how[0]:
            if chain:
                found.append(tuple(chain))
            chain = [name]
        elif chain:
            chain.append(name)
    if chain:
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
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _imports(code: types.CodeType) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """(module, level, names after ``from``) of the import statements in the code."""
    for part in _nested(code):
        if _IMPORT_NAME not in part.co_code[::2]:
            continue
        before: list[Any] = [0, None]
        for instruction in dis.get_instructions(part):
            if instruction.opname == "IMPORT_NAME":
                yield str(instruction.argval), int(before[0] or 0), tuple(before[1] or ())
            if instruction.opname not in ("EXTENDED_ARG", "CACHE"):
                before = [before[1], instruction.argval]


def _import(name: str, level: int, package: str | None) -> types.ModuleType | None:
    """The module that an import statement names; None if it cannot be imported."""
    try:
        return importlib.import_module("." * level + name, package)
    except Exception:  # whatever importing raises, tracing will raise it where it happens
        return None


def _is_user_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and not _is_library(value.__name__)


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

    @functools.cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """Distinct chains of globals that the code loads."""
        return tuple(dict.fromkeys(_global_reads(self.code)))

    @functools.cached_property
    def names(self) -> frozenset[str] | None:
        """Every attribute or global that the code names; None when it may reach others, by ``getattr`` and the like."""
        found = frozenset(n for code in _nested(self.code) for n in code.co_names)
        return None if found & _DYNAMIC_ACCESS else found

    @functools.cached_property
    def imports(self) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
        """Import statements in the code: (module, level, names)."""
        return tuple(dict.fromkeys(_imports(self.code)))

    @property
    def code_text(self) -> str:
        """Text of the code, see `_code_text`."""
        texts = vars(self).setdefault("_texts", {})
        lines = bool(env.debug.enable_debug_info)
        if lines not in texts:
            texts[lines] = _code_text(self.code, lines)
        return texts[lines]

    def scope(self, watch: list[tuple[Any, ...]]) -> dict[str, Any]:
        """The reached objects by name, as they are now; appends guards of where they were found to ``watch``."""
        function: Any = self.function
        found: dict[str, Any] = {}
        for chain in self.reads:
            names, value, used = function.__globals__, _ABSENT, []
            for part in chain:
                value = names.get(part, _ABSENT)
                watch.append(("item", names, part) if value is _ABSENT else ("item", names, part, value))
                used.append(part)
                if not isinstance(value, types.ModuleType) or _is_library(value.__name__):
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
        for name, level, _ in self.imports:
            if level or not _is_library(name):
                found[f"<import>.{'.' * level}{name}"] = _import(name, level, function.__globals__.get("__package__"))
        if self.names is None and any(_DYNAMIC_GLOBALS & set(code.co_names) for code in _nested(self.code)):
            found["<globals>"] = sys.modules.get(function.__module__)
        self._expand(found, watch)
        return found

    def _expand(self, found: dict[str, Any], watch: list[tuple[Any, ...]]) -> None:
        """Add what the code may read of the modules in ``found``: a module by itself says nothing of its content."""
        pending = [(key, value) for key, value in found.items() if _is_user_module(value)]
        if not pending:
            return
        names = self.names
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


class _Walker:
    """Builds one text for an object graph; cycles become back references.

    Attributes:
        watch: guards (for `flydsl.runtime._native.Guards`) of everything mutable that was looked at.
        unguarded: something was reached whose changes no guard can see (the content of an array).
        parts: digest of each function and each value reached, by name, for explanations.
    """

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []
        self.watch: list[tuple[Any, ...]] = []
        self.parts: dict[str, str] = {}
        self.unguarded = False

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
        if isinstance(value, list):
            self.watch.append(("list", value, tuple(value)))
            return f"{type(value).__name__}[{','.join(self.text(v) for v in value)}]"
        if isinstance(value, tuple):
            return f"{type(value).__name__}[{','.join(self.text(v) for v in value)}]"
        if isinstance(value, (set, frozenset)):
            if isinstance(value, set):
                self.watch.append(("set", value, set(value)))
            return f"set[{','.join(sorted(self.text(v) for v in value))}]"
        if isinstance(value, types.MappingProxyType):
            self.unguarded = self.unguarded or bool(value)
            return self._items("proxy", dict(value))
        if isinstance(value, dict):
            self.watch.append(("dict", value, dict(value)))
            return self._items("dict", value)
        if isinstance(value, types.ModuleType):
            return f"module:{value.__name__}"
        if isinstance(value, types.MethodType):
            return f"method:{self.text(value.__func__)}:{self.text(value.__self__)}"
        if isinstance(value, types.FunctionType):
            return self._plain_function(value)
        if isinstance(value, type):
            return self._class(value)
        snapshot = getattr(value, "_original", None)
        if isinstance(snapshot, FunctionSnapshot):
            return self._decorated(value, snapshot)
        return self._special(value)

    def _items(self, kind: str, value: dict[Any, Any]) -> str:
        return f"{kind}[{','.join(f'{self.text(k)}={self.text(v)}' for k, v in value.items())}]"

    def _decorated(self, value: Any, snapshot: FunctionSnapshot) -> str:
        """A jit function or kernel: what the decorator was given, and a bound instance, belong to it."""
        extra = [repr(getattr(value, "known_block_size", None)), repr(getattr(value, "_name", None))]
        bound = getattr(value, "_bound_self", None)
        if bound is not None:
            extra.append(self.text(bound))
        hints = getattr(value, "compile_hints", None)
        if hints:
            extra.append(self.text(hints))
        return self.function(snapshot, ",".join(extra))

    def function(self, snapshot: FunctionSnapshot, extra: str = "") -> str:
        """A function with everything that it reaches."""
        function: Any = snapshot.function
        name = f"{function.__module__}.{function.__qualname__}"
        body = digest_of(snapshot.code_text)
        self.parts[name] = digest_of(body, extra)
        texts = []
        for key, value in sorted(snapshot.scope(self.watch).items()):
            text = self.text(value)
            texts.append(f"{key}={text}")
            if not callable(value) and not isinstance(value, types.ModuleType):
                self.parts[f"{name}: {key}"] = text if len(text) <= 60 else digest_of(text)
        return f"function:{extra}:{body}({','.join(texts)})"

    def _plain_function(self, function: types.FunctionType) -> str:
        if _is_library(function.__module__):
            return f"library:{function.__module__}.{function.__qualname__}"
        code = function.__dict__.get("__fly_original__")
        if code is None:
            code = function.__code__
            self.watch.append(("attr", function, "__code__", code))
        return self.function(FunctionSnapshot(code, function))

    def _class(self, cls: type) -> str:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if _is_library(cls.__module__):
            return f"class:{name}"
        self.watch.append(("type", cls, dict(vars(cls))))
        members = sorted((k, v) for k, v in vars(cls).items() if k not in _CLASS_NOISE)
        bases = ",".join(self.text(base) for base in cls.__bases__ if base is not object)
        return f"class:{name}({bases})({','.join(f'{k}={self.text(v)}' for k, v in members)})"

    def _special(self, value: Any) -> str:
        """Objects whose meaning is not in their attributes."""
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__}:{self.text(value.__func__)}"
        if isinstance(value, property):
            return f"property:{self.text(value.fget)}:{self.text(value.fset)}"
        if isinstance(value, functools.cached_property):
            return f"cached_property:{self.text(value.func)}"
        if isinstance(value, functools.partial):
            return f"partial:{self.text(value.func)}:{self.text(value.args)}:{self.text(value.keywords)}"
        if isinstance(value, _DESCRIPTORS):
            owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
            return f"builtin:{getattr(owner, '__name__', '')}.{value.__name__}"
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) or isinstance(getattr(wrapped, "_original", None), FunctionSnapshot):
            return f"wrapper:{type(value).__qualname__}:{self.text(wrapped)}"
        if type(value).__module__ == "_thread":  # a lock has no say in what is compiled
            return f"lock:{type(value).__qualname__}"
        return self._object(value)

    def _object(self, value: Any) -> str:
        cls = type(value)
        name = f"{cls.__module__}.{cls.__qualname__}"
        signature = getattr(value, "__cache_signature__", None)
        if signature is not None and not _holds_ir(value):
            return f"dsl:{name}:{signature()!r}:{getattr(value, 'value', None)!r}"
        array = _array_text(value)
        if array is not None:
            self.unguarded = True
            return array
        fields = _fields(value)
        if cls is not object and (_is_library(cls.__module__) or fields is None):
            reduced = _reduced(value)
            if reduced is not None:
                if fields is not None:
                    self._watch_fields(value, fields)
                else:
                    # State that is not in attributes may change without a guard seeing it.
                    has_state = not isinstance(reduced, str) and any(part is not None for part in reduced[2:])
                    self.unguarded = self.unguarded or has_state
                return f"reduced:{self.text(cls)}:{self.text(reduced)}"
        if fields is None:
            # Nothing of the object can be compared, so nothing may be shared across processes.
            return f"opaque:{name}:{os.getpid()}:{id(value)}"
        self._watch_fields(value, fields)
        attributes = ",".join(f"{k}={self.text(v)}" for k, v in sorted(fields.items()))
        return f"object:{name}({attributes}){self.text(cls)}"

    def _watch_fields(self, value: Any, fields: dict[str, Any]) -> None:
        own = getattr(value, "__dict__", None)
        if type(own) is dict and value.__dict__ is own:
            self.watch.append(("dict", own, dict(own)))
        else:
            self.unguarded = self.unguarded or own is not None
            own = {}
        for field, content in fields.items():
            if field not in own:
                self.watch.append(("attr", value, field, content))


def _array_text(value: Any) -> str | None:
    """Text of a captured array or tensor by content; None for anything else."""
    if hasattr(value, "__array_interface__") and hasattr(value, "tobytes"):
        if value.nbytes > _ARRAY_LIMIT or value.dtype.hasobject:
            return f"array:{value.dtype}:{value.shape}:{os.getpid()}:{id(value)}"
        return f"array:{value.dtype}:{value.shape}:{hashlib.sha256(value.tobytes()).hexdigest()}"
    if hasattr(value, "data_ptr") and hasattr(value, "stride") and hasattr(value, "dtype"):
        head = f"tensor:{value.dtype}:{tuple(value.shape)}:{tuple(value.stride())}:{value.device}"
        # Reading device memory would synchronise, so such a tensor is itself and nothing else.
        return f"{head}:{os.getpid()}:{id(value)}:{getattr(value, '_version', 0)}"
    return None


def _reduced(value: Any) -> Any:
    """What copying the object would copy: its type's own account of its content; None if it has none."""
    try:
        found = value.__reduce_ex__(2)
    except Exception:  # whatever it raises, the object declines to be copied
        return None
    if isinstance(found, tuple):
        # Iterators of list and dict items would be consumed by looking.
        found = tuple(list(f) if hasattr(f, "__next__") else f for f in found)
    return found


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


def _weak(instance: Any) -> Callable[[], Any]:
    """Gives the instance without keeping it alive, where its class allows that."""
    try:
        return weakref.ref(instance)
    except TypeError:
        return lambda: instance


class Identity:
    """Digest of a function and of everything it reaches, recomputed when any of it was rebound or may have changed.

    Args:
        snapshot: the function.
        instance: the object that a method is bound to; its class and attributes belong to the identity.
    """

    def __init__(self, snapshot: FunctionSnapshot, instance: Any = None) -> None:
        self._snapshot, self._instance = snapshot, _weak(instance)
        self._digest = ""
        self._debug: Any = None
        self.guards: Any = None
        self.parts: dict[str, str] = {}

    def copy(self) -> Identity:
        """The same function and instance, with a digest of its own."""
        return Identity(self._snapshot, self._instance())

    def current(self) -> bool:
        """Whether nothing that the last digest was made of has changed since; False also where none can tell."""
        return self.guards is not None and bool(self.guards.unchanged())

    def digest(self) -> str:
        """The digest as of now."""
        debug = env.debug.enable_debug_info
        if debug == self._debug and self.current():
            return self._digest
        from flydsl.runtime._native import Guards

        walker = _Walker()
        text = walker.function(self._snapshot)
        instance = self._instance()
        if instance is not None:
            text += walker.text(instance)
        self._digest, self._debug, self.parts = digest_of(text), debug, walker.parts
        # Without guards the digest is computed on each call, which is slow but never stale.
        self.guards = None if walker.unguarded else Guards(walker.watch)
        return self._digest
