"""The timelines of docs/language/pipelines.md, from the profiler's estimate of the worked examples.

    python docs/language/timelines.py            # writes docs/language/pictures/timeline_*.svg

Each picture shows some waves of a workgroup over a few tiles in the middle of the loop: what a wave issues, and why it
waits where it issues nothing. It is an estimate of the timing model, not a measurement.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
# Kind of pipeline, architecture, waves to show.
CASES = (("staged", "gfx942", (0, 1)), ("direct", "gfx950", (0, 1)), ("tensor", "gfx1250", (0, 4)),
         ("turns", "gfx950", (0, 1, 2, 3)), ("specialised", "gfx1250", (0, 4, 8)))
COLOURS = {"matrix": "#4f6fb5", "lds": "#5aa469", "global": "#d98c3f", "vector": "#b8a3d6", "wait": "#e4e4e4"}
LABELS = {"matrix": "matrix", "lds": "LDS", "global": "loads and copies started", "vector": "vector arithmetic",
          "wait": "waiting"}
SORTS = {"matrix": "matrix", "lds": "lds", "vmem_load": "global", "tensor": "global", "valu": "vector",
         "stall": "wait"}
WIDTH, ROW, LEFT, TILES = 960, 26, 64, 4


def traced(kind: str, arch: str) -> list[dict[str, Any]]:
    """Events of a run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        code = (f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport pipeline_examples, flydsl.runtime as rt\n"
                f"with rt.profile(trace=True) as result:\n    pipeline_examples.run({kind!r}, k=1024)\n"
                f"result.write_trace({str(path)!r})")
        env = {**os.environ, "FLYDSL_RUNTIME_KIND": "sim", "FLYDSL_SIM_ARCH": arch, "ARCH": arch}
        subprocess.run([sys.executable, "-c", code], check=True, env=env)
        events = json.loads(path.read_text())
    return events["traceEvents"] if isinstance(events, dict) else events


def drawing(kind: str, arch: str, waves: tuple[int, ...], events: list[dict[str, Any]]) -> str:
    """SVG of the waves over `TILES` tiles."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    rows = {tid: i for i, wave in enumerate(waves) for tid, name in names.items() if f" wave {wave} " in f"{name} "}
    first = next(tid for tid, i in rows.items() if i == 0)
    matrix = [e["ts"] for e in events if e.get("tid") == first and e.get("cat") == "matrix"]
    barriers = sorted(e["ts"] for e in events if e.get("tid") == first and e.get("cat") == "barrier")
    inside = [t for t in barriers if matrix[0] < t < matrix[-1]]
    tiles = len(inside) // 15 or 1  # barriers of a tile: k = 1024 has 16 tiles
    start, end = inside[5 * tiles], inside[(5 + TILES) * tiles]
    scale = (WIDTH - LEFT - 8) / (end - start)
    parts: list[str] = []
    for tid, row in rows.items():
        y = 30 + row * (ROW + 8)
        parts.append(f'<text x="4" y="{y + 17}">wave {waves[row]}</text>')
        spans: list[list[Any]] = []
        for e in sorted((e for e in events if e.get("tid") == tid and e["ph"] == "X"), key=lambda e: e["ts"]):
            sort = SORTS.get("tensor" if "tensor" in e["name"] else e.get("cat", ""))
            left = LEFT + (max(e["ts"], start) - start) * scale
            right = LEFT + (min(e["ts"] + e["dur"], end) - start) * scale
            if sort is None or right <= left:
                continue
            if spans and spans[-1][0] == sort and left - spans[-1][2] < 0.7:
                spans[-1][2] = right
            else:
                spans.append([sort, left, right])
        parts += [f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 0.5):.1f}" height="{ROW}" fill="{COLOURS[sort]}"/>'
                  for sort, a, b in spans]
        parts += [f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 3}" y2="{y + ROW + 3}"/>' for x in
                  (LEFT + (e["ts"] - start) * scale for e in events
                   if e.get("tid") == tid and e.get("cat") == "barrier" and start <= e["ts"] <= end)]
    height = 30 + len(rows) * (ROW + 8) + 26
    legend, x = [], LEFT
    for sort, label in LABELS.items():
        legend.append(f'<rect x="{x}" y="{height - 18}" width="11" height="11" fill="{COLOURS[sort]}"/>'
                      f'<text x="{x + 15}" y="{height - 8}">{label}</text>')
        x += 32 + 7 * len(label)
    legend.append(f'<line x1="{x + 4}" x2="{x + 4}" y1="{height - 20}" y2="{height - 5}"/>'
                  f'<text x="{x + 12}" y="{height - 8}">barrier</text>')
    title = escape(f"{kind} on {arch}: {TILES} tiles of 64 (estimate of the timing model)")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
            f'font-size="12"><style>line{{stroke:#b03030;stroke-width:1.5}}</style>'
            f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="18">{title}</text>\n'
            + "\n".join(parts + legend) + "\n</svg>\n")


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for kind, arch, waves in CASES:
        path = PICTURES / f"timeline_{kind}.svg"
        path.write_text(drawing(kind, arch, waves, traced(kind, arch)))
        print(f"written: {path.name}, {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
