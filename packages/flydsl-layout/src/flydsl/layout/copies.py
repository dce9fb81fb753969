"""Thread-value layouts of the copy instructions, as data.

Every entry maps (thread, bit) to a position in bits; :meth:`CopyAtomInfo.atom` divides that by the width of the values.
Most copies are contiguous in one thread.  The transposing LDS reads of gfx950 (CDNA4 ISA manual,
``DS_READ_B64_TR_B16`` and its kin) exchange elements among 16 lanes, those of gfx1250 (``DS_LOAD_TR16_B128``,
``DS_LOAD_TR8_B64``) among 8 or 16.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .atoms import CDNA, CDNA4, RDNA3, RDNA4
from .core import Layout
from .errors import LayoutError
from .tv import CopyAtom

_ALL = (*CDNA, *RDNA3, *RDNA4, "gfx1250")
_ONE = Layout(1, 1)


@dataclass(frozen=True)
class CopyAtomInfo:
    """One copy instruction: the architectures that have it, its threads, and (thread, bit) layouts of both sides.

    ``bits`` is what one thread moves.
    """

    name: str
    archs: tuple[str, ...]
    bits: int
    thr: Layout
    src: Layout
    dst: Layout

    def atom(self, val_bits: int) -> CopyAtom:
        """The atom in values of ``val_bits`` bits; :class:`LayoutError` if these do not fit the instruction."""
        if type(val_bits) is not int or val_bits <= 0 or self.bits % val_bits:
            raise LayoutError(f"{self.name} moves {self.bits} bits a thread, no whole number of {val_bits}-bit values")
        return CopyAtom.from_bits(self.thr, self.src, val_bits, self.dst)


def _contiguous(name: str, bits: int, archs: tuple[str, ...] = _ALL) -> CopyAtomInfo:
    line = Layout((1, bits), (1, 1))
    return CopyAtomInfo(name, archs, bits, _ONE, line, line)


def _transposing(granule: int, bits: int) -> CopyAtomInfo:
    """16 lanes address 16 rows of ``bits`` bits; lane t receives element t (of ``granule`` bits) of every 16."""
    count = bits // granule
    src = Layout((16, bits), (bits, 1))
    dst = Layout((16, (granule, count)), (granule, (1, 16 * granule)))
    return CopyAtomInfo(f"cdna4.lds_read_trans<{granule}b, {bits}>", CDNA4, bits, Layout(16, 1), src, dst)


def _exchanging(granule: int, bits: int) -> CopyAtomInfo:
    """Of 16 bits lane t of 8 receives element t of each; of 8 bits each half of 16 lanes those of every second four."""
    lanes, dst = 8, Layout((8, (16, 8)), (16, (1, bits)))
    if granule == 8:
        lanes, dst = 16, Layout(((8, 2), (8, (4, 2))), ((8, 4 * bits), (1, (bits, 8 * bits))))
    name = f"gfx1250.lds_read_trans<{granule}b, {bits}>"
    return CopyAtomInfo(name, ("gfx1250",), bits, Layout(lanes, 1), Layout((lanes, bits), (bits, 1)), dst)


@cache
def _table() -> dict[str, CopyAtomInfo]:
    every = [_contiguous(f"universal_copy<{b}>", b) for b in (8, 16, 32, 64, 96, 128)]
    every += [_contiguous(f"cdna3.buffer_copy<{b}>", b) for b in (8, 16, 32, 64, 128)]
    every += [_contiguous("cdna3.buffer_copy_lds<32>", 32, CDNA), _contiguous("cdna3.buffer_copy_lds<128>", 128, CDNA4)]
    for where in ("buffer", "global"):
        every += [_contiguous(f"cdna4.{where}_load_async_lds<{b}>", b, CDNA4) for b in (32, 96, 128)]
    every += [_transposing(g, b) for g, b in ((4, 64), (6, 96), (8, 64), (16, 64))]
    every += [_exchanging(g, b) for g, b in ((8, 64), (16, 128))]
    return {i.name: i for i in every}


def copy_atoms(arch: str | None = None) -> list[CopyAtomInfo]:
    """The copy instructions (of one architecture) with a fixed number of bits."""
    found = [i for i in _table().values() if arch is None or arch in i.archs]
    if not found:
        raise LayoutError(
            f"no copy instructions are known for {arch!r}; known architectures: {', '.join(sorted(_ALL))}"
        )
    return found


_ATOMIC = re.compile(r"(universal_atomic|cdna3\.buffer_atomic)<\s*\w+\s*,\s*(?:vector<(\d+)x)?(?:bf|[fi])(\d+)\b")
_TRANSPOSE = re.compile(r"(cdna4|gfx1250)\.lds_read_trans<\s*(?:trans\s*=\s*)?(\d+)b\s*,\s*(\d+)\s*>")
_DS_READ = re.compile(r"ds_read(?:_b(\d+)_tr_b|_tr)(\d+)(?:_b(\d+))?$")
_DS_LOAD = re.compile(r"ds_load_tr(\d+)_b(\d+)$")


def copy_atom(name: str, arch: str | None = None) -> CopyAtomInfo:
    """A copy instruction by name or op type: ``universal_copy<128>``, ``!fly_rocdl.cdna3.buffer_copy<64>``,
    ``cdna4.lds_read_trans<trans = 16b, 64>``, ``ds_read_b64_tr_b16``, ``universal_atomic<add, f32>``.

    Raises :class:`LayoutError` for an unknown one, or one that ``arch`` does not have.
    """
    info = _find(name)
    if arch is not None and arch not in info.archs:
        raise LayoutError(f"{name} does not exist on {arch}; it is an instruction of {', '.join(info.archs)}")
    return info


def _find(name: str) -> CopyAtomInfo:
    if not isinstance(name, str):
        raise LayoutError(f"the name of a copy instruction is text, not {name!r}")
    key = re.sub(r"^!?(?:fly\.copy_atom<\s*!?)?(?:fly\.|fly_rocdl\.)?", "", name.strip())
    if found := _ATOMIC.match(key):
        return _contiguous(found[0] + ">" * (1 + bool(found[2])), int(found[2] or 1) * int(found[3]))
    if found := _TRANSPOSE.match(key):
        key = f"{found[1]}.lds_read_trans<{found[2]}b, {found[3]}>"
    elif found := _DS_READ.match(key.lower().replace(".", "_")):
        key = f"cdna4.lds_read_trans<{found[2]}b, {found[1] or found[3]}>"
    elif found := _DS_LOAD.match(key.lower().replace(".", "_")):
        key = f"gfx1250.lds_read_trans<{found[1]}b, {found[2]}>"
    else:
        key = re.sub(r"^(\w+(?:\.\w+)?<\s*\d+\s*)(?:,.*|>.*)$", r"\1>", key).replace(" ", "")
    if key in _table():
        return _table()[key]
    if (found := re.fullmatch(r"universal_copy<(\d+)>", key)) and int(found[1]) % 8 == 0 and int(found[1]):
        return _contiguous(key, int(found[1]))
    raise LayoutError(f"unknown copy instruction {name!r}; known are universal_copy<bits> and {', '.join(_table())}")
