"""Chrome/Perfetto traces of the work-groups that the timing model replayed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .model import STALLS, LaunchProfile


def _unit_track(unit: str, text: str, simd: int) -> tuple[int, str] | None:
    """Number and name of the track of the unit that executes an instruction."""
    if unit in ("valu", "trans", "matrix"):
        return 10 + 2 * simd + (unit == "matrix"), f"SIMD {simd} {'matrix unit' if unit == 'matrix' else 'vector ALU'}"
    if text.startswith("tensor_"):
        return 32 + simd // 2, f"tensor data mover {simd // 2}"
    return {"lds": (30, "LDS"), "vmem_load": (31, "L1, vector memory"),
            "vmem_store": (31, "L1, vector memory")}.get(unit)


def trace_events(launch: LaunchProfile, pid: int) -> list[dict[str, Any]]:
    """Trace events of one launch: a track per wave with instructions and stalls, and one per unit.

    Times are microseconds at the model's clock. Raises ValueError if the profile has no events.
    """
    raw = launch.raw
    if "events" not in raw:
        raise ValueError("this profile has no trace: take it with profile(trace=True) or FLYDSL_SIM_TRACE")
    scale = 1 / raw["machine"]["clock_mhz"]
    texts, units = raw["event_text"], {i.text: i.unit for i in launch.instructions}
    causes = ["none", *STALLS]
    out: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, "name": "process_name",
         "args": {"name": f"{launch.kernel} on simulated {launch.arch} (estimate, one compute unit)"}}]
    named: set[int] = set()
    per_group = raw["waves_per_group"]
    for inst, group, wave, simd, start, end, stalled, cause, *busy in raw["events"]:
        text = texts[str(inst)]
        unit = units.get(text, "")
        tid = 1000 + group * per_group + wave
        if tid not in named:
            named.add(tid)
            out.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name",
                        "args": {"name": f"work-group {group} wave {wave} (SIMD {simd})"}})
        if stalled:
            out.append({"ph": "X", "pid": pid, "tid": tid, "ts": (start - stalled) * scale, "dur": stalled * scale,
                        "cat": "stall", "name": f"stall: {STALLS.get(causes[cause], causes[cause])}",
                        "args": {"before": text}})
        mark = {"ph": "i", "s": "t"} if unit == "barrier" else {"ph": "X", "dur": (end - start) * scale}
        out.append({**mark, "pid": pid, "tid": tid, "ts": start * scale, "cat": unit, "name": text})
        from_, to = busy or (start, end)
        if to and (track := _unit_track(unit, text, simd)):
            number, name = track
            if number not in named:
                named.add(number)
                out.append({"ph": "M", "pid": pid, "tid": number, "name": "thread_name", "args": {"name": name}})
            out.append({"ph": "X", "pid": pid, "tid": number, "ts": from_ * scale, "dur": (to - from_) * scale,
                        "cat": unit, "name": text})
    return out


def write_trace(launches: Sequence[LaunchProfile], path: str | os.PathLike[str]) -> None:
    """Write the events of all launches to a JSON file."""
    events = [event for pid, launch in enumerate(launches, 1) for event in trace_events(launch, pid)]
    truncated = any(launch.raw.get("events_truncated") for launch in launches)
    Path(path).write_text(json.dumps({
        "traceEvents": events, "displayTimeUnit": "ns",
        "otherData": {"note": "cycle estimates of the FlyDSL simulator, not a hardware measurement",
                      "truncated": truncated},
    }), encoding="utf-8")
