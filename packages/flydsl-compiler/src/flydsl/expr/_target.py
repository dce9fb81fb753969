"""The architecture that the current trace is compiled for."""

from __future__ import annotations

from flydsl.tracing.ambient import tracing_option
from flydsl.tracing.lazy import LazyModule

_context = LazyModule("flydsl.tracing.context")
_device = LazyModule("flydsl.runtime.device")


def target_arch() -> str:
    """Arch of the compile target: the ambient ``arch`` option, else that of the trace, else the device's."""
    arch = tracing_option("arch")
    if arch:
        return str(arch)
    trace = _context.CompilationContext.get_current()
    target = None if trace is None else trace.target
    return str(getattr(target, "arch", None) or _device.get_rocm_arch())


def require_arch(what: str, *prefixes: str, instead: str = "") -> None:
    """ValueError if code for another architecture is being traced than those whose names start with ``prefixes``.

    Without a trace or an ambient ``arch`` nothing is refused: then only IR is built.
    """
    trace = _context.CompilationContext.get_current()
    arch = tracing_option("arch") or getattr(None if trace is None else trace.target, "arch", None)
    if arch and not str(arch).startswith(prefixes):
        known = ", ".join(f"{p}*" if len(p) < 6 else p for p in prefixes)
        raise ValueError(f"{what} is not available on target arch {str(arch)!r}, only on {known}{instead}")


def target_warp_size() -> int:
    """Threads of a wave: 64 on CDNA (gfx9xx), 32 on RDNA and gfx1250."""
    return 64 if target_arch().startswith("gfx9") else 32


def is_rdna(arch: str) -> bool:
    """Whether buffer descriptors follow the RDNA encoding (gfx10, gfx11, gfx120x)."""
    return arch.startswith(("gfx10", "gfx11", "gfx120"))


def confines_assembly(arch: str) -> bool:
    """Whether operands of inline assembly lie in a part of a lane's registers only: the first 256 of gfx1250's 1024."""
    return arch.startswith("gfx1250")
