"""Errors of the transcendental units against extended precision: those that the fidelity table states."""

from __future__ import annotations

import re

import numpy as np
import pytest
from asmlib import Bench, Program, module_text
from hiplib import assemble, find_library
from test_valu import invalid_lines

from flydsl.runtime.coverage import coverage
from flydsl.runtime.fidelity import UNITS, approximation

#: mantissa bits, least exponent
FORMATS = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}
REAL = np.longdouble
PI = REAL("3.14159265358979323846264338327950288")

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is not extended precision")


def turns(f, x):
    """f of an angle in revolutions, reduced exactly; zero where it is zero."""
    zero = 2 * x if f is np.sin else 2 * x + REAL(0.5)
    return np.where(zero == np.round(zero), 0, f(2 * PI * (x - np.round(x))))


EXACT = {
    "exp": np.exp2,
    "log": np.log2,
    "rcp": lambda x: 1 / x,
    "rcp_iflag": lambda x: 1 / x,
    "rsq": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "sin": lambda x: turns(np.sin, x),
    "cos": lambda x: turns(np.cos, x),
    "tanh": np.tanh,
    "exp_legacy": np.exp2,
    "log_legacy": np.log2,
}


def inputs(op: str, ty: str) -> np.ndarray:
    """Bit patterns: all of a 16-bit type, many of a larger one, in the range where results are numbers."""
    rng = np.random.default_rng(7)
    if ty in ("f16", "bf16"):
        return np.arange(65536, dtype=np.uint64)
    low, high = {"exp": (-130, 130), "sin": (-256, 256), "cos": (-256, 256), "tanh": (-10, 10)}.get(op, (0, 0))
    count = 1 << 16
    if low:
        x = rng.uniform(low, high, count) * 2.0 ** -rng.integers(0, 60, count).astype(float)
        x = x.astype(np.float32) if ty == "f32" else x
        return x.view(np.uint32 if ty == "f32" else np.uint64).astype(np.uint64)
    return rng.integers(0, 2**32 if ty == "f32" else 2**64, count, dtype=np.uint64)


def real(bits: np.ndarray, ty: str) -> np.ndarray:
    """Values of bit patterns."""
    if ty == "bf16":
        bits, ty = bits << np.uint64(16), "f32"
    kind = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}[ty]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return bits.astype(kind[0]).view(kind[1]).astype(REAL)


def worst_error(op: str, ty: str, bits: np.ndarray, got: np.ndarray) -> float:
    """The largest error in units of the last place, where operand and result are normal numbers."""
    mantissa, least = FORMATS[ty]
    x, y = real(bits, ty), real(got, ty)
    with np.errstate(all="ignore"):
        want = EXACT[op](x)
        normal = (
            np.isfinite(want) & np.isfinite(y) & (np.abs(x) >= REAL(2) ** least) & (np.abs(want) >= REAL(2) ** least)
        )
        exponent = np.floor(np.log2(np.abs(np.where(normal, want, 1))))
        error = np.abs(y - want) / REAL(2) ** (exponent - mantissa)
    assert normal.sum() > 5000, (op, ty, normal.sum())
    if op in ("sin", "cos"):
        normal &= np.abs(x) <= 256
    return float(error[normal].max())


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_errors_are_those_of_the_table(sim, build_dir, arch):
    """Every unit of the architecture, over all 16-bit operands or 65536 others."""
    wide = not arch.startswith("gfx12")
    step, wave = (65536, 64) if wide else (65536, 32)
    names = [n for n in UNITS if not n.startswith("s_")]
    texts = {n: f"  v_{n} v[2:3], v[8:9]" if n.endswith("f64") else f"  v_{n} v2, v8" for n in names}
    wrong = invalid_lines(arch, list(texts.values()))
    chosen = [n for k, n in enumerate(names) if k not in wrong]
    assert len(chosen) >= (15 if arch != "gfx1250" else 25)
    loop = """
  s_mov_b32 s20, 0
.Lloop_NAME:
  LOAD v[8:9], v1, s[8:9]
  WAIT
OP
  STORE v1, v[2:3], s[6:7]
  v_add_u32 v1, STRIDE, v1
  s_add_u32 s20, s20, 1
  s_cmp_lt_u32 s20, COUNT
  s_cbranch_scc1 .Lloop_NAME
"""
    text = loop.replace("LOAD", "global_load_dwordx2" if wide else "global_load_b64")
    text = text.replace("STORE", "global_store_dwordx2" if wide else "global_store_b64")
    text = text.replace("WAIT", "s_waitcnt vmcnt(0)" if wide else "s_wait_loadcnt 0x0").replace(
        "COUNT", str(step // wave)
    )
    text = text if wide else text.replace("v_add_u32", "v_add_nc_u32")
    prefix = "  v_lshlrev_b32 v1, 1, v0\n  s_mov_b64 s[8:9], s[4:5]\n"
    programs = [
        Program(n, prefix + text.replace("OP", texts[n]).replace("NAME", n).replace("STRIDE", str(8 * wave)), 0, 2, 0)
        for n in chosen
    ]
    directives = "\n  .amdhsa_float_denorm_mode_32 3\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(
        assemble(module_text(arch, programs, wave).replace("\n.end_amdhsa_kernel", directives), arch, build_dir)
    )
    for name in chosen:
        op, _, ty = name.rpartition("_")
        bits = inputs(op, ty)
        got = np.zeros(step, np.uint64)
        sim.launch(sim.function(module, name), (1,), (wave,), [bits, got])
        mask = np.uint64(2 ** (64 if ty == "f64" else 32 if ty == "f32" else 16) - 1)
        error = worst_error(op, ty, bits, got & mask)
        stated = UNITS[name].max_ulp
        assert error <= stated, f"{name}: {error} ulp, the table says {stated}"
        assert error >= stated / 4, f"{name}: {error} ulp, the table says {stated}, which is far too much"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_every_approximate_instruction_says_how(arch):
    """The table has a row for each; units and conversions have an error."""
    library = str(find_library())
    for instruction in coverage(arch, library):
        if instruction.fidelity != "approximate":
            continue
        what = approximation(instruction.mnemonic)
        assert what.how and what.hardware
        if re.match(r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos|tanh)", instruction.mnemonic):
            assert what.max_ulp is not None, instruction.mnemonic


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_sines_of_zeros_and_of_large_angles(sim, build_dir, arch):
    """The functional examples of V_SIN_F32, V_SIN_F16 and V_COS_F32 in the RDNA3 ISA; f32 denormals are zeros."""
    types = {"f32": [0x80000000, 0, 0xFF7FFFFF, 0x3E800000, 0x80000001], "f16": [0x8000, 0, 0xFBFF, 0x3400],
             "bf16": [0x8000, 0, 0xFF7F, 0x3E80]}
    sine = {"f32": [0x80000000, 0, 0, 0x3F800000, 0x80000000], "f16": [0x8000, 0, 0, 0x3C00],
            "bf16": [0x8000, 0, 0, 0x3F80]}
    cosine = {"f32": [0x3F800000] * 3 + [0, 0x3F800000], "f16": [0x3C00] * 3 + [0], "bf16": [0x3F80] * 3 + [0]}
    chosen = [t for t in types if t != "bf16" or arch == "gfx1250"]
    programs = [Program(ty, f"  v_sin_{ty} v20, v8\n  v_cos_{ty} v21, v8", 1, 20, 2) for ty in chosen]
    bench = Bench(sim, arch, programs, build_dir)
    for ty in chosen:
        rows = np.zeros((1, bench.wave), np.uint32)
        rows[0, : len(types[ty])] = types[ty]
        got = bench.run(ty, rows)[:, : len(types[ty])]
        np.testing.assert_array_equal(got, [sine[ty], cosine[ty]], ty)
