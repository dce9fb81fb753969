"""Jit functions that launch nothing: they are traced, verified and can be inspected; a call has nothing to do."""

from __future__ import annotations

import warnings
from typing import Any

from flydsl.runtime.plan import VERSION, check
from flydsl.tracing.diagnostics import location_frames
from flydsl.tracing.ir_walk import walk

__all__ = ["host_plan", "is_host_only"]

#: Operations that write memory, with the operand that says which.
_STORES = {"fly.ptr.store": 1, "fly.memref.store": 1, "fly.memref.store_vec": 1, "fly.copy": 2, "fly.copy_atom_call": 2}


def is_host_only(module: Any) -> bool:
    """Whether a module without kernels needs no plan: nothing in it is seen from outside, as prints and assertions are.

    A store to a tensor outside of a kernel is traced but never executed, which a warning says.
    """
    for op in walk(module):
        if op.name in ("fly.print", "cf.assert"):
            return False
        position = _STORES.get(op.name)
        if position is not None and ", register" not in str(op.operands[position].type):
            frames = location_frames(op.location)
            place = f" ({frames[0].filename}:{frames[0].line})" if frames else ""
            warnings.warn(
                f"a jit function that launches no kernel stores to memory{place}: this is traced, but a call does not "
                "execute it; what touches the elements of a tensor belongs into a kernel",
                UserWarning, stacklevel=2,
            )
            return True
    return True


def host_plan(name: str, arguments: list[dict[str, Any]]) -> dict[str, Any]:
    """The launch plan that checks its arguments and returns."""
    plan = {"version": VERSION, "name": name, "args": arguments, "regs": 0, "code": [["ret"]]}
    check(plan)
    return plan
