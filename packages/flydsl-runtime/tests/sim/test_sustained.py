"""The sustained reading: achieved bandwidth, caches of the dies, the slowest compute unit, clock under load."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from asmlib import Bench, Program
from clangc import compile_gpu, find_clang
from hiplib import find_library
from test_profile import TIMING, loop, profiled, run_waves

from flydsl.runtime.profiling.model_constants import constants

CONSTANTS = {"gfx942": (304, 5.3e12, 0.80), "gfx950": (256, 8.0e12, 0.73), "gfx1201": (64, 640e9, 0.85)}
LAUNCH = 2.0  # us
needs_clang = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
typedef u32 v4 __attribute__((ext_vector_type(4)));
KERNEL void stream(const GLOBAL v4 *in, GLOBAL v4 *out) { u32 i = WG() * 256 + TID(); out[i] = in[i] + 1; }
/* A row for each work-group, read twice, as row kernels do: all waves have read it once before one reads it again. */
KERNEL void twice(const volatile GLOBAL v4 *in, GLOBAL v4 *out, u32 cols) {
  const volatile GLOBAL v4 *row = in + WG() * cols;
  v4 s = 0;
  for (u32 k = TID(); k < cols; k += 256) s += row[k];
  __builtin_amdgcn_s_barrier();
  for (u32 k = TID(); k < cols; k += 256) s ^= row[k] * s;
  out[WG() * 256 + TID()] = s;
}
/* All read the same row twice. */
KERNEL void common(const volatile GLOBAL v4 *in, GLOBAL v4 *out, u32 cols) {
  v4 s = 0;
  for (u32 k = TID(); k < cols; k += 256) s += in[k];
  for (u32 k = TID(); k < cols; k += 256) s ^= in[k] * s;
  out[WG() * 256 + TID()] = s;
}
/* Keys of a head for each work-group, read `passes` times: those of a head are neighbours, or as far apart as there are
   heads. */
KERNEL void keys(const volatile GLOBAL v4 *in, GLOBAL v4 *out, u32 heads, u32 blocks, u32 apart, u32 cols, u32 passes) {
  const volatile GLOBAL v4 *row = in + (apart ? WG() % heads : WG() / blocks) * cols;
  v4 s = 0;
  for (u32 pass = 0; pass < passes; ++pass)
    for (u32 k = TID(); k < cols; k += 256) s ^= row[k] * s + pass;
  out[WG() * 256 + TID()] = s;
}
/* Each lane reads lines of its own, out of order; of two work-groups one reads `turns` times, one once. */
KERNEL void apart(const volatile GLOBAL u32 *in, GLOBAL u32 *out, u32 turns) {
  u32 lane = (TID() & ~63u) | (TID() * 5 & 63), s = 0;
  u32 first = WG() / 2 * (turns + 1) + (WG() & 1) * turns;
  for (u32 k = 0; k < (WG() & 1 ? 1 : turns); ++k) s += in[((first + k) * 256 + lane) * 32];
  out[WG() * 256 + TID()] = s;
}
/* Stores to lines in a scattered order, many of them several times; to the first half of them first. */
KERNEL void scatter(GLOBAL u32 *out, u32 turns, u32 mask) {
  for (u32 k = 0; k < turns; ++k)
    out[((k * 256 + TID()) * 2654435761u >> 7 & (k < turns / 2 ? mask >> 1 : mask)) * 32] = k;
}
/* One work-group in `every` has ten times as much to do. */
KERNEL void uneven(GLOBAL u32 *out, u32 every, u32 turns) {
  u32 s = TID();
  if (WG() % every == every - 1) turns *= 10;
  for (u32 k = 0; k < turns; ++k) s = s * 1664525 + 1013904223;
  out[WG() * 256 + TID()] = s;
}
"""


@pytest.fixture
def launch(sim, build_dir):
    """launch(arch, kernel, groups, arguments): the profile."""
    def run(arch: str, kernel: str, groups: int, *arguments) -> dict:
        sim.set_arch(arch)
        image = compile_gpu(SOURCE, arch, "2", build_dir)
        (profile,) = profiled(sim, TIMING, lambda: sim.run(image, kernel, (groups,), (256,), list(arguments)))
        assert profile["sustained"]["estimate"] is True
        return profile

    return run


@needs_clang
@pytest.mark.parametrize("arch", sorted(CONSTANTS))
def test_a_stream_takes_its_bytes_at_the_achieved_bandwidth(launch, arch):
    units, bandwidth, share = CONSTANTS[arch]
    groups = 16 * units
    words = groups * 1024
    p = launch(arch, "stream", groups, np.ones(words, np.uint32), np.zeros(words, np.uint32))
    s, t = p["sustained"], p["timing"]
    expected = 2 * 4 * words / (bandwidth * share) * 1e6
    assert s["microseconds"] - LAUNCH == pytest.approx(expected, rel=0.1)
    assert t["microseconds"] == pytest.approx(expected * share, rel=0.1)
    assert s["reread_bytes"] == 0 and s["bound"] in ("memory", "launch")


@needs_clang
@pytest.mark.parametrize(("arch", "rows", "cols", "l2", "side"), [
    ("gfx950", 2048, 256, True, True),     # 32 of 256 rows of 4 KiB on a die: 1 MiB of its 4
    ("gfx950", 2048, 4096, False, True),   # 16 MiB on a die, but 128 of 256 MiB behind all of them
    ("gfx1151", 160, 16384, False, False),  # 40 MiB; the caches have 2 and 32
])
def test_rereads_hit_what_fits(launch, arch, rows, cols, l2, side):
    """Rows that work-groups read twice, all of them at once: the second time each is in L2, behind it, or lost."""
    data, out = np.ones(rows * cols * 4, np.uint32), np.zeros(rows * 1024, np.uint32)
    p = launch(arch, "twice", rows, data, out, ctypes.c_uint32(cols))
    s = p["sustained"]
    once = data.nbytes + out.nbytes
    assert s["behind_l2_bytes"] == pytest.approx(once + (not l2) * data.nbytes, rel=0.02)
    assert s["memory_bytes"] == pytest.approx(once + (not side) * data.nbytes, rel=0.02)
    assert s["reread_bytes"] == pytest.approx((not side) * data.nbytes, rel=0.02)
    known = {c.name: c.value for c in constants(arch)}
    bound = max(s["memory_bytes"] / (known["memoryBytesPerSec"] * known["memoryAchieved"]),
                s["behind_l2_bytes"] / known["sideBytesPerSec"])
    assert 0.999 * bound < (s["microseconds"] - LAUNCH) * 1e-6 < 1.2 * bound


@needs_clang
def test_rereads_of_what_all_share_hit(launch):
    p = launch("gfx950", "common", 2048, np.ones(4096 * 4, np.uint32), np.zeros(2048 * 1024, np.uint32),
               ctypes.c_uint32(4096))
    assert p["sustained"]["reread_bytes"] == 0


@needs_clang
def test_long_and_short_work_groups_move_each_line_once(launch):
    """Short ones wait for their neighbours to be counted, long ones are counted while they go on: 20480 moves each."""
    groups, turns = 12, 80
    lines = groups // 2 * (turns + 1) * 256
    data, out = np.zeros(lines * 32, np.uint32), np.zeros(groups * 256, np.uint32)
    p = launch("gfx942", "apart", groups, data, out, ctypes.c_uint32(turns))
    loads = [i for i in p["instructions"] if i.get("kind") == "load" and i["space"] != "scalar"]
    assert sum(i["l2_bytes"] for i in loads) == sum(i["read_bytes"] for i in loads) == data.nbytes
    s, once = p["sustained"], pytest.approx(data.nbytes + out.nbytes, rel=1e-5)  # six digits
    assert s["behind_l2_bytes"] == once and s["memory_bytes"] == once and s["reread_bytes"] == 0


def absent_stores(lines: np.ndarray, sets: int, ways: int) -> int:
    """How many of the stores to one sector of `lines` find it not dirty in a cache whose sets replace what came first.
    Pages of 32 lines are numbered as they come."""
    numbers: dict[int, int] = {}
    cache: list[list[int]] = [[] for _ in range(sets)]
    absent = 0
    for line in lines.tolist():
        number = numbers.setdefault(line // 32, len(numbers)) * 32 + line % 32
        held = cache[(number ^ number >> 17) % sets]
        if number not in held:
            absent += 1
            held.append(number)
            del held[:-ways]
    return absent


@needs_clang
@pytest.mark.parametrize("bits", [14, 17])
def test_sets_replace_what_came_first(launch, bits):
    """The L2 of gfx90a has 65536 lines: a few thousand all fit; of 131072 the sets lose some that come again, by the
    order in which they came while there was room for all."""
    turns, mask = 400, (1 << bits) - 1
    out = np.zeros(32 << bits, np.uint32)
    p = launch("gfx90a", "scatter", 1, out, ctypes.c_uint32(turns), ctypes.c_uint32(mask))
    i = np.arange(turns * 256, dtype=np.uint32)
    masks = np.where(i < turns // 2 * 256, np.uint32(mask >> 1), np.uint32(mask))
    lines = (i * np.uint32(2654435761) >> np.uint32(7) & masks).reshape(turns, 4, 64)
    absent = absent_stores(lines.transpose(1, 0, 2).reshape(-1), 8192, 8)  # wave after wave
    assert len(np.unique(lines)) < absent if bits == 17 else len(np.unique(lines)) == absent
    assert sum(i.get("written_bytes", 0) for i in p["instructions"]) == 32 * absent
    assert p["sustained"]["behind_l2_bytes"] == pytest.approx(32 * absent, rel=1e-5)  # six digits


DIES = {"gfx942": 8, "gfx950": 8, "gfx1201": 1}


@needs_clang
@pytest.mark.parametrize(("arch", "heads", "passes"), [
    ("gfx942", 16, 1), ("gfx942", 32, 2), ("gfx950", 16, 1), ("gfx950", 32, 2), ("gfx1201", 16, 1)])
def test_placement_decides_which_l2_has_what_work_groups_share(launch, arch, heads, passes):
    """256 work-groups, one by one to the dies; those of a head read the same 256 KiB at the same time.

    Heads on one die each are fetched once. Spread over all dies they are fetched by each of them; and where each die
    then passes over 8 MiB, its L2 of 4 MiB has nothing left of an earlier pass.
    """
    size, groups = 256 << 10, 256
    data, out = np.ones(heads * size // 4, np.uint32), np.zeros(groups * 1024, np.uint32)

    def run(apart: bool) -> dict:
        p = launch(arch, "keys", groups, data, out, *map(ctypes.c_uint32, (heads, groups // heads, apart, size // 16,
                                                                           passes)))
        s = p["sustained"]
        everything = groups * size * passes + out.nbytes
        assert s["l2_hit"] == pytest.approx(1 - s["behind_l2_bytes"] / everything, abs=1e-5)
        return p

    together, spread = run(True), run(False)
    once = data.nbytes + out.nbytes
    assert together["sustained"]["behind_l2_bytes"] == pytest.approx(once, rel=0.01)
    everywhere = DIES[arch] * passes * data.nbytes + out.nbytes
    assert spread["sustained"]["behind_l2_bytes"] == pytest.approx(everywhere, rel=0.01)
    assert spread["timing"]["microseconds"] == pytest.approx(together["timing"]["microseconds"], rel=0.02)
    if DIES[arch] > 1:
        assert spread["sustained"]["microseconds"] > 1.05 * together["sustained"]["microseconds"]


@needs_clang
def test_caches_start_empty(launch):
    """Launches use the memory of the caches of those before them, and find nothing in it; nor does one by one."""
    size, groups = 64 << 10, 256

    def run(heads: int, passes: int) -> dict:
        data, out = np.ones(heads * size // 4, np.uint32), np.zeros(groups * 1024, np.uint32)
        return launch("gfx950", "keys", groups, data, out, *map(ctypes.c_uint32, (heads, groups // heads, 0, size // 16,
                                                                                  passes)))

    few = run(16, 2)
    all_apart = run(256, 2)  # 2 MiB on a die, twice, when other dies have passed over its number of lines
    assert run(16, 2) == few and run(256, 2) == all_apart != few


@needs_clang
def test_the_slowest_compute_unit_decides(launch):
    """Long work-groups at the end of the grid: one compute unit ends ten times as late as the replayed one."""
    def run(every: int, groups: int = 512) -> dict:
        out = np.zeros(groups * 256, np.uint32)
        return launch("gfx950", "uneven", groups, out, ctypes.c_uint32(every), ctypes.c_uint32(40))

    even, p = run(1 << 20), run(512)
    assert even["sustained"]["imbalance"] == even["sustained"]["unevenness"] == pytest.approx(1)
    assert 4 < p["sustained"]["imbalance"] < 6  # one of ten and one of one, over two of one
    assert p["sustained"]["unevenness"] == pytest.approx(p["sustained"]["imbalance"], rel=0.05)  # of 512 one is longer
    few = run(3, 3)["sustained"]["unevenness"]  # on three compute units: one of ten over the mean of ten, one and one
    assert 2.2 < few < 2.8
    assert p["sustained"]["microseconds"] > even["sustained"]["microseconds"]


@needs_clang
@pytest.mark.parametrize(("arch", "dies"), [("gfx942", 8), ("gfx950", 8), ("gfx1201", 1)])
def test_long_work_groups_of_one_die_wait_for_each_other(launch, arch, dies):
    """Work-groups go to the dies in turns: if each eighth is long, as when the blocks of a causal head are dealt to the
    dies, one die has them all. With one in seven, all dies have some."""
    units = CONSTANTS[arch][0]
    cost = {}
    for every in (7, 8):
        rounds = 8
        out = np.zeros(units * rounds * 256, np.uint32)
        p = launch(arch, "uneven", units * rounds, out, ctypes.c_uint32(every), ctypes.c_uint32(40))
        cost[every] = p["sustained"]["unevenness"]
    assert cost[7] < 1.7
    if dies == 1:
        assert cost[8] < 1.7
    else:  # compute units of the die have `rounds` long ones, of ten; the mean has seven short ones for each
        assert cost[8] == pytest.approx(10 / (17 / 8), rel=0.15)


MATRIX = {"f16": "v_mfma_f32_32x32x16_f16 v[{0}:{1}], v[200:203], v[204:207], v[{0}:{1}]",
          "fp8": "v_mfma_f32_32x32x64_f8f6f4 v[{0}:{1}], v[200:207], v[208:215], v[{0}:{1}]",
          "fp4": "v_mfma_f32_32x32x64_f8f6f4 v[{0}:{1}], v[200:203], v[204:207], v[{0}:{1}] cbsz:4 blgp:4"}


def test_clock_under_matrix_load(sim, build_dir):
    """The more the matrix unit does in a clock, the lower the clock; a unit that is half idle is not throttled as much,
    and few work-groups leave the peak clock."""
    def body(op: str, pause: int) -> str:
        tiles = [16 * k + 16 for k in range(4)]
        lines = [MATRIX[op].format(first, first + 15) for first in tiles]
        return "\n".join(f"  {line}\n" + "  s_nop 15\n" * pause for line in lines)

    programs = {f"{op}{pause}": loop(body(op, pause), 40).replace(".Lloop", f".L{op}{pause}")
                for op in MATRIX for pause in (0, 1)}
    bench = Bench(sim, "gfx950", [Program(name, text, 1, 2, 1) for name, text in programs.items()], build_dir)

    def reading(name: str, waves: int = 4 * 256) -> dict:
        (p,) = profiled(sim, TIMING, lambda: run_waves(sim, bench, name, waves))
        return p["sustained"]

    clock = {name: reading(name)["clock_mhz"] for name in programs}
    assert clock["f160"] >= clock["fp80"] > clock["fp40"], clock
    assert 1400 < clock["fp80"] < 1900 and 1100 < clock["fp40"] < 1500
    for op in MATRIX:
        assert clock[op + "1"] > clock[op + "0"], op
    few = reading("fp80", 4)
    assert few["clock_mhz"] == 2400 and few["power"] < 0.5


CHILD = """
import sys
sys.path[:0] = [sys.argv[1]]
from hiplib import Sim
from pathlib import Path
import ctypes
sim = Sim(Path(sys.argv[2]))
sim.lib.flysimTimingTable.restype = ctypes.c_char_p
message = sim.lib.flysimLastErrorMessage
message.restype = ctypes.c_char_p
text = sim.lib.flysimTimingTable(b"gfx950")
print(text.decode() if text else "refused: " + str(message()))
"""


@pytest.mark.parametrize(("text", "expected"), [
    ('{"constants": {"gfx950": {"memoryAchieved": 0.5}}}',
     '"name":"memoryAchieved","unit":"of the peak","value":0.5,"source":"FLYDSL_SIM_MODEL","trust":"yours"'),
    ('{"constants": {"gfx942": {"memoryAchieved": 0.5}}}', '"name":"memoryAchieved","unit":"of the peak","value":0.73'),
    ('{"constants": {"gfx950": {"memoryAchived": 0.5}}}', "there is no constant memoryAchived"),
    ('{"constants": {"gfx950": {"launchMicroseconds": 0}}}', '"name":"launchMicroseconds","unit":"us","value":0,'),
    ('{"constants": {"gfx950": {"dies": "many"}}}', "dies is no number from 0"),
    ('{"constants": {"gfx950": {"dies": 0}}}', "dies is 0; the architecture has 8"),
    ('{"constants": {"gfx950": {"turn": 0.5}}}', "turn is 0.5; the architecture has 4"),
    ('{"constants": {"gfx950": {"sharedCacheBytes": 1e17}}}', "sharedCacheBytes is 1e+17; the architecture has"),
    ('{"constants": {"gfx950": {"tensorStart": 1}}}', "tensorStart is 1; the architecture has 0"),
    ('{"constants": {"gfx950": {"simdsPerCu": 8}}}', "simdsPerCu is above 4"),
    ('{"constants": {"gfx950": {"powerIdle": 1}}}', "powerIdle is the whole limit or more"),
    ("{", "is no JSON"), ("[]", 'has no "constants"'),
])
def test_constants_of_a_machine(tmp_path, text, expected):
    library = find_library()
    if library is None:
        pytest.skip("simulator library not built")
    file = tmp_path / "model.json"
    file.write_text(text)
    done = subprocess.run([sys.executable, "-c", CHILD, str(Path(__file__).parent), str(library)],
                          capture_output=True, text=True, env={**os.environ, "FLYDSL_SIM_MODEL": str(file)})
    assert expected in done.stdout, done.stdout[-1500:] + done.stderr


@needs_clang
@pytest.mark.parametrize(("groups", "uneven"), [
    (3, 1), (256, 1), (257, 2 * 256 / 257), (512, 1), (576, 3 * 256 / 576)])
def test_a_grid_that_compute_units_do_not_divide_is_uneven(launch, groups, uneven):
    """Equal work-groups on 256 compute units: the busiest has the number rounded up, the mean is of all."""
    out = np.zeros(groups * 256, np.uint32)
    p = launch("gfx950", "uneven", groups, out, ctypes.c_uint32(1 << 20), ctypes.c_uint32(40))
    assert p["sustained"]["unevenness"] == pytest.approx(uneven, rel=1e-3)
