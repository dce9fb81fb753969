"""Compile backends: what turns traced IR into a code object for a target."""

from __future__ import annotations

import functools
from typing import Any

from flydsl.utils import env

from .base import BaseBackend, GPUTarget
from .rocm import RocmBackend

__all__ = ["BaseBackend", "GPUTarget", "RocmBackend", "compile_backend_name", "current_target",
           "get_backend", "register_backend", "resolve_llvm_address_space"]

_registry: dict[str, type[BaseBackend]] = {}
_failed: dict[str, Exception] = {}


def register_backend(name: str, backend_cls: type[BaseBackend], *, force: bool = False) -> None:
    """Register a backend class. ValueError for a taken name unless ``force``."""
    _builtin()
    key = name.lower()
    if key in _registry and not force:
        raise ValueError(f"compile backend {name!r} is already registered")
    _registry[key] = backend_cls
    _instance.cache_clear()


def _builtin() -> None:
    _registry.setdefault("rocm", RocmBackend)


@functools.cache
def _third_party() -> None:
    # Slow to import, and needed only for a backend that is not built in.
    import importlib.metadata

    for point in importlib.metadata.entry_points(group="flydsl.backends"):
        if point.name.lower() in _registry:
            continue
        try:
            _registry[point.name.lower()] = point.load()
        except Exception as error:  # reported when this backend is asked for
            _failed[point.name.lower()] = error


def compile_backend_name() -> str:
    """The active backend id, in lower case."""
    return (env.compile.backend or "rocm").lower()


def backend_class(name: str | None = None) -> type[BaseBackend]:
    """The class of a backend. ValueError for an unknown id, ImportError for one that failed to load."""
    _builtin()
    key = (name or compile_backend_name()).lower()
    if key not in _registry:
        _third_party()
    if key in _failed:
        raise ImportError(f"compile backend {key!r} cannot be loaded: {_failed[key]}") from _failed[key]
    if key not in _registry:
        raise ValueError(f"unknown compile backend {key!r}; registered: {', '.join(sorted(_registry))}")
    return _registry[key]


@functools.lru_cache(maxsize=4)
def _instance(name: str, arch: str) -> BaseBackend:
    cls = backend_class(name)
    return cls(cls.make_target(arch))


def get_backend(name: str | None = None, *, arch: str = "") -> BaseBackend:
    """The backend instance of an architecture; by default the active backend and the detected target."""
    key = (name or compile_backend_name()).lower()
    return _instance(key, arch or backend_class(key).detect_target().arch)


def current_target() -> GPUTarget:
    """The target that a compile would have now."""
    return get_backend().target


def resolve_llvm_address_space(space: Any) -> int:
    """LLVM address space number of an address space, without detecting a device."""
    return backend_class().llvm_address_space(space)
