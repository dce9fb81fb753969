"""The command line: ``flydsl-layout`` or ``python -m flydsl.layout``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import flydsl.layout as fl

from .errors import LayoutError

DIVIDES = ("logical", "zipped", "tiled", "flat")
PRODUCTS = ("logical", "zipped", "tiled", "flat", "blocked", "raked")


def _layout(text: str) -> Any:
    """A layout, composed layout or swizzle; a shape stands for its column-major layout."""
    x = fl.parse(text)
    if isinstance(x, (int, tuple, fl.Dyn)):
        return fl.Layout(x)
    if not isinstance(x, (fl.Layout, fl.ComposedLayout, fl.Swizzle, fl.CoordSwizzle)):
        raise LayoutError(f"expected a layout, got {text!r}")
    return x


def _tiler(text: str) -> Any:
    start = text.lstrip()[:1]
    return fl.parse_tile(text) if start == "[" or (":" not in text and start not in ("S", "C", "!")) else _layout(text)


def _facts(x: Any) -> dict[str, Any]:
    """What ``--json`` prints of a layout: integers where they are known, the text of the IR types elsewhere."""
    facts: dict[str, Any] = {"text": str(x)}
    if not isinstance(x, (fl.Layout, fl.ComposedLayout)):
        return facts
    facts |= {"size": _known(fl.size(x)), "cosize": _known(fl.cosize(x)), "rank": x.rank, "depth": x.depth}
    facts["shape"] = _known(x.shape)
    if isinstance(x, fl.Layout):
        facts["stride"] = _known(x.stride)
        if x.is_static:
            facts["injective"] = fl.is_injective(x)
    return facts


def _known(x: Any) -> Any:
    """An int tuple as nested lists of integers, and of texts where a leaf is not a static integer."""
    if isinstance(x, tuple):
        return [_known(e) for e in x]
    return x if type(x) is int else fl.to_text(x)


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="flydsl-layout", description="Layout algebra on the command line.")
    p.add_argument("--version", action="version", version=fl.__version__)
    sub = p.add_subparsers(dest="command", required=True)

    def add(name: str, text: str, *operands: tuple[str, str]) -> argparse.ArgumentParser:
        q = sub.add_parser(name, help=text, description=text)
        for operand, what in operands:
            q.add_argument(operand, help=what)
        q.add_argument("--svg", metavar="FILE", help="also write a picture")
        q.add_argument("--json", action="store_true", help="print JSON")
        return q

    layout = ("layout", "e.g. '(4,(2,8)):(2,(1,8))'")
    q = add("show", "show a layout or swizzle as a table", layout)
    q.add_argument("--tv", metavar="TILE", help="treat it as a (thread, value) layout on this tile, e.g. '(16,16)'")
    q.add_argument("--tile", metavar="TILER", help="outline the tiles of this tiler, e.g. '[4|8]'")
    add("compose", "composition A o B", ("a", "layout or swizzle"), ("b", "layout or tile"))
    q = add("divide", "divide a layout by a tiler", layout, ("tiler", "e.g. '[4|8]' or '4:2'"))
    q.add_argument("--kind", choices=DIVIDES, default="logical")
    q.add_argument("--strict", action="store_true", help="fail where the tiler does not divide evenly")
    q = add("product", "repeat a layout", layout, ("tiler", "layout of the repetitions, or '[2|3]' by mode"))
    q.add_argument("--kind", choices=PRODUCTS, default="logical")
    q = add("complement", "complement of a layout", layout)
    q.add_argument("size", nargs="?", type=int, help="codomain size (default: cosize)")
    q = add("inverse", "inverse of a layout", layout)
    q.add_argument("--side", choices=("right", "left"), default="right")
    q = add("coalesce", "coalesce a layout", layout)
    q.add_argument("--by", metavar="PROFILE", help="coalesce within the terminals of this profile")
    q = add("banks", "LDS bank conflicts of a lane (or lane, value) to element layout", layout)
    q.add_argument("--arch", default="gfx942")
    q.add_argument("--bits", type=int, default=128, help="access width per lane")
    q.add_argument("--element-bits", type=int, default=16)
    q.add_argument("--op", choices=("read", "write"), default="read")
    q.add_argument("--fix", action="store_true", help="search the smallest swizzle that removes the conflicts")
    q = sub.add_parser("mma", help="thread-value layouts of matrix instructions")
    q.add_argument("name", nargs="?", help="e.g. mfma_f32_16x16x16_f16")
    q.add_argument("--list", action="store_true", help="list the instructions")
    q.add_argument("--arch")
    q.add_argument("--svg", metavar="FILE")
    q.add_argument("--json", action="store_true")
    return p


#: What a command answers: data for JSON, text, and how to draw it if it can be drawn.
_Answer: TypeAlias = tuple[Any, str, Callable[[], str] | None]


def _show(a: argparse.Namespace) -> _Answer:
    x = _layout(a.layout)
    facts = _facts(x)
    options: dict[str, Any] = {}
    if a.tv:
        options["tile"] = fl.parse_int_tuple(a.tv)
    elif a.tile:
        options["tiler"] = _tiler(a.tile)
    if not options and isinstance(x, (fl.Layout, fl.ComposedLayout)) and not x.is_static:
        text = "\n".join([str(x), *(f"{k} {facts[k]}" for k in ("size", "cosize"))])
    else:
        text = fl.to_table(x, **options)
    return facts, text, lambda: fl.to_svg(x, **options)


def _banks(a: argparse.Namespace) -> _Answer:
    x = _layout(a.layout)
    kw: dict[str, Any] = {"arch": a.arch, "bits": a.bits, "element_bits": a.element_bits, "op": a.op}
    r = fl.bank_conflicts(x, **kw)
    data = {"layout": str(x), "cycles": r.cycles, "ideal": r.ideal, "degree": r.degree}
    data["phases"] = list(r.cycles_per_phase)
    text = f"{r}\ncycles per phase: {' '.join(map(str, r.cycles_per_phase))}"
    if a.fix and not r.conflict_free:
        f = fl.find_swizzle(x, **kw)
        data |= {"swizzle_bytes": str(f.swizzle), "swizzle_elements": str(f.element_swizzle)}
        data["cycles_after"] = f.after.cycles
        text += f"\nwith {f.swizzle} on byte addresses ({f.element_swizzle} on elements): {f.after}"
    return data, text, lambda: fl.to_svg(x)


def _mma(a: argparse.Namespace) -> _Answer:
    if a.list or a.name is None:
        infos = fl.mma_atoms(a.arch)
        data: Any = [{"name": i.name, "archs": list(i.archs)} for i in infos]
        return data, "\n".join(f"{i.name:44} {' '.join(i.archs)}" for i in infos), None
    i = fl.mma_atom(a.name, a.arch)
    data = {
        "name": i.name, "archs": list(i.archs), "shape_mnk": list(i.shape_mnk), "threads": str(i.atom.thr),
        "a": str(i.atom.a), "b": str(i.atom.b), "c": str(i.atom.c),
        "hardware_a": str(i.hardware_a), "hardware_b": str(i.hardware_b),
    }
    return data, "\n".join(f"{k:11} {v}" for k, v in data.items()), lambda: fl.to_svg(i)


def _result(r: Any, source: Any = None, **options: Any) -> _Answer:
    """The layout ``r``; the picture is that of ``source`` if there is one."""
    return _facts(r), str(r), lambda: fl.to_svg(r if source is None else source, **options)


def _divide(a: argparse.Namespace) -> _Answer:
    source, tiler = _layout(a.layout), _tiler(a.tiler)
    if a.strict:
        fl.logical_divide(source, tiler, strict=True)
    return _result(getattr(fl, f"{a.kind}_divide")(source, tiler), source, tiler=tiler)


def _product(a: argparse.Namespace) -> _Answer:
    block, tiler = _layout(a.layout), _tiler(a.tiler) if a.tiler.lstrip()[:1] == "[" else _layout(a.tiler)
    options = {"product_of": (block, tiler)} if isinstance(tiler, fl.Layout) else {}
    return _result(getattr(fl, f"{a.kind}_product")(block, tiler), **options)


_COMMANDS: dict[str, Callable[[argparse.Namespace], _Answer]] = {
    "show": _show, "banks": _banks, "mma": _mma, "divide": _divide, "product": _product,
    "compose": lambda a: _result(fl.composition(_layout(a.a), _tiler(a.b))),
    "complement": lambda a: _result(fl.complement(_layout(a.layout), a.size)),
    "inverse": lambda a: _result(getattr(fl, f"{a.side}_inverse")(_layout(a.layout))),
    "coalesce": lambda a: _result(fl.coalesce(_layout(a.layout), fl.parse_int_tuple(a.by) if a.by else None)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit status is 0, 1 (inadmissible operation, unreadable text, file that cannot be written; with
    a message) or 2 (wrong usage).
    """
    a = _parser().parse_args(argv)
    try:
        data, text, draw = _COMMANDS[a.command](a)
        if a.svg:
            if draw is None:
                raise LayoutError("there is no picture of a list")
            Path(a.svg).write_text(draw(), encoding="utf-8")
    except (LayoutError, OSError) as e:
        print(f"flydsl-layout: {e}", file=sys.stderr)
        return 1
    try:
        print(json.dumps(data, indent=2) if a.json else text, flush=True)
    except BrokenPipeError:  # the reader (`head`) has seen enough; what is left must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
