"""A self-contained HTML page from saved profiles."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from ..disassembly import source_text
from .charts import bars, roofline, timeline
from .model import STALLS, LaunchProfile
from .text import size

STYLE = """
:root { color-scheme: light; } body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1080px;
padding: 16px; color: #1b1b1b; background: #fff; } h1 { font-size: 1.5em; } h2 { margin-top: 2em; border-top: 2px solid
#0072b2; padding-top: .4em; } h3 { margin: 1.4em 0 .4em; } svg { width: 100%; max-width: 960px; height: auto; display:
block; font: 12px system-ui, sans-serif; } table { border-collapse: collapse; width: 100%; } td, th { padding: 3px 8px;
text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; } td.n, th.n { text-align: right;
font-variant-numeric: tabular-nums; } code { font: 12.5px ui-monospace, monospace; overflow-wrap: anywhere; } .note {
background: #fff4d6; border-left: 4px solid #e69f00; padding: 8px 12px; } .grid { display: grid; gap: 0 24px;
grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); } .legend span { margin-right: 14px; white-space: nowrap; }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 4px; vertical-align: -1px; } .wide {
overflow-x: auto; } input { width: 6em; }
"""

# Mirrors the occupancy rules of the simulator for what-if questions in the page.
CALCULATOR = """
function occupancy(arch, waveSize, vgprs, lds, threads) {
  const up = (n, g) => Math.ceil(n / g) * g;
  const g9 = arch.startsWith('gfx9'), g1250 = arch === 'gfx1250';
  const most = g9 ? 8 : 16, file = g9 ? 512 : g1250 ? 1024 : waveSize === 32 ? 1536 : 768;
  const granule = g9 ? 8 : g1250 ? 16 : waveSize === 32 ? 24 : 12;
  const pool = {gfx942: 65536, gfx950: 163840, gfx1250: 327680}[arch] || 131072;
  const ldsGranule = g9 ? 512 : g1250 ? 2048 : 1024, barriers = g9 || g1250 ? 16 : 32;
  const waves = Math.max(1, Math.ceil(threads / waveSize));
  let best = most, why = 'waves per SIMD';
  const limit = (n, text) => { if (n < best) { best = n; why = text; } };
  limit(Math.floor(file / up(Math.max(1, vgprs), granule)), 'VGPRs');
  if (waves > 1) limit(Math.max(1, Math.floor(barriers * waves / 4)), 'work-groups per compute unit');
  if (lds > 0) limit(Math.max(1, Math.floor(Math.floor(pool / up(lds, ldsGranule)) * waves / 4)), 'LDS');
  return best + ' waves per SIMD (limit: ' + why + ')';
}
document.querySelectorAll('.calc').forEach(form => {
  const show = () => { const v = n => Number(form.querySelector('[name=' + n + ']').value);
    form.querySelector('output').textContent =
      occupancy(form.dataset.arch, Number(form.dataset.wave), v('vgprs'), v('lds'), v('threads')); };
  form.addEventListener('input', show); show();
});
"""


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
        ("coalescing", f"{100 * launch.coalescing():.1f} %"),
        ("LDS conflicts", f"{extra} of {cycles} clocks, degree {degree:.2f}" if cycles else "no LDS access"),
    ]
    if launch.timing:
        t = launch.timing
        rows.append(("estimated time", f"{t.cycles:.0f} clocks = {t.microseconds:.1f} us (estimate)"))
        rows += [(f"{unit} busy", f"{100 * share:.1f} % (estimate)") for unit, share in t.utilisation().items()]
    return _table(("", ""), rows)


def _hot_spots(launch: LaunchProfile, count: int = 40) -> str:
    instructions = launch.instructions
    weight = [sum(i.stall.values()) + 4 * i.sampled if launch.timing else i.issued for i in instructions]
    total = sum(weight) or 1
    hottest = set(sorted(range(len(instructions)), key=lambda n: -weight[n])[:count])
    rows, last = [], ""
    for n in sorted(hottest):
        i = instructions[n]
        source = i.source if i.source != last else ""
        last = i.source
        place, code = html.escape(source.rsplit("/", 1)[-1]), html.escape(source_text(source))
        text = f"<code>{place}</code><br><code>{code}</code>"
        worst = max(i.stall, key=lambda k: i.stall[k], default="")
        rows.append((text if source else "", f"<code>{i.address:x}</code>", f"<code>{html.escape(i.text)}</code>",
                     str(i.issued), f"{100 * weight[n] / total:.1f} %", STALLS.get(worst, worst)))
    return _table(("Python source", "address", "instruction", "issued", "share", "stalls mostly on"), rows, (3, 4))


def _conflicts(launch: LaunchProfile) -> str:
    lds = [i for i in launch.instructions if i.lds_cycles]
    if not lds:
        return ""
    rows = [(f"<code>{html.escape(i.text)}</code>", f"<code>{html.escape(i.source.rsplit('/', 1)[-1])}</code>",
             str(i.issued), f"{i.lds_cycles / i.issued:.1f}", f"{i.lds_ideal / i.issued:.1f}",
             f"{i.lds_cycles / i.lds_ideal:.2f}") for i in sorted(lds, key=lambda i: i.lds_ideal - i.lds_cycles)]
    return "<h3>LDS accesses, worst conflict first</h3>" + _table(
        ("instruction", "source", "issued", "clocks", "without conflict", "degree"), rows[:12], (2, 3, 4, 5))


def _calculator(launch: LaunchProfile) -> str:
    raw = launch.raw
    threads = raw["block"][0] * raw["block"][1] * raw["block"][2]
    fields = "".join(f' <label>{label} <input type="number" min="0" name="{name}" value="{value}"></label>'
                     for label, name, value in (("VGPRs", "vgprs", raw["vgprs"]),
                                                ("LDS bytes", "lds", raw["lds_bytes"]),
                                                ("work-items", "threads", threads)))
    return (f'<h3>Occupancy calculator</h3><form class="calc" data-arch="{raw["arch"]}" '
            f'data-wave="{raw["wave_size"]}">{fields} <output></output></form>')


def _launch(launch: LaunchProfile) -> str:
    parts = [f"<h2><code>{html.escape(launch.kernel)}</code> on simulated {launch.arch}</h2>", _facts(launch),
             '<div class="grid"><div><h3>Instruction mix</h3>', bars(launch.mix(), {}), "</div>",
             "<div><h3>Bytes moved</h3>",
             _table(("", ""), [(k.replace("_", " "), size(v)) for k, v in launch.traffic().items() if v], (1,)),
             "</div></div>"]
    if launch.timing:
        parts += ["<h3>Stalls (estimate)</h3>", bars(launch.timing.stall, STALLS), "<h3>Roofline (estimate)</h3>",
                  roofline([launch]), "<h3>Timeline of one compute unit (estimate)</h3>", timeline(launch)]
    parts += [_conflicts(launch), "<h3>Hot spots</h3>", _hot_spots(launch), _calculator(launch)]
    return "".join(parts)


def _comparison(before: Sequence[LaunchProfile], after: Sequence[LaunchProfile]) -> str:
    old = {launch.kernel: launch for launch in before}
    rows = []
    for new in after:
        if new.kernel not in old:
            continue
        was = old[new.kernel]
        pairs = [("wave instructions", sum(was.mix().values()), sum(new.mix().values()))]
        pairs += [(k.replace("_", " ") + " bytes", was.traffic()[k], v) for k, v in new.traffic().items()]
        pairs.append(("LDS clocks", was.lds_conflicts()[0], new.lds_conflicts()[0]))
        if was.timing and new.timing:
            pairs.append(("clocks (estimate)", round(was.timing.cycles), round(new.timing.cycles)))
        rows += [(f"<code>{html.escape(new.kernel)}</code>", name, str(a), str(b), f"{b / a:.2f}x" if a else "")
                 for name, a, b in pairs if a or b]
    if not rows:
        return "<h2>Comparison</h2><p>No kernel is in both profiles.</p>"
    return "<h2>Comparison</h2>" + _table(("kernel", "what", "before", "after", "ratio"), rows, (2, 3, 4))


def render(launches: Sequence[LaunchProfile], compare: Sequence[LaunchProfile] | None = None) -> str:
    """The page. ``compare`` holds the launches of an earlier run; kernels are matched by name.

    Repeated launches of a kernel with one grid are shown once.
    """
    unique = {(x.kernel, json.dumps(x.raw["grid"])): x for x in launches}
    body = "".join(_launch(launch) for launch in unique.values()) or "<p>No kernel was launched.</p>"
    if compare is not None:
        body = _comparison(compare, list(unique.values())) + body
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><title>FlyDSL profile</title><style>{STYLE}</style></head>'
            f'<body><h1>FlyDSL profile</h1><p class="note">Counts are exact for what the simulator executed. Clocks, '
            f"times and rates are estimates of a model, not measurements of a GPU.</p>{body}"
            f"<script>{CALCULATOR}</script></body></html>")
