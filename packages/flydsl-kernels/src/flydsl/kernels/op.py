"""One declaration an operation, and what derives from it.

An operation is an :class:`Op` in the module ``op`` of a family's folder, in its list ``OPS``; nothing else has to know
of it. From the declaration come the functional form in :mod:`flydsl.kernels.ops`, the operator
``torch.ops.flydsl.<name>`` with its fake rule and gradient, the generic tests (``tests/test_ops.py``), the benchmark's
case and the row of the documentation's table (:func:`table`).
"""

from __future__ import annotations

from .declared import declarations, operations, table
from .operation import (
    Form,
    Gradient,
    Op,
    Plan,
    Result,
    hidden_rows,
    like,
    no_model_calls,
    operators,
    scratch_of,
    statistic,
)

__all__ = [
    "Form", "Gradient", "Op", "Plan", "Result", "declarations", "hidden_rows", "like", "no_model_calls", "operations",
    "operators", "scratch_of", "statistic", "table",
]
