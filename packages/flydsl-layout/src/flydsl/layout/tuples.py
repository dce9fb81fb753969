"""The public functions on int tuples: the operands are checked, and a layout stands for its shape in shape tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import coords, inttuple as it
from .algebra import linear_of
from .core import ComposedLayout, Layout
from .errors import LayoutError
from .scalar import Basis, IntTuple, Leaf


def shape_of(x: Any) -> IntTuple:
    """The shape of a layout; an int tuple is its own."""
    return linear_of(x).shape if isinstance(x, (Layout, ComposedLayout)) else it.normalize(x)


# --------------------------------------------------------------------------------------------------------------------
# Shape tests


def congruent(a: Any, b: Any) -> bool:
    """Same profile: leaf meets leaf, tuple meets tuple of the same rank.  Layouts are compared by their shapes."""
    return it.congruent(shape_of(a), shape_of(b))


def weakly_congruent(a: Any, b: Any) -> bool:
    """``a``'s profile is coarser: wherever ``a`` is a tuple, ``b`` is a tuple of the same rank."""
    return it.weakly_congruent(shape_of(a), shape_of(b))


def compatible(a: Any, b: Any) -> bool:
    """Shape ``a`` is compatible with shape ``b``: every coordinate of ``a`` is a coordinate of ``b`` (same size)."""
    return it.compatible(shape_of(a), shape_of(b))


def weakly_compatible(a: Any, b: Any) -> bool:
    """Like :func:`compatible`, but a leaf of ``a`` need only divide the facing size of ``b``."""
    return it.weakly_compatible(shape_of(a), shape_of(b))


def has_none(x: Any) -> bool:
    """Whether an int tuple (or the shape of a layout) has a hole."""
    return it.has_none(shape_of(x))


def is_static(x: Any) -> bool:
    """Whether no leaf of an int tuple or layout is dynamic."""
    return x.is_static if isinstance(x, (Layout, ComposedLayout)) else it.is_static(it.normalize(x))


# --------------------------------------------------------------------------------------------------------------------
# Arithmetic


def int_tuple_add(a: Any, b: Any) -> IntTuple:
    """Leaf-wise sum; surplus modes stay, and basis leaves add as coordinates."""
    return it.add(it.normalize(a), it.normalize(b))


def int_tuple_sub(a: Any, b: Any) -> IntTuple:
    """Leaf-wise difference; surplus modes stay."""
    return it.sub(it.normalize(a), it.normalize(b))


def int_tuple_mul(a: Any, b: Any) -> IntTuple:
    """Leaf-wise product; surplus modes stay."""
    return it.mul(it.normalize(a), it.normalize(b))


def int_tuple_div(a: Any, b: Any) -> IntTuple:
    """Leaf-wise quotient, truncating toward zero; surplus modes stay."""
    return it.div(it.normalize(a), it.normalize(b))


def int_tuple_mod(a: Any, b: Any) -> IntTuple:
    """Leaf-wise remainder, with the sign of the dividend; surplus modes stay."""
    return it.mod(it.normalize(a), it.normalize(b))


def product(x: Any) -> Leaf:
    """Product of all leaves (a leaf is its own product)."""
    return it.product(it.normalize(x))


def product_each(x: Any) -> IntTuple:
    """The product of every top-level mode; a leaf stays itself."""
    return it.product_each(it.normalize(x))


def product_like(x: Any, guide: Any) -> IntTuple:
    """At every leaf of ``guide`` the product of the facing part of ``x``."""
    return it.product_like(it.normalize(x), it.normalize(guide))


def inner_product(a: Any, b: Any) -> IntTuple:
    """Sum of products of facing leaves."""
    return it.inner_product(it.normalize(a), it.normalize(b))


def tuple_sum(x: Any) -> IntTuple:
    """Sum of all leaves by coordinate addition."""
    return it.tuple_sum(it.normalize(x))


def tuple_max(x: Any) -> int:
    """The largest leaf of a static int tuple.

    :raises LayoutError: a leaf is no integer
    """
    leaves = list(it.leaves(it.normalize(x)))
    if any(type(e) is not int for e in leaves):
        raise LayoutError(f"tuple_max needs static integers: {it.to_text(it.normalize(x))}")
    return int(max(leaves))


def prefix_product(x: Any, init: Any = 1) -> IntTuple:
    """Column-major strides of a shape: at every leaf ``init`` times the product of the leaves before it."""
    x, init = it.normalize(x), it.normalize(init)
    if type(init) is tuple:
        if type(x) is not tuple or len(x) != len(init):
            raise LayoutError(f"prefix_product: {it.to_text(init)} does not fit {it.to_text(x)}")
        return tuple(prefix_product(a, b) for a, b in zip(x, init, strict=True))
    return coords.compact(x, init)


def ceil_div(a: Any, b: Any) -> IntTuple:
    """Rounded-up division; a leaf divisor is folded through the modes of a tuple dividend."""
    return it.ceil_div(it.normalize(a), it.normalize(b))


def shape_div(a: Any, b: Any) -> IntTuple:
    """Like :func:`ceil_div`, but every step must divide one way or the other (else :class:`LayoutError`)."""
    return it.shape_div(it.normalize(a), it.normalize(b))


def elem_less(a: Any, b: Any) -> Leaf:
    """Conjunction of leaf-wise ``<``; 0 if ``a`` has more modes.  1, 0 or a dynamic truth value."""
    return it.elem_less(it.normalize(a), it.normalize(b))


def equal(a: Any, b: Any) -> Leaf:
    """Leaf-wise equality; 0 on profile mismatch.  1, 0 or a dynamic truth value."""
    return it.equal(it.normalize(a), it.normalize(b))


# --------------------------------------------------------------------------------------------------------------------
# Others


def to_text(x: Any) -> str:
    """The text of an int tuple in the form of the IR types: ``(4,(?,2E1))``."""
    return it.to_text(it.normalize(x))


def transform_leaf(f: Callable[..., Any], x: Any, *more: Any) -> Any:
    """The int tuple of ``f`` at every leaf of ``x`` and the facing leaves of ``more`` (congruent with ``x``)."""
    tuples = [it.normalize(y) for y in (x, *more)]
    if not all(it.congruent(tuples[0], y) for y in tuples[1:]):
        raise LayoutError(f"transform_leaf: not congruent: {' and '.join(map(it.to_text, tuples))}")
    return it.transform_leaf(f, *tuples)


def repeat_like(value: Any, x: Any) -> Any:
    """``value`` at every leaf of ``x``."""
    return it.transform_leaf(lambda _: value, shape_of(x))


def basis_value(b: Any) -> Leaf:
    """The coefficient of a basis vector; an integer is its own."""
    return b.value if isinstance(b, Basis) else it.normalize(b)


def basis_get(b: Basis, x: Any) -> IntTuple:
    """The part of ``x`` that a basis vector points at: ``basis_get(E(1, 0), (5, (6, 7)))`` is 6."""
    if not isinstance(b, Basis):
        raise LayoutError(f"basis_get needs a basis vector, got {b!r}")
    return it.get(it.normalize(x), *b.modes)
