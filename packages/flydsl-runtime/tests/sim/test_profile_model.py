"""Properties of the timing model: removing work never slows it, waits of gfx12, tensor moves, what a trace selects."""

from __future__ import annotations

import ctypes
import json
import random

import numpy as np
import pytest
from asmlib import Bench, Program, module_text
from hiplib import assemble
from test_profile import COUNTERS, TIMING, TRACE, loop, profiled, run_waves

UNITS = {"gfx942": 304, "gfx950": 256, "gfx1201": 64, "gfx1250": 256}
NOISE = 0.05  # greedy issue has the anomalies of list scheduling: 4.2 % is the worst of these programs


class Corpus:
    """Random loop bodies: vector, matrix, transcendental, scalar, LDS and memory operations with their waits."""

    def __init__(self, arch: str, seed: int) -> None:
        self.rng, self.new = random.Random(f"{arch} {seed}"), arch.startswith("gfx12")
        self.arch = arch

    def instruction(self) -> str:
        r, new = self.rng, self.new
        d, a, b = (r.randrange(16, 40) for _ in range(3))
        tile, acc = 64 + 4 * r.randrange(8), 64 + 4 * r.randrange(8)
        if self.arch == "gfx1201":
            k = 96 + 8 * r.randrange(4)
            matrix = f"v_wmma_f32_16x16x16_f16 v[{k}:{k + 7}], v[40:43], v[44:47], v[{k}:{k + 7}]"
        elif self.arch == "gfx1250":
            k = 96 + 8 * r.randrange(4)
            matrix = f"v_wmma_f32_16x16x32_f16 v[{k}:{k + 7}], v[40:47], v[48:55], v[{k}:{k + 7}]"
        else:
            c = r.choice([tile, acc])
            matrix = f"v_mfma_f32_16x16x16_f16 v[{acc}:{acc + 3}], v[40:41], v[44:45], v[{c}:{c + 3}]"
        choices = [
            (6, f"v_fma_f32 v{d}, v{a}, v{b}, v{d}"),
            (3, f"v_add_u32 v{d}, v{a}, v{b}" if not new else f"v_add_nc_u32 v{d}, v{a}, v{b}"),
            (1, f"v_exp_f32 v{d}, v{a}"),
            (1, f"v_mul_lo_u32 v{d}, v{a}, v{b}"),
            (4, matrix),
            (3, f"s_add_u32 s{r.randrange(24, 32)}, s{r.randrange(24, 32)}, 7"),
            (3, f"ds_{'load' if new else 'read'}_b32 v{d}, v9"),
            (2, f"ds_{'store' if new else 'write'}_b32 v9, v{a}"),
            (2, f"global_load_{'b32' if new else 'dword'} v{d}, v0, s[4:5]"),
            (1, f"global_store_{'b32' if new else 'dword'} v0, v{a}, s[6:7] offset:256"),
            (2, ("s_wait_dscnt 0x0" if new else "s_waitcnt lgkmcnt(0)")),
            (2, (f"s_wait_loadcnt 0x{r.randrange(3)}" if new else f"s_waitcnt vmcnt({r.randrange(3)})")),
        ]
        return r.choices([c for _, c in choices], [n for n, _ in choices])[0]

    def body(self) -> list[str]:
        return [self.instruction() for _ in range(self.rng.randrange(8, 40))]


def named_loop(body: list[str], name: str) -> str:
    return loop("\n".join("  " + i for i in body), 12).replace(".Lloop", f".L{name}")


@pytest.mark.parametrize("arch", sorted(UNITS))
def test_removing_an_instruction_never_slows_the_estimate(sim, build_dir, arch):
    """Eight waves on the compute unit: the estimate without one instruction is at most the estimate with it."""
    setup = "  v_lshlrev_b32 v9, 2, v8\n"
    checked = 0
    for seed in range(8):
        corpus = Corpus(arch, seed)
        body = corpus.body()
        removed = corpus.rng.sample(range(len(body)), 6)
        variants = [body, *(body[:k] + body[k + 1 :] for k in removed)]
        names = [f"p{seed}_{n}" for n in range(len(variants))]
        programs = [Program(name, setup + named_loop(v, name), 1, 2, 2)
                    for name, v in zip(names, variants, strict=True)]
        bench = Bench(sim, arch, programs, build_dir)

        def estimate(name, bench=bench):
            (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, name, 8 * UNITS[arch]))
            return p["timing"]["sample_cycles"]

        clocks = [estimate(name) for name in names]
        for k, less in zip(removed, clocks[1:], strict=True):
            assert less <= clocks[0] * (1 + NOISE) + 8, (seed, k, body[k], clocks[0], less)
            checked += 1
    assert checked == 48


WMMA = {"gfx1201": ("v_wmma_f32_16x16x16_f16", 4, 8192, 1024), "gfx1250": ("v_wmma_f32_16x16x32_f16", 8, 16384, 8192)}


@pytest.mark.parametrize("arch", sorted(WMMA))
def test_independent_matrix_operations_of_gfx12_reach_the_peak(sim, build_dir, arch):
    op, width, _, peak = WMMA[arch]
    tiles = [f"v[{48 + 8 * k}:{55 + 8 * k}]" for k in range(8)]
    body = "\n".join(f"  {op} {d}, v[16:{15 + width}], v[32:{31 + width}], {d}" for d in tiles)
    bench = Bench(sim, arch, [Program("peak", loop("\n".join([body] * 24), 20), 1, 2, 1)], build_dir)
    (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, "peak", 8 * UNITS[arch]))
    t = p["timing"]
    assert t["matrix_flops"] / t["sample_cycles"] == pytest.approx(peak, rel=0.02)


def test_waves_of_higher_priority_issue_first(sim, build_dir):
    """Two waves on a SIMD: the older one has vector arithmetic for every clock, the younger one products. Products that
    go first take a slot now and then, and run beside the arithmetic; others wait until it is done."""
    clocks = []
    for priority in (0, 3):
        arithmetic = loop("\n".join(f"  v_fma_f32 v{20 + k}, v8, v8, v8" for k in list(range(8)) * 60), 20)
        products = loop("\n".join(f"  v_wmma_f32_16x16x32_f16 v[{k}:{k + 7}], v[40:47], v[48:55], v[{k}:{k + 7}]"
                                  for k in [64, 72, 80, 88] * 30), 8)
        code = (f"  s_cmp_lt_u32 ttmp9, {4 * UNITS['gfx1250']}\n  s_cbranch_scc0 .Lsecond\n"
                f"{arithmetic.replace('.Lloop', '.Lfirst')}\n  s_branch .Ldone\n.Lsecond:\n"
                f"  s_setprio {priority}\n{products}\n.Ldone:")
        bench = Bench(sim, "gfx1250", [Program("both", code, 1, 64, 1)], build_dir)
        (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, "both", 8 * UNITS["gfx1250"]))  # noqa: B023
        clocks.append(p["timing"]["sample_cycles"])
    assert clocks[1] < 0.75 * clocks[0]


@pytest.mark.parametrize("arch", sorted(UNITS))
def test_a_slot_issues_one_instruction_of_a_kind(sim, build_dir, arch):
    """Four waves on each SIMD that are ready at once and have scalar arithmetic alone: those that lose a turn do not
    catch up in a slot that another has taken."""
    bench = Bench(sim, arch, [Program("slots", loop("  s_add_u32 s24, s24, 7\n" * 50, 4), 1, 2, 1)], build_dir)
    p = selected(sim, None, 0, 400000, lambda: run_waves(sim, bench, "slots", 16 * UNITS[arch]))
    slots = [(simd, start) for inst, _, _, simd, start, *_ in p["events"]
             if p["event_text"][str(inst)].startswith(("s_add_u32 s24", "s_add_co_u32 s24"))]
    assert len(slots) == 16 * 4 * 50 and len(set(slots)) == len(slots)


def wait_clocks(sim, build_dir, arch, operation, wait):
    """Estimated stall of the named wait after one operation of a single wave."""
    code = f"  v_lshlrev_b32 v9, 2, v8\n{operation}\n  {wait}\n"
    bench = Bench(sim, arch, [Program("waits", code, 1, 2, 2)], build_dir)
    (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, "waits", 1))
    (found,) = [i for i in p["instructions"] if i["text"].startswith(wait.split()[0]) and i["address"] > 0
                and i["text"].split()[0] == wait.split()[0]][-1:]
    return sum(found["stall"].values())


@pytest.mark.parametrize("arch", ["gfx1201", "gfx1250"])
@pytest.mark.parametrize("wait,operation", [
    ("s_wait_loadcnt 0x0", "  global_load_b32 v20, v0, s[4:5] offset:1024"),
    ("s_wait_storecnt 0x0", "  global_store_b32 v0, v8, s[6:7]"),
    ("s_wait_dscnt 0x0", "  ds_load_b32 v20, v9"),
    ("s_wait_kmcnt 0x0", "  s_load_b32 s20, s[0:1], 0x0"),
    ("s_wait_loadcnt_dscnt 0x0", "  global_load_b32 v20, v0, s[4:5] offset:1024"),
    ("s_wait_storecnt_dscnt 0x0", "  ds_load_b32 v20, v9"),
    ("s_wait_idle", "  ds_load_b32 v20, v9"),
])
def test_each_wait_of_gfx12_waits_for_its_operations(sim, build_dir, arch, wait, operation):
    assert wait_clocks(sim, build_dir, arch, operation, wait) >= 20
    if wait not in ("s_wait_idle",):
        # With one operation allowed to be outstanding, the same wait holds nothing.
        count = {"s_wait_loadcnt_dscnt": "0x101", "s_wait_storecnt_dscnt": "0x101"}.get(wait.split()[0], "0x1")
        assert wait_clocks(sim, build_dir, arch, operation, f"{wait.split()[0]} {count}") == 0
    other = "s_wait_kmcnt 0x0" if "kmcnt" not in wait else "s_wait_dscnt 0x0"
    assert wait_clocks(sim, build_dir, arch, operation, other) == 0


def test_atomics_wait_at_the_counter_of_their_result(sim, build_dir):
    """gfx12: an atomic that returns a value is a load, one that does not is a store."""
    plain = "  global_atomic_add_u32 v0, v8, s[6:7]"
    back = "  global_atomic_add_u32 v20, v0, v8, s[6:7] th:TH_ATOMIC_RETURN"
    assert wait_clocks(sim, build_dir, "gfx1201", plain, "s_wait_storecnt 0x0") >= 20
    assert wait_clocks(sim, build_dir, "gfx1201", plain, "s_wait_loadcnt 0x0") == 0
    assert wait_clocks(sim, build_dir, "gfx1201", back, "s_wait_loadcnt 0x0") >= 20


ROWS, COLUMNS, PITCH = 16, 64, 96  # a tile of 2-byte elements in a tensor of 20 x 90


def tensor_code(store: bool) -> str:
    """Loads (and stores back) a tile with the tensor data mover; the descriptor is built in scalar registers."""
    rows, columns, bounds = ROWS, COLUMNS, (90, 20)
    group1 = [1 << 16, bounds[0] << 16, bounds[0] >> 16 | bounds[1] << 16, bounds[1] >> 16 | columns << 16, rows,
              PITCH, 0, 0]
    lines = ["  s_mov_b32 s8, 1", "  s_mov_b32 s9, 0", "  s_mov_b32 s10, s4", "  s_and_b32 s11, s5, 0x1ffffff",
             "  s_or_b32 s11, s11, 0x80000000"]
    lines += [f"  s_mov_b32 s{12 + k}, 0x{word & 0xFFFFFFFF:x}" for k, word in enumerate(group1)]
    lines += ["  tensor_load_to_lds s[8:11], s[12:19]", "  s_wait_tensorcnt 0x0"]
    if store:
        lines += ["  tensor_store_from_lds s[8:11], s[12:19]", "  s_wait_tensorcnt 0x0"]
    return "\n".join(lines)


def test_tensor_moves_are_counted_and_timed(sim, build_dir):
    """gfx1250: bytes of the part inside the tensor, LDS bytes of the whole tile, a wait for the mover."""
    program = Program("move", tensor_code(True), 0, 2, 1)
    bench = Bench(sim, "gfx1250", [program], build_dir)
    # At a line of the cache, where a profile places every array, so that it does not depend on the host's allocator.
    room = np.zeros((1 << 16) + 64, np.uint16)
    memory = room[-room.ctypes.data % 128 // 2 :][: 1 << 16]
    out = np.zeros(64, np.uint32)
    module = bench.module

    def run():
        sim.set_arch("gfx1250")
        sim.launch(sim.function(module, "move"), (1,), (32,), [memory, out], lds=ROWS * COLUMNS * 2)

    (p,) = profiled(sim, TRACE, run)
    load, store = (next(i for i in p["instructions"] if i["text"].startswith(f"tensor_{k}")) for k in ("load", "store"))
    assert load["space"] == store["space"] == "tensor" and (load["kind"], store["kind"]) == ("load", "store")
    for move in (load, store):
        assert move["bytes"] == ROWS * COLUMNS * 2 and move["lds_bytes"] == ROWS * COLUMNS * 2
    first = memory.ctypes.data
    sectors = {(first + 2 * (r * PITCH + c)) // 32 for r in range(ROWS) for c in range(COLUMNS)}
    assert load["l2_bytes"] == load["read_bytes"] == 32 * len(sectors)
    assert store["l2_bytes"] == 32 * len(sectors)
    waits = [i for i in p["instructions"] if i["text"].startswith("s_wait_tensorcnt")]
    assert sum(i["stall"].get("memory", 0) for i in waits) > 800  # the latency of the memory, at least
    assert p["timing"]["tensor_busy"] > 0
    inside = [e for e in p["events"] if p["event_text"][str(e[0])].startswith("tensor_")]
    assert inside and all(e[9] > e[8] for e in inside)


@pytest.mark.parametrize("access,wait,slower", [
    ("  ds_load_b128 v[20:23], v9", "s_wait_dscnt", 16),  # a piece of a move that is there already
    ("  global_load_b128 v[20:23], v0, s[4:5] offset:2048", "s_wait_loadcnt", 80),  # the move before it at the memory
])
def test_queued_tensor_moves_keep_no_one_waiting(sim, build_dir, access, wait, slower):
    """Moves that wait for their turn at the engine reserve neither LDS nor memory: accesses go before them."""
    setup, _, _ = tensor_code(False).partition("  tensor_load")
    clocks = {}
    for moves in (1, 12):
        code = "\n".join([setup, "  v_lshlrev_b32 v9, 4, v8", *["  tensor_load_to_lds s[8:11], s[12:19]"] * moves,
                          access, f"  {wait} 0x0", "  s_wait_tensorcnt 0x0"])
        bench = Bench(sim, "gfx1250", [Program("queue", code, 0, 2, 1)], build_dir)
        memory, out = np.zeros(1 << 16, np.uint16), np.zeros(64, np.uint32)

        def run():
            sim.set_arch("gfx1250")
            sim.launch(sim.function(bench.module, "queue"), (1,), (32,), [memory, out], lds=1 << 14)  # noqa: B023

        (p,) = profiled(sim, TIMING, run)
        stalls = {i["text"].split()[0]: sum(i["stall"].values()) for i in p["instructions"]}
        clocks[moves] = stalls[wait]
        moved = stalls[wait] + stalls["s_wait_tensorcnt"]
    assert moved > 11 * ROWS * COLUMNS * 2 / 64  # twelve moves take their time
    assert clocks[12] <= clocks[1] + slower


@pytest.mark.parametrize("lanes", [32, 5])
def test_split_barrier_waits_count_once(sim, build_dir, lanes):
    """The simulator tries a wait again until it completes; counters and timing agree that it is one instruction."""
    code = f"  s_mov_b32 exec_lo, {(1 << lanes) - 1:#x}\n  s_barrier_signal -1\n  s_barrier_wait -1"
    bench = Bench(sim, "gfx1201", [Program("barriers", loop(code, 5), 1, 2, 1)], build_dir)
    for what in (COUNTERS, TIMING):
        (p,) = profiled(sim, what, lambda: run_waves(sim, bench, "barriers", 3))
        waits = [(i["issued"], i["lanes"]) for i in p["instructions"] if i["text"].startswith("s_barrier_wait")]
        assert waits == [(15, 15 * lanes)]


def selected(sim, workgroup, unit, events, run):
    select = sim.lib.flysimProfileSelect
    select.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64, ctypes.c_uint64]
    group = None if workgroup is None else (ctypes.c_int64 * 3)(*workgroup)
    select(group, unit, events)
    try:
        (p,) = profiled(sim, TRACE, run)
    finally:
        select(None, 0, 400000)
    return p


def test_a_trace_shows_what_was_chosen(sim, build_dir):
    """One work-group, the work-groups of one compute unit, and a bound on the events of all launches together."""
    body = "\n".join(["  v_add_u32 v2, v8, v8"] * 20)
    bench = Bench(sim, "gfx942", [Program("chosen", body, 1, 2, 1)], build_dir)

    def run():
        run_waves(sim, bench, "chosen", 700)

    p = selected(sim, (650, 0, 0), 0, 400000, run)
    assert {e[1] for e in p["events"]} == {650} and not p["events_truncated"]
    per_group = len(p["events"])
    p = selected(sim, None, 5, 400000, run)
    assert {e[1] for e in p["events"]} == {5, 5 + 304, 5 + 608}
    p = selected(sim, None, 0, per_group + 3, run)
    assert len(p["events"]) == per_group + 3 and p["events_truncated"]
    assert selected(sim, (700, 0, 0), 0, 400000, run)["events"] == []


def test_the_table_names_source_and_trust(sim):
    table = sim.lib.flysimTimingTable
    table.restype = ctypes.c_char_p
    for arch in (*UNITS, "gfx90a", "gfx1100", "gfx1151", "gfx1200"):
        rows = json.loads(table(arch.encode()))
        assert len(rows) > 25 and {r["trust"] for r in rows} <= {"good", "fair", "weak"}
        assert all(r["source"] and r["name"] for r in rows)
        by_name = {r["name"]: r["value"] for r in rows}
        assert by_name["maxWaves"] == (8 if arch.startswith("gfx9") else 16)
    assert table(b"gfx000") is None


def loop_estimate(sim, build_dir, arch: str, body: str, first: str) -> tuple[dict, bytes]:
    """The estimate of a loop from the first instruction that has `first` in its text, and the code object."""
    image = assemble(module_text(arch, [Program("loop", loop(body, 10), 1, 2, 1)], 32 if "gfx12" in arch else 64), arch,
                     build_dir)
    text, result = ctypes.c_char_p(), ctypes.c_char_p()
    assert sim.lib.flysimDisassemble(image, ctypes.c_size_t(len(image)), ctypes.byref(text)) == 0
    listing = [i for i in json.loads(text.value) if i["function"] == "loop"]
    start = next(i["address"] for i in listing if first in i["text"])
    end = next(i["address"] for i in listing if i["text"].startswith("s_cbranch"))
    places = ctypes.c_uint64(start), ctypes.c_uint64(end)
    assert sim.lib.flysimLoopEstimate(image, ctypes.c_size_t(len(image)), *places, ctypes.c_uint(50),
                                      ctypes.byref(result)) == 0
    return json.loads(result.value), image


def test_estimate_of_one_loop(sim, build_dir):
    """Sixteen independent matrix operations of 16 clocks each: one iteration, without running it."""
    tiles = [f"v[{32 + 4 * k}:{35 + 4 * k}]" for k in range(16)]
    body = "\n".join(f"  v_mfma_f32_16x16x16_f16 {d}, v[8:9], v[16:17], {d}" for d in tiles)
    got, image = loop_estimate(sim, build_dir, "gfx942", body, "mfma")
    assert got["clocks"] == pytest.approx(256, rel=0.02)
    assert got["matrix_busy"] == 256
    # Four of the sixteen clocks of an operation issue it, the rest waits for the unit (the loop's end does not).
    assert got["stall"]["matrix"] == pytest.approx(16 * 12, rel=0.1)
    nowhere, result = (ctypes.c_uint64(1 << 40), ctypes.c_uint64(1 << 41)), ctypes.c_char_p()
    assert sim.lib.flysimLoopEstimate(image, ctypes.c_size_t(len(image)), *nowhere, ctypes.c_uint(50),
                                      ctypes.byref(result)) != 0
    assert b"no instruction between" in sim.lib.flysimLastErrorMessage()


@pytest.mark.parametrize("high, waits", [(0x50, False), (0x55, True)])
def test_registers_of_gfx1250_have_high_bits(sim, build_dir, high, waits):
    """Each operation reads the register that the one before has written by the name in the instruction: another one if
    the high bits of sums and operands differ."""
    tiles = [f"v[{32 + 8 * k}:{39 + 8 * k}]" for k in range(8)]
    body = "\n".join([f"  s_set_vgpr_msb {high}"] + [
        f"  v_wmma_f32_16x16x32_f16 {d}, {tiles[k - 1]}, v[16:23], {d}" for k, d in enumerate(tiles)
    ] + ["  s_set_vgpr_msb 0"])
    got, _ = loop_estimate(sim, build_dir, "gfx1250", body, "s_set_vgpr_msb")
    assert got["matrix_busy"] == 8 * 8
    assert ("dependency" in got["stall"]) is waits
    assert (got["clocks"] > 1.4 * 64) is waits


def test_the_worst_pattern_of_an_access_is_kept(sim, build_dir):
    """For the report's picture: the addresses with the most conflicts, the lanes of each phase, the banks."""
    code = "  ds_read_b64 v[2:3], v8\n  s_waitcnt lgkmcnt(0)"
    bench = Bench(sim, "gfx950", [Program("read", code, 1, 2, 1)], build_dir)
    rows = (256 * np.arange(64)).astype(np.uint32)[None]
    (p,) = profiled(sim, COUNTERS, lambda: bench.run("read", rows))
    (read,) = [i for i in p["instructions"] if i.get("space") == "lds"]
    pattern = read["lds_pattern"]
    assert read["lds_degree"] == 32 and pattern["address"] == rows[0].tolist() and pattern["active"] == [1] * 64
    assert pattern["banks"] == 64 and pattern["bytes"] == 8
    assert pattern["phases"] == [list(range(32)), list(range(32, 64))]
    (p,) = profiled(sim, COUNTERS, lambda: bench.run("read", (8 * np.arange(64)).astype(np.uint32)[None]))
    assert not any("lds_pattern" in i for i in p["instructions"])


def test_of_equally_bad_patterns_the_first_of_the_grid_is_kept(sim, build_dir):
    """Each work-group has another order of the same places; threads take work-groups as they come."""
    code = ("  s_and_b32 s21, s2, 31\n  s_lshl_b32 s21, s21, 5\n  v_lshlrev_b32 v9, 3, v0\n  v_xor_b32 v9, s21, v9\n"
            "  ds_read_b32 v2, v9\n  s_waitcnt lgkmcnt(0)")
    bench = Bench(sim, "gfx942", [Program("order", code, 1, 2, 1)], build_dir)
    for _ in range(20):
        (p,) = profiled(sim, COUNTERS, lambda: run_waves(sim, bench, "order", 300))
        (read,) = [i for i in p["instructions"] if i.get("space") == "lds"]
        assert read["lds_degree"] > 1 and read["lds_pattern"]["address"] == (32 * np.arange(64)).tolist()


def test_floating_point_operations_of_lanes(sim, build_dir):
    """Multiply-adds are two, packed ones four; integer work and conversions none; inactive lanes do nothing."""
    code = """  s_mov_b64 exec, 0xff
  v_fma_f32 v2, v8, v8, v8
  v_pk_fma_f32 v[2:3], v[8:9], v[8:9], v[8:9]
  v_add_f32 v2, v8, v8
  v_add_u32 v3, v8, v8
  v_cvt_f32_u32 v3, v8
  s_mov_b64 exec, -1"""
    bench = Bench(sim, "gfx942", [Program("flops", code, 2, 2, 1)], build_dir)
    (p,) = profiled(sim, COUNTERS, lambda: run_waves(sim, bench, "flops", 1))
    found = {i["text"].split()[0].removesuffix("_e32"): i.get("vector_flops", 0) for i in p["instructions"]}
    assert (found["v_fma_f32"], found["v_pk_fma_f32"], found["v_add_f32"]) == (16, 32, 8)
    assert found["v_add_u32"] == found["v_cvt_f32_u32"] == 0


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_result_is_forwarded_to_whichever_operation_adds_to_it(sim, build_dir, arch):
    """C from the previous D costs nothing, also when the sum goes to other registers; part of it has to wait."""
    chain = ["  v_mfma_f32_16x16x16_f16 v[32:35], v[8:9], v[10:11], v[36:39]",
             "  v_mfma_f32_16x16x16_f16 v[36:39], v[8:9], v[10:11], v[32:35]"]
    shifted = [chain[0], "  v_mfma_f32_16x16x16_f16 v[36:39], v[8:9], v[10:11], v[34:37]"]
    programs = [Program(name, "\n".join(body * 150), 4, 2, 1) for name, body in (("c", chain), ("s", shifted))]
    bench = Bench(sim, arch, programs, build_dir)
    clocks = {}
    for name in "cs":
        (p,) = profiled(sim, TIMING, lambda name=name: run_waves(sim, bench, name, 1))
        stall = p["timing"]["stall"]
        clocks[name] = stall.get("matrix", 0) + stall.get("dependency", 0) + 4 * 300
    assert clocks["c"] == pytest.approx(16 * 300, rel=0.02)
    assert clocks["s"] > 22 * 300


@pytest.mark.parametrize(("arch", "product"), [
    ("gfx942", "v_mfma_f32_32x32x8_f16 v[{0}:{1}], v[200:201], v[204:205], v[{0}:{1}]"),
    ("gfx950", "v_mfma_f32_32x32x16_f16 v[{0}:{1}], v[200:203], v[204:207], v[{0}:{1}]")])
def test_transcendentals_run_beside_the_matrix_unit(sim, build_dir, arch, product):
    """Two waves of a SIMD, as in attention: a product of 32 clocks hides one exponential of 16, and of more the vector
    ALU decides, which the issue of the product takes for a turn of 4."""
    def body(exponentials: int) -> list[str]:
        after = [f"v_exp_f32 v{120 + k}, v{140 + k}" for k in range(exponentials)]
        return [i for tile in range(6) for i in (product.format(16 + 16 * tile, 31 + 16 * tile), *after)]

    programs = {(n, turns): Program(f"exp{n}x{turns}", loop("\n".join("  " + i for i in body(n)), turns)
                                    .replace(".Lloop", f".Lexp{n}x{turns}"), 1, 2, 1)
                for n in (0, 1, 2, 4) for turns in (8, 24)}
    bench = Bench(sim, arch, list(programs.values()), build_dir)

    def clocks(n: int, turns: int) -> int:
        name = programs[n, turns].name
        (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, name, 8 * UNITS[arch]))
        return p["timing"]["sample_cycles"]

    for n in (0, 1, 2, 4):
        step = (clocks(n, 24) - clocks(n, 8)) / (2 * 16 * 6)
        assert step == pytest.approx(max(32, 16 * n + 4), rel=0.05), n  # a round also has a branch
