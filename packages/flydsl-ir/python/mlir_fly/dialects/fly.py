"""The fly dialect: op builders, enums, type classes and helper functions.

Everything is re-exported from three places: op classes and builders generated from the op
definitions, enums generated from the enum definitions, and the native type classes and helpers.
This module only adds what a generated builder cannot express.
"""

# Re-exporting is the purpose of this module.
# ruff: noqa: F401, F403

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._mlir_libs._flyDialects.fly import *
from .._mlir_libs._flyDialects.fly import _Basis, _KeptOperations
from ..ir import InsertionPoint, Location, Operation, OpView, Type, Value
from . import _fly_ops_gen as _ops
from ._fly_enum_gen import *
from ._fly_ops_gen import *
from ._fly_ops_gen import _Dialect


def _as_group(operand: Any) -> Any:
    """One operand, or a list of them, as the list that a variadic operand takes."""
    if isinstance(operand, (Value, OpView, Operation)):
        return [operand]
    return operand


def make_copy_atom(
    result: Type,
    args: Sequence[Value] | int = (),
    val_bits: int | None = None,
    *,
    loc: Location | None = None,
    ip: InsertionPoint | None = None,
) -> Value:
    """Builds ``fly.make_copy_atom``: ``(result, val_bits)`` or ``(result, args, val_bits)``.

    ``args`` are the construction operands of atoms that have some.
    """
    if isinstance(args, int):
        args, val_bits = (), args
    return _ops.make_copy_atom(result, args, val_bits, loc=loc, ip=ip)


def gemm(
    mma_atom: Value,
    d: Value,
    a: Value | Sequence[Value],
    b: Value | Sequence[Value],
    c: Value,
    *,
    traversal_order: Any = None,
    traversal_layout: Value | None = None,
    loc: Location | None = None,
    ip: InsertionPoint | None = None,
) -> Any:
    """Builds ``fly.gemm``. ``a`` and ``b`` are one memref, or a list: the data, then its scales."""
    return _ops.gemm(
        mma_atom,
        d,
        _as_group(a),
        _as_group(b),
        c,
        traversal_order=traversal_order,
        traversal_layout=traversal_layout,
        loc=loc,
        ip=ip,
    )


def mma_atom_call(
    mma_atom: Value,
    d: Value,
    a: Value | Sequence[Value],
    b: Value | Sequence[Value],
    c: Value,
    *,
    loc: Location | None = None,
    ip: InsertionPoint | None = None,
) -> Any:
    """Builds ``fly.mma_atom_call``. ``a`` and ``b`` are one memref, or a list (see :func:`gemm`)."""
    return _ops.mma_atom_call(mma_atom, d, _as_group(a), _as_group(b), c, loc=loc, ip=ip)


def mma_atom_call_ssa(
    results_: Sequence[Type],
    mma_atom: Value,
    a: Value | Sequence[Value],
    b: Value | Sequence[Value],
    c: Value,
    *,
    d: Value | None = None,
    loc: Location | None = None,
    ip: InsertionPoint | None = None,
) -> Any:
    """Builds ``fly.mma_atom_call_ssa``; ``d`` is the destination memref if there is no result."""
    return _ops.mma_atom_call_ssa(results_, mma_atom, _as_group(a), _as_group(b), c, d=d, loc=loc, ip=ip)
