"""Two runs of a kernel beside each other: figures, source lines and instructions, by what changed most."""

from __future__ import annotations

import html
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from .model import STALLS, LaunchProfile
from .panes import weight
from .sources import excerpt, line_text, place
from .text import table

COMPARISON_STYLE = """
.two > .all { grid-column: 1 / -1; max-height: 40vh; } .two .more { color: #d55e00; } .two .less { color: #009e73; }
.two li > u { flex: none; width: 5.6em; text-align: right; text-decoration: none; font-variant-numeric: tabular-nums; }
.two li > i { width: 64px; } .two li > i.less > b { background: #009e73; } .two .none { opacity: .35; }
"""

#: Differences of figures below this share are not marked.
_SAME = 0.05
#: Lines of this similarity are one line that was edited.
_ALIKE = 0.5
#: Differences of lines below this share of the largest one are left out.
_SMALL = 0.01


@dataclass(frozen=True)
class Line:
    """A line of one run: where it stands, its text, what it costs and whether instructions are made of it."""

    file: str
    number: int
    text: str
    cost: float
    used: bool


@dataclass
class Row:
    """Lines of two runs that are one line of the program, or a line that only one of them has."""

    before: Line | None
    after: Line | None

    @property
    def difference(self) -> float:
        """What the line costs more than before."""
        return (self.after.cost if self.after else 0.0) - (self.before.cost if self.before else 0.0)

    @property
    def used(self) -> bool:
        return any(line is not None and line.used for line in (self.before, self.after))


class _Run:
    """A launch as the comparison sees it: the cost of each line, in a unit that both runs have."""

    def __init__(self, launch: LaunchProfile, timed: bool) -> None:
        self.launch = launch
        weights = [weight(launch, i) if timed else i.issued for i in launch.instructions]
        total = sum(weights)
        scale = (launch.microseconds or 0.0) / total if timed and total else 1.0
        self.costs = [w * scale for w in weights]
        self.files: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for instruction, cost in zip(launch.instructions, self.costs, strict=True):
            if found := place(instruction.source):
                self.files[found[0]][found[1]] += cost

    def lines(self, file: str) -> list[Line]:
        costs = self.files.get(file, {})
        shown = ((n, line_text(self.launch, file, n)) for n in excerpt(costs))
        return [Line(file, n, text, costs.get(n, 0.0), n in costs) for n, text in shown if text or n in costs]


def _aligned(before: list[Line], after: list[Line]) -> list[Row]:
    """The lines of two excerpts side by side: equal text stays together, in the order of the program."""
    rows: list[Row] = []
    matcher = SequenceMatcher(None, [x.text.strip() for x in before], [x.text.strip() for x in after], autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        left, right = before[i:j], after[k:m]
        if kind == "equal":
            rows += [Row(a, b) for a, b in zip(left, right, strict=True)]
        else:
            rows += _edited(left, right)
    return rows


def _edited(left: list[Line], right: list[Line]) -> list[Row]:
    """Lines that differ: each beside the first one of the other run that is alike, in the order of the program."""
    rows: list[Row] = []
    for line in left:
        like = next((n for n, other in enumerate(right)
                     if SequenceMatcher(None, line.text.strip(), other.text.strip()).ratio() > _ALIKE), None)
        if like is None:
            rows.append(Row(line, None))
            continue
        rows += [Row(None, other) for other in right[:like]]
        rows.append(Row(line, right[like]))
        right = right[like + 1:]
    return rows + [Row(None, other) for other in right]


def _pairs_of_files(before: _Run, after: _Run) -> list[tuple[str, str]]:
    """Files of both runs that are one: of the same path, else of the same name."""
    pairs, left = [], list(before.files)
    for file in after.files:
        named = [f for f in left if f == file] or [f for f in left if f.rsplit("/", 1)[-1] == file.rsplit("/", 1)[-1]]
        if named:
            left.remove(named[0])
        pairs.append((named[0] if named else "", file))
    return pairs + [(file, "") for file in left]


def rows_of(before: LaunchProfile, after: LaunchProfile) -> list[Row]:
    """The lines of two launches of a kernel, aligned; costs are estimated us, else instructions."""
    timed = bool(before.timing and after.timing)
    a, b = _Run(before, timed), _Run(after, timed)
    return [row for left, right in _pairs_of_files(a, b) for row in _aligned(a.lines(left), b.lines(right))]


def _number(value: float, timed: bool, sign: bool = False) -> str:
    text = format(value, ("+" if sign else "") + (".2f" if timed else ".0f"))
    return text + (" us" if timed else "")


def _class(difference: float) -> str:
    return "more" if difference > 0 else "less"


def _differences(rows: list[Row], timed: bool) -> str:
    """The lines that cost another time now, the largest difference first."""
    top = max((abs(row.difference) for row in rows if row.used), default=0.0) or 1.0
    changed = sorted((n for n, row in enumerate(rows) if row.used and abs(row.difference) > _SMALL * top),
                     key=lambda n: (-abs(rows[n].difference), n))
    out = []
    for n in changed:
        row, kind = rows[n], _class(rows[n].difference)
        line = row.after or row.before
        assert line is not None
        was, now = (_number(x.cost, timed) if x else "–" for x in (row.before, row.after))
        out.append(f'<li data-line="{n}"><i class="{kind}"><b style="width:{100 * abs(row.difference) / top:.0f}%"></b>'
                   f'</i><u class="{kind}">{_number(row.difference, timed, True)}</u><span>{line.number}</span>'
                   f"<code>{html.escape(line.text)}</code><em>{was} → {now}</em></li>")
    return "".join(out) or "<li class=gap>every line costs what it did</li>"


def _source(rows: list[Row], side: str, timed: bool) -> str:
    top = max((line.cost for row in rows for line in (row.before, row.after) if line), default=1.0) or 1.0
    out = []
    for n, row in enumerate(rows):
        line: Line | None = getattr(row, side)
        link = f' data-line="{n}"' if row.used else ""
        if line is None:
            out.append(f"<li{link} class=none><i></i><span></span><code>&nbsp;</code></li>")
            continue
        cost = _number(line.cost, timed) if line.used else ""
        out.append(f'<li{link}><i><b style="width:{100 * line.cost / top:.0f}%"></b></i><span>{line.number}</span>'
                   f"<code>{html.escape(line.text)}</code><em>{cost}</em></li>")
    return "".join(out) or "<li class=gap>no source lines: compile with FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1</li>"


def _instructions(run: _Run, rows: list[Row], side: str) -> str:
    lines = ((n, getattr(row, side)) for n, row in enumerate(rows))
    row_of = {(line.file, line.number): n for n, line in lines if line is not None}
    top = max(run.costs, default=1.0) or 1.0
    out = []
    for instruction, cost in zip(run.launch.instructions, run.costs, strict=True):
        found = place(instruction.source)
        row = row_of.get(found) if found else None
        link = f' data-line="{row}"' if row is not None else ""
        worst = max(instruction.stall, key=lambda k: instruction.stall[k], default="") if instruction.stall else ""
        out.append(f'<li{link}><i><b style="width:{100 * cost / top:.0f}%"></b></i><span>{found[1] if found else ""}'
                   f"</span><code>{html.escape(instruction.text)}</code>"
                   f"<em>{html.escape(STALLS.get(worst, ''))}</em></li>")
    return "".join(out)


def _ratio(before: float, after: float) -> str:
    """After over before."""
    return f"{after / before:.2f}x" if before else "new"


def _marked(before: float, after: float) -> str:
    """The ratio in HTML, bold where it says that something changed."""
    ratio = _ratio(before, after)
    return f"<b>{ratio}</b>" if before and abs(after / before - 1) > _SAME else ratio


def figures(was: LaunchProfile, new: LaunchProfile) -> list[tuple[str, float, float]]:
    """(figure, before, after): times first, then stalls by what changed most, then counts."""
    times: list[tuple[str, float, float]] = []
    stalls: list[tuple[str, float, float]] = []
    if was.timing and new.timing:
        if was.sustained and new.sustained:
            times.append(("us, sustained (estimate)", round(was.sustained.microseconds, 1),
                          round(new.sustained.microseconds, 1)))
        times.append(("clocks at peak (estimate)", round(was.timing.cycles), round(new.timing.cycles)))
        stalls = [(f"stalled on: {text} (estimate)", was.timing.stall.get(k, 0), new.timing.stall.get(k, 0))
                  for k, text in STALLS.items()]
        stalls.sort(key=lambda row: -abs(row[2] - row[1]))
    counts: list[tuple[str, float, float]] = [("wave instructions", sum(was.mix().values()), sum(new.mix().values()))]
    counts += [(k.replace("_", " ") + " bytes", was.traffic()[k], v) for k, v in new.traffic().items()]
    counts.append(("waves per SIMD", was.occupancy()["waves_per_simd"], new.occupancy()["waves_per_simd"]))
    counts.append(("VGPRs", was.raw["vgprs"], new.raw["vgprs"]))
    counts.append(("LDS clocks", was.lds_conflicts()[0], new.lds_conflicts()[0]))
    return [(name, a, b) for name, a, b in times + stalls + counts if a or b]


def _text(figure: float) -> str:
    return f"{figure:g}" if isinstance(figure, float) else str(figure)


def _kernel(before: LaunchProfile, after: LaunchProfile, shown: bool) -> str:
    timed = bool(before.timing and after.timing)
    rows = rows_of(before, after)
    name, unit = html.escape(after.kernel), "time, estimated" if timed else "instructions"
    change = ""
    if timed and before.microseconds and after.microseconds:
        change = (f"{before.microseconds:.1f} → {after.microseconds:.1f} us, "
                  f"{_marked(before.microseconds, after.microseconds)} (estimate)")
    cells = "".join(f"<tr><td>{n}</td><td class=n>{_text(a)}</td><td class=n>{_text(b)}</td>"
                    f"<td class=n>{_marked(a, b)}</td></tr>" for n, a, b in figures(before, after))
    table = ('<div class="wide"><table><tr><th>what</th><th class=n>before</th><th class=n>after</th><th class=n>ratio'
             f"</th></tr>{cells}</table></div>")
    sides = [(side, _Run(launch, timed)) for side, launch in (("before", before), ("after", after))]
    sources = "".join(f'<div class="pane"><h4>Source, {side}</h4><ol>{_source(rows, side, timed)}</ol></div>'
                      for side, _ in sides)
    code = "".join(f'<div class="pane"><h4>Instructions, {side}</h4><ol>{_instructions(run, rows, side)}</ol></div>'
                   for side, run in sides)
    return (f'<details class="launch" data-name="{name}"{" open" if shown else ""}><summary>Comparison: <code>{name}'
            f"</code> <small>{change}</small></summary>"
            f'<div class="panes two"><div class="pane all"><h4>Lines by difference ({unit})</h4><ol>'
            f"{_differences(rows, timed)}</ol></div>{sources}{code}</div>"
            f"<details open><summary><b>Figures of both runs</b></summary>{table}</details></details>")


def _cost(launch: LaunchProfile) -> float:
    return launch.microseconds or float(sum(launch.mix().values()))


def _keyed(launches: Sequence[LaunchProfile]) -> dict[tuple[str, int, str], LaunchProfile]:
    """The last launch of each kernel with each grid. Code objects, which change from run to run, may have kernels of
    one name: those of one run are told apart by the order in which they were launched.
    """
    codes: dict[str, list[str]] = {}
    keyed = {}
    for launch in launches:
        same = codes.setdefault(launch.kernel, [])
        if launch.code not in same:
            same.append(launch.code)
        keyed[launch.kernel, same.index(launch.code), json.dumps(launch.raw["grid"])] = launch
    return keyed


def _matched(before: Sequence[LaunchProfile], after: Sequence[LaunchProfile]
             ) -> tuple[list[tuple[LaunchProfile, LaunchProfile]], list[LaunchProfile], list[LaunchProfile]]:
    """Launches of one kernel (and grid, where both runs have it), and those of one run only."""
    old, pairs, new = _keyed(before), [], []
    unmatched = {}
    for key, launch in _keyed(after).items():
        if key in old:
            pairs.append((old.pop(key), launch))
        else:
            unmatched[key] = launch
    for key, launch in unmatched.items():  # another grid, or another kernel of that name
        same = min((other for other in old if other[0] == key[0]), key=lambda other: other[1] != key[1], default=None)
        if same is None:
            new.append(launch)
        else:
            pairs.append((old.pop(same), launch))
    known = {launch.kernel for _, launch in pairs}
    return pairs, [x for x in old.values() if x.kernel not in known], [x for x in new if x.kernel not in known]


def _paired(before: Sequence[LaunchProfile], after: Sequence[LaunchProfile]
            ) -> tuple[list[tuple[LaunchProfile, LaunchProfile]], list[LaunchProfile], list[LaunchProfile]]:
    """`_matched`, the kernel whose time changed most first."""
    pairs, gone, new = _matched(before, after)
    return sorted(pairs, key=lambda pair: -abs(_cost(pair[1]) - _cost(pair[0]))), gone, new


def changes(before: Sequence[LaunchProfile], after: Sequence[LaunchProfile]) -> str:
    """The figures of two runs as text for people."""
    pairs, gone, new = _paired(before, after)
    lines = []
    for was, now in pairs:
        rows = [(name, _text(a), _text(b), _ratio(a, b)) for name, a, b in figures(was, now)]
        lines += table(f"{now.kernel}, simulated {now.arch}", [("", "before", "after", "ratio"), *rows])
    for launches, text in ((gone, "only in the earlier run"), (new, "only in the later run")):
        lines += [f"  {name}: {text}" for name in dict.fromkeys(x.kernel for x in launches)]
    return "\n".join(lines)


def comparison(before: Sequence[LaunchProfile], after: Sequence[LaunchProfile]) -> str:
    """Two runs side by side: the kernel whose time changed most first."""
    pairs, gone, new = _paired(before, after)
    out = [_kernel(a, b, n < 3) for n, (a, b) in enumerate(pairs)]
    if not pairs:
        out.append("<h2>Comparison</h2><p>No kernel is in both profiles.</p>")
    for launches, text in ((gone, "only in the earlier run"), (new, "only in the later run")):
        if launches:
            names = ", ".join(f"<code>{html.escape(name)}</code>" for name in dict.fromkeys(x.kernel for x in launches))
            out.append(f"<p>{names}: {text}.</p>")
    return "".join(out)
