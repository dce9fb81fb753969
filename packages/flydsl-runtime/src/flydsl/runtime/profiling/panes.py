"""Python source and instructions beside each other, linked line by line."""

from __future__ import annotations

import html
from collections import defaultdict

from .model import STALLS, Instruction, LaunchProfile
from .sources import excerpt, line_text, place

PANES_STYLE = """
.panes { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 12px; }
.pane { border: 1px solid var(--line); border-radius: 6px; max-height: 70vh; overflow: auto; background: var(--soft); }
.pane h4 { position: sticky; top: 0; margin: 0; padding: 6px 10px; background: var(--soft); border-bottom: 1px solid
var(--line); z-index: 1; } .pane ol { list-style: none; margin: 0; padding: 0; } .pane li { display: flex; gap: 8px;
padding: 0 8px; font: 12.5px/1.7 ui-monospace, monospace; cursor: default; } .pane li[data-line] { cursor: pointer; }
.pane li.on { background: var(--mark); } .pane li > span { flex: none; width: 3.6em; text-align: right; color:
var(--dim);
} .pane li > i { flex: none; width: 42px; align-self: center; height: 9px; background: var(--line); border-radius:
2px; }
.pane li > i > b { display: block; height: 9px; background: #d55e00; border-radius: 2px; } .pane li > code { flex: 1;
white-space: pre; overflow: hidden; text-overflow: ellipsis; } .pane li > em { flex: none; color: var(--dim);
font-style:
normal; max-width: 15em; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .pane li.gap { color:
var(--dim); justify-content: center; }
@media (max-width: 760px) { .panes { grid-template-columns: minmax(0, 1fr); } .pane { max-height: 48vh; }
.pane li > em { display: none; } }
"""

PANES_SCRIPT = """
document.querySelectorAll('.panes').forEach(panes => {
  const items = [...panes.querySelectorAll('li[data-line]')];
  const mark = (line, from) => { items.forEach(li => li.classList.toggle('on', li.dataset.line === line));
    panes.querySelectorAll('.pane').forEach(pane => { if (pane.contains(from)) return;
      const first = pane.querySelector('li.on');
      if (first) pane.scrollTop = first.offsetTop - pane.offsetTop - pane.clientHeight / 3; }); };
  panes.addEventListener('click', e => { const li = e.target.closest('li[data-line]'); if (li) mark(li.dataset.line,
  li); });
});
document.querySelectorAll('input.filter').forEach(input => input.addEventListener('input', () => {
  const text = input.value.toLowerCase();
  document.querySelectorAll('details.launch').forEach(d => d.hidden = !d.dataset.name.toLowerCase().includes(text));
  }));
document.querySelectorAll('table').forEach(table => table.querySelectorAll('th').forEach((th, n) => {
  if (!th.textContent) return;
  th.addEventListener('click', () => { const down = th.dataset.down = th.dataset.down === '1' ? '0' : '1';
    const key = tr => { const t = (tr.children[n] || {}).textContent || ''; const v = parseFloat(t); return isNaN(v)
    ? t : v; };
    const rows = [...table.querySelectorAll('tr')].slice(1);
    rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down === '1' ? -1 : 1));
    rows.forEach(r => r.parentNode.appendChild(r)); }); }));
document.querySelectorAll('a[href^="#"]').forEach(a => a.addEventListener('click', () => {
  const target = document.getElementById(a.getAttribute('href').slice(1));
  for (let d = target; d; d = d.parentElement) if (d.tagName === 'DETAILS') d.open = true; }));
"""


def weight(launch: LaunchProfile, i: Instruction) -> int:
    """What an instruction costs: sampled clocks with its stalls, or how often it was issued."""
    return sum(i.stall.values()) + 4 * i.sampled if launch.timing else i.issued


def _bar(share: float, title: str) -> str:
    return f'<i title="{html.escape(title)}"><b style="width:{100 * min(1.0, share):.0f}%"></b></i>'


def panes(launch: LaunchProfile) -> str:
    """The two panes; a click in one marks what belongs to it in the other."""
    weights = [weight(launch, i) for i in launch.instructions]
    total = sum(weights) or 1
    what = "time" if launch.timing else "instructions"
    lines: dict[str, int] = defaultdict(int)
    for i, w in zip(launch.instructions, weights, strict=True):
        lines[i.source] += w
    right = []
    top = max(weights, default=1) or 1
    for i, w in zip(launch.instructions, weights, strict=True):
        worst = max(i.stall, key=lambda k: i.stall[k], default="") if i.stall else ""
        link = f' data-line="{html.escape(i.source)}"' if i.source else ""
        number = i.source.rsplit(":", 1)[-1] if i.source else ""
        right.append(
            f"<li{link}>{_bar(w / top, f'{100 * w / total:.1f} % of the {what}, issued {i.issued} times')}"
            f"<span>{number}</span><code>{html.escape(i.text)}</code><em>{html.escape(STALLS.get(worst, ''))}</em></li>"
        )
    source = _source(launch, lines, total, what)
    return (
        f'<div class="panes"><div class="pane"><h4>Python source</h4><ol>{source}</ol></div>'
        f'<div class="pane"><h4>Instructions</h4><ol>{"".join(right)}</ol></div></div>'
    )


def _source(launch: LaunchProfile, weights: dict[str, int], total: int, what: str) -> str:
    files: dict[str, dict[int, int]] = defaultdict(dict)
    for source, cost in weights.items():
        if found := place(source):
            files[found[0]][found[1]] = cost
    if not files:
        return "<li class=gap>no source lines: compile with FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1</li>"
    top, out = max(weights.values()) or 1, []
    for file, lines in sorted(files.items(), key=lambda kv: -sum(kv[1].values())):
        out.append(f"<li class=gap>{html.escape(file.rsplit('/', 1)[-1])}</li>")
        last = 0
        for n in excerpt(lines):
            text = line_text(launch, file, n)
            if not text and n not in lines:
                continue
            if last and n > last + 1:
                out.append("<li class=gap>⋯</li>")
            last = n
            cost = lines.get(n, 0)
            link = f' data-line="{html.escape(f"{file}:{n}")}"' if n in lines else ""
            share = f"{100 * cost / total:.1f} % of the {what}"
            out.append(
                f"<li{link}>{_bar(cost / top, share)}<span>{n}</span><code>{html.escape(text)}</code>"
                f"<em>{share.split(' of')[0] if n in lines else ''}</em></li>"
            )
    return "".join(out)
