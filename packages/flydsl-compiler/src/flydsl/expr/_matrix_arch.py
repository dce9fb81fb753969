"""Which architectures have the instruction of a matrix atom: asked where an atom is used, not where it is made."""

from __future__ import annotations

import re
from typing import Any

from ._target import require_arch

__all__ = ["require_matrix_arch"]

#: Operation type -> (spelling in fx.rocdl, prefixes of the architectures, what to write elsewhere).
_ATOMS = {
    "cdna3.mfma": ("MFMA", ("gfx9",), "; use fx.rocdl.WMMA"),
    "cdna4.mfma_scale": ("MFMA_Scale", ("gfx95",), ""),
    "gfx11.wmma": ("WMMA of gfx11", ("gfx11",), ""),
    "gfx120x.wmma": ("WMMA of gfx12", ("gfx120",), ""),
    "gfx1250.wmma": ("WMMA of gfx1250", ("gfx1250",), ""),
    "gfx1250.wmma_scale": ("WMMAScale", ("gfx1250",), ""),
}
_TYPE = re.compile(r"fly_rocdl\.(\w+\.\w+)<(\d+)x(\d+)x(\d+), \((\w+),")
#: Shapes of 16-bit floats that CDNA4 added.
_CDNA4_SHAPES = ((16, 16, 32), (32, 32, 16))


def require_matrix_arch(mma: Any) -> None:
    """ValueError if the target of the trace lacks the instruction of an MmaAtom or TiledMma."""
    found = _TYPE.search(str(mma.type))
    if found is None:
        return
    name, prefixes, instead = _ATOMS[found[1]]
    require_arch(name, *prefixes, instead=instead)
    m, n, k, element = int(found[2]), int(found[3]), int(found[4]), found[5]
    if name == "MFMA" and (m, n, k) in _CDNA4_SHAPES and element in ("f16", "bf16"):
        require_arch(f"MFMA {m}x{n}x{k} {element}", "gfx95", instead=f"; use {m}x{n}x{k // 2}")
