"""What a compiler found out about the hand-written instruction schedules of its kernels, for profiles to show."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

_known: dict[tuple[str, str, str], list[dict[str, Any]]] = {}


def code_digest(code_object: bytes) -> str:
    """What tells a code object from others in the profiles of the simulator: the start of its SHA-256."""
    return hashlib.sha256(code_object).hexdigest()[:16]


def register(arch: str, schedules: Mapping[str, Sequence[Mapping[str, Any]]], code_object: bytes | None = None) -> None:
    """Remember the schedules of kernels.

    :param arch: architecture they were compiled for (a target id will do)
    :param schedules: kernel name -> loops with scheduling hints, each with ``source`` (``file:line``), ``address`` of
        the loop in the code object (-1: no loop left), ``asked`` and ``found`` (kind -> count), ``order`` and
        ``actual`` ((kind, count) in order), ``kept`` (0..1) and ``stale``
    :param code_object: the one that they are in; None: any that has kernels of these names, and none of its own
        schedules
    """
    code = "" if code_object is None else code_digest(code_object)
    for kernel, loops in schedules.items():
        _known[arch.split(":")[0], code, kernel] = [dict(loop) for loop in loops]


def of_kernel(arch: str, kernel: str, code: str = "") -> list[dict[str, Any]]:
    """The loops with hints of a kernel of the code object with a digest; empty if it has none or nobody told."""
    arch = arch.split(":")[0]
    return _known.get((arch, code, kernel)) or _known.get((arch, "", kernel), [])
