"""The pictures of a report, as SVG text. Colours are told apart by people who cannot tell red from green."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from .model import STALLS, LaunchProfile

# Okabe and Ito's palette.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000", "#999999", "#7f3c8d")
UNIT_COLOURS = {"valu": "#56b4e9", "trans": "#0072b2", "matrix": "#009e73", "salu": "#999999", "smem": "#cc79a7",
                "lds": "#e69f00", "vmem_load": "#d55e00", "vmem_store": "#7f3c8d", "branch": "#000000",
                "barrier": "#f0e442", "wait": "#dddddd", "internal": "#eeeeee"}


def bars(values: Mapping[str, float], labels: Mapping[str, str], width: int = 640) -> str:
    """Horizontal bars with their shares."""
    total = sum(values.values()) or 1
    rows = sorted(values.items(), key=lambda kv: -kv[1])
    height = 24 * len(rows) + 4
    out = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">']
    for n, (key, value) in enumerate(rows):
        y, length, colour = 24 * n + 2, (width - 330) * value / total, COLOURS[n % len(COLOURS)]
        out.append(f'<text x="215" y="{y + 15}" text-anchor="end">{html.escape(labels.get(key, key))}</text>'
                   f'<rect x="222" y="{y}" width="{max(1.0, length):.1f}" height="19" fill="{colour}"/>'
                   f'<text x="{228 + length:.1f}" y="{y + 15}">{100 * value / total:.1f} %</text>')
    return "".join(out) + "</svg>"


def roofline(launches: Sequence[LaunchProfile], width: int = 640, height: int = 320) -> str:
    """Matrix flops per byte of memory traffic against estimated flops per second, under the machine's roof."""
    first = launches[0].raw["machine"]
    peak = first["compute_units"] * first["peak_flops_per_clk"] * first["clock_mhz"] * 1e6
    band = first["memory_bytes_per_second"]
    points = []
    for launch in launches:
        traffic = launch.traffic()
        moved = traffic["memory_read"] + traffic["memory_written"]
        if launch.timing and launch.flops() and moved:
            points.append((launch.kernel, launch.flops() / moved, launch.flops() / (launch.timing.microseconds * 1e-6)))
    x0, x1 = 0.1, 10000.0
    y1, y0 = peak * 2, peak / 1e5

    def px(x: float) -> float:
        return 60 + (width - 80) * math.log(min(max(x, x0), x1) / x0) / math.log(x1 / x0)

    def py(y: float) -> float:
        return height - 40 - (height - 60) * math.log(min(max(y, y0), y1) / y0) / math.log(y1 / y0)

    ridge = peak / band
    out = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">',
           f'<polyline fill="none" stroke="#0072b2" stroke-width="2" points="{px(x0):.1f},{py(x0 * band):.1f} '
           f'{px(ridge):.1f},{py(peak):.1f} {px(x1):.1f},{py(peak):.1f}"/>',
           f'<text x="{px(ridge) + 6:.0f}" y="{py(peak) - 6:.0f}">{peak / 1e12:.0f} TFLOP/s (f16 peak)</text>',
           f'<text x="{px(1):.0f}" y="{py(band) - 8:.0f}" text-anchor="end">{band / 1e12:.2f} TB/s</text>']
    for x in (0.1, 1, 10, 100, 1000, 10000):
        out.append(f'<line x1="{px(x):.1f}" x2="{px(x):.1f}" y1="{height - 40}" y2="{height - 36}" stroke="#888"/>'
                   f'<text x="{px(x):.1f}" y="{height - 22}" text-anchor="middle">{x:g}</text>')
    out.append(f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">operations per byte of memory</text>')
    for n, (name, x, y) in enumerate(points):
        colour = COLOURS[(n + 1) % len(COLOURS)]
        out.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="6" fill="{colour}"/>'
                   f'<text x="{px(x) + 9:.1f}" y="{py(y) + 4:.1f}">{html.escape(name)}: {y / 1e12:.1f} TFLOP/s</text>')
    if not points:
        out.append(f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle">no matrix operations: the kernel is '
                   "judged by memory bandwidth alone</text>")
    return "".join(out) + "</svg>"


def timeline(launch: LaunchProfile, clocks: int = 600, width: int = 960) -> str:
    """Instructions of the replayed waves in a window in the middle of the run; needs a trace."""
    events = launch.raw.get("events")
    if not events:
        return "<p>No timeline: the profile was taken without a trace.</p>"
    units = {i.text: i.unit for i in launch.instructions}
    texts = launch.raw["event_text"]
    middle = events[len(events) // 2][4]
    inside = [e for e in events if middle <= e[4] < middle + clocks]
    rows = sorted({(e[3], e[1], e[2]) for e in inside})[:16]
    place = {row: n for n, row in enumerate(rows)}
    scale, height = (width - 150) / clocks, 22 * len(rows) + 30
    out = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">']
    for row, n in place.items():
        name = "SIMD {} group {} wave {}".format(*row)
        out.append(f'<text x="140" y="{22 * n + 15}" text-anchor="end">{name}</text>')
    for inst, group, wave, simd, start, end, stalled, cause, *_ in inside:
        if (simd, group, wave) not in place:
            continue
        text, y = texts[str(inst)], 22 * place[(simd, group, wave)] + 2
        colour = UNIT_COLOURS.get(units.get(text, ""), "#bbb")
        x = 148 + (start - middle) * scale
        wide = max(1.0, min(end - start, middle + clocks - start) * scale)
        why = f" after {stalled} clocks: {list(STALLS.values())[cause - 1]}" if stalled and cause else ""
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="17" fill="{colour}">'
                   f"<title>{html.escape(text)} at clock {start}{html.escape(why)}</title></rect>")
    out.append(f'<text x="148" y="{height - 8}">clock {middle}</text><text x="{width - 4}" y="{height - 8}" '
               f'text-anchor="end">clock {middle + clocks}</text></svg>')
    return "".join(out) + legend({u: c for u, c in UNIT_COLOURS.items() if u in {i.unit for i in launch.instructions}})


def legend(colours: Mapping[str, str]) -> str:
    """Coloured squares with names."""
    items = "".join(f'<span><i style="background:{c}"></i>{html.escape(n.replace("_", " "))}</span>'
                    for n, c in colours.items())
    return f'<p class="legend">{items}</p>'
