"""Profiles as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .model import STALLS, LaunchProfile


def size(count: float) -> str:
    """A byte count with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def table(title: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of aligned columns under a title; none without rows."""
    if not rows:
        return []
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [f"  {title}"]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("    " + "  ".join(cells).rstrip())
    return lines


def _largest(values: Mapping[str, int], count: int) -> list[tuple[str, int]]:
    return sorted(values.items(), key=lambda kv: -kv[1])[:count]


def format_launch(launch: LaunchProfile, hot: int = 8) -> str:
    """One launch for people: ``hot`` source lines and instructions at most."""
    return "\n".join([*_resources(launch), *_counts(launch), *_estimates(launch), *_schedules(launch),
                      *_hot(launch, hot)])


def _resources(launch: LaunchProfile) -> list[str]:
    raw, occ = launch.raw, launch.occupancy()
    grid, block = "x".join(map(str, raw["grid"])), "x".join(map(str, raw["block"]))
    return [
        f"{launch.kernel}  grid {grid}, block {block}, simulated {launch.arch}",
        f"  registers {raw['vgprs']} VGPR ({raw['agprs']} of them AGPR), {raw['sgprs']} SGPR; LDS "
        f"{size(raw['lds_bytes'])}; scratch {size(raw['scratch_bytes'])}",
        f"  occupancy {occ['waves_per_simd']} waves per SIMD, {occ['groups_per_cu']} work-groups per compute unit "
        f"(limit: {occ['limit']})",
    ]


def _counts(launch: LaunchProfile) -> list[str]:
    total = sum(launch.mix().values())
    cycles, extra, degree = launch.lds_conflicts()
    sync = launch.synchronisation()
    facts = [("active lanes", f"{100 * launch.active_lanes():.1f} %"),
             ("divergent vector instructions", f"{100 * launch.divergence():.1f} %"),
             ("barriers, waits per wave", f"{sync['barriers_per_wave']:.1f}, {sync['waits_per_wave']:.1f}"),
             ("coalescing", f"{100 * launch.coalescing():.1f} %")]
    if cycles:
        facts.append(("LDS conflicts", f"{extra} of {cycles} clocks, degree {degree:.2f}, "
                      f"worst {launch.worst_lds_degree()}"))
    if launch.flops():
        facts.append(("matrix operations", f"{launch.flops():.3g}"))
    return [
        *table("wave instructions", [(unit, f"{n}", f"{100 * n / total:.1f} %") for unit, n in launch.mix().items()]),
        *table("bytes", [(k.replace("_", " "), size(v)) for k, v in launch.traffic().items() if v]),
        *table("shape", facts),
    ]


def _estimates(launch: LaunchProfile) -> list[str]:
    t = launch.timing
    if not t:
        return []
    lines = []
    if s := launch.sustained:
        again = f", {size(s.reread_bytes)} of it again" if s.reread_bytes > 0.01 * s.memory_bytes else ""
        dies = "" if s.l2_hit is None else f"; L2 of the dies has {100 * s.l2_hit:.0f} %"
        lines.append(f"  estimate, sustained (not a measurement): {s.microseconds:.1f} us at {s.clock_mhz:.0f} MHz, "
                     f"bound by {s.bound}; memory {size(s.memory_bytes)}{again}{dies}; power {100 * s.power:.0f} % of "
                     "the limit at the peak clock")
    lines.append(f"  estimate, at peak (not a measurement): {t.cycles:.0f} clocks, {t.microseconds:.1f} us; "
                 f"{t.sample_groups} work-groups replayed")
    if roof := launch.roofline():
        what = (f"{roof['intensity']:.3g} operations per byte, {roof['rate'] / 1e12:.3g} TFLOP/s, "
                if launch.flops() or launch.vector_flops() else "")
        lines.append(f"  roofline (estimate, at peak): {what}{roof['bandwidth'] / 1e9:.3g} GB/s; "
                     f"{100 * roof['share']:.1f} % of the {roof['bound']} roof")
    stalled = sum(t.stall.values())
    return [
        *lines,
        *table("busy (estimate)", [(k, f"{100 * v:.1f} %") for k, v in t.utilisation().items()]),
        *table("stalled wave clocks (estimate)", [(STALLS.get(k, k), f"{v}", f"{100 * v / stalled:.1f} %")
                                                  for k, v in _largest(t.stall, len(t.stall))]),
    ]


def _schedules(launch: LaunchProfile) -> list[str]:
    lines = []
    for loop in launch.schedules():
        counts = ", ".join(f"{kind} {n}" + (f" (the loop has {loop['found'].get(kind)})"
                                            if n != loop["found"].get(kind) else "")
                           for kind, n in loop["asked"].items())
        state = "no loop left" if loop["address"] < 0 else "STALE" if loop["stale"] else "fits"
        lines.append(f"  schedule hints at {loop['source']}: {state}; asked {counts}; "
                     f"{100 * loop['kept']:.0f} % of the order kept")
    return lines


def _hot(launch: LaunchProfile, count: int) -> list[str]:
    timed = bool(launch.timing)
    top = sorted(launch.instructions, key=lambda i: (sum(i.stall.values()) if timed else 0, i.issued), reverse=True)
    return [
        *table("source lines", [
            (place, f"{entry['issued']}x", ", ".join(f"{unit} {n}" for unit, n in _largest(entry["units"], 3)),
             size(entry["bytes"]) if entry["bytes"] else "", f"{entry['stalled']} stalled" if timed else "")
            for place, entry in list(launch.by_source().items())[:count]]),
        *table("hot instructions", [
            (i.text[:60], f"{i.issued}x", f"{sum(i.stall.values())} stalled" if timed else "", i.source)
            for i in top[:count]]),
    ]


def format_profile(launches: Sequence[LaunchProfile]) -> str:
    """All launches; repeated launches of one kernel with one grid are shown once, with their number."""
    if not launches:
        return "no kernel was launched on the simulator"
    groups: dict[tuple[str, str, str, str], list[LaunchProfile]] = {}
    for launch in launches:
        key = (launch.code, launch.kernel, str(launch.raw["grid"]), str(launch.raw["block"]))
        groups.setdefault(key, []).append(launch)
    texts = []
    for same in groups.values():
        note = f"\n  {len(same)} launches; the last one is shown" if len(same) > 1 else ""
        texts.append(format_launch(same[-1]) + note)
    return "\n\n".join(texts)
