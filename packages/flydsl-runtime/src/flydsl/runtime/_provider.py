"""Choice of the HIP library: the system's or the simulator.

``FLYDSL_RUNTIME_KIND`` is ``rocm`` or ``sim``. Unset, it is ``rocm`` if a GPU is visible and its
library loads, else ``sim`` with one line on standard error. ``FLYDSL_HIP_LIBRARY`` names the library file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _native
from ._errors import HipError
from .device import DEFAULT_ARCH, get_rocm_arch, get_rocm_device_count
from .forking import fork_safe_lock

__all__ = [
    "ensure_loaded",
    "kind",
    "library_info",
    "library_path",
    "requested_kind",
    "simulator_arch",
    "simulator_directory",
]

KINDS = ("rocm", "sim")
SIMULATOR_LIBRARY = "libamdhip64.so.7"

# Newest first: the order in which a loader without any hint should try them.
_SONAMES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")

_lock = fork_safe_lock()


def kind() -> str:
    """``"rocm"`` or ``"sim"``: what kernels run on. Chooses and loads the library on first use."""
    return "sim" if library_info()["is_simulator"] else "rocm"


def library_path() -> str:
    """File of the HIP library in use. Chooses and loads it on first use."""
    return library_info()["path"]


def library_info() -> dict[str, Any]:
    """Facts of the HIP library in use: path, is_simulator, simulator_version, hip_version."""
    ensure_loaded()
    info = _native.library_info()
    assert info is not None
    return info


def requested_kind() -> str:
    """The value of ``FLYDSL_RUNTIME_KIND``, "" if unset. Raises ValueError for an unknown one."""
    value = os.environ.get("FLYDSL_RUNTIME_KIND", "").strip().lower()
    if value and value not in KINDS:
        raise ValueError(f"Unknown FLYDSL_RUNTIME_KIND {value!r}: expected one of {', '.join(KINDS)}")
    return value


def simulator_directory() -> Path:
    """Folder that holds the simulator as ``libamdhip64.so.7``, for LD_LIBRARY_PATH.

    Raises HipError if this installation has no simulator.
    """
    from . import __path__ as portions

    # An editable install has the native parts in a folder that is no portion of the package.
    for portion in (*portions, Path(str(_native.__file__)).parent):
        directory = Path(str(portion)) / "_sim"
        if (directory / SIMULATOR_LIBRARY).exists():
            return directory
    raise HipError(f"the simulator library {SIMULATOR_LIBRARY} is not part of this installation")


def simulator_arch() -> str:
    """Architecture to simulate: ``FLYDSL_SIM_ARCH``, else ``ARCH``, else :func:`get_rocm_arch`."""
    arch = os.environ.get("FLYDSL_SIM_ARCH") or os.environ.get("ARCH") or get_rocm_arch() or DEFAULT_ARCH
    return re.split(r"[-:]", arch.strip().lower())[0]  # variants (gfx1250-strict) and features are the compiler's


def ensure_loaded() -> None:
    """Choose and load the HIP library, once per process.

    Raises ValueError for an unknown ``FLYDSL_RUNTIME_KIND`` or ``FLYDSL_SIM_STATS``, HipError if the library that was
    asked for cannot be used; a later call tries again.
    """
    if _native.library_info() is not None:
        return
    profiling = None
    if os.environ.get("FLYDSL_SIM_STATS") or os.environ.get("FLYDSL_SIM_TRACE"):
        from .profiling import environment_settings

        profiling = environment_settings()  # a wrong value stops the program here, not when it ends
    with _lock:
        if _native.library_info() is not None:
            return
        _load(requested_kind(), os.environ.get("FLYDSL_HIP_LIBRARY", ""))
    if profiling is not None:
        from .profiling import start_from_environment

        start_from_environment(profiling)


def _load(wanted: str, library: str) -> None:
    if library:
        _native.load_library(library, wanted, simulator_arch(), False)
    elif wanted == "rocm":
        _load_rocm(wanted)
    elif wanted == "sim":
        _load_simulator()
    else:
        _load_default()


def _load_default() -> None:
    """A visible GPU if it can be used, else the simulator, saying so."""
    reason = "no AMD GPU found"
    if get_rocm_device_count() > 0:
        try:
            _load_rocm("")
            return
        except HipError as error:
            reason = f"the GPU cannot be used ({error})"
    _load_simulator()
    print(
        f"flydsl: {reason}; kernels run on the simulator ({simulator_arch()}). "
        "FLYDSL_RUNTIME_KIND=sim silences this line.",
        file=sys.stderr,
    )


def _load_simulator() -> None:
    _native.load_library(str(simulator_directory() / SIMULATOR_LIBRARY), "sim", simulator_arch(), True)


def _load_rocm(wanted: str) -> None:
    """Load the first candidate that works; raise HipError with the reason of each otherwise."""
    problems = []
    for candidate in _rocm_candidates():
        try:
            _native.load_library(candidate, wanted, "", True)
            return
        except HipError as error:
            problems.append(str(error))
    raise HipError("no usable HIP library found:\n  " + "\n  ".join(problems))


def _rocm_candidates() -> Iterator[str]:
    """Where a HIP library may be, best first.

    One that the process has already mapped comes first: two HIP runtimes in one process do not know
    each other's allocations and streams. That of an installed torch comes next for the same reason.
    """
    seen: set[str] = set()
    for path in _existing_candidates():
        if path not in seen:
            seen.add(path)
            yield path
    yield from _SONAMES


def _existing_candidates() -> Iterator[str]:
    yield from _mapped_libraries()
    torch = importlib.util.find_spec("torch")
    directories = [Path(entry) / "lib" for entry in (torch.submodule_search_locations or ())] if torch else []
    roots = [os.environ.get("ROCM_PATH", ""), os.environ.get("ROCM_HOME", ""), "/opt/rocm"]
    directories += [Path(root) / "lib" for root in roots if root]
    for directory in directories:
        for name in _SONAMES:
            if (directory / name).exists():
                yield str(directory / name)


def _mapped_libraries() -> Iterator[str]:
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and os.path.basename(path[0]).startswith("libamdhip64.so"):
            yield path[0]
