"""All layouts that could be an answer, tried one after the other.  Nothing here calls the algebra under test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product
from math import prod

from brute import size

Modes = tuple[tuple[int, int], ...]


@lru_cache(None)
def factorisations(n: int) -> tuple[tuple[int, ...], ...]:
    """The ordered ways to write ``n`` as a product of factors above 1; ``()`` for 1."""
    if n == 1:
        return ((),)
    return tuple((f, *rest) for f in range(2, n + 1) if n % f == 0 for rest in factorisations(n // f))


@lru_cache(None)
def coordinates(extents: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(c[::-1] for c in product(*(range(s) for s in reversed(extents))))


def is_layout_over(values: Sequence[int | None], extents: Sequence[int]) -> bool:
    """Whether some layout whose modes refine ``extents`` has these values in linear order (None: any value).

    Every choice of factors fixes the strides by the values at the unit coordinates.
    """
    if values[0] != 0:
        return False
    for choice in product(*(factorisations(s) for s in extents)):
        factors = tuple(f for fs in choice for f in fs)
        strides, running = [], 1
        for f in factors:
            strides.append(values[running])
            running *= f
        assert None not in strides, "the values at unit coordinates are always known"
        if all(
            v is None or v == sum(x * d for x, d in zip(c, strides, strict=True))  # type: ignore[operator]
            for c, v in zip(coordinates(factors), values, strict=True)
        ):
            return True
    return False


def layouts(rank: int, extents: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """(shape, stride) of all flat layouts of a rank."""
    yield from product(product(extents, repeat=rank), product(strides, repeat=rank))


def complements(image: frozenset[int], codomain: int) -> Iterator[Modes]:
    """Layouts of at most three modes, of increasing strides, that tile at least ``[0, codomain)`` with ``image``."""
    for k in range(4):
        for strides in combinations(range(1, codomain + 1), k):
            for extents in product(range(2, codomain + 1), repeat=k):
                if prod(extents[:-1]) * len(image) > codomain:
                    continue
                offsets = [sum(x * d for x, d in zip(c, strides, strict=True)) for c in coordinates(extents)]
                taken = {o + v for o in offsets for v in image}
                if len(taken) == len(offsets) * len(image) and all(i in taken for i in range(codomain)):
                    yield tuple(zip(extents, strides, strict=True))


def prime_chains(top: int, n: int = 1, chain: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The longest chains of moduli up to ``top``, each a prime times the one before; any layout refines to one."""
    steps = [p for p in range(2, top // n + 1) if all(p % q for q in range(2, p))]
    if not steps:
        yield chain
    for p in steps:
        yield from prime_chains(top, n * p, (*chain, n * p))


@lru_cache(None)
def all_chains(top: int) -> tuple[tuple[int, ...], ...]:
    return tuple(prime_chains(top))


def passes_through(points: dict[int, int]) -> bool:
    """Whether some layout takes every key to its value: the strides of each chain solve equations in integers."""
    xs, ys = list(points), list(points.values())
    for chain in all_chains(max(xs, default=1)):
        ends = (*chain[1:], None) if chain else ()
        columns = [[x % chain[0] if chain else x for x in xs]]
        columns += [[x // n if e is None else x % e // n for x in xs] for n, e in zip(chain, ends, strict=True)]
        if _in_lattice(columns, ys):
            return True
    return False


def _in_lattice(columns: list[list[int]], target: list[int]) -> bool:
    """Whether the target is a sum of integer multiples of the columns."""
    for row in range(len(target)):
        pivot: list[int] | None = None
        rest = []
        for c in columns:
            while c[row]:
                if pivot is None:
                    pivot, c = c, [0] * len(c)
                    break
                q = pivot[row] // c[row]
                pivot, c = c, [x - q * y for x, y in zip(pivot, c, strict=True)]
            rest.append(c)
        if pivot is None:
            if target[row]:
                return False
        else:
            q, r = divmod(target[row], pivot[row])
            if r:
                return False
            target = [x - q * y for x, y in zip(target, pivot, strict=True)]
        columns = rest
    return True


def table(shape: Sequence[int], stride: Sequence[int], length: int) -> list[int]:
    """Values of a flat layout at the linear coordinates below ``length``; the last mode is unbounded."""
    out = []
    for i in range(length):
        v = 0
        for s, d in zip(shape[:-1], stride[:-1], strict=True):
            v += i % s * d
            i //= s
        out.append(v + i * stride[-1])
    return out


def indices(shape: Sequence[int], stride: Sequence[int]) -> list[int]:
    return table(shape, stride, size(tuple(shape)))
