"""What an architecture has, and which architecture this machine has.

Pure Python: needs neither a HIP library nor the native part of the package, so that compiling
works on any machine.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

__all__ = [
    "DEFAULT_ARCH",
    "SMEM_CAPACITY_MAP",
    "check_smem_capacity",
    "get_rocm_arch",
    "get_rocm_device_count",
    "get_warp_size",
    "is_rdna_arch",
]

#: Architecture that is assumed (and simulated) when nothing says otherwise.
DEFAULT_ARCH = "gfx942"

#: LDS bytes a work-group can have, by architecture.
SMEM_CAPACITY_MAP: dict[str, int] = {
    "gfx90a": 65536,
    "gfx942": 65536,
    "gfx950": 163840,
    "gfx1100": 65536,
    "gfx1151": 65536,
    "gfx1200": 65536,
    "gfx1201": 65536,
    "gfx1250": 327680,
    "gfx1250-strict": 327680,
}

_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def _seconds(variable: str, default: int) -> int:
    """A number of seconds from the environment. ValueError for anything else."""
    text = os.environ.get(variable, str(default))
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{variable}={text!r} is no whole number of seconds") from None


# Read at import, as the existing programs that set it expect.
_AGENT_TIMEOUT_SECONDS = _seconds("FLYDSL_ROCM_AGENT_TIMEOUT", 300)


def get_rocm_arch() -> str:
    """Architecture of the device in use, in lower case, such as ``"gfx942"``.

    In this order: ``FLYDSL_GPU_ARCH``; ``HSA_OVERRIDE_GFX_VERSION`` (each as ``gfx...`` or as
    ``major.minor.stepping``; other spellings are ignored); the first GPU of the machine, unless
    ``FLYDSL_RUNTIME_KIND`` is ``sim``; ``FLYDSL_SIM_ARCH``; :data:`DEFAULT_ARCH`.
    """
    for variable in ("FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION"):
        arch = _parse_arch(os.environ.get(variable, ""))
        if arch:
            return arch
    if os.environ.get("FLYDSL_RUNTIME_KIND", "").strip().lower() != "sim":
        found = _machine_archs()
        if found:
            return found[0]
    return _parse_arch(os.environ.get("FLYDSL_SIM_ARCH", "")) or DEFAULT_ARCH


def get_rocm_device_count() -> int:
    """Number of AMD GPUs of the machine, 0 if there are none or ROCm cannot be asked."""
    return len(_machine_archs())


def is_rdna_arch(arch: str | None = None) -> bool:
    """True for the RDNA families gfx10, gfx11 and gfx120x; false for gfx1250 and all gfx9.

    ``arch`` defaults to :func:`get_rocm_arch`.
    """
    arch = (get_rocm_arch() if arch is None else arch).lower()
    return arch.startswith(("gfx10", "gfx11", "gfx120"))


def get_warp_size(arch: str | None = None) -> int:
    """Lanes of a wave: 32 for gfx10, gfx11 and gfx12 (including gfx1250), else 64.

    ``arch`` defaults to :func:`get_rocm_arch`.
    """
    arch = (get_rocm_arch() if arch is None else arch).lower()
    return 32 if arch.startswith(("gfx10", "gfx11", "gfx12")) else 64


def check_smem_capacity(requested: int | None, arch: str | None = None) -> None:
    """Raise RuntimeError if ``requested`` bytes of LDS exceed what a work-group of ``arch`` can have.

    Does nothing for ``None`` and for an architecture that is not in :data:`SMEM_CAPACITY_MAP`.
    """
    arch = get_rocm_arch() if arch is None else arch
    limit = SMEM_CAPACITY_MAP.get(arch.lower().split(":")[0])
    if requested is None or limit is None or requested <= limit:
        return
    raise RuntimeError(f"{requested} bytes of LDS requested, but a work-group on {arch} has at most {limit}")


def _parse_arch(text: str) -> str:
    """``"gfx90a"`` or ``"9.0.10"`` as an architecture name, "" for any other text."""
    text = text.strip().lower()
    if text.startswith("gfx"):
        return text
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", text)
    return _arch_name(*map(int, match.groups())) if match else ""


def _arch_name(major: int, minor: int, stepping: int) -> str:
    # LLVM's processor names write minor and stepping as hexadecimal digits: 9.0.10 is gfx90a.
    return f"gfx{major}{minor:x}{stepping:x}"


@lru_cache(maxsize=1)
def _machine_archs() -> tuple[str, ...]:
    """Architectures of the machine's GPUs, from the kernel driver or else from ROCm's tool."""
    if not os.path.exists("/dev/kfd"):
        return ()
    return _kfd_archs() or _enumerated_archs()


def _kfd_archs() -> tuple[str, ...]:
    """GPUs in the topology that the amdkfd driver publishes; CPU nodes have version 0."""
    archs = []
    for node in sorted(_KFD_NODES.glob("*"), key=lambda path: int(path.name) if path.name.isdigit() else 0):
        try:
            properties = (node / "properties").read_text()
        except OSError:
            continue
        match = re.search(r"^gfx_target_version (\d+)$", properties, re.MULTILINE)
        version = int(match.group(1)) if match else 0
        if version:
            archs.append(_arch_name(version // 10000, version // 100 % 100, version % 100))
    return tuple(archs)


def _enumerated_archs() -> tuple[str, ...]:
    import subprocess  # where there is no ROCm, nothing needs it

    try:
        output = subprocess.run(
            ["rocm_agent_enumerator", "-name"],
            capture_output=True,
            text=True,
            timeout=_AGENT_TIMEOUT_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    names = (line.strip().lower().split(":")[0] for line in output.splitlines())
    return tuple(name for name in names if name.startswith("gfx") and name != "gfx000")
