"""The timing model against a real machine: what rocprofv3 measured beside a profile of the same launches.

Launches are matched by the kernel's name and its number of work-items. What deviates is attributed to what bounds the
launch in the model, and the constant that stands for it is fitted; the rest is only told.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .model import LaunchProfile
from .model_constants import constants
from .rocprofv3 import Key, Measured, kernel_name

#: The weights of the power model that are fitted together, since a trace does not tell them apart.
_POWER = ("powerMatrixWide", "powerMatrix16", "powerMatrix8", "powerMatrix4", "powerVector")


@dataclass(frozen=True)
class Deviation:
    """One kernel in both. ``ratio`` is the model's sustained time over the measured one (below 1: too optimistic).

    ``clock_mhz`` and ``memory_bytes`` are measured, None without the counters; the model's are beside them.
    """

    kernel: str
    arch: str
    launches: int
    measured_us: float
    sustained_us: float
    peak_us: float
    ratio: float
    bound: str
    clock_mhz: float | None
    model_clock_mhz: float
    memory_bytes: float | None
    model_memory_bytes: float


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _clock(kernel: str, arch: str, active: float | None, during: float | None) -> float | None:
    """MHz under load, from the clocks that the graphics blocks were active. Raises ValueError above the peak clock.

    Each die has such a block, and rocprofv3 adds them up.
    """
    if not active or not during:
        return None
    known = {c.name: c.value for c in constants(arch)}
    highest = 1.1 * known["clockMhz"]  # boards with a higher clock are sold
    for clock in (active / during, active / during / known["dies"]):
        if clock <= highest:
            return clock
    raise ValueError(f"{kernel}: GRBM_GUI_ACTIVE says {active:g} clocks in {during:g} us, {clock:.0f} MHz; "
                     f"{arch} has {known['clockMhz']:g} MHz at most")


def compare(launches: Iterable[LaunchProfile], measured: dict[Key, Measured]) -> list[Deviation]:
    """The launches that are in both, the first of each kernel and grid; the median of what was measured.

    Raises ValueError for counted clocks that the architecture of the profile cannot have.
    """
    out: dict[Key, Deviation] = {}
    for launch in launches:
        key = (kernel_name(launch.kernel), math.prod(launch.raw["grid"]) * math.prod(launch.raw["block"]))
        if key in out or key not in measured or launch.timing is None or launch.sustained is None:
            continue
        entry, s = measured[key], launch.sustained
        us = _median(entry.microseconds) or _median(entry.counted_us)
        if not us:
            continue
        clock = _clock(launch.kernel, launch.arch, _median(entry.counters.get("GRBM_GUI_ACTIVE", [])),
                       _median(entry.counted_us))
        sizes = [_median(entry.counters.get(name, [])) for name in ("FETCH_SIZE", "WRITE_SIZE")]  # in KiB
        out[key] = Deviation(
            launch.kernel, launch.arch, max(len(entry.microseconds), 1), us, s.microseconds, launch.timing.microseconds,
            s.microseconds / us, s.bound, clock, s.clock_mhz,
            1024 * sum(size or 0.0 for size in sizes) if any(sizes) else None, s.memory_bytes)
    return list(out.values())


def fit(deviations: Sequence[Deviation]) -> dict[str, dict[str, float]]:
    """The constants by architecture that bring the model to the measurements; only those that the launches tell of.

    Kernels that are bound by memory or the memory-side cache give its achieved bandwidth, those whose clock falls the
    power of the units, those that are bound by the launch its cost. A kernel that is bound by none of them changes
    nothing.
    """
    out: dict[str, dict[str, float]] = {}
    for arch in sorted({d.arch for d in deviations}):
        known = {c.name: c.value for c in constants(arch)}
        own = [d for d in deviations if d.arch == arch]
        launch = known["launchMicroseconds"]
        fitted: dict[str, float] = {}
        waits = [d.measured_us - (d.sustained_us - launch) for d in own if d.bound == "launch"]
        if waits:
            launch = fitted["launchMicroseconds"] = max(0.0, statistics.median(waits))

        def ratios(bound: str, own: list[Deviation] = own, launch: float = launch, known: Any = known) -> list[float]:
            return [(d.sustained_us - known["launchMicroseconds"]) / max(1e-3, d.measured_us - launch)
                    for d in own if d.bound == bound]

        if memory := ratios("memory"):
            fitted["memoryAchieved"] = min(1.0, known["memoryAchieved"] * statistics.median(memory))
        if side := ratios("memory-side cache"):
            fitted["sideBytesPerSec"] = known["sideBytesPerSec"] * statistics.median(side)
        # power - idle is (1 - idle) / share ** exponent, and the share of the clock follows the time.
        shares = [d.clock_mhz / d.model_clock_mhz for d in own if d.bound == "clock" and d.clock_mhz]
        if slower := shares or ratios("clock"):
            factor = statistics.median(slower) ** -known["powerExponent"]
            fitted.update({name: known[name] * factor for name in _POWER})
        out[arch] = {name: float(f"{value:.4g}") for name, value in fitted.items()}
    return out


def format_comparison(deviations: Sequence[Deviation], fitted: dict[str, dict[str, float]]) -> str:
    """A table for people: the deviation of each kernel, and the constants that fit."""
    lines = [f"{'kernel':40} {'arch':8} {'measured us':>11} {'sustained':>10} {'ratio':>6} {'at peak':>10}  bound"]
    for d in sorted(deviations, key=lambda d: d.ratio):
        notes = ""
        if d.clock_mhz:
            notes += f"; clock {d.clock_mhz:.0f} MHz, model {d.model_clock_mhz:.0f}"
        if d.memory_bytes:
            notes += f"; memory {d.memory_bytes / 1e6:.1f} MB, model {d.model_memory_bytes / 1e6:.1f}"
        lines.append(f"{kernel_name(d.kernel)[:40]:40} {d.arch:8} {d.measured_us:11.2f} {d.sustained_us:10.2f} "
                     f"{d.ratio:6.2f} {d.peak_us:10.2f}  {d.bound}{notes}")
    ratios = [d.ratio for d in deviations]
    lines.append(f"{len(ratios)} kernels, median ratio {statistics.median(ratios):.2f}, "
                 f"from {min(ratios):.2f} to {max(ratios):.2f}")
    for arch, values in fitted.items():
        known = {c.name: c.value for c in constants(arch)}
        if not values:
            lines.append(f"{arch}: no constant to fit: no kernel is bound by memory, memory-side cache, clock or "
                         "launch")
        lines += [f"{arch} {name:24} {known[name]:g} -> {value:g}" for name, value in values.items()]
    return "\n".join(lines)
