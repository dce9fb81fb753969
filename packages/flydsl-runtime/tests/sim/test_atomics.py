"""Atomic operations on global, flat, buffer and LDS memory against plain Python: memory and returned values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Program, lane_address, module_text, open_descriptor, wait_all
from hiplib import assemble
from number_formats import FLOATS, decode, encode, is_nan, samples, width
from test_nan_modes import corners, pick
from test_valu import invalid_lines
from valu_table import add, highest, lowest

BLOCK = 1536  # bytes of an operation: cells, returned values, cells of the form without result
DATA = 8  # v8.. holds the operand, v10.. the value that a compare-and-swap compares with


@dataclass(frozen=True)
class Atomic:
    """``names`` without the memory's prefix, for gfx9 vector memory, gfx9 LDS and RDNA; empty where there is none."""

    vmem9: str
    lds9: str
    rdna: str
    ty: str
    value: Callable[..., int | float]
    compare: bool = False
    halves: str = ""  #: packed floats of this type (finite operands)


def packed(f: Callable, ty: str, a: int, b: int) -> int:
    """An operation on the two halves of dwords."""
    return sum(encode(f(decode(a >> k, ty), decode(b >> k, ty)), ty) << k for k in (0, 16))


def table() -> list[Atomic]:
    """All operations in both widths."""
    ops = []
    for w, x2 in ((32, ""), (64, "_x2")):
        u, i, top = f"u{w}", f"i{w}", 1 << w
        both = {
            "sub": (u, lambda old, d: old - d),
            "and": (u, lambda old, d: old & d),
            "or": (u, lambda old, d: old | d),
            "xor": (u, lambda old, d: old ^ d),
            "add": (u, lambda old, d: old + d),
            "inc": (u, lambda old, d: 0 if old >= d else old + 1),
            "dec": (u, lambda old, d, top=top: d if old == 0 or old > d else (old - 1) % top),
        }
        for name, (ty, f) in both.items():
            bits = f"b{w}" if name in ("and", "or", "xor") else u
            ops.append(Atomic(f"{name}{x2}", f"{name}_rtn_{bits}", f"{name}_{bits}", ty, f))
        for short, ty, f in (("smin", i, min), ("umin", u, min), ("smax", i, max), ("umax", u, max)):
            ops.append(Atomic(f"{short}{x2}", f"{short[1:]}_rtn_{ty}", f"{short[1:]}_{ty}", ty, f))
        ops.append(Atomic(f"swap{x2}", f"wrxchg_rtn_b{w}", f"swap_b{w}", u, lambda old, d: d))
        ops.append(
            Atomic(
                f"cmpswap{x2}", f"cmpst_rtn_b{w}", f"cmpswap_b{w}", u, lambda old, d, c: d if old == c else old, True
            )
        )
        ops.append(Atomic("", f"rsub_rtn_u{w}", "", u, lambda old, d: d - old))
    ops.append(Atomic("add_f32", "add_rtn_f32", "add_f32", "f32", add))
    ops.append(Atomic("add_f64", "add_rtn_f64", "add_f64", "f64", add))
    ops.append(Atomic("min_f64", "min_rtn_f64", "min_num_f64", "f64", lowest))
    ops.append(Atomic("max_f64", "max_rtn_f64", "max_num_f64", "f64", highest))
    ops.append(Atomic("", "min_rtn_f32", "min_num_f32", "f32", lowest))
    ops.append(Atomic("", "max_rtn_f32", "max_num_f32", "f32", highest))
    for ty in ("f16", "bf16"):
        name = f"pk_add_{ty}"
        ops.append(
            Atomic(name, f"pk_add_rtn_{ty}", name, "u32", lambda old, d, ty=ty: packed(add, ty, old, d), halves=ty)
        )
    ops.append(Atomic("", "", "sub_clamp_u32", "u32", lambda old, d: max(old - d, 0)))
    ops.append(Atomic("", "", "cond_sub_u32", "u32", lambda old, d: old - d if old >= d else old))
    ops.append(Atomic("", "", "cmpswap_f32", "f32", lambda old, d, c: d if old == c else old, True))
    return ops


def lds_name(op: Atomic, rdna: bool) -> str:
    """Name of the LDS form with result, without ``ds_``."""
    if not rdna:
        return op.lds9
    if op.compare:
        return f"cmpstore_rtn_{op.ty if op.ty[0] == 'f' else f'b{width(op.ty)}'}"
    if op.rdna.startswith("swap"):
        return f"storexchg_rtn_b{width(op.ty)}"
    base, _, ty = op.rdna.rpartition("_")
    return f"{base}_rtn_{ty}" if base else op.lds9


def lines(op: Atomic, space: str, arch: str) -> list[str]:
    """Two instructions: with result in v[20:21], and without on other cells."""
    rdna = not arch.startswith("gfx9")
    wide = width(op.ty) == 64
    data = "v[8:11]" if wide and op.compare else "v[8:9]" if wide or op.compare else "v8"
    out = "v[20:21]" if wide else "v20"
    if space == "ds":
        name = lds_name(op, rdna)
        if not name:
            return []
        new, old = ("v[8:9]", "v[10:11]") if wide else ("v8", "v9")
        operands = (f"{new}, {old}" if rdna else f"{old}, {new}") if op.compare else new
        plain = name.replace("_rtn", "").replace("wrxchg", "wrxchg_rtn").replace("storexchg", "storexchg_rtn")
        silent = f"ds_{plain} {'v[24:25], ' if wide else 'v24, '}v1" if "xchg" in plain else f"ds_{plain} v1"
        return [f"ds_{name} {out}, v1, {operands}", f"{silent}, {operands} offset:512"]
    name = op.rdna if rdna else op.vmem9
    if not name:
        return []
    give = "sc0" if arch in ("gfx942", "gfx950") else "th:TH_ATOMIC_RETURN" if arch.startswith("gfx12") else "glc"
    if space == "global":
        return [f"global_atomic_{name} {out}, v1, {data}, s[6:7] {give}",
                f"global_atomic_{name} v1, {data}, s[6:7] offset:1024"]
    if space == "flat":
        return [f"flat_atomic_{name} {out}, v[2:3], {data} {give}", f"flat_atomic_{name} v[2:3], {data} offset:1024"]
    copy = {"v8": "v20", "v[8:9]": "v[20:21]", "v[8:11]": "v[20:23]"}[data]
    zero = "null" if rdna else "0"
    return [f"buffer_atomic_{name} {copy}, v1, s[12:15], {zero} offen {give}",
            f"buffer_atomic_{name} {data}, v1, s[12:15], {zero} offen offset:1024"]


def kernel(pairs: list[list[str]], space: str, arch: str) -> str:
    """Each pair with its preparation, then the next block of the output."""
    rdna = not arch.startswith("gfx9")
    two, load = ("b64", "global_load_b64") if rdna else ("dwordx2", "global_load_dwordx2")
    ds = ("ds_store_b64", "ds_load_b64") if rdna else ("ds_write_b64", "ds_read_b64")
    wait = wait_all(arch)
    text = "  v_lshlrev_b32 v1, 1, v0\n"
    for result, silent in pairs:
        text += lane_address(arch) + open_descriptor(arch)
        for k in range(4):
            text += f"  v_mov_b32 v{20 + k}, v{DATA + k}\n" if space == "buffer" else f"  v_mov_b32 v{20 + k}, 0\n"
        if space == "ds":
            text += f"  {load} v[16:17], v1, s[6:7]\n  {load} v[18:19], v1, s[6:7] offset:1024\n{wait}"
            text += f"  {ds[0]} v1, v[16:17]\n  {ds[0]} v1, v[18:19] offset:512\n{wait}"
        text += f"  {result}\n  {silent}\n{wait}"
        if space == "ds":
            text += f"  {ds[1]} v[16:17], v1\n  {ds[1]} v[18:19], v1 offset:512\n{wait}"
            text += (
                f"  global_store_{two} v1, v[16:17], s[6:7]\n  global_store_{two} v1, v[18:19], s[6:7] offset:1024\n"
            )
        text += f"  global_store_{two} v1, v[20:21], s[6:7] offset:512\n{wait}"
        text += f"  s_add_u32 s6, s6, {BLOCK}\n  s_addc_u32 s7, s7, 0\n"
    return text


def number(ty: str, rng: random.Random, count: int, halves: str = "") -> list[int]:
    """Samples without NaN; of packed floats also without infinities."""
    if halves:
        top = 0x1F << 10 if halves == "f16" else 0xFF << 7
        parts = [b if b & top != top else b & 0x83FF for b in samples(halves, rng, 2 * count)]
        return [lo | hi << 16 for lo, hi in zip(parts[::2], parts[1::2], strict=True)]
    bits = samples(ty, rng, count)
    return [0 if ty in FLOATS and is_nan(b, ty) else b for b in bits]


def load(sim, build_dir, arch: str, programs: list[Program], wave: int):
    """The loaded module of programs that use LDS and keep denormal numbers."""
    text = module_text(arch, programs, wave).replace(".group_segment_fixed_size: 0", ".group_segment_fixed_size: 1024")
    more = "\n  .amdhsa_group_segment_fixed_size 1024\n  .amdhsa_float_denorm_mode_32 3\n.end_amdhsa_kernel"
    return sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), arch, build_dir))


@pytest.mark.parametrize("space", ["global", "flat", "buffer", "ds"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_atomic_operations(sim, build_dir, arch, space):
    """Every operation of the architecture with random and corner operands, one cell per lane."""
    rdna = not arch.startswith("gfx9")
    wave = 32 if rdna else 64
    rng = random.Random(f"{arch}{space}")
    candidates = [(op, pair) for op in table() if (pair := lines(op, space, arch))]
    wrong = invalid_lines(arch, [text for _, pair in candidates for text in pair])
    chosen = [c for n, c in enumerate(candidates) if not wrong & {2 * n, 2 * n + 1}]
    assert len(chosen) >= 24, (len(chosen), [c[1][0] for n, c in enumerate(candidates) if wrong & {2 * n, 2 * n + 1}])
    sim.set_arch(arch)
    module = {}
    for op, pair in chosen:
        key = op.ty, op.compare, op.halves
        module.setdefault(key, []).append((op, pair))
    programs = [
        Program(f"a{n}", kernel([pair for _, pair in group], space, arch), 4, 20, 0)
        for n, group in enumerate(module.values())
    ]
    loaded = load(sim, build_dir, arch, programs, wave)
    for n, ((ty, compare, halves), group) in enumerate(module.items()):
        w = width(ty)
        data, cells = number(ty, rng, wave, halves), [number(ty, rng, wave, halves) for _ in range(2 * len(group))]
        rows = np.zeros((4, 64), np.uint32)
        other = [rng.choice((cells[0][k], cells[1][k], 5)) for k in range(wave)]
        for lane in range(wave):
            parts = [data[lane], other[lane]] if compare else [data[lane]]
            words = [p >> s & 0xFFFFFFFF for p in parts for s in range(0, w, 32)]
            rows[: len(words), lane] = words
        out = np.zeros((len(group), 3, 64), np.uint64)
        for k in range(len(group)):
            out[k, 0, :wave], out[k, 2, :wave] = cells[2 * k], cells[2 * k + 1]
        sim.launch(sim.function(loaded, f"a{n}"), (1,), (wave,), [rows, out])
        for k, (op, pair) in enumerate(group):
            for lane in range(wave):
                for half, place in ((0, 0), (1, 2)):
                    old = cells[2 * k + half][lane]
                    args = [decode(v, ty) for v in (old, data[lane], *([other[lane]] if compare else []))]
                    want = encode(op.value(*args), ty)
                    got = int(out[k, place, lane])
                    same = is_nan(got, ty) if ty in FLOATS and is_nan(want, ty) else got == want
                    if ty in FLOATS and args[:2] == [0, 0]:  # the minimum of zeros of different signs may be either
                        same = decode(got, ty) == 0
                    assert same, f"{pair[half]}: {old:#x} with {data[lane]:#x}: {got:#x}, expected {want:#x}"
                returned = int(out[k, 1, lane]) & ((1 << w) - 1)
                assert returned == cells[2 * k][lane], f"{pair[0]}: returned {returned:#x} of {cells[2 * k][lane]:#x}"


@pytest.mark.parametrize("space", ["global", "flat", "buffer", "ds"])
@pytest.mark.parametrize("arch", ["gfx1201", "gfx1250"])
def test_minimum_number_of_memory(sim, build_dir, arch, space):
    """gfx12 has minimumNumber and maximumNumber: -0 is below +0, a NaN loses, and the quiet operand is left of two."""
    wave = 32
    group = [(op, lines(op, space, arch)) for op in table() if op.rdna.endswith("_num_f32")]
    sim.set_arch(arch)
    loaded = load(sim, build_dir, arch, [Program("a", kernel([p for _, p in group], space, arch), 4, 20, 0)], wave)
    operands = list(itertools.product(corners("f32"), repeat=2))
    for start in range(0, len(operands), wave):
        lanes = operands[start : start + wave]
        rows = np.zeros((4, 64), np.uint32)
        out = np.zeros((len(group), 3, 64), np.uint64)
        rows[0, : len(lanes)] = [data for data, _ in lanes]
        out[:, ::2, : len(lanes)] = [old for _, old in lanes]
        sim.launch(sim.function(loaded, "a"), (1,), (wave,), [rows, out])
        for k, (op, pair) in enumerate(group):
            want = [pick("number", op.value is highest, "f32", data, old) for data, old in lanes]
            for half, place in ((0, 0), (1, 2)):
                assert out[k, place, : len(lanes)].tolist() == want, (pair[half], [[*map(hex, x)] for x in lanes])
