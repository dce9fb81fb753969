"""Scratch memory in all addressing forms, flat accesses to scratch and LDS, and loads that go straight to LDS."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Program, module_text, wait_all
from hiplib import assemble
from number_formats import decode, width
from test_atomics import table
from test_loads_stores import Move, after_load, registers, vector_moves
from test_profile import TIMING, profiled
from test_valu import MASKS, invalid_lines

CELL = 64  # bytes of a lane's scratch, and of its part of the LDS
SGPR, STEP = 16, 4  # s20; v1 = STEP * (lane % 4)
OLD = 20


@dataclass(frozen=True)
class Access:
    """A move, or an atomic operation, at a byte of the cell that may depend on the lane."""

    text: str
    move: Move | None
    at: int  #: constant part of the address
    per_lane: int  #: bytes for each unit of v1's lane % 4
    lds: bool = False  #: the cell is in the LDS
    atomic: object = None

    def offset(self, lane: int) -> int:
        """Byte of the lane's cell."""
        return self.at + self.per_lane * (lane % 4)


def accesses(arch: str, rng: random.Random) -> list[Access]:
    """Every size in every addressing form; flat pointers into both apertures; atomics through them."""
    gfx12 = arch.startswith("gfx12")
    found = []
    for name, move in vector_moves(gfx12):
        reg = registers(OLD if move.load else 8, move.bytes)
        top = CELL - 12 - 16 - move.bytes
        for vector, scalar in ((0, 0), (1, 0), (0, 1), (1, 1)):
            base = "s20" if scalar else "off"
            place = "v1" if vector else "off"
            operands = f"{reg}, {place}, {base}" if move.load else f"{place}, {reg}, {base}"
            low = -SGPR if scalar else 0
            for offset in {0, rng.randrange(0, top), rng.randrange(low, top)}:
                at = offset + SGPR * scalar
                found.append(Access(f"scratch_{name} {operands} offset:{offset}", move, at, STEP * vector))
                if vector and arch == "gfx1250" and offset >= 0 and 3 * STEP * move.bytes + at + move.bytes <= CELL:
                    text = f"scratch_{name} {operands} offset:{offset} scale_offset"
                    found.append(Access(text, move, at, STEP * move.bytes))
        for lds in (False, True):
            offset, pointer = rng.randrange(0, top), "v[32:33]" if lds else "v[34:35]"
            operands = f"{reg}, {pointer}" if move.load else f"{pointer}, {reg}"
            found.append(Access(f"flat_{name} {operands} offset:{offset}", move, offset, 0, lds))
    for op in table():
        name = op.rdna if gfx12 else op.vmem9
        if not name or op.ty in ("f32", "f64") or op.halves:
            continue
        words = width(op.ty) // 32
        data, out = registers(8, 4 * words * (2 if op.compare else 1)), registers(OLD, 4 * words)
        for lds in (False, True):
            pointer, give = "v[32:33]" if lds else "v[34:35]", "th:TH_ATOMIC_RETURN" if gfx12 else "sc0"
            text = f"flat_atomic_{name} {out}, {pointer}, {data} offset:16 {give}"
            found.append(Access(text, None, 16, 0, lds, op))
    return found


def kernel(chosen: list[Access], arch: str, mask: int) -> str:
    """v[32:33] and v[34:35] point to the lane's cell in LDS and in scratch; a case leaves both cells and v20..v23."""
    gfx12, wait = arch.startswith("gfx12"), wait_all(arch)
    four, ds = ("b128", ("store", "load")) if gfx12 else ("dwordx4", ("write", "read"))
    code = f"  s_mov_b32 s20, {SGPR}\n  v_lshrrev_b32 v5, 2, v0\n  v_and_b32 v1, 3, v5\n  v_lshlrev_b32 v1, 2, v1\n"
    code += f"  v_mul_u32_u24 v4, {CELL * 2 + 16}, v5\n  v_lshlrev_b32 v32, 6, v5\n"
    code += "  s_mov_b64 s[22:23], src_shared_base\n  v_mov_b32 v33, s23\n"
    if arch == "gfx1250":  # the lane is in bits 56:52
        code += "  s_mov_b64 s[22:23], src_flat_scratch_base_lo\n  v_lshlrev_b32 v35, 20, v5\n"
        code += "  v_mov_b32 v34, s22\n  v_add_nc_u32 v35, s23, v35\n"
    else:
        code += "  s_mov_b64 s[22:23], src_private_base\n  v_mov_b32 v34, 0\n  v_mov_b32 v35, s23\n"
    for case in chosen:
        for k in range(4):
            code += f"  global_load_{four} v[24:27], v4, s[6:7] offset:{16 * k}\n{wait}"
            code += f"  ds_{ds[0]}_b128 v32, v[24:27] offset:{16 * k}\n"
            code += f"  global_load_{four} v[24:27], v4, s[6:7] offset:{CELL + 16 * k}\n{wait}"
            code += f"  scratch_store_{four} off, v[24:27], off offset:{16 * k}\n"
        code += "".join(f"  v_mov_b32 v{OLD + k}, v{8 + k}\n" for k in range(4)) + wait
        code += f"  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {mask >> 32:#x}\n"
        code += f"  {case.text}\n{wait}  s_mov_b64 exec, -1\n"
        for k in range(4):
            code += f"  ds_{ds[1]}_b128 v[24:27], v32 offset:{16 * k}\n{wait}"
            code += f"  global_store_{four} v4, v[24:27], s[6:7] offset:{16 * k}\n"
            code += f"  scratch_load_{four} v[24:27], off, off offset:{16 * k}\n{wait}"
            code += f"  global_store_{four} v4, v[24:27], s[6:7] offset:{CELL + 16 * k}\n"
        code += f"  global_store_{four} v4, v[20:23], s[6:7] offset:{2 * CELL}\n"
        code += "  s_add_u32 s6, s6, 9216\n  s_addc_u32 s7, s7, 0\n"
    return code


def load(sim, arch: str, code: str, inputs: int, wave: int, build_dir: str):
    """A kernel with LDS and scratch for every lane."""
    text = module_text(arch, [Program("memory", code, inputs, 20, 0)], wave)
    lds = CELL * wave
    for key, value in (("group", lds), ("private", CELL)):
        text = text.replace(f".{key}_segment_fixed_size: 0", f".{key}_segment_fixed_size: {value}")
    more = f"\n  .amdhsa_group_segment_fixed_size {lds}\n  .amdhsa_private_segment_fixed_size {CELL}"
    more += "\n  .amdhsa_enable_private_segment 1\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), arch, build_dir))
    return sim.function(module, "memory")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_scratch_and_apertures(sim, build_dir, arch):
    """Registers, the lane's scratch and its part of the LDS afterwards."""
    gfx12 = arch.startswith("gfx12")
    wave = 32 if gfx12 else 64
    mask = MASKS[wave][1]
    rng = random.Random(arch)
    chosen = accesses(arch, rng)
    wrong = [chosen[n].text for n in invalid_lines(arch, [c.text for c in chosen])]
    assert not [w for w in wrong if "atomic" not in w], wrong
    chosen = [c for c in chosen if c.text not in wrong]
    function = load(sim, arch, kernel(chosen, arch, mask), 4, wave, build_dir)
    data = np.random.default_rng(1).integers(0, 2**32, (4, 64), np.uint32)
    out = np.random.default_rng(2).integers(0, 256, (len(chosen), 64, 2 * CELL + 16), np.uint8)
    assert out[0].nbytes == 9216
    for n, case in enumerate(chosen):  # some compare-and-swaps find what they look for
        if case.atomic is not None and case.atomic.compare:
            size = width(case.atomic.ty) // 8
            place = (0 if case.lds else CELL) + case.at
            words = slice(size // 4, size // 2)
            out[n, ::2, place : place + size] = np.ascontiguousarray(data[words].T[::2]).view(np.uint8)
    before = out.copy()
    sim.launch(function, (1,), (wave,), [data, out])
    for n, case in enumerate(chosen):
        for lane in range(wave):
            cells = [bytearray(before[n, lane, s : s + CELL].tobytes()) for s in (0, CELL)]
            cell, regs, at = cells[0 if case.lds else 1], data[:, lane].tolist(), case.offset(lane)
            if mask >> lane & 1 and case.move is not None:
                m = case.move
                if m.load:
                    regs = after_load(m, at, bytes(cell), regs)
                else:
                    source = b"".join(v.to_bytes(4, "little") for v in regs)[2 if m.half == 1 else 0 :]
                    cell[at : at + m.bytes] = source[: m.bytes]
            elif mask >> lane & 1:
                op = case.atomic
                size, words = width(op.ty) // 8, width(op.ty) // 32
                raw = [sum(regs[k * words + j] << 32 * j for j in range(words)) for k in range(1 + op.compare)]
                old = int.from_bytes(cell[at : at + size], "little")
                new = op.value(*[decode(v, op.ty) for v in (old, *raw)]) % (1 << 8 * size)
                cell[at : at + size] = new.to_bytes(size, "little")
                regs[:words] = [old >> 32 * j & 0xFFFFFFFF for j in range(words)]
            got = out[n, lane]
            assert got[2 * CELL :].view(np.uint32).tolist() == regs, (case.text, lane, list(map(hex, regs)))
            assert got[:CELL].tobytes() == bytes(cells[0]), (case.text, lane, "LDS")
            assert got[CELL : 2 * CELL].tobytes() == bytes(cells[1]), (case.text, lane, "scratch")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_traffic_of_scratch_is_that_of_the_launch(sim, build_dir, arch):
    """Dword k of all lanes lies together, so four dwords of a wave are whole lines; waves have places of their own.
    Where the thread that runs a wave has its scratch on the host tells nothing."""
    wave, groups, wait = 32 if arch.startswith("gfx12") else 64, 64, wait_all(arch)
    four = "b128" if wave == 32 else "dwordx4"
    code = "".join(f"  scratch_{text}\n{wait}" for n in (0, 32) for text in (
        f"store_{four} off, v[8:11], off offset:{n}", f"load_{four} v[{OLD}:{OLD + 3}], off, off offset:{n}"))
    code += "".join(f"  v_mov_b32 v{OLD + k}, v{OLD + k}\n" for k in range(4, 20))
    function = load(sim, arch, code, 4, wave, build_dir)
    data, out = np.zeros((4, 64), np.uint32), np.zeros((groups, 20, 64), np.uint32)
    seen = set()
    for _ in range(20):
        (p,) = profiled(sim, TIMING, lambda: sim.launch(function, (groups,), (wave,), [data, out]))
        moved = [i for i in p["instructions"] if i["text"].startswith("scratch_")]
        assert [i["lines"] for i in moved] == [groups * 16 * wave // 128] * 4
        assert [i["written_bytes"] for i in moved] == [groups * 16 * wave, 0] * 2
        assert not any(i["read_bytes"] for i in moved)
        seen.add(p["timing"]["sample_cycles"])
    assert len(seen) == 1


def to_lds(gfx950: bool) -> list[tuple[str, int, bool]]:
    """(name behind the memory's prefix, bytes, signed)."""
    found = [("ubyte", 1, False), ("sbyte", 1, True), ("ushort", 2, False), ("sshort", 2, True), ("dword", 4, False)]
    return found + [("dwordx3", 12, False), ("dwordx4", 16, False)] * gfx950


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_loads_to_lds(sim, build_dir, arch):
    """Lane l's element lands at M0 + offset + l * max(4, size), extended to a dword, for active lanes only."""
    mask, wait, base = MASKS[64][1], wait_all(arch), 32
    chosen = []
    for name, size, signed in to_lds(arch == "gfx950"):
        for at in (0, 12):
            texts = [f"global_load_lds_{name} v1, s[4:5]", f"global_load_lds_{name} v[2:3], off"]
            if size <= 4:
                texts += [f"scratch_load_lds_{name} v6, off", f"scratch_load_lds_{name} off, off"]
            texts = [f"{text} offset:{at}" for text in texts]
            texts.append(f"buffer_load_{name} v1, s[12:15], 0 offen offset:{at} lds")
            chosen += [(text, size, signed, at) for text in texts]
    assert not invalid_lines(arch, [c[0] for c in chosen])
    code = f"  s_mov_b32 m0, {base}\n  v_lshlrev_b32 v1, 2, v0\n  v_mov_b32 v6, 0\n  v_lshlrev_b32 v7, 4, v0\n"
    code += "  v_mov_b32 v2, s4\n  v_mov_b32 v3, s5\n  v_add_co_u32 v2, vcc, v2, v1\n"
    code += "  v_addc_co_u32 v3, vcc, 0, v3, vcc\n  s_mov_b32 s12, s4\n  s_mov_b32 s13, s5\n  s_mov_b32 s14, -1\n"
    code += "  s_mov_b32 s15, 0x27000\n"
    for k in (0, 16):
        code += f"  global_load_dwordx4 v[24:27], v1, s[4:5] offset:{k}\n{wait}"
        code += f"  scratch_store_dwordx4 off, v[24:27], off offset:{k}\n"
    for text, *_ in chosen:
        for k in range(4):  # the whole LDS before, and afterwards
            code += f"  global_load_dwordx4 v[24:27], v7, s[6:7] offset:{16 * k}\n{wait}"
            code += f"  ds_write_b128 v7, v[24:27] offset:{16 * k}\n{wait}"
        code += f"  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {mask >> 32:#x}\n"
        code += f"  {text}\n{wait}  s_mov_b64 exec, -1\n"
        for k in range(4):
            code += f"  ds_read_b128 v[24:27], v7 offset:{16 * k}\n{wait}"
            code += f"  global_store_dwordx4 v7, v[24:27], s[6:7] offset:{16 * k}\n"
        code += "  s_add_u32 s6, s6, 4096\n  s_addc_u32 s7, s7, 0\n"
    function = load(sim, arch, code, 0, 64, build_dir)
    data = np.random.default_rng(5).integers(0, 256, 2048, np.uint8)
    out = np.random.default_rng(6).integers(0, 256, (len(chosen), 4096), np.uint8)
    before = out.copy()
    sim.launch(function, (1,), (64,), [data, out])
    for n, (text, size, signed, at) in enumerate(chosen):
        want, slot = before[n].copy(), max(4, size)
        for lane in range(64):
            if mask >> lane & 1:
                part = data[16 * lane + at : 16 * lane + at + size].tobytes()
                if size < 4:
                    part = (int.from_bytes(part, "little", signed=signed) & 0xFFFFFFFF).to_bytes(4, "little")
                start = base + at + lane * slot
                want[start : start + slot] = np.frombuffer(part, np.uint8)
        assert out[n].tobytes() == want.tobytes(), text
