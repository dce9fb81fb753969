"""Definitions spelt out on plain tuples, and random operands.  Nothing here calls the algebra under test."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from flydsl.layout import Basis, ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile

Int = Any


def leaves(x: Any) -> list[Any]:
    return [y for e in x for y in leaves(e)] if isinstance(x, tuple) else [x]


def size(s: Any) -> int:
    n = 1
    for e in leaves(s):
        n *= e
    return n


def split(i: int, shape: Any) -> Any:
    """Linear index to natural coordinate; the last mode keeps what is left."""
    if not isinstance(shape, tuple):
        return i
    out = []
    for s in shape[:-1]:
        out.append(split(i % size(s), s))
        i //= size(s)
    return (*out, split(i, shape[-1]))


def plus(a: Any, b: Any) -> Any:
    """Coordinate addition of integers or coordinate tuples."""
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return a + b
    a, b = (x if isinstance(x, tuple) else () if x == 0 else (x,) for x in (a, b))
    return tuple(plus(x, y) for x, y in itertools.zip_longest(a, b, fillvalue=0))


def unit(b: Basis) -> Any:
    v: Any = b.value
    for m in reversed(b.modes):
        v = (*[0] * m, v)
    return v


def times(c: int, d: Any) -> Any:
    if isinstance(d, Basis):
        return unit(Basis(c * d.value, d.modes))
    return c * d


def dot(c: Any, d: Any) -> Any:
    if not isinstance(c, tuple):
        return times(c, d)
    total: Any = 0
    for x, y in zip(c, d, strict=True):
        total = plus(total, dot(x, y))
    return total


def fit(c: Any, shape: Any) -> Any:
    """A coordinate in which integers may stand for tuples, made natural."""
    if not isinstance(c, tuple):
        return split(c, shape)
    return tuple(fit(x, s) for x, s in zip(c, shape, strict=True))


def trim(x: Any) -> Any:
    """Coordinate tuples of any profile as a canonical value: trailing zeros say nothing."""
    if not isinstance(x, tuple):
        return x
    y = [trim(e) for e in x]
    while y and y[-1] == 0:
        y.pop()
    return tuple(y) if y else 0


def value(x: Any, c: Any) -> Any:
    """A layout, swizzle or composed layout at a coordinate (linear or partly linear)."""
    if isinstance(x, Layout):
        return dot(fit(c, x.shape), x.stride)
    if isinstance(x, Swizzle):
        low = (1 << x.mask) - 1
        return c ^ (
            (c >> (x.base + x.shift) & low) << x.base if x.shift >= 0 else (c >> x.base & low) << x.base - x.shift
        )
    if isinstance(x, ComposedLayout):
        return value(x.inner, plus(x.offset, value(x.outer, c)))
    raise TypeError(x)


def linear(x: Any) -> list[Any]:
    return [value(x, i) for i in range(size(x.shape))]


def as_layout(values: list[Any]) -> list[tuple[int, Any]] | None:
    """The unique coalesced modes (extent, stride) of an enumerated map, or None if no layout enumerates it."""
    n, modes, step = len(values), [], 1
    if values[0] != 0:
        return None
    while step < n:
        v, run = values[step], 2
        while run * step < n and values[run * step] == scale(v, run):
            run += 1
        modes.append((run, v))
        step *= run
    if step != n:
        return None
    for i, want in enumerate(values):
        got: Any = 0
        for s, d in modes[:-1]:
            got, i = plus(got, scale(d, i % s)), i // s
        got = plus(got, scale(modes[-1][1], i)) if modes else got
        if trim(got) != trim(want):
            return None
    return modes


def scale(v: Any, k: int) -> Any:
    return tuple(scale(e, k) for e in v) if isinstance(v, tuple) else v * k


def one_direction(v: Any) -> bool:
    """Whether a coordinate is a multiple of one basis vector (or an integer)."""
    return sum(1 for e in leaves(v) if e) <= 1


def grid(extents: Any) -> Iterator[tuple[int, ...]]:
    for c in itertools.product(*(range(e) for e in reversed(extents))):
        yield tuple(reversed(c))


class Random:
    """Random operands, small enough to enumerate."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def choice(self, *xs: Any) -> Any:
        return self.rng.choice(xs)

    def shape(self, limit: int, depth: int = 2, rank: int | None = None) -> Any:
        if rank is None and (depth == 0 or self.rng.random() < 0.3):
            return self.rng.choice([s for s in (1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16) if s <= limit])
        out = []
        for _ in range(rank or self.rng.choice((1, 2, 2, 2, 3))):
            s = self.shape(limit, depth - 1)
            limit = max(limit // size(s), 1)
            out.append(s)
        self.rng.shuffle(out)
        return tuple(out)

    def fill(self, shape: Any, draw: Callable[[], Any]) -> Any:
        return tuple(self.fill(s, draw) for s in shape) if isinstance(shape, tuple) else draw()

    def layout(self, limit: int = 96, depth: int = 2, rank: int | None = None) -> Layout:
        shape = self.shape(limit, depth, rank)
        style = self.rng.random()
        if style < 0.45:
            return self._nested(shape)
        if style < 0.7:
            return Layout(
                shape, self.fill(shape, lambda: self.choice(0, 1, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 16, 24, 60))
            )
        return Layout(shape, self.fill(shape, lambda: self.choice(0, 1, 2, 3, 4, 6, 8, 12, 16, 32)))

    def injective(self, limit: int = 96, depth: int = 2, rank: int | None = None) -> Layout:
        return self._nested(self.shape(limit, depth, rank), zero=0.0)

    def bijective(self, limit: int = 96, depth: int = 2, rank: int | None = None) -> Layout:
        return self._nested(self.shape(limit, depth, rank), zero=0.0, gaps=0.0)

    def crossing(self) -> Layout:
        """Strides that seldom nest."""
        shape = tuple(self.choice(2, 3, 4) for _ in range(self.choice(2, 2, 3)))
        return Layout(shape, tuple(self.rng.randint(1, 12) for _ in shape))

    def _nested(self, shape: Any, zero: float = 0.15, gaps: float = 0.4) -> Layout:
        flat = leaves(shape)
        order = list(range(len(flat)))
        self.rng.shuffle(order)
        strides, running = [0] * len(flat), 1
        for i in order:
            if self.rng.random() < zero:
                continue
            running *= self.choice(1, 2, 3) if self.rng.random() < gaps else 1
            strides[i] = running
            running *= flat[i]
        it = iter(strides)
        return Layout(shape, self.fill(shape, lambda: next(it)))

    def basis_layout(self, limit: int = 96) -> Layout:
        shape = self.shape(limit, 2, self.choice(1, 2, 3))
        directions = [(0,), (1,), (2,), (0,), (1,)]

        def draw() -> Basis:
            return Basis(self.choice(0, 1, 1, 2, 3, 4), self.choice(*directions))

        if self.rng.random() < 0.5:
            paths = iter(_paths(shape))
            return Layout(shape, self.fill(shape, lambda: Basis(self.choice(1, 1, 2), next(paths))))
        return Layout(shape, self.fill(shape, draw))

    def swizzle(self) -> Swizzle:
        return Swizzle(self.choice(0, 1, 2, 3), self.choice(0, 1, 2, 3), self.choice(-3, -2, 0, 1, 2, 3, 4))

    def composed(self, limit: int = 64, depth: int = 1) -> ComposedLayout:
        inner = self.swizzle() if self.rng.random() < 0.7 else self.layout(limit)
        outer = self.composed(limit, depth - 1) if depth and self.rng.random() < 0.3 else self.layout(limit)
        if isinstance(inner, Layout) and depth and self.rng.random() < 0.3:
            inner = self.composed(limit, depth - 1)
        return ComposedLayout(inner, self.choice(0, 0, 1, 5, 8, 32), outer)

    def tile(self, rank: int, depth: int = 1, none: bool = True) -> Tile:
        def entry() -> Any:
            roll = self.rng.random()
            if roll < 0.15 and none:
                return None
            if roll < 0.55:
                return self.choice(1, 2, 3, 4, 6)
            if roll < 0.8 or not depth:
                return self.injective(12, 1)
            return self.tile(self.choice(1, 2), depth - 1, none)

        return Tile(*(entry() for _ in range(rank)))

    def coord_swizzle(self) -> CoordSwizzle:
        return CoordSwizzle(self.choice(0, 1, 2), self.choice(0, 1), (0,), self.choice(0, 1, 2), (1,))


def _paths(shape: Any, at: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if isinstance(shape, tuple):
        return [p for i, s in enumerate(shape) for p in _paths(s, (*at, i))]
    return [at or (0,)]
