"""Int-tuples: constructors, leaves and arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.lazy import arith
from flydsl.tracing.locations import dsl_loc_tracing

from .._functions import functions
from ..numeric import Boolean
from ..values.base import mode_path
from ..values.int_tuple import Basis, IntTuple, permissive, to_int_tuple, typed_leaf


def make_int_tuple(x: Any) -> IntTuple:
    """An IntTuple from ints, Numerics, values, wildcards, basis elements and nested tuples of those."""
    return to_int_tuple(x)


def _variadic(op: str, entries: tuple[Any, ...]) -> IntTuple:
    if len(entries) == 1 and isinstance(entries[0], IntTuple):
        return entries[0]
    return to_int_tuple(entries, op)


def make_shape(*modes: Any) -> IntTuple:
    """Shape with one mode per argument; a single IntTuple is used as it is."""
    return _variadic("make_shape", modes)


def make_stride(*modes: Any) -> IntTuple:
    """Stride with one mode per argument; a single IntTuple is used as it is."""
    return _variadic("make_stride", modes)


def make_coord(*modes: Any) -> IntTuple:
    """Coordinate with one mode per argument (``None`` is a wildcard); a single IntTuple is used as it is."""
    return _variadic("make_coord", modes)


@dsl_loc_tracing
def get_scalar(t: Any) -> Any:
    """The value of a one-leaf int-tuple: int or Basis when static, Int32 or Int64 when dynamic."""
    if not isinstance(t, IntTuple):
        return t
    leaf = t
    while not leaf.is_leaf:
        if leaf.rank != 1:
            raise ValueError(f"get_scalar needs a single leaf, got {t}")
        leaf = leaf[0]
    if leaf.is_static or leaf.type.is_leaf_basis:
        return leaf.to_py_value()
    return typed_leaf(fly.get_scalar(leaf))


@dsl_loc_tracing
def get_leaves(t: Any, dynamic_only: bool = False) -> tuple[Any, ...]:
    """All leaf values, flat; only the dynamic ones with `dynamic_only`."""
    tree = to_int_tuple(t).to_py_value()
    leaves = _flatten(tree)
    if dynamic_only:
        leaves = [x for x in leaves if not isinstance(x.value if isinstance(x, Basis) else x, (int, type(None)))]
    return tuple(leaves)


def _flatten(tree: Any) -> list[Any]:
    return [leaf for mode in tree for leaf in _flatten(mode)] if isinstance(tree, tuple) else [tree]


@functions.announce
@dsl_loc_tracing
def get_(x: Any, mode: Any) -> Any:
    """Sub-object at a mode number or path."""
    return fly.get(permissive(x), mode_path(mode))


@dsl_loc_tracing
def get(t: Any, i: int) -> Any:
    """Deprecated: mode `i` as an index-typed raw value. Use ``t[i].unpack()``."""
    if isinstance(t, (tuple, list)):
        return t[i]
    leaf = fly.get_scalar(fly.select(permissive(t), mode_path(i)))
    return arith.index_cast(ir.IndexType.get(), leaf)


# --------------------------------------------------------------------------- arithmetic


def _binary(name: str, doc: str) -> Callable[[Any, Any], IntTuple]:
    @dsl_loc_tracing
    def function(a: Any, b: Any) -> IntTuple:
        return getattr(fly, name)(to_int_tuple(a), to_int_tuple(b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


int_tuple_add = _binary("int_tuple_add", "Leaf-wise sum; extra entries of either side are kept.")
int_tuple_sub = _binary("int_tuple_sub", "Leaf-wise difference.")
int_tuple_mul = _binary("int_tuple_mul", "Leaf-wise product.")
int_tuple_div = _binary("int_tuple_div", "Leaf-wise integer quotient.")
int_tuple_mod = _binary("int_tuple_mod", "Leaf-wise remainder.")
int_tuple_product_like = _binary("int_tuple_product_like", "Products of `a` down to the profile of `b`.")
shape_div = _binary("shape_div", "Divide a shape by an extent, left to right: ``(12,3)/6 = (2,3)``.")
ceil_div = _binary("ceil_div", "Leaf-wise quotient rounded up.")


@dsl_loc_tracing
def int_tuple_product(t: Any) -> IntTuple:
    """Product of all leaves, as one leaf."""
    return fly.int_tuple_product(to_int_tuple(t))


@dsl_loc_tracing
def int_tuple_product_each(t: Any) -> IntTuple:
    """Product of each top-level mode."""
    return fly.int_tuple_product_each(to_int_tuple(t))


@dsl_loc_tracing
def elem_less(a: Any, b: Any) -> Boolean:
    """Whether every leaf of `a` is less than that of `b`. Always a dynamic value."""
    return Boolean(fly.elem_less(to_int_tuple(a), to_int_tuple(b)))


@dsl_loc_tracing
def equal(a: Any, b: Any) -> Boolean:
    """Whether `a` and `b` have one profile and equal leaves. Always a dynamic value."""
    return Boolean(fly.equal(to_int_tuple(a), to_int_tuple(b)))


@dsl_loc_tracing
def size(x: Any) -> IntTuple:
    """Number of elements: product of the tuple, or of the shape of a layout or tensor."""
    return fly.size(permissive(x))
