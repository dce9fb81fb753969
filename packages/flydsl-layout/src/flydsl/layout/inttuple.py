"""Int tuples: nested tuples of leaves, their structure and their arithmetic.

Python tuples *are* the tuples; there is no wrapper class.  ``rank`` of a leaf is 1 and its ``depth`` is 0;
a one-element tuple ``(5,)`` (printed ``(5)``) is not a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import index as _index
from typing import Any

from . import scalar as sc
from .errors import LayoutError
from .scalar import Basis, Dyn, IntTuple, Leaf

Path = Sequence[int]


def to_text(x: IntTuple) -> str:
    """IR text of an int tuple: no spaces, ``*`` for a hole, ``(5)`` for a one-element tuple."""
    if type(x) is tuple:
        return "(" + ",".join(to_text(e) for e in x) + ")"
    return "*" if x is None else str(x)


def normalize(x: Any) -> IntTuple:
    """Check that ``x`` is an int tuple and turn integer-like leaves (numpy integers, bools) into ``int``."""
    t = type(x)
    if t is int or x is None or t is Dyn or t is Basis:
        return x
    if t is tuple:
        if not x:
            raise LayoutError("an int tuple cannot be empty")
        for e in x:
            if type(e) is not int:
                return tuple(normalize(e) for e in x)
        return x
    if isinstance(x, tuple):
        return normalize(tuple(x))
    try:
        return int(_index(x))
    except TypeError:
        raise LayoutError(f"not an integer, None, Dyn, Basis or tuple of these: {x!r}") from None


def leaves(x: IntTuple) -> Iterator[Leaf]:
    """All leaves, depth first, left to right."""
    if type(x) is tuple:
        for e in x:
            yield from leaves(e)
    else:
        yield x


def is_static(x: IntTuple) -> bool:
    """Whether no leaf is dynamic."""
    return all(sc.is_static(e) for e in leaves(x))


def has_none(x: IntTuple) -> bool:
    """Whether any leaf is a hole."""
    return any(e is None for e in leaves(x))


def rank(x: IntTuple) -> int:
    return len(x) if type(x) is tuple else 1


def depth(x: IntTuple) -> int:
    return 1 + max(depth(e) for e in x) if type(x) is tuple else 0


def modes_of(x: IntTuple) -> tuple[IntTuple, ...]:
    """The top-level modes; a leaf is its own single mode."""
    return x if type(x) is tuple else (x,)


def get(x: IntTuple, *path: int) -> IntTuple:
    """Sub-tuple at ``path``; indexing a leaf with 0 gives the leaf itself."""
    for p in path:
        m = modes_of(x)
        if not 0 <= p < len(m):
            raise LayoutError(f"mode {p} is out of range for {to_text(x)} of rank {len(m)}")
        x = m[p]
    return x


def transform_leaf(f: Callable[..., Any], x: IntTuple, *more: IntTuple) -> Any:
    """Apply ``f`` to the leaves of ``x`` and the facing leaves of congruent tuples ``more``."""
    if type(x) is tuple:
        for m in more:
            if type(m) is not tuple or len(m) != len(x):
                raise LayoutError(f"{to_text(x)} and {to_text(m)} are not congruent")
        return tuple(transform_leaf(f, *es) for es in zip(x, *more, strict=True))
    if any(type(m) is tuple for m in more):
        raise LayoutError(f"{to_text(x)} meets a tuple: the operands are not congruent")
    return f(x, *more)


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Same profile: leaf meets leaf, tuple meets tuple of the same rank."""
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(congruent(x, y) for x, y in zip(a, b, strict=True))
    return type(b) is not tuple


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """``a``'s profile is coarser: wherever ``a`` is a tuple, ``b`` is a tuple of the same rank."""
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(weakly_congruent(x, y) for x, y in zip(a, b, strict=True))
    return True


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Shape ``a`` is compatible with shape ``b``: every coordinate of ``a`` is a coordinate of ``b`` (same size)."""
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(compatible(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == product(b))


def weakly_compatible(a: IntTuple, b: IntTuple) -> bool:
    """Like :func:`compatible`, but a leaf of ``a`` need only divide the facing size of ``b``."""
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(weakly_compatible(x, y) for x, y in zip(a, b, strict=True))
    p = product(b)
    return type(a) is int and type(p) is int and a != 0 and p % a == 0


# --------------------------------------------------------------------------------------------------------------------
# Structure


def unwrap(x: IntTuple) -> IntTuple:
    """Strip rank-1 tuple wrappers."""
    while type(x) is tuple and len(x) == 1:
        x = x[0]
    return x


def flatten(x: IntTuple) -> IntTuple:
    """A flat tuple of the leaves; a leaf stays a leaf."""
    return tuple(leaves(x)) if type(x) is tuple else x


def unflatten(flat: IntTuple, profile: IntTuple) -> IntTuple:
    """Give the leaves of ``flat`` the nesting of ``profile``."""
    items = list(leaves(flat))
    if len(items) != sum(1 for _ in leaves(profile)):
        raise LayoutError(f"{to_text(flat)} does not have as many leaves as the profile {to_text(profile)}")
    it = iter(items)
    return transform_leaf(lambda _: next(it), profile)


def _range(x: IntTuple, begin: int, end: int) -> tuple[int, int]:
    r = rank(x)
    end = r if end == -1 else end
    if not 0 <= begin <= end <= r:
        raise LayoutError(f"mode range [{begin}, {end}) is outside {to_text(x)} of rank {r}")
    return begin, end


def bare(x: tuple[IntTuple, ...]) -> IntTuple:
    """A single element without its tuple."""
    return x[0] if len(x) == 1 else x


def take(x: IntTuple, begin: int, end: int = -1) -> IntTuple:
    """Modes ``begin`` to ``end`` (exclusive, -1 = rank); one mode comes bare."""
    begin, end = _range(x, begin, end)
    if type(x) is not tuple:
        raise LayoutError(f"take needs a tuple, got the leaf {to_text(x)}")
    if begin == end:
        raise LayoutError(f"take of no modes from {to_text(x)}")
    return bare(x[begin:end])


def select(x: IntTuple, *indices: int) -> IntTuple:
    """The listed modes in that order; a single one comes bare."""
    if not indices:
        raise LayoutError("select needs at least one mode")
    return bare(tuple(get(x, i) for i in indices))


def group(x: IntTuple, begin: int, end: int = -1) -> IntTuple:
    """Wrap modes ``begin`` to ``end`` into one mode; a leaf is unchanged."""
    if type(x) is not tuple:
        return x
    begin, end = _range(x, begin, end)
    return x if begin == end else (*x[:begin], x[begin:end], *x[end:])


def append(x: IntTuple, elem: IntTuple, n: int | None = None) -> IntTuple:
    """Append ``elem`` once, or until the rank is ``n``."""
    m = modes_of(x)
    if n is None:
        return (*m, elem)
    if n < len(m):
        raise LayoutError(f"append: {to_text(x)} already has rank {len(m)} > {n}")
    return x if n == 1 and type(x) is not tuple else m + (elem,) * (n - len(m))


def prepend(x: IntTuple, elem: IntTuple, n: int | None = None) -> IntTuple:
    """Prepend ``elem`` once, or until the rank is ``n``."""
    m = modes_of(x)
    if n is None:
        return (elem, *m)
    if n < len(m):
        raise LayoutError(f"prepend: {to_text(x)} already has rank {len(m)} > {n}")
    return x if n == 1 and type(x) is not tuple else (elem,) * (n - len(m)) + m


def replace(x: IntTuple, mode: int, elem: IntTuple) -> IntTuple:
    """Replace one top-level mode."""
    get(x, mode)
    return elem if type(x) is not tuple else (*x[:mode], elem, *x[mode + 1 :])


def expand(x: IntTuple, indices: Sequence[int]) -> IntTuple:
    """Splice the children of the tuple modes listed in ``indices`` into the parent."""
    if type(x) is not tuple or not indices:
        return x
    out: list[IntTuple] = []
    for i, e in enumerate(x):
        if i in indices and type(e) is tuple:
            out.extend(e)
        else:
            out.append(e)
    return bare(tuple(out))


def _pick(x: IntTuple, c: IntTuple, holes: bool, out: list[IntTuple]) -> None:
    if type(c) is not tuple:
        if (c is None) == holes:
            out.append(x)
        return
    if type(x) is not tuple or len(x) != len(c):
        raise LayoutError(f"coordinate {to_text(c)} does not fit {to_text(x)}")
    for e, ce in zip(x, c, strict=True):
        _pick(e, ce, holes, out)


def slice_(x: IntTuple, coord: IntTuple) -> IntTuple:
    """The parts of ``x`` that face a hole of ``coord``, in order, unwrapped."""
    out: list[IntTuple] = []
    _pick(x, coord, True, out)
    if not out:
        raise LayoutError(f"slice of {to_text(x)} by {to_text(coord)} keeps nothing: the coordinate has no hole")
    return x if type(coord) is not tuple else unwrap(tuple(out))


def dice(x: IntTuple, coord: IntTuple) -> IntTuple:
    """The parts of ``x`` that face an integer of ``coord``, in order, unwrapped."""
    out: list[IntTuple] = []
    _pick(x, coord, False, out)
    if not out:
        raise LayoutError(f"dice of {to_text(x)} by {to_text(coord)} keeps nothing: the coordinate is all holes")
    return x if type(coord) is not tuple else unwrap(tuple(out))


def zip_(x: IntTuple) -> IntTuple:
    """Transpose a tuple of k tuples of rank n into n tuples of rank k."""
    if type(x) is not tuple or type(x[0]) is not tuple:
        return x
    n = len(x[0])
    if any(type(e) is not tuple or len(e) != n for e in x):
        raise LayoutError(f"zip: the modes of {to_text(x)} differ in rank")
    return tuple(tuple(e[i] for e in x) for i in range(n))


def zip2_by(x: IntTuple, guide: IntTuple) -> IntTuple:
    """Gather the first and the second halves of the pairs at the terminals of ``guide`` into a pair of tuples."""
    if type(guide) is not tuple:
        if type(x) is not tuple or len(x) != 2:
            raise LayoutError(f"zip2_by: {to_text(x)} facing a terminal of the tiler is not a pair")
        return x
    if type(x) is not tuple or len(x) < len(guide):
        raise LayoutError(f"zip2_by: {to_text(x)} has fewer modes than the tiler ({len(guide)})")
    pairs = [zip2_by(e, g) for e, g in zip(x, guide, strict=False)]
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs) + x[len(guide) :]


def filter_zero(guide: IntTuple, x: IntTuple) -> IntTuple:
    """Replace by 1 the leaves of ``x`` that face a static zero of ``guide``."""
    if type(guide) is not tuple:
        return transform_leaf(lambda _: 1, x) if sc.is_zero(guide) else x
    if type(x) is not tuple or len(x) != len(guide):
        raise LayoutError(f"{to_text(guide)} and {to_text(x)} are not congruent")
    return tuple(filter_zero(g, e) for g, e in zip(guide, x, strict=True))


# --------------------------------------------------------------------------------------------------------------------
# Arithmetic


def product(x: IntTuple) -> Leaf:
    """Product of all leaves (a leaf is its own product)."""
    if type(x) is not tuple:
        return x
    r: Any = product(x[0]) if type(x[0]) is tuple else x[0]
    for e in x[1:]:
        p = product(e) if type(e) is tuple else e
        r = r * p if type(r) is int and type(p) is int else sc.mul(r, p)
    return r


def product_each(x: IntTuple) -> IntTuple:
    """The product of every top-level mode; a leaf stays itself."""
    return tuple(product(e) for e in x) if type(x) is tuple else x


def product_like(x: IntTuple, guide: IntTuple) -> IntTuple:
    """At every leaf of ``guide`` the product of the facing part of ``x``."""
    if type(guide) is not tuple:
        return product(x)
    if type(x) is not tuple or len(x) != len(guide):
        raise LayoutError(f"product_like: guide {to_text(guide)} does not fit {to_text(x)}")
    return tuple(product_like(e, g) for e, g in zip(x, guide, strict=True))


def _zip_with(f: Callable[[Leaf, Leaf], Leaf], a: IntTuple, b: IntTuple) -> IntTuple:
    if type(a) is not tuple:
        if type(b) is tuple:
            raise LayoutError(f"leaf {to_text(a)} meets the tuple {to_text(b)}")
        return f(a, b)
    bm = modes_of(b)
    both = tuple(_zip_with(f, x, y) for x, y in zip(a, bm, strict=False))
    return both + a[len(bm) :] + bm[len(a) :]


def basis_to_tuple(b: Basis) -> IntTuple:
    r: IntTuple = b.value
    for m in reversed(b.modes):
        r = (0,) * m + (r,)
    return r


def coord_add(a: IntTuple, b: IntTuple) -> IntTuple:
    """Coordinate addition: basis leaves become tuples, missing entries count as zero."""
    if type(a) is int and type(b) is int:
        return a + b
    if type(a) is not tuple and type(b) is not tuple and type(a) is not Basis and type(b) is not Basis:
        return sc.add(a, b)
    if type(a) is not tuple and type(a) is not Basis:
        if sc.is_zero(a):
            return b
        raise LayoutError(f"cannot add the integer {to_text(a)} to the coordinate {to_text(b)}")
    if type(b) is not tuple and type(b) is not Basis:
        if sc.is_zero(b):
            return a
        raise LayoutError(f"cannot add the integer {to_text(b)} to the coordinate {to_text(a)}")
    ta: IntTuple = basis_to_tuple(a) if type(a) is Basis else a
    tb: IntTuple = basis_to_tuple(b) if type(b) is Basis else b
    n = min(len(ta), len(tb))
    return tuple(coord_add(x, y) for x, y in zip(ta, tb, strict=False)) + ta[n:] + tb[n:]


def tuple_sum(x: IntTuple) -> IntTuple:
    """Sum of all leaves by coordinate addition; a single leaf stays itself."""
    r: Any = 0
    for e in leaves(x):
        r = coord_add(r, e)
    return r


def add(a: IntTuple, b: IntTuple) -> IntTuple:
    """Leaf-wise sum; surplus modes stay, and basis leaves add as coordinates."""
    if type(a) is Basis or type(b) is Basis:
        return coord_add(a, b)
    if type(a) is not tuple and type(b) is not tuple:
        return sc.add(a, b)
    if type(a) is not tuple:
        return coord_add(a, b)
    b = modes_of(b)  # a leaf is its own only mode
    n = min(len(a), len(b))
    return tuple(add(x, y) for x, y in zip(a, b, strict=False)) + a[n:] + b[n:]


def sub(a: IntTuple, b: IntTuple) -> IntTuple:
    """Leaf-wise difference; surplus modes stay."""
    return _zip_with(sc.sub, a, b)


def mul(a: IntTuple, b: IntTuple) -> IntTuple:
    """Leaf-wise product; surplus modes stay."""
    return _zip_with(sc.mul, a, b)


def div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Leaf-wise quotient, truncating toward zero; surplus modes stay."""
    return _zip_with(sc.div, a, b)


def mod(a: IntTuple, b: IntTuple) -> IntTuple:
    """Leaf-wise remainder, with the sign of the dividend; surplus modes stay."""
    return _zip_with(sc.mod, a, b)


def inner_product(a: IntTuple, b: IntTuple) -> IntTuple:
    """Sum of products of facing leaves."""
    if type(a) is tuple:
        if type(b) is not tuple or len(a) != len(b):
            raise LayoutError(f"inner_product: {to_text(a)} and {to_text(b)} are not congruent")
        r: IntTuple = 0
        for x, y in zip(a, b, strict=True):
            r = coord_add(r, inner_product(x, y))
        return r
    if type(b) is tuple:
        raise LayoutError(f"inner_product: {to_text(a)} and {to_text(b)} are not congruent")
    return sc.mul(a, b)


def _div_rule(f: Callable[[Leaf, Leaf], Leaf], a: IntTuple, b: IntTuple) -> IntTuple:
    if type(a) is not tuple:
        return f(a, product(b))
    if type(b) is tuple:
        return tuple(_div_rule(f, x, y) for x, y in zip(a, b, strict=False)) + a[len(b) :]
    rest = b

    def fold(x: Leaf) -> Leaf:
        nonlocal rest
        q = f(x, rest)
        rest = f(rest, x)
        return q

    return transform_leaf(fold, a)


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Rounded-up division; a leaf divisor is folded through the modes of a tuple dividend."""
    return _div_rule(sc.ceil_div, a, b)


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Like :func:`ceil_div`, but every step must divide one way or the other (else :class:`LayoutError`)."""
    return _div_rule(sc.shape_div, a, b)


def elem_less(a: IntTuple, b: IntTuple) -> Leaf:
    """Conjunction of leaf-wise ``<``; 0 if ``a`` has more modes.  1, 0 or a dynamic truth value."""
    if type(a) is not tuple and type(b) is not tuple:
        return sc.compare("lt", a, b)
    am, bm = modes_of(a), modes_of(b)
    if len(am) > len(bm):
        return 0
    r: Leaf = 1
    for x, y in zip(am, bm, strict=False):
        r = sc.logical_and(r, elem_less(x, y))
    return r


def equal(a: IntTuple, b: IntTuple) -> Leaf:
    """Leaf-wise equality; 0 on profile mismatch.  1, 0 or a dynamic truth value."""
    if type(a) is not tuple and type(b) is not tuple:
        return sc.compare("eq", a, b)
    if type(a) is not tuple or type(b) is not tuple or len(a) != len(b):
        return 0
    r: Leaf = 1
    for x, y in zip(a, b, strict=True):
        r = sc.logical_and(r, equal(x, y))
    return r
