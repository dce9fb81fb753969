"""The compiler that Triton asks of every backend. Code for the simulator is AMD code, by Triton's own compiler."""

from __future__ import annotations

from typing import Any

from triton.backends.amd import compiler as amd


class SimulatorBackend(amd.HIPBackend):
    """Supports no target by itself, so that Triton takes its AMD compiler for ``hip`` targets."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        return False
