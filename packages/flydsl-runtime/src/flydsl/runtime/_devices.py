"""Devices: how many, which one is current, what they can do."""

from __future__ import annotations

from dataclasses import dataclass

from . import _native
from ._provider import kind

__all__ = ["Device", "current_device", "device_count", "device_info", "set_device", "synchronize"]


@dataclass(frozen=True)
class Device:
    """Facts of one device. A number the HIP library does not report is ``None``."""

    index: int
    kind: str
    """``"rocm"`` or ``"sim"``."""
    name: str
    arch: str
    """Such as ``"gfx942"``."""
    warp_size: int | None
    compute_units: int | None
    max_threads_per_block: int | None
    lds_bytes: int | None
    """LDS bytes a work-group can have."""
    clock_khz: int | None
    total_memory: int
    """Bytes of device memory."""


def device_count() -> int:
    """Number of devices that kernels can run on."""
    return _native.device_count()


def current_device() -> int:
    """Index of the calling thread's device."""
    return _native.current_device()


def set_device(index: int) -> None:
    """Make ``index`` the calling thread's device. Raises HipError if there is no such device."""
    _native.set_device(index)


def device_info(index: int | None = None) -> Device:
    """Facts of device ``index`` (default: the current one). Raises HipError if there is none."""
    device = current_device() if index is None else index
    return Device(index=device, kind=kind(), **_native.device_info(device))


def synchronize() -> None:
    """Wait until all work of the current device is done. Raises HipError if some of it failed."""
    _native.synchronize()
