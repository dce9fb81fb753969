"""LDS clocks and conflict degrees that the simulator counts, against the analysis of flydsl-layout: two definitions of
one model, written apart from each other, on random patterns of addresses."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest
from asmlib import Bench, Program

layout = pytest.importorskip("flydsl.layout")

ARCHS = ("gfx942", "gfx950", "gfx1201", "gfx1250")
WIDTHS = (8, 16, 32, 64, 96, 128)
PATTERNS = 24  # of each architecture, direction and width: 1152 in all


def program(arch: str, op: str, bits: int) -> Program:
    """One LDS access with the addresses in v8."""
    new = arch.startswith("gfx12")
    kind = {"read": "load", "write": "store"}[op] if new else op
    size = f"u{bits}" if op == "read" and bits < 32 else f"b{bits}"
    words = max(1, bits // 32)
    data = f"v[32:{31 + words}]" if words > 1 else "v32"
    operands = f"{data}, v8" if op == "read" else f"v8, {data}"
    wait = "s_wait_dscnt 0x0" if new else "s_waitcnt lgkmcnt(0)"
    return Program(f"{op}{bits}", f"  ds_{kind}_{size} {operands}\n  {wait}", 1, 2, 1)


def random_addresses(rng: np.random.Generator, lanes: int, bits: int) -> np.ndarray:
    """Byte addresses, aligned: scattered, strided, swizzled rows, rows of a padded tile, or few that are shared."""
    size = 4 if bits == 96 else bits // 8
    kind = rng.integers(5)
    lane = np.arange(lanes)
    if kind == 0:
        unit = rng.integers(0, int(rng.choice([4, 32, 128, 2048])), lanes)
    elif kind == 1:
        unit = lane * int(rng.integers(1, 70)) + int(rng.integers(0, 64))
    elif kind == 2:
        columns = int(rng.choice([4, 8, 16]))
        row, column = lane // columns, lane % columns
        unit = row * columns * int(rng.integers(1, 5)) + (column ^ (row * int(rng.integers(1, 4))) % columns)
    elif kind == 3:
        rows = int(rng.choice([8, 16, 32]))
        unit = lane % rows * int(rng.integers(8, 140)) + lane // rows * int(rng.integers(1, 9))
    else:
        unit = rng.choice(rng.integers(0, 4096, 6), lanes)
    return (unit * size % 32768).astype(np.uint32)


@pytest.mark.parametrize("arch", ARCHS)
def test_degrees_are_those_of_the_layout_analysis(sim, build_dir, arch):
    programs = [program(arch, op, bits) for op in ("read", "write") for bits in WIDTHS]
    bench = Bench(sim, arch, programs, build_dir)
    take, start = sim.lib.flysimProfileTake, sim.lib.flysimProfile
    take.restype = ctypes.c_char_p
    rng = np.random.default_rng(20260)
    checked = 0
    for op in ("read", "write"):
        for bits in WIDTHS:
            patterns = [random_addresses(rng, bench.wave, bits) for _ in range(PATTERNS)]
            take()
            start(1)
            try:
                for addresses in patterns:
                    bench.run(f"{op}{bits}", addresses[None])
            finally:
                start(0)
            profiles = json.loads(take())
            assert len(profiles) == PATTERNS
            for addresses, profile in zip(patterns, profiles, strict=True):
                (access,) = [i for i in profile["instructions"] if i.get("space") == "lds"]
                want = layout.bank_conflicts(lambda lane, a=addresses: int(a[lane]), arch=arch, bits=bits,
                                             element_bits=8, op=op)
                # A dword read of 64 lanes takes two issue clocks on gfx950 even without a conflict.
                least = 2 if arch == "gfx950" and op == "read" and bits <= 32 else 1
                where = (op, bits, addresses.tolist())
                assert access["lds_degree"] == want.degree, where
                assert access["lds_cycles"] == max(least, want.cycles), where
                assert access["lds_ideal"] == max(least, want.ideal), where
                checked += 1
    assert checked == 12 * PATTERNS


def test_one_instruction_with_changing_patterns(sim, build_dir):
    """The clocks of a loop are the sum over its patterns: what was seen before does not answer for another pattern."""
    body = """  s_mov_b32 s20, 0
.Lnext:
  v_lshlrev_b32 v10, s20, v8
  ds_read_b32 v11, v10
  s_waitcnt lgkmcnt(0)
  s_add_u32 s20, s20, 1
  s_cmp_lg_u32 s20, 6
  s_cbranch_scc1 .Lnext"""
    bench = Bench(sim, "gfx942", [Program("loop", body, 1, 2, 1)], build_dir)
    take, start = sim.lib.flysimProfileTake, sim.lib.flysimProfile
    take.restype = ctypes.c_char_p
    take()
    start(1)
    base = (4 * np.arange(64)).astype(np.uint32)
    bench.run("loop", base[None])
    start(0)
    (profile,) = json.loads(take())
    (access,) = [i for i in profile["instructions"] if i.get("space") == "lds"]
    reports = [layout.bank_conflicts(lambda lane, k=k: 4 * lane << k, arch="gfx942", bits=32, element_bits=8, op="read")
               for k in range(6)]
    assert access["issued"] == 6
    assert access["lds_cycles"] == sum(r.cycles for r in reports)
    assert access["lds_degree"] == max(r.degree for r in reports)


@pytest.mark.parametrize("arch", ARCHS)
def test_direct_loads_write_as_fast_as_stores(sim, build_dir, arch):
    """One LDS, one rate: the constant for direct loads and tensor moves is that of the phases of a wide store."""
    bench = Bench(sim, arch, [program(arch, "write", 128)], build_dir)
    take, start, table = sim.lib.flysimProfileTake, sim.lib.flysimProfile, sim.lib.flysimTimingTable
    take.restype = table.restype = ctypes.c_char_p
    take()
    start(1)
    bench.run("write128", 16 * np.arange(bench.wave, dtype=np.uint32)[None])
    start(0)
    (store,) = [i for i in json.loads(take())[0]["instructions"] if i.get("space") == "lds"]
    constants = {row["name"]: row["value"] for row in json.loads(table(arch.encode()))}
    assert store["lds_degree"] == 1
    assert 16 * bench.wave / store["lds_cycles"] == constants["ldsBytesPerClk"]
