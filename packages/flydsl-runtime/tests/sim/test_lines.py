"""Lines and sectors that an access of a wave touches, against their definition, lane by lane."""

from __future__ import annotations

import random

import numpy as np
import pytest
from asmlib import Bench, Program, rdna
from test_profile import COUNTERS, aligned, profiled

LINE, SECTOR = 128, 32


def patterns(rng: random.Random, lanes: int, size: int, room: int) -> dict[str, list[int]]:
    """Byte offsets of the lanes of an access of `size` bytes, in multiples of 4 below `room`."""
    start = 4 * rng.randrange(64)
    half = start + 4 * rng.randrange(300)
    return {
        "side by side": [start + size * k for k in range(lanes)],
        "two rows": [(start if k < lanes // 2 else half + 1024) + size * (k % (lanes // 2)) for k in range(lanes)],
        "backwards": [start + size * (lanes - k) for k in range(lanes)],
        "one place": [start] * lanes,
        "strided": [start + 4 * rng.randrange(1, 40) * k % room for k in range(lanes)],
        "pairs": [start + size * (k // 2) for k in range(lanes)],
        "overlapping": [start + 4 * k for k in range(lanes)],
        "back and forth": [start + size * (k ^ 1) for k in range(lanes)],
        "anywhere": [4 * rng.randrange(room // 4) for _ in range(lanes)],
    }


def touched(addresses: list[int], size: int, arrays: list[tuple[int, int]], unit: int) -> int:
    """Distinct stretches of `unit` bytes; each array begins a stretch of its own, as far as its address is aligned."""
    found = set()
    for first in addresses:
        for byte in range(first, first + size):
            k = next(k for k, (low, high) in enumerate(arrays) if low <= byte < high)
            low = arrays[k][0]
            found.add((k, (low % 16 + byte - low) // unit))
    return len(found)


@pytest.mark.parametrize("arch,size", [("gfx942", 4), ("gfx942", 16), ("gfx1250", 4), ("gfx1250", 16)])
def test_lines_and_sectors_of_stores(sim, build_dir, arch, size):
    """Also of lanes that EXEC masks, and of accesses that reach over two arrays that lie side by side."""
    if rdna(arch):
        mask, restore = "  v_cmp_ne_u32 vcc_lo, 0, v10\n  s_mov_b32 exec_lo, vcc_lo\n", "  s_mov_b32 exec_lo, -1"
        store = {4: "global_store_b32 v[8:9], v11, off", 16: "global_store_b128 v[8:9], v[12:15], off"}[size]
    else:
        mask, restore = "  v_cmp_ne_u32 vcc, 0, v10\n  s_mov_b64 exec, vcc\n", "  s_mov_b64 exec, -1"
        store = {4: "global_store_dword v[8:9], v11, off", 16: "global_store_dwordx4 v[8:9], v[12:15], off"}[size]
    code = f"{mask}  {store}\n{restore}\n  v_mov_b32 v20, 0"
    bench = Bench(sim, arch, [Program("k", code, 3, 20, 1)], build_dir)
    room = 8192
    data = aligned(2 * room // 4).view(np.uint32)
    middle = 4 * 64 + 1024  # the second array begins within a line
    first, second = data[: middle // 4], data[middle // 4 :]
    base = data.ctypes.data
    arrays = [(base, base + middle), (base + middle, base + data.nbytes)]
    out = np.zeros((1, 64), np.uint32)
    rng = random.Random(size)
    for name, offsets in [p for _ in range(4) for p in patterns(rng, bench.wave, size, room - 16).items()]:
        active = [name != "anywhere" and rng.random() < 0.5 or rng.random() < 0.8 for _ in offsets]
        if rng.random() < 0.5:
            active = [True] * len(active)
        if size == 16:  # no access of a lane reaches over both arrays
            offsets = [o // 16 * 16 for o in offsets]
        rows = np.zeros((3, 64), np.uint32)
        for lane, offset in enumerate(offsets):
            rows[:, lane] = (base + offset) & 0xFFFFFFFF, (base + offset) >> 32, active[lane]

        def run(rows=rows):
            # The kernel takes two arguments; the others tell which arrays the launch may reach.
            sim.launch(sim.function(bench.module, "k"), (1,), (bench.wave,), [rows, out, first, second])

        (profile,) = profiled(sim, COUNTERS, run)
        (found,) = [i for i in profile["instructions"] if i["kind" if "kind" in i else "text"] == "store"
                    and "v20" not in i["text"]]
        addresses = [base + o for o, on in zip(offsets, active, strict=True) if on]
        assert found["lanes"] == len(addresses)
        assert found["lines"] == touched(addresses, size, arrays, LINE), (name, offsets, active)
        assert found["l2_bytes"] == SECTOR * touched(addresses, size, arrays, SECTOR), (name, offsets, active)


class LeastRecentlyUsed:
    """The L1 of a compute unit, line by line: four ways, pages numbered as the work-group meets them."""

    def __init__(self, size: int) -> None:
        self.sets: list[list[int]] = [[] for _ in range(size // LINE // 4)]
        self.pages: dict[int, int] = {}

    def misses(self, addresses: list[int]) -> int:
        """Distinct lines of an access, in the order of its lanes, that are absent; they are present afterwards."""
        missed = 0
        for line in dict.fromkeys(a // LINE for a in addresses):
            number = self.pages.setdefault(line // 32, len(self.pages)) * 32 + line % 32
            ways = self.sets[number % len(self.sets)]
            missed += number not in ways
            ways[:] = [number, *(n for n in ways if n != number)][:4]
        return missed


@pytest.mark.parametrize("arch,size", [("gfx90a", 16384), ("gfx942", 32768)])
def test_lines_that_l1_lacks(sim, build_dir, arch, size):
    """Loads of rows, of long stretches and of scattered lanes, some of them again and some after they were replaced."""
    loads = 40
    code = "  v_readfirstlane_b32 s12, v8\n  v_readfirstlane_b32 s13, v9\n"
    code += "".join(f"  global_load_dwordx4 v[60:63], v{10 + k}, s[12:13]\n" for k in range(loads))
    code += "  s_waitcnt vmcnt(0)\n  v_mov_b32 v20, 0"
    bench = Bench(sim, arch, [Program("k", code, loads + 2, 20, 1)], build_dir)
    room, rng = 3 * size, random.Random(size)
    data, rows = aligned(room // 4).view(np.uint32), aligned((loads + 2) * 64).view(np.uint32).reshape(-1, 64)
    base = data.ctypes.data
    offsets: list[list[int]] = []
    for _ in range(loads):
        starts = [16 * rng.randrange((room - 1024) // 16) for _ in range(64)]
        width = rng.choice([1, 8, 16, 64])  # lanes that lie side by side
        fresh = [starts[lane // width] + 16 * (lane % width) for lane in range(64)]
        offsets.append(rng.choice(offsets[-6:]) if offsets and rng.random() < 0.4 else fresh)
    rows[:2] = np.array([[base & 0xFFFFFFFF], [base >> 32]])
    rows[2:] = offsets
    out = np.zeros((1, 64), np.uint32)

    def run():
        sim.launch(sim.function(bench.module, "k"), (1,), (64,), [rows, out, data])

    (profile,) = profiled(sim, COUNTERS, run)
    found = [i["l2_bytes"] for i in profile["instructions"] if i.get("kind") == "load" and i["space"] == "global"]
    cache = LeastRecentlyUsed(size)
    inputs = [[rows.ctypes.data + 256 * k + 4 * lane for lane in range(64)] for k in range(loads + 2)]
    want = [LINE * cache.misses(a) for a in inputs + [[base + o for o in lanes] for lanes in offsets]]
    assert found == want
