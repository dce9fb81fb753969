"""v_cmp and v_cmpx of every type and condition against plain Python: result mask, EXEC, VCC."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble
from number_formats import FLOATS, decode, is_nan, samples, width
from test_valu import MASKS, invalid_lines

CONDITIONS: dict[str, Callable] = {
    "f": lambda a, b: False,
    "t": lambda a, b: True,
    "tru": lambda a, b: True,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: a < b or a > b,
    "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b,
    "nlg": lambda a, b: not (a < b or a > b),
    "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: not a == b,
    "nlt": lambda a, b: not a < b,
}
TYPES = ["u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64"]


def class_of(bits: int, ty: str, mask: int) -> bool:
    """v_cmp_class: one bit of `mask` for each kind of number."""
    exponent, mantissa = FLOATS[ty]
    value = decode(bits, ty)
    negative = bool(bits >> (width(ty) - 1) & 1)
    if is_nan(bits, ty):
        kind = 1 if bits >> (mantissa - 1) & 1 else 0
    elif math.isinf(value):
        kind = 2 if negative else 9
    elif value == 0:
        kind = 5 if negative else 6
    elif bits >> mantissa & ((1 << exponent) - 1):
        kind = 3 if negative else 8
    else:
        kind = 4 if negative else 7
    return bool(mask >> kind & 1)


def operand(first: int, ty: str) -> str:
    """Register name."""
    return f"v[{first}:{first + 1}]" if width(ty) == 64 else f"v{first}"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_comparisons(sim, build_dir, arch):
    """Three launches of every comparison under a partial EXEC; inactive lanes give zero."""
    gfx12 = arch.startswith("gfx12")
    wave = 32 if gfx12 else 64
    mask = MASKS[wave][1]
    vcc = "vcc_lo" if gfx12 else "vcc"
    rng = random.Random(arch)
    candidates = []
    for ty in TYPES:
        names = [*CONDITIONS, "class"] if ty in FLOATS else list(CONDITIONS)
        for name in names:
            b = "v10" if name == "class" else operand(10, ty)
            target = f"s[20:21], {operand(8, ty)}" if not gfx12 else f"s20, {operand(8, ty)}"
            candidates.append((ty, name, False, f"v_cmp_{name}_{ty} {target}, {b}"))
            place = "" if gfx12 else f"{vcc}, "
            candidates.append((ty, name, True, f"v_cmpx_{name}_{ty} {place}{operand(8, ty)}, {b}"))
    wrong = invalid_lines(arch, [c[3] for c in candidates])
    groups = defaultdict(list)
    for n, (ty, name, x, text) in enumerate(candidates):
        if n not in wrong:
            groups[ty].append((name, x, text))
    assert sum(map(len, groups.values())) >= (120 if gfx12 else 190)
    store = "global_store_b128" if gfx12 else "global_store_dwordx4"
    programs = []
    for ty, group in groups.items():
        code = "  v_lshlrev_b32 v1, 2, v0\n"
        for _, _, text in group:
            code += f"  s_mov_b64 s[20:21], 0\n  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n"
            code += (
                f"  s_mov_b32 exec_hi, {mask >> 32:#x}\n  {text}\n  s_mov_b64 s[22:23], exec\n  s_mov_b64 exec, -1\n"
            )
            code += "".join(f"  v_mov_b32 v{16 + k}, s{20 + k}\n" for k in range(4))
            code += f"  {store} v1, v[16:19], s[6:7]\n  s_add_u32 s6, s6, 1024\n  s_addc_u32 s7, s7, 0\n"
        programs.append(Program(f"cmp_{ty}", code, 4, 16, 0))
    directives = "\n  .amdhsa_float_denorm_mode_32 3\n.end_amdhsa_kernel"
    source = module_text(arch, programs, wave).replace("\n.end_amdhsa_kernel", directives)
    sim.set_arch(arch)
    module = sim.load(assemble(source, arch, build_dir))
    for ty, group in groups.items():
        for _ in range(3):
            a, b = samples(ty, rng, wave), samples(ty, rng, wave)
            b = [x if rng.random() < 0.3 else y for x, y in zip(a, b, strict=True)]
            rows = np.zeros((4, 64), np.uint32)
            for n, values in enumerate((a, b)):
                rows[2 * n, :wave] = [v & 0xFFFFFFFF for v in values]
                rows[2 * n + 1, :wave] = [v >> 32 for v in values]
            out = np.zeros((len(group), 64, 4), np.uint32)
            sim.launch(sim.function(module, f"cmp_{ty}"), (1,), (wave,), [rows, out])
            for n, (name, x, text) in enumerate(group):
                want = 0
                for lane in range(wave):
                    if name == "class":
                        hit = class_of(a[lane], ty, b[lane])
                    else:
                        hit = CONDITIONS[name](decode(a[lane], ty), decode(b[lane], ty))
                    want |= int(hit) << lane
                want &= mask
                low, high, exec_low, exec_high = out[n, 0].tolist()
                got = exec_low | exec_high << 32 if x else low | high << 32
                got &= (1 << wave) - 1
                assert got == want, f"{text}: {got:#x}, expected {want:#x}"
                if not x:
                    assert (exec_low | exec_high << 32) & ((1 << wave) - 1) == mask
