"""Random formats of device printf against the C library, whole and damaged.

A batch is a code object with many formats and a kernel that copies the records, made here, into the buffer of printf.
FLYDSL_SIM_PRINTF_FUZZ=N runs N formats of each kind (default 400), FLYDSL_SIM_FUZZ_SEED is the seed.
"""

from __future__ import annotations

import ctypes
import os
import random
import struct

import numpy as np
import object_mutations as mutations
import object_seeds as seeds
from hiplib import assemble

COUNT = int(os.environ.get("FLYDSL_SIM_PRINTF_FUZZ", "400"))
SEED = int(os.environ.get("FLYDSL_SIM_FUZZ_SEED", "1"))
BATCH = 100
ARCH = "gfx942"
ROOM = 1 << 16  # bytes of the records of a batch
HEADER = 8
#: Literal text as the compiler escapes it, and what is printed.
LITERALS = [("x", b"x"), ("%%", b"%"), ("\\n", b"\n"), ("\\\\", b"\\"), ("\\101", b"A"), (" ", b" "), ("\\t", b"\t"),
            ("\\\"", b'"'), ("0", b"0"), ("", b"")]
END = b"\1"  # behind each format that C defines

#: Copies s6 dwords from the first argument to the buffer of printf.
COPY = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dwordx2 s[8:9], s[0:1], 0x10
  s_waitcnt lgkmcnt(0)
  s_lshl_b32 s6, s6, 2
  v_lshlrev_b32 v1, 2, v0
.Lcopy:
  v_cmp_gt_u32 vcc, s6, v1
  s_and_b64 exec, exec, vcc
  s_cbranch_execz .Ldone
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  global_store_dword v1, v2, s[8:9]
  v_add_u32 v1, 0x100, v1
  s_branch .Lcopy
.Ldone:
"""
METADATA = f"""
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: "amdgcn-amd-amdhsa--{ARCH}"
amdhsa.printf: ["1:0:"]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 88
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 64
    .wavefront_size: 64
    .sgpr_count: 64
    .vgpr_count: 64
    .max_flat_workgroup_size: 64
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 4, .value_kind: by_value}}
      - {{.offset: 16, .size: 8, .value_kind: hidden_printf_buffer}}
...
.end_amdgpu_metadata
"""


class Formats:
    """Formats, the records of one call of each, and what the C library prints for them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.entries: list[str] = []
        self.records = bytearray()
        self.expected = bytearray()
        self.libc = ctypes.CDLL(None)

    def add(self, text: str, arguments: list[bytes]) -> None:
        """A format as the compiler escapes it, and the arguments of its call."""
        number = len(self.entries) + 1
        sizes = "".join(f"{len(a)}:" for a in arguments)
        self.entries.append(f"{number}:{len(arguments)}:{sizes}{text}")
        self.records += struct.pack("<I", number) + b"".join(arguments)

    def whole(self) -> None:
        """Conversions that C defines, with literal text between them."""
        text, arguments = "", []
        for _ in range(self.rng.randrange(1, 6)):
            literal, printed = self.rng.choice(LITERALS)
            text += literal
            self.expected += printed
            text += self.conversion(arguments)
        self.add(text + "\\001", arguments)
        self.expected += END

    def conversion(self, arguments: list[bytes]) -> str:
        """One conversion, whose arguments are added to `arguments`."""
        rng, values = self.rng, []
        kind = rng.choice("diouxXfFeEgGaAcsp")
        flags = {"d": "-+ 0", "i": "-+ 0", "u": "-0", "c": "-", "s": "-", "p": "-", "o": "-#0", "x": "-#0", "X": "-#0"}
        out = "%" + "".join(rng.choice(flags.get(kind, "-+ #0")) for _ in range(rng.randrange(3)))

        def number(largest: int, least: int) -> str:
            if rng.random() < 0.3:
                values.append(ctypes.c_int(value := rng.randrange(least, largest)))
                arguments.append(struct.pack("<i", value))
                return "*"
            return str(rng.randrange(1, largest))

        if rng.random() < 0.5:
            # Of both C ignores the flag 0; glibc 2.36 fills with zeros on the right.
            out += number(40, 0 if "0" in out else -40)
        if kind not in "cp" and rng.random() < 0.5:
            out += "." + number(20, -3)
        length, value, data = self.value(kind)
        arguments.append(data)
        out += length + kind
        room = ctypes.create_string_buffer(1 << 10)
        size = self.libc.snprintf(room, ctypes.c_size_t(len(room)), out.encode(), *values, value)
        assert 0 <= size < len(room)
        self.expected += room.raw[:size]
        return out

    def value(self, kind: str):
        """The length of a conversion, its value as C has it and as the record has it."""
        rng = self.rng
        if kind in "fFeEgGaA":
            real = rng.choice([0.0, -0.0, 1.5, -2.75e-3, 1e30, 5e-324, float("inf"), -float("inf"), rng.gauss(0, 1e3)])
            return "", ctypes.c_double(real), struct.pack("<d", real)
        if kind == "c":
            letter = rng.randrange(2, 127)
            return "", ctypes.c_int(letter), struct.pack("<i", letter)
        if kind == "s":
            letters = bytes(rng.randrange(2, 127) for _ in range(rng.randrange(24)))
            return "", ctypes.c_char_p(letters), letters + bytes(4 - len(letters) % 4)
        if kind == "p":
            address = rng.choice([0, 1, rng.getrandbits(64)])
            return "", ctypes.c_void_p(address), struct.pack("<Q", address)
        length = rng.choice(["", "", "hh", "h", "l", "ll", "j", "z", "t"])
        wide = length in ("l", "ll", "j", "z", "t")
        bits = mutations.edge(rng, 64 if wide else 32) & (1 << (64 if wide else 32)) - 1
        return length, (ctypes.c_uint64 if wide else ctypes.c_uint32)(bits), struct.pack("<Q" if wide else "<I", bits)

    def damaged(self) -> None:
        """Conversions that write, that take much room or that are none, and arguments that do not fit them."""
        rng = self.rng
        arguments = [rng.randbytes(rng.choice((0, 1, 4, 8, 64))) for _ in range(rng.randrange(4))]
        self.add(mutations.random_format(rng), arguments)

    def image(self, image: bytes) -> bytes:
        """The code object with these formats."""
        tree = mutations.read_metadata(image)
        tree["amdhsa.printf"] = self.entries
        return mutations.with_metadata(image, mutations.pack(tree))

    def buffer(self, used: int) -> np.ndarray:
        """What the kernel copies: the header that claims `used` bytes, and the records."""
        assert len(self.records) <= ROOM
        header = struct.pack("<II", used, ROOM)
        return np.frombuffer((header + self.records).ljust(ROOM + HEADER, b"\0"), np.uint32).copy()


def printed(sim, build_dir, formats: Formats, used: int, capfd) -> bytes:
    """What a launch prints that leaves these records."""
    sim.set_arch(ARCH)
    image = assemble(seeds.kernel(ARCH, "k", COPY) + METADATA, ARCH, build_dir)
    module = sim.load(formats.image(image))
    words = formats.buffer(used)
    capfd.readouterr()
    sim.launch(sim.function(module, "k"), (1,), (64,), [words, len(words)])
    sim.lib.hipModuleUnload(module)
    return capfd.readouterr().out


def test_conversions_are_those_of_c(sim, build_dir, capfdbinary):
    """Flags, widths, precisions, stars, lengths and kinds at random."""
    for first in range(0, COUNT, BATCH):
        formats = Formats(random.Random(SEED << 32 | first))
        for _ in range(BATCH):
            formats.whole()
        out = printed(sim, build_dir, formats, len(formats.records), capfdbinary)
        lines = zip(formats.entries, out.split(END), formats.expected.split(END), strict=False)
        wrong = [line for line in lines if line[1] != line[2]]
        assert not wrong and out == formats.expected, wrong


def test_damaged_formats_print_something(sim, build_dir, capfdbinary):
    """No format writes, and the process lives, whatever the header says of the records."""
    for first in range(0, COUNT, BATCH):
        rng = random.Random(SEED << 33 | first)
        formats = Formats(rng)
        for _ in range(BATCH):
            formats.damaged()
        used = rng.choice((len(formats.records), len(formats.records), 0, 3, 2**32 - 1, 1 << 22, rng.getrandbits(32)))
        out = printed(sim, build_dir, formats, used, capfdbinary)
        assert len(out) < 64 << 20 | 1 << 16
