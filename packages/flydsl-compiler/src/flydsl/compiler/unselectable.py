"""An instruction that the target lacks, found only by the code generator: told in the user's terms.

LLVM says "Cannot select" with a dump of its own graph. The operation that asked for the instruction still has the
location of the user's line.
"""

from __future__ import annotations

import re
from typing import Any

from .diagnostics import DiagRecord, DSLCompileError, location_frames
from .ir_walk import walk

__all__ = ["unselectable"]

_SELECT = re.compile(r"Cannot select: [^\n]*?(?:intrinsic %([\w.]+)|AMDGPUISD::(\w+)|=\s+(?!AMDGPUISD)(\w+))")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def unselectable(message: str, gpu_module: Any, arch: str) -> DSLCompileError | None:
    """The error for the code generator's ``message``, or None if it is about something else."""
    found = _SELECT.search(message)
    if found is None:
        return None
    name = next(group for group in found.groups() if group)
    wanted = _letters(name.removeprefix("llvm.amdgcn."))
    text = f"{arch} has no instruction for {name}"
    for op in walk(gpu_module):
        intrinsic = op.attributes["intrin"].value if "intrin" in op.attributes else ""
        if any(_letters(known).endswith(wanted) for known in (op.name, intrinsic) if known):
            frames = location_frames(op.location)
            if frames:
                return DSLCompileError(text, [DiagRecord(text, frames)])
    return DSLCompileError(text)
