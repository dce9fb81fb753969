"""Code objects in all their containers, and malformed ones."""

from __future__ import annotations

import ctypes
import os
import struct
import zlib

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

#: Device addresses are host addresses: damaged kernels may read what the address sanitizer guards.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
static const u32 table[4] = {3, 5, 7, 9};
GLOBAL u32 counter = 41;
KERNEL void k(GLOBAL u32 *out) { out[TID()] = table[TID() & 3] + counter; }
"""


def bundle(entries: list[tuple[str, bytes]]) -> bytes:
    """A clang offload bundle."""
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    offset = len(header) + sum(24 + len(name) for name, _ in entries)
    body = b""
    for name, data in entries:
        header += struct.pack("<QQQ", offset + len(body), len(data), len(name)) + name.encode()
        body += data
    return header + body


def compressed(data: bytes, version: int) -> bytes:
    """A compressed bundle, zlib."""
    packed = zlib.compress(data)
    if version == 2:
        header = b"CCOB" + struct.pack("<HHIIQ", 2, 0, 24 + len(packed), len(data), 0)
    else:
        header = b"CCOB" + struct.pack("<HHQQQ", 3, 0, 32 + len(packed), len(data), 0)
    return header + packed


def code_range(image: bytes) -> tuple[int, int]:
    """File offset and size of the executable segment of an ELF image."""
    phoff, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    for n in range(count):
        kind, flags, offset, _, _, size = struct.unpack_from("<IIQQQQ", image, phoff + 56 * n)
        if kind == 1 and flags & 1:
            return offset, size
    raise AssertionError("no executable segment")


def check(sim, image: bytes, sized: bool) -> None:
    module = ctypes.c_void_p()
    if sized:
        module = sim.load(image)
    else:
        sim.check(sim.lib.hipModuleLoadData(ctypes.byref(module), image))
    out = np.zeros(64, np.uint32)
    sim.launch(sim.function(module, "k"), (1,), (64,), [out])
    np.testing.assert_array_equal(out, np.tile([44, 46, 48, 50], 16))
    sim.lib.hipModuleUnload(module)


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("form", ["elf", "bundle", "compressed2", "compressed3"])
def test_containers(sim, build_dir, form, sized):
    """The right code object is found in every container, with and without its size."""
    sim.set_arch("gfx1201")
    good = compile_gpu(SOURCE, "gfx1201", "2", build_dir)
    other = compile_gpu(SOURCE, "gfx942", "2", build_dir)
    plain = bundle([("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack-", other),
                    ("hipv4-amdgcn-amd-amdhsa--gfx1201", good)])
    image = {"elf": good, "bundle": plain, "compressed2": compressed(plain, 2),
             "compressed3": compressed(plain, 3)}[form]
    check(sim, image, sized)
    sim.set_arch("gfx950")
    with pytest.raises(SimError, match="gfx950") as info:
        check(sim, image, sized)
    assert info.value.code == 209


def launch_limited(sim, module, out: np.ndarray) -> None:
    """Launches k(out); whatever its code has become, it may write no other host memory."""
    bases = (ctypes.c_void_p * 1)(out.ctypes.data)
    sizes = (ctypes.c_size_t * 1)(out.nbytes)
    function = sim.function(module, "k")
    sim.lib.flysimLaunchRanges(bases, sizes, 1)
    sim.launch(function, (1,), (64,), [out])


def test_malformed_images(sim, build_dir):
    """Truncated, overwritten and random images: an error code or a fault of the kernel, never a crash.

    FLYDSL_SIM_IMAGE_FUZZ=N sets the number of mutations (default 300).
    """
    rng = np.random.default_rng(int(os.environ.get("FLYDSL_SIM_FUZZ_SEED", "1")))
    archs = ["gfx942", "gfx1201", "gfx1250"]
    images = {a: compile_gpu(SOURCE, a, "2", build_dir) for a in archs}
    plain = bundle([("hipv4-amdgcn-amd-amdhsa--gfx942", images["gfx942"])])
    os.environ["FLYDSL_SIM_MAX_INSTRUCTIONS"] = "20000"
    allowed = {2, 9, 200, 209, 700, 702, 719, 801, 500}
    ran = 0
    for n in range(int(os.environ.get("FLYDSL_SIM_IMAGE_FUZZ", "300"))):
        arch = archs[n % 3]
        sim.set_arch(arch)
        data = bytearray(plain if arch == "gfx942" and n % 4 < 3 and n % 5 == 0 else images[arch])
        kind = n % 4
        if kind == 0:
            data = data[: rng.integers(0, len(data))]
        elif kind == 1:
            for at in rng.integers(0, len(data), 4):
                data[at] = rng.integers(256)
        elif kind == 2:
            at = int(rng.integers(0, min(len(data), 1024) - 16))
            data[at : at + 16] = rng.bytes(16)
        else:
            start, size = code_range(images[arch])
            at = start + int(rng.integers(0, min(size, 256)) & ~3)
            data[at : at + 8] = rng.bytes(8)
        try:
            module = sim.load(bytes(data))
        except SimError as error:
            assert error.code in allowed, error
            continue
        try:
            out = np.zeros(1024, np.uint32)
            if not SANITIZED:
                launch_limited(sim, module, out)
            ran += 1
        except SimError as error:
            assert error.code in allowed, error
        sim.lib.hipModuleUnload(module)
    del os.environ["FLYDSL_SIM_MAX_INSTRUCTIONS"]
    assert ran


@pytest.mark.skipif(SANITIZED, reason="random code reads host memory that the sanitizer guards")
def test_random_code(sim, build_dir):
    """Random words as code run into an error, never into a crash."""
    rng = np.random.default_rng(3)
    os.environ["FLYDSL_SIM_MAX_INSTRUCTIONS"] = "3000"
    for n in range(60):
        arch = ["gfx942", "gfx950", "gfx1201", "gfx1250"][n % 4]
        sim.set_arch(arch)
        data = bytearray(compile_gpu(SOURCE, arch, "0", build_dir))
        # Everything after the first instructions, some words from a list that decodes well.
        start, size = code_range(bytes(data))
        start += 16 * (n % 5)
        words = rng.integers(0, 2**32, size // 4, dtype=np.uint32)
        words[::3] &= 0x3FFFFFFF  # VOP2
        words[1::5] |= 0xDC000000  # flat memory
        data[start : start + len(words) * 4 - 80] = words.tobytes()[:-80]
        try:
            module = sim.load(bytes(data))
            out = np.zeros(1024, np.uint32)
            launch_limited(sim, module, out)
            sim.lib.hipModuleUnload(module)
        except SimError:
            pass
    del os.environ["FLYDSL_SIM_MAX_INSTRUCTIONS"]


def test_unsupported_entry_points(sim):
    """Entry points that are not simulated exist and say so."""
    sim.lib.flysimUnsupported.restype = ctypes.c_char_p
    names = sim.lib.flysimUnsupported().decode().split()
    assert len(names) > 100
    for name in names:
        assert getattr(sim.lib, name)(None, None, None, None) == 801
