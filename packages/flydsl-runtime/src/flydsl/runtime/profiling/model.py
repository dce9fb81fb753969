"""What the simulator says about one launch, as data with the derived figures that people ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
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
    lds_cycles: int = 0
    lds_ideal: int = 0
    sampled: int = 0
    stall: dict[str, int] = field(default_factory=dict)

    @property
    def mnemonic(self) -> str:
        """First word of the assembly text."""
        return self.text.split(None, 1)[0]


@dataclass(frozen=True)
class Timing:
    """Estimate of the timing model; cycles are engine clocks."""

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
    estimate: bool = True

    def utilisation(self) -> dict[str, float]:
        """Share of the sampled clocks in which each unit of the compute unit was busy (0..1)."""
        clocks = max(1, self.sample_cycles)
        return {
            "vector ALU": self.valu_busy / clocks / self.simds,
            "matrix unit": self.matrix_busy / clocks / self.simds,
            "LDS": self.lds_busy / clocks,
            "L1": self.l1_busy / clocks,
            "memory": min(1.0, self.memory_cycles / self.cycles) if self.cycles else 0.0,
        }


@dataclass(frozen=True)
class LaunchProfile:
    """Counters of one launch; ``raw`` is everything that the simulator reported."""

    raw: dict[str, Any]
    instructions: tuple[Instruction, ...]
    timing: Timing | None

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> LaunchProfile:
        """Builds the objects from the simulator's JSON."""
        instructions = tuple(Instruction(**entry) for entry in raw["instructions"])
        timing = Timing(**raw["timing"]) if "timing" in raw else None
        return cls(raw, instructions, timing)

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.raw["kernel"]

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

    def by_source(self) -> dict[str, dict[str, int]]:
        """Wave instructions and stalled clocks of each source line (``file:line``)."""
        lines: dict[str, dict[str, int]] = {}
        for i in self.instructions:
            entry = lines.setdefault(i.source or "(no line)", {"issued": 0, "stalled": 0})
            entry["issued"] += i.issued
            entry["stalled"] += sum(i.stall.values())
        return dict(sorted(lines.items(), key=lambda kv: (-kv[1]["stalled"], -kv[1]["issued"])))

    def _sum(self, name: str, where: Iterable[Instruction] | None = None) -> int:
        return sum(getattr(i, name) for i in (self.instructions if where is None else where))

    def traffic(self) -> dict[str, int]:
        """Bytes moved: asked for by lanes in LDS and global memory, between L1 and L2, and to and from memory."""
        vector = [i for i in self.instructions if i.space in ("global", "buffer", "flat", "scratch")]
        lds = [i for i in self.instructions if i.space == "lds"]
        return {
            "lds": self._sum("bytes", lds),
            "loaded": self._sum("bytes", [i for i in vector if i.kind == "load"]),
            "stored": self._sum("bytes", [i for i in vector if i.kind != "load"]),
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

    def flops(self) -> int:
        """Operations of matrix instructions (a multiply and an add are two)."""
        return sum(i.flops * i.issued for i in self.instructions)

    def occupancy(self) -> dict[str, Any]:
        """Waves per SIMD, work-groups per compute unit, and what limits them."""
        return dict(self.raw["occupancy"])

    def as_dict(self) -> dict[str, Any]:
        """The derived figures, for JSON."""
        cycles, extra, degree = self.lds_conflicts()
        out: dict[str, Any] = {
            "kernel": self.kernel, "arch": self.arch, "simulated": True,
            "grid": self.raw["grid"], "block": self.raw["block"], "waves": self.waves,
            "registers": {k: self.raw[k] for k in ("vgprs", "agprs", "sgprs")},
            "lds_bytes": self.raw["lds_bytes"], "scratch_bytes": self.raw["scratch_bytes"],
            "occupancy": self.occupancy(), "mix": self.mix(), "traffic": self.traffic(),
            "coalescing": self.coalescing(), "active_lanes": self.active_lanes(),
            "lds": {"cycles": cycles, "conflict_cycles": extra, "degree": degree}, "matrix_flops": self.flops(),
        }
        if self.timing:
            out["timing"] = {**self.raw["timing"], "utilisation": self.timing.utilisation()}
        return out
