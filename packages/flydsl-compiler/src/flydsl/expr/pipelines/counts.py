"""The number of asynchronous operations that a piece of a trace starts: what waits are derived from.

A counter of the hardware says how many operations are in flight; they end in the order in which they started. To wait
for one is to wait until no more are in flight than were started after it. Fewer than that is always right, so what is
not certain to be one instruction for each wave (behind a predicate, in a branch) counts as none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.ir_walk import in_block

from .._lanes import numel
from ..values.plain import plain

# Counter of an operation: by the atom of a copy, or by the name of a raw one.
_ATOMS = {
    "cdna3.buffer_copy_lds": "vm", "cdna4.buffer_load_async_lds": "vm", "cdna4.global_load_async_lds": "vm",
    "gfx1250.tdm": "tensor", "cdna5.tensor_load": "tensor",
}
_RAW = {"rocdl.raw.ptr.buffer.load.lds": "vm", "rocdl.global.load.lds": "vm", "rocdl.tensor.load.to.lds": "tensor",
        "rocdl.tensor.load.to.lds.d2": "tensor",
        **{f"rocdl.{memory}.load.async.to.lds.b{bits}": "async"
           for memory in ("global", "cluster") for bits in (8, 32, 64, 128)}}
_ATOM_NAME = re.compile(r"!fly_rocdl\.([\w.]+)")


def started(emit: Callable[[], Any]) -> dict[str, int]:
    """Run `emit` and count by counter the copies to LDS that it traces. Loads into registers are none of them: the
    compiler may move or drop those."""
    block = ir.InsertionPoint.current.block
    before = len(block.operations)
    emit()
    counts: dict[str, int] = {}
    for op in in_block(block, before):  # not all of a block, which grows by a piece each time
        counter = _counter(op)
        if counter is not None:
            counts[counter] = counts.get(counter, 0) + _calls(op)
    return counts


def _counter(op: Any) -> str | None:
    name = op.name
    if name in _RAW:
        return _RAW[name]
    if name not in ("fly.copy", "fly.copy_atom_call") or _predicated(op):
        return None
    found = _ATOM_NAME.search(str(op.operands[0].type))
    if found is None:
        return None
    return _ATOMS.get(found.group(1))


def _predicated(op: Any) -> bool:
    return len(op.operands) > 3


def _calls(op: Any) -> int:
    """Atom calls of a copy: one for each element of all modes but the first."""
    if op.name != "fly.copy":
        return 1
    layout = op.operands[2].type.layout
    while not hasattr(layout, "shape"):
        layout = layout.outer
    shape = plain(layout.shape)
    return numel(shape[1:]) if isinstance(shape, tuple) else 1
