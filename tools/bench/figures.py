"""One measured figure with its unit and budget, and helpers that every bench module uses."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Figure:
    """``value`` in ``unit``; ``budget`` in the same unit, an upper bound unless ``at_least``."""

    what: str
    value: float
    unit: str
    budget: float | None = None
    at_least: bool = False
    note: str = ""

    def formatted(self) -> str:
        """Value and unit, three significant digits."""
        return f"{self.value:.3g} {self.unit}"

    def budget_text(self) -> str:
        """The budget as text, empty if there is none."""
        if self.budget is None:
            return ""
        return f"{'>=' if self.at_least else '<='} {self.budget:g} {self.unit}"

    def verdict(self) -> str:
        """'met', 'missed' or nothing."""
        if self.budget is None:
            return ""
        return "met" if (self.value >= self.budget if self.at_least else self.value <= self.budget) else "missed"

    def as_dict(self) -> dict[str, object]:
        """For --json."""
        return {**asdict(self), "verdict": self.verdict()}


def python_json(code: str, env: dict[str, str] | None = None) -> dict:
    """Run ``code`` in a new interpreter; its last line of output is JSON.

    Byte code may be written, as for a user: compiling the sources of MLIR's bindings takes longer than a kernel.
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(env or {})})
    if result.returncode:
        raise RuntimeError(f"bench process failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def median_of(code: str, key: str, repeat: int = 5, env: dict[str, str] | None = None) -> float:
    """Median over ``repeat`` new interpreters of one number that ``code`` prints as JSON."""
    return statistics.median(python_json(code, env)[key] for _ in range(repeat))
