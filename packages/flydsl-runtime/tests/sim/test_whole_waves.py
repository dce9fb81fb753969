"""Loads and stores by all lanes of a wave, side by side or not, against the bytes that they move."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Program, lane_address, module_text, open_descriptor, rdna, wait_all
from hiplib import SimError, assemble

BYTES = {4: ("dword", "b32"), 8: ("dwordx2", "b64"), 12: ("dwordx3", "b96"), 16: ("dwordx4", "b128")}
SPACES = ("offset", "address", "buffer", "lds")
CELLS, RESULTS, LDS = 4096, 1024, 2048  # where the bytes lie in the second array; bytes of results before; of the LDS
WAVES = {"gfx942": 64, "gfx1201": 32, "gfx1250": 32}


def registers(first: int, size: int) -> str:
    return f"v[{first}:{first + size // 4 - 1}]" if size > 4 else f"v{first}"


def instruction(arch: str, space: str, size: int, load: bool) -> str:
    """Loads v20 and on, or stores v10 and on; the byte in the second array is in v8 (LDS: in the LDS)."""
    new, data = rdna(arch), registers(20 if load else 10, size)
    if space == "lds":
        name = ("load" if load else "store") if new else ("read" if load else "write")
        return f"  ds_{name}_{BYTES[size][1]} " + (f"{data}, v8" if load else f"v8, {data}") + "\n"
    name = f"{'load' if load else 'store'}_{BYTES[size][new]}"
    if space == "buffer":
        return f"  buffer_{name} {data}, v8, s[12:15], {'null' if new else '0'} offen\n"
    place, base = ("v8", "s[6:7]") if space == "offset" else ("v[2:3]", "off")
    return f"  global_{name} " + (f"{data}, {place}, {base}" if load else f"{place}, {data}, {base}") + "\n"


def copy_lds(arch: str, wave: int, into: bool) -> str:
    """The bytes of the second array from CELLS on into the LDS, or back, dword after dword."""
    new, text = rdna(arch), ""
    load, store = ("ds_load_b32", "ds_store_b32") if new else ("ds_read_b32", "ds_write_b32")
    move = ("global_load_", "global_store_")[not into] + BYTES[4][new]
    for at in range(0, LDS, 4 * wave):
        text += f"  v_or_b32 v4, {at:#x}, v0\n  v_or_b32 v5, {CELLS + at:#x}, v0\n"
        first, second = (f"{move} v6, v5, s[6:7]", f"{store} v4, v6") if into else (
            f"{load} v6, v4", f"{move} v5, v6, s[6:7]")
        text += f"  {first}\n{wait_all(arch)}  {second}\n{wait_all(arch)}"
    return text


def program(arch: str, space: str, size: int, load: bool) -> Program:
    text = "  v_mov_b32 v1, v8\n" + lane_address(arch) + open_descriptor(arch)
    text += "".join(f"  v_mov_b32 v{20 + k}, 0\n" for k in range(4))
    core = instruction(arch, space, size, load) + wait_all(arch)
    if space == "lds":
        core = copy_lds(arch, WAVES[arch], True) + core + copy_lds(arch, WAVES[arch], False)
    return Program(f"{space}_{size}_{'load' if load else 'store'}", text + core, 6, 20, 4)


def patterns(lanes: int, size: int) -> dict[str, np.ndarray]:
    """First byte of each lane."""
    lane = np.arange(lanes)
    near = lane * size
    found = {
        "side by side": near,
        "not aligned": near + 1,
        "two blocks": lane % 32 * size + (1 - lane // 32) * 1024,
        "strided": 2 * near,
        "reversed": near[::-1],
        "all the same": np.full(lanes, 16),
        "shuffled": np.random.default_rng(size).permutation(near),
    }
    for odd in (0, 31, lanes - 1):
        found[f"side by side but lane {odd}"] = np.where(lane == odd, near[lanes // 2], near)
    return found


@pytest.fixture(scope="module", params=sorted(WAVES))
def module(request, sim, build_dir):
    """Functions by name, of one architecture."""
    arch = request.param
    programs = [program(arch, s, b, load) for s in SPACES for b in BYTES for load in (True, False)]
    text = module_text(arch, programs, WAVES[arch])
    text = text.replace(".group_segment_fixed_size: 0", f".group_segment_fixed_size: {LDS}")
    text = text.replace("\n.end_amdhsa_kernel", f"\n  .amdhsa_group_segment_fixed_size {LDS}\n.end_amdhsa_kernel")
    sim.set_arch(arch)
    loaded = sim.load(assemble(text, arch, build_dir))
    yield arch, {p.name: sim.function(loaded, p.name) for p in programs}
    sim.lib.hipModuleUnload(loaded)


@pytest.mark.parametrize("space", SPACES)
def test_accesses_of_all_lanes(sim, module, space):
    """Registers and memory afterwards; of lanes that store to one place the last one wins."""
    arch, functions = module
    sim.set_arch(arch)
    lanes = WAVES[arch]
    rng = np.random.default_rng(3)
    data = rng.integers(0, 2**32, (6, 64), np.uint32)
    for size in BYTES:
        for name, first in patterns(lanes, size).items():
            if space == "lds" and name == "not aligned":
                continue  # what the LDS makes of it depends on a mode
            data[0, :lanes] = first + (0 if space == "lds" else CELLS)
            for load in (True, False):
                memory = rng.integers(0, 256, CELLS + 2 * LDS, np.uint8)
                before = memory.copy()
                sim.launch(functions[f"{space}_{size}_{'load' if load else 'store'}"], (1,), (lanes,), [data, memory])
                results = memory[:RESULTS].view(np.uint32)
                cells = before[CELLS:].copy()
                for lane in range(lanes):
                    at = int(first[lane])
                    if not load:
                        cells[at : at + size] = data[2 : 2 + size // 4, lane].copy().view(np.uint8)
                        continue
                    want = before[CELLS + at : CELLS + at + size].copy().view(np.uint32)
                    got = [results[64 * k + lane] for k in range(size // 4)]
                    assert list(want) == got, f"{arch} {space} {size} bytes, {name}: lane {lane}"
                assert np.array_equal(memory[CELLS:], cells), f"{arch} {space} {size} bytes, {name}, load: {load}"


@pytest.mark.parametrize("memory", ["buffer", "global"])
@pytest.mark.parametrize("arch, size", [("gfx942", 4), ("gfx950", 12), ("gfx950", 16)])
def test_loads_to_lds_of_all_lanes(sim, build_dir, arch, size, memory):
    """Each lane's bytes lie in the LDS one after the other, wherever they come from."""
    load = f"{memory}_load_lds_{BYTES[size][0]} v[2:3], off" if memory == "global" else (
        f"buffer_load_{BYTES[size][0]} v8, s[12:15], 0 offen lds")
    code = "  v_mov_b32 v1, v8\n" + lane_address(arch) + open_descriptor(arch) + "  s_mov_b32 m0, 0\n"
    code += f"  {load}\n{wait_all(arch)}  v_mul_u32_u24 v4, {size // 4}, v0\n"
    code += "".join(f"  v_mov_b32 v{20 + k}, 0\n" for k in range(4))
    code += f"  ds_read_{BYTES[size][1]} {registers(20, size)}, v4\n" + wait_all(arch)
    text = module_text(arch, [Program("k", code, 1, 20, 4)], 64)
    text = text.replace(".group_segment_fixed_size: 0", f".group_segment_fixed_size: {LDS}")
    text = text.replace("\n.end_amdhsa_kernel", f"\n  .amdhsa_group_segment_fixed_size {LDS}\n.end_amdhsa_kernel")
    sim.set_arch(arch)
    loaded = sim.load(assemble(text, arch, build_dir))
    for name, first in patterns(64, size).items():
        if name == "not aligned":
            continue
        cells = np.random.default_rng(7).integers(0, 256, CELLS + 2 * LDS, np.uint8)
        want = np.stack([cells[CELLS + at : CELLS + at + size] for at in first]).view(np.uint32).T
        sim.launch(sim.function(loaded, "k"), (1,), (64,), [(first + CELLS).astype(np.uint32), cells])
        got = cells[:RESULTS].view(np.uint32).reshape(4, 64)[: size // 4]
        assert np.array_equal(got, want), f"{arch} {size} bytes, {name}"


@pytest.mark.parametrize("arch, first", [("gfx942", 2**32 - 16), ("gfx1201", 2**32 - 16), ("gfx1250", 2**31 - 16)])
def test_offsets_that_wrap_around_are_not_side_by_side(sim, build_dir, arch, first):
    """32-bit offsets from an SGPR base (of gfx1250 signed): four lanes are in the array, the fifth far below it."""
    wave = WAVES[arch]
    store = f"global_store_{BYTES[4][rdna(arch)]}"
    code = f"  s_sub_u32 s6, s6, {first:#x}\n  s_subb_u32 s7, s7, 0\n  {store} v8, v8, s[6:7]\n" + wait_all(arch)
    sim.set_arch(arch)
    loaded = sim.load(assemble(module_text(arch, [Program("k", code, 1, 8, 0)], wave), arch, build_dir))
    memory = np.zeros(1024, np.uint32)
    offsets = (np.arange(64, dtype=np.uint64) * 4 + first & 0xFFFFFFFF).astype(np.uint32)
    with pytest.raises(SimError, match="lane 4.*write of 4 bytes"):
        sim.launch(sim.function(loaded, "k"), (1,), (wave,), [offsets, memory])
    assert list(memory[:5]) == [*offsets[:4], 0]


def test_signed_offsets_around_zero_are_side_by_side(sim, build_dir):
    """gfx1250: lanes 0 to 3 lie below the base."""
    code = "  s_add_u32 s6, s6, 64\n  s_addc_u32 s7, s7, 0\n  global_store_b32 v8, v8, s[6:7]\n" + wait_all("gfx1250")
    sim.set_arch("gfx1250")
    loaded = sim.load(assemble(module_text("gfx1250", [Program("k", code, 1, 8, 0)], 32), "gfx1250", build_dir))
    memory = np.zeros(1024, np.uint32)
    offsets = (np.arange(64) * 4 - 16).astype(np.int32)
    sim.launch(sim.function(loaded, "k"), (1,), (32,), [offsets, memory])
    assert np.array_equal(memory[12:44].view(np.int32), offsets[:32])
    assert not memory[:12].any() and not memory[44:].any()
