"""Mutations of code objects that know what they damage: headers, symbols, relocations, notes, kernel descriptors,
metadata, formats of printf, instructions, containers.

Every function takes a random.Random and the bytes of an image and returns other bytes.
"""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

#: Values at which sizes, counts and offsets go wrong.
EDGES = (0, 1, 2, 3, 7, 8, 15, 31, 32, 63, 64, 127, 255, 256, 4095, 4096, 65535, 65536, 2**20, 2**31 - 1, 2**31,
         2**32 - 1, 2**32, 2**48, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 8)
NOTE, METADATA = 4, 32


def edge(rng: random.Random, bits: int) -> int:
    """A value of `bits` bits that is near an edge, or any."""
    value = rng.choice(EDGES) + rng.choice((0, 0, 0, -1, 1)) if rng.random() < 0.7 else rng.getrandbits(bits)
    return value % (1 << bits)


def put(image: bytearray, at: int, size: int, value: int) -> None:
    """Writes a little-endian number if it lies inside."""
    if 0 <= at and at + size <= len(image):
        image[at : at + size] = (value % (1 << (8 * size))).to_bytes(size, "little")


# --- MessagePack ---------------------------------------------------------------------------------------------------


def unpack(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value at `at` and the place behind it; what LLVM writes into notes is enough."""
    tag = data[at]
    at += 1
    if tag < 0x80:
        return tag, at
    if 0x80 <= tag < 0x90 or tag in (0xDE, 0xDF):
        size, at = (tag & 15, at) if tag < 0x90 else _number(data, at, 2 if tag == 0xDE else 4)
        result = {}
        for _ in range(size):
            key, at = unpack(data, at)
            result[key], at = unpack(data, at)
        return result, at
    if tag < 0xA0 or tag in (0xDC, 0xDD):
        size, at = (tag & 15, at) if tag < 0xA0 else _number(data, at, 2 if tag == 0xDC else 4)
        items = []
        for _ in range(size):
            item, at = unpack(data, at)
            items.append(item)
        return items, at
    if tag < 0xC0 or tag in (0xD9, 0xDA, 0xDB):
        size, at = (tag & 31, at) if tag < 0xC0 else _number(data, at, 1 << (tag - 0xD9))
        return data[at : at + size].decode("latin1"), at + size
    if tag in (0xC2, 0xC3):
        return tag == 0xC3, at
    if 0xCC <= tag <= 0xCF:
        return _number(data, at, 1 << (tag - 0xCC))
    if tag >= 0xE0:
        return tag - 256, at
    raise ValueError(f"tag {tag:#x}")


def _number(data: bytes, at: int, size: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + size], "big"), at + size


def pack(value: Any) -> bytes:
    """MessagePack of dicts, pair lists (`Pairs`), lists, strings, bools, numbers and raw bytes (copied)."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcf" + (value % 2**64).to_bytes(8, "big")
    if isinstance(value, str):
        text = value.encode("latin1", "replace")
        return b"\xdb" + len(text).to_bytes(4, "big") + text
    if isinstance(value, list):
        return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(pack, value))
    if isinstance(value, dict):
        return b"\xdf" + len(value).to_bytes(4, "big") + b"".join(pack(k) + pack(v) for k, v in value.items())
    raise TypeError(type(value))


# --- the file ------------------------------------------------------------------------------------------------------


def tables(image: bytes) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Program headers (type, flags, offset, vaddr, paddr, filesz, memsz, align) and section headers (name, type, flags,
    addr, offset, size, link, info, align, entsize)."""
    phoff, shoff = struct.unpack_from("<QQ", image, 32)
    phnum, shnum = struct.unpack_from("<H", image, 56)[0], struct.unpack_from("<H", image, 60)[0]
    return ([struct.unpack_from("<IIQQQQQQ", image, phoff + 56 * n) for n in range(phnum)],
            [struct.unpack_from("<IIQQQQIIQQ", image, shoff + 64 * n) for n in range(shnum)])


def code_range(image: bytes) -> tuple[int, int]:
    """File offset and size of the code that is not padding."""
    section = next(s for s in tables(image)[1] if s[1] == 1 and s[2] & 4)
    return section[4], min(section[5], 1024)


def headers(rng: random.Random, image: bytes) -> bytes:
    """Fields of the ELF header, segments, sections, symbols and relocations."""
    data = bytearray(image)
    phoff, shoff = struct.unpack_from("<QQ", image, 32)
    segments, sections = tables(image)
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(5)
        if kind == 0:
            at, size = rng.choice(((16, 2), (18, 2), (32, 8), (40, 8), (48, 4), (54, 2), (56, 2), (58, 2), (60, 2)))
            put(data, at, size, edge(rng, 8 * size))
        elif kind == 1:
            at, size = rng.choice(((0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8)))
            put(data, phoff + 56 * rng.randrange(len(segments)) + at, size, edge(rng, 8 * size))
        elif kind == 2:
            at, size = rng.choice(((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4)))
            put(data, shoff + 64 * rng.randrange(len(sections)) + at, size, edge(rng, 8 * size))
        else:  # rows of symbol and relocation tables
            wanted = (2, 11) if kind == 3 else (4, 4)
            found = [s for s in sections if s[1] in wanted and s[5] >= 24]
            if found:
                section = rng.choice(found)
                at, size = rng.choice(((0, 4), (4, 1), (6, 2), (8, 8), (16, 8)))
                put(data, section[4] + 24 * rng.randrange(section[5] // 24) + at, size, edge(rng, 8 * size))
    return bytes(data)


def many(rng: random.Random, image: bytes) -> bytes:
    """Tables that name the same bytes over and over: thousands of segments, symbol tables or notes."""
    data = bytearray(image)
    segments, sections = tables(image)
    count = rng.choice((100, 3000, 60000))
    at = len(data)
    if rng.random() < 0.5:
        data += struct.pack("<IIQQQQQQ", *rng.choice(segments)) * count
        put(data, 32, 8, at)
        put(data, 56, 2, count)
    else:
        data += b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in sections)
        row = list(rng.choice([s for s in sections if s[1] in (2, 4, 11)] or sections))
        row[5] = rng.choice((row[5], len(image)))
        data += struct.pack("<IIQQQQIIQQ", *row) * count
        put(data, 40, 8, at)
        put(data, 60, 2, count + len(sections))
    return bytes(data)


def descriptor(rng: random.Random, image: bytes) -> bytes:
    """Fields and bits of the kernel descriptors."""
    data = bytearray(image)
    places = [s[4] for s in tables(image)[1] if s[1] == 1 and s[2] == 2 and s[5] in (64, 128)]
    for _ in range(rng.randrange(1, 4)):
        at = (rng.choice(places) if places else 0) + 64 * rng.randrange(2)
        if rng.random() < 0.5:
            put(data, at + rng.choice((0, 4, 8, 16, 20, 44, 48, 52, 56)), 4, edge(rng, 32))
        else:
            bit = rng.randrange(512)
            if at + bit // 8 < len(data):
                data[at + bit // 8] ^= 1 << bit % 8
    return bytes(data)


def with_metadata(image: bytes, note: bytes, claimed: int | None = None) -> bytes:
    """The image with the MessagePack `note` instead of its own, at the end of the file."""
    data = bytearray(image)
    phoff = struct.unpack_from("<Q", image, 32)[0]
    at = len(data) + -len(data) % 4
    data += bytes(at - len(data))
    size = len(note) if claimed is None else claimed
    data += struct.pack("<III", 7, size % 2**32, METADATA) + b"AMDGPU\0\0" + note + bytes(-len(note) % 4)
    for n, segment in enumerate(tables(image)[0]):
        if segment[0] == NOTE:
            put(data, phoff + 56 * n + 8, 8, at)
            put(data, phoff + 56 * n + 32, 8, len(data) - at)
    return bytes(data)


def read_metadata(image: bytes) -> Any:
    """The metadata of an undamaged image."""
    at = next(s[2] for s in tables(image)[0] if s[0] == NOTE)
    namesz, descsz = struct.unpack_from("<II", image, at)
    start = at + 12 + namesz + -namesz % 4
    return unpack(image[start : start + descsz])[0]


def random_format(rng: random.Random) -> str:
    """A format that may have conversions that write, read far or take much room."""
    parts = ("%n", "%hhn", "%*d", "%.*s", "%s", "%p", "%c", "%%", "%", "%ll", "%-+ #0999999999d", "%.2147483647f",
             "%99999999999s", "%1$n", "%5$s", "%Lf", "%lc", "%v4f", "%hlx", "%a", "%z", "\\0", "\\x41", "\\", "x")
    return "".join(rng.choice(parts) for _ in range(rng.randrange(1, 8)))


def metadata(rng: random.Random, image: bytes) -> bytes:
    """The metadata: other values, lists twice, keys away, formats, nesting, lengths that lie."""
    tree = read_metadata(image)
    kind = rng.randrange(8)
    if kind == 0:
        depth, item = rng.choice((5, 31, 33, 5000, 200000)), rng.choice((b"\x91", b"\xdd\0\x10\0\0", b"\x81\xa1a"))
        return with_metadata(image, item * depth + b"\xc0")
    if kind == 1:
        note = bytearray(pack(tree))
        for _ in range(rng.randrange(1, 6)):
            note[rng.randrange(len(note))] = rng.choice((0xDB, 0xDD, 0xDF, 0xC6, 0xFF, rng.randrange(256)))
        return with_metadata(image, bytes(note))
    if kind == 2:
        return with_metadata(image, pack(tree), edge(rng, 32))
    if kind == 3:
        tree["amdhsa.printf"] = [f"{rng.randrange(4)}:{(n := rng.randrange(4))}:"
                                 + "".join(f"{rng.choice((0, 1, 4, 8, 64))}:" for _ in range(n)) + random_format(rng)
                                 for _ in range(rng.randrange(5))]
        return with_metadata(image, pack(tree))
    for _ in range(rng.randrange(1, 4)):
        holder, key = _place(rng, tree)
        value = holder[key]
        if isinstance(value, list) and value and rng.random() < 0.6:
            copies = [_copy(rng.choice(value)) for _ in range(rng.choice((1, 1, 2, 50)))]
            value.extend(copies)
        elif isinstance(holder, dict) and rng.random() < 0.2:
            del holder[key]
        elif isinstance(value, int):
            holder[key] = edge(rng, 64)
        elif isinstance(value, str) and rng.random() < 0.5:
            holder[key] = rng.choice(("hidden_heap_v1", "hidden_printf_buffer", "hidden_", "by_value", "k.kd", "kd", "",
                                      "A" * 100000, random_format(rng)))
        else:
            holder[key] = rng.choice((edge(rng, 64), "text", [], {}, True, [1, 2, 3], [2**32, 0, 2**63]))
    return with_metadata(image, pack(tree))


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def _place(rng: random.Random, tree: Any) -> tuple[Any, Any]:
    """A random place below a container, as the container and its key."""
    holder: Any = tree
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = rng.choice(keys)
        if not isinstance(holder[key], (dict, list)) or not holder[key] or rng.random() < 0.15:
            return holder, key
        holder = holder[key]


def code(rng: random.Random, image: bytes) -> bytes:
    """Instructions: bits of existing ones, random words, words of one encoding, pieces moved."""
    data = bytearray(image)
    start, size = code_range(image)
    words = size // 4
    for _ in range(rng.randrange(1, 12)):
        at = start + 4 * rng.randrange(words)
        kind = rng.randrange(5)
        if kind < 2:
            bit = rng.randrange(32)
            put(data, at, 4, int.from_bytes(data[at : at + 4], "little") ^ 1 << bit)
        elif kind == 2:
            put(data, at, 8, rng.getrandbits(64))
        elif kind == 3:  # an encoding family, the rest random
            prefix, bits = rng.choice(((0xD0, 8), (0xD3, 8), (0xCC, 8), (0xDC, 8), (0xEE, 8), (0xD8, 8), (0xE0, 8),
                                       (0xBE, 8), (0xBF, 8), (0x80, 8), (0xB0, 8), (0x7E, 8), (0xC0, 8), (0xF4, 8),
                                       (0xD5, 8), (0xD6, 8), (0xD7, 8), (0xC8, 8), (0x00, 1)))
            put(data, at, 4, prefix << (32 - bits) | rng.getrandbits(32 - bits))
            put(data, at + 4, 4, rng.getrandbits(32))
        else:
            source = start + 4 * rng.randrange(words)
            length = 4 * rng.randrange(1, 6)
            data[at : at + length] = data[source : source + length]
            del data[len(image) :]
    return bytes(data)


def bundle(rng: random.Random, image: bytes, arch: str) -> bytes:
    """A clang offload bundle, compressed or not, whose header may lie."""
    name = f"hipv4-amdgcn-amd-amdhsa--{arch}".encode()
    offset = 24 + 8 + 24 + len(name)
    fields = [1, offset, len(image), len(name)]
    if rng.random() < 0.8:
        fields[rng.randrange(4)] = edge(rng, 64)
    plain = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", *fields) + name + image
    if rng.random() < 0.5:
        return plain
    packed = zlib.compress(plain, 1)
    sizes = [24 + len(packed), len(plain)] if (version := rng.choice((2, 3))) == 2 else [32 + len(packed), len(plain)]
    if rng.random() < 0.8:
        sizes[rng.randrange(2)] = edge(rng, 32 if version == 2 else 64)
    method = rng.choice((0, 0, 1, 7))
    layout = "<HHIIQ" if version == 2 else "<HHQQQ"
    return b"CCOB" + struct.pack(layout, rng.choice((version, version, 9)), method, *sizes, 0) + packed


def compressed_section(rng: random.Random, image: bytes) -> bytes:
    """Sections that say they are compressed: whoever reads them for debug information meets nonsense."""
    data = bytearray(image)
    shoff = struct.unpack_from("<Q", image, 40)[0]
    for n in range(1, len(tables(image)[1])):
        if rng.random() < 0.5:
            at = shoff + 64 * n + 8
            put(data, at, 8, int.from_bytes(data[at : at + 8], "little") | 0x800)
    return code(rng, bytes(data))  # a fault makes them wanted


def noise(rng: random.Random, image: bytes) -> bytes:
    """Bytes anywhere, or the end away."""
    data = bytearray(image)
    if rng.random() < 0.3:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.randrange(1, 16)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def mutate(rng: random.Random, image: bytes, arch: str) -> bytes:
    """One mutant of an undamaged image."""
    kind = rng.choices(("code", "metadata", "descriptor", "headers", "noise", "bundle", "sections", "many"),
                       (40, 20, 12, 12, 6, 4, 5, 1))[0]
    if kind == "bundle":
        return bundle(rng, image, arch)
    how = {"code": code, "metadata": metadata, "descriptor": descriptor, "headers": headers, "noise": noise,
           "sections": compressed_section, "many": many}[kind]
    if kind in ("metadata", "descriptor") and rng.random() < 0.3:
        return metadata(rng, descriptor(rng, image))
    return how(rng, image)
