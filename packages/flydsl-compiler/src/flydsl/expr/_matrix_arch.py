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
#: Architectures of the MFMA of M = N rows, by M * K and element; what is not here is of all. CDNA2 has int8, and
#: bf16 as CDNA1 had it, at half the depth, CDNA3 the 8-bit forms, CDNA4 the 16-bit ones at twice the depth.
_MFMA = {
    (128, "bf16"): (("gfx90a",), 2.0), (256, "i8"): (("gfx90a",), 2.0), (512, "i8"): (("gfx94", "gfx95"), 0.5),
    (512, "f16"): (("gfx95",), 0.5), (512, "bf16"): (("gfx95",), 0.5),
}
_EIGHT_BITS = ("gfx94", "gfx95")


def require_matrix_arch(mma: Any) -> None:
    """ValueError if the target of the trace lacks the instruction of an MmaAtom or TiledMma."""
    found = _TYPE.search(str(mma.type))
    if found is None:
        return
    name, prefixes, instead = _ATOMS[found[1]]
    require_arch(name, *prefixes, instead=instead)
    if name != "MFMA":
        return
    m, n, k, element = int(found[2]), int(found[3]), int(found[4]), found[5]
    what = f"MFMA {m}x{n}x{k} {element}"
    if element.startswith("f8"):
        return require_arch(what, *_EIGHT_BITS, instead="; use f16 or bf16")
    archs, depth = _MFMA.get((m * k, element), ((), 1.0))
    if archs:
        require_arch(what, *archs, instead=f"; use {m}x{n}x{int(k * depth)}")
