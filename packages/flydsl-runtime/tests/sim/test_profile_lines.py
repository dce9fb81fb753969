"""Lines that accesses touch, of instructions that run often: the lanes' pattern is kept and found again elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Bench, Program, lane_address, open_descriptor, rdna
from test_profile import COUNTERS, loop, profiled, run_waves

ARCHS = ("gfx942", "gfx950", "gfx1201", "gfx1250")
COUNT = 9
#: Where lane n of iteration k is, from the memory's first byte, and code that leaves it in v1 (v0: 4 n, s20: k).
PATTERNS = {
    "one pattern on the same places of its lines": (lambda n, k: 4 * n ^ 20 | 128 * k, [
        "s_lshl_b32 s21, s20, 7", "v_xor_b32 v1, 20, v0", "v_or_b32 v1, s21, v1"]),
    "one pattern on other places of its lines": (lambda n, k: 8 * n + 4 * (k * k % 64), [
        "s_mul_i32 s21, s20, s20", "s_and_b32 s21, s21, 63", "s_lshl_b32 s21, s21, 2", "v_lshlrev_b32 v1, 1, v0",
        "{add} v1, s21, v1"]),
    "a pattern that changes": (lambda n, k: 4 * n ^ 12 * k, ["s_mul_i32 s21, s20, 12", "v_xor_b32 v1, s21, v0"]),
    "one address": (lambda n, k: 0 * n + 12 * k, ["s_mul_i32 s21, s20, 12", "v_mov_b32 v1, s21"]),
}


def access(arch: str, form: str) -> list[str]:
    """A dword of each lane at the byte in v1 from s[6:7], loaded by an instruction of the named form."""
    load = "load_b32" if rdna(arch) else "load_dword"
    none = "null" if rdna(arch) and arch.startswith("gfx12") else "0"
    return {"base and offset": [f"global_{load} v20, v1, s[6:7]"],
            "address": [*lane_address(arch).splitlines(), f"global_{load} v20, v[2:3], off"],
            "buffer": [f"buffer_{load} v20, v1, s[12:15], {none} offen"],
            "store": [f"global_{load.replace('load', 'store')} v1, v0, s[6:7]"]}[form]


@pytest.mark.parametrize("form", ["base and offset", "address", "buffer", "store"])
@pytest.mark.parametrize("arch", ARCHS)
def test_lines_of_accesses_that_run_again(sim, build_dir, arch, form):
    """The distinct lines of each execution by definition."""
    add = "v_add_nc_u32" if rdna(arch) else "v_add_u32"
    programs = []
    for number, (_, pattern) in enumerate(PATTERNS.values()):
        body = "\n".join(f"  {line.format(add=add).strip()}" for line in [*pattern, *access(arch, form)])
        code = open_descriptor(arch) + loop(body, COUNT).replace(".Lloop", f".L{number}")
        programs.append(Program(f"p{number}", code, 1, 30, 16))
    bench = Bench(sim, arch, programs, build_dir)
    lane, last = np.arange(bench.wave), access(arch, form)[-1].split()[0]
    for number, (place, _) in enumerate(PATTERNS.values()):
        (p,) = profiled(sim, COUNTERS, lambda n=number: run_waves(sim, bench, f"p{n}", 1))
        found = max((i for i in p["instructions"] if i["text"].startswith(last)), key=lambda i: i["issued"])
        lines = [len(set(place(lane, k) // 128)) for k in range(1, COUNT + 1)]
        assert (found["issued"], found["bytes"], found["lines"]) == (COUNT, COUNT * bench.wave * 4, sum(lines))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201"])
def test_a_pattern_that_leaves_its_buffer_is_looked_at_lane_by_lane(sim, build_dir, arch):
    """Each execution goes 64 bytes further into a buffer of 512 bytes: lanes behind its end touch nothing."""
    body = "  s_lshl_b32 s21, s20, 6\n  {} v1, s21, v0\n".format("v_add_nc_u32" if rdna(arch) else "v_add_u32")
    code = open_descriptor(arch) + "  s_movk_i32 s14, 512\n" + loop(body + "  " + access(arch, "buffer")[0], COUNT)
    bench = Bench(sim, arch, [Program("end", code, 1, 30, 16)], build_dir)
    (p,) = profiled(sim, COUNTERS, lambda: run_waves(sim, bench, "end", 1))
    (found,) = [i for i in p["instructions"] if i["text"].startswith("buffer_load")]
    places = [4 * np.arange(bench.wave) + 64 * k for k in range(1, COUNT + 1)]
    inside = [a[a < 512] for a in places]
    assert found["bytes"] == 4 * sum(map(len, inside))
    assert found["lines"] == sum(len(set(a // 128)) for a in inside)
