"""Random cases by the seed, and what the fuzz tests share.

``LAYOUT_FUZZ=100000 pytest tests/test_fuzz*.py`` runs so many cases of each operation; ``LAYOUT_FUZZ_SEED`` starts
elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from brute import Random, as_layout, leaves, one_direction, plus, size, split, trim, value

from flydsl.layout import Layout, LayoutError

CASES = int(os.environ.get("LAYOUT_FUZZ", "400"))
SEED = int(os.environ.get("LAYOUT_FUZZ_SEED", "1"))


def attempt(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except LayoutError:
        return None


def fuzz(f: Callable[[Random], None]) -> Callable[[], None]:
    def test() -> None:
        for k in range(CASES):
            seed = SEED * 1_000_003 + k
            try:
                f(Random(seed))
            except Exception as e:
                raise AssertionError(f"case {seed} of {f.__name__}: {e!r}") from e

    test.__name__ = f.__name__
    return test


def has_profile(r: Any, b: Any) -> bool:
    """Whether every leaf of ``b`` faces one mode (leaf or tuple) of ``r``; rank-1 wrappers may disappear."""
    while isinstance(b, tuple) and len(b) == 1:
        b = b[0]
    while isinstance(r, tuple) and len(r) == 1:
        r = r[0]
    if not isinstance(b, tuple):
        return size(r) == b
    return isinstance(r, tuple) and len(r) == len(b) and all(map(has_profile, r, b))


def composed_map(a: Any, b: Layout) -> list[Any]:
    return [value(a, value(b, i)) for i in range(size(b.shape))]


def composition_exists(a: Layout, b: Layout) -> bool:
    """Each leaf of ``b`` alone must be a layout, and together they must add up."""
    parts = []
    flat_s, flat_d = leaves(b.shape), leaves(b.stride)
    for s, d in zip(flat_s, flat_d, strict=True):
        part = [value(a, value(Layout(s, d), i)) for i in range(s)]
        modes = as_layout(part)
        if modes is None or not all(one_direction(v) for _, v in modes):
            return False
        parts.append(part)
    for i, want in enumerate(composed_map(a, b)):
        got: Any = 0
        for part, c in zip(parts, leaves(split(i, tuple(flat_s))), strict=True):
            got = plus(got, part[c])
        if trim(got) != trim(want):
            return False
    return True


def modes(a: Layout) -> list[Layout]:
    if not isinstance(a.shape, tuple):
        return [a]
    return [Layout(s, d) for s, d in zip(a.shape, a.stride, strict=True)]


def gaps(values: list[int], m: int) -> list[int] | None:
    """The only increasing sequence that completes ``values`` to a tiling of ``[0, m)``, or None if they overlap."""
    image, taken, out = sorted(set(values)), set(), []
    for start in range(m):
        if start in taken:
            continue
        new = {start + v for v in image}
        if new & taken:
            return None
        taken |= new
        out.append(start)
    return out


def completion(values: list[int], m: int) -> list[tuple[int, int]] | None:
    """Modes of the smallest layout that tiles at least ``[0, m)`` with ``values`` and does not overlap."""
    for k in range(m, 3 * m + 2):
        g = gaps(values, k)
        if g is None:
            return None
        found = as_layout(g)
        if found is not None and [d for _, d in found] == sorted(d for _, d in found):
            return found
    return None


def flat_modes(a: Layout) -> list[tuple[int, int]]:
    return list(zip(leaves(a.shape), leaves(a.stride), strict=True))
