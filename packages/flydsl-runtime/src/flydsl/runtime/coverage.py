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

from .fidelity import Approximation, approximation

__all__ = ["ARCHITECTURES", "Instruction", "coverage", "fidelity_table", "summary"]

#: Architectures that the simulator runs, with whether their survey is done for wave32.
ARCHITECTURES = {"gfx90a": False, "gfx942": False, "gfx950": False, "gfx1100": True, "gfx1151": True, "gfx1200": True,
                 "gfx1201": True, "gfx1250": True}

FIDELITIES = ("missing", "exact", "approximate")


def require_simulated(arch: str) -> None:
    """ValueError unless the simulator runs an architecture."""
    if arch not in ARCHITECTURES:
        raise ValueError(f"{arch or 'no architecture'} is not simulated; these are: {', '.join(ARCHITECTURES)}")


# Instructions of graphics and of the debugger's trap handler: no compiler emits them for compute kernels.
_NOT_COMPUTE = re.compile(
    r"image_|exp$|export|v_interp|ds_direct_load|ds_param_load|ds_gws|_gs_reg_|ds_ordered|bvh|s_cbranch_(cdbg|._fork|join)"
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
    def approximation(self) -> Approximation | None:
        """How it is computed and with which error, if it is approximate."""
        return approximation(_listed_name(self)) if self.fidelity == "approximate" else None

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
    require_simulated(arch)
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


def _listed_name(instruction: Instruction) -> str:
    """The name in the table: of a pair of operations (VOPD) the approximate one; missing forms are named."""
    dot = re.search(r"dot2(?:acc|c)_f32_(b?f16)", instruction.opcode.lower())
    if instruction.mnemonic.startswith("v_dual_") and dot:
        return f"v_dual_dot2acc_f32_{dot[1]}"
    form = " (DPP)" if instruction.fidelity == "missing" and "_dpp" in instruction.opcode else ""
    return instruction.mnemonic + form


def _by_architecture(kind: str, archs: tuple[str, ...], library: str | None) -> dict[str, tuple[str, ...]]:
    """Names of the compute instructions of a fidelity, each with the architectures on which it has it."""
    where: dict[str, list[str]] = defaultdict(list)
    for arch in archs:
        for name in sorted({_listed_name(i) for i in coverage(arch, library) if i.compute and i.fidelity == kind}):
            where[name].append(arch)
    return {name: tuple(on) for name, on in sorted(where.items())}


def fidelity_table(archs: tuple[str, ...] = tuple(ARCHITECTURES), library: str | None = None) -> str:
    """Markdown: counts per architecture; the approximate instructions with how they are computed; the missing ones."""
    lines = ["| architecture | instructions | exact | approximate | missing | implemented |",
             "|---|---|---|---|---|---|"]
    for arch in archs:
        s = summary(arch, library)
        lines.append(
            f"| {arch} | {s['total']} | {s['exact']} | {s['approximate']} | {s['missing']} | {s['percent']} % |"
        )
    lines += ["", "### Approximate", "",
              "| instructions | architectures | how | simulator: max ulp | hardware |", "|---|---|---|---|---|"]
    groups: dict[tuple[Approximation, tuple[str, ...]], list[str]] = defaultdict(list)
    for name, on in _by_architecture("approximate", archs, library).items():
        groups[approximation(name), on].append(f"`{name}`")
    for (what, on), names in groups.items():
        ulp = "-" if what.max_ulp is None else str(what.max_ulp)
        lines.append(f"| {', '.join(names)} | {', '.join(on)} | {what.how} | {ulp} | {what.hardware} |")
    missing = _by_architecture("missing", archs, library)
    lines += ["", "### Missing", ""]
    lines += [f"- `{name}`: {', '.join(on)}" for name, on in missing.items()] or ["None."]
    return "\n".join(lines) + "\n"
