"""What stands for flydsl-ir where it is not installed.

A deployment that runs prebuilt operators needs neither MLIR nor a code generator, which are most of the stack's size.
The language's modules are imported there all the same, for the operators' declarations; what they name of
``flydsl._mlir`` is a placeholder that says what is missing when it is used.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

__all__ = ["MissingCompilerError", "install"]

_ROOTS = ("flydsl._mlir", "flydsl.ir")


class MissingCompilerError(ImportError):
    """Something has to be traced or compiled, and flydsl-ir is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is needed to trace and compile kernels, and flydsl-ir is not installed: without it, "
                         "prebuilt operators and saved artifacts run. `pip install flydsl-ir` brings the compiler.")


class _Named(type):
    """Classes that stand for anything: a type, a function, an enumeration."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "current":  # context, location, place of insertion: nothing is being traced
            return None
        return _placeholder(f"{cls.__qualname__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__name__.startswith("register_"):  # a decorator of the language's classes
            return lambda decorated: decorated
        raise MissingCompilerError(cls.__qualname__)

    def __instancecheck__(cls, instance: Any) -> bool:
        return False


def _placeholder(name: str) -> Any:
    # An exception, so that it may stand in `except`, where it matches nothing.
    return _Named(name.rpartition(".")[2], (Exception,), {"__qualname__": name, "__module__": __name__})


class _Module(types.ModuleType):
    __all__: list[str] = []
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _placeholder(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Finder:
    """Gives a module of placeholders for every module of flydsl-ir."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if not f"{name}.".startswith(tuple(f"{root}." for root in _ROOTS)):
            return None
        return importlib.machinery.ModuleSpec(name, _Finder, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    @staticmethod
    def exec_module(module: types.ModuleType) -> None:
        return None


def install() -> bool:
    """Put placeholders for flydsl-ir's modules in place if it is not installed; whether it was needed."""
    with contextlib.suppress(ModuleNotFoundError):
        if importlib.util.find_spec("flydsl._mlir") is not None:
            return False
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    return True
