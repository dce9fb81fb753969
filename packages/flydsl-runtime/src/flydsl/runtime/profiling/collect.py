"""Asking the simulator for profiles: a context manager, and the environment variables for whole programs."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import flydsl.runtime as runtime  # its public names, which are loaded when they are used

from .. import schedules
from .._handed_out import handed_out
from . import totals
from .model import LaunchProfile
from .sources import with_texts
from .text import format_profile
from .trace import write_trace

COUNTERS, TIMING, TRACE = 1, 2, 4
MAX_EVENTS = 400_000


@dataclass(frozen=True)
class Selection:
    """What a trace shows: the waves of one work-group ``(x, y, z)``, or those that the round-robin dispatcher gives to
    a compute unit; at most ``max_events`` instructions of all launches together (a file of about 250 bytes each)."""

    workgroup: tuple[int, int, int] | None = None
    compute_unit: int = 0
    max_events: int = MAX_EVENTS

    def __post_init__(self) -> None:
        group = self.workgroup
        if group is not None and (len(group) != 3 or not all(isinstance(v, int) and 0 <= v < 2**31 for v in group)):
            raise ValueError(f"a work-group is three numbers from 0, got {group!r}")
        if self.compute_unit < 0 or self.max_events < 1:
            raise ValueError("a compute unit counts from 0, and a trace has at least one event")


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

    def where(self, condition: Callable[[LaunchProfile], bool]) -> Profile:
        """The launches of which a condition holds."""
        result = Profile()
        result.launches = [launch for launch in self.launches if condition(launch)]
        return result

    def by_kernel(self) -> list[totals.KernelTotal]:
        """Launches and estimated microseconds of each kernel, longest first. Needs ``profile(timing=True)``."""
        return totals.by_kernel(self.launches)

    def summary(self, title: str = "") -> str:
        """:meth:`by_kernel` as text for people, under a title."""
        return totals.text(self.by_kernel(), title)

    def chart(self, title: str = "") -> str:
        """:meth:`by_kernel` as a picture (SVG), under a title."""
        return totals.picture(self.by_kernel(), title)

    def report(self, before: Profile | None = None) -> str:
        """The report page (HTML) of all launches; with an earlier run, both beside each other."""
        from .report import render

        return render(self.launches, None if before is None else before.launches)

    def changes(self, before: Profile) -> str:
        """What changed since an earlier run, as text for people: of each kernel the estimated times and stalls by cause
        (of ``profile(timing=True)``), and the counts, before and after."""
        from .comparison import changes

        return changes(before.launches, self.launches)

    def _repr_html_(self) -> str:
        """What a notebook shows: the report, in a frame of its own."""
        import html

        return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{html.escape(self.report())}"></iframe>'

    def as_dict(self) -> list[dict[str, Any]]:
        """The derived figures of every launch, for JSON."""
        return [launch.as_dict() for launch in self.launches]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Everything as a JSON file, with the source lines: the input of ``python -m flydsl.runtime report``."""
        Path(path).write_text(json.dumps(list(with_texts(self.launches))), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Reads a file that :meth:`save` wrote. Raises ValueError for anything else."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(raw, list):
                raise TypeError("it is no list of launches")
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
    if runtime.kind() != "sim":
        raise RuntimeError("profiles come from the simulator; this process uses a GPU. Set FLYDSL_RUNTIME_KIND=sim, "
                           "or use rocprofv3 for the GPU")
    return _opened(str(runtime.library_path()))


@cache
def _opened(path: str) -> ctypes.CDLL:
    """The library with the types of its calls; making them takes longer than a small launch."""
    library = ctypes.CDLL(path)
    try:
        library.flysimProfile.argtypes = [ctypes.c_uint]
        library.flysimProfile.restype = ctypes.c_uint
        library.flysimProfileSelect.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64, ctypes.c_uint64]
        library.flysimProfileSelect.restype = None
    except AttributeError:
        raise RuntimeError(f"{path} is too old to profile") from None
    return library


def _start(library: ctypes.CDLL, what: int, selection: Selection) -> int:
    """Starts to profile; returns what was collected before."""
    group = None if selection.workgroup is None else (ctypes.c_int64 * 3)(*selection.workgroup)
    before = int(library.flysimProfile(what))
    if not before:
        library.flysimProfileSelect(group, selection.compute_unit, selection.max_events)
    return before


def _take(library: ctypes.CDLL) -> list[LaunchProfile]:
    launches = handed_out(library, "flysimProfileTake")
    for entry in launches:
        if found := schedules.of_kernel(entry["arch"], entry["kernel"], entry["code"]):
            entry["schedules"] = found
    return [LaunchProfile(entry) for entry in launches]


@contextlib.contextmanager
def profile(
    *, timing: bool = False, trace: bool = False, workgroup: tuple[int, int, int] | None = None,
    compute_unit: int = 0, max_events: int = MAX_EVENTS,
) -> Iterator[Profile]:
    """Profile the launches of the ``with`` block on the simulator.

    :param timing: also estimate cycles (slower: some work-groups are replayed through a model of a compute unit)
    :param trace: also keep the events of the replayed work-groups for :meth:`Profile.write_trace`; implies timing
    :param workgroup: of the grid; the trace shows its waves only (default: those that ran on ``compute_unit``)
    :param compute_unit: whose work-groups the model replays, in the order of a round-robin dispatcher
    :param max_events: most instructions in the trace, of all launches together; the rest is dropped and said so
    :raises RuntimeError: the process uses a GPU, or a profile is already being taken
    :raises ValueError: no such work-group, compute unit or bound
    """
    from .. import synchronize

    selection = Selection(workgroup, compute_unit, max_events)
    library = _library()
    what = COUNTERS | (TIMING if timing or trace else 0) | (TRACE if trace else 0)
    before = _start(library, what, selection)
    if before:
        library.flysimProfile(before)
        raise RuntimeError("a profile is already being taken (profile() does not nest; is FLYDSL_SIM_STATS set?)")
    handed_out(library, "flysimProfileTake")
    result = Profile()
    try:
        yield result
        synchronize()
    finally:
        library.flysimProfile(0)
        result.launches = _take(library)


@dataclass(frozen=True)
class EnvironmentSettings:
    """What the ``FLYDSL_SIM_STATS`` and ``FLYDSL_SIM_TRACE`` variables ask for."""

    table: bool
    as_json: bool
    timing: bool
    stats_file: Path | None
    trace_file: Path | None
    selection: Selection


def environment_settings() -> EnvironmentSettings | None:
    """The settings of a whole process, or None if nothing is asked for.

    ``FLYDSL_SIM_STATS``: ``1`` or ``counters`` prints tables on stderr when the process ends, ``timing`` with estimated
    cycles, ``json`` the derived figures as JSON; a name that ends in ``.json`` is a file for everything.
    ``FLYDSL_SIM_TRACE=FILE.json`` writes a trace; ``FLYDSL_SIM_TRACE_WORKGROUP=x,y,z`` or ``FLYDSL_SIM_TRACE_CU=n``
    chooses what it shows, ``FLYDSL_SIM_TRACE_EVENTS=n`` bounds it.

    :raises ValueError: an unknown value, or a file that cannot be written
    """
    stats, trace = os.environ.get("FLYDSL_SIM_STATS", "").strip(), os.environ.get("FLYDSL_SIM_TRACE", "").strip()
    if stats in ("", "0") and trace in ("", "0"):
        return None
    to_file = stats.endswith(".json")
    if stats not in ("", "0", "1", "counters", "timing", "json") and not to_file:
        raise ValueError(f"FLYDSL_SIM_STATS={stats!r}: 0, 1, counters, timing, json or the name of a .json file")
    return EnvironmentSettings(
        table=stats in ("1", "counters", "timing"), as_json=stats == "json",
        timing=stats in ("timing", "json") or to_file,
        stats_file=writable("FLYDSL_SIM_STATS", stats) if to_file else None,
        trace_file=writable("FLYDSL_SIM_TRACE", trace) if trace not in ("", "0") else None,
        selection=_selection_from_environment(),
    )


def writable(variable: str, name: str) -> Path:
    """The file, absolute: the program may change its folder. Raises ValueError if it cannot be written."""
    path = Path(name).absolute()
    if path.is_dir():
        raise ValueError(f"{variable}={name}: is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{variable}={name}: the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{variable}={name}: cannot be written")
    return path


def _selection_from_environment() -> Selection:
    def number(variable: str, default: int) -> int:
        text = os.environ.get(variable, "").strip() or str(default)
        if not text.isdigit():
            raise ValueError(f"{variable}={text}: a number from 0")
        return int(text)

    group = os.environ.get("FLYDSL_SIM_TRACE_WORKGROUP", "").strip()
    parts = group.split(",") if group else []
    if parts and (len(parts) > 3 or not all(p.strip().isdigit() for p in parts)):
        raise ValueError(f"FLYDSL_SIM_TRACE_WORKGROUP={group}: x,y,z of a work-group")
    x, y, z = (*map(int, parts), 0, 0, 0)[:3]
    try:
        return Selection((x, y, z) if parts else None, number("FLYDSL_SIM_TRACE_CU", 0),
                         number("FLYDSL_SIM_TRACE_EVENTS", MAX_EVENTS))
    except ValueError as error:
        raise ValueError(f"FLYDSL_SIM_TRACE_*: {error}") from None


def start_from_environment(settings: EnvironmentSettings) -> None:
    """Profile until the process ends, then write what :func:`environment_settings` found."""
    library = _library()
    timing = settings.timing or settings.trace_file is not None
    what = COUNTERS | (TIMING if timing else 0) | (TRACE if settings.trace_file else 0)
    _start(library, what, settings.selection)

    def finish() -> None:
        from .. import HipError, synchronize

        # A launch that failed has been reported where it was made.
        with contextlib.suppress(HipError):
            synchronize()
        library.flysimProfile(0)
        result = Profile()
        result.launches = _take(library)
        if settings.trace_file:
            result.write_trace(settings.trace_file)
        if settings.stats_file:
            result.save(settings.stats_file)
        if settings.as_json:
            print(json.dumps(result.as_dict()), file=sys.stderr)
        elif settings.table:
            print(result.table(), file=sys.stderr)

    atexit.register(finish)
