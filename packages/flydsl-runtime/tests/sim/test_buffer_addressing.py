"""Where buffer instructions go: strides, swizzles, the lane number as index, and every rule of the range check.

Each lane loads a dword whose value is its own place in memory; stores and atomics show what is dropped.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Program, module_text, wait_all
from hiplib import assemble
from test_valu import MASKS, invalid_lines

WORDS = 16384  # dwords of the memory behind the descriptor
MIDDLE = 4096  # byte of it at which the buffer begins


@dataclass(frozen=True)
class Descriptor:
    """The fields of a resource that decide about addresses."""

    stride: int = 0
    records: int = 1 << 20
    swizzle: int = 0  #: gfx12: 1 is elements of 4 bytes, 3 of 16
    index_stride: int = 0  #: 8 << this
    add_tid: int = 0
    select: int = 0  #: gfx12's OOB_SELECT

    def words(self, arch: str) -> tuple[int, int, int]:
        """What is added to the upper half of the base, and dwords 2 and 3."""
        if arch == "gfx1250":
            return (self.records & 127) << 25, self.records >> 7 & 0xFFFFFFFF, self.stride << 12
        gfx12 = arch.startswith("gfx12")
        upper = (self.stride & 0x3FFF) << 16 | (self.swizzle << 30 if gfx12 else (self.swizzle & 1) << 31)
        flags = self.index_stride << 21 | self.add_tid << 23
        if gfx12:
            return upper, self.records, flags | self.select << 28 | 0x16000
        # With the lane number added, the data format is bits 17:14 of the stride.
        return upper, self.records, flags | ((self.stride >> 14) << 15 if self.add_tid else 0x20000) | 0x7000


@dataclass(frozen=True)
class Use:
    """An instruction: which address registers it has, immediate, scalar offset."""

    index: bool
    offset: bool
    imm: int
    soffset: int
    words: int = 1

    def operands(self, zero: str) -> str:
        """Text behind the data register."""
        if self.index and self.offset:
            address, mode = "v[2:3]", "idxen offen"
        elif self.index or self.offset:
            address, mode = ("v2", "idxen") if self.index else ("v3", "offen")
        else:
            address, mode = "off", ""
        return f"{address}, s[12:15], {'s20' if self.soffset else zero} {mode} offset:{self.imm}"


def place(d: Descriptor, u: Use, arch: str, lane: int, index: int, offset: int) -> tuple[int, list[bool]]:
    """Byte from the buffer's base, and which dwords of the access are in range."""
    gfx12 = arch.startswith("gfx12")
    at = (index if u.index else 0) + (lane if d.add_tid else 0)
    inner = (offset if u.offset else 0) + u.imm
    size = 4 * u.words
    swizzled = d.swizzle and d.stride and arch != "gfx1250"
    if swizzled:
        many, element = 8 << d.index_stride, 16 if gfx12 and d.swizzle == 3 else 4
        byte = ((at // many) * d.stride + inner // element * element) * many + at % many * element + inner % element
    else:
        byte = at * d.stride + inner
    raw = [inner + u.soffset + 4 * (k + 1) <= d.records for k in range(u.words)]
    select = 3 if arch == "gfx1250" else d.select
    if not gfx12:
        if d.add_tid and not u.index:
            good = [True] * u.words
        else:
            good = [at < d.records] * u.words if u.index and d.stride else raw
    elif select == 3 and not swizzled:
        good = raw
    elif select == 2:
        good = [d.records > 0] * u.words
    else:
        fits = select == 1 or not d.stride or inner + size <= d.stride
        good = [at < d.records and fits] * u.words
    return u.soffset + byte, good


def cases(arch: str, rng: random.Random) -> list[tuple[Descriptor, Use]]:
    """Descriptors and instructions; those that would leave the memory are filtered by the caller."""
    gfx12 = arch.startswith("gfx12")
    uses = [Use(i, o, imm, s, w) for i, o in itertools.product((False, True), repeat=2)
            for imm, s, w in ((0, 0, 1), (8, 12, 1), (16, 0, 2), (4, 4, 4))]
    found = [(Descriptor(s, r), u) for s, r, u in itertools.product((0, 16, 48), (1 << 20, 20, 37, 64), uses)]
    if arch == "gfx1250":
        return found
    for swizzle in (1, 3) if gfx12 else (1,):
        for stride in (32, 64):
            found += [(Descriptor(stride, rng.choice([1 << 20, 12, 30]), swizzle, k), u)
                      for k in range(3) for u in uses if u.words == 1 or swizzle == 3 and u.imm % 16 == 0]
    found += [(Descriptor(s, r, w, k, 1), u) for s, r, w, k in ((4, 1 << 20, 0, 0), (16, 40, 0, 0), (32, 1 << 20, 1, 1))
              for u in uses if u.words == 1]
    if gfx12:
        found += [(Descriptor(s, r, 0, 0, 0, select), u) for s in (0, 16, 48) for r in (0, 20, 1 << 20)
                  for select in (0, 1, 2, 3) for u in uses]
    return found


@pytest.mark.parametrize("kind", ["load", "store", "atomic"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_addresses(sim, build_dir, arch, kind):
    """Loads give the words of their places or zero; stores and atomics change exactly those words."""
    gfx12 = arch.startswith("gfx12")
    wave, zero = (32, "null") if gfx12 else (64, "0")
    mask = MASKS[wave][1]
    rng = random.Random(arch)
    index = [rng.randrange(0, 40) for _ in range(64)]
    offset = [4 * rng.randrange(0, 12) for _ in range(64)]
    chosen = []
    for d, u in cases(arch, rng):
        if kind == "atomic" and u.words > 1:
            continue
        spots = [place(d, u, arch, lane, index[lane], offset[lane]) for lane in range(wave)]
        reach = [at for at, good in spots if any(good)]
        if not reach or max(reach) + 16 < 4 * WORDS - MIDDLE:
            chosen.append((d, u, spots))
    rng.shuffle(chosen)
    chosen = chosen[:160]
    text, lines = "  s_mov_b32 s16, s4\n  s_mov_b32 s17, s5\n", []
    width = {1: ("dword", "b32"), 2: ("dwordx2", "b64"), 4: ("dwordx4", "b128")}
    for d, u, _ in chosen:
        upper, two, three = d.words(arch)
        data = "v20" if u.words == 1 else f"v[20:{19 + u.words}]"
        name = "buffer_atomic_add" + ("_u32" * gfx12) if kind == "atomic" else f"buffer_{kind}_{width[u.words][gfx12]}"
        line = f"{name} {data}, {u.operands(zero)}"
        if kind == "atomic":
            line += " th:TH_ATOMIC_RETURN" if gfx12 else " sc0"
        lines.append(line)
        text += f"  s_add_u32 s12, s16, {MIDDLE}\n  s_addc_u32 s13, s17, 0\n"
        text += "  s_and_b32 s13, s13, 0x1ffffff\n" if arch == "gfx1250" else "  s_and_b32 s13, s13, 0xffff\n"
        text += f"  s_or_b32 s13, s13, {upper:#x}\n  s_mov_b32 s14, {two:#x}\n  s_mov_b32 s15, {three:#x}\n"
        text += f"  s_mov_b32 s20, {u.soffset}\n  v_mov_b32 v2, v8\n  v_mov_b32 v3, v9\n"
        text += "".join(f"  v_mov_b32 v{20 + k}, v{10 + k}\n" for k in range(4))
        text += f"  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {mask >> 32:#x}\n  {line}\n"
        text += f"{wait_all(arch)}  s_mov_b64 exec, -1\n  v_lshlrev_b32 v4, 2, v0\n"
        text += f"  global_store_{'b128' if gfx12 else 'dwordx4'} v4, v[20:23], s[6:7]\n{wait_all(arch)}"
        text += "  s_add_u32 s6, s6, 1024\n  s_addc_u32 s7, s7, 0\n"
        if kind != "load":
            text += f"  s_add_u32 s16, s16, {4 * WORDS}\n  s_addc_u32 s17, s17, 0\n"
    assert not invalid_lines(arch, lines)
    assert len(chosen) >= 60
    # The kernel loads its registers from the first rows of its first argument; s[4:5] is the memory behind them.
    sim.set_arch(arch)
    module = sim.load(assemble(module_text(arch, [Program("go", text, 6, 20, 0)], wave), arch, build_dir))
    copies = len(chosen) if kind != "load" else 1
    data = np.zeros(6 * 64 + copies * WORDS, np.uint32)
    rows = data[: 6 * 64].reshape(6, 64)
    rows[0], rows[1] = index, offset
    rows[2:] = np.random.default_rng(1).integers(0, 2**32, (4, 64), np.uint32)
    memory = data[6 * 64 :].reshape(copies, WORDS)
    memory[:] = np.arange(WORDS, dtype=np.uint32) + 0x5000000
    out = np.zeros((len(chosen), 64, 4), np.uint32)
    sim.launch(sim.function(module, "go"), (1,), (wave,), [data, out])
    for n, (d, u, spots) in enumerate(chosen):
        want = np.arange(WORDS, dtype=np.uint32) + 0x5000000
        results = rows[2:].T[:wave].copy()
        for lane in range(wave):
            if not mask >> lane & 1:
                continue
            at, good = spots[lane]
            first = (MIDDLE + at) // 4
            for k in range(u.words):
                if kind == "load":
                    results[lane, k] = want[first + k] if good[k] else 0
                elif kind == "atomic":
                    if good[0]:
                        want[first] = (int(want[first]) + int(rows[2, lane])) & 0xFFFFFFFF
                elif good[k]:
                    want[first + k] = rows[2 + k, lane]
        if kind != "atomic":  # lanes that meet at one word come in any order: their sum alone is fixed
            np.testing.assert_array_equal(out[n, :wave], results, err_msg=f"{lines[n]} {d}")
        if kind != "load":
            np.testing.assert_array_equal(memory[n], want, err_msg=f"{lines[n]} {d}")
