"""One host call, resolved: what it compiles to depends on this and nothing else."""

from __future__ import annotations

import collections.abc
import difflib
import typing
import warnings
from dataclasses import dataclass
from typing import Any

from ..backends import BaseBackend
from .environment import KeyEnvironment
from .key import Identity, Reach, digest_of, stable_digest
from .signature import Parameters, is_type_param_annotation

__all__ = ["BACKEND_HINTS", "KNOWN_HINTS", "Call", "constexpr_signature", "stable_signature", "warn_unknown_hints"]

#: Hints that only code generation reads: a change of them reuses the traced and lowered module.
BACKEND_HINTS = frozenset({"waves_per_eu", "llvm_options", "unsafe_fp_math"})


def constexpr_signature(name: str, annotation: Any, value: Any, function: str = "") -> Any:
    """Type and value of a compile-time argument.

    Raises:
        TypeError: the value cannot enter a key, or is not what the parameter's annotation says.
    """
    if isinstance(value, type):
        if not is_type_param_annotation(annotation) and annotation is not None:
            raise TypeError(f"{function}: compile-time argument {name!r}: a class needs the annotation `type`, not "
                            f"{getattr(annotation, '__name__', annotation)}")
        return ("type", f"{value.__module__}.{value.__qualname__}", stable_digest(value))
    if is_type_param_annotation(annotation):
        raise TypeError(f"{function}: argument {name!r} must be a type, got {value!r}")
    signature = _value_signature(name, value)
    _check_annotation(name, getattr(annotation, "inner", None), value, function)
    return signature


def _value_signature(name: str, value: Any) -> Any:
    if type(value) in (bool, int, float, str):
        return (type(value).__name__, value)
    if isinstance(value, tuple):
        return ("tuple", tuple(_value_signature(name, v) for v in value))
    code = getattr(value, "__code__", None)
    if code is not None and value.__name__ == "<lambda>":
        if code.co_freevars or value.__kwdefaults__:
            raise TypeError(f"compile-time argument {name!r}: a lambda with captured variables or keyword-only "
                            "defaults cannot be part of a cache key; pass the values as arguments")
        return ("lambda", stable_digest(value))
    raise TypeError(f"compile-time argument {name!r} of type {type(value).__name__} is not supported: use int, bool, "
                    "float, str, a tuple of those, or a lambda without captured variables")


def _check_annotation(name: str, inner: Any, value: Any, function: str) -> None:
    base = typing.get_origin(inner) or inner
    if base in (None, Any) or base is collections.abc.Callable and callable(value):
        return
    accepted = {float: (float, int), int: (int,)}.get(base, (base,))
    if not isinstance(base, type) or isinstance(value, accepted):
        return
    raise TypeError(f"{function}: compile-time argument {name!r} is declared Constexpr[{inner.__name__}], "
                    f"got {value!r} of type {type(value).__name__}")


def stable_signature(value: Any) -> Any:
    """A signature whose ``repr`` is the same in every process: classes by name."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple):
        return tuple(stable_signature(v) for v in value)
    return value


#: Hints that mean something.
KNOWN_HINTS = BACKEND_HINTS | {"maxnreg", "fast_fp_math", "fastmath", "ktrace", "ktrace_blocks", "partial_words"}
_warned_hints: set[str] = set()


def warn_unknown_hints(hints: dict[str, Any]) -> None:
    """One warning for each hint that nothing reads, with the nearest known one."""
    for name in hints:
        if name in KNOWN_HINTS or name in _warned_hints:
            continue
        _warned_hints.add(name)
        near = difflib.get_close_matches(str(name), KNOWN_HINTS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(KNOWN_HINTS))}"
        warnings.warn(f"the compile hint {name!r} has no effect{hint}", UserWarning, stacklevel=7)


def _hints_signature(hints: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((k, type(v).__module__, type(v).__qualname__, repr(v)) for k, v in hints.items()))


@dataclass
class Call:
    """A call of a jit function with everything that decides what it runs.

    Attributes:
        arguments: the parameters' argument objects; compile-time values as passed.
        signature: (name, signature) of each parameter.
        hints: effective compile hints.
        reached: the function with everything it reached when the call was resolved.
        live: tells whether any of that has changed since.
        lines: whether the places of code in files belong to the identity.
        environment: values of the variables that belong to the key.
        guards: guards of environment and hints, taken before they were read.
    """

    parameters: Parameters
    arguments: dict[str, Any]
    signature: tuple[Any, ...]
    backend: BaseBackend
    hints: dict[str, Any]
    reached: Reach
    live: Identity
    lines: bool
    environment: KeyEnvironment
    guards: list[Any]

    @property
    def identity(self) -> str:
        """Digest of the function and all that it reaches."""
        return self.reached.digest(self.lines)

    @property
    def key(self) -> tuple[Any, ...]:
        """The full key in this process."""
        return (self.environment, self.backend.target, _hints_signature(self.hints), self.reached, self.signature)

    def digest(self, toolchain: str) -> str:
        """The full key on disk."""
        return self._digest(toolchain, self.environment, self.identity)

    def portable_digest(self, packages: tuple[str, ...], environment: KeyEnvironment) -> str:
        """The full key with names for code of these packages, in an environment. NotPortable if there is none."""
        return self._digest("prebuilt", environment, self.reached.portable(packages))

    def _digest(self, toolchain: str, environment: tuple[Any, ...], identity: str) -> str:
        hints = _hints_signature(self.hints)
        return digest_of(toolchain, repr((environment, self.backend.target, hints, identity, self.signature)))

    def front_key(self) -> tuple[Any, ...]:
        """The key of the traced and lowered module: code generation options do not matter to it."""
        hints = {k: v for k, v in self.hints.items() if k not in BACKEND_HINTS}
        return (self.environment.front, self.backend.target, _hints_signature(hints), self.reached, self.signature)

    def runtime(self) -> list[tuple[str, Any, Any]]:
        """(name, argument, annotation) of the parameters that are passed at run time."""
        static, annotations = self.parameters.compile_time_names, self.parameters.annotations
        return [(n, self.arguments[n], annotations.get(n)) for n in self.parameters.names if n not in static]

    def inputs(self, toolchain: str) -> dict[str, Any]:
        """The key taken apart, for explanations."""
        return {
            "toolchain": toolchain, "target": self.backend.target.arch, "hints": repr(_hints_signature(self.hints)),
            "environment": repr(self.environment), "identity": self.identity,
            "parts": self.reached.parts(self.lines),
            "arguments": {name: repr(signature) for name, signature in self.signature},
        }
