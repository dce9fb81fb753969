"""Whether sums of steps can coincide, decided at any size.

Two coordinates of a layout share an index if and only if some ``x != 0`` with ``|x_j| < extent_j`` has
``sum x_j d_j == 0``.  The solutions form a lattice; its vectors inside that box are found in a reduced basis (Lenstra,
Lenstra, Lovász 1982) by the enumeration of Fincke and Pohst (1985), whose work depends on the number of modes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm, prod

Vector = list[int]


def is_injective_sum(modes: Sequence[tuple[int, int]]) -> bool:
    """Whether ``sum c_j d_j`` differs for all ``0 <= c_j < s_j``; ``modes`` are (d, s), in any order."""
    steps = sorted((abs(d), s) for d, s in modes if s > 1)
    if not steps:
        return True
    if steps[0][0] == 0:
        return False
    reach, nested = 0, True
    for d, s in steps:
        nested = nested and d > reach
        reach += d * (s - 1)
    if nested:
        return True
    if prod(s for _, s in steps) > reach + 1:
        return False  # more coordinates than indices
    steps = _merged(steps)
    while steps and steps[-1][0] > (reach := reach - steps[-1][0] * (steps[-1][1] - 1)):
        steps.pop()  # a step longer than all others together has to be taken equally often
    widths = [s - 1 for _, s in steps]
    return not steps or not _meets_box(_relations([d for d, _ in steps]), widths)


def _merged(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted steps, where one that continues another (``d, s`` and ``d * s, t``) lengthens it: ``d, s * t``."""
    out: list[tuple[int, int]] = []
    for d, s in steps:
        at = next((i for i, (e, t) in enumerate(out) if e * t == d), None)
        if at is None:
            out.append((d, s))
        else:
            out[at] = (out[at][0], out[at][1] * s)
    return out


def _relations(d: Sequence[int]) -> list[Vector]:
    """A basis of the integer vectors ``x`` with ``sum x_j d_j == 0``, for positive ``d``."""
    value = list(d)
    unit = [[int(i == j) for j in range(len(d))] for i in range(len(d))]
    while len(live := [i for i, v in enumerate(value) if v]) > 1:
        least = min(live, key=lambda i: value[i])
        for i in live:
            if i != least:
                q = value[i] // value[least]
                value[i] -= q * value[least]
                unit[i] = [x - q * y for x, y in zip(unit[i], unit[least], strict=True)]
    return [u for u, v in zip(unit, value, strict=True) if not v]


def _meets_box(basis: list[Vector], widths: Sequence[int]) -> bool:
    """Whether a non-zero vector of the lattice has ``|x_j| <= widths[j]`` everywhere."""
    scale = lcm(*widths)
    weights = [scale // w for w in widths]
    scaled = _reduced([[x * w for x, w in zip(b, weights, strict=True)] for b in basis])
    if any(max(map(abs, b)) <= scale for b in scaled):
        return True
    mu, norms = _gram_schmidt(scaled)
    limit = Fraction(len(widths) * scale * scale)
    n = len(scaled)
    z = [0] * n

    def inside(k: int, rest: Fraction) -> bool:
        if k < 0:
            v = [sum(c * b[j] for c, b in zip(z, scaled, strict=True)) for j in range(len(widths))]
            return any(v) and max(map(abs, v)) <= scale
        centre = -sum((mu[i][k] * z[i] for i in range(k + 1, n)), Fraction(0))
        start = round(centre)
        for step in (1, -1):
            z[k] = start if step > 0 else start - 1
            while (used := (z[k] - centre) ** 2 * norms[k]) <= rest:
                if inside(k - 1, rest - used):
                    return True
                z[k] += step
        z[k] = 0
        return False

    return inside(n - 1, limit)


def _gram_schmidt(basis: list[Vector]) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Coefficients and squared lengths of the orthogonalised basis."""
    mu = [[Fraction(0)] * len(basis) for _ in basis]
    stars: list[list[Fraction]] = []
    norms: list[Fraction] = []
    for i, b in enumerate(basis):
        star = [Fraction(x) for x in b]
        for j in range(i):
            mu[i][j] = sum((x * y for x, y in zip(b, stars[j], strict=True)), Fraction(0)) / norms[j]
            star = [x - mu[i][j] * y for x, y in zip(star, stars[j], strict=True)]
        stars.append(star)
        norms.append(sum((x * x for x in star), Fraction(0)))
    return mu, norms


def _reduced(basis: list[Vector]) -> list[Vector]:
    """The LLL-reduced basis (factor 3/4)."""
    b = [list(v) for v in basis]
    mu, norms = _gram_schmidt(b)
    k = 1
    while k < len(b):
        for j in range(k - 1, -1, -1):
            q = round(mu[k][j])
            if q:
                b[k] = [x - q * y for x, y in zip(b[k], b[j], strict=True)]
                mu, norms = _gram_schmidt(b)
        if norms[k] >= (Fraction(3, 4) - mu[k][k - 1] ** 2) * norms[k - 1]:
            k += 1
        else:
            b[k], b[k - 1] = b[k - 1], b[k]
            mu, norms = _gram_schmidt(b)
            k = max(k - 1, 1)
    return b
