"""v_fma_mix*: f16 and f32 operands in one multiply-add; output multipliers; VGPR numbers above 255 (gfx1250)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from asmlib import Bench, Program, module_text
from hiplib import assemble
from number_formats import decode, encode, is_nan, samples
from test_valu import dpp_source, invalid_lines
from valu_table import fma


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_mixed_multiply_add(sim, build_dir, arch):
    """op_sel_hi says that an operand is a half, op_sel which; neg and abs; the result keeps the other half."""
    rng = random.Random(arch)
    cases = []
    for name in ("mix_f32", "mixlo_f16", "mixhi_f16"):
        for _ in range(6):
            lo, hi, neg, absolute = ([rng.randint(0, 1) for _ in range(3)] for _ in range(4))
            regs = [
                f"{'-' if n else ''}{'|' * a}v{8 + k}{'|' * a}"
                for k, (n, a) in enumerate(zip(neg, absolute, strict=True))
            ]
            text = f"v_fma_{name} v2, {', '.join(regs)} op_sel:{lo} op_sel_hi:{hi}".replace("[", "[").replace(", ", ",")
            cases.append((name, lo, hi, neg, absolute, text.replace(",", ", ", 3)))
    wrong = invalid_lines(arch, [c[5] for c in cases])
    assert not wrong, [cases[n][5] for n in wrong]
    programs = [Program(f"m{n}", f"  v_mov_b32 v2, v11\n  {c[5]}\n", 4, 2, 1) for n, c in enumerate(cases)]
    bench = Bench(sim, arch, programs, build_dir)
    for n, (name, lo, hi, neg, absolute, text) in enumerate(cases):
        rows = np.zeros((4, bench.wave), np.uint32)
        for k in range(3):
            halves = [samples("f16", rng, bench.wave) for _ in range(2)]
            wide = [
                rng.getrandbits(1) << 31 | rng.randint(110, 140) << 23 | rng.getrandbits(23) for _ in range(bench.wave)
            ]
            rows[k] = [a | b << 16 for a, b in zip(*halves, strict=True)] if hi[k] else wide
        rows[3] = [rng.getrandbits(32) for _ in range(bench.wave)]
        got = bench.run(f"m{n}", rows)[0].tolist()
        for lane in range(bench.wave):
            args = []
            for k in range(3):
                bits = int(rows[k, lane])
                value = decode(bits >> 16 * lo[k], "f16") if hi[k] else decode(bits, "f32")
                value = abs(value) if absolute[k] else value
                args.append(-value if neg[k] else value)
            want = encode(fma(*args), "f32")  # one rounding to f32 ...
            if name != "mix_f32":
                want = encode(fma(*args), "f16")
            ty = "f32" if name == "mix_f32" else "f16"
            bits, old = got[lane], int(rows[3, lane])
            if name == "mixlo_f16":
                assert bits >> 16 == old >> 16
                bits &= 0xFFFF
            elif name == "mixhi_f16":
                assert bits & 0xFFFF == old & 0xFFFF
                bits >>= 16
            if ty == "f32" and want & 0x7F800000 == 0:  # flushed in this harness
                want &= 0x80000000
            same = is_nan(bits, ty) if is_nan(want, ty) else abs(bits - want) <= (ty == "f16")
            assert same, f"{text}: lane {lane} {args}: {bits:#x}, expected {want:#x}"


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx1250"])
def test_lanes_of_mixed_operands(sim, build_dir, arch):
    """DPP moves the first operand, whatever its control: LLVM's decoder loses a bit of it for halves of registers."""
    controls = [f"quad_perm:[3,1,0,{k}]" for k in range(4)] + ["row_ror:11", "row_share:9", "row_xmask:13"]
    cases = [(name, c) for name in ("mix_f32", "mixlo_f16", "mixhi_f16") for c in controls]
    programs = [Program(f"m{n}", f"  v_mov_b32 v2, v11\n  v_fma_{name}_e64_dpp v2, v8, v9, v10 {control} "
                        "row_mask:0xf bank_mask:0xf\n", 4, 2, 1) for n, (name, control) in enumerate(cases)]
    bench = Bench(sim, arch, programs, build_dir)
    numbers = np.random.default_rng(3).integers(-40, 41, (4, 32)).astype(np.float32)  # exact in halves
    rows = numbers.view(np.uint32)
    for n, (name, control) in enumerate(cases):
        moved = [dpp_source(control, lane, 32) for lane in range(32)]
        value = numbers[0, moved] * numbers[1] + numbers[2]
        half = value.astype(np.float16).view(np.uint16).astype(np.uint32)
        want = {"mix_f32": value.view(np.uint32), "mixlo_f16": rows[3] & 0xFFFF0000 | half,
                "mixhi_f16": rows[3] & 0xFFFF | half << 16}[name]
        np.testing.assert_array_equal(bench.run(f"m{n}", rows)[0], want, f"{name} {control}")


def test_bf16_products_below_every_number_keep_their_sign(sim, build_dir):
    """Between a half of the smallest f32 and all of it, the zero had the other sign."""
    rng = np.random.default_rng(3)
    texts = {"mix": "v_fma_mixlo_bf16 v2, v8, v9, 0 op_sel_hi:[1,1,0]", "pk": "v_pk_fma_bf16 v2, v8, v9, 0"}
    programs = [Program(name, f"  v_mov_b32 v2, 0\n  {text}", 2, 2, 1) for name, text in texts.items()]
    bench = Bench(sim, "gfx1250", programs, build_dir)
    exponent = rng.integers(30, 100, 32)
    factor = np.ldexp(rng.choice([-1, 1], (2, 32)) * (1 + rng.integers(0, 128, (2, 32)) / 128),
                      np.stack([-exponent, exponent - 149 + rng.integers(-3, 1, 32)]))
    rows = np.float32(factor).view(np.uint32) >> 16
    product = factor[0] * factor[1]
    assert ((np.abs(product) > 2.0**-150) & (np.abs(product) < 2.0**-149)).sum() > 4
    for name in texts:
        np.testing.assert_array_equal(bench.run(name, rows)[0] & 0xFFFF, np.where(product < 0, 0x8000, 0), name)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_output_multipliers(sim, build_dir, arch):
    """mul:2, mul:4 and div:2 where denormals are flushed, with and without clamp."""
    forms = {"mul:2": 2.0, "mul:4": 4.0, "div:2": 0.5}
    programs = [Program(f"o{k}", f"  v_add_f32 v2, v8, v9 {form}\n  v_add_f32 v3, v8, v9 clamp {form}\n", 2, 2, 2)
                for k, form in enumerate(forms)]
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(1).uniform(-1, 1, (2, bench.wave)).astype(np.float32)
    for k, factor in enumerate(forms.values()):
        got = bench.run(f"o{k}", rows.view(np.uint32)).view(np.float32)
        want = (rows[0] + rows[1]) * np.float32(factor)
        np.testing.assert_array_equal(got[0], want)
        np.testing.assert_array_equal(got[1], np.clip(want, 0, 1))


def test_high_register_numbers(sim, build_dir):
    """s_set_vgpr_msb, and the same bits of MODE through s_setreg, choose the bank of each operand."""
    code = """
  v_mov_b32 v20, 1
  v_mov_b32 v21, 2
  s_set_vgpr_msb 0x40
  v_mov_b32 v20, v8
  s_set_vgpr_msb 0xc1
  v_add_nc_u32 v22, v20, v9
  s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 12, 8), 0x0c
  v_add_nc_u32 v2, v22, v21
  s_set_vgpr_msb 0
  v_mov_b32 v3, v20
"""
    program = Program("banks", code, 2, 2, 2)
    text = module_text("gfx1250", [program], 32).replace("next_free_vgpr 256", "next_free_vgpr 1024")
    sim.set_arch("gfx1250")
    module = sim.load(assemble(text, "gfx1250", build_dir))
    rows, out = np.zeros((2, 64), np.uint32), np.zeros((2, 64), np.uint32)
    rows[:, :32] = np.random.default_rng(2).integers(0, 2**32, (2, 32), np.uint32)
    sim.launch(sim.function(module, "banks"), (1,), (32,), [rows, out])
    # v276 = v8; v790 = v276 + v9; then source 0 in bank 3 and the rest in bank 0.
    np.testing.assert_array_equal(out[0, :32], rows[0, :32] + rows[1, :32] + np.uint32(2))
    np.testing.assert_array_equal(out[1, :32], 1)


@pytest.mark.parametrize("form", ["v_fmamk_f32 v2, v8, 0x40400000, v20", "v_fmaak_f32 v2, v8, v20, 0x40400000",
                                  "v_dual_fmamk_f32 v2, v8, 0x40400000, v20 :: v_dual_mov_b32 v3, v9"])
def test_bank_of_a_summand_beside_a_literal(sim, build_dir, form):
    """The summand of fmamk is its second register, and has the bank of a third source; that of fmaak is a literal."""
    bank = 0x04 if "fmaak" in form else 0x10
    code = f"""
  v_mov_b32 v20, 0
  s_set_vgpr_msb 0x40
  v_mov_b32 v20, v9
  s_set_vgpr_msb {bank:#x}
  {form}
  s_set_vgpr_msb 0
"""
    text = module_text("gfx1250", [Program("summand", code, 2, 2, 2)], 32)
    sim.set_arch("gfx1250")
    module = sim.load(assemble(text.replace("next_free_vgpr 256", "next_free_vgpr 1024"), "gfx1250", build_dir))
    rows, out = np.zeros((2, 64), np.float32), np.zeros((2, 64), np.float32)
    rows[:, :32] = np.random.default_rng(2).integers(-9, 9, (2, 32))
    sim.launch(sim.function(module, "summand"), (1,), (32,), [rows, out])
    a, b = rows[:, :32]
    np.testing.assert_array_equal(out[0, :32], a * b + 3 if "fmaak" in form else a * 3 + b)


@pytest.mark.parametrize(("name", "half"), [("mix_f32_bf16", "bf16"), ("mix_f32", "f16")])
def test_constants_of_mixed_operands(sim, build_dir, name, half):
    """A constant is an f32. Compilers name a bf16 as the upper half of it; a literal is what it says."""
    forms = ["v8, 2.0, v9", "-v8, 0.5, v9", "v8, 0.15915494, v9", "v8, -4.0, v9", "v8, v9, 1.0"]
    factors = [2.0, -0.5, 0.15915494, -4.0, 1.0]
    programs = [Program(f"f{n}", f"  v_fma_{name} v2, {form} op_sel_hi:[0,0,0]\n", 2, 2, 1)
                for n, form in enumerate(forms)]
    upper = half == "bf16"
    programs += [Program(f"h{n}", f"  v_fma_{name} v2, v8, {value}, v9 op_sel:[0,{int(upper)},0] op_sel_hi:[0,1,0]\n",
                         2, 2, 1) for n, value in enumerate((1.0, -2.0))]
    bench = Bench(sim, "gfx1250", programs, build_dir)
    rows = np.random.default_rng(5).integers(-9, 9, (2, bench.wave)).astype(np.float32)
    a, b = rows
    for n, factor in enumerate(factors):
        got = bench.run(f"f{n}", rows.view(np.uint32))[0].view(np.float32)
        want = a * b + 1 if n == 4 else a * np.float32(factor) + b
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    for n, factor in enumerate((1.0, -2.0)):
        got = bench.run(f"h{n}", rows.view(np.uint32))[0].view(np.float32)
        np.testing.assert_array_equal(got, a * np.float32(factor) + b)
