"""Register placement hints that need an LLVM patch which is not upstream.

Without the patch a hint cannot be honoured: with ``soft=True`` it returns the value unchanged, else it raises.
"""

from __future__ import annotations

from typing import Any

__all__ = ["sched_agpr", "sched_bank", "sched_sgpr", "sched_vgpr"]


def _hint(name: str) -> Any:
    def place(value: Any, n: int, soft: bool = False) -> Any:
        if soft:
            return value
        raise AttributeError(f"rocdl.experimental.{name} needs an LLVM patch that this build lacks; pass soft=True to "
                             "continue without the hint")

    place.__name__ = place.__qualname__ = name
    place.__doc__ = f"Register placement hint `{name}`; see the module."
    return place


sched_bank = _hint("sched_bank")
sched_vgpr = _hint("sched_vgpr")
sched_sgpr = _hint("sched_sgpr")
sched_agpr = _hint("sched_agpr")
