"""GF(2)-linear layouts: maps on index bits, for extents that are powers of two.

A linear layout is given by the images of the input bits; the image of an index is the XOR of the images of its bits
(plus an offset that is XORed in).  Swizzles are linear, and so is every injective power-of-two layout whose modes do
not overlap in bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import inttuple as it
from .algebra import coalesce
from .core import ComposedLayout, Layout, Swizzle, make_pair, static_flat
from .errors import LayoutError


@dataclass(frozen=True)
class LinearLayout:
    """``f(i) = offset XOR (XOR of bases[k] over the set bits k of i)`` on ``[0, 2**len(bases))``."""

    bases: tuple[int, ...]
    offset: int = 0

    def __call__(self, i: int) -> int:
        r = self.offset
        for k, b in enumerate(self.bases):
            if i >> k & 1:
                r ^= b
        return r

    @property
    def size(self) -> int:
        """Number of coordinates: two to the number of bases."""
        return 1 << len(self.bases)

    @property
    def rank(self) -> int:
        """Rank of the matrix over GF(2)."""
        return len(_reduce(self.bases))

    @property
    def is_injective(self) -> bool:
        """Whether no two coordinates have one index."""
        return self.rank == len(self.bases)

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """``self o inner``; the images of ``inner`` must lie in the domain of ``self``."""
        if any(b >= self.size for b in (*inner.bases, inner.offset)):
            raise LayoutError(f"the image of {inner} leaves the {self.size} points of {self}")
        zero = LinearLayout(self.bases)
        return LinearLayout(tuple(zero(b) for b in inner.bases), self(inner.offset))

    def inverse(self) -> LinearLayout:
        """The two-sided inverse of a permutation of ``[0, size)``."""
        n = len(self.bases)
        if self.offset >= self.size or any(b >= self.size for b in self.bases) or not self.is_injective:
            raise LayoutError(f"{self} is not a permutation of [0, {self.size})")
        rows = [(b, 1 << k) for k, b in enumerate(self.bases)]
        for bit in range(n):
            p = next(i for i in range(bit, n) if rows[i][0] >> bit & 1)
            rows[bit], rows[p] = rows[p], rows[bit]
            image, source = rows[bit]
            rows = [(r[0] ^ image, r[1] ^ source) if i != bit and r[0] >> bit & 1 else r for i, r in enumerate(rows)]
        inv = LinearLayout(tuple(source for _, source in rows))
        return LinearLayout(inv.bases, inv(self.offset))


def _reduce(vectors: tuple[int, ...]) -> list[int]:
    basis: list[int] = []
    for v in vectors:
        for b in basis:
            v = min(v, v ^ b)
        if v:
            basis.append(v)
    return basis


def to_linear(layout: Any) -> LinearLayout:
    """The GF(2) form of a layout, swizzle composition or chain of them, by linear coordinate.

    A bare swizzle gives its map on one period.  Raises :class:`LayoutError` if an extent is not a power of two or sums
    carry between bits.
    """
    if isinstance(layout, Swizzle):
        return LinearLayout(tuple(layout(1 << k) for k in range(layout.period.bit_length() - 1)))
    if isinstance(layout, ComposedLayout):
        outer = to_linear(layout.outer)
        offset = layout.offset
        if type(offset) is not int or offset < 0:
            raise LayoutError(f"{layout}: the offset of a linear layout must be a non-negative int")
        if offset & _span(outer):
            raise LayoutError(f"{layout}: adding the offset {offset} carries between bits")
        moved = LinearLayout(outer.bases, outer.offset ^ offset)
        inner = layout.inner
        if isinstance(inner, Swizzle):
            return LinearLayout(tuple(inner(b) for b in moved.bases), inner(moved.offset))
        if isinstance(inner, (Layout, ComposedLayout)):
            return to_linear(inner).compose(moved)
        raise LayoutError(f"{layout}: a coordinate swizzle has no linear form on integers")
    if not isinstance(layout, Layout):
        raise LayoutError(f"no linear form of {layout!r}")
    flat = static_flat(layout)
    if flat is None:
        raise LayoutError(f"{layout}: a linear form needs static integer leaves")
    bases: list[int] = []
    used = 0
    for s, d in zip(*flat, strict=True):
        if s & (s - 1):
            raise LayoutError(f"{layout}: the extent {s} is not a power of two")
        if d < 0:
            raise LayoutError(f"{layout}: the stride {d} is negative")
        while s > 1:
            if d & used:
                raise LayoutError(f"{layout}: the stride {d} shares bits with another mode, so sums carry")
            bases.append(d)
            used |= d
            d <<= 1
            s >>= 1
    return LinearLayout(tuple(bases))


def _span(f: LinearLayout) -> int:
    r = f.offset
    for b in f.bases:
        r |= b
    return r


def from_linear(f: LinearLayout) -> Layout | ComposedLayout:
    """A layout, or a swizzle composed with a layout, equal to a linear map; :class:`LayoutError` if there is none."""
    if not f.bases:
        flat = make_pair(1, 0)
        return flat if f.offset == 0 else ComposedLayout(Swizzle(0, 0, 0), f.offset, flat)
    plain = _plain(f.bases)
    if plain is not None:
        if f.offset == 0:
            return plain
        if f.offset & _span(LinearLayout(f.bases)) == 0:
            return ComposedLayout(Swizzle(0, 0, 0), f.offset, plain)
    top = max(*f.bases, f.offset).bit_length()
    for mask in range(1, top):
        for shift in range(mask, top):
            for base in range(top - shift - mask + 1):
                swz = Swizzle(mask, base, shift)  # an involution, because source and target bits are apart
                undone = tuple(swz(b) for b in f.bases)
                plain = _plain(undone)
                offset = swz(f.offset)
                if plain is not None and offset & _span(LinearLayout(undone)) == 0:
                    return ComposedLayout(swz, offset, plain)
    raise LayoutError(f"{f} is neither a layout nor one swizzle of a layout")


def _plain(bases: tuple[int, ...]) -> Layout | None:
    used = 0
    for b in bases:
        if b & used:
            return None
        used |= b
    return coalesce(make_pair(it.bare((2,) * len(bases)), it.bare(bases)))
