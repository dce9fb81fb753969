"""External device functions with the bitcode that defines them.

    scale = link_extern(fx.extern.ffi("scale", ["float32"], "float32"), bitcode_path="scale.bc")

Calling one in a kernel links its bitcode into the kernel's code object. ``module_init_fn(handle)`` runs once for
each loaded GPU module, before its first launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.tracing.context import CompilationContext

__all__ = ["BoundExternFunction", "ExternFunction", "LinkedExternFunction", "link_extern", "register_extern_resolver"]

Resolver = Callable[[str, Any, Any], "tuple[str | None, Callable[[int], Any] | None]"]

_resolver: Resolver | None = None


def register_extern_resolver(resolver: Resolver | None) -> None:
    """Let ``resolver(symbol, bitcode_path, module_init_fn) -> (bitcode_path, module_init_fn)`` complete what a
    `BoundExternFunction` was given. None removes it."""
    global _resolver
    _resolver = resolver


class _Initialiser:
    """What is called with each loaded module, on the host: keys of kernels know it by identity.

    What it reads and changes has no say in what is compiled; a list of the modules that it saw would make each call
    another specialisation.
    """

    def __init__(self, function: Callable[[int], Any]) -> None:
        self.function = function

    def __cache_signature__(self) -> int:
        return id(self.function)


class LinkedExternFunction:
    """An external function together with its bitcode and the initialiser of modules that contain it."""

    def __init__(
        self, function: Any, bitcode_path: str | None = None, module_init_fn: Callable[[int], Any] | None = None
    ) -> None:
        self.function, self.bitcode_path = function, bitcode_path
        self._initialiser = None if module_init_fn is None else _Initialiser(module_init_fn)

    @property
    def module_init_fn(self) -> Callable[[int], Any] | None:
        """Called once for each loaded GPU module that contains the function."""
        return None if self._initialiser is None else self._initialiser.function

    @property
    def symbol(self) -> str:
        """Name of the function in the bitcode."""
        return str(self.function.symbol)

    def __call__(self, *args: Any) -> Any:
        """Emit a call. RuntimeError outside a kernel, TypeError for a wrong number of arguments."""
        result = self.function(*args)
        context = CompilationContext.get_current()
        assert context is not None, "the call would have raised"
        if self.bitcode_path is not None:
            context.add_link_lib(str(self.bitcode_path))
        if self.module_init_fn is not None and self.module_init_fn not in context.post_load_processors:
            context.post_load_processors.append(self.module_init_fn)
        return result


class BoundExternFunction(LinkedExternFunction):
    """``ffi`` and `link_extern` in one; a registered resolver may supply path and initialiser."""

    def __init__(
        self,
        symbol: str,
        arg_types: Any,
        ret_type: str,
        is_pure: bool = False,
        bitcode_path: str | None = None,
        module_init_fn: Callable[[int], Any] | None = None,
    ) -> None:
        from flydsl.expr.extern import ffi

        if _resolver is not None:
            bitcode_path, module_init_fn = _resolver(symbol, bitcode_path, module_init_fn)
        super().__init__(ffi(symbol, arg_types, ret_type, is_pure), bitcode_path, module_init_fn)


ExternFunction = BoundExternFunction


def link_extern(
    ffi: Any, *, bitcode_path: str | None = None, module_init_fn: Callable[[int], Any] | None = None
) -> LinkedExternFunction:
    """Attach bitcode, or an initialiser of loaded modules, to an external function."""
    return LinkedExternFunction(ffi, bitcode_path, module_init_fn)
