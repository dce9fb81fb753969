"""What the simulator says about one launch, as data with the derived figures that people ask for."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

STALLS = {
    "dependency": "result of an earlier instruction",
    "memory": "wait for vector memory",
    "lds": "wait for LDS or scalar memory",
    "barrier": "barrier",
    "valu": "vector ALU busy",
    "matrix": "matrix unit busy",
    "lds_queue": "LDS queue full",
    "vmem_queue": "memory pipeline full",
    "issue": "another wave issued",
    "fetch": "taken branch",
}


@dataclass(frozen=True)
class Instruction:
    """One static instruction: its counts over all waves of the launch and, with timing, its stalls in the sample."""

    address: int
    text: str
    source: str
    unit: str
    issued: int
    lanes: int
    flops: int = 0
    busy: int = 0
    space: str = ""
    kind: str = ""
    bytes: int = 0
    lines: int = 0
    l2_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    lds_bytes: int = 0
    lds_cycles: int = 0
    lds_ideal: int = 0
    lds_degree: int = 0
    partial: int = 0
    vector_flops: int = 0
    lds_pattern: dict[str, Any] | None = None
    sampled: int = 0
    stall: dict[str, int] = field(default_factory=dict)

    @property
    def mnemonic(self) -> str:
        """First word of the assembly text."""
        return self.text.split(None, 1)[0]


@dataclass(frozen=True)
class Timing:
    """Estimate of the timing model at the peak clock and memory bandwidth; cycles are engine clocks."""

    cycles: float
    microseconds: float
    memory_cycles: float
    sample_cycles: int
    sample_groups: int
    groups_per_cu: int
    wave_cycles: int
    simds: int
    valu_busy: int
    matrix_busy: int
    lds_busy: int
    l1_busy: int
    matrix_flops: int
    stall: dict[str, int]
    tensor_busy: int = 0
    estimate: bool = True

    def utilisation(self) -> dict[str, float]:
        """Share of the sampled clocks in which each unit of the compute unit was busy (0..1)."""
        clocks = max(1, self.sample_cycles)
        return {
            "vector ALU": self.valu_busy / clocks / self.simds,
            "matrix unit": self.matrix_busy / clocks / self.simds,
            "LDS": self.lds_busy / clocks,
            "L1": self.l1_busy / clocks,
            **({"tensor mover": self.tensor_busy / clocks / (self.simds / 2)} if self.tensor_busy else {}),
            "memory": min(1.0, self.memory_cycles / self.cycles) if self.cycles else 0.0,
        }


@dataclass(frozen=True)
class Sustained:
    """The second reading of a launch: what a machine keeps up, where :class:`Timing` says what it can do at its peak.

    ``clock_mhz`` is what the power limit leaves, ``power`` what the launch would draw at the peak clock (1: the
    limit), ``memory_bytes`` the traffic with what no cache kept until it was read again (``reread_bytes`` of it), and
    ``imbalance`` the time of the compute unit with most work over that of the replayed one, ``unevenness`` the same
    over the mean of those that have work. ``l2_hit`` is the part of what went through L2 that the die of the
    work-group had in its own, ``behind_l2_bytes`` the rest. These three are None in profiles of simulators that did not
    find them. ``bound`` is what decides: "memory", "memory-side cache", "clock", "imbalance", "launch" or "issue".
    """

    microseconds: float
    clock_mhz: float
    power: float
    memory_bytes: float
    reread_bytes: float
    imbalance: float
    bound: str
    estimate: bool = True
    behind_l2_bytes: float | None = None
    l2_hit: float | None = None
    unevenness: float | None = None


@dataclass(frozen=True)
class LaunchProfile:
    """Counters of one launch; ``raw`` is everything that the simulator reported."""

    raw: dict[str, Any]

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> LaunchProfile:
        """From the simulator's JSON. Raises KeyError or TypeError for anything else."""
        launch = cls(raw)
        _ = launch.instructions, launch.timing, launch.kernel
        return launch

    # Built when somebody looks: a program with many launches pays for those that it looks at.
    @functools.cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions that ran, in address order."""
        known = {f.name for f in fields(Instruction)}  # a newer simulator may tell more
        return tuple(Instruction(**{k: v for k, v in entry.items() if k in known})
                     for entry in self.raw["instructions"])

    @functools.cached_property
    def timing(self) -> Timing | None:
        """The estimate, or None if only counters were asked for."""
        known = {f.name for f in fields(Timing)}
        entry = self.raw.get("timing")
        return None if entry is None else Timing(**{k: v for k, v in entry.items() if k in known})

    @functools.cached_property
    def sustained(self) -> Sustained | None:
        """The estimate of what a machine sustains; None without timing, or from a simulator without this reading."""
        known = {f.name for f in fields(Sustained)}
        entry = self.raw.get("sustained")
        return None if entry is None else Sustained(**{k: v for k, v in entry.items() if k in known})

    @property
    def microseconds(self) -> float | None:
        """Estimated time, sustained if the simulator says it, else at peak; None without timing."""
        reading = self.sustained or self.timing
        return None if reading is None else reading.microseconds

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.raw["kernel"]

    @property
    def code(self) -> str:
        """Which code object the kernel is in (:func:`flydsl.runtime.schedules.code_digest`): others may have kernels of
        its name. Empty in profiles of older simulators, which do not tell.
        """
        return self.raw.get("code", "")

    @property
    def arch(self) -> str:
        """Simulated architecture."""
        return self.raw["arch"]

    @property
    def waves(self) -> int:
        """Waves of the launch."""
        x, y, z = self.raw["grid"]
        return x * y * z * self.raw["waves_per_group"]

    def mix(self) -> dict[str, int]:
        """Wave instructions per unit, largest first."""
        counts: dict[str, int] = defaultdict(int)
        for i in self.instructions:
            counts[i.unit] += i.issued
        return dict(sorted(counts.items(), key=lambda kv: -kv[1]))

    def by_source(self) -> dict[str, dict[str, Any]]:
        """Counts of each source line (``file:line``), most stalled first.

        ``issued`` wave instructions and ``units`` (the same per unit), ``bytes`` that its instructions asked for,
        ``lds_cycles`` and, with timing, ``stalled`` wave clocks of the sample (an estimate).
        """
        lines: dict[str, dict[str, Any]] = {}
        for i in self.instructions:
            entry = lines.setdefault(i.source or "(no line)",
                                     {"issued": 0, "stalled": 0, "bytes": 0, "lds_cycles": 0, "units": {}})
            entry["issued"] += i.issued
            entry["stalled"] += sum(i.stall.values())
            entry["bytes"] += i.bytes
            entry["lds_cycles"] += i.lds_cycles
            entry["units"][i.unit] = entry["units"].get(i.unit, 0) + i.issued
        return dict(sorted(lines.items(), key=lambda kv: (-kv[1]["stalled"], -kv[1]["issued"])))

    def _sum(self, name: str, where: Iterable[Instruction] | None = None) -> int:
        return sum(getattr(i, name) for i in (self.instructions if where is None else where))

    def traffic(self) -> dict[str, int]:
        """Bytes moved at each level.

        ``loaded``, ``stored``: asked for by the lanes (and tensor moves); ``scalar``: by scalar loads; ``lds``: into
        and out of LDS by whichever instruction; ``scratch``: the part of loaded and stored that is private memory;
        ``l1``: the 128-byte lines that vector accesses touched in L1; ``l2``: between L1 (or LDS, for tensor moves)
        and L2; ``memory_read``, ``memory_written``: between L2 and memory.
        """
        vector = [i for i in self.instructions if i.space in ("global", "buffer", "flat", "scratch", "tensor")]
        return {
            "lds": sum(i.lds_bytes or (i.bytes if i.space == "lds" else 0) for i in self.instructions),
            "loaded": self._sum("bytes", [i for i in vector if i.kind == "load"]),
            "stored": self._sum("bytes", [i for i in vector if i.kind != "load"]),
            "scratch": self._sum("bytes", [i for i in vector if i.space == "scratch"]),
            "scalar": self._sum("bytes", [i for i in self.instructions if i.space == "scalar"]),
            "l1": 128 * self._sum("lines", [i for i in vector if i.space != "tensor"]),
            "l2": self._sum("l2_bytes"),
            "memory_read": self._sum("read_bytes"),
            "memory_written": self._sum("written_bytes"),
        }

    def coalescing(self) -> float:
        """Bytes that lanes asked for over the bytes of the 128-byte lines that their instructions touched (0..1)."""
        lines = self._sum("lines")
        wanted = self._sum("bytes", [i for i in self.instructions if i.lines])
        return min(1.0, wanted / (128 * lines)) if lines else 1.0

    def lds_conflicts(self) -> tuple[int, int, float]:
        """LDS clocks, those beyond a conflict-free run, and the mean degree (1.0: no conflict)."""
        cycles, ideal = self._sum("lds_cycles"), self._sum("lds_ideal")
        return cycles, cycles - ideal, cycles / ideal if ideal else 1.0

    def active_lanes(self) -> float:
        """Mean share of lanes that vector instructions had enabled (0..1); below 1 is divergence or a ragged edge."""
        vector = [i for i in self.instructions if i.unit in ("valu", "trans", "lds", "vmem_load", "vmem_store")]
        issued = self._sum("issued", vector)
        return self._sum("lanes", vector) / (issued * self.raw["wave_size"]) if issued else 1.0

    def worst_lds_degree(self) -> int:
        """The worst conflict of one phase of one LDS access: n lanes wait for one bank (1: none ever; 0: no access)."""
        return max((i.lds_degree for i in self.instructions), default=0)

    def divergence(self) -> float:
        """Share of vector instructions that ran with some lanes of the wave switched off (0..1)."""
        vector = [i for i in self.instructions if i.unit in ("valu", "trans", "lds", "vmem_load", "vmem_store")]
        issued = self._sum("issued", vector)
        return self._sum("partial", vector) / issued if issued else 0.0

    def synchronisation(self) -> dict[str, float]:
        """Barriers and waits: instructions for each wave and, with timing, the share of the wave clocks (estimate)."""
        waves, mix = max(1, self.waves), self.mix()
        out: dict[str, float] = {"barriers_per_wave": mix.get("barrier", 0) / waves,
                                 "waits_per_wave": mix.get("wait", 0) / waves}
        if self.timing:
            clocks, stall = max(1, self.timing.wave_cycles), self.timing.stall
            out["barrier_share"] = stall.get("barrier", 0) / clocks
            out["wait_share"] = (stall.get("memory", 0) + stall.get("lds", 0)) / clocks
        return out

    def roofline(self) -> dict[str, Any] | None:
        """Place under the roofline at peak, an estimate; None without timing or without memory traffic.

        ``intensity``: operations per byte of memory traffic, matrix operations and those of vector instructions
        together; ``rate``: operations a second; ``bandwidth``: bytes a second; ``roof``: operations a second that the
        machine allows at this intensity; ``share``: how much of the roof is reached (0..1; of the bandwidth, for a
        kernel without floating-point operations); ``bound``: the roof above it, "memory", "matrix" or, for a kernel
        without matrix operations, "vector".
        """
        traffic, machine = self.traffic(), self.raw.get("machine")
        moved = traffic["memory_read"] + traffic["memory_written"]
        if self.timing is None or machine is None or not moved or not self.timing.microseconds:
            return None
        seconds = self.timing.microseconds * 1e-6
        matrix = self.flops() > 0
        clocks = machine["compute_units"] * machine["clock_mhz"] * 1e6
        peak = clocks * (self.matrix_peak() if matrix else machine.get("peak_vector_flops_per_clk", 256))
        width = machine["memory_bytes_per_second"]
        flops = self.flops() + self.vector_flops()
        intensity = flops / moved
        roof = min(peak, intensity * width)
        return {"intensity": intensity, "rate": flops / seconds, "bandwidth": moved / seconds, "roof": roof,
                "share": flops / seconds / roof if flops else moved / seconds / width,
                "bound": "memory" if roof < peak else "matrix" if matrix else "vector"}

    def matrix_peak(self) -> float:
        """Operations a clock of a compute unit whose matrix units are never idle, for the types that this launch uses.

        From the clocks of each matrix instruction in the simulator's table, so that fp8 has its own peak.
        """
        machine = self.raw["machine"]
        busy = sum(i.busy * i.issued for i in self.instructions if i.flops)
        if not busy:
            return float(machine["peak_flops_per_clk"])
        return machine.get("simds_per_cu", 4) * self.flops() / busy

    def flops(self) -> int:
        """Operations of matrix instructions (a multiply and an add are two)."""
        return sum(i.flops * i.issued for i in self.instructions)

    def vector_flops(self) -> int:
        """Floating-point operations of active lanes in vector instructions (a multiply-add is two)."""
        return self._sum("vector_flops")

    def schedules(self) -> list[dict[str, Any]]:
        """Loops with scheduling hints as :func:`flydsl.runtime.schedules.register` describes them; empty if none."""
        return list(self.raw.get("schedules", ()))

    def occupancy(self) -> dict[str, Any]:
        """Waves per SIMD, work-groups per compute unit, and what limits them."""
        return dict(self.raw["occupancy"])

    def as_dict(self) -> dict[str, Any]:
        """The derived figures, for JSON."""
        cycles, extra, degree = self.lds_conflicts()
        out: dict[str, Any] = {
            "kernel": self.kernel, "code": self.code, "arch": self.arch, "simulated": True,
            "grid": self.raw["grid"], "block": self.raw["block"], "waves": self.waves,
            "registers": {k: self.raw[k] for k in ("vgprs", "agprs", "sgprs")},
            "lds_bytes": self.raw["lds_bytes"], "scratch_bytes": self.raw["scratch_bytes"],
            "occupancy": self.occupancy(), "mix": self.mix(), "traffic": self.traffic(),
            "coalescing": self.coalescing(), "active_lanes": self.active_lanes(), "divergence": self.divergence(),
            "lds": {"cycles": cycles, "conflict_cycles": extra, "degree": degree,
                    "worst_degree": self.worst_lds_degree()},
            "matrix_flops": self.flops(), "vector_flops": self.vector_flops(),
            "synchronisation": self.synchronisation(), "by_source": self.by_source(),
        }
        if self.timing:
            out["timing"] = {**self.raw["timing"], "utilisation": self.timing.utilisation()}
            out["roofline"] = self.roofline()
        if self.sustained:
            out["sustained"] = self.raw["sustained"]
        if self.schedules():
            out["schedules"] = self.schedules()
        return out
