"""Drawing of labelled grids as SVG: the one place that knows about pixels and colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

#: Okabe-Ito hues (colour-blind safe), lightened so that black text stays readable; four tints of each.
_HUES = (
    (86, 180, 233), (230, 159, 0), (0, 158, 115), (240, 228, 66),
    (204, 121, 167), (0, 114, 178), (213, 94, 0), (150, 150, 150),
)
_TINTS = (0.62, 0.42, 0.78, 0.24)
_BLACK = "#1a1a1a"
_LOW, _HIGH = (247, 251, 255), (33, 113, 181)
_FONT = "font-family=\"'DejaVu Sans Mono','Menlo','Consolas',monospace\""


def _hex(rgb: Sequence[float]) -> str:
    return "#" + "".join(f"{round(c):02x}" for c in rgb)


def category_colour(i: int) -> str:
    """A light colour for the i-th class (thread, tile); 32 of them, then they repeat."""
    hue = _HUES[i % len(_HUES)]
    t = _TINTS[i // len(_HUES) % len(_TINTS)]
    return _hex([c + (255 - c) * t for c in hue])


def ramp_colour(x: float) -> str:
    """A colour of the sequential ramp, 0 (light) to 1 (dark blue)."""
    return _hex([a + (b - a) * x for a, b in zip(_LOW, _HIGH, strict=True)])


def luminance(fill: str) -> float:
    """Relative luminance of a colour ``#rrggbb`` (WCAG 2.1)."""
    channels = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def ink(fill: str) -> str:
    """Black or white, whichever has the higher contrast on a fill (WCAG 2.1)."""
    light = luminance(fill) + 0.05
    return "#ffffff" if 1.05 / light > light / (luminance(_BLACK) + 0.05) else _BLACK


def font_for(cells: int) -> float:
    """Font size for so many cells along the longer side."""
    return 13.0 if cells <= 16 else 11.0 if cells <= 32 else 9.0


@dataclass
class Grid:
    """A table of coloured cells.  ``label`` may have two lines (newline between); ``group`` draws tile outlines."""

    rows: int
    cols: int
    label: Callable[[int, int], str]
    fill: Callable[[int, int], str]
    title: str = ""
    group: Callable[[int, int], object] | None = None
    row_name: str = ""
    col_name: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)
    font: float | None = None

    def cell(self) -> tuple[int, int, float]:
        """Width, height and font size of a cell, from the number of cells and the longest label."""
        corner = [(0, 0), (self.rows - 1, self.cols - 1), (0, self.cols - 1), (self.rows - 1, 0)]
        step_r, step_c = max(1, self.rows // 16), max(1, self.cols // 16)
        corner += [(r, c) for r in range(0, self.rows, step_r) for c in range(0, self.cols, step_c)]
        lines = [line for r, c in corner for line in self.label(r, c).split("\n")]
        longest = max(map(len, lines))
        height = max(self.label(r, c).count("\n") for r, c in corner) + 1
        font = self.font or font_for(max(self.rows, self.cols))
        w = max(round(font * 0.62 * longest + 8), round(font * 2.1))
        h = max(round(font * 1.25 * height + 5), round(font * 2.0))
        return (max(w, h), h, font) if height == 1 else (max(w, h), max(h, round(font * 2.6)), font)

    def size(self) -> tuple[int, int]:
        w, h, font = self.cell()
        left, top = self.margins()
        names = max((len(name) for name, _ in self.legend), default=0)
        per_row = max(1, round((w * self.cols) // (names * 7.5 + 34))) if names else 1
        legend = -(-len(self.legend) // per_row) * 20 + (14 if self.legend else 0)
        width = max(left + w * self.cols, round(len(self.title) * 8.2)) + 10
        return width, top + h * self.rows + legend + 10

    def margins(self) -> tuple[int, int]:
        return 40, (44 if self.title else 18) + (14 if self.col_name else 0)

    def draw(self, x0: float = 0, y0: float = 0) -> list[str]:
        """SVG elements of the grid with its top left corner at (x0, y0)."""
        w, h, font = self.cell()
        left, top = self.margins()
        ox, oy = x0 + left, y0 + top
        out: list[str] = []
        if self.title:
            out.append(_text(x0 + 6, y0 + 18, self.title, 14, "start", "#1a1a1a", bold=True))
        if self.col_name:
            out.append(_text(ox + w * self.cols / 2, oy - 18, self.col_name, 11, "middle", "#555555"))
        if self.row_name:
            cy = oy + h * self.rows / 2
            out.append(_text(x0 + 10, cy, self.row_name, 11, "middle", "#555555", rotate=True))
        every_c, every_r = _tick(self.cols, w), _tick(self.rows, h)
        out += [
            _text(ox + w * (c + 0.5), oy - 5, str(c), 10, "middle", "#777777") for c in range(0, self.cols, every_c)
        ]
        ticks = range(0, self.rows, every_r)
        out += [_text(ox - 5, oy + h * (r + 0.5) + 3.5, str(r), 10, "end", "#777777") for r in ticks]
        for r in range(self.rows):
            for c in range(self.cols):
                out += self._cell(r, c, ox + c * w, oy + r * h, w, h, font)
        out += self._outline(ox, oy, w, h)
        out += self._legend(ox, oy + h * self.rows + 14, w * self.cols)
        return out

    def _cell(self, r: int, c: int, x: float, y: float, w: int, h: int, font: float) -> list[str]:
        fill = self.fill(r, c)
        out = [
            f'<rect x="{x:g}" y="{y:g}" width="{w}" height="{h}" fill="{fill}" stroke="#b8b8b8" stroke-width="0.6"/>'
        ]
        lines = self.label(r, c).split("\n")
        first = y + h / 2 + font * 0.36 - font * 0.6 * (len(lines) - 1)
        for k, line in enumerate(lines):
            if line:
                out.append(_text(x + w / 2, first + k * font * 1.2, line, font, "middle", ink(fill)))
        return out

    def _outline(self, ox: float, oy: float, w: int, h: int) -> list[str]:
        d: list[str] = []
        if self.group is not None:
            g = [[self.group(r, c) for c in range(self.cols)] for r in range(self.rows)]
            for r in range(self.rows):
                for c in range(self.cols):
                    if c + 1 < self.cols and g[r][c] != g[r][c + 1]:
                        d.append(f"M{ox + (c + 1) * w:g} {oy + r * h:g}v{h}")
                    if r + 1 < self.rows and g[r][c] != g[r + 1][c]:
                        d.append(f"M{ox + c * w:g} {oy + (r + 1) * h:g}h{w}")
        pen = f'fill="none" stroke="#1a1a1a" stroke-width="{2 if d else 1}"'
        out = [f'<rect x="{ox:g}" y="{oy:g}" width="{w * self.cols}" height="{h * self.rows}" {pen}/>']
        if d:
            out.append(f'<path d="{"".join(d)}" {pen} stroke-linecap="square"/>')
        return out

    def _legend(self, ox: float, y: float, width: float) -> list[str]:
        names = max((len(name) for name, _ in self.legend), default=0)
        step = names * 7.5 + 34
        per_row = max(1, round(width // step)) if names else 1
        out: list[str] = []
        for i, (name, colour) in enumerate(self.legend):
            x, yy = ox + (i % per_row) * step, y + (i // per_row) * 20
            box = f'width="14" height="14" fill="{colour}" stroke="#777777" stroke-width="0.6"'
            out.append(f'<rect x="{x:g}" y="{yy:g}" {box}/>')
            out.append(_text(x + 20, yy + 11, name, 11, "start", "#333333"))
        return out


def _tick(n: int, pixels: int) -> int:
    step = 1
    while n // step > 32 or step * pixels < 16:
        step *= 2
    return step


def _text(
    x: float, y: float, s: str, size: float, anchor: str, colour: str, *, bold: bool = False, rotate: bool = False
) -> str:
    extra = ' font-weight="bold"' if bold else ""
    extra += f' transform="rotate(-90 {x:g} {y:g})"' if rotate else ""
    style = f'font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"{extra}'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(s)}</text>'


def document(body: list[str], width: float, height: float, title: str) -> str:
    """A complete SVG document with a white background."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" role="img" {_FONT}>'
        f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>' + "".join(body) + "</svg>"
    )


def grids(
    items: Sequence[tuple[Grid, float, float]], title: str, heading: bool = False, notes: Sequence[str] = ()
) -> str:
    """Several grids at given positions in one document.

    ``heading`` writes the title into the free top left corner, and ``notes`` below it, a line each.
    """
    body: list[str] = [_text(6, 20, title, 16, "start", "#1a1a1a", bold=True)] if heading else []
    body += [_text(6, 44 + 18 * i, note, 12, "start", "#555555") for i, note in enumerate(notes)]
    width = height = 0.0
    for g, x, y in items:
        body += g.draw(x, y)
        w, h = g.size()
        width, height = max(width, x + w), max(height, y + h)
    return document(body, width, height, title)
