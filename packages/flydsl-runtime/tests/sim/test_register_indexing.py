"""Registers chosen at run time: relative moves by M0, gfx9's index mode, high register numbers of gfx1250."""

from __future__ import annotations

import random
import subprocess

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program
from hiplib import LLVM
from test_valu import MASKS, dpp_source, invalid_lines

COUNT = 8  # registers v8..v15 that the moves name


def moved(rows: list[list[int]], source: int, dest: int, wave: int, mask: int, dpp: str) -> list[list[int]]:
    """Registers after a move of one register to another, through a lane permute if there is one."""
    ctrl, *flags = dpp.split()
    find = {k: int(v, 0) for k, v in (f.split(":") for f in flags)}
    inactive, bound = find.get("fi", 0), find.get("bound_ctrl", 0) or ctrl.startswith("dpp8")
    after = [list(r) for r in rows]
    for lane in range(wave):
        if not (mask >> lane & 1 and find.get("row_mask", 15) >> lane // 16 & 1):
            continue
        if not find.get("bank_mask", 15) >> lane % 16 // 4 & 1:
            continue
        s = dpp_source(ctrl, lane, wave) if ctrl != "none" else lane
        valid = s is not None and (ctrl == "none" or inactive or mask >> s & 1)
        if valid or bound:
            after[dest][lane] = rows[source][s] if valid else 0
    return after


@pytest.mark.parametrize("arch", ["gfx1200", "gfx1201", "gfx1250"])
def test_relative_moves(sim, build_dir, arch):
    """Every form of v_movrel*, with and without DPP, under a partial EXEC."""
    rng = random.Random(arch)
    mask = MASKS[32][1]
    permutes = ["none", "quad_perm:[2,0,3,1] row_mask:0x3 bank_mask:0xf", "row_shl:3 row_mask:0x3 bank_mask:0xb",
                "row_shr:5 row_mask:0x2 bank_mask:0xf bound_ctrl:1", "row_ror:7 row_mask:0x3 bank_mask:0xf fi:1",
                "row_share:9 row_mask:0x3 bank_mask:0xe", "row_xmask:5 row_mask:0x1 bank_mask:0xf",
                "dpp8:[7,1,0,5,2,6,3,4]", "dpp8:[3,3,0,1,7,7,5,4] fi:1"]
    cases = []
    for name in ("v_movrels_b32", "v_movreld_b32", "v_movrelsd_b32", "v_movrelsd_2_b32", "v_swaprel_b32"):
        for dpp in permutes if name != "v_swaprel_b32" else ["none"]:
            far, near = rng.randint(0, 3), rng.randint(0, 3)
            m0 = far << 16 | near if "_2_" in name or "swap" in name else near
            first, second = rng.sample(range(4), 2)
            source = first + (near if name != "v_movreld_b32" else 0)
            dest = second + (0 if name == "v_movrels_b32" else far if m0 >> 16 else 0 if "_2_" in name or "swap" in name
                             else near)
            suffix = "" if dpp == "none" else "_dpp"
            text = f"{name}{suffix} v{FIRST + second}, v{FIRST + first} {'' if dpp == 'none' else dpp}"
            cases.append((text, m0, source, dest, dpp, "swap" in name))
    assert not invalid_lines(arch, [c[0] for c in cases])
    programs = []
    for n, (text, m0, *_) in enumerate(cases):
        code = f"  s_mov_b32 m0, {m0:#x}\n  s_mov_b32 exec_lo, {mask:#x}\n  {text}\n  s_mov_b32 exec_lo, -1\n"
        programs.append(Program(f"move{n}", code, COUNT, FIRST, COUNT))
    bench = Bench(sim, arch, programs, build_dir)
    for n, (text, m0, source, dest, dpp, swap) in enumerate(cases):
        rows = np.array([[rng.getrandbits(32) for _ in range(32)] for _ in range(COUNT)], np.uint32)
        want = moved(rows.tolist(), source, dest, 32, mask, dpp)
        if swap:
            want[source] = moved(rows.tolist(), dest, source, 32, mask, dpp)[source]
        np.testing.assert_array_equal(bench.run(f"move{n}", rows), np.array(want, np.uint32), err_msg=f"{text} {m0:#x}")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_index_mode(sim, build_dir, arch):
    """s_set_gpr_idx_*: M0[7:0] is added to the register numbers of the chosen operands; MODE switches it off and on."""
    add = "  v_add_u32 v8, v9, v10\n"
    cases = {  # code and the (destination, source 0, source 1) registers of the addition
        "src0": ("  s_set_gpr_idx_on s20, gpr_idx(SRC0)\n" + add, (0, 3, 2)),
        "src1": ("  s_set_gpr_idx_on s20, gpr_idx(SRC1)\n" + add, (0, 1, 4)),
        "both": ("  s_set_gpr_idx_on s20, gpr_idx(SRC0,SRC1)\n" + add, (0, 3, 4)),
        "dst": ("  s_set_gpr_idx_on s20, gpr_idx(DST)\n" + add, (2, 1, 2)),
        "changed": ("  s_set_gpr_idx_on s20, gpr_idx(DST)\n  s_set_gpr_idx_idx s21\n" + add, (3, 1, 2)),
        "mode": ("  s_set_gpr_idx_on s20, gpr_idx(DST)\n  s_set_gpr_idx_mode gpr_idx(SRC0)\n" + add, (0, 3, 2)),
        "off": ("  s_set_gpr_idx_on s20, gpr_idx(DST)\n  s_set_gpr_idx_off\n" + add, (0, 1, 2)),
        "cleared": ("  s_set_gpr_idx_on s20, gpr_idx(DST)\n"
                    "  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 0\n" + add, (0, 1, 2)),
        "set": ("  s_mov_b32 m0, 0x1003\n  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 1\n" + add, (0, 4, 2)),
    }
    programs = [Program(f"index_{n}", f"  s_mov_b32 s20, 2\n  s_mov_b32 s21, 3\n{code}  s_set_gpr_idx_off\n", 8, 8, 8)
                for n, (code, _) in cases.items()]
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(7).integers(0, 2**32, (8, 64), np.uint32)
    for name, (_, (d, a, b)) in cases.items():
        want = rows.copy()
        want[d] = rows[a] + rows[b]
        np.testing.assert_array_equal(bench.run(f"index_{name}", rows), want, err_msg=name)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1200", "gfx1201", "gfx1250"])
def test_scalar_relative_moves(sim, build_dir, arch):
    """s_movrels, s_movreld in both widths, and the form with an index for each side on gfx12."""
    cases = {"movrels_b32": ("s_movrels_b32 s32, s40", 3, {32: 43}),
             "movrels_b64": ("s_movrels_b64 s[32:33], s[40:41]", 2, {32: 42, 33: 43}),
             "movreld_b32": ("s_movreld_b32 s32, s40", 5, {37: 40}),
             "movreld_b64": ("s_movreld_b64 s[32:33], s[40:41]", 4, {36: 40, 37: 41})}
    if arch.startswith("gfx12"):
        cases["movrelsd_2_b32"] = ("s_movrelsd_2_b32 s32, s40", 6 << 16 | 1, {38: 41})
    programs = []
    for name, (text, m0, _) in cases.items():
        code = "".join(f"  s_mov_b32 s{r}, {0xA0000 + r:#x}\n" for r in range(32, 48))
        code += f"  s_mov_b32 m0, {m0:#x}\n  {text}\n"
        code += "".join(f"  v_writelane_b32 v2, s{r}, {r - 32}\n" for r in range(32, 48))
        programs.append(Program(name, code, 1, 2, 1))
    bench = Bench(sim, arch, programs, build_dir)
    for name, (text, _, changed) in cases.items():
        got = bench.run(name, np.zeros((1, bench.wave), np.uint32))[0][:16].tolist()
        assert got == [0xA0000 + changed.get(r, r) for r in range(32, 48)], text


def test_high_registers_through_mode(sim, build_dir):
    """s_setreg on MODE[19:12] chooses the same registers as s_set_vgpr_msb: destination, then sources 0, 1 and 2.

    LLVM encodes the operand of s_set_vgpr_msb in another order (sources first), which the second program uses.
    """
    setup = "".join(f"  s_set_vgpr_msb {k << 6:#x}\n  v_mov_b32 v20, v{8 + k}\n" for k in range(4))
    fields = {"src0": 1, "src1": 2, "src2": 3, "dst": 0}
    by_mode = fields["dst"] | fields["src0"] << 2 | fields["src1"] << 4 | fields["src2"] << 6
    by_instruction = fields["src0"] | fields["src1"] << 2 | fields["src2"] << 4 | fields["dst"] << 6
    use = "  v_add3_u32 v12, v20, v20, v20\n  s_set_vgpr_msb 0\n"
    plus = "  s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 14, 2), 2\n"  # source 0 alone
    programs = [
        Program("mode", f"{setup}  s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 12, 8), {by_mode:#x}\n{use}", 4, 12, 1),
        Program("instruction", f"{setup}  s_set_vgpr_msb {by_instruction:#x}\n{use}", 4, 12, 1),
        Program("part", f"{setup}  s_set_vgpr_msb {by_instruction:#x}\n{plus}{use}", 4, 12, 1),
        # Another part of MODE: the high bits are those of the immediate's bits 19:12.
        Program("beside", f"{setup}  s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 25, 1), {by_mode << 12:#x}\n{use}",
                4, 12, 1),
        Program("read", f"{setup}  s_set_vgpr_msb {by_instruction:#x}\n"
                "  s_getreg_b32 s20, hwreg(HW_REG_WAVE_MODE, 12, 8)\n  s_set_vgpr_msb 0\n"
                "  v_mov_b32 v12, s20\n", 4, 12, 1),
    ]
    bench = Bench(sim, "gfx1250", programs, build_dir)
    rows = np.random.default_rng(9).integers(0, 2**32, (4, 32), np.uint32)
    expected = rows[1] + rows[2] + rows[3]
    np.testing.assert_array_equal(bench.run("mode", rows)[0], expected)
    np.testing.assert_array_equal(bench.run("instruction", rows)[0], expected)
    np.testing.assert_array_equal(bench.run("part", rows)[0], rows[2] + rows[2] + rows[3])
    np.testing.assert_array_equal(bench.run("beside", rows)[0], expected)
    assert set(bench.run("read", rows)[0].tolist()) == {by_mode}


def test_the_order_in_mode_is_that_of_llvm(build_dir):
    """The register allocator keeps MODE[19:12] when it writes MODE: its constants rotate s_set_vgpr_msb's fields."""
    count = 400
    text = "declare void @llvm.amdgcn.s.setreg(i32 immarg, i32)\ndeclare i32 @llvm.amdgcn.workitem.id.x()\n"
    text += "define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {\n"
    text += "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n  %q = getelementptr i32, ptr addrspace(1) %p, i32 %t\n"
    text += "".join(f"  %v{k} = load volatile i32, ptr addrspace(1) %q\n" for k in range(count))
    text += "  call void @llvm.amdgcn.s.setreg(i32 22529, i32 240)\n"  # MODE[11:0]
    text += "".join(f"  store volatile i32 %v{k}, ptr addrspace(1) %q\n" for k in range(count))
    text += "  call void @llvm.amdgcn.s.setreg(i32 22529, i32 241)\n"
    text += "".join(f"  store volatile i32 %v{k}, ptr addrspace(1) %q\n" for k in range(count)) + "  ret void\n}\n"
    text += 'attributes #0 = { "amdgpu-num-vgpr"="1024" "amdgpu-flat-work-group-size"="32,32" '
    text += '"amdgpu-waves-per-eu"="1,1" }'
    command = [LLVM / "llc", "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx1250", "-mattr=+setreg-vgpr-msb-fixup", "-O1"]
    done = subprocess.run([*command, "-o", "-"], input=text, capture_output=True, text=True, check=True)
    msb, found = 0, set()
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["s_set_vgpr_msb"]:
            msb = int(words[1], 0) & 255
        elif line.strip().startswith("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 12)"):
            assert int(words[-1], 0) >> 12 & 255 == (msb << 2 | msb >> 6) & 255, line
            found.add(msb)
    assert found - {0}, "no register above 255 was live"
