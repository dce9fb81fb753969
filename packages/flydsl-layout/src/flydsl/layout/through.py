"""The layout through given points: what is left of a left inverse where strides do not nest.

A layout of extents ``r_0, r_1, ...`` (the last one unbounded) and strides ``m_0, m_1, ...`` takes at ``x`` the value
``sum of m_k (x / N_k mod r_k)`` with ``N_k = r_0 ... r_(k-1)``.  For given moduli ``N_1 | N_2 | ...`` the strides are
the unknowns of linear equations over the integers, so whether a layout passes through points is decided by searching
the chains of moduli: every chain is part of one that grows by primes, and no modulus above the largest point matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from .errors import LayoutError

#: Largest number of points that are looked at one by one.
POINTS_LIMIT = 1 << 12
#: Equations that a search may look at before it gives up undecided.
WORK_LIMIT = 1 << 19
_ALL_MODULI = 1 << 11

#: (extent, stride) of the modes, in increasing order of their position.
Modes = list[tuple[int, int]]


def integer_solution(columns: Sequence[Sequence[int]], target: Sequence[int]) -> list[int] | None:
    """Integers ``x`` with ``sum of x_k columns[k] == target``, or None; by Euclid's algorithm on the columns."""
    a = [list(c) for c in columns]
    u = [[int(i == j) for j in range(len(a))] for i in range(len(a))]
    rest, x, done = list(target), [0] * len(a), 0
    for row in range(len(rest)):
        while True:
            live = [c for c in range(done, len(a)) if a[c][row]]
            if len(live) < 2:
                break
            least = min(live, key=lambda c: abs(a[c][row]))
            for c in live:
                if c != least:
                    q = a[c][row] // a[least][row]
                    a[c] = [v - q * w for v, w in zip(a[c], a[least], strict=True)]
                    u[c] = [v - q * w for v, w in zip(u[c], u[least], strict=True)]
        if live:
            c = live[0]
            a[done], a[c], u[done], u[c] = a[c], a[done], u[c], u[done]
            q, r = divmod(rest[row], a[done][row])
            if r:
                return None
            rest = [v - q * w for v, w in zip(rest, a[done], strict=True)]
            x = [v + q * w for v, w in zip(x, u[done], strict=True)]
            done += 1
        elif rest[row]:
            return None
    return x


def through_steps(shapes: Sequence[int], strides: Sequence[int], targets: Sequence[int]) -> Modes | None:
    """A layout that takes ``sum c_j strides[j]`` to ``sum c_j targets[j]`` without ever carrying, or None.

    A modulus ``N`` serves if the remainders of the (non-negative) steps never carry out of it, on the whole box of
    coordinates ``c``; then one equation a step says all.  Chains of a few such moduli are tried, whatever the size.
    """
    top = sum((s - 1) * d for s, d in zip(shapes, strides, strict=True))
    if top < _ALL_MODULI:
        candidates = set(range(2, top + 1))
    else:
        candidates = {d // k for d in strides for k in range(1, 65)} | {gcd(a, b) for a in strides for b in strides}
    clean = [
        n for n in candidates if n > 1 and sum((s - 1) * (d % n) for s, d in zip(shapes, strides, strict=True)) < n
    ]
    clean.sort(key=lambda n: (n not in strides, n))
    columns = {n: [d // n for d in strides] for n in (1, *clean)}

    def grow(chain: list[int], more: int) -> list[int] | None:
        if not more:
            return chain if integer_solution([columns[n] for n in chain], targets) is not None else None
        for n in clean:
            if n > chain[-1] and n % chain[-1] == 0 and columns[n] != columns[chain[-1]]:
                found = grow([*chain, n], more - 1)
                if found is not None:
                    return found
        return None

    for length in range(min(len(strides), 4) + 1):
        chain = grow([1], length)
        if chain is not None:
            excess = integer_solution([columns[n] for n in chain], targets)
            assert excess is not None
            return _modes(chain, _strides(chain, excess), top)
    return None


def _strides(chain: Sequence[int], excess: Sequence[int]) -> list[int]:
    """Strides from the weights of ``floor(x / N_k)``: ``m_k = e_k + r_(k-1) m_(k-1)``."""
    out = [excess[0]]
    for a, b, e in zip(chain, chain[1:], excess[1:], strict=False):
        out.append(e + b // a * out[-1])
    return out


def _modes(chain: Sequence[int], strides: Sequence[int], top: int) -> Modes:
    ends = [*chain[1:], (top // chain[-1] + 1) * chain[-1]]
    return [(b // a, m) for a, b, m in zip(chain, ends, strides, strict=True)]


class _Equations:
    """Linear equations in echelon form, as far as they exclude solutions: rows ``(right side, coefficients...)``."""

    def __init__(self, rows: dict[int, list[int]] | None = None) -> None:
        self.rows: dict[int, list[int]] = {} if rows is None else rows

    def copy(self) -> _Equations:
        return _Equations(dict(self.rows))

    def add(self, row: list[int]) -> bool:
        """Add an equation; False if there is no solution any more (of the rest of it, over the integers)."""
        while True:
            at = next((i for i in range(len(row) - 1, 0, -1) if row[i]), 0)
            if not at:
                return row[0] == 0
            have = self.rows.get(at)
            if have is None:
                g = gcd(*row[1:])
                if row[0] % g:
                    return False
                self.rows[at] = [v // g for v in row]
                return True
            a, b = have[at], row[at]
            if b % a == 0:
                row = _minus(row, b // a, have)
            else:  # swap, so that the leading coefficients shrink as in Euclid's algorithm
                self.rows[at], row = row, _minus(have, a // b, row)

    def solution(self, unknowns: int) -> list[int] | None:
        rows = [r + [0] * (unknowns + 1 - len(r)) for r in self.rows.values()]
        columns = [[r[k + 1] for r in rows] for k in range(unknowns)]
        return integer_solution(columns, [r[0] for r in rows])


def _minus(a: list[int], q: int, b: list[int]) -> list[int]:
    n = len(a)
    if len(b) > n:
        return [v - q * w for v, w in zip(a, b, strict=False)] + [-q * w for w in b[n:]]
    return [v - q * w for v, w in zip(a, b, strict=False)] + a[len(b) :]


def _primes(limit: int) -> list[int]:
    sieve = bytearray([1]) * (limit + 1)
    for n in range(2, int(limit**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, limit + 1, n)))
    return [n for n in range(2, limit + 1) if sieve[n]]


class _Search:
    """The chains of prime steps, with the equations that the points which share a quotient already impose."""

    def __init__(self, top: int, period: int = 0) -> None:
        """With ``period`` the modes of the layout end there, so every modulus has to divide it."""
        self.top = top
        self.period = period
        self.work = 0
        self.primes = _primes(min(top, WORK_LIMIT))

    def count(self, n: int) -> None:
        self.work += n
        if self.work > WORK_LIMIT:
            raise LayoutError("the search for a layout through the values is too long to decide whether there is one")

    def run(self, chain: list[int], points: dict[int, list[int]], known: _Equations) -> Modes | None:
        """``points``: one representative for every quotient by the last modulus, ``[target, digits...]``."""
        self.count(len(points))
        whole = known.copy()
        if all(whole.add([*row, q]) for q, row in points.items()):
            m = whole.solution(len(chain))
            if m is not None:
                return _modes(chain, m, self.period - 1 if self.period else self.top)
        for p in self.primes:
            n = chain[-1] * p
            if n > self.top:
                break
            if self.period % n:
                continue
            self.count(len(points))
            equations, merged = known.copy(), {0: [0] * (len(chain) + 1)}
            for q, row in points.items():
                high, low = divmod(q, p)
                row = [*row, low]
                if high in merged:
                    if not equations.add([v - w for v, w in zip(row, merged[high], strict=True)]):
                        break
                else:
                    merged[high] = row
            else:
                del merged[0]
                found = self.run([*chain, n], merged, equations)
                if found is not None:
                    return found
        return None


def through_points(points: dict[int, int], period: int = 0) -> Modes | None:
    """A layout (with ``period`` one of that size) that takes every key (positive) to its value, or None.

    Raises :class:`LayoutError` if that is not decided within :data:`WORK_LIMIT`.
    """
    top = max(points, default=0)
    return _Search(top, period).run([1], {x: [y] for x, y in points.items()}, _Equations())


def _box(shapes: Sequence[int], strides: Sequence[int], targets: Sequence[int]) -> dict[int, int] | None:
    """The points of a box of steps but the origin; None if an index and its negative want different things."""
    if prod(shapes) > POINTS_LIMIT:
        raise LayoutError(f"more than {POINTS_LIMIT} coordinates do not nest, too many to search for an answer")
    values = [(0, 0)]
    for s, d, t in zip(shapes, strides, targets, strict=True):
        values = [(x + c * d, y + c * t) for c in range(s) for x, y in values]
    points: dict[int, int] = {}
    for x, y in values[1:]:
        # A layout takes -x to minus what it takes x to: division truncates toward zero.
        if points.setdefault(abs(x), y if x > 0 else -y) != (y if x > 0 else -y):
            return None
    return points


def _nested_from(shapes: Sequence[int], strides: Sequence[int]) -> int:
    """The first mode from which on the modes (sorted by stride) clear each other and all before them."""

    def nests(k: int) -> bool:
        return strides[k] % strides[k - 1] == 0 and strides[k] >= shapes[k - 1] * strides[k - 1]

    first = len(strides) - 1
    while first and nests(first):
        first -= 1
    reach = [0]
    for s, d in zip(shapes, strides, strict=True):
        reach.append(reach[-1] + (s - 1) * d)
    while first < len(strides) and strides[first] <= reach[first]:
        first += 1
    return first


def left_inverse_modes(shapes: Sequence[int], strides: Sequence[int], targets: Sequence[int]) -> Modes | None:
    """A layout that takes ``sum c_j strides[j]`` to ``sum c_j targets[j]`` for all ``c`` in the box, or None.

    The steps are sorted and injective on the box.  Exact; :class:`LayoutError` where the search stops undecided.
    """
    if min(strides) < 0:
        points = _box(shapes, strides, targets)
        return None if points is None else through_points(points)
    found = through_steps(shapes, strides, targets)
    if found is not None:
        return found
    k = _nested_from(shapes, strides)
    if k < len(strides):
        # The part below may have an answer that ends where the nested part begins.
        points = _box(shapes[:k], strides[:k], targets[:k])
        low = None if points is None else through_points(points, strides[k])
        if low is not None:
            above = [d // strides[k] for d in strides[k:]]
            ends = [*(b // a for a, b in zip(above, above[1:], strict=False)), shapes[-1]]
            return [*low, *zip(ends, targets[k:], strict=True)]
    points = _box(shapes, strides, targets)
    return None if points is None else through_points(points)
