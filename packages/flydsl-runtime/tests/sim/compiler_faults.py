"""Tells wrong code of LLVM 22 from a fault of the simulator, for programs whose result differs.

Each case has a reproducer in test_compiler_faults.py. A case is told by its own traces in what the compiler
says of that function, never by the result alone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from clangc import COMMON, PRELUDE, find_clang

FOLD = "si-fold-operands"
#: Registers of gfx11 as LLVM had them before it could name their halves.
WHOLE_REGISTERS = ["-Xclang", "-target-feature", "-Xclang", "-real-true16"]
LINE = re.compile(r"^\s+(?:(?P<defs>[^=]*?) = )?(?P<rest>.*)$")


def _clang(source: str, arch: str, opt: str, *flags: str) -> subprocess.CompletedProcess[str]:
    clang = find_clang()
    assert clang
    target = ["--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", f"-O{opt}"]
    output = "-" if "-S" in flags else "/dev/null"
    command = [clang, *target, *COMMON, "-fno-crash-diagnostics", *flags, "-o", output, "-"]
    return subprocess.run(command, input=PRELUDE + source, capture_output=True, text=True)


def lost_live_range(text: str, name: str) -> bool:
    """Whether the machine verifier's report `text` has a use in function `name` of a value it holds for dead."""
    return bool(re.search(rf"Bad machine code: No live (?:sub)?range at use \*\*\*\s+- function: +{name}\b", text))


def copied_as_halves(mir: str) -> bool:
    """Whether the selected instructions `mir` copy 32 bits, a part of a wider register, to a 16-bit register."""
    return bool(re.search(r":vgpr_16 = COPY %\d+\.sub\d", mir))


def hoisted_casts(text: str) -> list[str]:
    """Extensions and truncations that are in another block after structurizing than before, in dumps of that pass.

    The pass hoists what costs nothing out of an else block, for a phi behind it. Lanes that come to the phi by way of
    a third block have poison there.
    """
    dumps = re.split(r"^\*\*\* IR Dump (?:Before|After) Structurize [^\n]*$", text, flags=re.M)[1:]

    def homes(dump: str) -> dict[str, str]:
        home, found = "", {}
        for line in dump.splitlines():
            if label := re.match(r"([\w.$-]+):", line):
                home = label[1]
            elif cast := re.match(r"\s+(%[\w.$-]+) = (?:trunc|zext|sext) ", line):
                found[cast[1]] = home
        return found

    moved = []
    for before, after in zip(dumps[::2], dumps[1::2], strict=False):
        was = homes(before)
        moved += [name for name, home in homes(after).items() if was.get(name, home) != home]
    return moved


def _blocks(mir: str) -> dict[int, list[str]]:
    parts = re.split(r"^bb\.(\d+)[^\n]*$", mir, flags=re.M)
    return {int(n): body.splitlines() for n, body in zip(parts[1::2], parts[2::2], strict=True)}


def folded_out_of_a_loop(before: str, after: str) -> list[str]:
    """Instructions of `after` that read a scalar of a divergent loop outside of it, and a vector copy in `before`.

    Both are machine code of one function in SSA form. In such a loop lanes leave at different trips: a vector
    register keeps what each lane had then, a scalar register has the value of the last trip.
    """
    code, folded = _blocks(before), _blocks(after)
    successors = {
        n: {int(s) for line in lines if line.strip().startswith("successors:") for s in re.findall(r"%bb\.(\d+)", line)}
        for n, lines in code.items()
    }
    defined = {reg: n for n, lines in code.items() for line in lines for reg in re.findall(r"(%\d+):[^=]*=", line)}
    loops = []
    for n, lines in code.items():
        for header in (int(h) for line in lines for h in re.findall(r"SI_LOOP [^,]*, %bb\.(\d+)", line)):
            body = {header, n}
            todo = [n]
            while todo:
                block = todo.pop()
                fresh = {p for p, after_p in successors.items() if block in after_p} - body
                if block != header:
                    body |= fresh
                    todo += fresh
            loops.append(body)
    found = []
    for n, lines in folded.items():
        was = {m["defs"]: m["rest"] for line in code.get(n, []) if (m := LINE.match(line)) and m["defs"]}
        for line in lines:
            m = LINE.match(line)
            if not m or not m["defs"] or was.get(m["defs"], m["rest"]) == m["rest"]:
                continue
            for scalar in re.findall(r"(%\d+)(?:\.\w+)?:s(?:reg|gpr)_", m["rest"]):
                home = defined.get(scalar)
                if scalar in was[m["defs"]] or not any(home in body and n not in body for body in loops):
                    continue
                found.append(line.strip())
    return found


def split_dumps(text: str) -> tuple[str, str]:
    """The first and the last of the machine code dumps in `text`; empty strings if there are none."""
    dumps = re.split(r"^# \*\*\* IR Dump (?:Before|After) [^\n]*$", text, flags=re.M)[1:]
    return (dumps[0], dumps[-1]) if dumps else ("", "")


def _around_fold(source: str, arch: str, opt: str, name: str) -> tuple[str, str]:
    """Machine code of function `name` before the first folding of operands and after the last; empty at -O0."""
    dump = [f"-print-before={FOLD}", f"-print-after={FOLD}", f"-filter-print-funcs={name}"]
    text = _clang(source, arch, opt, "-c", *(f for flag in dump for f in ("-mllvm", flag))).stderr
    return split_dumps(text)


def _without_fold(source: str, arch: str, opt: str, name: str) -> list[str]:
    """Flags that run all passes but the folding of operands in function `name`."""
    text = _clang(source, arch, opt, "-c", "-mllvm", "-opt-bisect=1-1000000", "-mllvm", "-opt-bisect-verbose").stderr
    turns = [int(n) for n in re.findall(rf"running pass \((\d+)\) {FOLD} on function \({name}\)", text)]
    starts, ends = [1] + [n + 1 for n in turns], [n - 1 for n in turns] + [1000000]
    return ["-mllvm", "-opt-bisect=" + ",".join(f"{a}-{z}" for a, z in zip(starts, ends, strict=True) if a <= z)]


def explain(
    source: str, arch: str, opt: str, name: str, agrees: Callable[[str, list[str]], bool], unwritten: bool
) -> str | None:
    """Names LLVM's fault that makes function `name` of C text `source` wrong, or None if it is not shown.

    `agrees(level, flags)` compiles at another level or with further flags, runs and compares with the host: a
    fault counts only if the program is right when the compiler goes another way. `unwritten` says that the
    simulator saw it use a register that nobody wrote.
    """
    if folded_out_of_a_loop(*_around_fold(source, arch, opt, name)):
        if agrees(opt, _without_fold(source, arch, opt, name)):
            return "a scalar of a divergent loop that is read outside of it"
    selected = ["-print-after=finalize-isel", f"-filter-print-funcs={name}"]
    if copied_as_halves(_clang(source, arch, opt, "-c", *(f for flag in selected for f in ("-mllvm", flag))).stderr):
        if agrees(opt, WHOLE_REGISTERS):
            return "a register of which half is copied"
    if not any(agrees(level, []) for level in "0123" if level != opt):
        return None
    structurized = ["-print-before=structurizecfg", "-print-after=structurizecfg", f"-filter-print-funcs={name}"]
    flags = ["-fno-discard-value-names", *(f for flag in structurized for f in ("-mllvm", flag))]
    if hoisted_casts(_clang(source, arch, opt, "-c", *flags).stderr):
        return "a value that the structurizer loses"
    if lost_live_range(_clang(source, arch, opt, "-c", "-mllvm", "-verify-machineinstrs").stderr, name):
        return "a live range that the register coalescer lost"
    return "a register that nobody wrote" if unwritten else None
