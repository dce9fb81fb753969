"""The name by which programs in a source tree import `flydsl.kernels`: the same modules, and no second copies.

It is no part of a wheel: installed programs say `flydsl.kernels`, since other distributions are called `kernels`.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence


class _SameModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``kernels.x`` as the module ``flydsl.kernels.x``."""

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name.startswith("kernels.") else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(f"flydsl.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        # It has run, under its own name; the import system has just given it this one's.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, _SameModule())
sys.modules["kernels"] = importlib.import_module("flydsl.kernels")
