"""Scalar instructions that change EXEC, MODE or the program counter, and those with an operand of 16 bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Bench, Program
from hiplib import SimError
from test_valu import invalid_lines
from valu_table import sext

ARCHS = ["gfx942", "gfx950", "gfx1200", "gfx1201", "gfx1250"]


@dataclass
class State:
    """s[32:33] (destination), s[34:35] (operand), SCC and EXEC, as an instruction changes them."""

    dst: int
    src: int
    scc: int
    exec_: int


Effect = Callable[[State], None]


def masks(bits: int) -> dict[str, tuple[Effect, str]]:
    """The instructions that combine an operand with EXEC, by name; all of them set SCC."""
    top = (1 << bits) - 1
    combine = {"and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e,
               "nand": lambda s, e: ~(s & e), "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e),
               "andn1|and_not0": lambda s, e: ~s & e, "andn2|and_not1": lambda s, e: s & ~e,
               "orn1|or_not0": lambda s, e: ~s | e, "orn2|or_not1": lambda s, e: s | ~e}
    found = {}
    for names, f in combine.items():
        for name in names.split("|"):

            def save(t: State, f: Callable = f) -> None:
                old = t.exec_ & top
                t.exec_ = t.exec_ & ~top | f(t.src & top, old) & top
                t.dst = t.dst & ~top | old
                t.scc = int(t.exec_ & top != 0)

            def write(t: State, f: Callable = f) -> None:
                t.exec_ = t.exec_ & ~top | f(t.src & top, t.exec_ & top) & top
                t.dst = t.dst & ~top | t.exec_ & top
                t.scc = int(t.exec_ & top != 0)

            tail = "s[32:33], s[34:35]" if bits == 64 else "s32, s34"
            found[f"s_{name}_saveexec_b{bits}"] = (save, tail)
            found[f"s_{name}_wrexec_b{bits}"] = (write, tail)
    return found


def immediates(rng: random.Random) -> list[tuple[str, Effect]]:
    """Operations of s32 with a constant of 16 bits."""
    found = []
    order = {"eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "lt": lambda a, b: a < b,
             "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
    for k in (0, 5, -1, -32768, 32767, rng.randrange(-32768, 32768)):
        for name, f in order.items():

            def signed(t: State, f: Callable = f, k: int = k) -> None:
                t.scc = int(f(sext(t.dst, 32), k))

            def unsigned(t: State, f: Callable = f, k: int = k & 0xFFFF) -> None:
                t.scc = int(f(t.dst & 0xFFFFFFFF, k))

            found.append((f"s_cmpk_{name}_i32 s32, {k & 0xFFFF:#x}", signed))
            found.append((f"s_cmpk_{name}_u32 s32, {k & 0xFFFF:#x}", unsigned))

        def put(t: State, value: int) -> None:
            t.dst = t.dst & ~0xFFFFFFFF | value & 0xFFFFFFFF

        def add(t: State, k: int = k) -> None:
            total = sext(t.dst, 32) + k
            t.scc = int(not -(2**31) <= total < 2**31)
            put(t, total)

        found.append((f"s_addk_i32 s32, {k & 0xFFFF:#x}", add))
        found.append((f"s_addk_co_i32 s32, {k & 0xFFFF:#x}", add))
        found.append((f"s_mulk_i32 s32, {k & 0xFFFF:#x}", lambda t, k=k: put(t, sext(t.dst, 32) * k)))
        found.append((f"s_movk_i32 s32, {k & 0xFFFF:#x}", lambda t, k=k: put(t, k)))
        found.append((f"s_cmovk_i32 s32, {k & 0xFFFF:#x}", lambda t, k=k: put(t, k) if t.scc else None))
    return found


QUIET = [
    "s_nop 3", "s_sleep 2", "s_setprio 1", "s_sethalt 0", "s_icache_inv", "s_wakeup", "s_incperflevel 1",
    "s_decperflevel 1", "s_ttracedata", "s_setkill 0", "s_sendmsg sendmsg(MSG_INTERRUPT)", "s_dcache_inv",
    "s_ttracedata_imm 1", "s_version UC_VERSION_GFX12", "s_sleep_var s20", "s_wait_idle", "s_wait_event 1",
    "s_wait_samplecnt 0", "s_wait_expcnt 0", "s_wait_bvhcnt 0", "s_wait_storecnt_dscnt 0",
    "s_wait_loadcnt_dscnt 0", "s_wait_alu 0xffff", "s_wait_xcnt 0", "s_wait_asynccnt 0", "s_wait_tensorcnt 0",
    "s_clause 0x1\n  s_nop 0\n  s_nop 0", "s_prefetch_inst s[6:7], 0x0, s20, 1",
    "s_prefetch_inst_pc_rel 0x0, s20, 1", "s_prefetch_data s[6:7], 0x0, s20, 1",
    "s_prefetch_data_pc_rel 0x0, s20, 1", "s_buffer_prefetch_data s[12:15], 0x0, s20, 1", "s_monitor_sleep 1",
    "s_setprio_inc_wg 1", "s_delay_alu instid0(VALU_DEP_1)", "v_nop", "v_pipeflush", "v_clrexcp",
    "global_prefetch_b8 v0, s[6:7]", "global_wb", "global_inv", "global_wbinv", "buffer_wbl2 sc1", "buffer_inv sc1",
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("text", ["s_sethalt 1", "s_sethalt 5", "s_setkill 1", "s_sendmsghalt sendmsg(MSG_INTERRUPT)"])
def test_a_wave_that_stops_itself_is_an_error(sim, build_dir, arch, text):
    """Nobody is there to continue it."""
    if invalid_lines(arch, [text]):
        pytest.skip(f"{arch} has no {text}")
    bench = Bench(sim, arch, [Program("stops", f"  v_mov_b32 v2, v8\n  {text}", 1, 2, 1)], build_dir)
    with pytest.raises(SimError, match=f"{text.split()[0]}: the wave stops itself"):
        bench.run("stops", np.zeros((1, bench.wave), np.uint32))


@pytest.mark.parametrize("arch", ARCHS)
def test_masks_and_constants(sim, build_dir, arch):
    """Destination, SCC and EXEC afterwards, for random and corner operands; instructions without effect have none."""
    rng = random.Random(arch)
    wave = 32 if arch.startswith("gfx12") else 64
    candidates: list[tuple[str, Effect]] = immediates(rng)
    for bits in (32, 64):
        if bits <= wave:
            candidates += [(f"{name} {tail}", f) for name, (f, tail) in masks(bits).items()] * 2
    candidates += [(text, lambda t: None) for text in QUIET]
    wrong = invalid_lines(arch, [c[0].split("\n")[0] for c in candidates])
    chosen = [c for n, c in enumerate(candidates) if n not in wrong]
    names = {c[0].split()[0] for c in chosen}
    assert len(names) >= 35, names
    programs, states = [], []
    for n, (text, _) in enumerate(chosen):
        corners = [0, 1, (1 << wave) - 1, 1 << wave - 1, rng.getrandbits(wave), 0x7FFFFFFF, 5]
        t = State(*(rng.choice(corners) for _ in range(2)), rng.randint(0, 1), rng.choice(corners))
        states.append(t)
        code = "  s_mov_b32 s20, 0\n"
        for reg, v in (("s32", t.dst), ("s34", t.src)):
            code += f"  s_mov_b32 {reg}, {v & 0xFFFFFFFF:#x}\n  s_mov_b32 s{int(reg[1:]) + 1}, {v >> 32:#x}\n"
        code += f"  s_mov_b32 exec_lo, {t.exec_ & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {t.exec_ >> 32:#x}\n"
        code += f"  s_cmp_eq_u32 s20, {1 - t.scc}\n  {text}\n"
        code += "  s_cselect_b32 s36, 1, 0\n  s_mov_b32 s37, exec_lo\n  s_mov_b32 s38, exec_hi\n  s_mov_b64 exec, -1\n"
        code += "".join(f"  v_writelane_b32 v2, s{r}, {k}\n" for k, r in enumerate((32, 33, 36, 37, 38)))
        programs.append(Program(f"c{n}", code, 1, 2, 1))
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.zeros((1, bench.wave), np.uint32)
    for n, (text, effect) in enumerate(chosen):
        t = states[n]
        before = State(t.dst, t.src, t.scc, t.exec_)
        effect(t)
        got = bench.run(f"c{n}", rows)[0].tolist()
        want = [t.dst & 0xFFFFFFFF, t.dst >> 32, t.scc, t.exec_ & 0xFFFFFFFF]
        assert got[:4] == want, (text, before, got[:5], want)
        if wave == 64:
            assert got[4] == t.exec_ >> 32, (text, before)


@pytest.mark.parametrize("arch", ARCHS)
def test_program_counter(sim, build_dir, arch):
    """Calls, returns, computed jumps and every conditional branch, taken and not."""
    names = {"get": "s_get_pc_i64", "set": "s_set_pc_i64", "swap": "s_swap_pc_i64", "call": "s_call_i64"}
    if arch != "gfx1250":
        names = {"get": "s_getpc_b64", "set": "s_setpc_b64", "swap": "s_swappc_b64", "call": "s_call_b64"}
    vcc = "vcc_lo" if arch.startswith("gfx12") else "vcc"
    every = "s_mov_b32" if arch.startswith("gfx12") else "s_mov_b64"
    exec_ = "exec_lo" if arch.startswith("gfx12") else "exec"
    code = f"""  v_mov_b32 v2, 0
  s_mov_b32 s40, 0
  {names["call"]} s[32:33], add1
  {names["get"]} s[34:35]
after:
  s_add_u32 s34, s34, add2-after
  s_addc_u32 s35, s35, 0
  {names["swap"]} s[32:33], s[34:35]
  {names["get"]} s[34:35]
here:
  s_add_u32 s34, s34, end-here
  s_addc_u32 s35, s35, 0
  {names["set"]} s[34:35]
  s_mov_b32 s40, 0
add1:
  s_add_u32 s40, s40, 1
  {names["set"]} s[32:33]
add2:
  s_add_u32 s40, s40, 2
  {names["set"]} s[32:33]
end:
  v_writelane_b32 v2, s40, 0
"""
    branches = []
    for k, (setup, taken) in enumerate([
        ("s_cmp_eq_u32 s40, s40", ["scc1"]), ("s_cmp_lg_u32 s40, s40", ["scc0"]),
        (f"{every} {vcc}, 0", ["vccz"]), (f"{every} {vcc}, 4", ["vccnz"]),
        (f"{every} {exec_}, 0", ["execz"]), (f"{every} {exec_}, 4", ["execnz"])]):
        for name in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz"):
            if name.rstrip("01nz") != taken[0].rstrip("01nz"):
                continue
            label = f"skip{k}{name}"
            code += f"  s_mov_b32 s41, 1\n  {setup}\n  s_cbranch_{name} {label}\n  s_mov_b32 s41, 0\n{label}:\n"
            code += f"  s_mov_b64 exec, -1\n  v_writelane_b32 v2, s41, {1 + len(branches)}\n"
            branches.append(int(name in taken))
    code += "  s_branch done\n  v_mov_b32 v2, 7\ndone:\n"
    bench = Bench(sim, arch, [Program("jumps", code, 1, 2, 1)], build_dir)
    got = bench.run("jumps", np.zeros((1, bench.wave), np.uint32))[0].tolist()
    assert got[: 1 + len(branches)] == [3, *branches]


@pytest.mark.parametrize("arch", ARCHS)
def test_mode_and_status(sim, build_dir, arch):
    """Fields of MODE written in all ways and read back; the status bits that programs can see."""
    gfx12 = arch.startswith("gfx12")
    mode, status = ("HW_REG_WAVE_MODE", "HW_REG_WAVE_STATUS") if gfx12 else ("HW_REG_MODE", "HW_REG_STATUS")
    steps = [(f"s_setreg_imm32_b32 hwreg({mode}, 0, 8), 0xa5", lambda m: m & ~0xFF | 0xA5),
             (f"s_setreg_b32 hwreg({mode}, 4, 3), s20", lambda m: m & ~0x70 | 0x30),
             (f"s_setreg_imm32_b32 hwreg({mode}, 23, 1), 1", lambda m: m | 1 << 23),
             ("s_round_mode 0x6", lambda m: m & ~0xF | 6), ("s_denorm_mode 0xd", lambda m: m & ~0xF0 | 0xD0)]
    steps = [s for s in steps if gfx12 or "_mode " not in s[0]]
    code, value, want = "  s_mov_b32 s20, 0xb\n  v_mov_b32 v2, 0\n", 0, []
    for n, (text, f) in enumerate(steps):
        value = f(value)
        code += f"  {text}\n  s_getreg_b32 s32, hwreg({mode}, 0, 8)\n  s_getreg_b32 s33, hwreg({mode}, 20, 6)\n"
        code += f"  v_writelane_b32 v2, s32, {2 * n}\n  v_writelane_b32 v2, s33, {2 * n + 1}\n"
        want += [value & 0xFF, value >> 20 & 0x3F]
    at = len(want)
    scc = "hwreg(HW_REG_WAVE_STATE_PRIV, 9, 1)" if gfx12 else f"hwreg({status}, 0, 1)"
    for setup, field, expected in [("s_cmp_eq_u32 s20, s20", scc, 1), ("s_cmp_lg_u32 s20, s20", scc, 0),
                                   ("s_mov_b64 vcc, 0", f"hwreg({status}, 10, 1)", 1),
                                   ("s_mov_b64 vcc, 8", f"hwreg({status}, 10, 1)", 0),
                                   ("s_mov_b64 exec, 0", f"hwreg({status}, 9, 1)", 1),
                                   ("s_mov_b64 exec, 8", f"hwreg({status}, 9, 1)", 0)]:
        code += f"  {setup}\n  s_getreg_b32 s32, {field}\n  s_mov_b64 exec, -1\n  v_writelane_b32 v2, s32, {at}\n"
        want.append(expected)
        at += 1
    bench = Bench(sim, arch, [Program("mode", code, 1, 2, 1)], build_dir)
    assert bench.run("mode", np.zeros((1, bench.wave), np.uint32))[0].tolist()[:at] == want


def test_loops_over_the_halves_of_a_wave(sim, build_dir):
    """s_subvector_loop of gfx11, wave64: once for each half that has active lanes, and EXEC is as before."""
    low, high = 0x80000F01, 0x12340000
    cases = {"both": (low, high), "low": (low, 0), "high": (0, high), "none": (0, 0)}
    programs = []
    for name, (first, second) in cases.items():
        code = f"""  v_mov_b32 v20, 0
  s_mov_b32 s30, 0
  s_mov_b32 exec_lo, {first:#x}
  s_mov_b32 exec_hi, {second:#x}
  s_subvector_loop_begin s31, end_{name}
body_{name}:
  v_add_nc_u32 v20, 1, v20
  s_add_u32 s30, s30, 1
  s_subvector_loop_end s31, body_{name}
end_{name}:
  s_mov_b32 s32, exec_lo
  s_mov_b32 s33, exec_hi
  s_mov_b64 exec, -1
  v_mov_b32 v21, s30
  v_mov_b32 v22, s32
  v_mov_b32 v23, s33"""
        programs.append(Program(name, code, 1, 20, 4))
    bench = Bench(sim, "gfx1100", programs, build_dir, wave=64)
    for name, (first, second) in cases.items():
        got = bench.run(name, np.zeros((1, 64), np.uint32))
        mask = first | second << 32
        assert got[0].tolist() == [mask >> lane & 1 for lane in range(64)], name
        assert got[1:, 0].tolist() == [bool(first) + bool(second), first, second], name
