"""Products with a carry whose lane mask nothing reads leave it out; one that something reads is there."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Bench, Program

FIRST_OUT = 20
MAD = "  v_mad_u64_u32 v[20:21], s[20:21], v8, v9, v[10:11]\n"
AGAIN = "  v_cmp_lt_u32_e64 s[20:21], v8, v9\n"  # writes the mask again
SHOW = "  v_mov_b32 v22, s20\n  v_mov_b32 v23, s21\n"

#: Code between a product and the end, by what it does to the product's mask, and what then is in v22 and v23.
CARRY: dict[str, str] = {
    "reads": SHOW,
    "copies": "  s_mov_b64 s[22:23], s[20:21]\n  s_nop 0\n" + AGAIN + "  v_mov_b32 v22, s22\n  v_mov_b32 v23, s23\n",
    "halves": "  s_mov_b32 s22, s20\n  s_mov_b32 s23, s21\n" + AGAIN + "  v_mov_b32 v22, s22\n  v_mov_b32 v23, s23\n",
    "branches": "  s_branch 1\n" + AGAIN.replace("v_cmp", "; v_cmp") + "  s_nop 0\n" + SHOW,
    "changes": "  s_bitset1_b32 s20, 0\n  s_bitset1_b32 s21, 0\n" + AGAIN.replace("s[20:21]", "s[24:25]") + SHOW,
    "selects": "  v_cndmask_b32 v24, 0, 1, s[20:21]\n" + AGAIN + "  v_cmp_eq_u32_e64 s[22:23], 1, v24\n"
               "  v_mov_b32 v22, s22\n  v_mov_b32 v23, s23\n",
    "relative": "  s_mov_b32 m0, 2\n  s_nop 0\n  s_movrels_b64 s[22:23], s[18:19]\n" + AGAIN
                + "  v_mov_b32 v22, s22\n  v_mov_b32 v23, s23\n",
    "masks": "  s_and_saveexec_b64 s[22:23], s[20:21]\n" + AGAIN + "  v_mov_b32 v24, 7\n  s_mov_b64 exec, s[22:23]\n"
             "  v_cmp_eq_u32_e64 s[22:23], 7, v24\n  v_mov_b32 v22, s22\n  v_mov_b32 v23, s23\n",
    "again": AGAIN + SHOW,
    "never": "  v_mov_b32 v22, 0\n  v_mov_b32 v23, 0\n",
}


def bits(lanes: np.ndarray) -> np.ndarray:
    """The two words of a lane mask."""
    mask = sum(int(b) << k for k, b in enumerate(lanes))
    return np.array([mask & 0xFFFFFFFF, mask >> 32], np.uint64)


@pytest.mark.parametrize("partial", [False, True])
def test_masks(sim, build_dir, partial):
    """The product, and the mask if anything reads it, for random operands with carries; also with some lanes off."""
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 1 << 32, (4, 64), np.uint64)
    rows[3] |= np.uint64(0xC0000000)  # half of the sums carry
    some = rng.integers(0, 1 << 63, dtype=np.int64) | 1 if partial else -1
    on = np.array([some >> k & 1 for k in range(64)], bool)
    enter = (f"  s_mov_b32 exec_lo, {some & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {some >> 32 & 0xFFFFFFFF:#x}\n"
             "  s_mov_b64 s[26:27], exec\n  v_mov_b32 v24, 0\n")
    start = "".join(f"  v_mov_b32 v{FIRST_OUT + k}, {0x100 + k}\n" for k in range(4))
    leave = "  s_mov_b64 exec, -1\n"
    programs = [Program(name, start + enter + MAD + code.replace("exec, s[22:23]", "exec, s[26:27]") + leave,
                        4, FIRST_OUT, 4) for name, code in CARRY.items()]
    bench = Bench(sim, "gfx942", programs, build_dir)
    product = [int(a) * int(b) for a, b in zip(rows[0], rows[1], strict=True)]
    total = [p + int(lo) + (int(hi) << 32) for p, lo, hi in zip(product, rows[2], rows[3], strict=True)]
    carry = np.array([t >> 64 for t in total], bool) & on
    assert 10 < carry.sum() < 54 or partial
    for name in CARRY:
        out = bench.run(name, rows.astype(np.uint32)).astype(np.uint64)
        for k, expected in enumerate((np.array([t & 0xFFFFFFFF for t in total], np.uint64),
                                      np.array([t >> 32 & 0xFFFFFFFF for t in total], np.uint64))):
            np.testing.assert_array_equal(out[k], np.where(on, expected, 0x100 + k), err_msg=name)
        mask = {"again": bits((rows[0] < rows[1]) & on), "never": np.zeros(2, np.uint64)}.get(name, bits(carry))
        if name == "changes":
            mask = mask | np.uint64(1)
        for k in range(2):
            np.testing.assert_array_equal(out[2 + k], np.where(on, mask[k], 0x102 + k), err_msg=name)


@pytest.mark.parametrize(("arch", "places"), [("gfx942", (20, 22)), ("gfx1201", (19, 20, 21))])
@pytest.mark.parametrize("scalar", [0, 1, 0x80000003])
@pytest.mark.parametrize("partial", [False, True])
def test_products_with_a_scalar(sim, build_dir, arch, places, scalar, partial):
    """Products of a scalar, zero too, and a vector, that nothing reads the mask of; result and addend may overlap."""
    rng = np.random.default_rng(scalar)
    lanes, co, mask = (64, "", "s[20:21]") if arch == "gfx942" else (32, "co_", "s20")
    rows = rng.integers(0, 1 << 32, (3, lanes), np.uint64)
    on = np.arange(lanes) % 3 == 0 if partial else np.ones(lanes, bool)
    low, high = (int(w) for w in bits(on))
    start = (f"  s_mov_b32 s8, {scalar:#x}\n  v_mov_b32 v19, 7\n  v_mov_b32 v20, v9\n  v_mov_b32 v21, v10\n"
             f"  v_mov_b32 v22, 8\n  v_mov_b32 v23, 9\n  s_mov_b32 exec_lo, {low:#x}\n  s_mov_b32 exec_hi, {high:#x}\n")
    rest = f"{mask}, s8, v8, v[20:21]\n  s_mov_b32 exec_lo, -1\n  s_mov_b32 exec_hi, -1\n"
    programs = [Program(f"{kind}{first}", f"{start}  v_mad_{co}{kind} v[{first}:{first + 1}], {rest}", 3, 19, 5)
                for kind in ("u64_u32", "i64_i32") for first in places]
    bench = Bench(sim, arch, programs, build_dir)
    addend = rows[1] | rows[2] << np.uint64(32)
    signed = rows[0].astype(np.uint32).view(np.int32).astype(np.int64)
    product = {"u64_u32": np.uint64(scalar) * rows[0], "i64_i32": np.uint32(scalar).view(np.int32) * signed}
    for program in programs:
        first, total = int(program.name[7:]), product[program.name[:7]].astype(np.uint64) + addend
        held = [7, rows[1], rows[2], 8, 9]
        for k, word in enumerate((total & np.uint64(0xFFFFFFFF), total >> np.uint64(32))):
            held[first - 19 + k] = np.where(on, word, held[first - 19 + k])
        for found, expected in zip(bench.run(program.name, rows.astype(np.uint32)), held, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=program.name)
