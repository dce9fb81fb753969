#!/usr/bin/env python3
"""Whole launches of the functional forms, and a record of their clocks.

    python packages/flydsl-kernels/bench/launches.py --arch gfx950 [--only TEXT] [--json] [--record]

A loop may keep the matrix unit busier and its launches take longer: they also fill their pipelines, wait for memory and
write results. These are a few products of each kind, with what the functional forms choose for them; a test holds them
to the record. *clocks* are of all kernels of a call at peak, by the simulator's timing model; *limit* is the unit that
binds the longest of these, and its share. No GPU was involved.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cases import operation
from limits import binding, limits

NOTE = "estimates of launches at peak by the simulator's timing model; no GPU was involved"
RECORD = Path(__file__).with_name("launches.json")


@dataclass(frozen=True)
class Launch:
    """A call of the operation `op`: `rows` and `width` of its sample, with `options`."""

    op: str
    kind: str
    rows: int
    width: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """In the record."""
        columns = self.options.get("columns", self.options.get("inter"))
        return f"{self.op} {self.kind} {self.rows}x{columns}x{self.width}"


@dataclass(frozen=True)
class Measured:
    """Clocks of a call, and shares of 0 to 1 of its longest kernel (:func:`limits.limits`)."""

    launch: str
    arch: str
    clocks: float
    binds: str
    limits: dict[str, float]


#: Rows, columns and k: workgroups for each compute unit, and few rows of a weight that memory gives.
PRODUCTS = ((512, 8192, 2048), (16, 8192, 2048))
KINDS = {"gemm": "bf16", "preshuffle_gemm": "int8", "blockscale_gemm": "fp8", "scaled_gemm": "fp8", "mx_gemm": "fp4"}
EXPERTS = {"experts": 8, "inter": 512, "topk": 2}


def launches(target: Any) -> Iterator[Launch]:
    """Those of an architecture."""
    for name, kind in KINDS.items():
        if operation(name).available(target):
            for rows, columns, k in PRODUCTS:
                yield Launch(name, kind, rows, k, {"columns": columns})
    if operation("moe").available(target) and not target.repeats_operands:
        for quant in ("none", "fp8", "a16w4"):
            yield Launch("moe", quant, 512, 1024, {**EXPERTS, "quant": quant})


def measure(launch: Launch, target: Any, arch: str) -> Measured:
    """Run it once, with timing."""
    import flydsl.runtime as rt
    from flydsl.kernels.testing import Draw

    op = operation(launch.op)
    launcher, arguments, _ = op.prepare(*op.sample(Draw(target), launch.rows, launch.width, **launch.options))
    with rt.profile(timing=True) as profile:
        launcher(*arguments)
    longest = max(profile.launches, key=lambda kernel: kernel.timing.cycles)
    shares = limits(longest, shared=target.matrix == "wmma")
    return Measured(launch.label, arch, sum(kernel.timing.cycles for kernel in profile.launches),
                    binding(shares), shares)


def recorded(arch: str) -> dict[str, int]:
    """Clocks by launch, as they were last recorded."""
    return json.loads(RECORD.read_text())[arch]


def record(arch: str, found: list[Measured]) -> None:
    """Put these clocks in the place of those before."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[arch] = {x.launch: round(x.clocks) for x in found}
    RECORD.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--only", default="", help="launches whose name contains this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true", help=f"write the clocks to {RECORD.name}")
    args = parser.parse_args()
    if args.record and args.only:
        parser.error("--record writes all launches of an architecture: it takes no --only")
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=args.arch, ARCH=args.arch,
                          FLYDSL_RUNTIME_CACHE_DIR=cache)
        from flydsl.kernels.target import target

        found = [measure(launch, target(), args.arch) for launch in launches(target()) if args.only in launch.label]
    if args.record:
        record(args.arch, found)
    if args.json:
        print(json.dumps({"note": NOTE, "simulated": True, "launches": [asdict(x) for x in found]}, indent=2))
        return 0
    print(f"{args.arch}: {NOTE}\n")
    width = max((len(x.launch) for x in found), default=6)
    print(f"{'launch':{width}}  {'clocks':>8}  limit")
    for x in found:
        print(f"{x.launch:{width}}  {x.clocks:8.0f}  {x.binds} {100 * x.limits[x.binds]:.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
