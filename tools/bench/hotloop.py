#!/usr/bin/env python3
"""Quality of generated code: registers and spills of every kernel of a code object, and its hot loop under llvm-mca.

    python tools/bench/hotloop.py kernel.hsaco
    python tools/bench/hotloop.py --example 04_preshuffle_gemm --arch gfx942 [--loop]

The *hot loop* is the innermost loop with the most matrix instructions. "Matrix utilisation" is the share of its
cycles in which the matrix unit is busy, according to the machine model of LLVM: one wave alone on its SIMD, caches
that always hit, no barrier partners. It is an estimate to compare schedules with, not a measurement of a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from figures import ROOT, Figure

MCA, READELF = "llvm-mca-22", "llvm-readelf-22"
MCA_SECONDS = 120
_SWAP = re.compile(r"v_(?:permlane(?:16|32)_)?swap_b32(?:_e32|_e64)? (v\d+), (v\d+)")
_METADATA = ("vgpr_count", "agpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count",
             "private_segment_fixed_size", "group_segment_fixed_size")


@dataclass(frozen=True)
class Instruction:
    """One disassembled instruction: byte address, text without comments, target address of a branch or None."""

    address: int
    text: str
    target: int | None = None

    @property
    def mnemonic(self) -> str:
        """The name of the instruction."""
        return self.text.split()[0]


@dataclass(frozen=True)
class LoopReport:
    """A loop under llvm-mca; cycles are those of one iteration in the steady state."""

    instructions: int
    matrix_instructions: int
    cycles: float
    matrix_cycles: float
    scratch_instructions: int

    @property
    def utilisation(self) -> float:
        """Share of the cycles in which the matrix unit is busy, 0 to 1."""
        return self.matrix_cycles / self.cycles


def parse(disassembly: str) -> dict[str, list[Instruction]]:
    """Instructions by symbol, from the text of `flydsl.ir.disassemble`."""
    symbols: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for line in disassembly.splitlines():
        if head := re.match(r"[0-9a-f]+ <(\S+)>:", line):
            current = symbols.setdefault(head[1], [])
        elif body := re.match(r"\s+(\S.*?)\s*// ([0-9a-f]+): ([0-9A-F]{8})", line):
            text, address = body[1], int(body[2], 16)
            target = None
            if "branch" in text.split()[0]:
                offset = int(body[3][4:], 16)
                target = address + 4 + 4 * (offset - 0x10000 if offset & 0x8000 else offset)
            current.append(Instruction(address, text, target))
    return symbols


def is_matrix(instruction: Instruction) -> bool:
    """MFMA, sparse MFMA or WMMA."""
    return instruction.mnemonic.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac"))


def loops(instructions: list[Instruction]) -> list[list[Instruction]]:
    """Bodies of the loops, from the target of each backward branch to the branch itself."""
    found = []
    for end, instruction in enumerate(instructions):
        if instruction.target is not None and instruction.target <= instruction.address:
            found.append([i for i in instructions[: end + 1] if i.address >= instruction.target])
    return found


def hot_loop(instructions: list[Instruction]) -> list[Instruction]:
    """The loop with the most matrix instructions (then the most instructions); of nested ones the inner.

    Raises ValueError if there is no loop.
    """
    bodies = loops(instructions)
    inner = [b for b in bodies if not any(o is not b and o[0].address >= b[0].address
                                          and o[-1].address <= b[-1].address for o in bodies)]
    if not inner:
        raise ValueError("the kernel has no loop")
    return max(inner, key=lambda body: (sum(map(is_matrix, body)), len(body)))


def analyse(body: list[Instruction], arch: str, iterations: int = 100) -> LoopReport:
    """Run llvm-mca over a loop. Raises FileNotFoundError without llvm-mca-22, RuntimeError if it refuses the text."""
    # The branch goes: its operand is a number here, and the model gives it no cost that a label would not. Lane swaps
    # become the two moves that the model takes them for: llvm-mca 22 does not return from them.
    text = "\n".join(_SWAP.sub(r"v_mov_b32 \1, \2\nv_mov_b32 \2, \1", i.text) for i in body if i.target is None)
    result = subprocess.run([MCA, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", f"-iterations={iterations}", "-json"],
                            input=text, capture_output=True, text=True, timeout=MCA_SECONDS)
    if result.returncode:
        raise RuntimeError(f"{MCA}: {result.stderr[:400]}")
    report = json.loads(result.stdout)
    region = report["CodeRegions"][0]
    unit = next((i for i, name in enumerate(report["TargetInfo"]["Resources"]) if name.startswith("HWXDL")), None)
    pressure = region["ResourcePressureView"]["ResourcePressureInfo"]
    count = len(region["Instructions"])  # the entries with this index are sums over the loop
    busy = sum(p["ResourceUsage"] for p in pressure if p["ResourceIndex"] == unit and p["InstructionIndex"] < count)
    return LoopReport(
        instructions=len(body),
        matrix_instructions=sum(map(is_matrix, body)),
        cycles=region["SummaryView"]["TotalCycles"] / iterations,
        matrix_cycles=busy,
        scratch_instructions=sum(i.mnemonic.startswith("scratch_") for i in body),
    )


def metadata(hsaco: Path) -> dict[str, dict[str, int]]:
    """Registers, spills, scratch bytes and LDS bytes of each kernel, from the notes of the code object."""
    text = subprocess.run([READELF, "--notes", str(hsaco)], capture_output=True, text=True, check=True).stdout
    kernels = {}
    for part in re.split(r"\n  - (?=\.)", text)[1:]:
        name = re.search(r"\n    \.name: +(\S+)", part)
        if name:
            kernels[name[1]] = {k: int(m[1]) for k in _METADATA if (m := re.search(rf"\.{k}: +(\d+)", part))}
    return kernels


def compile_example(name: str, arch: str) -> bytes:
    """The code object of an example's own `example_call`, compiled for an architecture without running it."""
    import os

    os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=arch, ARCH=arch)
    sys.path.insert(0, str(ROOT / "docs" / "examples"))
    import flydsl.compiler as flyc

    function, *arguments = importlib.import_module(name).example_call()
    return flyc.compile(function, *arguments).artifact.hsaco


def measure() -> list[Figure]:
    """The budgets of example 04 on gfx942, in a process of its own because the target is chosen there."""
    command = [sys.executable, __file__, "--example", "04_preshuffle_gemm", "--arch", "gfx942", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    (kernel,) = found.values()
    note = "preshuffle GEMM 128x128x64 f16, gfx942; llvm-mca, one wave"
    return [
        Figure("matrix utilisation of the hot loop", 100 * kernel["loop"]["utilisation"], "%", 95, True, note),
        Figure("VGPRs", kernel["vgpr_count"], "", 144, note="preshuffle GEMM 128x128x64 f16, gfx942"),
        Figure("spilled VGPRs", kernel["vgpr_spill_count"], "", 0, note="preshuffle GEMM 128x128x64 f16, gfx942"),
    ]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hsaco", nargs="?", type=Path, help="a code object")
    parser.add_argument("--example", help="compile this example instead")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--save", type=Path, help="also write the code object of the example to this file")
    parser.add_argument("--loop", action="store_true", help="print the hot loop")
    args = parser.parse_args()
    if (args.hsaco is None) == (args.example is None):
        parser.error("give a code object or --example")
    import tempfile

    import flydsl.ir

    with tempfile.TemporaryDirectory() as folder:
        path = args.hsaco or Path(folder) / "example.hsaco"
        if args.example:
            path = args.save or path
            path.write_bytes(compile_example(args.example, args.arch))
        disassembly, kernels = flydsl.ir.disassemble(path.read_bytes()), metadata(path)
    arch = disassembly.splitlines()[0].removeprefix(";").strip()
    code, report = parse(disassembly), {}
    for name, registers in kernels.items():
        report[name] = dict(registers)
        try:
            body = hot_loop(code[name])
        except ValueError:
            continue
        loop = analyse(body, arch)
        report[name]["loop"] = {**asdict(loop), "utilisation": loop.utilisation}
        if args.loop:
            print("\n".join(i.text for i in body))
        if not args.json:
            common = Counter(i.mnemonic for i in body).most_common(8)
            print(f"{name}: {loop.utilisation:.1%} matrix utilisation "
                  f"({loop.matrix_cycles:g} of {loop.cycles:g} cycles), mix {dict(common)}")
    print(json.dumps(report, indent=2) if args.json else "\n".join(f"{k}: {v}" for k, v in kernels.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
