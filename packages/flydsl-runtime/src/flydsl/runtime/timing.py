"""Time of launches: HIP events on a GPU, the estimate of the timing model on the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["EventTimer", "SimulatorTimer", "Timer", "default_timer", "set_default_timer"]


class Timer(Protocol):
    """Measures what a call puts on a stream.

    Attributes:
        estimate: the times are of a model and not measured.
        label: what the times are, for reports.
    """

    estimate: bool
    label: str

    def measure(self, call: Callable[[], Any], repeat: int, stream: int) -> list[float]:
        """Milliseconds of ``repeat`` calls on a stream (0: the default stream)."""
        ...


class EventTimer:
    """HIP events around each call."""

    estimate = False
    label = "HIP events"

    def measure(self, call: Callable[[], Any], repeat: int, stream: int) -> list[float]:
        """Milliseconds of each call. Raises HipError if the device reports an error."""
        from .streams import Event

        pairs = []
        for _ in range(repeat):
            start, end = Event(), Event()
            start.record(stream)
            call()
            end.record(stream)
            pairs.append((start, end))
        for _, end in pairs:
            end.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]


class SimulatorTimer:
    """Estimated time of the simulated kernels. The model has no noise, so one call tells all.

    :param reading: "sustained" (what a machine keeps up, with the time between launches) or "peak"
    """

    estimate = True

    def __init__(self, reading: str = "sustained") -> None:
        if reading not in ("sustained", "peak"):
            raise ValueError(f"reading {reading!r}: sustained or peak")
        self._reading = reading
        self.label = f"estimate of the simulator's timing model, {'at ' * (reading == 'peak')}{reading}"

    def measure(self, call: Callable[[], Any], repeat: int, stream: int) -> list[float]:
        """Estimated milliseconds of one call, ``repeat`` times.

        Raises HipError if a launch fails, RuntimeError while the process takes another profile.
        """
        from .profiling import profile

        with profile(timing=True) as found:
            call()
        readings = (launch.timing if self._reading == "peak" else launch.sustained or launch.timing
                    for launch in found.launches)
        return [sum(reading.microseconds for reading in readings if reading) / 1e3] * repeat


class _HostTimer(EventTimer):
    """Events of a simulator library without a timing model: the time that simulating took."""

    label = "time of the simulation on this CPU, which says nothing of a GPU"
    estimate = True


def _has_timing_model() -> bool:
    from ._provider import library_path

    return hasattr(ctypes.CDLL(library_path()), "flysimProfileTake")


_chosen: Timer | None = None


def set_default_timer(timer: Timer | None) -> None:
    """Use this timer from now on; None goes back to the choice by device."""
    global _chosen
    _chosen = timer


def default_timer() -> Timer:
    """The timer of the device in use: events on a GPU, the timing model on the simulator."""
    from ._provider import kind

    if _chosen is not None:
        return _chosen
    if kind() != "sim":
        return EventTimer()
    return SimulatorTimer() if _has_timing_model() else _HostTimer()
