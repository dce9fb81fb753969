"""Scalar loads of every size, from pointers and from buffers with a range, against the words in memory."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble
from test_valu import invalid_lines

RECORDS = 200  # bytes of the buffer that may be read


def cases(gfx12: bool) -> list[tuple[str, int, int, int, bool]]:
    """(text, words, byte offset, bytes of one element or 0, whether a buffer)."""
    found = []
    for words in (1, 2, 3, 4, 8, 16):
        suffix = f"b{32 * words}" if gfx12 else "dword" + (f"x{words}" if words > 1 else "")
        target = f"s[32:{31 + words}]" if words > 1 else "s32"
        for offset in (0, 20, 184):
            for buffer, base in ((False, "s[4:5]"), (True, "s[12:15]")):
                name = f"s_{'buffer_' if buffer else ''}load_{suffix}"
                found.append((f"{name} {target}, {base}, {offset:#x}", words, offset, 0, buffer))
                found.append((f"{name} {target}, {base}, s20", words, 48, 0, buffer))
                both = f"s20 offset:{offset:#x}"
                found.append((f"{name} {target}, {base}, {both}", words, 48 + offset, 0, buffer))
    for name, size in (("u8", 1), ("i8", -1), ("u16", 2), ("i16", -2)):
        for offset in (3, 18, 70):
            offset &= ~(abs(size) - 1)
            found.append((f"s_load_{name} s32, s[4:5], {offset:#x}", 1, offset, size, False))
            found.append((f"s_buffer_load_{name} s32, s[12:15], {offset:#x}", 1, offset, size, True))
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_scalar_loads(sim, build_dir, arch):
    """Words outside a buffer's range are zero; registers behind the result keep what they had."""
    gfx12 = arch.startswith("gfx12")
    wave = 32 if gfx12 else 64
    candidates = cases(gfx12)
    wrong = invalid_lines(arch, [c[0] for c in candidates])
    chosen = [c for n, c in enumerate(candidates) if n not in wrong]
    assert len(chosen) >= 60
    wait = "  s_wait_kmcnt 0x0\n" if gfx12 else "  s_waitcnt lgkmcnt(0)\n"
    code = f"  s_mov_b32 s20, 48\n  s_mov_b32 s12, s4\n  s_mov_b32 s13, s5\n  s_mov_b32 s14, {RECORDS}\n"
    flags = {"gfx1250": "0", "gfx1201": "0x31027000"}.get(arch, "0x27000")
    if arch == "gfx1250":  # 45 bits of records from bit 57
        code = code.replace(f"s14, {RECORDS}", f"s14, {RECORDS >> 7}")
        code += f"  s_or_b32 s13, s13, {(RECORDS & 127) << 25:#x}\n"
    code += f"  s_mov_b32 s15, {flags}\n"
    for text, *_ in chosen:
        code += "".join(f"  s_mov_b32 s{32 + k}, 0xabcd0000\n" for k in range(17)) + f"  {text}\n{wait}"
        code += "".join(f"  v_writelane_b32 v2, s{32 + k}, {k}\n" for k in range(17))
        code += f"  global_store_{'b32' if gfx12 else 'dword'} v0, v2, s[6:7]\n"
        code += "  s_add_u32 s6, s6, 256\n  s_addc_u32 s7, s7, 0\n"
    sim.set_arch(arch)
    module = sim.load(assemble(module_text(arch, [Program("loads", code, 0, 2, 0)], wave), arch, build_dir))
    data = np.random.default_rng(4).integers(0, 2**32, 128, np.uint32)
    out = np.zeros((len(chosen), 64), np.uint32)
    sim.launch(sim.function(module, "loads"), (1,), (wave,), [data, out])
    memory = data.tobytes()
    for n, (text, words, offset, size, buffer) in enumerate(chosen):
        if size:
            want = [int.from_bytes(memory[offset : offset + abs(size)], "little", signed=size < 0) & 0xFFFFFFFF]
        else:
            want = data[offset // 4 : offset // 4 + words].tolist()
            want = [0 if buffer and offset + 4 * k + 4 > RECORDS else w for k, w in enumerate(want)]
        got = out[n, :17].tolist()
        assert got == want + [0xABCD0000] * (17 - words), f"{text}: {[hex(v) for v in got]}"
