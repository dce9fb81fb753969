"""Names of the execution layer: artifacts and their launchers."""

from __future__ import annotations

from .artifact import CompiledArtifact
from .jit_function import CompiledFunction as CallState

__all__ = ["CallState", "CompiledArtifact"]
