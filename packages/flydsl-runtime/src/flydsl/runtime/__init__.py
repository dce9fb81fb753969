"""Devices, launches and memory of FlyDSL.

Everything here is written against the HIP C API, which is resolved at run time: from the system's
``libamdhip64`` when an AMD GPU is visible, else from the simulator that comes with this package.
Importing the package touches no device; the library is chosen on first use (see :func:`kind`).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

# A development build keeps the native parts in a build tree of their own.
__path__ = extend_path(__path__, __name__)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ._devices import Device, current_device, device_count, device_info, set_device, synchronize
    from ._errors import HipError, HostAssertionError, PartialWordError, SimulatorError
    from ._native import Launcher
    from ._provider import kind, library_path, simulator_directory
    from .artifact import Artifact, ArtifactError, load_artifact
    from .checking import Access, CheckReport, Finding, checked, findings, unwritten
    from .device_runtime import (
        COMPILE_BACKEND_TO_RUNTIME_KIND,
        DeviceRuntime,
        RocmDeviceRuntime,
        SimDeviceRuntime,
        ensure_compile_runtime_compatible,
        ensure_compile_runtime_pairing_from_env,
        get_device_runtime,
        register_compile_runtime_mapping,
        register_device_runtime,
    )
    from .disassembly import disasm
    from .graphs import Graph
    from .inspection import ABANDON, CONTINUE, STEP, Breakpoint, WaveState, breakpoints
    from .inspection_console import console
    from .memory import (
        DeviceArray,
        TensorInfo,
        close_ipc,
        describe_tensor,
        free,
        ipc_handle,
        malloc,
        memcpy,
        memset,
        open_ipc,
    )
    from .profiling import Profile, profile
    from .streams import Event, Stream

# The submodule that defines each public name. Loading them on first access keeps
# `import flydsl.runtime` cheap and lets compile-only programs do without the native extension.
_HOME = {
    "Device": "_devices",
    "current_device": "_devices",
    "device_count": "_devices",
    "device_info": "_devices",
    "set_device": "_devices",
    "synchronize": "_devices",
    "HipError": "_errors",
    "HostAssertionError": "_errors",
    "PartialWordError": "_errors",
    "SimulatorError": "_errors",
    "Launcher": "_native",
    "kind": "_provider",
    "library_path": "_provider",
    "simulator_directory": "_provider",
    "Artifact": "artifact",
    "ArtifactError": "artifact",
    "load_artifact": "artifact",
    "Access": "checking",
    "CheckReport": "checking",
    "Finding": "checking",
    "checked": "checking",
    "findings": "checking",
    "unwritten": "checking",
    "COMPILE_BACKEND_TO_RUNTIME_KIND": "device_runtime",
    "DeviceRuntime": "device_runtime",
    "RocmDeviceRuntime": "device_runtime",
    "SimDeviceRuntime": "device_runtime",
    "ensure_compile_runtime_compatible": "device_runtime",
    "ensure_compile_runtime_pairing_from_env": "device_runtime",
    "get_device_runtime": "device_runtime",
    "register_compile_runtime_mapping": "device_runtime",
    "register_device_runtime": "device_runtime",
    "DeviceArray": "memory",
    "TensorInfo": "memory",
    "describe_tensor": "memory",
    "free": "memory",
    "close_ipc": "memory",
    "ipc_handle": "memory",
    "open_ipc": "memory",
    "disasm": "disassembly",
    "loop_estimate": "disassembly",
    "Graph": "graphs",
    "ABANDON": "inspection",
    "CONTINUE": "inspection",
    "STEP": "inspection",
    "Breakpoint": "inspection",
    "WaveState": "inspection",
    "breakpoints": "inspection",
    "console": "inspection_console",
    "Profile": "profiling",
    "profile": "profiling",
    "malloc": "memory",
    "memcpy": "memory",
    "memset": "memory",
    "Event": "streams",
    "Stream": "streams",
}

__all__ = [
    "Access",
    "CheckReport",
    "Finding",
    "checked",
    "findings",
    "ABANDON",
    "Artifact",
    "ArtifactError",
    "Breakpoint",
    "CONTINUE",
    "STEP",
    "breakpoints",
    "COMPILE_BACKEND_TO_RUNTIME_KIND",
    "Device",
    "DeviceArray",
    "DeviceRuntime",
    "Event",
    "Graph",
    "HipError",
    "HostAssertionError",
    "Launcher",
    "PartialWordError",
    "Profile",
    "RocmDeviceRuntime",
    "SimDeviceRuntime",
    "SimulatorError",
    "Stream",
    "TensorInfo",
    "WaveState",
    "close_ipc",
    "console",
    "current_device",
    "describe_tensor",
    "device_count",
    "device_info",
    "disasm",
    "ensure_compile_runtime_compatible",
    "ensure_compile_runtime_pairing_from_env",
    "free",
    "get_device_runtime",
    "ipc_handle",
    "kind",
    "library_path",
    "load_artifact",
    "loop_estimate",
    "malloc",
    "memcpy",
    "memset",
    "open_ipc",
    "profile",
    "register_compile_runtime_mapping",
    "register_device_runtime",
    "set_device",
    "simulator_directory",
    "synchronize",
    "unwritten",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
