"""Pictures of layouts: SVG, HTML, LaTeX (TikZ) and terminal tables."""

from __future__ import annotations

from typing import Any

from . import coords, inttuple as it
from .algebra import linear_of
from .atoms import MmaAtomInfo
from .construct import cosize
from .core import ComposedLayout, Layout, Swizzle, Tile, as_tiler, make_pair
from .divide import logical_product, zipped_divide
from .errors import LayoutError
from .svg import Grid, category_colour, font_for, grids, ramp_colour
from .tv import MmaAtom, TiledCopy, TiledMma

#: More cells than this are not drawn.
MAX_CELLS = 128 * 128


def _table(x: Any) -> tuple[int, int, list[list[Any]]]:
    """Rows, columns and values: mode 0 runs down, all other modes run to the right; a rank-1 layout is one row."""
    lin = linear_of(x)
    if not it.is_static(lin.shape):
        raise LayoutError(f"a picture needs a static shape: {x}")
    extents = [it.product(s) for s in it.modes_of(lin.shape)]
    rows, cols = (1, extents[0]) if len(extents) == 1 else (extents[0], it.product(tuple(extents[1:])))
    if rows * cols > MAX_CELLS:
        raise LayoutError(f"{x} has {rows * cols} cells; at most {MAX_CELLS} are drawn")
    if len(extents) == 1:
        return rows, cols, [[x(c) for c in range(cols)]]
    return rows, cols, [[x(r + rows * c) for c in range(cols)] for r in range(rows)]


def _show(v: Any) -> str:
    return str(v) if type(v) is int else it.to_text(v)


def layout_grid(x: Any, tiler: Any = None, title: str | None = None, product_of: Any = None) -> Grid:
    """The grid of a layout's indices: light to dark with the index.

    With ``tiler`` it is coloured and outlined by tile; with ``product_of=(layout, tiler)``, of which it is a product,
    by the copies of that layout.
    """
    rows, cols, values = _table(x)
    lin = linear_of(x)
    names = ("", "coordinate") if lin.rank == 1 else ("mode 0", "mode 1" if lin.rank == 2 else "modes 1...")
    title = str(x) if title is None else title
    if tiler is not None or product_of is not None:
        if product_of is None:
            tile_of, what = _tile_ids(lin, tiler), "tile"
            title = f"{title}  by  {as_tiler(tiler)}"
        else:
            tile_of, what = _copy_ids(lin, *product_of), "copy"

        def where(r: int, c: int) -> int:
            return tile_of.get(r + rows * c, -1)

        used = sorted(set(tile_of.values()))
        legend = [(f"{what} {i}", category_colour(i)) for i in used[:15]]
        if len(used) > 15:
            legend.append((f"... {used[-1]}", category_colour(used[-1])))
        return Grid(
            rows, cols, lambda r, c: _show(values[r][c]), lambda r, c: category_colour(where(r, c)),
            title, where, *names, legend,
        )
    flat = [v for row in values for v in row]
    if all(type(v) is int for v in flat):
        low, high = min(flat), max(flat)
        span = max(high - low, 1)
        marks = sorted({low, low + span // 2, high})
        return Grid(
            rows, cols, lambda r, c: _show(values[r][c]), lambda r, c: ramp_colour((values[r][c] - low) / span * 0.9),
            title, None, *names, [(f"index {m}", ramp_colour((m - low) / span * 0.9)) for m in marks],
        )
    return Grid(rows, cols, lambda r, c: _show(values[r][c]), lambda r, c: "#f4f7fb", title, None, *names)


def _tile_ids(lin: Layout, tiler: Any) -> dict[int, int]:
    """Linear coordinate to the number of the tile that holds it."""
    if not it.is_static(lin.shape):
        raise LayoutError(f"a picture needs a static shape: {lin}")
    ids = zipped_divide(make_pair(lin.shape, coords.compact(lin.shape)), tiler)
    if not ids.is_static:
        raise LayoutError(f"a picture needs a static tiler: {tiler}")
    size, n = it.product(lin.shape), it.product(ids.shape[0])
    if it.product(ids.shape) > 16 * MAX_CELLS:
        raise LayoutError(f"the tiler {tiler} is too large to draw on {lin}")
    out: dict[int, int] = {}
    for j in range(it.product(ids.shape[1])):
        for i in range(n):
            linear = coords.crd2idx(i + n * j, ids.shape, ids.stride)
            if linear < size:
                out[linear] = j
    return out


def _copy_ids(lin: Layout, block: Layout, tiler: Layout) -> dict[int, int]:
    """Linear coordinate of a product to the number of the copy of ``block`` that holds it."""
    plain = logical_product(linear_of(block), tiler)
    n = it.product(plain.shape[0])
    copy_of = {plain(i): i // n for i in range(plain.size())}
    out = {i: copy_of.get(lin(i), -1) for i in range(lin.size())}
    if -1 in out.values() or len(copy_of) != plain.size():
        raise LayoutError(f"{lin} is not a product of {block} and {tiler} in which the copies do not overlap")
    return out


def tv_grid(tv: Layout, tile: Any, title: str | None = None, transpose: bool = False) -> Grid:
    """The tile, every element labelled with its thread and value and coloured by thread."""
    tile = it.modes_of(it.normalize(tile))
    rows, cols = (tile[0], 1) if len(tile) == 1 else (tile[0], it.product(tile[1:]))
    if type(rows) is not int or type(cols) is not int or rows * cols > MAX_CELLS:
        raise LayoutError(f"cannot draw a TV layout on the tile {it.to_text(tile)}")
    if linear_of(tv).rank != 2:
        raise LayoutError(f"a TV layout has the modes (thread, value), got {tv}")
    if not linear_of(tv).is_static:
        raise LayoutError(f"a picture needs a static layout: {tv}")
    threads, values = it.product(tv.shape[0]), it.product(tv.shape[1])
    owners: dict[int, list[tuple[int, int]]] = {}
    for t in range(threads):
        for v in range(values):
            owners.setdefault(coords.crd2idx((t, v), (threads, values), (1, threads)), []).append((t, v))
    cells: dict[int, list[tuple[int, int]]] = {}
    for linear, who in owners.items():
        cells.setdefault(tv(linear), []).extend(who)

    def at(r: int, c: int) -> list[tuple[int, int]]:
        return cells.get(c + rows * r if transpose else r + rows * c, [])

    def label(r: int, c: int) -> str:
        who = at(r, c)
        if not who:
            return "-"
        more = f"+{len(who) - 1}" if len(who) > 1 else ""
        return f"T{who[0][0]}{more}\nV{who[0][1]}"

    def fill(r: int, c: int) -> str:
        who = at(r, c)
        return category_colour(who[0][0]) if who else "#ffffff"

    legend = [(f"T{t}", category_colour(t)) for t in range(min(threads, 8))]
    if threads > 8:
        legend.append((f"... T{threads - 1}", category_colour(threads - 1)))
    title = str(tv) if title is None else title
    names = ("column", "row") if transpose else ("row", "column")
    shape = (cols, rows) if transpose else (rows, cols)
    return Grid(*shape, label, fill, title, None, *names, legend)


def swizzle_grid(s: Swizzle) -> Grid:
    """One period of a swizzle: row = the selecting bits, cell = the index that arrives at each place."""
    step = 1 << s.base
    cols = 1 << max(abs(s.shift), s.mask)
    rows = max(1, (s.period // step) // cols)
    if rows * cols > MAX_CELLS:
        raise LayoutError(f"one period of {s} has {rows * cols} cells; at most {MAX_CELLS} are drawn")

    def value(r: int, c: int) -> int:
        return int(s((r * cols + c) * step)) // step

    unit = "" if step == 1 else f" (in units of {step})"
    return Grid(
        rows, cols, lambda r, c: str(value(r, c)), lambda r, c: category_colour(value(r, c) % cols),
        f"{s}{unit}", None, "row", "column", [(f"column {c}", category_colour(c)) for c in range(min(cols, 8))],
    )


def mma_svg(atom: MmaAtom, title: str = "", notes: tuple[str, ...] = ()) -> str:
    """A, B and C of a matrix instruction in the usual arrangement: A left of C, B above C.

    The blocks of an instruction of several stand side by side; the A of a sparse one has half of the columns.
    """
    m, n, _ = atom.shape_mnk
    ka, kb, nc = (cosize(x) // rows for x, rows in ((atom.a, m), (atom.b, n), (atom.c, m)))
    a = tv_grid(atom.a, (m, ka), f"A  {atom.a}")
    b = tv_grid(atom.b, (n, kb), f"B  {atom.b}", transpose=True)
    c = tv_grid(atom.c, (m, nc), f"C  {atom.c}")
    a.font = b.font = c.font = font_for(max(m, n, ka, kb, nc))  # so that the columns of B stand above those of C
    a.row_name, a.col_name = "m", "k"
    b.row_name, b.col_name = "k", "n"
    c.row_name, c.col_name = "m", "n"
    (aw, _), (_, bh) = a.size(), b.size()
    shown = (*notes, f"threads  {atom.thr}", "T thread (lane), V value (register slot)")
    x, y = max(aw, 9 * max(map(len, (title, *shown)))) + 16, bh + 8
    return grids([(b, x, 0), (a, 0, y), (c, x, y)], title or atom.name or "MMA atom", heading=True, notes=shown)


def _notes(x: MmaAtomInfo) -> tuple[str, ...]:
    m, n, k = x.shape_mnk
    blocks = f", {x.blocks} blocks" if x.blocks > 1 else ""
    return (
        ", ".join(x.archs),
        f"M {m}, N {n}, K {k}{blocks}" + (", A sparse 2 of 4" if x.sparse else ""),
        f"A {x.a_type}, B {x.b_type}, C {x.acc_type}",
    )


def to_svg(x: Any, *, tiler: Any = None, tile: Any = None, title: str | None = None, product_of: Any = None) -> str:
    """SVG of a layout, swizzle, TV layout (give ``tile``), divide (give ``tiler``), product (give
    ``product_of=(layout, tiler)``), MMA atom or tiled operation.
    """
    if isinstance(x, MmaAtomInfo):
        return mma_svg(x.atom, title or x.name, _notes(x))
    if isinstance(x, MmaAtom):
        return mma_svg(x, title or "")
    if isinstance(x, TiledMma):
        m, n, k = x.tile_size_mnk
        tiled = MmaAtom((m, n, k), x.thr_layout_vmnk, x.tv_layout("a"), x.tv_layout("b"), x.tv_layout("c"))
        return mma_svg(tiled, title or f"tiled {x.atom.name}")
    if isinstance(x, TiledCopy):
        from .tv import _tile_extents

        extents = _tile_extents(x.tile)
        src, dst = (tv_grid(x.tv_layout(s), extents, f"{s}  {x.tv_layout(s)}") for s in ("src", "dst"))
        return grids([(src, 0, 0), (dst, src.size()[0] + 20, 0)], title or "tiled copy")
    if isinstance(x, Swizzle):
        g = swizzle_grid(x)
    elif isinstance(x, (Layout, ComposedLayout)):
        g = layout_grid(x, tiler, title, product_of) if tile is None else tv_grid(linear_of(x), tile, title)
    else:
        raise LayoutError(f"no picture of {x!r}")
    return grids([(g, 0, 0)], g.title)


def _grid_of(x: Any, tiler: Any, tile: Any, product_of: Any) -> Grid:
    if isinstance(x, Swizzle):
        return swizzle_grid(x)
    if isinstance(x, (Layout, ComposedLayout)):
        return layout_grid(x, tiler, None, product_of) if tile is None else tv_grid(linear_of(x), tile)
    raise LayoutError(f"no table of {x!r}")


def to_html(x: Any, *, tiler: Any = None, tile: Any = None, product_of: Any = None) -> str:
    """An HTML ``<table>`` with inline styles."""
    g = _grid_of(x, tiler, tile, product_of)
    from html import escape

    from .svg import ink

    rows = []
    for r in range(g.rows):
        cells = "".join(
            f'<td style="background:{g.fill(r, c)};color:{ink(g.fill(r, c))};border:1px solid #b8b8b8;padding:2px 6px;'
            f'text-align:right">{escape(g.label(r, c)).replace(chr(10), "<br>")}</td>'
            for c in range(g.cols)
        )
        rows.append(f'<tr><th style="color:#777777;font-weight:normal">{r}</th>{cells}</tr>')
    head = "".join(f'<th style="color:#777777;font-weight:normal">{c}</th>' for c in range(g.cols))
    return (
        '<table style="border-collapse:collapse;font-family:monospace;font-size:12px">'
        f"<caption>{escape(g.title)}</caption><tr><th></th>{head}</tr>{''.join(rows)}</table>"
    )


def to_latex(x: Any, *, tiler: Any = None, tile: Any = None, product_of: Any = None) -> str:
    """A TikZ picture (needs the ``tikz`` package)."""
    g = _grid_of(x, tiler, tile, product_of)
    colours: dict[str, str] = {}
    body = []
    for r in range(g.rows):
        for c in range(g.cols):
            name = colours.setdefault(g.fill(r, c), f"layout{len(colours)}")
            label = g.label(r, c).replace("\n", " ")
            body.append(
                f"\\node[draw=gray,fill={name},minimum size=8mm,inner sep=0pt,font=\\tiny\\ttfamily]"
                f" at ({c * 0.8:g},{-r * 0.8:g}) {{{label}}};"
            )
    defs = [f"\\definecolor{{{n}}}{{HTML}}{{{c[1:].upper()}}}" for c, n in colours.items()]
    return "\n".join([*defs, "\\begin{tikzpicture}", *body, "\\end{tikzpicture}"])


def to_table(x: Any, *, tiler: Any = None, tile: Any = None, product_of: Any = None) -> str:
    """A table for the terminal; tile boundaries are drawn as lines."""
    g = _grid_of(x, tiler, tile, product_of)
    cell = [[g.label(r, c).replace("\n", "") for c in range(g.cols)] for r in range(g.rows)]
    w = max(len(s) for row in (*cell, [str(g.cols - 1)]) for s in row)
    left = len(str(g.rows - 1))

    def cut(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return g.group is not None and g.group(*a) != g.group(*b)

    out = [g.title, " " * left + " " + " ".join(f" {c:>{w}}" for c in range(g.cols))]
    out.append(" " * left + " ┌" + "─" * ((w + 2) * g.cols - 1) + "┐")
    for r in range(g.rows):
        line = f"{r:>{left}} │"
        for c in range(g.cols):
            bar = "│" if c + 1 < g.cols and cut((r, c), (r, c + 1)) else " "
            line += f"{cell[r][c]:>{w}} " + (bar if c + 1 < g.cols else "│")
        out.append(line)
        if r + 1 < g.rows and any(cut((r, c), (r + 1, c)) for c in range(g.cols)):
            marks = ("─" * (w + 2) if cut((r, c), (r + 1, c)) else " " * (w + 2) for c in range(g.cols))
            out.append(" " * left + " │" + "".join(marks)[:-1] + "│")
    out.append(" " * left + " └" + "─" * ((w + 2) * g.cols - 1) + "┘")
    return "\n".join(out)


__all__ = [
    "Tile",
    "layout_grid",
    "mma_svg",
    "swizzle_grid",
    "to_html",
    "to_latex",
    "to_svg",
    "to_table",
    "tv_grid",
]
