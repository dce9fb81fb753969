"""Every load and store of global, flat, buffer and LDS memory, aligned or not, against the bytes that it moves."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Bench, Program, lane_address, module_text, open_descriptor, wait_all
from hiplib import SimError, assemble
from test_valu import MASKS, invalid_lines

CELL, BLOCK = 32, 4096  # bytes of a lane; bytes of an operation: the cells, then the registers after a load


@dataclass(frozen=True)
class Move:
    """``bytes`` at a time; a narrow load extends, or fills one half of the register."""

    text: str
    bytes: int
    load: bool
    signed: bool = False
    half: int = -1  #: 0 or 1: half of the register
    second: int = -1  #: distance of the second element of a pair of LDS accesses


def vector_moves(gfx12: bool) -> list[tuple[str, Move]]:
    """Names without the memory's prefix."""
    loads = {
        "load_ubyte|load_u8": (1, False, -1), "load_sbyte|load_i8": (1, True, -1),
        "load_ushort|load_u16": (2, False, -1), "load_sshort|load_i16": (2, True, -1),
        "load_ubyte_d16|load_d16_u8": (1, False, 0), "load_ubyte_d16_hi|load_d16_hi_u8": (1, False, 1),
        "load_sbyte_d16|load_d16_i8": (1, True, 0), "load_sbyte_d16_hi|load_d16_hi_i8": (1, True, 1),
        "load_short_d16|load_d16_b16": (2, False, 0), "load_short_d16_hi|load_d16_hi_b16": (2, False, 1),
        "load_dword|load_b32": (4, False, -1), "load_dwordx2|load_b64": (8, False, -1),
        "load_dwordx3|load_b96": (12, False, -1), "load_dwordx4|load_b128": (16, False, -1),
    }
    stores = {
        "store_byte|store_b8": (1, -1), "store_byte_d16_hi|store_d16_hi_b8": (1, 1),
        "store_short|store_b16": (2, -1), "store_short_d16_hi|store_d16_hi_b16": (2, 1),
        "store_dword|store_b32": (4, -1), "store_dwordx2|store_b64": (8, -1),
        "store_dwordx3|store_b96": (12, -1), "store_dwordx4|store_b128": (16, -1),
    }
    found = [(n.split("|")[gfx12], Move("", b, True, s, h)) for n, (b, s, h) in loads.items()]
    return found + [(n.split("|")[gfx12], Move("", b, False, False, h)) for n, (b, h) in stores.items()]


def lds_moves(gfx12: bool) -> list[tuple[str, Move]]:
    """Names without ``ds_``."""
    load, store = ("load", "store") if gfx12 else ("read", "write")
    found = []
    for name, size, signed in (("u8", 1, False), ("i8", 1, True), ("u16", 2, False), ("i16", 2, True)):
        found.append((f"{load}_{name}", Move("", size, True, signed)))
        if name != "i16":
            found += [(f"{load}_{name}_d16{'_hi' * h}", Move("", size, True, signed, h)) for h in (0, 1)]
    for bits in (32, 64, 96, 128):
        found += [(f"{load}_b{bits}", Move("", bits // 8, True)), (f"{store}_b{bits}", Move("", bits // 8, False))]
    for bits in (8, 16):
        found += [
            (f"{store}_b{bits}", Move("", bits // 8, False)),
            (f"{store}_b{bits}_d16_hi", Move("", bits // 8, False, half=1)),
        ]
    for bits in (32, 64):
        infix = "_2addr" if gfx12 else "2"
        for op, is_load in ((load, True), (store, False)):
            found.append((f"{op}{infix}_b{bits}", Move("", bits // 8, is_load, second=bits // 8)))
    return found


def registers(first: int, size: int) -> str:
    """A tuple of `size` bytes."""
    return f"v[{first}:{first + size // 4 - 1}]" if size > 4 else f"v{first}"


def moves(arch: str, space: str, rng: random.Random) -> list[tuple[Move, int]]:
    """Instructions with the byte of the cell at which they start."""
    gfx12 = not arch.startswith("gfx9")
    found = []
    for name, m in lds_moves(gfx12) if space == "ds" else vector_moves(gfx12):
        for at in (0, rng.choice([1, 2, 3, 5, 7, 9])):
            size = m.bytes * (2 if m.second >= 0 else 1)
            # LDS offsets of pairs count elements.
            reg = registers(20 if m.load else 8, size)
            if m.second >= 0:
                unit = rng.choice([0, 1])
                at = unit * m.bytes
                data = reg if m.load else f"{registers(8, m.bytes)}, {registers(8 + m.bytes // 4, m.bytes)}"
                text = f"ds_{name} {data}, v1 offset0:{unit} offset1:{unit + 1}" if m.load else (
                    f"ds_{name} v1, {data} offset0:{unit} offset1:{unit + 1}")
            elif space == "ds":
                text = f"ds_{name} {reg}, v1 offset:{at}" if m.load else f"ds_{name} v1, {reg} offset:{at}"
            elif space == "buffer":
                text = f"buffer_{name} {reg}, v1, s[12:15], {'null' if gfx12 else '0'} offen offset:{at}"
            else:
                place, base = ("v1", ", s[6:7]") if space == "global" else ("v[2:3]", "")
                text = f"{space}_{name} {reg}, {place}{base} offset:{at}" if m.load else (
                    f"{space}_{name} {place}, {reg}{base} offset:{at}")
            found.append((Move(text, m.bytes, m.load, m.signed, m.half, m.second), at))
    return found


def kernel(chosen: list[tuple[Move, int]], space: str, arch: str, mask: int) -> str:
    """Each instruction under a partial EXEC; registers v20..v23 begin as v8..v11."""
    gfx12 = not arch.startswith("gfx9")
    four, ds = ("b128", ("store", "load")) if gfx12 else ("dwordx4", ("write", "read"))
    wait = wait_all(arch)
    text = "  v_lshlrev_b32 v1, 3, v0\n  v_lshlrev_b32 v4, 2, v0\n"
    for move, _ in chosen:
        text += lane_address(arch) + open_descriptor(arch)
        text += "".join(f"  v_mov_b32 v{20 + k}, v{8 + k}\n" for k in range(4))
        if space == "ds":
            text += f"  global_load_{four} v[24:27], v1, s[6:7]\n"
            text += f"  global_load_{four} v[28:31], v1, s[6:7] offset:16\n{wait}"
            text += f"  ds_{ds[0]}_b128 v1, v[24:27]\n  ds_{ds[0]}_b128 v1, v[28:31] offset:16\n{wait}"
        text += f"  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {mask >> 32:#x}\n"
        text += f"  {move.text}\n{wait}  s_mov_b64 exec, -1\n"
        if space == "ds":
            text += f"  ds_{ds[1]}_b128 v[24:27], v1\n  ds_{ds[1]}_b128 v[28:31], v1 offset:16\n{wait}"
            text += (
                f"  global_store_{four} v1, v[24:27], s[6:7]\n  global_store_{four} v1, v[28:31], s[6:7] offset:16\n"
            )
        text += f"  global_store_{four} v4, v[20:23], s[6:7] offset:2048\n{wait}"
        text += f"  s_add_u32 s6, s6, {BLOCK}\n  s_addc_u32 s7, s7, 0\n"
    return text


def after_load(move: Move, at: int, cell: bytes, old: list[int]) -> list[int]:
    """Registers v20..v23 of an active lane."""
    size = move.bytes * (2 if move.second >= 0 else 1)
    part = cell[at : at + size]
    if size >= 4:
        words = [int.from_bytes(part[k : k + 4], "little") for k in range(0, size, 4)]
        return words + old[len(words) :]
    value = int.from_bytes(part, "little", signed=move.signed) & 0xFFFFFFFF
    if move.half == 0:
        value = old[0] & 0xFFFF0000 | value & 0xFFFF
    elif move.half == 1:
        value = old[0] & 0xFFFF | value << 16 & 0xFFFF0000
    return [value, *old[1:]]


@pytest.mark.parametrize("space", ["global", "flat", "buffer", "ds"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_loads_and_stores(sim, build_dir, arch, space):
    """Memory and registers afterwards, in active and in inactive lanes."""
    wave = 64 if arch.startswith("gfx9") else 32
    mask = MASKS[wave][1]
    rng = random.Random(f"{arch}{space}")
    candidates = moves(arch, space, rng)
    wrong = invalid_lines(arch, [m.text for m, _ in candidates])
    chosen = [c for n, c in enumerate(candidates) if n not in wrong]
    assert len(chosen) >= 42, [candidates[n][0].text for n in wrong]
    text = module_text(arch, [Program("moves", kernel(chosen, space, arch, mask), 4, 20, 0)], wave)
    text = text.replace(".group_segment_fixed_size: 0", ".group_segment_fixed_size: 2048")
    more = "\n  .amdhsa_group_segment_fixed_size 2048\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), arch, build_dir))
    data = np.random.default_rng(1).integers(0, 2**32, (4, 64), np.uint32)
    out = np.random.default_rng(2).integers(0, 256, (len(chosen), BLOCK), np.uint8)
    before = out.copy()
    sim.launch(sim.function(module, "moves"), (1,), (wave,), [data, out])
    for n, (move, at) in enumerate(chosen):
        for lane in range(wave):
            active, here = mask >> lane & 1, slice(CELL * lane, CELL * (lane + 1))
            cell, old = before[n, here].tobytes(), data[:, lane].tolist()
            got = out[n, 2048 + 16 * lane : 2064 + 16 * lane].view(np.uint32).tolist()
            want = after_load(move, at, cell, old) if move.load and active else old
            assert got == want, f"{move.text}: lane {lane}: {[hex(v) for v in got]}, expected {[hex(v) for v in want]}"
            if not move.load and active:
                source = b"".join(v.to_bytes(4, "little") for v in old)[2 if move.half == 1 else 0 :]
                size = move.bytes * (2 if move.second >= 0 else 1)
                cell = cell[:at] + source[:size] + cell[at + size :]
            assert out[n, here].tobytes() == cell, f"{move.text}: lane {lane} left {out[n, here].tobytes().hex()}"


@pytest.mark.parametrize("size", [4, 8, 16])
def test_lanes_that_wrap_around_the_address_space(sim, build_dir, size):
    """Lanes side by side across address 0, beside lanes in an array: the bounds of the wave do not hide the former."""
    words = {4: "", 8: "x2", 16: "x4"}[size]
    code = f"  global_load_dword{words} v[12:{11 + size // 4}], v[8:9], off\n" + wait_all("gfx942")
    bench = Bench(sim, "gfx942", [Program("k", code.replace("v[12:12]", "v12"), 2, 12, 1)], build_dir)
    array = np.zeros(4096, np.uint32)
    lanes = np.arange(64, dtype=np.uint64)
    low, high = lanes * np.uint64(size), np.uint64(array.ctypes.data) + lanes * np.uint64(size)
    for wrapping in (lanes < 32, lanes >= 32):
        low_lanes = low - np.uint64(size) * (lanes[wrapping][0] + np.uint64(1))  # modulo 2**64: one lane below 0
        address = np.where(wrapping, low_lanes, high)
        rows = np.stack([address & np.uint64(0xFFFFFFFF), address >> np.uint64(32)]).astype(np.uint32)
        with pytest.raises(SimError, match=rf"lane {lanes[wrapping][0]}: read of {size} bytes at 0xffffffff"):
            bench.run("k", rows)


PAIRS, TIMES = 1024, 300_000  # bytes to the pairs, behind results; rounds of the kernel


@pytest.mark.parametrize("mask", (0x5, -1))
def test_a_pair_is_never_seen_in_halves(sim, build_dir, mask):
    """An aligned access of 64 bits is a single one: who polls it sees the old value or the new one."""
    code = f"""  s_mov_b32 s20, {TIMES}
  v_lshlrev_b32 v2, 2, v0
  v_mov_b32 v20, 0
  v_mov_b32 v24, 0
  s_mov_b64 s[22:23], exec
  s_mov_b64 exec, {mask}
again:
  v_add_u32 v20, 1, v20
  v_mov_b32 v21, v20
  global_store_dwordx2 v2, v[20:21], s[6:7] offset:{PAIRS}
  global_load_dwordx2 v[22:23], v2, s[4:5] offset:{PAIRS}
  s_waitcnt vmcnt(0)
  v_xor_b32 v22, v22, v23
  v_or_b32 v24, v24, v22
  s_sub_u32 s20, s20, 1
  s_cmp_lg_u32 s20, 0
  s_cbranch_scc1 again
  s_mov_b64 exec, s[22:23]"""
    bench = Bench(sim, "gfx942", [Program("pairs", code, 0, 24, 1)], build_dir)
    given, stored = (np.zeros((PAIRS + 64 * 16) // 8, np.uint64) for _ in range(2))
    run = threading.Thread(target=lambda: sim.launch(
        sim.function(bench.module, "pairs"), (1,), (64,), [given, stored]))
    place, halves, seen = PAIRS // 8, 1 | 1 << 32, set()
    run.start()
    turn = 0
    while run.is_alive():
        turn = (turn + 1) & 0xFFFF
        given[place] = turn * halves
        seen.add(int(stored[place]))
    run.join()
    assert int(stored[place]) == TIMES * halves
    assert all(value % halves == 0 for value in seen)
    assert not stored.view(np.uint32)[:64].any()  # of all loads of the kernel
