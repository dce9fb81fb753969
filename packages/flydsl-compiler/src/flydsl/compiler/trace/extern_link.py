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


class LinkedExternFunction:
    """An external function together with its bitcode and the initialiser of modules that contain it."""

    def __init__(
        self, function: Any, bitcode_path: str | None = None, module_init_fn: Callable[[int], Any] | None = None
    ) -> None:
        self.function, self.bitcode_path, self.module_init_fn = function, bitcode_path, module_init_fn

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
