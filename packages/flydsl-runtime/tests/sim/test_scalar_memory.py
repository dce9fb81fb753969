"""Scalar stores, scratch accesses and atomics of gfx9 against plain Python: memory and registers afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble
from number_formats import decode, width
from test_atomics import table
from test_valu import invalid_lines

MEMORY, BLOCK = 256, 512  # bytes that a case works on; bytes of a case: memory, then the registers
RECORDS = 200  # bytes of the buffer
OFFSET = 1  # s20
Words = list[int]


@dataclass(frozen=True)
class Case:
    """``effect(memory, words)`` changes the bytes of memory and the words of s[32:39]."""

    text: str
    effect: Callable[[bytearray, Words], None]


def places(words: int) -> list[tuple[str, int, bool]]:
    """Operands of an access: (text, byte, whether bounded); s[8:9] is 64 bytes into the memory, s20 is 1."""
    span = 4 * words
    return [
        ("s[6:7], 0x10", 16, False), ("s[8:9], 0x20", 96, False), (f"s[8:9], -{span:#x}", 64 - span, False),
        ("s[8:9], s21 offset:0x8", 120, False), ("s[6:7], s21", 48, False), ("s[12:15], 0x18", 24, True),
        ("s[12:15], s21", 48, True), ("s[12:15], s21 offset:0x20", 80, True),
        ("s[12:15], 0xc0", 192, True), ("s[12:15], 0xe0", 224, True),
    ]


def moves(name: str, words: int, at: int, bounded: bool, store: bool) -> Callable[[bytearray, Words], None]:
    """A store or load of whole words, each checked against the range of a buffer."""

    def effect(memory: bytearray, regs: Words) -> None:
        for k in range(words):
            cell = slice(at + 4 * k, at + 4 * k + 4)
            inside = not bounded or cell.stop <= RECORDS
            if store and inside:
                memory[cell] = regs[k].to_bytes(4, "little")
            if not store:
                regs[k] = int.from_bytes(memory[cell], "little") if inside else 0

    return effect


def atomic(op: Callable, ty: str, compare: bool, at: int, bounded: bool, give: bool) -> Callable:
    """A read-modify-write of one value of type `ty`; nothing happens outside a buffer, which then reads as zero."""
    size, words = width(ty) // 8, width(ty) // 32

    def effect(memory: bytearray, regs: Words) -> None:
        raw = [sum(regs[n * words + k] << 32 * k for k in range(words)) for n in range(1 + compare)]
        old = int.from_bytes(memory[at : at + size], "little")
        if bounded and at + size > RECORDS:
            old = 0
        else:
            new = op(*[decode(v, ty) for v in (old, *raw)])
            memory[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
        if give:
            regs[:words] = [old >> 32 * k & 0xFFFFFFFF for k in range(words)]

    return effect


def cases() -> list[Case]:
    """Every instruction at every kind of address."""
    found = []
    for words in (1, 2, 4):
        suffix = f"dwordx{words}" if words > 1 else "dword"
        data = f"s[32:{31 + words}]" if words > 1 else "s32"
        for place, at, bounded in places(words):
            name = "s_buffer_store" if bounded else "s_store"
            found.append(Case(f"{name}_{suffix} {data}, {place}", moves(name, words, at, bounded, True)))
        # The register offset of scratch accesses counts 64 bytes: one byte of each lane.
        for place, at in (("s[6:7], 0x10", 16), ("s[6:7], s20", 64), ("s[6:7], s20 offset:0x28", 104)):
            for verb in ("store", "load"):
                name = f"s_scratch_{verb}"
                found.append(
                    Case(f"{name}_{suffix} {data}, {place}", moves(name, words, at, False, verb == "store"))
                )
    for op in table():
        if not op.vmem9 or op.ty in ("f32", "f64") or op.halves:
            continue
        words = width(op.ty) // 32
        count = words * (2 if op.compare else 1)
        data = f"s[32:{31 + count}]" if count > 1 else "s32"
        for place, at, bounded in places(words):
            for give in (False, True):
                text = f"s_{'buffer_' if bounded else ''}atomic_{op.vmem9} {data}, {place}{' glc' * give}"
                found.append(Case(text, atomic(op.value, op.ty, op.compare, at, bounded, give)))
    for text in ("s_dcache_wb", "s_dcache_inv", "s_dcache_wb_vol", "s_dcache_inv_vol", "s_icache_inv",
                 "s_atc_probe 0, s[6:7], 0x10", "s_atc_probe_buffer 0, s[12:15], 0x10"):
        found.append(Case(text, lambda memory, regs: None))
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_scalar_stores_and_atomics(sim, build_dir, arch):
    """All of the instructions exist on gfx9; values that a compare-and-swap finds are among the samples."""
    chosen = cases()
    assert not invalid_lines(arch, [c.text for c in chosen])
    rng = random.Random(arch)
    regs = [[rng.choice([0, 1, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32)]) for _ in range(8)]
            for _ in chosen]
    data = np.array(regs, np.uint32)
    out = np.random.default_rng(3).integers(0, 256, (len(chosen), BLOCK), np.uint8)
    corners = np.array([0, 1, 5, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF], np.uint32)
    cells = out[:, :MEMORY].view(np.uint32)
    cells[:, ::3] = corners[np.random.default_rng(4).integers(0, 6, cells[:, ::3].shape)]
    for n, case in enumerate(chosen):
        if "cmpswap" in case.text and n % 2:  # the value in memory is the expected one
            memory, words = out[n], 2 if "_x2" in case.text else 1
            at = next(a for p, a, _ in places(words) if p in case.text)
            data[n, words : 2 * words] = memory[at : at + 4 * words].view(np.uint32)
    code = f"  s_mov_b32 s20, {OFFSET}\n  s_movk_i32 s21, 48\n"
    for case in chosen:
        code += "  s_load_dwordx8 s[32:39], s[4:5], 0x0\n  s_waitcnt lgkmcnt(0)\n"
        code += "  s_add_u32 s8, s6, 64\n  s_addc_u32 s9, s7, 0\n  s_mov_b32 s12, s6\n  s_mov_b32 s13, s7\n"
        code += f"  s_movk_i32 s14, {RECORDS}\n  s_mov_b32 s15, 0x27000\n  {case.text}\n  s_waitcnt lgkmcnt(0)\n"
        code += "".join(f"  v_writelane_b32 v2, s{32 + k}, {k}\n" for k in range(8))
        code += f"  global_store_dword v0, v2, s[6:7] offset:{MEMORY}\n"
        code += f"  s_add_u32 s4, s4, 32\n  s_addc_u32 s5, s5, 0\n  s_add_u32 s6, s6, {BLOCK}\n  s_addc_u32 s7, s7, 0\n"
    sim.set_arch(arch)
    module = sim.load(assemble(module_text(arch, [Program("scalar", code, 0, 2, 0)], 64), arch, build_dir))
    before = out.copy()
    sim.launch(sim.function(module, "scalar"), (1,), (64,), [data, out])
    for n, case in enumerate(chosen):
        memory, words = bytearray(before[n, :MEMORY].tobytes()), data[n].tolist()
        case.effect(memory, words)
        assert out[n, :MEMORY].tobytes() == bytes(memory), case.text
        got = out[n, MEMORY : MEMORY + 32].view(np.uint32).tolist()
        assert got == words, f"{case.text}: {[hex(v) for v in got]}, expected {[hex(v) for v in words]}"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_clocks_advance(sim, build_dir, arch):
    """Every clock of the architecture counts up, the one of 100 MHz more slowly than the one of the shader."""
    gfx12 = arch.startswith("gfx12")
    reads = (
        [("  s_getreg_b32 {}, hwreg(HW_REG_SHADER_CYCLES_LO)\n  s_getreg_b32 {}, hwreg(HW_REG_SHADER_CYCLES_HI)\n", 1),
         ("  s_sendmsg_rtn_b64 s[{0}:{1}], sendmsg(MSG_RTN_GET_REALTIME)\n", 0)]
        if gfx12 else [("  s_memtime s[{0}:{1}]\n", 0), ("  s_memrealtime s[{0}:{1}]\n", 0)]
    )
    wait = "  s_wait_kmcnt 0x0\n" if gfx12 else "  s_waitcnt lgkmcnt(0)\n"

    def clock(n: int, at: int) -> str:
        text, names = reads[n]
        return text.format(*((f"s{at}", f"s{at + 1}") if names else (at, at + 1))) + wait

    code = clock(0, 32) + clock(1, 34) + "  s_movk_i32 s8, 20000\nwait:\n  s_sub_u32 s8, s8, 1\n  s_cmp_lg_u32 s8, 0\n"
    code += "  s_cbranch_scc1 wait\n" + clock(0, 36) + clock(1, 38)
    code += "".join(f"  v_writelane_b32 v2, s{32 + k}, {k}\n" for k in range(8))
    sim.set_arch(arch)
    wave = 32 if gfx12 else 64
    module = sim.load(assemble(module_text(arch, [Program("clocks", code, 0, 2, 1)], wave), arch, build_dir))
    out = np.zeros((1, 64), np.uint32)
    sim.launch(sim.function(module, "clocks"), (1,), (wave,), [np.zeros(64, np.uint32), out])
    first, real, later, really = out[0, :8].view(np.uint64).tolist()
    assert 0 < later - first < 1 << 40
    assert 0 < really - real < (later - first)
