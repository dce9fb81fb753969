"""LDS instructions beyond plain loads, stores and atomics: pairs at a distance, masked and conditional exchanges,
counters, lane numbers as addresses, lane exchange, transposing loads; the whole LDS and the results are compared."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Bench, Program, module_text, wait_all
from hiplib import SimError, assemble
from test_valu import MASKS, invalid_lines

SIZE = 8192  # bytes of LDS
OLD = 20  # v20..v23 receive results; they begin as v8..v11
BASE = 64  # M0


@dataclass
class Wave:
    """What an instruction works on: LDS, registers v0.. as lists of lanes, active lanes."""

    lds: bytearray
    regs: dict[int, list[int]]
    active: list[int]
    lanes: int

    def read(self, at: int, size: int) -> int:
        """Unsigned value at a byte; zero outside the allocation."""
        return int.from_bytes(self.lds[at : at + size], "little") if 0 <= at <= SIZE - size else 0

    def write(self, at: int, size: int, value: int) -> None:
        """Dropped outside the allocation."""
        if 0 <= at <= SIZE - size:
            self.lds[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")

    def get(self, first: int, size: int, lane: int) -> int:
        """A register tuple."""
        return sum(self.regs[first + k][lane] << 32 * k for k in range(size // 4))

    def put(self, first: int, size: int, lane: int, value: int) -> None:
        """Sets a register tuple."""
        for k in range(size // 4):
            self.regs[first + k][lane] = value >> 32 * k & 0xFFFFFFFF


Effect = Callable[[Wave], None]


@dataclass(frozen=True)
class Case:
    """An instruction and its effect; v1 is the lane's address, v8..v11 hold data."""

    text: str
    effect: Effect
    full: bool = False  #: defined for a full EXEC only


def v(first: int, size: int) -> str:
    """A register tuple of `size` bytes."""
    return f"v[{first}:{first + size // 4 - 1}]" if size > 4 else f"v{first}"


def pairs(gfx12: bool) -> list[Case]:
    """Two elements at offsets that count elements, or 64 of them."""
    found = []
    for size in (4, 8):
        for far in (1, 64):
            for o0, o1 in ((0, 1), (3, 2), (5, 200), (1, 1)):
                first, second = o0 * size * far, o1 * size * far
                bits, tail = 8 * size, ("_stride64" if gfx12 else "st64") if far > 1 else ""
                ld, st, xchg = ("load_2addr", "store_2addr", "storexchg_2addr") if gfx12 else (
                    "read2", "write2", "wrxchg2")
                offsets = f"offset0:{o0} offset1:{o1}"

                def load(w: Wave, size: int = size, at: tuple = (first, second)) -> None:
                    for lane in w.active:
                        for k in (0, 1):
                            w.put(OLD + k * size // 4, size, lane, w.read(w.regs[1][lane] + at[k], size))

                def store(w: Wave, size: int = size, at: tuple = (first, second)) -> None:
                    for lane in w.active:
                        for k in (0, 1):
                            w.write(w.regs[1][lane] + at[k], size, w.get(8 + k * size // 4, size, lane))

                def exchange(w: Wave, size: int = size, at: tuple = (first, second)) -> None:
                    for lane in w.active:
                        for k in (0, 1):
                            old = w.read(w.regs[1][lane] + at[k], size)
                            w.write(w.regs[1][lane] + at[k], size, w.get(8 + k * size // 4, size, lane))
                            w.put(OLD + k * size // 4, size, lane, old)

                data = f"{v(8, size)}, {v(8 + size // 4, size)}"
                out = v(OLD, 2 * size)
                found.append(Case(f"ds_{ld}{tail}_b{bits} {out}, v1 {offsets}", load))
                found.append(Case(f"ds_{st}{tail}_b{bits} v1, {data} {offsets}", store))
                found.append(Case(f"ds_{xchg}{tail}_rtn_b{bits} {out}, v1, {data} {offsets}", exchange))
    return found


def exchanges() -> list[Case]:
    """Read-modify-write with two data operands, with and without result."""

    def rmw(size: int, f: Callable[[int, int, int], int], returns: bool, at: int) -> Effect:
        def effect(w: Wave) -> None:
            for lane in w.active:
                place = w.regs[1][lane] + at
                old = w.read(place, size)
                w.write(place, size, f(old, w.get(8, size, lane), w.get(8 + size // 4, size, lane)))
                if returns:
                    w.put(OLD, size, lane, old)

        return effect

    def same(fmt: str, size: int) -> Callable[[int, int, int], int]:
        def f(old: int, compare: int, new: int) -> int:
            a, b = (struct.unpack(fmt, x.to_bytes(size, "little"))[0] for x in (old, compare))
            return new if a == b else old

        return f

    found = []
    for size in (4, 8):
        bits, data = 8 * size, f"{v(8, size)}, {v(8 + size // 4, size)}"
        for returns in (False, True):
            for at in (0, 8, SIZE - 512):
                head = f"_rtn_{{}}{bits} {v(OLD, size)}, v1" if returns else f"_{{}}{bits} v1"
                tail = f", {data} offset:{at}"

                def merge(old: int, mask: int, new: int) -> int:
                    return old & ~mask | new

                found.append(Case("ds_mskor" + head.format("b") + tail, rmw(size, merge, returns, at)))
                compare = same("<f" if size == 4 else "<d", size)
                found.append(Case("ds_cmpst" + head.format("f") + tail, rmw(size, compare, returns, at)))

    def arrive(returns: bool) -> Effect:
        """At a barrier object: pending arrivals [28:0], phase [31:29], those that a phase begins with [60:32]."""

        def effect(w: Wave) -> None:
            for lane in w.active:
                at = w.regs[1][lane] + 8
                old = w.read(at, 8)
                pending, phase, start = old % (1 << 29), old >> 29 & 7, old >> 32 & (1 << 29) - 1
                left = pending - (w.get(8, 8, lane) if returns else 1)
                pending, phase = (left, phase) if left >= 0 else (start, (phase - 1) % 8)
                w.write(at, 8, old >> 32 << 32 | phase << 29 | pending)
                if returns:
                    w.put(OLD, 8, lane, old)

        return effect

    found.append(Case("ds_atomic_async_barrier_arrive_b64 v1 offset:8", arrive(False)))
    found.append(Case("ds_atomic_barrier_arrive_rtn_b64 v[20:21], v1, v[8:9] offset:8", arrive(True)))

    def wrap(old: int, limit: int, step: int) -> int:
        return old - limit if old >= limit else old + step

    found.append(Case("ds_wrap_rtn_b32 v20, v1, v8, v9 offset:4", rmw(4, wrap, True, 4)))

    def conditional(w: Wave) -> None:
        for lane in w.active:
            for k in (0, 1):
                at, new = (w.regs[1][lane] + 8 & 0xFFF8) + 4 * k, w.regs[8 + k][lane]
                w.regs[OLD + k][lane] = w.read(at, 4)
                if new >> 31:
                    w.write(at, 4, new & 0x7FFFFFFF)

    found.append(Case("ds_condxchg32_rtn_b64 v[20:21], v1, v[8:9] offset:8", conditional))
    return found


def counters(gfx12: bool) -> list[Case]:
    """One counter for the wave; addresses made of M0 and the lane number."""
    found = []
    for name, sign in (("append", 1), ("consume", -1)):

        def count(w: Wave, sign: int = sign) -> None:
            old = w.read(BASE + 12, 4)
            w.write(BASE + 12, 4, old + sign * len(w.active))
            for lane in w.active:
                w.regs[OLD][lane] = old

        found.append(Case(f"ds_{name} v20 offset:12", count))
    for at in (0, 16, SIZE - BASE - 40):

        def load(w: Wave, at: int = at) -> None:
            for lane in w.active:
                w.regs[OLD][lane] = w.read(BASE + at + 4 * lane, 4)

        def store(w: Wave, at: int = at) -> None:
            for lane in w.active:
                w.write(BASE + at + 4 * lane, 4, w.regs[8][lane])

        ld, st = ("load", "store") if gfx12 else ("read", "write")
        found.append(Case(f"ds_{ld}_addtid_b32 v20 offset:{at}", load))
        found.append(Case(f"ds_{st}_addtid_b32 v8 offset:{at}", store))
    found.append(Case("ds_nop", lambda w: None))
    return found


def lane_exchange(gfx12: bool) -> list[Case]:
    """Permutes through the LDS unit, which leave the LDS alone; v12 holds any number."""
    found = []
    for at in (0, 4, 20):
        for fetch in (False, True):

            def pull(w: Wave, at: int = at, fetch: bool = fetch) -> None:
                given = {lane: w.regs[8][lane] for lane in (range(w.lanes) if fetch else w.active)}
                for lane in w.active:
                    w.regs[OLD][lane] = given.get((w.regs[12][lane] + at) // 4 % w.lanes, 0)

            found.append(Case(f"ds_bpermute{'_fi' * fetch}_b32 v20, v12, v8 offset:{at}", pull))

        def push(w: Wave, at: int = at) -> None:
            given = {(w.regs[12][lane] + at) // 4 % w.lanes: w.regs[8][lane] for lane in w.active}
            for lane in w.active:
                w.regs[OLD][lane] = given.get(lane, 0)

        found.append(Case(f"ds_permute_b32 v20, v12, v8 offset:{at}", push))

    def swizzle(source: Callable[[int], int]) -> Effect:
        def effect(w: Wave) -> None:
            given = {lane: w.regs[8][lane] for lane in w.active}
            for lane in w.active:
                w.regs[OLD][lane] = given.get(lane & ~31 | source(lane & 31), 0)

        return effect

    for keep, put, flip in ((0x1F, 0, 0x10), (0x18, 3, 0), (0x1F, 0, 7), (0x1E, 1, 5), (0x0B, 4, 9)):
        code = keep | put << 5 | flip << 10
        found.append(Case(f"ds_swizzle_b32 v20, v8 offset:{code:#x}",
                          swizzle(lambda n, k=keep, p=put, f=flip: (n & k | p) ^ f)))
    for quad in ((1, 0, 3, 2), (2, 2, 0, 1), (3, 3, 3, 3)):
        code = 0x8000 | sum(q << 2 * k for k, q in enumerate(quad))
        found.append(Case(f"ds_swizzle_b32 v20, v8 offset:{code:#x}", swizzle(lambda n, q=quad: n & ~3 | q[n & 3])))
    for amount, right, keep in ((1, 0, 0), (5, 0, 0), (5, 1, 0), (3, 0, 24), (2, 1, 28)):

        def rotate(n: int, by: int = -amount if right else amount, keep: int = keep) -> int:
            return n & keep | (n + by) & ~keep & 31

        code = 0xC000 | right << 10 | amount << 5 | keep
        found.append(Case(f"ds_swizzle_b32 v20, v8 offset:{code:#x}", swizzle(rotate)))
    return found


def transposes() -> list[Case]:
    """Lane groups exchange elements of their rows: see docs/concepts of the matrix layouts."""
    sources: dict[str, tuple[int, Callable[[int, int], int], int]] = {
        "read_b64_tr_b16": (16, lambda n, j: 16 * (n // 16) + 4 * j + n % 16 // 4, 4),
        "read_b64_tr_b8": (8, lambda n, j: 16 * (n // 16) + 2 * j + n % 16 // 8, 8),
        "read_b64_tr_b4": (4, lambda n, j: 16 * (n // 16) + j, 16),
        "read_b96_tr_b6": (6, lambda n, j: 16 * (n // 16) + j, 16),
        "load_tr16_b128": (16, lambda n, j: 8 * (n // 8) + j, 8),
        "load_tr8_b64": (8, lambda n, j: 16 * (n // 16) + 8 * (j // 4) + 4 * (n // 8 % 2) + j % 4, 8),
        "load_tr4_b64": (4, lambda n, j: 16 * (j // 8) + 8 * (n // 16) + j % 8, 16),
        "load_tr6_b96": (6, lambda n, j: 8 * (j // 4) + j % 4 + 4 * (n // 16), 16),
    }
    found = []
    for name, (bits, source, row) in sources.items():
        size = 12 if "b96" in name else 16 if "b128" in name else 8

        def effect(w: Wave, bits: int = bits, source: Callable = source, row: int = row, size: int = size) -> None:
            rows = [w.read(w.regs[1][lane], size) for lane in range(w.lanes)]
            for lane in range(w.lanes):
                shift, mask = bits * (lane % row), (1 << bits) - 1
                slots = [rows[source(lane, j)] >> shift & mask for j in range(8 * size // bits)]
                w.put(OLD, size, lane, sum(e << bits * j for j, e in enumerate(slots)))

        found.append(Case(f"ds_{name} {v(OLD, size)}, v1", effect, True))
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1200", "gfx1201", "gfx1250"])
def test_lds_forms(sim, build_dir, arch):
    """Each instruction that the architecture has, under a full and a partial EXEC."""
    gfx12 = arch.startswith("gfx12")
    wave = 32 if gfx12 else 64
    candidates = pairs(gfx12) + exchanges() + counters(gfx12) + lane_exchange(gfx12) + transposes()
    wrong = invalid_lines(arch, [c.text for c in candidates])
    full, part = MASKS[wave]
    chosen = [(c, m) for n, c in enumerate(candidates) if n not in wrong for m in ((full,) if c.full else (full, part))]
    assert len(chosen) >= 150, len(chosen)
    four, ds = ("b128", ("store", "load")) if gfx12 else ("dwordx4", ("write", "read"))
    steps, wait = SIZE // (16 * wave), wait_all(arch)
    code = f"  s_mov_b32 m0, {BASE}\n  v_lshlrev_b32 v4, 2, v0\n  v_lshlrev_b32 v5, 2, v0\n"
    code += "".join(f"  v_add_nc_u32 v{30 + k}, v4, {16 * wave * k}\n".replace("_nc", "_nc" if gfx12 else "").replace(
        f"v4, {16 * wave * k}", f"{16 * wave * k}, v4") for k in range(steps))
    for case, mask in chosen:
        for k in range(steps):
            code += f"  global_load_{four} v[24:27], v{30 + k}, s[6:7]\n{wait}  ds_{ds[0]}_b128 v{30 + k}, v[24:27]\n"
        code += "".join(f"  v_mov_b32 v{OLD + k}, v{8 + k}\n" for k in range(4)) + "  v_mov_b32 v1, v13\n"
        code += f"{wait}  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {mask >> 32:#x}\n"
        code += f"  {case.text}\n{wait}  s_mov_b64 exec, -1\n"
        for k in range(steps):
            code += f"  ds_{ds[1]}_b128 v[24:27], v{30 + k}\n{wait}  global_store_{four} v{30 + k}, v[24:27], s[6:7]\n"
        code += f"  s_add_u32 s6, s6, {SIZE}\n  s_addc_u32 s7, s7, 0\n  global_store_{four} v4, v[20:23], s[6:7]\n"
        code += "  s_add_u32 s6, s6, 1024\n  s_addc_u32 s7, s7, 0\n"
    text = module_text(arch, [Program("forms", code, 6, 20, 0)], wave)
    text = text.replace(".group_segment_fixed_size: 0", f".group_segment_fixed_size: {SIZE}")
    more = f"\n  .amdhsa_group_segment_fixed_size {SIZE}\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), arch, build_dir))
    rng = random.Random(arch)
    order = list(range(wave))
    rng.shuffle(order)
    data = np.array([[rng.getrandbits(32) for _ in range(64)] for _ in range(6)], np.uint32)
    data[5, :wave] = 16 * np.array(order)  # v13: addresses
    data[0, ::5], data[0, 1::7] = 0, 0x80000000  # zeros of both signs for comparisons of floats
    out = np.random.default_rng(8).integers(0, 256, (len(chosen), SIZE + 1024), np.uint8)
    for lane in range(wave):  # some cells hold what is compared with, or zeros
        at = 16 * order[lane]
        if lane % 2:
            out[:, at : at + 8] = data[0:2, lane].copy().view(np.uint8)
        if lane % 5 == 0:
            out[:, at : at + 8] = 0
    before = out.copy()
    sim.launch(sim.function(module, "forms"), (1,), (wave,), [data, out])
    for n, (case, mask) in enumerate(chosen):
        regs = {8 + k: data[k, :wave].tolist() for k in range(6)} | {OLD + k: data[k, :wave].tolist() for k in range(4)}
        regs[1] = regs[13]
        w = Wave(bytearray(before[n, :SIZE].tobytes()), regs, [k for k in range(wave) if mask >> k & 1], wave)
        case.effect(w)
        got = out[n, SIZE : SIZE + 16 * wave].view(np.uint32).reshape(wave, 4)
        for lane in range(wave):
            want = [w.regs[OLD + k][lane] for k in range(4)]
            assert got[lane].tolist() == want, (case.text, hex(mask), lane, got[lane], want)
        assert out[n, :SIZE].tobytes() == bytes(w.lds), (case.text, hex(mask))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_the_result_of_a_read_may_replace_its_address(sim, build_dir, arch):
    """The address is the k-th register of the result, in reads of four dwords and of two pairs."""
    gfx12 = arch.startswith("gfx12")
    write, *reads = (["ds_store_b32", "ds_load_b128", "ds_load_2addr_b64"] if gfx12 else
                     ["ds_write_b32", "ds_read_b128", "ds_read2_b64"])
    code = f"  {write} v0, v8\n  v_and_b32 v1, 0x1c, v0\n  v_lshlrev_b32 v1, 2, v1\n{wait_all(arch)}"
    for n, (k, (read, pair)) in enumerate((k, form) for form in zip(reads, ("", " offset0:0 offset1:1"), strict=True)
                                          for k in range(4)):
        first = 20 + 4 * n
        code += f"  v_mov_b32 v{first + k}, v1\n  {read} {v(first, 16)}, v{first + k}{pair}\n"
    wave = 32 if gfx12 else 64
    text = module_text(arch, [Program("beside", code + wait_all(arch), 1, 20, 32)], wave)
    text = text.replace("group_segment_fixed_size: 0", "group_segment_fixed_size: 256")
    more = "\n  .amdhsa_group_segment_fixed_size 256\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), arch, build_dir))
    words, out = np.arange(64, dtype=np.uint32)[None] * 5 + 7, np.zeros((32, 64), np.uint32)
    sim.launch(sim.function(module, "beside"), (1,), (wave,), [words, out])
    want = np.array([words[0, np.arange(wave) % 8 * 4 + j] for j in range(4)])
    for n in range(8):
        np.testing.assert_array_equal(out[4 * n : 4 * n + 4, :wave], want)


def test_loads_to_lds_of_gfx90a(sim, build_dir):
    """`global_load_dword ... lds`: the modifier of gfx90a, which its successors have in the name."""
    code = """  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v20, 0
  s_mov_b32 m0, 256
  global_load_dword v1, s[24:25] lds
  s_waitcnt vmcnt(0)
  v_add_u32 v21, 0x100, v0
  ds_read_b32 v20, v21
  s_waitcnt lgkmcnt(0)"""
    # Lane l reads dword 4 l of what the first argument holds, which s[4:5] has been moved on from; v0 is 4 l.
    code = "  s_sub_u32 s24, s4, 0x400\n  s_subb_u32 s25, s5, 0\n" + code
    program = Program("to_lds", code, 4, 20, 1)
    text = module_text("gfx90a", [program], 64).replace("group_segment_fixed_size: 0", "group_segment_fixed_size: 1024")
    text = text.replace(".amdhsa_kernel to_lds\n", ".amdhsa_kernel to_lds\n  .amdhsa_group_segment_fixed_size 1024\n")
    sim.set_arch("gfx90a")
    module = sim.load(assemble(text, "gfx90a", build_dir))
    words = np.arange(1, 257, dtype=np.uint32).reshape(4, 64) * 3
    out = np.full((1, 64), 0xDEADBEEF, np.uint32)
    sim.launch(sim.function(module, "to_lds"), (1,), (64,), [words, out])
    assert np.array_equal(out[0], words.ravel()[::4])


def test_stores_from_lds_of_gfx90a(sim, build_dir):
    """`buffer_store_lds_dword`: each active lane's dword of LDS to the address that the descriptor gives the lane."""
    records, stride = 0, 8  # a descriptor that adds the number of the lane checks no range
    code = f"""  ds_write_b32 v0, v8 offset:256
  s_waitcnt lgkmcnt(0)
  s_sub_u32 s24, s4, 0x100
  s_subb_u32 s25, s5, 0
  s_or_b32 s25, s25, {stride << 16}
  s_mov_b32 s26, {records}
  s_mov_b32 s27, {1 << 23}
  s_mov_b32 m0, 240
  s_mov_b32 s20, 4
  s_mov_b32 exec_hi, 0xffff
  buffer_store_lds_dword s[24:27], s20 offset:16 lds
  s_waitcnt vmcnt(0)
  s_mov_b32 exec_hi, -1
  v_mov_b32 v20, 0"""
    # Lane l stores at 8 l + 4 + 16 of the first argument, which s[4:5] has been moved on from; v0 is 4 l.
    program = Program("from_lds", code, 1, 20, 1)
    text = module_text("gfx90a", [program], 64).replace("group_segment_fixed_size: 0", "group_segment_fixed_size: 512")
    more = "\n  .amdhsa_group_segment_fixed_size 512\n.end_amdhsa_kernel"
    text = text.replace("\n.end_amdhsa_kernel", more)
    sim.set_arch("gfx90a")
    module = sim.load(assemble(text, "gfx90a", build_dir))
    data = np.zeros((4, 64), np.uint32)
    data[0] = np.arange(1, 65) * 7
    want = data.ravel().copy()
    for lane in range(48):
        want[(8 * lane + 4 + 16) // 4] = (lane + 1) * 7
    sim.launch(sim.function(module, "from_lds"), (1,), (64,), [data, np.zeros((1, 64), np.uint32)])
    assert np.array_equal(data.ravel(), want)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_transposing_reads_need_aligned_lanes(sim, build_dir, bits):
    """A lane whose address is no multiple of eight bytes is named, unless it is switched off."""
    lane, cases = 37, {"aligned": (0, -1), "off": (2, ~(1 << 37)), "odd": (2, -1)}
    programs = [
        Program(name, f"""  v_lshlrev_b32 v1, 1, v0
  v_cmp_eq_u32 vcc, {4 * lane}, v0
  v_cndmask_b32 v2, 0, {odd}, vcc
  v_add_u32 v1, v1, v2
  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}
  s_mov_b32 exec_hi, {mask >> 32 & 0xFFFFFFFF:#x}
  ds_read_b64_tr_b{bits} v[2:3], v1 offset:16
  s_waitcnt lgkmcnt(0)
  s_mov_b64 exec, -1
""", 0, 1, 2) for name, (odd, mask) in cases.items()]  # fmt: skip
    bench = Bench(sim, "gfx950", programs, build_dir)
    for name in ("aligned", "off"):
        bench.run(name, np.zeros((0, 64), np.uint32))
    with pytest.raises(SimError, match=rf"lane {lane}: .* misaligned offset {8 * lane + 2 + 16}\b"):
        bench.run("odd", np.zeros((0, 64), np.uint32))
