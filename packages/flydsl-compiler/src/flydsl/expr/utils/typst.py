"""Typst pictures of static layouts, matrix instructions and tiled copies."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

import flydsl.layout as algebra

__all__ = ["print_typst"]

_GREYS = ("FFFFFF", "E6E6E6", "CCCCCC", "B3B3B3", "D9D9D9", "F2F2F2", "BFBFBF", "A6A6A6")
_PASTELS = ("AFAFFF", "AFFFAF", "FFFFAF", "FFAFAF", "D2D2FF", "D2FFD2", "FFFFD2", "FFD2D2")
_HEADER = '#set page(width: auto, height: auto, margin: 8pt)\n#set text(font: "DejaVu Sans Mono", size: 8pt)\n'


def _text_of(value: Any) -> str:
    """The body of a layout value's dialect type."""
    match = re.match(r"!fly\.(?:composed_)?layout<(.*)>$", str(value.type))
    if match is None:
        raise ValueError(f"print_typst shows layouts, MMAs and tiled copies, not {type(value).__name__}")
    if "?" in match.group(1):
        raise ValueError(f"print_typst needs a static layout, got {value}")
    return match.group(1)


def _layout(value: Any) -> Any:
    """A static layout value as a `flydsl.layout` object."""
    return algebra.parse(_text_of(value))


def _mode_sizes(layout: Any) -> list[int]:
    outer = getattr(layout, "outer", layout)
    shape = outer.shape
    modes = shape if isinstance(shape, tuple) else (shape,)
    return [algebra.size(m) for m in modes]


def _hex(color: str) -> str:
    return color.lstrip("#").upper()


def _cell(color: str, text: str) -> str:
    return f'table.cell(fill: rgb("#{_hex(color)}"))[{text}]'


def _grid(rows: list[list[str]]) -> str:
    columns = max(len(r) for r in rows)
    body = ",\n".join("  " + ", ".join(row) for row in rows)
    return f"#table(columns: {columns}, inset: 4pt, align: center + horizon,\n{body}\n)\n"


def _layout_document(value: Any, color: Callable[..., str] | None) -> str:
    layout = _layout(value)
    sizes = _mode_sizes(layout)
    if len(sizes) > 2:
        raise ValueError(f"print_typst shows layouts of rank 1 and 2, got rank {len(sizes)}")
    paint = color or (lambda index: _GREYS[index % len(_GREYS)])
    columns = sizes[1] if len(sizes) == 2 else 1
    rows = []
    for m in range(sizes[0]):
        indices = [int(layout(m + n * sizes[0])) for n in range(columns)]
        rows.append([_cell(paint(i), str(i)) for i in indices])
    if len(sizes) == 1:
        rows = [[cell for row in rows for cell in row]]
    return f"= {_text_of(value)}\n" + _grid(rows)


def _tv_rows(tv: Any, extent: tuple[int, int], color: Callable[..., str] | None, transpose: bool) -> list[list[str]]:
    """Cells "T<thread> V<value>" of a thread-value layout over a tile; several owners share a cell."""
    layout = _layout(tv)
    threads, values = _mode_sizes(layout)
    paint = color or (lambda thread, value: _PASTELS[thread % len(_PASTELS)])
    owners: dict[int, list[tuple[int, int]]] = {}
    for v in range(values):
        for t in range(threads):
            owners.setdefault(int(layout(t + v * threads)), []).append((t, v))
    rows = []
    for m in range(extent[0]):
        row = []
        for n in range(extent[1]):
            pairs = sorted(owners.get(m + n * extent[0], ()))
            if not pairs:
                row.append("[]")
                continue
            t, v = pairs[0]
            more = "…" if len(pairs) > 1 else ""
            row.append(_cell(paint(t, v), f"T{t}{more} \\ V{v}"))
        rows.append(row)
    return [list(r) for r in zip(*rows, strict=True)] if transpose else rows


def _static_tuple(value: Any) -> tuple[int, ...]:
    found = value.to_py_value()
    found = found if isinstance(found, tuple) else (found,)
    out = []
    for entry in found:
        if not isinstance(entry, (int, tuple)):
            raise ValueError("print_typst needs static sizes")
        out.append(algebra.size(entry))
    return tuple(out)


def _mma_document(title: str, shape: tuple[int, ...], layouts: tuple[Any, Any, Any], color: Any) -> str:
    """B above, A left of C."""
    m, n, k = shape
    a, b, c = layouts
    parts = [
        f"[*{title}* \\ {m}x{n}x{k}]",
        "[*B* " + _grid(_tv_rows(b, (n, k), color, transpose=True)) + "]",
        "[*A* " + _grid(_tv_rows(a, (m, k), color, transpose=False)) + "]",
        "[*C* " + _grid(_tv_rows(c, (m, n), color, transpose=False)) + "]",
    ]
    return "#grid(columns: 2, gutter: 8pt,\n" + ",\n".join(parts) + ")\n"


def _copy_document(copy: Any, color: Any) -> str:
    tile = copy.tile_mn.unpack()
    extent = tuple(algebra.size(t) if isinstance(t, (int, tuple)) else algebra.size(_layout(t)) for t in
                   (tile if isinstance(tile, tuple) else (tile,)))
    if len(extent) > 2:
        raise ValueError(f"print_typst shows tiles of rank 1 and 2, got rank {len(extent)}")
    extent = extent if len(extent) == 2 else (1, extent[0])
    text = ""
    for title, tv in (("Source", copy.layout_src_tv_tiled), ("Destination", copy.layout_dst_tv_tiled)):
        text += f"= {title}\n" + _grid(_tv_rows(tv, extent, color, transpose=False))
    return text


def document_of(obj: Any, color: Callable[..., str] | None = None) -> str:
    """The Typst text of one picture, without the header."""
    from ..values.atoms import MmaAtom, TiledCopy, TiledMma
    from ..values.layout import ComposedLayout, Layout

    if isinstance(obj, TiledCopy):
        return _copy_document(obj, color)
    if isinstance(obj, MmaAtom):
        layouts = (obj.layout_A_tv, obj.layout_B_tv, obj.layout_C_tv)
        return _mma_document("MMA atom", _static_tuple(obj.shape_mnk), layouts, color)
    if isinstance(obj, TiledMma):
        layouts = (obj.tv_layout_A_tiled, obj.tv_layout_B_tiled, obj.tv_layout_C_tiled)
        return _mma_document("Tiled MMA", _static_tuple(obj.tile_size_mnk), layouts, color)
    if isinstance(obj, (Layout, ComposedLayout)):
        return _layout_document(obj, color)
    raise ValueError(f"print_typst shows layouts, MMAs and tiled copies, not {type(obj).__name__}")


def print_typst(
    obj: Any, *, color: Callable[..., str] | None = None, file: str | os.PathLike[str] | None = None
) -> None:
    """Typst markup of a static `Layout` or `ComposedLayout` (rank 1 or 2), `MmaAtom`, `TiledMma` or `TiledCopy`.

    Args:
        color: ``color(index)`` of a layout cell, ``color(thread, value)`` of the others; returns a hex colour.
        file: appended to; a new file gets the page setup, pictures are separated by page breaks. None: stdout.

    Raises:
        ValueError: a dynamic layout, or another object.
    """
    text = document_of(obj, color)
    if file is None:
        sys.stdout.write(_HEADER + text)
        return
    new = not os.path.exists(file)
    with open(file, "a", encoding="utf-8") as out:
        out.write((_HEADER if new else "#pagebreak()\n") + text)
