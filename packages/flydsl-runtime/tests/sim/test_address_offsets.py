"""The offsets of global loads: the immediate over its whole range, the register beside an SGPR base."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program

RANGES = {"gfx942": 1 << 12, "gfx950": 1 << 12, "gfx1201": 1 << 23, "gfx1250": 1 << 23}


@pytest.mark.parametrize("arch", sorted(RANGES))
def test_offset_is_signed(sim, build_dir, arch):
    """Lanes load data[lane + k]; base and offset are chosen so that only a sign-extended offset lands there."""
    limit = RANGES[arch]
    gfx12 = arch.startswith("gfx12")
    load = "global_load_b32" if gfx12 else "global_load_dword"
    wait = "s_wait_loadcnt 0x0" if gfx12 else "s_waitcnt vmcnt(0)"
    offsets = [-limit, -limit + 4, -2048, -4, 0, 4, limit - 4]
    programs = []
    for n, offset in enumerate(offsets):
        # The two input registers hold the address that, with the offset added, is the lane's own element.
        code = f"  {load} v2, v[{FIRST}:{FIRST + 1}], off offset:{offset}\n  {wait}"
        programs.append(Program(f"load{n}", code, 2, 2, 1))
    bench = Bench(sim, arch, programs, build_dir)
    lanes = bench.wave
    data = np.random.default_rng(5).integers(0, 2**32, lanes, np.uint32)
    for n, offset in enumerate(offsets):
        address = (data.ctypes.data + 4 * np.arange(lanes, dtype=np.int64) - offset).astype(np.uint64)
        rows = np.stack([address & np.uint64(0xFFFFFFFF), address >> np.uint64(32)]).astype(np.uint32)
        np.testing.assert_array_equal(bench.run(f"load{n}", rows)[0], data, err_msg=f"offset {offset}")


@pytest.mark.parametrize("arch", sorted(RANGES))
@pytest.mark.parametrize("scaled", [False, True])
def test_register_offset_beside_a_scalar_base(sim, build_dir, arch, scaled):
    """The 32-bit register is signed on gfx1250, where LLVM selects it for sign-extended indices; unsigned elsewhere."""
    signed = arch == "gfx1250"
    if scaled and not signed:
        pytest.skip("scale_offset came with gfx1250")
    gfx12 = arch.startswith("gfx12")
    load = "global_load_b32" if gfx12 else "global_load_dword"
    wait = "s_wait_loadcnt 0x0" if gfx12 else "s_waitcnt vmcnt(0)"
    hazard = "" if gfx12 else "  s_nop 4\n"
    code = (
        f"  v_readfirstlane_b32 s20, v{FIRST}\n  v_readfirstlane_b32 s21, v{FIRST + 1}\n{hazard}"
        f"  {load} v2, v{FIRST + 2}, s[20:21] offset:8{' scale_offset' if scaled else ''}\n  {wait}"
    )
    bench = Bench(sim, arch, [Program("load", code, 3, 2, 1)], build_dir)
    lanes = bench.wave
    data = np.random.default_rng(6).integers(0, 2**32, lanes, np.uint32)
    unit = 4 if scaled else 1
    # Offsets whose top bit is set: below the base when they are signed, far above it when they are not.
    offset = (np.arange(lanes, dtype=np.int64) - lanes) * (4 // unit)
    wrapped = offset % 2**32
    reach = offset if signed else wrapped
    base = data.ctypes.data - 8 - int(reach[0]) * unit
    rows = np.stack([np.full(lanes, base & 0xFFFFFFFF), np.full(lanes, base >> 32), wrapped]).astype(np.uint32)
    np.testing.assert_array_equal(bench.run("load", rows)[0], data)
