"""A self-contained HTML page from saved profiles."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from .advice import advise
from .charts import UNIT_COLOURS, bars, lds_picture, roofline, timeline
from .comparison import COMPARISON_STYLE, comparison
from .model import STALLS, LaunchProfile
from .panes import PANES_SCRIPT, PANES_STYLE, panes
from .text import size

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #fff; --soft: #f7f8fa; --line: #ddd; --dim: #667; --mark:
#fff0b8; --note: #fff4d6; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --back: #15181c; --soft: #1d2127; --line: #3a404a; --dim:
#98a2b0; --mark: #4a3f12; --note: #3a3016; --accent: #56b4e9; }
svg text:not([fill]) { fill: var(--text); } svg line[stroke="#e4e4e4"] { stroke: #39404a; }
svg [fill="#000000"], svg [fill="#000"] { fill: #c8ccd2; } .picture { background: #e9ebee; } .picture svg
text:not([fill])
{ fill: #1b1b1b; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1440px; padding: 16px; color: var(--text);
background: var(--back); } h1 { font-size: 1.5em; } h3 { margin: 1.4em 0 .4em; }
svg { width: 100%; max-width: 960px; height: auto; display: block; font: 12px system-ui, sans-serif; }
table { border-collapse: collapse; width: 100%; } td, th { padding: 3px 8px; text-align: left; border-bottom: 1px solid
var(--line); vertical-align: top; } th { cursor: pointer; } td.n, th.n { text-align: right; font-variant-numeric:
tabular-nums; } code { font: 12.5px ui-monospace, monospace; overflow-wrap: anywhere; } a { color: var(--accent); }
.note { background: var(--note); border-left: 4px solid #e69f00; padding: 8px 12px; }
details.launch { margin-top: 1.2em; border-top: 2px solid var(--accent); } details > summary { cursor: pointer; padding:
.5em 0; } details.launch > summary { font-size: 1.25em; font-weight: 600; } summary small { font-weight: 400; color:
var(--dim); } .advice { padding-left: 1.4em; } .advice li { margin: .25em 0; } .advice b { font-weight: 600; }
.grid { display: grid; gap: 0 24px; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); }
.legend span { margin-right: 14px; white-space: nowrap; } .legend i { display: inline-block; width: 12px; height: 12px;
margin-right: 4px; vertical-align: -1px; outline: 1px solid var(--line); } .wide { overflow-x: auto; } .wide > svg {
min-width: 640px; }
svg.fixed { max-width: none; } input { width: 6em; font: inherit; } input.filter { width: min(24em, 100%); }
.halo { paint-order: stroke; stroke: var(--back); stroke-width: 4px; stroke-linejoin: round; }
.calc label { display: inline-block; margin: 2px 10px 2px 0; } .bad { color: #d55e00; } .order { width: auto; }
.order td { line-height: 0; } .order th { white-space: nowrap; } .order i { margin-right: 1px; } .order i b { display:
inline-block; height: 14px; } td code { white-space: pre-wrap; } td:first-child { min-width: 5em; }
@media (max-width: 760px) { body { padding: 10px; } td, th { padding: 3px 4px; } }
"""

# The rules are those of the simulator's occupancy(); the numbers come with the profile.
CALCULATOR = """
function occupancy(m, waveSize, vgprs, sgprs, lds, threads) {
  const up = (n, g) => Math.ceil(n / g) * g;
  const waves = Math.max(1, Math.ceil(threads / waveSize));
  let best = m.max_waves, why = 'waves per SIMD';
  const limit = (n, text) => { if (n < best) { best = n; why = text; } };
  limit(Math.floor(m.vgpr_file / up(Math.max(1, vgprs), m.vgpr_granule)), 'VGPRs');
  if (m.sgpr_file && sgprs) limit(Math.floor(m.sgpr_file / up(sgprs, m.sgpr_granule)), 'SGPRs');
  const groups = (n, text) => limit(Math.max(1, Math.ceil(n * waves / m.simds_per_lds)), text);
  if (waves > 1) groups(m.max_barriers, 'work-groups per compute unit');
  if (lds > 0) groups(Math.floor(m.lds_pool / up(lds, m.lds_granule)), 'LDS');
  if (lds > m.lds_pool || vgprs > m.vgpr_file) return 'does not fit';
  return best + ' waves per SIMD (limit: ' + why + ')';
}
document.querySelectorAll('.calc').forEach(form => {
  const show = () => { const v = n => Number(form.querySelector('[name=' + n + ']').value);
    form.querySelector('output').textContent = occupancy(JSON.parse(form.dataset.machine),
      Number(form.dataset.wave), v('vgprs'), v('sgprs'), v('lds'), v('threads')); };
  form.addEventListener('input', show); show();
});
"""


TRAFFIC = {"lds": "LDS", "loaded": "asked for by loads", "stored": "stored", "scratch": "of these scratch",
           "scalar": "scalar loads", "l1": "lines touched in L1", "l2": "between L1 and L2",
           "memory_read": "read from memory", "memory_written": "written to memory"}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f'<{tag}{" class=n" if k in numbers else ""}>{cell}</{tag}>' for k, cell in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{cells("th", head)}</tr>{body}</table></div>'


def _facts(launch: LaunchProfile) -> str:
    raw, occ = launch.raw, launch.occupancy()
    cycles, extra, degree = launch.lds_conflicts()
    rows = [
        ("grid x block", f"{'x'.join(map(str, raw['grid']))} x {'x'.join(map(str, raw['block']))}"),
        ("registers", f"{raw['vgprs']} VGPR, {raw['agprs']} of them AGPR, {raw['sgprs']} SGPR"),
        ("LDS, scratch", f"{size(raw['lds_bytes'])}, {size(raw['scratch_bytes'])}"),
        ("occupancy", f"{occ['waves_per_simd']} waves per SIMD, limit: {html.escape(occ['limit'])}"),
        ("active lanes", f"{100 * launch.active_lanes():.1f} %"),
        ("divergent", f"{100 * launch.divergence():.1f} % of the vector instructions"),
        ("coalescing", f"{100 * launch.coalescing():.1f} %"),
        ("LDS conflicts", f"{extra} of {cycles} clocks, degree {degree:.2f}" if cycles else "no LDS access"),
        ("barriers, waits", "{barriers_per_wave:.1f} and {waits_per_wave:.1f} for each wave".format(
            **launch.synchronisation())),
    ]
    if launch.timing:
        t = launch.timing
        if s := launch.sustained:
            rows.append(("time, sustained", f"{s.microseconds:.1f} us at {s.clock_mhz:.0f} MHz, bound by {s.bound} "
                                            "(estimate)"))
            if s.l2_hit is not None:
                rows.append(("hits in the L2 of the die", f"{100 * s.l2_hit:.0f} % (estimate)"))
        rows.append(("time, at peak", f"{t.cycles:.0f} clocks = {t.microseconds:.1f} us (estimate)"))
        rows += [(f"{unit} busy", f"{100 * share:.1f} % (estimate)") for unit, share in t.utilisation().items()]
    return _table(("", ""), rows)


def _conflicts(launch: LaunchProfile) -> str:
    lds = [i for i in launch.instructions if i.lds_cycles]
    if not lds:
        return ""
    rows = [(f"<code>{html.escape(i.text)}</code>", f"<code>{html.escape(i.source.rsplit('/', 1)[-1])}</code>",
             str(i.issued), f"{i.lds_cycles / i.issued:.1f}", f"{i.lds_ideal / i.issued:.1f}",
             f"{i.lds_cycles / i.lds_ideal:.2f}", str(i.lds_degree or ""))
            for i in sorted(lds, key=lambda i: i.lds_ideal - i.lds_cycles)]
    out = "<h3>LDS accesses, worst conflict first</h3>" + _table(
        ("instruction", "source", "issued", "clocks", "without conflict", "degree", "worst phase"), rows[:12],
        (2, 3, 4, 5, 6))
    worst = max(lds, key=lambda i: (i.lds_cycles - i.lds_ideal) if i.lds_pattern else -1)
    if not worst.lds_pattern:
        return out + "<p>No two lanes were in conflict.</p>"
    return (f"{out}<p>Who asks which bank in the worst access of <code>{html.escape(worst.text)}</code>, "
            f'{html.escape(worst.source.rsplit("/", 1)[-1])}: the lanes of a phase are served together, a bank serves '
            f'one dword a clock.</p><div class="wide picture">{lds_picture(worst.lds_pattern)}</div>')


def _schedules(launch: LaunchProfile) -> str:
    """What the scheduling hints of a loop asked for and what its final code does."""
    parts = []
    for loop in launch.schedules():
        place = html.escape(loop["source"].rsplit("/", 1)[-1])
        if loop["address"] < 0:
            parts.append(f"<p>Hints at <code>{place}</code>: no loop of the final code belongs to them.</p>")
            continue
        verdict = '<b class="bad">stale: the counts do not match</b>' if loop["stale"] else "the counts match"
        found = loop["found"]
        rows = [(kind.replace("_", " "), str(n), str(found[kind]), "" if n == found[kind] else "differs")
                for kind, n in loop["asked"].items()]
        orders = "".join(
            f"<tr><th>{name}</th><td>{''.join(_group(kind, n) for kind, n in loop[key])}</td></tr>"
            for name, key in (("asked", "order"), ("final code", "actual")))
        parts.append(f"<p>Hints at <code>{place}</code>, loop at <code>{loop['address']:x}</code>: {verdict}; "
                     f"{100 * loop['kept']:.0f} % of the asked order is kept.</p>"
                     + _table(("instructions", "asked", "final code", ""), rows, (1, 2))
                     + f'<table class="order">{orders}</table>')
    return "<h3>Instruction schedule</h3>" + "".join(parts) if parts else ""


def _group(kind: str, n: int) -> str:
    units = {"matrix": "matrix", "vmem_read": "vmem_load", "vmem": "vmem_load", "vmem_write": "vmem_store",
             "transcendental": "trans"}
    colour = UNIT_COLOURS[units.get(kind, "lds")]
    shade = " style=opacity:.55" if kind.endswith("write") else ""
    return f'<i title="{n} x {kind}" {shade}><b style="background:{colour};width:{max(4, 3 * n)}px"></b></i>'


def _calculator(launch: LaunchProfile) -> str:
    raw = launch.raw
    threads = raw["block"][0] * raw["block"][1] * raw["block"][2]
    fields = "".join(f' <label>{label} <input type="number" min="0" name="{name}" value="{value}"></label>'
                     for label, name, value in (("VGPRs", "vgprs", raw["vgprs"]), ("SGPRs", "sgprs", raw["sgprs"]),
                                                ("LDS bytes", "lds", raw["lds_bytes"]),
                                                ("work-items", "threads", threads)))
    machine = raw.get("machine", {})
    if "max_waves" not in machine:
        return ""  # saved by an older version, without the rules
    return (f'<h3>Occupancy calculator</h3><form class="calc" data-machine="{html.escape(json.dumps(machine))}" '
            f'data-wave="{raw["wave_size"]}">{fields} <output></output></form>')


def _advice(launch: LaunchProfile) -> str:
    found = advise(launch)
    if not found:
        return "<h3>Next</h3><p>Nothing stands out.</p>"
    rows = "".join(f"<li><b>{html.escape(a.text)}</b>: {html.escape(a.remedy)}"
                   + (f" <code>{html.escape(a.source.rsplit('/', 1)[-1])}</code>" if a.source else "") + "</li>"
                   for a in found)
    return f'<h3>Next, costliest first</h3><ol class="advice">{rows}</ol>'


def _section(title: str, body: str, anchor: str = "", shown: bool = False) -> str:
    """A part that can be folded."""
    name = f' id="{anchor}"' if anchor else ""
    return f"<details{name}{' open' if shown else ''}><summary><b>{title}</b></summary>{body}</details>" if body else ""


def _launch(launch: LaunchProfile, number: int) -> str:
    mix = {unit.replace("_", " "): n for unit, n in launch.mix().items()}
    timeline_link = f' <a href="#timeline-{number}">timeline</a>' if launch.timing else ""
    figures = "".join(
        [_facts(launch), '<div class="grid"><div><h3>Instruction mix</h3>', bars(mix, {}, 420, 90), "</div>",
         "<div><h3>Bytes moved</h3>",
         _table(("", ""), [(TRAFFIC[k], size(v)) for k, v in launch.traffic().items() if v], (1,)), "</div></div>"])
    parts = [_advice(launch), f"<h3>Hot spots{timeline_link}</h3>", panes(launch),
             _section("Figures", figures, shown=True)]
    if launch.timing:
        stalls = {k: n for k, n in launch.timing.stall.items() if k in STALLS}
        charts = bars(stalls, STALLS, 560, 205) + roofline([launch])
        parts += [_section("Stalls and Roofline (estimate)", charts, shown=True),
                  _section("Timeline of the hot loop (estimate)", timeline(launch), f"timeline-{number}", True)]
    parts += [_section("Instruction schedule", _schedules(launch)), _section("LDS conflicts", _conflicts(launch)),
              _section("Occupancy", _calculator(launch))]
    clocks = f", {launch.microseconds:.1f} us (estimate)" if launch.microseconds else ""
    name = html.escape(launch.kernel)
    return (f'<details class="launch" data-name="{name}"{" open" if number < 3 else ""}><summary><code>{name}</code> '
            f"<small>grid {'x'.join(map(str, launch.raw['grid']))} on simulated {launch.arch}{clocks}</small></summary>"
            f"{''.join(parts)}</details>")


def render(launches: Sequence[LaunchProfile], compare: Sequence[LaunchProfile] | None = None) -> str:
    """The page. ``compare`` holds the launches of an earlier run, shown beside these: kernels are matched by name.

    Repeated launches of a kernel with one grid are shown once.
    """
    unique = {(x.code, x.kernel, json.dumps(x.raw["grid"])): x for x in launches}
    ordered = sorted(unique.values(), key=lambda x: -(x.microseconds or sum(x.mix().values())))
    body = "".join(_launch(launch, n) for n, launch in enumerate(ordered)) or "<p>No kernel was launched.</p>"
    if len(ordered) > 1:
        body = '<p><label>Kernels: <input class="filter" type="search" placeholder="part of a name"></label></p>' + body
    if compare is not None:
        body = comparison(compare, list(unique.values())) + body
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><title>FlyDSL profile</title>'
            f'<style>{STYLE}{PANES_STYLE}{COMPARISON_STYLE}</style></head>'
            f'<body><h1>FlyDSL profile</h1><p class="note">Counts are exact for what the simulator executed. Clocks, '
            f"times and rates are estimates of a model, not measurements of a GPU.</p>{body}"
            f"<script>{CALCULATOR}{PANES_SCRIPT}</script></body></html>")
