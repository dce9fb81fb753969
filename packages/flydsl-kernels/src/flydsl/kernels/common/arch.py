"""What the kernels need to know of an architecture: one row a chip, no tests of names elsewhere."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

__all__ = ["Target", "current_arch", "default_f8_type", "require_arch", "target"]


@dataclass(frozen=True)
class Target:
    """Facts about one architecture.

    Attributes:
        arch: its name, e.g. ``"gfx942"``.
        wave: lanes of a wave.
        lds_bytes: LDS of a workgroup.
        compute_units: of the largest part, used to choose between kernels and for occupancy.
        matrix: ``"mfma"`` or ``"wmma"``.
        fp8_name: fp8 flavour, or None.
        fp8_max: its largest finite value.
        mx: whether it has block-scaled matrix instructions and conversions.
        dma128: whether global memory can be copied to LDS 16 bytes a lane.
        xcds: number of accelerator dies that workgroups are dealt to in turn.
    """

    arch: str
    wave: int
    lds_bytes: int
    compute_units: int
    matrix: str
    fp8_name: str | None
    fp8_max: float
    mx: bool = False
    dma128: bool = False
    xcds: int = 1

    @property
    def fp8(self) -> Any:
        """Element class of the native fp8; TypeError where there is none."""
        if self.fp8_name is None:
            raise TypeError(f"{self.arch} has no fp8 type")
        return getattr(fx, self.fp8_name)

    @property
    def bf16_k32(self) -> bool:
        """Whether 16-bit matrix instructions take K = 32 (else 16)."""
        return self.mx and self.wave == 64


_FNUZ, _FN = "Float8E4M3FNUZ", "Float8E4M3FN"
_TARGETS = (
    ("gfx942", Target("gfx942", 64, 65536, 304, "mfma", _FNUZ, 240.0, xcds=8)),
    ("gfx950", Target("gfx950", 64, 163840, 256, "mfma", _FN, 448.0, mx=True, dma128=True, xcds=8)),
    ("gfx1250", Target("gfx1250", 32, 327680, 256, "wmma", _FN, 448.0, mx=True)),
    ("gfx120", Target("gfx120", 32, 65536, 64, "wmma", _FN, 448.0)),
    ("gfx11", Target("gfx11", 32, 65536, 96, "wmma", None, 0.0)),
)


def current_arch() -> str:
    """Architecture that the next kernel is compiled for; inside a trace, the one that is being traced."""
    return flyc.get_backend().target.arch


@functools.lru_cache
def _lookup(arch: str) -> Target:
    for prefix, row in _TARGETS:
        if arch.startswith(prefix):
            return row
    raise ValueError(f"flydsl.kernels does not know the architecture {arch!r}: known are gfx942, gfx950, gfx11xx, "
                     f"gfx120x, gfx1250")  # fmt: skip


def target(arch: str | None = None) -> Target:
    """Facts about `arch` (the current one if None). ValueError for an architecture without a row."""
    return _lookup(arch or current_arch())


def require_arch(what: str, *prefixes: str) -> Target:
    """The current target if its name starts with one of `prefixes`; ValueError that says what is supported."""
    found = target()
    arch = current_arch()
    if not arch.startswith(prefixes):
        raise ValueError(f"{what} is not available on {arch}: it needs {' or '.join(prefixes)}")
    return found


def default_f8_type() -> Any:
    """Element class of the current architecture's fp8. RuntimeError where there is none."""
    found = target()
    if found.fp8_name is None:
        raise RuntimeError(f"{found.arch} has no fp8 type")
    return found.fp8
