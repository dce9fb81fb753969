"""The last steps of division, v_div_fmas: one rounding of a scaled fused multiply-add, denormal results among them."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from asmlib import Bench, Program
from hiplib import compile_ir, have_toolchain


def nearest(value: Fraction, mantissa: int, smallest: int) -> Fraction:
    """The multiple of a power of two, with `mantissa` bits or at least 2**smallest, that `value` is rounded to."""
    if not value:
        return value
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - mantissa, smallest)
    return round(value / unit) * unit


@pytest.mark.parametrize("ty", ["f32", "f64"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_quotients_are_rounded_once(sim, build_dir, arch, ty):
    """fma(a, b, c) * 2**-64 (2**-128 for f64) where VCC is set: half way between denormal numbers the fma decides."""
    mantissa, smallest, least, scale = (23, -149, -126, 64) if ty == "f32" else (52, -1074, -1022, 128)
    vcc = "vcc_lo" if arch.startswith("gfx12") else "vcc"
    words = 1 if ty == "f32" else 2
    reg = (lambda n: f"v{n}") if words == 1 else (lambda n: f"v[{n}:{n + 1}]")
    mask = "s_mov_b32 vcc_lo, -1" if vcc == "vcc_lo" else "s_mov_b64 vcc, -1"
    denormals = "s_denorm_mode 15" if arch.startswith("gfx12") else "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15"
    code = f"  {denormals}\n  {mask}\n  v_div_fmas_{ty} {reg(20)}, {reg(8)}, {reg(8 + words)}, {reg(8 + 2 * words)}\n"
    bench = Bench(sim, arch, [Program("q", code, 3 * words, 20, words)], build_dir)
    rng = random.Random(ty)
    lanes, dtype = bench.wave, np.float32 if ty == "f32" else np.float64
    for _ in range(30):
        # c / 2**scale is denormal and near the middle of two; the product is too small to be seen by a first rounding.
        exponent = [rng.randrange(least - 20, least) + scale for _ in range(lanes)]
        c = []
        for e in exponent:
            kept = e - scale - smallest  # bits that the denormal result has
            high = rng.getrandbits(max(kept, 1)) | 1 << max(kept, 1)
            c.append(float(Fraction(2 * high + 1) * Fraction(2) ** (smallest + scale - 1)))
        a = [rng.choice((-1.0, 0.0, 1.0)) * 2.0 ** rng.randrange(-8, 8) for _ in range(lanes)]
        b = [2.0 ** (smallest + scale - mantissa - rng.randrange(10)) * (1 + rng.random()) for _ in range(lanes)]
        inputs = np.array([a, b, c], dtype)
        rows = inputs.view(np.uint32).reshape(3, lanes, words).transpose(0, 2, 1).reshape(3 * words, lanes)
        out = bench.run("q", np.ascontiguousarray(rows))
        got = np.ascontiguousarray(out.T).view(dtype).ravel()
        for x, y, z, found in zip(*inputs, got, strict=True):
            exact = (Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) / 2**scale
            assert Fraction(float(found)) == nearest(exact, mantissa, smallest), (x, y, z)


QUOTIENTS = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %j = add i32 %i, 64
  %p = getelementptr TYPE, ptr addrspace(1) %in, i32 %i
  %q = getelementptr TYPE, ptr addrspace(1) %in, i32 %j
  %x = load TYPE, ptr addrspace(1) %p
  %y = load TYPE, ptr addrspace(1) %q
  %r = fdiv TYPE %x, %y
  %o = getelementptr TYPE, ptr addrspace(1) %out, i32 %i
  store TYPE %r, ptr addrspace(1) %o
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
"""


@pytest.mark.skipif(not have_toolchain(), reason="no LLVM with an AMD GPU target")
@pytest.mark.parametrize(("ty", "dtype", "smallest"), [("float", np.float32, -149), ("double", np.float64, -1074)])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_quotients_around_the_smallest_denormal(sim, build_dir, arch, ty, dtype, smallest):
    """Division as LLVM has it, near ties of the smallest denormals: half of the least is one, which goes to zero."""
    rng = np.random.default_rng(11)
    sim.set_arch(arch)
    image = compile_ir(QUOTIENTS.replace("TYPE", ty), arch, build_dir, "3")
    for _ in range(20):
        y = np.ldexp(1 + rng.random(64), rng.integers(-smallest // 2, -smallest * 4 // 5, 64)).astype(dtype)
        halves = (2 * rng.integers(0, 3, 64) + 1) * (1 + rng.choice([-2, -1, 1, 2], 64) * 2.0**-22)
        x = np.ldexp((halves * y.astype(np.float64)).astype(dtype), smallest - 1)
        x[::4] = np.ldexp(y[::4], smallest - 1)
        out = np.full(64, np.nan, dtype)
        sim.run(image, "k", (1,), (64,), [np.concatenate([x, y]), out])
        with np.errstate(under="ignore"):
            np.testing.assert_array_equal(out, x / y)
