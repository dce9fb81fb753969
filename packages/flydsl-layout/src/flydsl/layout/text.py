"""Parsing of the IR text of int tuples, layouts, swizzles, composed layouts and tiles.

The grammar is that of the ``fly`` dialect's types; whitespace is free between tokens.  Every parser raises
:class:`LayoutError` with the position for malformed text and nothing else.
"""

from __future__ import annotations

import re
from typing import Any

from . import inttuple as it
from .core import ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile, check_extents, make_pair
from .errors import LayoutError
from .scalar import Basis, Dyn, IntTuple, Leaf

_TOKEN = re.compile(r"\s*(?:(-?[0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|(\S))", re.ASCII)
_WRAPPER = re.compile(r"\s*!fly\.(int_tuple|layout|basis|swizzle|coord_swizzle|composed_layout|tile)\s*<(.*)>\s*", re.S)
_BASIS = re.compile(r"(?:E[0-9]+)+", re.ASCII)
_INT = re.compile(r"-?[0-9]+", re.ASCII)
_MAX_DEPTH = 64
_MAX_DIGITS = 40


class _Parser:
    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise LayoutError(f"cannot parse {type(text).__name__}, only text")
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.pos = 0
        self.depth = 0
        at = 0
        while (m := _TOKEN.match(text, at)) is not None:
            self.tokens.append((m.group(m.lastindex or 0), m.start(m.lastindex or 0)))
            at = m.end()

    def peek(self, ahead: int = 0) -> str:
        i = self.pos + ahead
        return self.tokens[i][0] if i < len(self.tokens) else ""

    def fail(self, what: str) -> LayoutError:
        at = self.tokens[self.pos][1] if self.pos < len(self.tokens) else len(self.text)
        found = f"found {self.peek()!r}" if self.peek() else "the text ends"
        shown = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        return LayoutError(f"parse error at column {at + 1} of {shown!r}: expected {what}, {found}")

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.fail(repr(token))
        self.pos += 1

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.pos += 1
            return True
        return False

    def nest(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise LayoutError(f"nested deeper than {_MAX_DEPTH} levels")

    def integer(self) -> int:
        t = self.peek()
        if not _INT.fullmatch(t):
            raise self.fail("an integer")
        if len(t) > _MAX_DIGITS:
            raise self.fail(f"an integer of at most {_MAX_DIGITS} digits")
        self.pos += 1
        return int(t)

    def scalar(self) -> Leaf:
        if self.accept("*"):
            return None
        if not self.accept("?"):
            return self.integer()
        width, div = 32, 1
        if self.accept("{"):
            if self.peek() in ("i32", "i64"):
                width = int(self.peek()[1:])
                self.pos += 1
            if self.accept("div"):
                self.expect("=")
                div = self.integer()
            self.expect("}")
        return Dyn(width, div)

    def leaf(self) -> Leaf:
        v = self.scalar()
        if _BASIS.fullmatch(self.peek()):
            digits = self.peek().split("E")[1:]
            if any(len(d) > 6 for d in digits):
                raise self.fail("a basis mode of at most 6 digits")
            self.pos += 1
            return Basis(v, tuple(map(int, digits)))
        return v

    def int_tuple(self) -> IntTuple:
        if not self.accept("("):
            return self.leaf()
        self.nest()
        items = [self.int_tuple()]
        while self.accept(","):
            items.append(self.int_tuple())
        self.expect(")")
        self.depth -= 1
        return tuple(items)

    def layout(self) -> Layout:
        shape = self.int_tuple()
        self.expect(":")
        return self.layout_rest(shape)

    def layout_rest(self, shape: IntTuple) -> Layout:
        check_extents(shape)
        return make_pair(shape, self.int_tuple())  # the text of a type may have a stride of another profile

    def swizzle(self) -> Swizzle:
        self.expect("S")
        self.expect("<")
        m = self.integer()
        self.expect(",")
        b = self.integer()
        self.expect(",")
        s = self.integer()
        self.expect(">")
        return Swizzle(m, b, s)

    def int_list(self) -> tuple[int, ...]:
        self.expect("[")
        items: list[int] = []
        if self.peek() != "]":
            items.append(self.integer())
            while self.accept(","):
                items.append(self.integer())
        self.expect("]")
        return tuple(items)

    def coord_swizzle(self) -> CoordSwizzle:
        self.expect("CS")
        self.expect("<")
        m = self.integer()
        self.expect(",")
        br = self.integer()
        self.expect(",")
        pr = self.int_list()
        self.expect(",")
        bc = self.integer()
        self.expect(",")
        pc = self.int_list()
        self.expect(">")
        return CoordSwizzle(m, br, pr, bc, pc)

    def composed(self) -> Any:
        """A layout, a bare swizzle, or a chain ``A o x o B o y o C`` (left associative)."""
        inner: Any
        if self.peek() == "S":
            inner = self.swizzle()
        elif self.peek() == "CS":
            inner = self.coord_swizzle()
        else:
            inner = self.layout()
        chain = 0
        while self.accept("o"):
            chain += 1
            if chain > _MAX_DEPTH:
                raise self.fail(f"at most {_MAX_DEPTH} compositions")
            offset = self.int_tuple()
            self.expect("o")
            if self.accept("["):
                self.nest()
                outer = self.composed()
                self.depth -= 1
                self.expect("]")
            else:
                outer = self.layout()
            inner = ComposedLayout(inner, offset, outer)
        return inner

    def tile_elem(self) -> Any:
        if self.accept("["):
            self.nest()
            items = [self.tile_elem()]
            while self.accept("|"):
                items.append(self.tile_elem())
            self.expect("]")
            self.depth -= 1
            return Tile(*items)
        x = self.int_tuple()
        if self.accept(":"):
            return self.layout_rest(x)
        if type(x) is tuple or type(x) is Basis:
            raise LayoutError(f"a tile entry is an int, '*', '?', a layout or a nested tile, not {it.to_text(x)}")
        return x

    def tile(self) -> Tile:
        x = self.tile_elem()
        return x if isinstance(x, Tile) else Tile.leaf(x)

    def anything(self) -> Any:
        if self.peek() == "[":
            return self.tile()
        if self.peek() in ("S", "CS"):
            return self.composed()
        start = self.pos
        x = self.int_tuple()
        if self.peek() != ":":
            return x
        self.pos = start
        return self.composed()


def _run(text: str, rule: str) -> Any:
    p = _Parser(text)
    r = getattr(p, rule)()
    if p.pos != len(p.tokens):
        raise p.fail("the end of the text")
    return r


def parse_int_tuple(text: str) -> IntTuple:
    """``"(4,(?,2E1))"`` to an int tuple."""
    return _run(text, "int_tuple")


def parse_layout(text: str) -> Layout:
    """``"(4,2):(1,4)"`` to a :class:`Layout`."""
    return _run(text, "layout")  # type: ignore[no-any-return]


def parse_tile(text: str) -> Tile:
    """``"[4|*|(2,2):(1,4)]"`` or a leaf tile such as ``"4"`` to a :class:`Tile`."""
    return _run(text, "tile")  # type: ignore[no-any-return]


def parse_composed(text: str) -> ComposedLayout | Layout | Swizzle | CoordSwizzle:
    """A composition chain; a plain layout or swizzle is a chain of length zero."""
    return _run(text, "composed")  # type: ignore[no-any-return]


def parse(text: str) -> Any:
    """Parse whatever a value of this library prints, or the text of a whole ``!fly.…<…>`` type.

    Text without wrapper that is both an int tuple and a leaf tile (``4``) gives the int tuple; use
    :func:`parse_tile` or the ``!fly.tile<4>`` form for tiles.
    """
    if not isinstance(text, str):
        raise LayoutError(f"cannot parse {type(text).__name__}, only text")
    m = _WRAPPER.fullmatch(text)
    if m is None:
        return _run(text, "anything")
    kind, body = m.groups()
    if kind == "composed_layout":
        r = _run(body, "composed")
        if not isinstance(r, ComposedLayout):
            raise LayoutError(f"a composed layout needs at least one composition: {text!r}")
        return r
    if kind == "basis":
        r = _run(body, "leaf")
        if not isinstance(r, Basis):
            raise LayoutError(f"not a basis vector: {text!r}")
        return r
    return _run(body, kind)


def to_fly_type(x: Any) -> str:
    """The full IR type text, e.g. ``!fly.layout<8:1>``; ``parse`` reads it back without ambiguity."""
    names = {
        Layout: "layout",
        Swizzle: "swizzle",
        CoordSwizzle: "coord_swizzle",
        ComposedLayout: "composed_layout",
        Tile: "tile",
    }
    name = names.get(type(x))
    return f"!fly.{name}<{x}>" if name else f"!fly.int_tuple<{it.to_text(it.normalize(x))}>"
