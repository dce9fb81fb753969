"""Asking the simulator for profiles: a context manager, and the environment variables for whole programs."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .model import LaunchProfile
from .text import format_profile
from .trace import write_trace

COUNTERS, TIMING, TRACE = 1, 2, 4


class Profile:
    """Launches seen by :func:`profile`, in order; filled when the ``with`` block ends."""

    def __init__(self) -> None:
        self.launches: list[LaunchProfile] = []

    def __len__(self) -> int:
        return len(self.launches)

    def __getitem__(self, index: int) -> LaunchProfile:
        return self.launches[index]

    def table(self) -> str:
        """Every launch as text for people."""
        return format_profile(self.launches)

    def as_dict(self) -> list[dict[str, Any]]:
        """The derived figures of every launch, for JSON."""
        return [launch.as_dict() for launch in self.launches]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Everything as a JSON file, the input of ``python -m flydsl.runtime report``."""
        Path(path).write_text(json.dumps([launch.raw for launch in self.launches]))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Reads a file that :meth:`save` wrote. Raises ValueError for anything else."""
        try:
            raw = json.loads(Path(path).read_text())
            result = cls()
            result.launches = [LaunchProfile.from_json(entry) for entry in raw]
        except (json.JSONDecodeError, TypeError, KeyError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a saved profile: {error}") from None
        return result

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """A trace for https://ui.perfetto.dev or chrome://tracing. Needs ``profile(trace=True)``."""
        write_trace(self.launches, path)


def _library() -> ctypes.CDLL:
    """The simulator library that this process uses. Raises RuntimeError on a GPU."""
    from .. import _provider

    if _provider.kind() != "sim":
        raise RuntimeError("profiles come from the simulator; this process uses a GPU. Set FLYDSL_RUNTIME_KIND=sim, "
                           "or use rocprofv3 for the GPU")
    library = ctypes.CDLL(str(_provider.library_path()))
    try:
        library.flysimProfile.argtypes = [ctypes.c_uint]
        library.flysimProfile.restype = ctypes.c_uint
        library.flysimProfileTake.restype = ctypes.c_char_p
    except AttributeError:
        raise RuntimeError(f"{_provider.library_path()} is too old to profile") from None
    return library


def _take(library: ctypes.CDLL) -> list[LaunchProfile]:
    return [LaunchProfile.from_json(entry) for entry in json.loads(library.flysimProfileTake())]


@contextlib.contextmanager
def profile(*, timing: bool = False, trace: bool = False) -> Iterator[Profile]:
    """Profile the launches of the ``with`` block on the simulator.

    :param timing: also estimate cycles (slower: some work-groups are replayed through a model of a compute unit)
    :param trace: also keep the events of the replayed work-groups for :meth:`Profile.write_trace`; implies timing
    :raises RuntimeError: the process uses a GPU, or a profile is already being taken
    """
    from .. import synchronize

    library = _library()
    what = COUNTERS | (TIMING if timing or trace else 0) | (TRACE if trace else 0)
    before = library.flysimProfile(what)
    if before:
        library.flysimProfile(before)
        raise RuntimeError("a profile is already being taken (profile() does not nest; is FLYDSL_SIM_STATS set?)")
    library.flysimProfileTake()
    result = Profile()
    try:
        yield result
        synchronize()
    finally:
        library.flysimProfile(0)
        result.launches = _take(library)


def start_from_environment() -> None:
    """Profile the whole process if ``FLYDSL_SIM_STATS`` or ``FLYDSL_SIM_TRACE`` is set.

    ``FLYDSL_SIM_STATS=1`` prints tables on stderr when the process ends (``timing``: with estimated cycles);
    a name that ends in ``.json`` is a file to write instead. ``FLYDSL_SIM_TRACE=FILE.json`` writes a trace.
    """
    stats, trace = os.environ.get("FLYDSL_SIM_STATS", ""), os.environ.get("FLYDSL_SIM_TRACE", "")
    if stats in ("", "0") and not trace:
        return
    library = _library()
    timing = trace or stats == "timing" or stats.endswith(".json")
    library.flysimProfile(COUNTERS | (TIMING if timing else 0) | (TRACE if trace else 0))

    def finish() -> None:
        library.flysimProfile(0)
        result = Profile()
        result.launches = _take(library)
        if trace:
            result.write_trace(trace)
        if stats.endswith(".json"):
            result.save(stats)
        elif stats not in ("", "0"):
            print(result.table(), file=sys.stderr)

    atexit.register(finish)
