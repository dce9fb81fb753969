"""Identity of a traced function: its code and everything that the code reaches.

Reached means: globals that the bytecode loads (through modules too), closure cells, defaults, annotations,
helpers and classes found that way, recursively and wherever they live. FlyDSL itself and the standard
library are covered by the toolchain fingerprint and the Python version instead.

Code enters as bytecode, so that comments, formatting and the place in the file do not matter. It enters apart from
the rest, which with the functions' names in its place is the same in every Python.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import hashlib
import os
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

from .receiver import attributes_read, member_of
from .snapshot import FunctionSnapshot, body_digest, digest_of, is_library, with_places

__all__ = ["FunctionSnapshot", "Identity", "NotPortable", "Reach", "Walker", "digest_of", "stable_digest"]

_SCALARS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis)})
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
                types.MethodDescriptorType, types.BuiltinFunctionType, types.MethodWrapperType)
# Members of a class that say where it is or cache something, and nothing of what it does.
_CLASS_NOISE = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__",
                          "__static_attributes__", "__abstractmethods__", "_abc_impl"})
# What fields and options of a dataclass decide: methods, and what class statements make of annotations.
_DATACLASS_METHODS = ("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__",
                      "__setattr__", "__delattr__", "__replace__")
_DATACLASS_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
_ANNOTATIONS = ("__annotations__", "__annotate_func__", "__annotations_cache__")
_ARRAY_LIMIT = 1 << 24  # bytes of a captured tensor that are worth hashing


class Walker:
    """Builds one text for an object graph; cycles become back references.

    Attributes:
        watch: guards (for `flydsl.runtime.launching.Guards`) of everything mutable that was looked at.
        unguarded: something was reached whose changes no guard can see (the content of an array).
        parts: each function (its code and what was added to it) and the text of each value, by name, for explanations.
        codes, names: of the functions, in the order in which they were reached; the texts have neither. What
            `dataclass` generates has no name here.
        modules: of the functions.
        globals: what jit functions, kernels and functions of the first one's folder load by name, but callables and
            modules: {name with its module: namespace}.
        private: whether something can only be known by being the same object in the same process.
    """

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []
        self.watch: list[tuple[Any, ...]] = []
        self.parts: dict[str, str | tuple[types.CodeType, str]] = {}
        self.codes: list[types.CodeType] = []
        self.names: list[str] = []
        self.modules: dict[str, None] = {}
        self.globals: dict[tuple[str, str], dict[str, Any]] = {}
        self.unguarded = self.private = False

    def text(self, value: Any) -> str:
        if type(value) in _SCALARS:
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, enum.Enum):
            return f"enum:{self.text(type(value))}.{value.name}:{value.value!r}"
        if id(value) in self.seen:
            return f"ref:{self.seen[id(value)]}"
        self.seen[id(value)] = len(self.seen)
        self.keep.append(value)
        return self._compound(value)

    def _compound(self, value: Any) -> str:
        if type(value) is types.FunctionType:  # the most of what is reached
            return self._plain_function(value)
        if isinstance(value, list):
            self.watch.append(("list", value, tuple(value)))
            return f"{self._kind(value)}[{','.join(self.text(v) for v in value)}]"
        if isinstance(value, tuple):
            return f"{self._kind(value)}[{','.join(self.text(v) for v in value)}]"
        if isinstance(value, (set, frozenset)):
            if isinstance(value, set):
                self.watch.append(("set", value, set(value)))
            return f"{self._kind(value)}[{','.join(sorted(self.text(v) for v in value))}]"
        if isinstance(value, types.MappingProxyType):
            self.unguarded = self.unguarded or bool(value)
            return self._items("proxy", dict(value))
        if isinstance(value, dict):
            self.watch.append(("dict", value, dict(value)))
            return self._items(self._kind(value), value)
        if isinstance(value, types.ModuleType):
            return f"module:{value.__name__}"
        if isinstance(value, types.MethodType):
            return f"method:{self.text(value.__func__)}:{self.receiver(value.__func__, value.__self__)}"
        if isinstance(value, type):
            return self._class(value)
        snapshot = getattr(value, "_original", None)
        if isinstance(snapshot, FunctionSnapshot):
            return self._decorated(value, snapshot)
        return self._special(value)

    def _kind(self, value: Any) -> str:
        """The class of a container, with its methods and the attributes of the instance where it is no library's."""
        cls = type(value)
        if isinstance(value, collections.defaultdict):
            self.watch.append(("attr", value, "default_factory", value.default_factory))
            return f"{cls.__name__}:{self.text(value.default_factory)}"
        if is_library(cls.__module__):
            return cls.__name__
        return f"{self.text(cls)}{self._attributes(value, _fields(value) or {})}"

    def _attributes(self, value: Any, fields: dict[str, Any]) -> str:
        self._watch_fields(value, fields)
        return self._named(fields)

    def _named(self, values: dict[str, Any]) -> str:
        return f"({','.join(f'{k}={self.text(v)}' for k, v in sorted(values.items()))})"

    def _items(self, kind: str, value: dict[Any, Any]) -> str:
        return f"{kind}[{','.join(f'{self.text(k)}={self.text(v)}' for k, v in value.items())}]"

    def _decorated(self, value: Any, snapshot: FunctionSnapshot) -> str:
        """A jit function or kernel: what the decorator was given, and a bound instance, belong to it."""
        extra = [repr(getattr(value, "known_block_size", None)), repr(getattr(value, "_name", None))]
        bound = getattr(value, "_bound_self", None)
        if bound is not None:
            extra.append(self.receiver(value, bound))
        hints = getattr(value, "compile_hints", None)
        if hints:
            extra.append(self.text(hints))
        return self.function(snapshot, ",".join(extra), decorated=True)

    def function(self, snapshot: FunctionSnapshot, extra: str = "", decorated: bool = False) -> str:
        """A function with everything that it reaches."""
        function: Any = snapshot.function
        name = f"{function.__module__}.{function.__qualname__}"
        fixed = decorated or not self.codes or _folder(snapshot.code) == _folder(self.codes[0])
        self.codes.append(snapshot.code)
        self.names.append(name)
        self.modules[snapshot.module] = None
        self.parts[name] = snapshot.code, extra
        texts = []
        for key, value in sorted(snapshot.scope(self.watch).items()):
            text = self.text(value)
            texts.append(f"{key}={text}")
            if not callable(value) and not isinstance(value, types.ModuleType):
                self.parts[f"{name}: {key}"] = text
                if fixed and key in function.__globals__:
                    self.globals[snapshot.module, key] = function.__globals__
        return f"function:{extra}({','.join(texts)})"

    def receiver(self, function: Any, instance: Any) -> str:
        """What a method may read of the instance that it is bound to: all of it, if not only by names of attributes."""
        names, fields = attributes_read(function, instance), _fields(instance)
        if names is None or fields is None:
            return self.text(instance)
        # It counts as not seen: what reaches it in another way may read more of it.
        cls = type(instance)
        for base in cls.__mro__:
            if not is_library(base.__module__):
                self.watch.append(("type", base, dict(vars(base))))
        self._watch_fields(instance, fields, names)
        found = {f"{owner.__qualname__}.{n}": m for n in names for owner, m in member_of(cls, n)}
        found.update({n: fields[n] for n in names & fields.keys()})
        return f"receiver:{cls.__module__}.{cls.__qualname__}{self._named(found)}"

    def _private(self, value: Any) -> str:
        """What can only be known by being the same object in the same process."""
        self.private = True
        return f"{os.getpid()}:{id(value)}"

    def _plain_function(self, function: types.FunctionType) -> str:
        if is_library(function.__module__):
            return f"library:{function.__module__}.{function.__qualname__}"
        code = function.__dict__.get("__fly_original__")
        if code is None:
            code = function.__code__
            self.watch.append(("attr", function, "__code__", code))
        return self.function(FunctionSnapshot(code, function))

    def _class(self, cls: type) -> str:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if is_library(cls.__module__):
            return f"class:{name}"
        self.watch.append(("type", cls, dict(vars(cls))))
        bases = ",".join(self.text(base) for base in cls.__bases__ if base is not object)
        members = {k: v for k, v in vars(cls).items() if k not in _CLASS_NOISE}
        declared = self._dataclass(cls, members) if "__dataclass_params__" in members else ""
        if issubclass(cls, tuple) and "_field_defaults" in members:
            self._named_tuple(members)
        return f"class:{name}({bases}){declared}{self._named(members)}"

    def _dataclass(self, cls: type, members: dict[str, Any]) -> str:
        """What a dataclass was declared with. That decides what the decorator adds to it, which leaves ``members``: it
        took half of the time of a walk, and differs from Python to Python."""
        fields: dict[str, dataclasses.Field[Any]] = members.pop("__dataclass_fields__")
        options = members.pop("__dataclass_params__")
        for name in _DATACLASS_METHODS:
            if _is_generated(cls, name, members.get(name)):
                self.codes.append(members.pop(name).__code__)
        for name in _ANNOTATIONS:
            members.pop(name, None)
        self.modules[cls.__module__] = None
        texts = [f"{f.name}:{self.text(f.type)}:{self._default(f.default)}:{self._default(f.default_factory)}:"
                 f"{f.init}{f.repr}{f.hash}{f.compare}{f.kw_only}{self.text(f.metadata) if f.metadata else ''}"
                 for f in fields.values() if f.kw_only is not dataclasses.MISSING]  # others are variables of the class
        chosen = "".join(str(getattr(options, name)) for name in _DATACLASS_OPTIONS)
        return f"dataclass:{chosen}[{','.join(texts)}]"

    def _named_tuple(self, members: dict[str, Any]) -> None:
        """Methods of a named tuple that its fields and their defaults decide leave ``members``: they differ from Python
        to Python, and the one that was generated is of no module that could be looked up."""
        members.pop("__orig_bases__", None)
        for name, member in list(members.items()):
            method = getattr(member, "__func__", member)
            if isinstance(method, types.FunctionType) and (
                    method.__module__ == "collections"
                    or (name == "__new__" and method.__module__.startswith("namedtuple_"))):
                members.pop(name)
                self.codes.append(method.__code__)

    def _default(self, value: Any) -> str:
        return "" if value is dataclasses.MISSING else self.text(value)

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
        if isinstance(value, typing.ForwardRef):  # what NamedTuple makes of annotations; its state has code
            return f"forward:{value.__forward_arg__}"
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) or isinstance(getattr(wrapped, "_original", None), FunctionSnapshot):
            return f"wrapper:{type(value).__qualname__}:{self.text(wrapped)}"
        if isinstance(value, weakref.ref):
            self.unguarded = True
            return f"weak:{self.text(value())}"
        if isinstance(value, contextvars.ContextVar):
            self.unguarded = True
            return f"context:{value.name}:{self.text(value.get(None))}"
        if type(value).__module__ == "_thread" and not isinstance(value, threading.local):
            # A lock has no say in what is compiled.
            return f"lock:{type(value).__qualname__}"
        return self._object(value)

    def _object(self, value: Any) -> str:
        cls = type(value)
        name = f"{cls.__module__}.{cls.__qualname__}"
        if hasattr(cls, "__cache_signature__") and not _holds_ir(value):
            return f"dsl:{name}:{value.__cache_signature__()!r}:{getattr(value, 'value', None)!r}"
        array = self._array(value)
        if array is not None:
            self.unguarded = True
            return array
        fields = _fields(value)
        own = cls.__reduce__ is not object.__reduce__  # such as the elements of a deque, which are no attributes
        if cls is not object and (is_library(cls.__module__) or fields is None or own):
            reduced = _reduced(value)
            if reduced is not None:
                parts = () if isinstance(reduced, str) else reduced[2:]
                if fields is not None:
                    self._watch_fields(value, fields)
                    parts = parts[1:]  # elements
                # State that is not in attributes may change without a guard seeing it.
                outside = any(part is not None for part in parts) or (fields is None and cls.__hash__ is None)
                self.unguarded = self.unguarded or outside
                return f"reduced:{self.text(cls)}:{self.text(reduced)}"
        if fields is None:
            # Nothing of the object can be compared, so nothing may be shared across processes.
            return f"opaque:{name}:{self._private(value)}"
        return f"object:{name}{self._attributes(value, fields)}{self.text(cls)}"

    def _array(self, value: Any) -> str | None:
        """Text of a captured array or tensor by content; None for anything else."""
        cls = type(value)  # an instance may answer to any name
        if hasattr(cls, "__array_interface__") and hasattr(cls, "tobytes"):
            if value.nbytes > _ARRAY_LIMIT or value.dtype.hasobject:
                return f"array:{value.dtype}:{value.shape}:{self._private(value)}"
            return f"array:{value.dtype}:{value.shape}:{hashlib.sha256(value.tobytes()).hexdigest()}"
        if hasattr(cls, "data_ptr") and hasattr(cls, "stride") and hasattr(cls, "dtype"):
            head = f"tensor:{value.dtype}:{tuple(value.shape)}:{tuple(value.stride())}:{value.device}"
            # Reading device memory would synchronise, so such a tensor is itself and nothing else.
            return f"{head}:{self._private(value)}:{getattr(value, '_version', 0)}"
        if cls.__module__ in ("_ctypes", "ctypes", "builtins", "array", "mmap"):
            with contextlib.suppress(TypeError, ValueError, BufferError), memoryview(value) as buffer:
                if buffer.nbytes > _ARRAY_LIMIT:
                    return f"buffer:{buffer.format}:{buffer.shape}:{self._private(value)}"
                return f"buffer:{buffer.format}:{buffer.shape}:{hashlib.sha256(buffer.tobytes()).hexdigest()}"
        return None

    def _watch_fields(self, value: Any, fields: dict[str, Any], names: frozenset[str] | None = None) -> None:
        """Guards of the fields of an object: of those with these names, or of all."""
        own = getattr(value, "__dict__", None)
        if type(own) is not dict or value.__dict__ is not own:
            self.unguarded = self.unguarded or own is not None
            own = {}
        elif names is None:
            self.watch.append(("dict", own, dict(own)))
        else:
            self.watch += [("item", own, n, own[n]) if n in own else ("item", own, n) for n in sorted(names)]
        for field, content in fields.items():
            if field not in own and (names is None or field in names):
                self.watch.append(("attr", value, field, content))


def _is_generated(cls: type, name: str, method: Any) -> bool:
    """Whether a method of a dataclass is what the decorator made of fields and options."""
    if not isinstance(method, types.FunctionType):
        return False
    if method.__globals__.get("__name__") in ("dataclasses", "reprlib"):
        if name == "__replace__":  # the same for all
            return True
        method = getattr(method, "__wrapped__", method)  # what ends the recursion of `__repr__`
    made = f"__create_fn__.<locals>.{name}"
    # Python 3.10 keeps no qualified name of code: there, methods that `exec` made in a class count as generated, too.
    return (method.__code__.co_filename == "<string>" and getattr(method.__code__, "co_qualname", made) == made
            and method.__qualname__ in (made, f"{cls.__qualname__}.{name}"))


def _folder(code: types.CodeType) -> str:
    return os.path.dirname(code.co_filename)


class NotPortable(Exception):
    """Something was reached that no digest of sources covers."""


def _reduced(value: Any) -> Any:
    """What copying the object would copy: its type's own account of its content; None if it has none."""
    try:
        found = value.__reduce_ex__(2)
    except Exception:  # whatever it raises, the object declines to be copied
        return None
    if isinstance(found, tuple):
        # Iterators of list and dict items, which come after the state, would be consumed by looking.
        found = found[:3] + tuple(list(f) if f is not None else f for f in found[3:5])
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
    walker = Walker()
    return _digest(walker.text(value), walker.codes, with_places())


def _digest(text: str, codes: list[types.CodeType], lines: bool) -> str:
    return digest_of(text, *(body_digest(code, lines) for code in codes))


def _weak(instance: Any) -> Callable[[], Any]:
    """Gives the instance without keeping it alive, where its class allows that."""
    try:
        return weakref.ref(instance)
    except TypeError:
        return lambda: instance


class Reach:
    """A function with everything that it reaches, as one walk found it; a value, equal where all of that is the same.

    Digests are made when they are asked for: a call that is answered by a prebuilt artifact, whose key has names for
    code, never needs those of the code.

    Args:
        snapshot: the function.
        walker: with which to walk; it is not kept, so that what was reached need not stay alive.
        instance: the object that a method is bound to.
    """

    def __init__(self, snapshot: FunctionSnapshot, walker: Walker, instance: Any = None) -> None:
        text = walker.function(snapshot)
        self._text = text if instance is None else text + walker.receiver(snapshot, instance)
        self._codes, self._names, self._parts = walker.codes, walker.names, walker.parts
        self._modules, self._private = tuple(walker.modules), walker.private
        self._digests: dict[bool, str] = {}
        self.module = snapshot.module

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Equal code of two files has different line tables.
        return (isinstance(other, Reach) and self._text == other._text and self._codes == other._codes
                and [c.co_filename for c in self._codes] == [c.co_filename for c in other._codes])

    def digest(self, lines: bool) -> str:
        """Digest of all that was reached; with ``lines`` the places of code in files enter."""
        if lines not in self._digests:
            self._digests[lines] = _digest(self._text, self._codes, lines)
        return self._digests[lines]

    def parts(self, lines: bool) -> dict[str, str]:
        """Digests of what :meth:`digest` is made of, by name."""

        def short(part: str | tuple[types.CodeType, str]) -> str:
            if isinstance(part, str):
                return part if len(part) <= 60 else digest_of(part)
            return digest_of(body_digest(part[0], lines), part[1])

        return {name: short(part) for name, part in self._parts.items()}

    def portable(self, packages: tuple[str, ...]) -> str:
        """The digest with names for code: the same in every process and Python that has these packages' sources.

        Raises:
            NotPortable: the function reaches code or an object that is none of these packages'.
        """
        for module in self._modules:
            if not f"{module}.".startswith(tuple(f"{package}." for package in packages)):
                raise NotPortable(f"{module} is not part of {' or '.join(packages)}")
        if self._private:
            raise NotPortable("an object that is known in its process only")
        return digest_of(self._text, *self._names)


class Identity:
    """What a function reaches, walked anew when any of it was rebound or may have changed.

    Args:
        snapshot: the function.
        instance: the object that a method is bound to; what the method may read of it belongs to the identity.

    Attributes:
        guards: of the last walk; None where nothing can tell whether something has changed.
        globals: module globals that the last walk found to be read, see `Walker.globals`.
    """

    def __init__(self, snapshot: FunctionSnapshot, instance: Any = None) -> None:
        self._snapshot, self._instance = snapshot, _weak(instance)
        self._reach: Reach | None = None
        self._ascribed: dict[Reach, Reach] = {}
        self.guards: Any = None
        self.globals: dict[tuple[str, str], dict[str, Any]] = {}

    def current(self) -> bool:
        """Whether nothing that was reached has changed since the last walk; False also where none can tell."""
        return self.guards is not None and bool(self.guards.unchanged())

    def reach(self) -> Reach:
        """All that is reached as of now."""
        if self._reach is None or not self.current():
            from flydsl.runtime.launching import Guards

            walker = Walker()
            found = Reach(self._snapshot, walker, self._instance())
            self._reach = self._ascribed.get(found, found)
            self.globals = walker.globals
            # Without guards each call walks, which is slow but never stale.
            self.guards = None if walker.unguarded else Guards(walker.watch)
        return self._reach

    def ascribe(self, before: Reach) -> None:
        """Count what is reached now as ``before``: the difference is what a trace did.

        A list that counts the traces is an effect of them and no input. Every specialisation that was compiled
        before holds afterwards, too.
        """
        after = self.reach()
        if after != before:
            self._ascribed[after] = self._reach = before

    def digest(self) -> str:
        """The digest as of now."""
        return self.reach().digest(with_places())
