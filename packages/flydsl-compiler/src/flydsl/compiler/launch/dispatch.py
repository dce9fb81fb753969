"""The fast path of a jit function: its parameters, guards and launchers in a native dispatcher."""

from __future__ import annotations

from typing import Any

from flydsl.runtime.launching import MAX_DISPATCH_PARAMETERS, Dispatcher, Guards
from flydsl.tracing.context import CompilationContext
from flydsl.utils import env

from ..specialization.environment import environment_guards
from ..specialization.jit_argument import MemRefJitArg, PointerJitArg, is_tensor
from ..specialization.key import Walker
from ..specialization.signature import Parameters, is_stream

__all__ = ["FastPath"]


class FastPath:
    """Decides which calls the native dispatcher may answer, and tells it.

    The dispatcher answers only while every guard holds: the environment, the compile hints, and everything
    that the traced code reached.
    """

    def __init__(self, parameters: Parameters, owner: Any) -> None:
        self._parameters, self._owner = parameters, owner
        self._names = parameters.names
        self.dispatcher: Any = None
        if parameters.simple_kinds and len(self._names) <= MAX_DISPATCH_PARAMETERS:
            self.dispatcher = Dispatcher(
                [self._describe(name) for name in self._names], parameters.positional_count, env.override_variable
            )

    def _describe(self, name: str) -> tuple[Any, ...]:
        annotation = self._parameters.annotations.get(name)
        kind = "value"
        if name in self._parameters.compile_time_names:
            kind = "constexpr"
        elif is_stream(annotation):
            kind = "stream"
        defaults = self._parameters.defaults
        return (name, kind, defaults[name]) if name in defaults else (name, kind)

    def guards(self, reads: set[str]) -> list[Any]:
        """Guards of the environment and of the hints, to be taken before the key is computed."""
        walker = Walker()
        hints = self._owner.compile_hints
        walker.text(hints)
        watch = [("item", vars(self._owner), "compile_hints", hints), *walker.watch]
        unguarded = [("attr", self, "_never", None)] if walker.unguarded else []
        return [Guards(environment_guards(reads)), Guards([*watch, *unguarded])]

    def add(self, guards: list[Any], identity: Any, values: list[Any], launcher: Any) -> None:
        """Let the dispatcher answer calls like this one, if it can tell them apart."""
        if self.dispatcher is None or identity.guards is None or not all(map(self._keyable, self._names, values)):
            return
        fixed = self._owner._hints_fixed
        if env.override_variable.get() is not None or not fixed and CompilationContext.get_compile_hints():
            return  # this call was made under settings that the next one need not have
        if not self.dispatcher.current():
            self.dispatcher.arm([*guards, identity.guards])
        self.dispatcher.add(tuple(values), launcher)

    def _keyable(self, name: str, value: Any) -> bool:
        """Whether type and tensor properties of the value decide its signature."""
        if name in self._parameters.compile_time_names or is_stream(self._parameters.annotations.get(name)):
            return True
        if type(value) in (bool, int, float) or isinstance(value, (MemRefJitArg, PointerJitArg)):
            return True
        if hasattr(value, "__cache_signature__"):
            return hasattr(type(value), "width") and hasattr(type(value), "signed")  # a DSL number: its class decides
        return is_tensor(value) or hasattr(value, "cuda_stream")
