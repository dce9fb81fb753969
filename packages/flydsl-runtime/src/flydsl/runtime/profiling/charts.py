"""The pictures of a report, as SVG text. Colours are told apart by people who cannot tell red from green."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .model import STALLS, LaunchProfile

# Okabe and Ito's palette.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000", "#999999", "#7f3c8d")
UNIT_COLOURS = {"valu": "#56b4e9", "trans": "#0072b2", "matrix": "#009e73", "salu": "#999999", "smem": "#cc79a7",
                "lds": "#e69f00", "vmem_load": "#d55e00", "vmem_store": "#7f3c8d", "branch": "#000000",
                "barrier": "#f0e442", "wait": "#dddddd", "internal": "#eeeeee"}


def bars(values: Mapping[str, float], labels: Mapping[str, str], width: int = 640, margin: int = 215) -> str:
    """Horizontal bars with their shares; ``margin`` is the room for the labels."""
    total = sum(values.values()) or 1
    rows = sorted(values.items(), key=lambda kv: -kv[1])
    height = 24 * len(rows) + 4
    out = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">']
    for n, (key, value) in enumerate(rows):
        y, length, colour = 24 * n + 2, (width - margin - 75) * value / total, COLOURS[n % len(COLOURS)]
        out.append(f'<text x="{margin}" y="{y + 15}" text-anchor="end">{html.escape(labels.get(key, key))}</text>'
                   f'<rect x="{margin + 7}" y="{y}" width="{max(1.0, length):.1f}" height="19" fill="{colour}"/>'
                   f'<text x="{margin + 13 + length:.1f}" y="{y + 15}">{100 * value / total:.1f} %</text>')
    return "".join(out) + "</svg>"


def roofline(launches: Sequence[LaunchProfile], width: int = 640, height: int = 340) -> str:
    """Operations per byte of memory traffic against estimated operations a second, under the machine's roofs."""
    machine = launches[0].raw["machine"]
    clocks = machine["compute_units"] * machine["clock_mhz"] * 1e6
    peak, vector = clocks * launches[0].matrix_peak(), clocks * machine.get("peak_vector_flops_per_clk", 256)
    band = machine["memory_bytes_per_second"]
    points = [(x.kernel, found) for x in launches if (found := x.roofline()) and found["rate"]]
    x0, x1 = 0.01, 10000.0
    y1, y0 = peak * 3, band * x0
    left, right, top, bottom = 56, 30, 14, 58

    def px(x: float) -> float:
        return left + (width - left - right) * math.log(min(max(x, x0), x1) / x0) / math.log(x1 / x0)

    def py(y: float) -> float:
        return height - bottom - (height - top - bottom) * math.log(min(max(y, y0), y1) / y0) / math.log(y1 / y0)

    out = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">']
    for power in range(math.ceil(math.log10(x0)), math.floor(math.log10(x1)) + 1):
        x = 10.0**power
        out.append(f'<line x1="{px(x):.1f}" x2="{px(x):.1f}" y1="{top}" y2="{height - bottom}" stroke="#e4e4e4"/>'
                   f'<text x="{px(x):.1f}" y="{height - bottom + 16}" text-anchor="middle">{x:g}</text>')
    for power in range(math.ceil(math.log10(y0)), math.floor(math.log10(y1)) + 1):
        y = 10.0**power
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{py(y):.1f}" y2="{py(y):.1f}" stroke="#e4e4e4"/>'
                   f'<text x="{left - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{_si(y)}</text>')
    out.append(f'<polyline fill="none" stroke="#0072b2" stroke-width="2" points="{px(x0):.1f},{py(x0 * band):.1f} '
               f'{px(peak / band):.1f},{py(peak):.1f} {px(x1):.1f},{py(peak):.1f}"/>'
               f'<line stroke="#0072b2" stroke-width="2" stroke-dasharray="6 4" x1="{px(vector / band):.1f}" '
               f'x2="{px(x1):.1f}" y1="{py(vector):.1f}" y2="{py(vector):.1f}"/>'
               f'<text x="{width - right - 4}" y="{py(peak) - 6:.1f}" text-anchor="end">{peak / 1e12:.0f} TFLOP/s '
               f'matrix (these types)</text><text x="{width - right - 4}" y="{py(vector) - 6:.1f}" text-anchor="end">'
               f'{vector / 1e12:.0f} TFLOP/s vector (f32)</text>')
    # On the slope, away from the points, which lie on or below it.
    out.append(f'<text x="{px(0.2) - 8:.1f}" y="{py(0.2 * band) - 8:.1f}" text-anchor="end">'
               f"{band / 1e12:.2f} TB/s</text>")
    for n, (name, found) in enumerate(points):
        x, y, colour = px(found["intensity"]), py(found["rate"]), COLOURS[(n + 5) % len(COLOURS)]
        end = x > width * 0.6
        label = f"{name}: {_si(found['rate'])}FLOP/s, {100 * found['share']:.0f} % of its roof"
        anchor, beside = ("end", x - 10) if end else ("start", x + 10)
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/><text x="{beside:.1f}" '
                   f'y="{y + 17:.1f}" text-anchor="{anchor}" class="halo">{html.escape(label)}</text>')
    if not points:
        out.append(f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle">no floating-point operations: the '
                   "kernel is judged by memory bandwidth alone</text>")
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 20}" text-anchor="middle">floating-point '
               f'operations per byte of memory traffic</text><text x="{left}" y="{top - 3}" text-anchor="middle">'
               "FLOP/s</text></svg>")
    return "".join(out)


def _si(value: float) -> str:
    """A number with its decimal prefix: 5.3 T."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "


def lds_picture(pattern: Mapping[str, Any], width: int = 900) -> str:
    """Banks of the LDS across, phases of one access down; a cell shows how many dwords its bank serves one by one.

    :param pattern: ``banks``, ``bytes`` of each lane, ``address`` and ``active`` of each lane, ``phases`` (lists of
        lanes that are served together)
    """
    banks, words = pattern["banks"], max(1, pattern["bytes"] // 4)
    left, cell, row = 116, (width - 120) / banks, 22
    shades = ("#ffffff", "#d6e8f5", "#fbe3b3", "#f2b25c", "#e07b2a", "#b9410f", "#7a1f00")
    height = row * len(pattern["phases"]) + 44
    out = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">']
    for n, lanes in enumerate(pattern["phases"]):
        asked: dict[int, dict[int, list[int]]] = {}
        for lane in lanes:
            if not pattern["active"][lane]:
                continue
            for dword in range(pattern["address"][lane] // 4, pattern["address"][lane] // 4 + words):
                asked.setdefault(dword % banks, {}).setdefault(dword, []).append(lane)
        worst = max((len(d) for d in asked.values()), default=0)
        y = 4 + row * n
        out.append(f'<text x="{left - 6}" y="{y + 15}" text-anchor="end">phase {n}: {worst} clk</text>')
        for bank in range(banks):
            dwords = asked.get(bank, {})
            colour = shades[min(len(dwords), 2 + max(0, len(dwords) - 1).bit_length(), len(shades) - 1)]
            lanes_text = "; ".join(f"dword {d}: lanes {', '.join(map(str, who))}" for d, who in sorted(dwords.items()))
            out.append(f'<rect x="{left + cell * bank:.1f}" y="{y}" width="{cell:.1f}" height="{row - 4}" '
                       f'fill="{colour}" stroke="#bbb"><title>bank {bank}: {html.escape(lanes_text) or "idle"}'
                       "</title></rect>")
            if len(dwords) > 1 and cell > 9:
                light = ' fill="#fff"' if len(dwords) > 8 else ""
                out.append(f'<text x="{left + cell * (bank + 0.5):.1f}" y="{y + 13}" text-anchor="middle" '
                           f'font-size="9"{light}>{len(dwords)}</text>')
    y = 4 + row * len(pattern["phases"]) + 12
    for bank in range(0, banks, 8):
        out.append(f'<text x="{left + cell * (bank + 0.5):.1f}" y="{y}" text-anchor="middle">{bank}</text>')
    out.append(f'<text x="{left - 6}" y="{y}" text-anchor="end">bank</text></svg>')
    return "".join(out) + legend({"idle": shades[0], "1 dword": shades[1], "2": shades[3], "3 to 4": shades[4],
                                  "5 to 8": shades[5], "more": shades[6]})


def _window(launch: LaunchProfile) -> tuple[int, int, str]:
    """Clocks to show and what they are: two iterations of the hot loop of one wave, else the middle of the run."""
    events = launch.raw["events"]
    addresses = {i.text: i.address for i in launch.instructions}
    texts = launch.raw["event_text"]
    by_wave: dict[tuple[int, int], list[Any]] = {}
    for event in events:
        by_wave.setdefault((event[1], event[2]), []).append(event)
    wave = max(by_wave.values(), key=len)
    times: dict[int, list[int]] = {}
    for event in wave:
        times.setdefault(event[0], []).append(event[4])
    repeated = [t for t in times.values() if len(t) > 3]
    if not repeated:
        middle = events[len(events) // 2][4]
        return middle, middle + 600, "the middle of the run: no loop was seen"
    # A loop's head is the repeated instruction with the lowest number; nested ones repeat more often.
    most = max(len(t) for t in repeated)
    head = min(n for n, t in times.items() if len(t) == most)
    at = times[head]
    k = len(at) // 2
    start, end = at[k - 1], at[min(k + 1, len(at) - 1)]
    place = addresses.get(texts[str(head)], 0)
    where = f"two iterations of the hot loop at {place:x}, group {wave[0][1]} wave {wave[0][2]}"
    if end - start > 6000:
        return start, start + 6000, where + " (their beginning)"
    return start, max(end, start + 50), where


def timeline(launch: LaunchProfile, width: int = 960) -> str:
    """Instructions of the replayed waves during two iterations of the hot loop; needs a trace."""
    events = launch.raw.get("events")
    if not events:
        return ("<p>No timeline: the profile was taken without a trace. FLYDSL_SIM_TRACE, or profile(trace=True), "
                "adds it.</p>")
    units = {i.text: i.unit for i in launch.instructions}
    texts = launch.raw["event_text"]
    first, last, what = _window(launch)
    inside = [e for e in events if first <= e[4] < last]
    rows = sorted({(e[3], e[1], e[2]) for e in inside})[:16]
    place = {row: n for n, row in enumerate(rows)}
    clocks = last - first
    scale, height = (width - 190) / clocks, 22 * len(rows) + 26
    out = [f"<p>Clocks {first} to {last}: {html.escape(what)}. Pale red: the wave stalls. Hover for the "
           "instruction.</p>",
           f'<div class="wide"><svg class="fixed" viewBox="0 0 {width} {height}" role="img">']
    for row, n in place.items():
        name = "SIMD {} group {} wave {}".format(*row)
        out.append(f'<text x="180" y="{22 * n + 15}" text-anchor="end">{name}</text>')
    stalls, bars_ = [], []  # stalls lie behind the instructions
    for inst, group, wave, simd, start, end, stalled, cause, *_ in inside:
        if (simd, group, wave) not in place:
            continue
        text, y = texts[str(inst)], 22 * place[(simd, group, wave)] + 2
        colour = UNIT_COLOURS.get(units.get(text, ""), "#bbb")
        x = 186 + (start - first) * scale
        wide = max(0.6, min(end - start, last - start) * scale)
        why = f" after {stalled} clocks: {list(STALLS.values())[cause - 1]}" if stalled and cause else ""
        if stalled:
            begin = max(first, start - stalled)
            stalls.append(f'<rect x="{186 + (begin - first) * scale:.1f}" y="{y + 6}" fill="#f3b5a5" height="5" '
                          f'width="{(start - begin) * scale:.1f}"><title>{stalled} clocks: '
                          f'{html.escape(list(STALLS.values())[cause - 1] if cause else "")}</title></rect>')
        bars_.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="17" fill="{colour}">'
                     f"<title>{html.escape(text)} at clock {start}{html.escape(why)}</title></rect>")
    out += [*stalls, *bars_]
    out.append(f'<text x="186" y="{height - 6}">clock {first}</text><text x="{width - 4}" y="{height - 6}" '
               f'text-anchor="end">clock {last}</text></svg></div>')
    shown = {units.get(texts[str(e[0])]) for e in inside}
    return "".join(out) + legend({u: c for u, c in UNIT_COLOURS.items() if u in shown})


def legend(colours: Mapping[str, str]) -> str:
    """Coloured squares with names."""
    items = "".join(f'<span><i style="background:{c}"></i>{html.escape(n.replace("_", " "))}</span>'
                    for n, c in colours.items())
    return f'<p class="legend">{items}</p>'
