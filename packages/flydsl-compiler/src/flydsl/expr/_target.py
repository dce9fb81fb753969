"""The architecture that the current trace is compiled for, and what it has.

What an architecture has is a row of one table (`flydsl.ir.ARCH_TABLE`): code asks it for a feature or a number, and
compares no names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.tracing.ambient import tracing_option
from flydsl.tracing.lazy import LazyModule

if TYPE_CHECKING:
    from flydsl.ir import Arch

_context = LazyModule("flydsl.tracing.context")
_device = LazyModule("flydsl.runtime.device")
_ir = LazyModule("flydsl.ir")


def _traced_arch() -> str | None:
    """The ambient ``arch`` option, else the arch of the trace; None if neither is set."""
    arch = tracing_option("arch")
    if arch:
        return str(arch)
    trace = _context.CompilationContext.get_current()
    target = None if trace is None else trace.target
    return getattr(target, "arch", None)


def target_arch() -> str:
    """Arch of the compile target: the ambient ``arch`` option, else that of the trace, else the device's."""
    return _traced_arch() or str(_device.get_rocm_arch())


def arch_row(arch: str) -> Arch:
    """What an architecture has. ValueError if it is unknown."""
    return _ir.get_arch(arch)


def target_row() -> Arch:
    """What the compile target has."""
    return arch_row(target_arch())


def require_feature(what: str, feature: str, instead: str = "") -> None:
    """ValueError if code is being traced for an architecture without ``feature``, a name of the table.

    Without a trace or an ambient ``arch`` nothing is refused: then only IR is built.
    """
    arch = _traced_arch()
    if arch and not arch_row(arch).has(feature):
        known = ", ".join(name for name, row in _ir.ARCH_TABLE.items() if row.has(feature))
        raise ValueError(f"{what} is not available on target arch {arch!r}, only on {known}{instead}")


def copies_to_lds() -> bool:
    """Whether the compile target copies global memory to LDS without registers."""
    return target_row().has("buffer_lds_dma32") or target_row().has("async_lds_copy")


def target_warp_size() -> int:
    """Threads of a wave: 64 on CDNA (gfx9xx), 32 on RDNA and gfx1250."""
    return target_row().wave_size
