"""Registry of device runtimes and their pairing with compile backends.

A compile backend produces code for one kind of device runtime. The built-in pair is the backend
``rocm`` with the runtime ``rocm``; the simulator offers the same HIP interface and stands in for it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from .forking import fork_safe_lock

__all__ = [
    "COMPILE_BACKEND_TO_RUNTIME_KIND",
    "DeviceRuntime",
    "RocmDeviceRuntime",
    "SimDeviceRuntime",
    "ensure_compile_runtime_compatible",
    "ensure_compile_runtime_pairing_from_env",
    "get_device_runtime",
    "register_compile_runtime_mapping",
    "register_device_runtime",
]

#: Runtime kind that the code of each built-in backend needs.
COMPILE_BACKEND_TO_RUNTIME_KIND: dict[str, str] = {"rocm": "rocm"}

# Kinds that can run what is compiled for another kind.
_STANDS_IN_FOR = {"sim": "rocm"}

_lock = fork_safe_lock()
_extension_mapping: dict[str, str] = {}
_override: tuple[str, type[DeviceRuntime]] | None = None
_instance: DeviceRuntime | None = None


class DeviceRuntime(ABC):
    """The devices that compiled code runs on."""

    #: Name by which backends ask for this runtime.
    kind: str = ""

    @abstractmethod
    def device_count(self) -> int:
        """Number of devices, 0 if there are none or they cannot be asked."""

    @abstractmethod
    def current_device_id(self) -> int:
        """Index of the calling thread's device, 0 if it cannot be asked."""


class RocmDeviceRuntime(DeviceRuntime):
    """Devices of the HIP library in use."""

    kind = "rocm"

    def device_count(self) -> int:
        from . import _devices
        from ._errors import HipError

        try:
            return _devices.device_count()
        except HipError:
            return 0

    def current_device_id(self) -> int:
        from . import _devices
        from ._errors import HipError

        try:
            return _devices.current_device()
        except HipError:
            return 0


class SimDeviceRuntime(RocmDeviceRuntime):
    """The simulated device."""

    kind = "sim"


_BUILTIN: dict[str, type[DeviceRuntime]] = {"rocm": RocmDeviceRuntime, "sim": SimDeviceRuntime}


def get_device_runtime() -> DeviceRuntime:
    """The process's device runtime, created on first use after checking its pairing with the backend.

    Raises RuntimeError if kind and backend do not fit, ValueError for an unknown kind.
    """
    global _instance
    with _lock:
        if _instance is None:
            ensure_compile_runtime_pairing_from_env(os.environ.get("FLYDSL_COMPILE_BACKEND") or "rocm")
            _instance = _runtime_class()()
        return _instance


def register_device_runtime(cls: type[DeviceRuntime], *, kind: str | None = None, force: bool = False) -> None:
    """Use ``cls`` as the process's device runtime, under ``kind`` (default: ``cls.kind``).

    Without ``force`` raises RuntimeError if a runtime was created already, ValueError if another
    class is registered.
    """
    global _override, _instance
    with _lock:
        if not force and _instance is not None:
            raise RuntimeError("a device runtime is in use already; register before first use, or pass force=True")
        if not force and _override is not None:
            raise ValueError(f"device runtime {_override[0]!r} is registered already; pass force=True to replace it")
        name = kind or cls.kind
        if not name:
            raise ValueError("a device runtime needs a kind")
        _override = (name, cls)
        _instance = None


def register_compile_runtime_mapping(backend: str, kind: str) -> None:
    """Declare that code of compile backend ``backend`` needs a device runtime of ``kind``."""
    with _lock:
        _extension_mapping[backend.lower()] = kind


def ensure_compile_runtime_pairing_from_env(backend: str) -> None:
    """Check the configured runtime kind against ``backend`` without creating a runtime.

    Raises ValueError for a backend without a runtime kind, RuntimeError if the kinds differ.
    """
    _check_pairing(backend, _configured_kind())


def ensure_compile_runtime_compatible(backend: str, *, runtime: DeviceRuntime | None = None) -> None:
    """Check ``runtime`` (default: the process's) against ``backend``; errors as above."""
    _check_pairing(backend, (get_device_runtime() if runtime is None else runtime).kind)


def _check_pairing(backend: str, kind: str) -> None:
    expected = _extension_mapping.get(backend.lower()) or COMPILE_BACKEND_TO_RUNTIME_KIND.get(backend.lower())
    if expected is None:
        raise ValueError(f"compile backend {backend!r} has no device runtime kind; register_compile_runtime_mapping()")
    if expected not in (kind, _STANDS_IN_FOR.get(kind)):
        raise RuntimeError(f"compile backend {backend!r} requires device runtime kind {expected!r}, but it is {kind!r}")


def _environment_kind() -> str:
    return os.environ.get("FLYDSL_RUNTIME_KIND", "").strip().lower()


def _configured_kind() -> str:
    return _override[0] if _override is not None else _environment_kind() or "rocm"


def _runtime_class() -> type[DeviceRuntime]:
    if _override is not None:
        return _override[1]
    configured = _environment_kind()
    if not configured:
        from . import _provider

        configured = _provider.kind()
    if configured not in _BUILTIN:
        raise ValueError(f"Unknown FLYDSL_RUNTIME_KIND {configured!r}: expected one of {', '.join(_BUILTIN)}")
    return _BUILTIN[configured]
