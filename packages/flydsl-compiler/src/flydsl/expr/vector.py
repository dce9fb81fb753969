"""The MLIR `vector` dialect with wrappers that accept DSL values: the module of releases up to 0.2."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import vector as _vector_dialect
from flydsl._mlir.dialects.vector import *  # noqa: F403 - the documented re-export
from flydsl.tracing.locations import dsl_loc_tracing

from ._reductions import ReductionOp
from ._vector import (
    DYNAMIC_SENTINEL,
    Vector,
    empty_like,
    full,
    full_like,
    index_operands,
    ones_like,
    zeros_like,
)
from .utils.convert import as_ir_value

__all__ = [
    "ReductionOp", "Vector", "bitcast", "empty_like", "extract", "from_elements", "full", "full_like", "load_op",
    "ones_like", "store", "zeros_like",
]


@dsl_loc_tracing
def from_elements(vec_type: ir.Type, elems: Any) -> Any:
    """`vector.from_elements`; elements may be DSL values."""
    return _vector_dialect.from_elements(vec_type, [as_ir_value(e) for e in elems])


@dsl_loc_tracing
def store(value: Any, memref: Any, indices: Any, **kwargs: Any) -> Any:
    """`vector.store`; Python ints in `indices` become index constants."""
    return _vector_dialect.store(as_ir_value(value), memref, index_operands(indices), **kwargs)


@dsl_loc_tracing
def load_op(result_type: ir.Type, memref: Any, indices: Any) -> Any:
    """`vector.load`; Python ints in `indices` become index constants."""
    return _vector_dialect.load(result_type, memref, index_operands(indices))


@dsl_loc_tracing
def extract(vector: Any, static_position: Any = None, dynamic_position: Any = None) -> Any:
    """`vector.extract`; with dynamic positions alone, the static list is filled in."""
    dynamic = index_operands(dynamic_position) if dynamic_position is not None else []
    static = list(static_position) if static_position is not None else [DYNAMIC_SENTINEL] * len(dynamic)
    return _vector_dialect.extract(as_ir_value(vector), dynamic, static)


@dsl_loc_tracing
def bitcast(result_type: ir.Type, source: Any) -> Any:
    """The bits of `source` as a vector of `result_type`; both have the same number of bits."""
    return _vector_dialect.bitcast(result_type, as_ir_value(source))
