"""A short run of the fuzzer of code objects, and what its longer runs have found.

FLYDSL_SIM_OBJECT_FUZZ=N runs N mutants (default 3000), FLYDSL_SIM_WILD_FUZZ=N so many wild programs (default 240);
`nox -s fuzz` is the long run.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import object_mutations as mutations
import object_seeds as seeds
import pytest
from hiplib import SimError, assemble

COUNT = os.environ.get("FLYDSL_SIM_OBJECT_FUZZ", "3000")
WILD = os.environ.get("FLYDSL_SIM_WILD_FUZZ", "240")


@pytest.mark.parametrize(("kind", "count", "jobs"), [("objects", COUNT, "2"), ("programs", WILD, "1")])
def test_damaged_code_does_not_end_the_process(sim, build_dir, kind, count, jobs):
    """Metadata, descriptors, notes, arguments, formats and instructions at random, and programs that no compiler
    writes: the child processes live."""
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("object_fuzz.py")), "--kind", kind, "--count",
                           count, "--jobs", jobs, "--seed", os.environ.get("FLYDSL_SIM_FUZZ_SEED", "1")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def image(sim, build_dir) -> bytes:
    sim.set_arch("gfx942")
    return seeds.build("gfx942", build_dir)


def refused(sim, image: bytes, match: str) -> None:
    with pytest.raises(SimError, match=match):
        sim.load(image)


def test_two_entries_for_one_kernel(sim, image):
    """The sizes of one entry and the arguments of the other would not fit together."""
    tree = mutations.read_metadata(image)
    tree["amdhsa.kernels"].append({**tree["amdhsa.kernels"][0], ".kernarg_segment_size": 8, ".args": []})
    refused(sim, mutations.with_metadata(image, mutations.pack(tree)), "two metadata entries for kernel k")


@pytest.mark.parametrize("key", [".vgpr_count", ".sgpr_count", ".agpr_count"])
@pytest.mark.parametrize("count", [2**32 - 1, 2**32 + 8, 2**63, 4097])
def test_numbers_of_registers_that_no_file_has(sim, image, key, count):
    """Occupancy is counted in granules of them; rounded up, the largest numbers were 0."""
    tree = mutations.read_metadata(image)
    tree["amdhsa.kernels"][0][key] = count
    refused(sim, mutations.with_metadata(image, mutations.pack(tree)), rf"kernel k has -?\d+ registers \({key}\)")


def test_a_kernel_without_bytes_of_arguments(sim, build_dir):
    """Nothing is copied, which is no reason to hand out null pointers (`nox -s sanitize` sees them)."""
    sim.set_arch("gfx942")
    image = assemble(seeds.kernel("gfx942", "k", "  s_nop 0") + seeds.metadata("gfx942", ["k"]), "gfx942", build_dir)
    tree = mutations.read_metadata(image)
    tree["amdhsa.kernels"][0].update({".kernarg_segment_size": 0, ".args": []})
    module = sim.load(mutations.with_metadata(image, mutations.pack(tree)))
    function, size = sim.function(module, "k"), ctypes.c_size_t(0)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(size), 2, ctypes.addressof(size), 3)
    for given in (None, extra):
        sim.check(sim.lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, given))
    sim.check(sim.lib.hipDeviceSynchronize())


def test_hidden_pointer_of_four_bytes(sim, image):
    tree = mutations.read_metadata(image)
    next(a for a in tree["amdhsa.kernels"][0][".args"] if a[".value_kind"] == "hidden_heap_v1")[".size"] = 4
    refused(sim, mutations.with_metadata(image, mutations.pack(tree)), "hidden pointer hidden_heap_v1 of k has 4 bytes")


def test_globals_lie_inside_the_image(sim, build_dir):
    sim.set_arch("gfx942")
    far = ".globl far\n.type far,@object\n.data\nfar:\n.quad 1\n.size far, 1 << 40\n"
    text = seeds.kernel("gfx942", "k", "  s_nop 0") + far + seeds.metadata("gfx942", ["k"])
    refused(sim, assemble(text, "gfx942", build_dir), "global far lies outside the image")


@pytest.mark.parametrize("table", ["segments", "symbols", "names"])
def test_tables_that_name_the_same_bytes(sim, image, table):
    """A file costs a multiple of its size, whatever its headers say."""
    data = bytearray(image)
    segments, sections = mutations.tables(image)
    if table == "segments":
        load = next(s for s in segments if s[0] == 1 and s[5] > 256)
        mutations.put(data, 32, 8, len(data))
        mutations.put(data, 56, 2, 60000)
        data += struct.pack("<IIQQQQQQ", *load) * 60000
    else:
        symbols = next(n for n, s in enumerate(sections) if s[1] == 2)
        rows = 40000 if table == "names" else 1
        row = list(sections[symbols])
        row[4], row[5], row[6] = len(data), 24 * rows, len(sections)
        data += bytes(24) * rows
        strings = list(sections[row[6] - 1])
        strings[4], strings[5] = len(data), 1 << 20
        data += b"A" * ((1 << 20) - 1) + b"\0"
        data += bytes(-len(data) % 8)
        mutations.put(data, 40, 8, len(data))
        for section in sections:
            data += struct.pack("<IIQQQQIIQQ", *section)
        data += struct.pack("<IIQQQQIIQQ", *strings)
        copies = 1 if table == "names" else 20000
        mutations.put(data, 60, 2, len(sections) + 1 + copies)
        data += struct.pack("<IIQQQQIIQQ", *row) * copies
    refused(sim, bytes(data), "its tables overlap")


def test_nested_metadata(sim, image):
    """Every level of this note claims as many elements as there are bytes behind it."""
    note = b"".join(b"\xdd" + (1000000 - 5 * n).to_bytes(4, "big") for n in range(30)) + bytes(1000000)
    refused(sim, mutations.with_metadata(image, note), "malformed metadata note")


def test_bundle_that_claims_more_than_it_can_hold(sim):
    sim.set_arch("gfx942")
    packed = zlib.compress(b"__CLANG_OFFLOAD_BUNDLE__" + bytes(100))
    header = b"CCOB" + struct.pack("<HHQQQ", 3, 0, 32 + len(packed), 1 << 32, 0)
    refused(sim, header + packed, "claims to hold 4294967296")


def test_section_that_says_it_is_compressed(sim, image, capfd):
    """The message of a fault looks for debug information: it goes without."""
    data = bytearray(image)
    shoff = int.from_bytes(data[40:48], "little")
    for n, section in enumerate(mutations.tables(image)[1]):
        if n and section[1] != 8:
            mutations.put(data, shoff + 64 * n + 8, 8, section[2] | 0x800)
    module = sim.load(bytes(data))
    out = np.zeros(64, np.uint32)
    with pytest.raises(SimError, match="kernel k"):
        sim.launch(sim.function(module, "k"), (1,), (64,), [out[:1], out[:1], 0])
    assert "decompress" not in capfd.readouterr().err


def test_host_memory_is_out_of_reach_of_plain_programs(sim, build_dir, monkeypatch):
    """As on a discrete GPU: registered memory is in reach, other memory of the host is not unless a setting says so."""
    sim.set_arch("gfx942")
    code = "  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  s_waitcnt lgkmcnt(0)\n  v_mov_b32 v1, 0\n  v_mov_b32 v2, 7\n"
    text = seeds.kernel("gfx942", "k", code + "  global_store_dword v1, v2, s[4:5]") + seeds.metadata("gfx942", ["k"])
    function = sim.function(sim.load(assemble(text, "gfx942", build_dir)), "k")
    data = np.zeros(1024, np.uint32)
    where = ctypes.c_void_p(data.ctypes.data)

    def launch() -> None:
        words = np.array([data.ctypes.data, 0, 0], np.uint64)
        size = ctypes.c_size_t(words.nbytes)
        extra = (ctypes.c_void_p * 5)(1, words.ctypes.data, 2, ctypes.addressof(size), 3)
        sim.check(sim.lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, extra))

    monkeypatch.delenv("FLYDSL_SIM_HOST_MEMORY", raising=False)
    with pytest.raises(SimError, match="write of 4 bytes"):
        launch()
    assert not data.any()
    sim.check(sim.lib.hipHostRegister(where, ctypes.c_size_t(data.nbytes), 0))
    launch()
    sim.check(sim.lib.hipHostUnregister(where))
    assert data[0] == 7
    data[:] = 0
    monkeypatch.setenv("FLYDSL_SIM_HOST_MEMORY", "mapped")
    launch()
    assert data[0] == 7
    monkeypatch.setenv("FLYDSL_SIM_HOST_MEMORY", "all")
    with pytest.raises(SimError, match="expected 'registered' or 'mapped'"):
        launch()


@pytest.mark.parametrize("arch,code,match", [
    ("gfx942", "  s_mov_b32 s2, 255\n  s_set_gpr_idx_on s2, gpr_idx(DST)\n  v_mov_b32 v200, v1", "index.* reaches v"),
    ("gfx942", "  s_mov_b32 s2, 200\n  s_set_gpr_idx_on s2, gpr_idx(SRC0)\n  v_mov_b32 v1, v60", "index.* reaches v"),
    ("gfx1250", "  s_mov_b32 m0, 63\n  s_barrier_join m0\n  s_barrier_leave", "barrier id 63 does not exist"),
    ("gfx1250", "  s_mov_b32 m0, 40\n  s_barrier_signal m0", "barrier id 40 does not exist"),
])
def test_numbers_that_no_register_or_barrier_has(sim, build_dir, arch, code, match):
    sim.set_arch(arch)
    image = assemble(seeds.kernel(arch, "k", code) + seeds.metadata(arch, ["k"]), arch, build_dir)
    with pytest.raises(SimError, match=match):
        sim.launch(sim.function(sim.load(image), "k"), (1,), (64,), [np.zeros(1, np.uint32), np.zeros(1, np.uint32), 0])


def test_indexing_up_to_the_last_register(sim, build_dir):
    """v1 + 254 is the last vector register: what is written there is read there."""
    sim.set_arch("gfx942")
    code = ("  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  s_waitcnt lgkmcnt(0)\n  v_mov_b32 v3, 9\n  s_movk_i32 s2, 254\n"
            "  s_set_gpr_idx_on s2, gpr_idx(DST)\n  v_mov_b32 v1, v3\n  s_set_gpr_idx_off\n  v_mov_b32 v2, v255\n"
            "  v_lshlrev_b32 v1, 2, v0\n  v_and_b32 v1, 0xff, v1\n  global_store_dword v1, v2, s[4:5]")
    image = assemble(seeds.kernel("gfx942", "k", code) + seeds.metadata("gfx942", ["k"]), "gfx942", build_dir)
    out = np.zeros(64, np.uint32)
    sim.launch(sim.function(sim.load(image), "k"), (1,), (64,), [out, out, 0])
    assert (out == 9).all()
