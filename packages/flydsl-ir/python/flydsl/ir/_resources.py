"""What the kernels of a code object use: the metadata note that the code generator writes.

Source: LLVM's "User Guide for AMDGPU Backend", section "Code Object V5 Metadata".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

_NOTE_SECTION = 7
_METADATA_NOTE = 32


@dataclass(frozen=True)
class KernelResources:
    """Registers are counts for one lane (VGPR, AGPR) or one wave (SGPR); sizes are bytes."""

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    #: LDS of a workgroup that is allocated statically.
    lds_bytes: int
    #: Scratch memory of one work-item.
    scratch_bytes: int
    kernarg_bytes: int
    wave_size: int
    max_threads_per_block: int


def kernel_resources(hsaco: bytes) -> dict[str, KernelResources]:
    """The resources of every kernel of a linked code object or relocatable object, by kernel name.

    Raises ``ValueError`` if ``hsaco`` is not an AMDGPU ELF file with metadata.
    """
    try:
        metadata = _metadata(bytes(hsaco))
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged code object: {error}") from None
    if metadata is None:
        raise ValueError("not an AMDGPU code object: no metadata note found")
    found = {}
    for kernel in metadata.get("amdhsa.kernels", []):
        found[kernel[".name"]] = KernelResources(
            name=kernel[".name"],
            vgprs=kernel[".vgpr_count"],
            agprs=kernel.get(".agpr_count", 0),
            sgprs=kernel[".sgpr_count"],
            vgpr_spills=kernel.get(".vgpr_spill_count", 0),
            sgpr_spills=kernel.get(".sgpr_spill_count", 0),
            lds_bytes=kernel[".group_segment_fixed_size"],
            scratch_bytes=kernel[".private_segment_fixed_size"],
            kernarg_bytes=kernel[".kernarg_segment_size"],
            wave_size=kernel[".wavefront_size"],
            max_threads_per_block=kernel[".max_flat_workgroup_size"],
        )
    return found


def _metadata(elf: bytes) -> dict[str, Any] | None:
    if elf[:5] != b"\x7fELF\x02":
        return None
    (section_table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_size, count = struct.unpack_from("<HH", elf, 0x3A)
    for number in range(count):
        (kind,) = struct.unpack_from("<I", elf, section_table + number * entry_size + 4)
        offset, size = struct.unpack_from("<QQ", elf, section_table + number * entry_size + 24)
        if kind != _NOTE_SECTION:
            continue
        end = offset + size
        while offset + 12 <= end:
            name_size, data_size, note = struct.unpack_from("<III", elf, offset)
            name = elf[offset + 12 : offset + 12 + name_size].rstrip(b"\0")
            data = offset + 12 + (name_size + 3) // 4 * 4
            if name == b"AMDGPU" and note == _METADATA_NOTE:
                value, _ = _unpack(elf, data)
                return value
            offset = data + (data_size + 3) // 4 * 4
    return None


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    """One MessagePack value of the kinds that the metadata uses, and the offset after it."""
    tag = data[at]
    at += 1
    if tag < 0x80:
        return tag, at
    if tag < 0x90 or tag in (0xDE, 0xDF):
        count, at = (tag & 15, at) if tag < 0x90 else _length(data, at, 2 if tag == 0xDE else 4)
        result = {}
        for _ in range(count):
            key, at = _unpack(data, at)
            result[key], at = _unpack(data, at)
        return result, at
    if tag < 0xA0 or tag in (0xDC, 0xDD):
        count, at = (tag & 15, at) if tag < 0xA0 else _length(data, at, 2 if tag == 0xDC else 4)
        items = []
        for _ in range(count):
            item, at = _unpack(data, at)
            items.append(item)
        return items, at
    if tag < 0xC0 or tag in (0xD9, 0xDA, 0xDB):
        size, at = (tag & 31, at) if tag < 0xC0 else _length(data, at, {0xD9: 1, 0xDA: 2, 0xDB: 4}[tag])
        return data[at : at + size].decode(), at + size
    if tag in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag], at
    if tag >= 0xE0:
        return tag - 256, at
    formats = {
        0xCC: ">B",
        0xCD: ">H",
        0xCE: ">I",
        0xCF: ">Q",
        0xD0: ">b",
        0xD1: ">h",
        0xD2: ">i",
        0xD3: ">q",
        0xCA: ">f",
        0xCB: ">d",
    }
    if tag not in formats:
        raise ValueError(f"damaged code object: unexpected MessagePack tag {tag:#x}")
    (value,) = struct.unpack_from(formats[tag], data, at)
    return value, at + struct.calcsize(formats[tag])


def _length(data: bytes, at: int, size: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + size], "big"), at + size
