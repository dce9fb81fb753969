"""What rocprofv3 measured: its kernel traces and counter files, as CSV or JSON.

``rocprofv3 --kernel-trace`` gives times, ``--pmc GRBM_GUI_ACTIVE FETCH_SIZE WRITE_SIZE`` clocks and memory traffic,
both with ``--output-format csv`` or ``json``. Times of theirs are nanoseconds, grids are work-items.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._names import plain_name

Key = tuple[str, int]  # name, work-items

_TIMES = ("Start_Timestamp", "End_Timestamp")
_GRID = tuple(f"Grid_Size_{axis}" for axis in "XYZ")


@dataclass
class Measured:
    """What was measured of the launches of one kernel with one grid: microseconds, and counters by name.

    ``counted_us`` are the times of the launches whose clocks were counted: counting slows a launch down.
    """

    microseconds: list[float] = field(default_factory=list)
    counters: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counted_us: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class _Launch:
    """A launch of a kernel trace, or one counter of a launch."""

    agent: str
    kernel: str
    items: int
    microseconds: float
    counter: str | None = None
    value: float = 0.0


def kernel_name(text: str) -> str:
    """A kernel's name without the suffix of its descriptor and without parameters."""
    return plain_name(text.strip().removesuffix(".kd")).split("(", 1)[0].split("<", 1)[0].rpartition(" ")[2]


def _number(text: Any, what: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{what} is {text!r}, not a number from 0")
    return value


def _microseconds(start: Any, end: Any) -> float:
    first, last = _number(start, "the start"), _number(end, "the end")
    if last <= first:
        raise ValueError(f"the launch ends at {end} and starts at {start}")
    return (last - first) / 1e3


def _csv(path: Path) -> Iterator[_Launch]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        columns = set(rows.fieldnames or ())
        grid = _GRID if "Grid_Size_X" in columns else ("Grid_Size",)
        counted = ("Counter_Name", "Counter_Value") if "Counter_Name" in columns else ()
        missing = [name for name in ("Kernel_Name", *_TIMES, *grid, *counted) if name not in columns]
        if missing:
            raise ValueError(f"no kernel trace or counters of rocprofv3: there is no column {', '.join(missing)}")
        for row in rows:
            try:
                if None in row or None in row.values():
                    raise ValueError("the row has another number of columns than the head")
                yield _Launch(row.get("Agent_Id") or "", row["Kernel_Name"],
                              math.prod(int(_number(row[name], name)) for name in grid),
                              _microseconds(*(row[name] for name in _TIMES)),
                              row["Counter_Name"] if counted else None,
                              _number(row["Counter_Value"], "Counter_Value") if counted else 0.0)
            except ValueError as error:
                raise ValueError(f"line {rows.line_num}: {error}") from None


def _json(path: Path) -> Iterator[_Launch]:
    try:
        for tool in json.loads(path.read_text(encoding="utf-8"))["rocprofiler-sdk-tool"]:
            names = {s["kernel_id"]: s.get("formatted_kernel_name") or s["kernel_name"] for s in tool["kernel_symbols"]}
            agents = {a["id"]["handle"]: f"Agent {a['node_id']}" for a in tool.get("agents", ())}
            counters = {c["id"]["handle"]: c["name"] for c in tool.get("counters", ())}

            def launch(info: Any, times: Any, counter: str | None = None, value: float = 0.0,
                       names: Any = names, agents: Any = agents) -> _Launch:
                handle = info.get("agent_id", {}).get("handle")
                return _Launch(agents.get(handle, "" if handle is None else str(handle)), names[info["kernel_id"]],
                               math.prod(int(_number(info["grid_size"][axis], "grid_size")) for axis in "xyz"),
                               _microseconds(times["start_timestamp"], times["end_timestamp"]), counter, value)

            for record in tool["buffer_records"]["kernel_dispatch"]:
                yield launch(record["dispatch_info"], record)
            for record in tool.get("callback_records", {}).get("counter_collection", ()):
                data = record["dispatch_data"]
                totals: dict[str, float] = defaultdict(float)
                for one in record["records"]:  # of each die and shader engine; the CSV has their sum
                    totals[counters[one["counter_id"]["handle"]]] += _number(one["value"], "a counter")
                for name, total in totals.items():
                    yield launch(data["dispatch_info"], data, name, total)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"no kernel trace or counters of rocprofv3: {type(error).__name__} {error}") from None


def _launches(path: Path, agent: str | None) -> list[_Launch]:
    """The launches of one agent. Raises ValueError if the file has several and none was chosen."""
    launches = list((_json if path.suffix == ".json" else _csv)(path))
    agents = sorted({launch.agent for launch in launches})
    if not launches:
        raise ValueError("there is no launch in it")
    if agent is None and len(agents) > 1:
        raise ValueError(f"it has launches of several agents; choose one with --agent: {', '.join(agents)}")
    if agent is not None and agent not in agents:
        raise ValueError(f"it has no launch of agent {agent!r}; there are: {', '.join(agents)}")
    return [launch for launch in launches if agent in (None, launch.agent)]


def measurements(files: Iterable[str | Path], agent: str | None = None) -> dict[Key, Measured]:
    """What the files have, by kernel name and work-items, of one agent (as they name it).

    Raises ValueError, with the name of the file, for one of another form, with values that no launch has, without any
    launch, or with launches of several agents when none was chosen.
    """
    found: dict[Key, Measured] = defaultdict(Measured)
    for file in map(Path, files):
        try:
            launches = _launches(file, agent)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{file}: {error}") from None
        for launch in launches:
            entry = found[kernel_name(launch.kernel), launch.items]
            if launch.counter is None:
                entry.microseconds.append(launch.microseconds)
                continue
            entry.counters[launch.counter].append(launch.value)
            if launch.counter == "GRBM_GUI_ACTIVE":
                entry.counted_us.append(launch.microseconds)
    return dict(found)
