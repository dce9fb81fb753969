"""Wrong code of LLVM 22 that random programs ran into, and the traces by which compiler_faults.py knows it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiler_faults import FOLD, copied_as_halves, folded_out_of_a_loop, hoisted_casts, lost_live_range, split_dumps
from hiplib import LLVM

HERE = Path(__file__).parent
LANE = np.arange(64, dtype=np.uint32)


def llc(name: str, arch: str, *flags: str, opt: str = "2") -> subprocess.CompletedProcess[str]:
    """Compiles the case `name`."""
    command = [LLVM / "llc", f"-O{opt}", f"-mcpu={arch}", *flags, HERE / name]
    return subprocess.run(command, capture_output=True, text=True)


def build(name: str, arch: str, tmp: str, *flags: str, opt: str = "2") -> bytes:
    """The linked code object of the case `name`."""
    base = Path(tmp) / f"{name}-{arch}{''.join(flags)}"
    done = llc(name, arch, *flags, "-filetype=obj", "-o", f"{base}.o", opt=opt)
    assert done.returncode == 0, done.stderr
    subprocess.run([LLVM / "ld.lld", "-shared", f"{base}.o", "-o", f"{base}.hsaco"], check=True)
    return Path(f"{base}.hsaco").read_bytes()


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_a_value_that_the_structurizer_loses(sim, build_dir, arch):
    """LLVM's structurizecfg hoists the extension out of a switch's default block, whose other way in then has poison.

    Lanes that come by that way store whatever the register held; the other lanes are right.
    """
    image = build("structurizer.ll", arch, build_dir)
    which, value = LANE % 5, LANE + 100
    want = np.choose(which, [value + 1, value, value, value >> 1, value])
    sim.set_arch(arch)

    out = np.zeros(64, np.uint32)
    sim.run(image, "k", (1,), (64,), [np.concatenate([which, value]), out])
    np.testing.assert_array_equal(out[which != 4], want[which != 4])
    if (out != want).any():
        dumps = ("-print-before=structurizecfg", "-print-after=structurizecfg", "-filetype=null")
        assert hoisted_casts(llc("structurizer.ll", arch, *dumps).stderr)
        pytest.xfail("LLVM 22: StructurizeCFG::hoistZeroCostElseBlockPhiValues loses a value")


def last_trip(n: int) -> int:
    """What divergent_trip.ll stores for a lane with input `n`."""
    trip = 0
    while n and trip + 1 < (~(n & trip) & 255):
        trip += 1
    return trip


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_a_scalar_that_is_read_outside_of_its_divergent_loop(sim, build_dir, arch):
    """Lanes leave the loop at different trips; si-fold-operands reads the trip counter itself behind the loop.

    All lanes then get the counter of the last trip instead of the vector copy that the loop made for each of them.
    """
    value = LANE * 4
    want = np.array([last_trip(int(n)) for n in value], np.uint32)
    sim.set_arch(arch)
    out = np.zeros(64, np.uint32)
    sim.run(build("divergent_trip.ll", arch, build_dir), "k", (1,), (64,), [value, out])

    dumps = llc("divergent_trip.ll", arch, f"-print-before={FOLD}", f"-print-after={FOLD}", "-filetype=null").stderr
    found = folded_out_of_a_loop(*split_dumps(dumps))
    wrong = (out != want).any()
    assert wrong == bool(found), found
    if wrong:
        assert set(out[value != 0]) == {want.max()}
        pytest.xfail("LLVM 22: SIFoldOperands folds a scalar of a divergent loop into a use behind it")


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_a_multiply_add_with_dpp(sim, build_dir, arch):
    """LLVM combines DPP with a 64-bit multiply-add, a form that its own assembler and disassembler do not know.

    The simulator does what LLVM means by it: DPP moves the first source.
    """
    sim.set_arch(arch)
    value, out = LANE * 0x01234567, np.zeros(64, np.uint64)
    image = build("multiply_dpp.ll", arch, build_dir)
    sim.run(image, "k", (1,), (64,), [value, out])
    source = (LANE & ~np.uint32(15)) | ((LANE - 1) & 15)
    np.testing.assert_array_equal(out, value[source].astype(np.uint64) * 31 + value)


def test_a_live_range_that_is_lost(build_dir):
    """A value that only some lanes define (the others have poison) is held for dead, and its register is used again.

    The machine verifier sees the use. The program does not end; only what the compiler says of it matters.
    """
    done = llc("lost_live_range.ll", "gfx942", "-verify-machineinstrs", "-filetype=null")
    if done.returncode:
        assert lost_live_range(done.stderr, "k"), done.stderr[:2000]
        assert not lost_live_range(done.stderr, "kernel")
        pytest.xfail("LLVM 22: live intervals after coalescing lack a part of a value")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_a_product_that_is_minus_zero(sim, build_dir, arch):
    """LLVM multiplies bf16 on gfx1250 by a multiply-add with the addend +0, which makes +0 of a product -0.

    It does the same on every architecture with f32 products that are rounded to f16. Random programs with such
    roundings do not tell -0 from +0; all other products are right.
    """
    rng = np.random.default_rng(5)
    one = np.where(LANE % 4, rng.integers(-100, 100, 64), 0).astype(np.float32)
    other = np.where(LANE % 3, rng.integers(-100, 100, 64), 0).astype(np.float32) / 8
    product = (one * other).astype(np.float64)
    bits = (np.concatenate([one, other]).view(np.uint32) >> 16).astype(np.uint16)
    sim.set_arch(arch)
    out = np.zeros(64, np.uint16)
    sim.run(build("multiply_zero.ll", arch, build_dir), "k", (1,), (64,), [bits, out])

    got = (out.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert (np.abs(got - product) <= np.abs(product) / 256).all()
    if (np.signbit(got) != np.signbit(product)).any():
        assert set(out[np.signbit(got) != np.signbit(product)]) == {0}
        text = llc("multiply_zero.ll", arch, "-o", "-").stdout
        assert re.search(r"v_fma_mixlo_bf16 v\d+, v\d+, v\d+, 0", text), text
        pytest.xfail("LLVM 22: a product of bf16 is selected with the addend +0 instead of -0")


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_a_difference_that_is_zero(sim, build_dir, arch):
    """LLVM makes a negation of `0 - x` where the difference is rounded to another type: -0 instead of +0 for +0."""
    value = (LANE % 4).astype(np.float32)
    sim.set_arch(arch)
    out = np.zeros(64, np.uint16)
    sim.run(build("subtract_zero.ll", arch, build_dir), "k", (1,), (64,), [value, out])

    got = out.view(np.float16)
    np.testing.assert_array_equal(got, -value.astype(np.float16))
    if np.signbit(got[value == 0]).any():
        text = llc("subtract_zero.ll", arch, "-o", "-").stdout
        assert re.search(r"v_cvt_f16_f32_e64 v\d+, -v\d+", text), text
        pytest.xfail("LLVM 22: 0 - x becomes -x below a rounding, which keeps the sign of zero")


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151", "gfx1201"])
def test_a_swap_of_bytes_that_copies_halves(sim, build_dir, arch):
    """Where gfx11 names halves of registers, LLVM moves 16 bits of each dword whose bytes it reverses at -O0.

    The same code is right when the compiler knows no halves.
    """
    value = np.random.default_rng(9).integers(0, 2**64, 64, dtype=np.uint64)
    want = (value * np.uint64(77777777777)).byteswap()
    sim.set_arch(arch)

    def run(*flags: str) -> np.ndarray:
        out = np.full(64, 0xA5, np.uint64)
        sim.run(build("swapped_halves.ll", arch, build_dir, *flags, opt="0"), "k", (1,), (64,), [value, out])
        return out

    np.testing.assert_array_equal(run("-mattr=-real-true16"), want)
    if (run() != want).any():
        assert copied_as_halves(llc("swapped_halves.ll", arch, "-stop-after=finalize-isel", "-o", "-", opt="0").stdout)
        pytest.xfail("LLVM 22: a 32-bit register is copied to a 16-bit one")
