"""An instruction that the target lacks, found only by the code generator: told at the user's line.

The code generator names the intrinsic and the kernel; the operation that asked for it still has its location.
"""

from __future__ import annotations

import re
from typing import Any

from flydsl.tracing.diagnostics import DiagRecord, DSLCompileError, SourceFrame, location_frames
from flydsl.tracing.ir_walk import walk

__all__ = ["unselectable"]

_MISSING = re.compile(r"\S+ has no instruction for llvm\.amdgcn\.([\w.]+)(?: \(kernel '[^']*'\))?")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def unselectable(message: str, gpu_module: Any) -> DSLCompileError | None:
    """The located error for the code generator's ``message``, or None if it is about something else."""
    found = _MISSING.search(message)
    if found is None:
        return None
    wanted, best = _letters(found[1]), 0
    frames: tuple[SourceFrame, ...] = ()
    for op in walk(gpu_module):
        asked = op.attributes["intrin"].value.removeprefix("llvm.amdgcn.") if "intrin" in op.attributes else op.name
        known = _letters(asked.removeprefix("rocdl."))
        # The intrinsic's name may end with the types it is overloaded for; the longest match is the operation.
        if len(known) > best and wanted.startswith(known) and (chain := location_frames(op.location)):
            best, frames = len(known), chain
    return DSLCompileError(found[0], [DiagRecord(found[0], frames)])
