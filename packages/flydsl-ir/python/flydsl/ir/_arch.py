"""The architecture table, as the C++ side defines it (``lib/codegen/ArchTable.cpp``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from flydsl._mlir._mlir_libs import _flyCodegen


@dataclass(frozen=True)
class Arch:
    """One AMD GPU architecture. Sizes are bytes unless the name says otherwise."""

    name: str
    family: str
    #: Lanes in a wave of the kernels compiled here.
    wave_size: int
    #: Largest LDS allocation of one workgroup.
    lds_bytes: int
    #: Banks of 4 bytes.
    lds_banks: int
    max_threads_per_block: int
    max_waves_per_simd: int
    simds_per_cu: int
    #: Registers that one wave can name, accumulation registers included.
    vgprs_per_wave: int
    vgprs_per_simd: int
    #: Word 3 of a buffer descriptor, for the default size and for an explicit size.
    buffer_rsrc_flags: int
    buffer_rsrc_flags_checked: int
    #: Names of instruction groups, for instance ``"mfma"``, ``"lds_read_transpose"``.
    features: frozenset[str]

    def has(self, feature: str) -> bool:
        """True if the architecture has the instruction group ``feature``."""
        return feature in self.features


@cache
def arch_table() -> Mapping[str, Arch]:
    """All known architectures by name, for example ``arch_table()["gfx942"].lds_bytes``."""
    rows = _flyCodegen.arch_table()
    return MappingProxyType({row["name"]: Arch(**{**row, "features": frozenset(row["features"])}) for row in rows})


ARCH_TABLE = arch_table()


def get_arch(name: str) -> Arch:
    """The entry of an architecture name; variants (``gfx1250-strict``) and features (``gfx942:xnack-``) are ignored.

    Raises ``ValueError`` for an unknown name.
    """
    chip = re.split("[-:]", name, maxsplit=1)[0]
    try:
        return ARCH_TABLE[chip]
    except KeyError:
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(ARCH_TABLE)}") from None
