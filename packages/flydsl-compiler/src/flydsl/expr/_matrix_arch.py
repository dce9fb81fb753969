"""Which architectures have the instruction of a matrix atom: asked where an atom is used, not where it is made."""

from __future__ import annotations

import re
from typing import Any

from ._target import require_feature

__all__ = ["require_matrix_arch"]

#: Operation type -> (spelling in fx.rocdl, feature of the architecture, what to write elsewhere).
_ATOMS = {
    "cdna3.mfma": ("MFMA", "mfma", "; use fx.rocdl.WMMA"),
    "cdna4.mfma_scale": ("MFMA_Scale", "mfma_scale", ""),
    "gfx11.wmma": ("WMMA of gfx11", "wmma_gfx11", ""),
    "gfx120x.wmma": ("WMMA of gfx12", "wmma_gfx120x", ""),
    "gfx1250.wmma": ("WMMA of gfx1250", "wmma_gfx1250", ""),
    "gfx1250.wmma_scale": ("WMMAScale", "wmma_scale", ""),
}
_TYPE = re.compile(r"fly_rocdl\.(\w+\.\w+)<(\d+)x(\d+)x(\d+), \((\w+),")
#: Of the MFMA of M = N rows, by M * K and element: the feature, and the depth that others have instead, as a multiple.
#: What is not here is of all. CDNA2 has int8, and bf16 as CDNA1 had it, at half the depth, CDNA3 the 8-bit forms, CDNA4
#: the 16-bit ones at twice the depth.
_MFMA = {
    (128, "bf16"): ("mfma_half_k", 2.0), (256, "i8"): ("mfma_half_k", 2.0), (512, "i8"): ("mfma_8bit", 0.5),
    (512, "f16"): ("mfma_wide_k", 0.5), (512, "bf16"): ("mfma_wide_k", 0.5),
}


def require_matrix_arch(mma: Any) -> None:
    """ValueError if the target of the trace lacks the instruction of an MmaAtom or TiledMma."""
    found = _TYPE.search(str(mma.type))
    if found is None:
        return
    name, feature, instead = _ATOMS[found[1]]
    require_feature(name, feature, instead)
    if name != "MFMA":
        return
    m, n, k, element = int(found[2]), int(found[3]), int(found[4]), found[5]
    what = f"MFMA {m}x{n}x{k} {element}"
    if element.startswith("f8"):
        return require_feature(what, "mfma_8bit", "; use f16 or bf16")
    if (m * k, element) in _MFMA:
        feature, depth = _MFMA[m * k, element]
        require_feature(what, feature, f"; use {m}x{n}x{int(k * depth)}")
