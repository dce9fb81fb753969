"""Modules that are imported when first used.

The generated builders of the larger MLIR dialects take milliseconds each to import; a process that
only launches cached kernels never needs them.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class LazyModule:
    """Stands for the module ``name``; the first attribute access imports it."""

    __slots__ = ("_name", "_module")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def _load(self) -> ModuleType:
        if self._module is None:
            self._module = importlib.import_module(self._name)
        return self._module

    def __getattr__(self, attr: str) -> Any:
        return getattr(self._load(), attr)

    def __repr__(self) -> str:
        return f"LazyModule({self._name!r})"


def dialect(name: str) -> LazyModule:
    """The Python module of an MLIR dialect, imported when first used."""
    return LazyModule(f"flydsl._mlir.dialects.{name}")


arith = dialect("arith")
math = dialect("math")
vector = dialect("vector")
memref = dialect("memref")
scf = dialect("scf")
gpu = dialect("gpu")
llvm = dialect("llvm")
rocdl = dialect("rocdl")
fly = dialect("fly")
fly_rocdl = dialect("fly_rocdl")
protocol = LazyModule("flydsl.tracing.protocol")
diagnostics = LazyModule("flydsl.tracing.diagnostics")
