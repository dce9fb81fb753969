"""Counters and the timing model against closed forms, LLVM's occupancy and brute force."""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import subprocess

import numpy as np
import pytest
from asmlib import Bench, Program
from hiplib import LLVM, compile_ir

COUNTERS, TIMING, TRACE = 1, 2, 4


def profiled(sim, what, run):
    """The launch profiles, as data, of what `run` launches."""
    take, start = sim.lib.flysimProfileTake, sim.lib.flysimProfile
    take.restype = ctypes.c_char_p
    take()
    start(what)
    try:
        run()
    finally:
        start(0)
    return json.loads(take())


def run_waves(sim, bench, name, groups):
    """Launch `groups` work-groups of one wave of a bench program."""
    program = bench.programs[name]
    # On page boundaries: a line more or less is a difference of the launch, not of the code.
    inputs = aligned(max(1, program.inputs) * 64).view(np.uint32)
    inputs[:] = 1
    out = aligned(program.outputs * 64).view(np.uint32)
    sim.set_arch(bench.arch)
    sim.launch(sim.function(bench.module, name), (groups,), (bench.wave,), [inputs, out])


def loop(body: str, count: int) -> str:
    return f"  s_movk_i32 s20, {count}\n.Lloop:\n{body}\n  s_sub_u32 s20, s20, 1\n  s_cmp_lg_u32 s20, 0\n" \
           "  s_cbranch_scc1 .Lloop"


#: Instruction, registers of an operand, compute units, operations in a clock of one.
MFMA = {"gfx90a": ("v_mfma_f32_16x16x16f16", 2, 110, 1024), "gfx942": ("v_mfma_f32_16x16x16_f16", 2, 304, 2048),
        "gfx950": ("v_mfma_f32_16x16x32_f16", 4, 256, 4096)}


@pytest.mark.parametrize("arch", sorted(MFMA))
def test_independent_matrix_operations_reach_the_peak(sim, build_dir, arch):
    """Two waves on each of four SIMDs, sixteen accumulators each: flops per clock of the compute unit within 2 %."""
    op, width, units, peak = MFMA[arch]
    body = "\n".join(
        f"  {op} v[{32 + 4 * k}:{35 + 4 * k}], v[8:{7 + width}], v[16:{15 + width}], v[{32 + 4 * k}:{35 + 4 * k}]"
        for k in range(16))
    bench = Bench(sim, arch, [Program("peak", loop("\n".join([body] * 4), 200), 1, 2, 1)], build_dir)
    (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, "peak", 8 * units))
    t = p["timing"]
    assert t["sample_groups"] == 8 and t["estimate"] is True
    assert t["matrix_flops"] / t["sample_cycles"] == pytest.approx(peak, rel=0.02)


@pytest.mark.parametrize("arch,slots", [("gfx942", 8), ("gfx950", 9)])
def test_dependent_matrix_operations_wait_for_their_operand(sim, build_dir, arch, slots):
    """A 4-pass result read as operand A: the documented wait states and the issue slot, of four clocks each."""
    count = 300
    body = "  v_mfma_f32_16x16x16_f16 v[32:35], v[32:33], v[8:9], 0"
    bench = Bench(sim, arch, [Program("chain", "\n".join([body] * count), 2, 2, 1)], build_dir)
    (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, "chain", 1))
    (inst,) = [p["timing"]["stall"].get("dependency", 0)]
    assert inst + 4 * count == pytest.approx(4 * slots * count, rel=0.02)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_accumulation_is_forwarded(sim, build_dir, arch):
    """C taken from the previous D of a 4-pass operation costs nothing beyond the unit's 16 clocks."""
    body = "\n".join(["  v_mfma_f32_16x16x16_f16 v[32:35], v[8:9], v[10:11], v[32:35]"] * 400)
    bench = Bench(sim, arch, [Program("accumulate", body, 4, 2, 1)], build_dir)
    (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, "accumulate", 1))
    matrix = p["timing"]["stall"].get("matrix", 0) + p["timing"]["stall"].get("dependency", 0)
    assert matrix + 4 * 400 == pytest.approx(16 * 400, rel=0.02)


COPY = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %wg, 256
  %i = add i32 %m, %id
  %pa = getelementptr <4 x float>, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr <4 x float>, ptr addrspace(1) %b, i32 %i
  %x = load <4 x float>, ptr addrspace(1) %pa, align 16
  store <4 x float> %x, ptr addrspace(1) %pb, align 16
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "uniform-work-group-size"="true" }
"""


def aligned(words: int) -> np.ndarray:
    """float32 array on a 4096-byte boundary, so that lines are counted whole; as much may be read behind it."""
    raw = np.zeros(words + 2048, np.float32)
    skip = -raw.ctypes.data % 4096 // 4
    return raw[skip: skip + words]


@pytest.mark.parametrize("arch,bandwidth", [("gfx90a", 1.6e12), ("gfx942", 5.3e12), ("gfx950", 8.0e12),
                                            ("gfx1100", 960e9), ("gfx1151", 256e9), ("gfx1201", 640e9)])
def test_streaming_copy_is_bound_by_memory(sim, build_dir, arch, bandwidth):
    """Bytes at every level equal the arithmetic minimum; the estimated time is theirs at the memory's bandwidth."""
    image = compile_ir(COPY, arch, build_dir)
    # FLYDSL_TEST_LONG: 1 GiB each way instead of 64 MiB.
    words = (256 if os.environ.get("FLYDSL_TEST_LONG") else 16) * 1024 * 1024
    a, b = aligned(words), aligned(words)
    a[:] = 1

    def run():
        sim.set_arch(arch)
        sim.run(image, "k", (words // 1024,), (256,), [a, b])

    (p,) = profiled(sim, TIMING, run)
    np.testing.assert_array_equal(a, b)
    total = {key: sum(i.get(key, 0) for i in p["instructions"]) for key in ("read_bytes", "written_bytes", "l2_bytes")}
    assert total == {"read_bytes": 4 * words, "written_bytes": 4 * words, "l2_bytes": 8 * words}
    seconds = p["timing"]["microseconds"] * 1e-6
    assert seconds == pytest.approx(8 * words / bandwidth, rel=0.05)


def test_a_line_that_all_groups_read_is_fetched_once(sim, build_dir):
    """Worker threads share the cache: whoever comes first fetches a line, also when they come at once."""
    image = compile_ir(COPY.replace("ptr addrspace(1) %a, i32 %i", "ptr addrspace(1) %a, i32 %id"), "gfx942", build_dir)
    a, b = aligned(1024), aligned(1024 * 64)

    def run():
        sim.set_arch("gfx942")
        sim.run(image, "k", (64,), (256,), [a, b])

    for _ in range(50):
        (p,) = profiled(sim, COUNTERS, run)
        assert sum(i.get("read_bytes", 0) for i in p["instructions"]) == 4096


def lds_clocks(addresses: np.ndarray, phases: list[list[int]], banks: int) -> int:
    """Definition: per phase, the most distinct dwords in one bank."""
    total = 0
    for lanes in phases:
        dwords = {int(addresses[lane]) // 4 for lane in lanes}
        per_bank = np.bincount([d % banks for d in dwords], minlength=banks)
        total += int(per_bank.max())
    return total


@pytest.mark.parametrize("arch,width,banks", [("gfx942", 32, 32), ("gfx950", 64, 64), ("gfx1201", 32, 32),
                                               ("gfx1250", 32, 64)])
def test_lds_conflicts_of_random_dword_reads(sim, build_dir, arch, width, banks):
    wait = "s_wait_dscnt 0x0" if arch.startswith("gfx12") else "s_waitcnt lgkmcnt(0)"
    op = "ds_load_b32" if arch.startswith("gfx12") else "ds_read_b32"
    bench = Bench(sim, arch, [Program("read", f"  {op} v2, v8\n  {wait}", 1, 2, 1)], build_dir)
    lanes = bench.wave
    phases = [list(range(k, k + width)) for k in range(0, lanes, width)]
    rng = np.random.default_rng(11)
    for _ in range(60):
        span = int(rng.choice([16, 64, 256, 2048]))
        addresses = (4 * rng.integers(0, span, lanes)).astype(np.uint32)
        (p,) = profiled(sim, COUNTERS, lambda a=addresses: bench.run("read", a[None]))
        (read,) = [i for i in p["instructions"] if i.get("space") == "lds"]
        least = 2 if arch == "gfx950" else 1
        assert read["lds_cycles"] == max(least, lds_clocks(addresses, phases, banks))


PRESSURE = """
target triple = "amdgcn-amd-amdhsa"
@lds = internal addrspace(3) global [%d x i8] undef, align 16
define amdgpu_kernel void @k() #0 {
  call void asm sideeffect "; use", "~{v%d}"()
  call void asm sideeffect "; keep $0", "s"(ptr addrspace(3) @lds)
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="%d,%d" }
"""


def pressures(arch: str) -> list[tuple[int, int, int]]:
    """25 kernels as (VGPRs, LDS bytes, work-items): at the steps of the tables and at random."""
    rng = random.Random(arch)
    cases = [(5, 16, 64), (60, 16, 256), (70, 16, 256), (127, 16, 256), (200, 16, 256), (250, 16, 256),
             (20, 16384, 256), (20, 32768, 256), (20, 65536, 256)]
    while len(cases) < 25:
        group = rng.choice([64, 128, 256, 512])
        lds = rng.choice([16, 0]) or rng.randrange(64, rng.choice([16384, 65536]), 16)
        cases.append((rng.randrange(4, 250 if group <= 256 else 120), lds, group))
    return cases


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_occupancy_is_that_of_llvm(sim, build_dir, arch):
    for vgpr, lds, group in pressures(arch):
        text = PRESSURE % (lds, vgpr, group, group)
        asm = subprocess.run([str(LLVM / "llc"), "-O3", f"-mcpu={arch}", "-mtriple=amdgcn-amd-amdhsa", "-o", "-"],
                             input=text, capture_output=True, text=True, check=True).stdout
        want = int(re.search(r"; Occupancy: (\d+)", asm).group(1))
        image = compile_ir(text, arch, build_dir)

        def run(image=image, group=group):
            sim.set_arch(arch)
            sim.run(image, "k", (1,), (group,), [])

        (p,) = profiled(sim, COUNTERS, run)
        assert p["occupancy"]["waves_per_simd"] == want, (vgpr, lds, group, p["vgprs"], p["occupancy"])


def test_a_trace_has_every_replayed_instruction(sim, build_dir):
    bench = Bench(sim, "gfx942", [Program("short", "  v_add_u32 v2, v8, v8\n  s_barrier", 1, 2, 1)], build_dir)
    (p,) = profiled(sim, TRACE, lambda: run_waves(sim, bench, "short", 2))
    issued = sum(i["issued"] for i in p["instructions"])
    sampled = sum(i["sampled"] for i in p["instructions"])
    assert len(p["events"]) == sampled and 0 < sampled <= issued + 1  # the barrier issues and completes
    assert all(e[5] > e[4] for e in p["events"])


def test_nothing_is_collected_when_off(sim, build_dir):
    bench = Bench(sim, "gfx942", [Program("off", "  v_add_u32 v2, v8, v8", 1, 2, 1)], build_dir)
    assert profiled(sim, 0, lambda: run_waves(sim, bench, "off", 1)) == []


def test_counters_have_each_of_the_products_that_run_together(sim, build_dir):
    product = "  v_mfma_f32_16x16x16_f16 v[4:7], v[8:9], v[8:9], v[4:7]\n"
    body = product * 3 + "  s_nop 1\n" + product * 2
    bench = Bench(sim, "gfx942", [Program("k", loop(body, 5), 2, 4, 4)], build_dir)
    (p,) = profiled(sim, COUNTERS, lambda: run_waves(sim, bench, "k", 3))
    issued = [i["issued"] for i in p["instructions"] if "mfma" in i["text"] or i["text"].strip() == "s_nop 1"]
    assert issued == [15] * 6


def test_lanes_follow_every_way_to_write_exec(sim, build_dir):
    """What runs between two writes of EXEC is counted with its lanes, also where the timing model records."""
    ways = [
        ("s_mov_b64 exec, 0x1f", 5), ("s_mov_b32 exec_lo, 0xff", 8), ("s_and_saveexec_b64 s[22:23], 6", 2),
        ("s_mov_b64 exec, -1", 64), ("v_cmpx_gt_u32 vcc, 40, v0", 10), ("s_andn2_wrexec_b64 s[22:23], -1", 54),
        ("s_or_saveexec_b64 s[22:23], -1", 64), ("v_cmp_gt_u32_e64 exec, 48, v0", 12),
        ("v_readfirstlane_b32 exec_lo, v8", 1), ("s_not_b64 exec, exec", 63),
        ("s_bitset0_b32 exec_hi, 3", 62), ("s_wqm_b64 exec, exec", 64),
    ]  # fmt: skip
    body = "".join(
        f"  {text}\n  v_mov_b32 v{20 + k}, 0\n  s_nop 0\n  v_mov_b32 v{40 + k}, 0\n"
        for k, (text, _) in enumerate(ways))
    bench = Bench(sim, "gfx942", [Program("ways", loop(body, 3), 1, 4, 1)], build_dir)
    for what in (COUNTERS, TIMING):
        (p,) = profiled(sim, what, lambda: run_waves(sim, bench, "ways", 4))
        found = {int(m[1]): (i["issued"], i["lanes"]) for i in p["instructions"]
                 if (m := re.match(r"v_mov_b32_e32 v(\d+), 0$", i["text"].strip()))}  # fmt: skip
        for k, (text, lanes) in enumerate(ways):
            assert found[20 + k] == found[40 + k] == (12, 12 * lanes), text
