"""Short vectors of a lattice: a reduced basis (Lenstra, Lenstra, Lovász 1982) and the enumeration of Fincke and Pohst
(1985), whose work depends on the number of dimensions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

Vector = list[int]


def meets_box(basis: list[Vector], widths: Sequence[int]) -> bool:
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
