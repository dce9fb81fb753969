"""Which instructions the simulator executes, and how faithfully.

The simulator library decodes samples of an architecture's whole encoding space with LLVM's
disassembler, so the list is what LLVM knows, not what we thought of.
"""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ARCHITECTURES", "Instruction", "coverage", "fidelity_table", "summary"]

#: Architectures that the simulator runs, with whether their survey is done for wave32.
ARCHITECTURES = {"gfx942": False, "gfx950": False, "gfx1200": True, "gfx1201": True, "gfx1250": True}

FIDELITIES = ("missing", "exact", "approximate")

# Instructions of graphics and of the debugger's trap handler: no compiler emits them for compute kernels.
_NOT_COMPUTE = re.compile(
    r"image_|exp$|export|v_interp|ds_direct_load|ds_param_load|ds_gws|ds_ordered|bvh|s_cbranch_(cdbg|._fork|join)"
    r"|s_rfe|s_setvskip|ordered_ps|screen_partition|v_illegal|ordered_add|tensor_save|mfma_ld_scale"
)


@dataclass(frozen=True)
class Instruction:
    """One encoded instruction: LLVM's opcode name, its mnemonic, an example in assembly."""

    opcode: str
    mnemonic: str
    example: str
    fidelity: str

    @property
    def compute(self) -> bool:
        """Whether compilers can emit it for compute kernels."""
        return not _NOT_COMPUTE.search(self.mnemonic)


@cache
def _library(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


@cache
def coverage(arch: str, library: str | None = None) -> tuple[Instruction, ...]:
    """Every instruction of `arch` with its fidelity; takes a few seconds.

    `library` is the simulator's file (default: the one of this installation). Raises ValueError for an
    architecture that the simulator does not have and HipError if there is no simulator.
    """
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {arch!r}: expected one of {', '.join(ARCHITECTURES)}")
    if library is None:
        from ._provider import SIMULATOR_LIBRARY, simulator_directory

        library = str(Path(simulator_directory()) / SIMULATOR_LIBRARY)
    found: list[Instruction] = []
    signature = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int
    )

    def report(_: int, opcode: bytes, mnemonic: bytes, text: bytes, fidelity: int) -> None:
        found.append(Instruction(opcode.decode(), mnemonic.decode(), text.decode(), FIDELITIES[fidelity]))

    _library(library).flysimCoverage(arch.encode(), int(ARCHITECTURES[arch]), signature(report), None)
    return tuple(sorted(found, key=lambda i: (i.mnemonic, i.opcode)))


def summary(arch: str, library: str | None = None) -> dict[str, int | float | str]:
    """Counts of compute instructions: total, exact, approximate, missing, and the percentage implemented."""
    compute = [i for i in coverage(arch, library) if i.compute]
    counts = {f: sum(i.fidelity == f for i in compute) for f in FIDELITIES}
    done = len(compute) - counts["missing"]
    return {"arch": arch, "total": len(compute), **counts, "percent": round(100 * done / len(compute), 2)}


def fidelity_table(archs: tuple[str, ...] = tuple(ARCHITECTURES), library: str | None = None) -> str:
    """Markdown: a row of counts per architecture, then the approximate and the missing mnemonics of each."""
    lines = ["| architecture | instructions | exact | approximate | missing | implemented |",
             "|---|---|---|---|---|---|"]
    for arch in archs:
        s = summary(arch, library)
        lines.append(
            f"| {arch} | {s['total']} | {s['exact']} | {s['approximate']} | {s['missing']} | {s['percent']} % |"
        )
    for kind in ("approximate", "missing"):
        lines += ["", f"### {kind.capitalize()}", ""]
        where: dict[str, list[str]] = defaultdict(list)
        for arch in archs:
            for mnemonic in sorted({i.mnemonic for i in coverage(arch, library) if i.compute and i.fidelity == kind}):
                where[mnemonic].append(arch)
        groups: dict[str, list[str]] = defaultdict(list)
        for mnemonic, on in sorted(where.items()):
            groups[", ".join(on)].append(f"`{mnemonic}`")
        lines += [f"- {on}: {', '.join(names)}" for on, names in groups.items()] or ["None."]
    return "\n".join(lines) + "\n"
