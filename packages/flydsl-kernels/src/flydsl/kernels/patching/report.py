"""What :func:`..patching.patch` did to a model, call site by call site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ..target import target

__all__ = ["CallSite", "PatchReport"]


@dataclass
class CallSite:
    """One module of the model.

    Attributes:
        name, kind: its path and class name.
        kernel: the operator that it uses now, or None.
        reason: why it uses none.
        calls: calls that ran the kernel.
        fallbacks: calls that ran the original forward, by reason.
    """

    name: str
    kind: str
    kernel: str | None
    reason: str = ""
    calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)


class PatchReport:
    """Which call sites use which kernel, and which do not, and why. Printable.

    Attributes:
        sites: one for each module of a kind that has kernels, or that computes what kernels could; and one for
            ``scaled_dot_product_attention`` when the model has called it.
        notes: what else was changed in the model.
    """

    def __init__(self) -> None:
        self.sites: list[CallSite] = []
        self.notes: list[str] = []
        self._undo: list[Callable[[], None]] = []

    @property
    def patched(self) -> list[CallSite]:
        return [s for s in self.sites if s.kernel]

    @property
    def skipped(self) -> list[CallSite]:
        return [s for s in self.sites if not s.kernel]

    def undo(self) -> None:
        """Put all forwards back."""
        while self._undo:
            self._undo.pop()()

    def __str__(self) -> str:
        lines = [f"{len(self.patched)} of {len(self.sites)} call sites use flydsl kernels on {target().arch}"]
        for site in self.sites:
            what = f"-> {site.kernel} ({site.calls} calls)" if site.kernel else f"unchanged: {site.reason}"
            lines.append(f"  {site.name or '<model>'} ({site.kind}) {what}")
            lines += [f"    fell back {n} times: {why}" for why, n in site.fallbacks.items()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
