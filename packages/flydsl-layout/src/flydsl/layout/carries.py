"""Exact decisions about carries: when a sum of steps through the modes of a layout is a layout again.

A layout of extents ``n_0, n_1, ...`` (the last one unbounded) and strides ``m_0, m_1, ...`` is the map

    A(x) = m_0 x + sum over k of e_k floor(x / N_k),   N_k = n_0 ... n_(k-1),   e_k = m_k - n_(k-1) m_(k-1).

So ``A(x + y) - A(x) - A(y)`` counts the carries of ``x + y`` out of the modes, weighted by the excesses ``e_k``.  What
composition asks (how far does ``i -> A(i D)`` run evenly; do several steps add up without net carry) is therefore
decided by a few divisions, however large the extents are.  Steps are vectors of excesses where strides are basis
vectors of several directions; every direction is decided by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as grid
from math import gcd, prod

from .errors import LayoutError

#: Largest box that is enumerated where carries of different modes cancel each other at the corners of the box.
ENUMERATION_LIMIT = 1 << 18
_EVENTS = 1 << 14

#: A step taken ``extent`` times: (extent, size of the step).
Digit = tuple[int, int]


class Carries:
    """The carry weights of a layout: moduli ``N_k`` and, for every direction of the codomain, the excesses ``e_k``."""

    __slots__ = ("excesses", "moduli")

    def __init__(self, extents: Sequence[int], strides: Sequence[Sequence[int]]) -> None:
        """``extents`` without the last (unbounded) one; per direction one stride more than there are extents."""
        self.moduli: list[int] = []
        n = 1
        for s in extents:
            n *= s
            self.moduli.append(n)
        self.excesses = [[d[k + 1] - s * d[k] for k, s in enumerate(extents)] for d in strides]

    def run(self, step: int, limit: int) -> int:
        """The largest ``n <= limit`` for which ``A(j step) == j A(step)`` for all ``j < n``."""
        for e in self.excesses:
            terms = [(step % n, n, x) for n, x in zip(self.moduli, e, strict=True) if x and step % n]
            if terms:
                limit = _first_net_carry(terms, limit)
        return limit

    def witness(self, digits: Sequence[Digit]) -> tuple[int, ...] | None:
        """Coordinates at which the steps do not add up: ``A(sum u_i D_i) != sum A(u_i D_i)``; None if they always do.

        Every digit must run evenly by itself and all steps must be non-negative.
        """
        for e in self.excesses:
            found = self._witness(e, digits)
            if found is not None:
                return found
        return None

    def _witness(self, excess: Sequence[int], digits: Sequence[Digit]) -> tuple[int, ...] | None:
        groups: dict[tuple[tuple[int, int], ...], int] = {}
        for n, e in zip(self.moduli, excess, strict=True):
            rests = [d % n for _, d in digits]
            if e and sum((s - 1) * r for (s, _), r in zip(digits, rests, strict=True)) >= n:
                key = tuple((r // gcd(r, n), n // gcd(r, n)) for r in rests)
                groups[key] = groups.get(key, 0) + e
        live = [(key, e) for key, e in groups.items() if e]
        if not live:
            return None

        def net(u: Sequence[int]) -> int:
            total = 0
            for key, e in live:
                common = prod({q for _, q in key})
                total += e * (sum(c * p * (common // q) for c, (p, q) in zip(u, key, strict=True)) // common)
                total -= e * sum(c * p // q for c, (p, q) in zip(u, key, strict=True))
            return total

        corners: list[Sequence[int]] = [(0, s - 1) if s > 1 else (0,) for s, _ in digits]
        if prod(map(len, corners)) <= ENUMERATION_LIMIT:
            for u in grid(*corners):
                if net(u):
                    return u
        if prod(s for s, _ in digits) > ENUMERATION_LIMIT:
            raise LayoutError(
                "the carries of several modes cancel at every corner of a domain that is too large to enumerate"
            )
        return next((u for u in grid(*(range(s) for s, _ in digits)) if net(u)), None)

    def digits(self, extent: int, step: int) -> list[Digit] | str:
        """The modes of ``i -> A(i step)`` on ``[0, extent)`` as steps, or why it is not a layout (``step >= 0``)."""
        out: list[Digit] = []
        rest = extent
        while rest > 1:
            n = self.run(step, rest)
            if rest % n:
                return f"steps evenly for {n} of its {rest} remaining coordinates, and {n} does not divide {rest}"
            out.append((n, step))
            step *= n
            rest //= n
        found = self.witness(out) if len(out) > 1 else None
        if found is None:
            return out
        where = sum(u * d for u, (_, d) in zip(found, out, strict=True)) // (out[0][1] or 1)
        return f"crosses the modes unevenly (for example at coordinate {where})"


def _first_net_carry(terms: Sequence[tuple[int, int, int]], limit: int) -> int:
    """The first ``j < limit`` with ``sum of e floor(j r / n) != 0`` over the terms ``(r, n, e)``, ``0 < r < n``."""
    weights: dict[tuple[int, int], int] = {}
    for r, n, e in terms:
        g = gcd(r, n)
        weights[(r // g, n // g)] = weights.get((r // g, n // g), 0) + e
    members = [(p, q, e) for (p, q), e in weights.items() if e]
    if not members:
        return limit
    # Terms that have carried alike so far form a cluster; a cluster of weight 0 is invisible until it splits.
    clusters = [members]
    j = 0
    for _ in range(_EVENTS):
        event = limit
        for cluster in clusters:
            fastest = _extreme(cluster, True)
            if sum(m[2] for m in cluster):
                p, q = fastest
                at = -(-(j * p // q + 1) * q // p)
            else:
                at = first_difference(_extreme(cluster, False), fastest)
            event = min(event, at)
        if event >= limit:
            return limit
        j = event
        if sum(e * (j * p // q) for c in clusters for p, q, e in c):
            return j
        split: list[list[tuple[int, int, int]]] = []
        for cluster in clusters:
            parts: dict[int, list[tuple[int, int, int]]] = {}
            for p, q, e in cluster:
                parts.setdefault(j * p // q, []).append((p, q, e))
            split += parts.values()
        clusters = split
    raise LayoutError("the carries of several modes cancel too often to decide where they stop doing so")


def _extreme(cluster: Sequence[tuple[int, int, int]], largest: bool) -> tuple[int, int]:
    p, q, _ = cluster[0]
    for a, b, _ in cluster:
        if (a * q > p * b) == largest and a * q != p * b:
            p, q = a, b
    return p, q


def first_difference(low: tuple[int, int], high: tuple[int, int]) -> int:
    """The first ``j`` with ``floor(j low) != floor(j high)`` for fractions ``low < high`` (numerator, denominator).

    It is the smallest denominator of a fraction in ``(low, high]``, found along the continued fractions.
    """
    (a, b), (c, d) = low, high
    p0, q0, p1, q1 = 0, 1, 1, 0  # convergents; the answer's denominator is accumulated in q
    open_low = True
    while True:
        if open_low:  # a/b < x <= c/d
            k = a // b + 1
            if k * d <= c:
                return k * q1 + q0
            k -= 1
        else:  # a/b <= x < c/d, where d == 0 means no upper end
            k = -(-a // b)
            if d == 0 or k * d < c:
                return k * q1 + q0
            k = a // b
        p0, q0, p1, q1 = p1, q1, k * p1 + p0, k * q1 + q0
        a, b, c, d = d, c - k * d, b, a - k * b
        open_low = not open_low
