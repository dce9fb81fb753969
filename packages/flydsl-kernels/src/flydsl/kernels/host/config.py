"""What a kernel's configuration is: one frozen value with the target in it, which is the key of what is compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ..target import Target

__all__ = ["MOST_THREADS", "KernelConfig", "require"]

MOST_THREADS = 1024  # of a workgroup

Config = TypeVar("Config", bound="KernelConfig")


def require(where: str, ok: bool, text: str) -> None:
    """ValueError that begins with the builder's name, unless `ok`."""
    if not ok:
        raise ValueError(f"{where}: {text}")


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """The static arguments of a kernel: what it computes, how, and for which architecture.

    A subclass adds its fields, gives its threads, LDS and grid, and what it does not support is refused before anything
    is compiled.

    Attributes:
        target: of the code.
    """

    target: Target = field()

    #: Fields by names that callers know, where these are others.
    CALLED: ClassVar[dict[str, str]] = {}

    @property
    def wave(self) -> int:
        """Lanes of a wave."""
        return self.target.wave

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        raise NotImplementedError

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup."""
        return 0

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for m rows (a value of the trace)."""
        raise NotImplementedError

    def need(self, where: str, ok: bool, text: str) -> None:
        """ValueError unless `ok`; names of fields in `text` become those that the caller knows."""
        for field_name, name in self.CALLED.items():
            text = re.sub(rf"\b{field_name}\b", name, text)
        require(where, ok, text)

    def check_positive(self, where: str, *names: str) -> None:
        """ValueError unless the fields of these names are 1 or more."""
        for name in names:
            self.need(where, getattr(self, name) >= 1, f"{name} must be positive, got {getattr(self, name)}")

    def fitting(self: Config, where: str) -> Config:
        """The same, if a workgroup of the target can hold it.

        Raises:
            ValueError: it needs more threads or LDS than there are.
        """
        require(where, self.lds_bytes <= self.target.lds_bytes,
                f"the tile needs {self.lds_bytes} bytes of LDS, {self.target.name} has {self.target.lds_bytes}")
        require(where, 0 < self.threads <= MOST_THREADS,
                f"a workgroup has at most {MOST_THREADS} threads, {self.threads} are asked for")
        return self
