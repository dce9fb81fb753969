"""Scheduling hints of a loop against the instructions of its final code.

``sched_group_barrier`` hints ask for an order: so many matrix instructions, then so many LDS reads, and so on. They are
written for a tile. When the tile changes and the hints do not, the code generator still follows them as far as they go
and leaves the rest where it likes: the kernel is right and slow, and nothing says why. This check counts, for each loop
with hints, what was asked and what the loop of the code object has, and compares the order.

A hint reaches as far as its scheduling region, the code between two full ``sched_barrier``; the counts here are those
of the whole loop, because final code does not show where regions ended.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from flydsl.tracing.diagnostics import DiagRecord, SourceFrame, location_frames
from flydsl.tracing.ir_walk import kernel_functions, walk

__all__ = ["LoopSchedule", "ScheduleWarning", "check_schedules", "format_schedule", "warn_stale"]

#: Mask of a hint -> what it names. Masks of whole classes (any vector or scalar ALU) ask for no number.
KINDS = {0x008: "matrix", 0x010: "vmem", 0x020: "vmem_read", 0x040: "vmem_write", 0x080: "ds", 0x100: "ds_read",
         0x200: "ds_write", 0x400: "transcendental"}
_PARTS = {"vmem": ("vmem_read", "vmem_write"), "ds": ("ds_read", "ds_write")}
_PREFIXES = {
    "matrix": ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac"),
    "vmem_read": ("global_load", "buffer_load", "flat_load", "tbuffer_load"),
    "vmem_write": ("global_store", "buffer_store", "flat_store", "tbuffer_store"),
    "ds_read": ("ds_read", "ds_load"),
    "ds_write": ("ds_write", "ds_store"),
    "transcendental": ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"),
}
_MATRIX_OPS = ("rocdl.mfma", "rocdl.smfmac", "rocdl.wmma", "rocdl.swmmac")


class ScheduleWarning(UserWarning):
    """Scheduling hints ask for other counts than the loop of the final code has."""


@dataclass(frozen=True)
class LoopSchedule:
    """One loop with hints.

    Attributes:
        kernel: symbol. source: ``file:line`` of the first hint in the user's code, or "".
        address: of the loop's first instruction in the code object; -1 if no loop of the code belongs to it.
        unrolled: iterations of the written loop in one of the final loop.
        asked, found: number of each kind for one iteration of the final loop.
        order: what was asked as (kind, number), for one iteration of the written loop.
        actual: what the final code does as (kind, number).
        kept: share of the asked order that the final order keeps (longest common subsequence), 0 to 1.
        frames: user frames of the first hint.
    """

    kernel: str
    source: str
    address: int
    unrolled: int
    asked: dict[str, int]
    found: dict[str, int]
    order: tuple[tuple[str, int], ...]
    actual: tuple[tuple[str, int], ...]
    kept: float
    frames: tuple[SourceFrame, ...] = field(default=(), compare=False)

    @property
    def differences(self) -> dict[str, tuple[int, int]]:
        """Kind -> (asked, found) where they differ."""
        if self.address < 0:
            return {}
        return {kind: (n, self.found[kind]) for kind, n in self.asked.items() if n != self.found[kind]}

    @property
    def stale(self) -> bool:
        """The counts do not match: the hints were made for another tile."""
        return bool(self.differences)

    def as_dict(self) -> dict[str, Any]:
        """For the artifact's metadata and the report."""
        return {
            "source": self.source, "address": self.address, "unrolled": self.unrolled, "asked": self.asked,
            "found": self.found, "order": [list(g) for g in self.order], "actual": [list(g) for g in self.actual],
            "kept": round(self.kept, 4), "stale": self.stale,
        }


@dataclass
class _HintedLoop:
    hints: list[tuple[str, int]] = field(default_factory=list)
    matrix: int = 0
    frames: tuple[SourceFrame, ...] = ()


def _hinted_loops(function: Any) -> list[_HintedLoop]:
    """Innermost loops of a lowered kernel that have hints, in program order."""
    blocks: list[Any] = []
    ops: list[list[Any]] = []
    for op in walk(function):
        if not blocks or op.block != blocks[-1]:
            blocks.append(op.block)
            ops.append([])
        ops[-1].append(op)
    spans = []
    for end, inside in enumerate(ops):
        for successor in inside[-1].successors:
            start = next((n for n, block in enumerate(blocks) if block == successor), end + 1)
            if start <= end:
                spans.append((start, end))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    found = []
    for start, end in sorted(set(inner)):
        loop = _HintedLoop()
        for op in (op for inside in ops[start : end + 1] for op in inside):
            if op.name == "rocdl.sched.group.barrier":
                kind = KINDS.get(op.attributes["mask"].value)
                if kind is not None:
                    loop.hints.append((kind, op.attributes["size"].value))
                    loop.frames = loop.frames or location_frames(op.location)
            elif op.name.startswith(_MATRIX_OPS):
                loop.matrix += 1
        if loop.hints:
            found.append(loop)
    return found


_SYMBOL = re.compile(r"^[0-9a-f]+ <(\S+)>:$")
_INSTRUCTION = re.compile(r"^\s+(\S+).*// ([0-9a-f]+): ([0-9A-F]{8})")


def _final_loops(disassembly: str) -> dict[str, list[tuple[int, list[str]]]]:
    """Per kernel the innermost loops as (address, mnemonics), in address order."""
    code: dict[str, list[tuple[int, str, int]]] = {}
    current: list[tuple[int, str, int]] = []
    for line in disassembly.splitlines():
        if head := _SYMBOL.match(line):
            current = code.setdefault(head[1], [])
        elif body := _INSTRUCTION.match(line):
            address, target = int(body[2], 16), -1
            if body[1].startswith(("s_cbranch", "s_branch")):
                offset = int(body[3][4:], 16)
                target = address + 4 + 4 * (offset - 0x10000 if offset & 0x8000 else offset)
            current.append((address, body[1], target))
    loops = {}
    for name, instructions in code.items():
        spans = {(target, address) for address, _, target in instructions if 0 <= target <= address}
        inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
        loops[name] = [(a, [m for at, m, _ in instructions if a <= at <= b]) for a, b in sorted(inner)]
    return loops


def _kind(mnemonic: str) -> str:
    return next((kind for kind, prefixes in _PREFIXES.items() if mnemonic.startswith(prefixes)), "")


def _count(kinds: Counter[str], kind: str) -> int:
    return sum(kinds[part] for part in _PARTS.get(kind, (kind,)))


def _match(loops: list[_HintedLoop], final: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]] | None]:
    """For each loop with hints the loop of the final code: the next one with a multiple of its matrix instructions."""
    result: list[tuple[int, list[str]] | None] = []
    rest = list(final)
    for loop in loops:
        chosen = None
        for n, (_, mnemonics) in enumerate(rest):
            kinds = Counter(_kind(m) for m in mnemonics)
            fits = kinds["matrix"] and kinds["matrix"] % loop.matrix == 0 if loop.matrix else any(
                _count(kinds, kind) for kind, _ in loop.hints)
            if fits:
                chosen, rest = rest[n], rest[n + 1 :]
                break
        result.append(chosen)
    return result


def _runs(kinds: list[str]) -> tuple[tuple[str, int], ...]:
    runs: list[list[Any]] = []
    for kind in kinds:
        if runs and runs[-1][0] == kind:
            runs[-1][1] += 1
        else:
            runs.append([kind, 1])
    return tuple((kind, n) for kind, n in runs)


def _compare(kernel: str, loop: _HintedLoop, final: tuple[int, list[str]] | None) -> LoopSchedule:
    frames = loop.frames
    source = f"{frames[0].filename}:{frames[0].line}" if frames else ""
    asked: Counter[str] = Counter()
    for kind, size in loop.hints:
        asked[kind] += size
    if final is None:
        return LoopSchedule(kernel, source, -1, 1, dict(asked), {}, tuple(loop.hints), (), 0.0, frames)
    address, mnemonics = final
    kinds = Counter(_kind(m) for m in mnemonics)
    unrolled = kinds["matrix"] // loop.matrix if loop.matrix else 1
    # A hint for a whole class (any DS) names both parts; the order is compared in the words of the hints.
    words = {part: kind for kind in asked for part in _PARTS.get(kind, (kind,))}
    actual = [words[k] for k in map(_kind, mnemonics) if k in words]
    wanted = [kind for kind, size in loop.hints * unrolled for _ in range(size)]
    same = sum(b.size for b in difflib.SequenceMatcher(None, wanted, actual, autojunk=False).get_matching_blocks())
    return LoopSchedule(
        kernel, source, address, unrolled, {kind: n * unrolled for kind, n in asked.items()},
        {kind: _count(kinds, kind) for kind in asked}, tuple(loop.hints), _runs(actual),
        same / len(wanted) if wanted else 1.0, frames,
    )


def check_schedules(module: Any, hsaco: bytes) -> list[LoopSchedule]:
    """Every loop with hints of a lowered module, compared with the code object made from it."""
    hinted = {op.attributes["sym_name"].value: _hinted_loops(op) for op in kernel_functions(module)}
    hinted = {name: loops for name, loops in hinted.items() if loops}
    if not hinted:
        return []
    import flydsl.ir as fly_ir

    final = _final_loops(fly_ir.disassemble(hsaco))
    return [
        _compare(name, loop, match)
        for name, loops in hinted.items()
        for loop, match in zip(loops, _match(loops, final.get(name, [])), strict=True)
    ]


def format_schedule(schedule: LoopSchedule) -> str:
    """What was asked, what the final code does and where they differ, for people."""
    def text(groups: tuple[tuple[str, int], ...]) -> str:
        shown = " ".join(f"{kind}:{n}" for kind, n in groups[:24])
        return shown + (f" ... ({len(groups)} groups)" if len(groups) > 24 else "")

    lines = [f"{schedule.kernel}: hints at {schedule.source or 'an unknown line'}"]
    if schedule.address < 0:
        return lines[0] + ": no loop of the final code belongs to them (unrolled completely?)"
    lines[0] += f", loop at {schedule.address:x}"
    if schedule.unrolled > 1:
        lines.append(f"  the code generator put {schedule.unrolled} iterations into one")
    for kind, n in schedule.asked.items():
        note = "" if n == schedule.found[kind] else "   <-- differs"
        lines.append(f"  {kind:15} asked {n:4}, final code {schedule.found[kind]:4}{note}")
    lines += [f"  asked: {text(schedule.order)}", f"  final: {text(schedule.actual)}",
              f"  {100 * schedule.kept:.0f} % of the asked order is kept"]
    return "\n".join(lines)


def warn_stale(schedules: list[LoopSchedule]) -> None:
    """A `ScheduleWarning` at the user's line for each schedule whose counts do not match the final code."""
    for schedule in schedules:
        if not schedule.stale:
            continue
        wrong = ", ".join(f"{kind}: asked {a}, the loop has {b}" for kind, (a, b) in schedule.differences.items())
        message = (f"stale schedule in kernel {schedule.kernel}: the sched_group_barrier hints of this loop do not fit "
                   f"its instructions ({wrong}); derive the counts from the tile")
        text = DiagRecord(message, schedule.frames).render()
        if schedule.frames:
            place = schedule.frames[0]
            warnings.warn_explicit(text, ScheduleWarning, place.filename, place.line)
        else:
            warnings.warn(text, ScheduleWarning, stacklevel=2)
