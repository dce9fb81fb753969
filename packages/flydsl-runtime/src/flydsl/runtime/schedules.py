"""What a compiler found out about the hand-written instruction schedules of its kernels, for profiles to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_known: dict[tuple[str, str], list[dict[str, Any]]] = {}


def register(arch: str, schedules: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Remember the schedules of kernels.

    :param arch: architecture they were compiled for (a target id will do)
    :param schedules: kernel name -> loops with scheduling hints, each with ``source`` (``file:line``), ``address`` of
        the loop in the code object (-1: no loop left), ``asked`` and ``found`` (kind -> count), ``order`` and
        ``actual`` ((kind, count) in order), ``kept`` (0..1) and ``stale``
    """
    for kernel, loops in schedules.items():
        _known[arch.split(":")[0], kernel] = [dict(loop) for loop in loops]


def of_kernel(arch: str, kernel: str) -> list[dict[str, Any]]:
    """The loops with hints of a kernel; empty if it has none or nobody told."""
    return _known.get((arch.split(":")[0], kernel), [])
