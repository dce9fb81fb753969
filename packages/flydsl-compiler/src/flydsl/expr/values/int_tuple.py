"""`IntTuple`, `Basis` and the coercion of Python values to int-tuples."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import numpy_scalar

from .._emit import bit_width
from .._operators import OPERATORS
from ..numeric import Index, Int32, Int64, Integer, Numeric, as_numeric
from .base import FlyValue, NestedValue, caster_for, mode_path


class Basis:
    """Stride leaf ``value * E_modes``; `modes` is the path of the coordinate it advances, outermost first."""

    __slots__ = ("value", "modes")

    def __init__(self, value: Any, modes: Any) -> None:
        modes = [modes] if isinstance(modes, int) else modes
        if not isinstance(modes, (list, tuple)):
            raise ValueError(f"Basis modes are a mode number or a list of them, got {type(modes).__name__}")
        modes = list(modes)
        if not modes:
            raise ValueError("Basis needs at least one mode")
        for mode in modes:
            if not isinstance(mode, int) or isinstance(mode, bool) or mode < 0:
                raise ValueError(f"Basis modes are non-negative ints, got {mode!r}")
        if not isinstance(value, (int, Integer, ir.Value)):
            raise TypeError(f"Basis coefficient must be an integer, got {type(value).__name__}")
        self.value = int(value) if isinstance(value, Numeric) and value.is_static() else value
        self.modes = modes

    def __mul__(self, k: Any) -> Any:
        if not isinstance(k, (int, Integer)):
            return NotImplemented
        return Basis(self.value * k, self.modes)

    __rmul__ = __mul__

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, Basis):
            return NotImplemented
        return self.value == other.value and self.modes == other.modes

    def __hash__(self) -> int:
        return hash((self.value, tuple(self.modes)))

    def __repr__(self) -> str:
        return f"{self.value}" + "".join(f"E{m}" for m in self.modes)


def E(*modes: Any) -> Any:  # noqa: N802 - the usual notation
    """Unit basis element of the mode path; ``E()`` is plain 1."""
    if len(modes) == 1 and isinstance(modes[0], (list, tuple)):
        modes = tuple(modes[0])
    for mode in modes:
        if not isinstance(mode, int) or isinstance(mode, bool) or mode < 0:
            raise TypeError(f"E expects non-negative mode numbers, got {mode!r}")
    return Basis(1, list(modes)) if modes else 1


def _no_integer(value: Numeric) -> str:
    return (f"an index, extent or stride must be an integer, got a {type(value).__name__}: convert it with "
            ".to(fx.Int32)")


def _dynamic_leaf(value: Any) -> ir.Value:
    """An i32 or i64 value for a dynamic leaf."""
    if isinstance(value, Numeric):
        if not isinstance(value, Integer):
            raise ValueError(_no_integer(value))
        if isinstance(value, Index):
            value = Int64(value)
        elif type(value).width > 64:
            raise ValueError(f"an int-tuple leaf has at most 64 bits, got {type(value).__name__}")
        elif type(value).width < 32:
            value = Int32(value)
        return value.ir_value()
    ty = value.type
    if isinstance(ty, ir.IndexType):
        return Int64(value).ir_value()
    if not isinstance(ty, ir.IntegerType) or ty.width > 64:
        raise ValueError(f"an int-tuple leaf must be an integer of at most 64 bits, got {ty}")
    return value if ty.width in (32, 64) else Int32(value).ir_value()


def python_tree(x: Any) -> Any:
    """`x` as the nested tuples of ints, wildcards, basis leaves and values that the bindings accept."""
    if x is None or type(x) is int:
        return x
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, (tuple, list)):
        return tuple(python_tree(leaf) for leaf in x)
    if isinstance(x, IntTuple):
        return python_tree(x.to_py_value())
    if isinstance(x, Numeric):
        if not isinstance(x, Integer):
            raise ValueError(_no_integer(x))
        return int(x) if x.is_static() else _dynamic_leaf(x)
    if isinstance(x, Basis):
        value = x.value
        return fly._Basis(value if isinstance(value, int) else _dynamic_leaf(value), list(x.modes))
    if isinstance(x, ir.Value) and not isinstance(x, FlyValue):
        return _dynamic_leaf(x)
    number = numpy_scalar(x)
    if isinstance(number, int):  # of NumPy, or an IntEnum
        return int(number)
    raise ValueError(f"cannot use {x!r} ({type(x).__name__}) as an index, extent or stride: integers are expected, "
                     "nested in tuples")


def contains_none(x: Any) -> bool:
    """Whether a Python or IntTuple coordinate has a wildcard anywhere."""
    if x is None:
        return True
    if isinstance(x, (tuple, list)):
        return any(contains_none(leaf) for leaf in x)
    return isinstance(x, IntTuple) and fly.has_none(x)


@dsl_loc_tracing
def to_int_tuple(x: Any, op: str = "make_int_tuple") -> IntTuple:
    """Coerce `x` to an IntTuple value with the named constructor op; an IntTuple is returned as it is."""
    if isinstance(x, IntTuple):
        return x
    ty, leaves = fly.infer_int_tuple_type(python_tree(x))
    return getattr(fly, op)(ty, leaves)


def permissive(x: Any) -> Any:
    """Leave any IR value of a `fly` type alone, coerce everything else to an IntTuple."""
    return x if isinstance(x, FlyValue) else to_int_tuple(x)


def is_congruent(a: Any, b: Any, weak: bool = False) -> bool:
    return (fly.is_profile_weakly_congruent if weak else fly.is_profile_congruent)(a, b)


def check_profile(a: Any, b: Any, weak: bool = False) -> None:
    """ValueError unless the two values have the same nesting (`weak`: `a` is a coarser nesting of `b`)."""
    if not is_congruent(a, b, weak):
        name = "is_profile_weakly_congruent" if weak else "is_profile_congruent"
        raise ValueError(f"profile mismatch: {name}({a.type}, {b.type}) is False")


def typed_leaf(value: ir.Value) -> Any:
    """`Int32` or `Int64` around a dynamic leaf."""
    return (Int64 if bit_width(value.type) > 32 else Int32)(value)


@caster_for(fly.IntTupleType)
class IntTuple(NestedValue):
    """A nested tuple of integers, each static or dynamic: shapes, strides, coordinates."""

    @property
    def get_static_leaf_int(self) -> int:
        """The value of a static leaf; ValueError for anything else."""
        ty = self.type
        if not (ty.is_leaf and ty.is_leaf_int and ty.is_static):
            raise ValueError(f"{self} is not a static integer leaf")
        return ty.get_static_leaf_int

    @dsl_loc_tracing
    def to_py_value(self) -> Any:
        """Nested Python tuples: ints for static leaves, Int32/Int64 for dynamic ones, Basis, None."""
        ty = self.type
        dynamic: Iterator[ir.Value] = iter(())
        if not ty.is_static:
            dynamic = iter(fly.GetLeavesOp(self, dynamicOnly=True).results)
        return _unpack(ty, dynamic)

    unpack = to_py_value

    @dsl_loc_tracing
    def __getitem__(self, mode: Any) -> IntTuple:
        """Sub-tuple at a mode number or a list of them (a path). Mode 0 of a leaf is the leaf itself."""
        ty, path = self.type, []
        for m in mode_path(mode):
            if m >= ty.rank:
                raise IndexError(f"mode {m} is out of range in {self}")
            if not ty.is_leaf:
                path.append(m)
                ty = ty.at(m)
        return fly.get(self, path) if path else self

    def __dsl_number__(self) -> Any:
        """The number of an integer leaf: an int, `Int32` or `Int64`. TypeError for tuples and other leaves."""
        if not (self.type.is_leaf and self.type.is_leaf_int):
            raise TypeError(f"{self} is no number: take one of its leaves")
        return self.to_py_value()

    def to(self, target: Any) -> Any:
        """The number of an integer leaf as a Numeric class."""
        return as_numeric(self).to(target)

    def __index__(self) -> int:
        return operator.index(self.__dsl_number__())

    __int__ = __index__

    def __neg__(self) -> Any:
        return -self.__dsl_number__()

    def __abs__(self) -> Any:
        return abs(self.__dsl_number__())

    def __divmod__(self, other: Any) -> Any:
        return divmod(self.__dsl_number__(), _number(other))

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(_number(other), self.__dsl_number__())

    def __hash__(self) -> int:
        return ir.Value.__hash__(self)

    def __iter__(self) -> Iterator[IntTuple]:
        return (self[i] for i in range(self.rank))

    def __len__(self) -> int:
        return self.rank


def _number(x: Any) -> Any:
    return x.__dsl_number__() if isinstance(x, IntTuple) else x


def _is_number(x: Any) -> bool:
    if isinstance(x, IntTuple):
        return bool(x.type.is_leaf and x.type.is_leaf_int)
    return isinstance(x, (bool, int, float, Numeric)) or isinstance(x, ir.Value) and not isinstance(x, FlyValue)


def _install_operators() -> None:
    """Extents are numbers: an integer leaf takes part in arithmetic and comparisons like the number in it."""
    for name, op in OPERATORS.items():

        def forward(self: Any, other: Any, _fold: Any = op.fold) -> Any:
            if not (_is_number(self) and _is_number(other)):
                return NotImplemented
            return _fold(self.__dsl_number__(), _number(other))

        def backward(self: Any, other: Any, _fold: Any = op.fold) -> Any:
            if not (_is_number(self) and _is_number(other)):
                return NotImplemented
            return _fold(_number(other), self.__dsl_number__())

        base = name.rstrip("_")
        setattr(IntTuple, f"__{base}__", forward)
        if op.group != "compare":
            setattr(IntTuple, f"__r{base}__", backward)


_install_operators()


def _unpack(ty: Any, dynamic: Iterator[ir.Value]) -> Any:
    if not ty.is_leaf:
        return tuple(_unpack(ty.at(i), dynamic) for i in range(ty.rank))
    if ty.is_leaf_basis:
        basis = ty.get_leaf_as_basis
        return Basis(basis.value if basis.is_static else typed_leaf(next(dynamic)), list(basis.modes))
    if ty.is_leaf_int:
        return ty.get_static_leaf_int if ty.is_static else typed_leaf(next(dynamic))
    return None
