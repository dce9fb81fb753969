"""The constants of the simulator's timing model, with their source and how far to trust them."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass

from ..coverage import require_simulated


@dataclass(frozen=True)
class Constant:
    """One number of the model. ``trust`` is "good" (documented, or implied by LLVM), "fair" (microbenchmarks that
    agree, LLVM's scheduling model) or "weak" (announcements, guesses)."""

    name: str
    unit: str
    value: float
    source: str
    trust: str


def constants(arch: str) -> tuple[Constant, ...]:
    """Every constant of an architecture, with those of ``FLYDSL_SIM_MODEL``.

    Raises ValueError for an architecture that is not simulated and for a file that is no such table.
    """
    from .._provider import SIMULATOR_LIBRARY, simulator_directory

    require_simulated(arch)
    library = ctypes.CDLL(str(simulator_directory() / SIMULATOR_LIBRARY))
    library.flysimTimingTable.restype = library.flysimLastErrorMessage.restype = ctypes.c_char_p
    text = library.flysimTimingTable(arch.encode())
    if text is None:
        raise ValueError(library.flysimLastErrorMessage().decode())
    return tuple(Constant(**entry) for entry in json.loads(text))
