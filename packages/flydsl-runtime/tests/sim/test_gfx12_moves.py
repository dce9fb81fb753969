"""Moves of gfx12 and gfx1250: asynchronous copies, transposing and monitored loads, blocks, lanes as addresses."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Program, module_text, wait_all
from hiplib import assemble
from test_valu import MASKS, invalid_lines

CELL, LDS = 128, 4096  # bytes of a lane in memory; bytes of LDS
OLD, COUNT = 64, 32  # v64..v95 receive results and begin as 1000 * register + lane
M0 = 0x80010321


@dataclass
class Machine:
    """Memory (a cell of a lane each), LDS, and the registers from v64 of each lane."""

    memory: bytearray
    lds: bytearray
    regs: list[list[int]]
    active: list[int]


@dataclass(frozen=True)
class Case:
    """An instruction; v[2:3] is the lane's cell, v1 its offset from s[6:7], v4 the lane's place in LDS."""

    text: str
    effect: Callable[[Machine], None]
    full: bool = False


def word(data: bytearray, at: int) -> int:
    """A dword of memory."""
    return int.from_bytes(data[at : at + 4], "little")


def cases() -> list[Case]:
    """Every instruction; the assembler decides which of them exist."""
    found = []
    sizes = {"b8": 1, "b32": 4, "b64": 8, "b128": 16}
    for name, size in sizes.items():
        for at in (0, 16):
            for place in ("v[2:3], off", "v1, s[6:7]"):

                def load(m: Machine, size: int = size, at: int = at) -> None:
                    for lane in m.active:
                        start = 16 * lane + at
                        m.lds[start : start + size] = m.memory[CELL * lane + at : CELL * lane + at + size]

                def store(m: Machine, size: int = size, at: int = at) -> None:
                    for lane in m.active:
                        start = 16 * lane + at
                        m.memory[CELL * lane + at : CELL * lane + at + size] = m.lds[start : start + size]

                first, second = place.split(", ")
                found.append(Case(f"global_load_async_to_lds_{name} v4, {place} offset:{at}", load))
                found.append(Case(f"global_store_async_from_lds_{name} {first}, v4, {second} offset:{at}", store))
                # Outside a cluster the multicast form copies to the work-group itself.
                found.append(Case(f"cluster_load_async_to_lds_{name} v4, {place} offset:{at}", load))
    for name, words in (("b32", 1), ("b64", 2), ("b128", 4)):

        def plain(m: Machine, words: int = words) -> None:
            for lane in m.active:
                for k in range(words):
                    m.regs[k][lane] = word(m.memory, CELL * lane + 8 + 4 * k)

        out = f"v[{OLD}:{OLD + words - 1}]" if words > 1 else f"v{OLD}"
        found += [Case(f"{kind}_{name} {out}, {place} offset:8", plain) for kind, place in (
            ("cluster_load", "v[2:3], off"), ("cluster_load", "v1, s[6:7]"), ("global_load_monitor", "v[2:3], off"),
            ("flat_load_monitor", "v[2:3]"))]

    def load_block(m: Machine) -> None:
        for lane in m.active:
            for k in range(COUNT):
                if M0 >> k & 1:
                    m.regs[k][lane] = word(m.memory, CELL * lane + 4 * k)

    def store_block(m: Machine) -> None:
        for lane in m.active:
            for k in range(COUNT):
                if M0 >> k & 1:
                    m.memory[CELL * lane + 4 * k : CELL * lane + 4 * k + 4] = m.regs[k][lane].to_bytes(4, "little")

    block = f"v[{OLD}:{OLD + COUNT - 1}]"
    found += [Case(f"global_load_block {block}, v[2:3], off", load_block),
              Case(f"global_load_block {block}, v1, s[6:7]", load_block),
              Case(f"global_store_block v[2:3], {block}, off", store_block)]
    for at in (0, 12):

        def load_tid(m: Machine, at: int = at) -> None:
            for lane in m.active:
                m.regs[0][lane] = word(m.memory, at + 4 * lane)

        def store_tid(m: Machine, at: int = at) -> None:
            for lane in m.active:
                m.memory[at + 4 * lane : at + 4 * lane + 4] = m.regs[0][lane].to_bytes(4, "little")

        found.append(Case(f"global_load_addtid_b32 v{OLD}, s[6:7] offset:{at}", load_tid))
        found.append(Case(f"global_store_addtid_b32 v{OLD}, s[6:7] offset:{at}", store_tid))
    sources: dict[str, tuple[int, Callable[[int, int], int], int, int]] = {
        "tr16_b128|tr_b128": (16, lambda n, j: 8 * (n // 8) + j, 8, 16),
        "tr8_b64|tr_b64": (8, lambda n, j: 16 * (n // 16) + 8 * (j // 4) + 4 * (n // 8 % 2) + j % 4, 8, 8),
        "tr4_b64": (4, lambda n, j: 16 * (j // 8) + 8 * (n // 16) + j % 8, 16, 8),
        "tr6_b96": (6, lambda n, j: 8 * (j // 4) + j % 4 + 4 * (n // 16), 16, 12),
    }
    for names, (bits, source, row, size) in sources.items():

        def transpose(
            m: Machine, bits: int = bits, source: Callable = source, row: int = row, size: int = size
        ) -> None:
            rows = [int.from_bytes(m.memory[CELL * n : CELL * n + size], "little") for n in range(32)]
            for lane in m.active:
                shift, mask = bits * (lane % row), (1 << bits) - 1
                slots = [rows[source(lane, j)] >> shift & mask for j in range(8 * size // bits)]
                value = sum(e << bits * j for j, e in enumerate(slots))
                for k in range(size // 4):
                    m.regs[k][lane] = value >> 32 * k & 0xFFFFFFFF

        for name in names.split("|"):
            found.append(Case(f"global_load_{name} v[{OLD}:{OLD + size // 4 - 1}], v[2:3], off", transpose, True))
    return found


@pytest.mark.parametrize("arch", ["gfx1200", "gfx1201", "gfx1250"])
def test_moves(sim, build_dir, arch):
    """Memory, LDS and registers afterwards, under a full and a partial EXEC."""
    candidates = cases()
    wrong = invalid_lines(arch, [c.text for c in candidates])
    full, part = MASKS[32]
    chosen = [(c, m) for n, c in enumerate(candidates) if n not in wrong for m in ((full,) if c.full else (full, part))]
    assert len(chosen) >= (80 if arch == "gfx1250" else 15), [candidates[n].text for n in wrong]
    wait = wait_all(arch) + ("  s_wait_asynccnt 0x0\n" if arch == "gfx1250" else "")
    code = f"  s_mov_b32 m0, {M0:#x}\n  v_lshrrev_b32 v5, 2, v0\n  v_mul_u32_u24 v1, {CELL}, v5\n"
    code += "  v_lshlrev_b32 v4, 4, v5\n"
    for case, mask in chosen:
        code += "  v_add_co_u32 v2, vcc_lo, s6, v1\n  v_mov_b32 v3, s7\n  v_add_co_ci_u32 v3, vcc_lo, 0, v3, vcc_lo\n"
        for k in range(4):  # 2048 bytes of LDS behind the cells
            code += f"  global_load_b128 v[8:11], v4, s[6:7] offset:{CELL * 32 + 512 * k}\n{wait}"
            code += f"  ds_store_b128 v4, v[8:11] offset:{512 * k}\n"
        code += "".join(f"  v_add_nc_u32 v{OLD + k}, {1000 * k}, v5\n" for k in range(COUNT))
        code += f"{wait}  s_mov_b32 exec_lo, {mask:#x}\n  {case.text}\n{wait}  s_mov_b32 exec_lo, -1\n"
        for k in range(4):
            code += f"  ds_load_b128 v[8:11], v4 offset:{512 * k}\n{wait}"
            code += f"  global_store_b128 v4, v[8:11], s[6:7] offset:{CELL * 32 + 512 * k}\n"
        code += "".join(f"  global_store_b32 v0, v{OLD + k}, s[6:7] offset:{CELL * 32 + 2048 + 128 * k}\n"
                        for k in range(COUNT))
        code += f"{wait}  s_add_co_u32 s6, s6, {CELL * 32 + 2048 + 4096}\n  s_add_co_ci_u32 s7, s7, 0\n"
    text = module_text(arch, [Program("moves", code, 0, 2, 0)], 32)
    text = text.replace(".group_segment_fixed_size: 0", f".group_segment_fixed_size: {LDS}")
    more = f"\n  .amdhsa_group_segment_fixed_size {LDS}\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), arch, build_dir))
    size = CELL * 32 + 2048 + 4096
    out = np.frombuffer(random.Random(arch).randbytes(len(chosen) * size), np.uint8).reshape(-1, size).copy()
    before = out.copy()
    sim.launch(sim.function(module, "moves"), (1,), (32,), [np.zeros(64, np.uint32), out])
    for n, (case, mask) in enumerate(chosen):
        m = Machine(bytearray(before[n, : CELL * 32].tobytes()),
                    bytearray(before[n, CELL * 32 : CELL * 32 + 2048].tobytes()),
                    [[1000 * k + lane for lane in range(32)] for k in range(COUNT)],
                    [k for k in range(32) if mask >> k & 1])
        case.effect(m)
        regs = out[n, CELL * 32 + 2048 :].view(np.uint32).reshape(COUNT, 32)
        np.testing.assert_array_equal(regs, np.array(m.regs, np.uint32), err_msg=case.text)
        assert out[n, CELL * 32 : CELL * 32 + 2048].tobytes() == bytes(m.lds), (case.text, "LDS")
        assert out[n, : CELL * 32].tobytes() == bytes(m.memory), (case.text, "memory")
