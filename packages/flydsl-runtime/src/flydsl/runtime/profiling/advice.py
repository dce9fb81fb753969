"""What to look at next, from the figures of one launch: the costliest first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .model import LaunchProfile


@dataclass(frozen=True)
class Advice:
    """One observation with its remedy. ``cost`` is the share of the launch's time that it may explain (0..1), an
    estimate that only orders the list; ``source`` is the line that it is about, or ""."""

    cost: float
    text: str
    remedy: str
    source: str = ""


def advise(launch: LaunchProfile) -> list[Advice]:
    """The observations that apply, costliest first; empty where nothing stands out."""
    found = [*_size(launch), *_stalls(launch), *_memory(launch), *_lanes(launch), *_registers(launch),
             *_code(launch)]
    found.sort(key=lambda a: -a.cost)
    return [*_lines(launch), *found]


def _lines(launch: LaunchProfile) -> list[Advice]:
    if any(i.source for i in launch.instructions):
        return []
    return [Advice(1.0, "the code object has no source lines",
                   "compile with FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1 (it is on by itself where kernels run on the "
                   "simulator) and profile again")]


def _size(launch: LaunchProfile) -> list[Advice]:
    x, y, z = launch.raw["grid"]
    groups, units = x * y * z, launch.raw.get("machine", {}).get("compute_units", 0)
    if not units:
        return []
    if groups < units:
        return [Advice(1 - groups / units, f"{groups} work-group{'s' if groups != 1 else ''} on {units} compute units",
                       "split the work further: smaller tiles, split-K, or more rows for each launch")]
    at_once = units * max(1, launch.occupancy().get("groups_per_cu", 1))
    rounds = -(-groups // at_once)
    idle = 1 - groups / (rounds * at_once)
    if rounds <= 4 and idle > 0.15:
        text = (f"{groups} work-groups in {rounds} round{'s' if rounds > 1 else ''} of {at_once}: the last one leaves "
                f"{100 * idle:.0f} % idle")
        remedy = "choose tiles whose number is a multiple of what runs at a time, or persistent work-groups"
        return [Advice(idle / rounds, text, remedy)]
    return []


_REMEDIES = {
    "memory": "start the loads earlier (one stage more), or load wider",
    "lds": "read LDS one step ahead of its use",
    "barrier": "fewer barriers: several buffers, or waves that need not meet",
    "dependency": "interleave independent operations",
    "matrix": "the matrix unit is the limit here: a smaller type, or less work",
    "valu": "the vector ALU is the limit here: fewer instructions for each element",
    "lds_queue": "fewer or wider LDS accesses",
    "vmem_queue": "fewer or wider memory accesses",
}
_WHAT = {"memory": "memory", "lds": "LDS or scalar memory", "barrier": "a barrier", "dependency": "an earlier result",
         "matrix": "the matrix unit", "valu": "the vector ALU", "lds_queue": "the LDS queue",
         "vmem_queue": "the memory pipeline"}


def _stalls(launch: LaunchProfile, most: int = 4) -> list[Advice]:
    """The lines whose instructions wait longest, and for what."""
    if launch.timing is None:
        return []
    matrix = sum(i.flops * i.issued for i in launch.instructions) > 0
    waits: dict[tuple[str, str], int] = {}
    for i in launch.instructions:
        for cause, clocks in i.stall.items():
            if cause in _REMEDIES:
                waits[i.source, cause] = waits.get((i.source, cause), 0) + clocks
    total = max(1, launch.timing.wave_cycles)
    out = []
    for (source, cause), clocks in sorted(waits.items(), key=lambda kv: -kv[1])[:most]:
        if clocks < 0.05 * total:
            continue
        line = source.rsplit(":", 1)[-1] if source else ""
        where = f"behind line {line}" if line else "at an instruction without a line"
        who = "matrix work" if matrix and cause in ("memory", "lds", "barrier") else "the wave"
        share = clocks / total
        text = f"{who} waits {where} for {_WHAT[cause]} ({100 * share:.0f} % of the wave clocks)"
        out.append(Advice(share, text, _REMEDIES[cause], source))
    return out


def _memory(launch: LaunchProfile) -> list[Advice]:
    out = []
    share = launch.coalescing()
    if share < 0.6:
        out.append(Advice((1 - share) * 0.5, f"only {100 * share:.0f} % of the bytes of touched lines are asked for",
                          "let neighbouring lanes read neighbouring addresses, 16 bytes each"))
    cycles, extra, degree = launch.lds_conflicts()
    if cycles and degree > 1.2:
        worst = max((i for i in launch.instructions if i.lds_cycles), key=lambda i: i.lds_cycles - i.lds_ideal)
        text = f"LDS accesses take {degree:.1f} times the clocks they need (bank conflicts)"
        remedy = "swizzle or pad the tile: fx.Swizzle; `python -m flydsl.layout` draws conflicts"
        out.append(Advice(0.3 * extra / cycles, text, remedy, worst.source))
    if launch.raw.get("scratch_bytes"):
        out.append(Advice(0.3, f"{launch.raw['scratch_bytes']} bytes of scratch for each lane: registers are spilled",
                          "smaller tiles, or static indices into fragments"))
    return out


def _lanes(launch: LaunchProfile) -> list[Advice]:
    share = launch.active_lanes()
    if share >= 0.9:
        return []
    return [Advice((1 - share) * 0.5, f"{100 * (1 - share):.0f} % of the lanes are switched off",
                   "a block that is a multiple of the wave, and branches that whole waves take")]


def _registers(launch: LaunchProfile) -> list[Advice]:
    occupancy = launch.occupancy()
    if occupancy.get("waves_per_simd", 9) > 1 or launch.timing is None:
        return []
    return [Advice(0.1, f"one wave on a SIMD (limit: {occupancy.get('limit', '?')}): nothing runs while it waits",
                   "fewer registers or less LDS, unless the loop hides its waits itself")]


def _code(launch: LaunchProfile) -> list[Advice]:
    """Loops whose code is more than the instruction cache holds. The estimate counts no time for them."""
    cache = launch.raw.get("machine", {}).get("instruction_cache_bytes", 0)
    out = []
    for i in launch.instructions:
        offset = re.search(r" (\d+)$", i.text)
        if i.unit != "branch" or not i.issued or offset is None:
            continue
        words = int(offset[1])  # behind the branch, as 16 bits with a sign
        size = -4 * (words - 0x10000) if words >= 0x8000 else 0
        if cache and size > cache:
            out.append(Advice(0.1, f"a loop of {size / 1024:.0f} KiB of code does not fit the instruction cache "
                              f"({cache // 1024} KiB for two compute units)",
                              "unroll less, or smaller tiles: each round fetches its instructions from the L2 again "
                              "(the estimate counts no time for that)", i.source))
    return out
