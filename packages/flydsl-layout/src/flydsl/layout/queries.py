"""Questions about layouts, answered exactly; the brute-force oracle; substitution of symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any

from . import coords, inttuple as it, scalar as sc
from .algebra import coalesce, linear_of, plain, stands_for_layout
from .compose import compose_layouts, composition
from .core import ComposedLayout, Layout, Swizzle, make_pair, static_flat
from .errors import LayoutError
from .inverses import right_inverse
from .lattice import is_injective_sum
from .scalar import IntTuple

#: Largest domain the enumerating queries accept.
MAX_ENUMERATION = 1 << 24


def _layout(x: Any) -> Any:
    """An integer stands for a layout of stride 1."""
    return Layout(x) if stands_for_layout(x) else x


def _static_size(layout: Any) -> int:
    n = it.product(linear_of(layout).shape)
    if type(n) is not int:
        raise LayoutError(f"{layout} has a dynamic size and cannot be enumerated")
    if n > MAX_ENUMERATION:
        raise LayoutError(f"{layout} has {n} coordinates, more than can be enumerated ({MAX_ENUMERATION})")
    return n


def enumerate_map(layout: Any) -> Iterator[tuple[IntTuple, IntTuple]]:
    """All (natural coordinate, index) pairs in colexicographic order: the layout's definition, spelt out."""
    layout = _layout(layout)
    shape = linear_of(layout).shape
    for i in range(_static_size(layout)):
        c = coords.colex_coord(i, shape)
        yield c, layout(c)


def assert_same_map(layout: Any, function: Callable[..., Any] | Any) -> None:
    """Assert that a layout equals a function (or layout) of its natural coordinates, at every coordinate.

    Raises ``AssertionError`` that names the first coordinate where they differ.  ``function`` takes the coordinate, or
    its modes one by one if it has several parameters: ``assert_same_map(Layout((4, 8), (8, 1)), lambda i, j: 8*i+j)``.
    It may also be a layout of another profile of the same size; they are then compared by linear coordinate.
    """
    layout, function = _layout(layout), _layout(function)
    other = isinstance(function, (Layout, ComposedLayout))
    if other and _static_size(function) != _static_size(layout):
        raise AssertionError(f"{layout} has {_static_size(layout)} coordinates, {function} {_static_size(function)}")
    by_mode = not other and _takes_modes(function)
    for i, (c, got) in enumerate(enumerate_map(layout)):
        want = function(i) if other else function(*c) if by_mode and type(c) is tuple else function(c)
        if got != want:
            raise AssertionError(f"{layout} maps {it.to_text(c)} to {it.to_text(got)}, expected {it.to_text(want)}")


def _takes_modes(function: Callable[..., Any]) -> bool:
    """Whether a function demands more than one positional argument."""
    from inspect import signature  # slow to import

    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) > 1


def same_map(a: Any, b: Any) -> bool:
    """Functional equality by linear coordinate: same size and same index everywhere."""
    a, b = _layout(a), _layout(b)
    if type(a) is Layout and type(b) is Layout and static_flat(a) is not None and static_flat(b) is not None:
        # Coalesced static layouts are unique representatives of their functions (up to rank-1 wrappers).
        fa, fb = coalesce(a), coalesce(b)
        same_shape = [*it.leaves(fa.shape)] == [*it.leaves(fb.shape)]
        return same_shape and [*it.leaves(fa.stride)] == [*it.leaves(fb.stride)]
    if _static_size(a) != _static_size(b):
        return False
    return all(a(i) == b(i) for i in range(_static_size(a)))


def image(layout: Any) -> set[Any]:
    """The set of indices the layout takes."""
    return {v for _, v in enumerate_map(layout)}


def _steps(layout: Any) -> dict[tuple[int, ...], list[tuple[int, int]]] | None:
    """Per direction of the codomain the (stride, extent) of the modes longer than 1; None for what is not static."""
    if type(layout) is not Layout:
        return None
    flat = static_flat(layout)
    if flat is not None:
        return {(): [(d, s) for s, d in zip(*flat, strict=True) if s > 1]}
    out: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for s, d in zip(it.leaves(layout.shape), it.leaves(layout.stride), strict=True):
        value = d.value if type(d) is sc.Basis else None
        if type(s) is not int or type(d) is not sc.Basis or type(value) is not int:
            return None
        if s > 1:
            out.setdefault(d.modes, []).append((value, s))
    # A direction inside another one (1E0 and 1E0E1) mixes tuples with integers.
    paths = sorted(out)
    return None if any(b[: len(a)] == a for a, b in zip(paths, paths[1:], strict=False)) else out


def _permutes(inner: Any, layout: Any) -> bool:
    """Whether the inner function of a composed layout is a bijection on the values that reach it."""
    if not isinstance(inner, Swizzle) or not inner.is_bijective or type(layout.outer) is not Layout:
        return False
    flat = static_flat(layout.outer)
    return flat is not None and type(layout.offset) is int and layout.offset >= 0 and min(flat[1]) >= 0


def is_injective(layout: Any) -> bool:
    """Whether no two coordinates share an index; decided at any size for layouts and for swizzles of them."""
    if isinstance(layout, ComposedLayout) and _permutes(layout.inner, layout):
        return is_injective(layout.outer)
    steps = _steps(layout)
    if steps is not None:
        return all(map(is_injective_sum, steps.values()))
    return len(image(layout)) == _static_size(layout)


def _integers(layout: Any, name: str) -> set[int]:
    img = image(layout)
    if any(type(v) is not int for v in img):
        raise LayoutError(f"{name}({layout}): asks for integer indices, not coordinates or dynamic values")
    return img


def _integer_steps(layout: Any) -> list[tuple[int, int]] | None:
    """The (stride, extent) of the modes longer than 1 of a static layout of integer strides, shortest stride first."""
    if type(layout) is not Layout or static_flat(layout) is None:
        return None
    return sorted(((d, s) for d, s in (_steps(layout) or {})[()]), key=lambda m: abs(m[0]))


def _reach(steps: list[tuple[int, int]]) -> tuple[int, bool]:
    """How far the sums of the steps (taken positive) go without a gap, and whether that is all of them.

    Steps sorted by length fill ``[0, reach]`` exactly as long as the next one is at most ``reach + 1``.
    """
    reach = 0
    for d, s in steps:
        if abs(d) > reach + 1:
            return reach, False
        reach += abs(d) * (s - 1)
    return reach, True


def is_surjective(layout: Any, codomain: int | None = None) -> bool:
    """Whether every index in ``[0, codomain)`` is taken (default codomain: up to the largest index)."""
    steps = _integer_steps(layout)
    if steps is not None:
        if any(d < 0 for d, _ in steps):
            return False
        reach, everything = _reach(steps)
        return everything if codomain is None else codomain <= reach + 1
    img = _integers(layout, "is_surjective")
    if codomain is None:
        codomain = max(img) + 1
    return min(img) >= 0 and all(i in img for i in range(codomain))


def is_bijective(layout: Any) -> bool:
    """Whether the layout is a permutation of ``[0, size)``."""
    steps = _integer_steps(layout)
    if steps is not None:
        running = 1
        for d, s in steps:
            if d != running:
                return False
            running *= s
        return True
    return _integers(layout, "is_bijective") == set(range(_static_size(layout)))


def is_contiguous(layout: Any) -> bool:
    """Whether the image is a gap-free range of indices (in any order)."""
    steps = _integer_steps(layout)
    if steps is not None:
        return _reach(steps)[1]
    img = _integers(layout, "is_contiguous")
    return bool(max(img) - min(img) + 1 == len(img))


def nullspace(layout: Layout) -> Layout:
    """A layout of the linear coordinates along the zero-stride modes: ``layout(nullspace(i)) == layout(0)``."""
    layout = plain(layout, "nullspace")
    shapes: list[Any] = []
    strides: list[Any] = []
    running: Any = 1
    for s, d in zip(it.leaves(layout.shape), it.leaves(layout.stride), strict=True):
        if sc.is_zero(d) and not sc.is_one(s):
            shapes.append(s)
            strides.append(running)
        running = sc.mul(running, s)
    if not shapes:
        return make_pair(1, 0)
    return make_pair(coords.bare_tuple(shapes), coords.bare_tuple(strides))


def kernel(layout: Any) -> set[int]:
    """All linear coordinates that share the index of coordinate 0, found by enumeration.

    :func:`nullspace` gives the part of it that is a layout along the zero-stride modes, at any size.
    """
    layout = _layout(layout)
    zero = layout(0)
    return {i for i in range(_static_size(layout)) if layout(i) == zero}


def _unswizzled(x: Any, name: str) -> tuple[Layout, int]:
    """The plain layout under a swizzle and the length of the runs that the swizzle keeps in place (0: all)."""
    if isinstance(x, ComposedLayout) and isinstance(x.inner, Swizzle) and type(x.outer) is Layout:
        keeps = 1 << x.inner.base if x.inner.mask else 0
        start = sc.div_of(x.offset) if type(x.offset) is not tuple else 1
        return plain(x.outer, name), gcd(keeps, start)
    return plain(x, name), 0


def max_common_layout(a: Any, b: Any) -> Layout:
    """The largest contiguous run of linear coordinates that both layouts keep contiguous, as a coordinate layout.

    With ``R`` the result: ``a(R(i)) == b(R(i)) == i``; ``1:0`` if there is none.  Under a swizzle ``S<m,b,s>`` the run
    is cut to what divides ``2**b`` (and the offset), so that every such run stays contiguous.
    """
    (pa, ka), (pb, kb) = _unswizzled(a, "max_common_layout"), _unswizzled(b, "max_common_layout")
    inv = right_inverse(pb)
    n = _common(pa, inv)
    if ka or kb:
        n = gcd(n, ka, kb)
    return compose_layouts(inv, Layout(n)) if n > 1 else make_pair(1, 0)


def max_common_vector(a: Any, b: Any) -> int:
    """Number of elements of :func:`max_common_layout`: the widest vector move between two layouts."""
    n = max_common_layout(a, b).size()
    assert type(n) is int
    return n


def _common(a: Layout, inv: Layout) -> int:
    size = inv.size()
    if type(size) is not int or any(type(d) is sc.Basis for x in (a, inv) for d in it.leaves(x.stride)):
        return 1
    limit = a.size()
    try:
        if type(limit) is int and limit < size:
            raise LayoutError("coordinates outside a: enumerate")
        c = coalesce(composition(a, inv))
        s, d = next(it.leaves(c.shape)), next(it.leaves(c.stride))
        return s if type(s) is int and d == 1 else 1
    except LayoutError:
        if type(limit) is not int or not inv.is_static or not a.is_static:
            return 1
        n = next((i for i in range(size) if inv(i) >= limit or a(inv(i)) != i), size)
        return next(k for k in range(max(n, 1), 0, -1) if size % k == 0)


def widest_vector(layout: Any, element_bits: int, alignment: int, max_bits: int = 128) -> int:
    """Elements of the widest vector access the layout allows at every multiple of itself.

    ``alignment`` is the pointer's alignment in bytes.  The vector runs along the contiguous leading coordinates; every
    other stride (and, for swizzled layouts, the swizzle's base) must keep its alignment.
    """
    n = max_bits // element_bits
    while n > 1:
        if n * element_bits <= alignment * 8 and n * element_bits % 8 == 0 and _vector_ok(layout, n):
            return n
        n -= 1
    return 1


def _vector_ok(layout: Any, n: int) -> bool:
    if type(layout) is ComposedLayout and not layout.is_static:
        return False
    if type(layout) is Layout:
        c = coalesce(layout)
        s, d = tuple(it.leaves(c.shape)), tuple(it.leaves(c.stride))
        first = s[0] if type(s[0]) is int else s[0].div
        aligned = all(type(x) is not sc.Basis and sc.div_of(x) % n == 0 for x in d[1:])
        return bool(d[0] == 1 and first % n == 0 and aligned)
    size = _static_size(layout)
    if size % n:
        return False
    for i in range(0, size, n):
        base = layout(i)
        if base % n or any(layout(i + k) != base + k for k in range(1, n)):
            return False
    return True


def substitute(x: Any, values: Mapping[str, int] | None = None, **named: int) -> Any:
    """Replace the named symbols (:func:`flydsl.layout.sym`) of an int tuple or layout by numbers."""
    env = {**(values or {}), **named}
    if isinstance(x, Layout):
        return Layout(substitute(x.shape, env), substitute(x.stride, env))
    if isinstance(x, ComposedLayout):
        inner = substitute(x.inner, env) if isinstance(x.inner, (Layout, ComposedLayout)) else x.inner
        return ComposedLayout(inner, substitute(x.offset, env), substitute(x.outer, env))
    return it.transform_leaf(lambda leaf: sc.evaluate(leaf, env), it.normalize(x))
