"""What the code of a kernel says of its speed: spills, and how busy its hot loop keeps the matrix unit."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "bench"))

import hotloop  # noqa: E402  (a script of tools/bench)

#: The scaled 16x16x128 instruction takes eight passes with fp8 operands, and LLVM's model has four for every format:
#: it is counted as an instruction that it knows to take eight, on the same registers.
_SCALED = re.compile(
    r"v_mfma_scale_f32_16x16x128_f8f6f4 (\S+?), ([va])\[(\d+):(\d+)\], ([va])\[(\d+):(\d+)\], (.*?), "
    r"[vs]\S+, [vs]\S+.*"
)
_FP8_REGISTERS = 8


def _with_true_passes(instruction: Any) -> Any:
    found = _SCALED.fullmatch(instruction.text)
    if not found or all(int(found[i + 1]) - int(found[i]) + 1 < _FP8_REGISTERS for i in (3, 6)):
        return instruction
    text = f"v_mfma_f32_16x16x4_f32 {found[1]}, {found[2]}{found[3]}, {found[5]}{found[6]}, {found[8]}"
    return dataclasses.replace(instruction, text=text)


def code_facts(hsaco: bytes, arch: str) -> tuple[int, float | None, Any]:
    """Spilled vector registers of all kernels; of the hot loop of the one with matrix instructions, the utilisation by
    llvm-mca (None where LLVM has no model of the matrix unit, or is not installed) and the timing model's
    ``LoopEstimate`` (None where there is no loop)."""
    import flydsl.ir
    import flydsl.runtime as rt

    spills = sum(r.vgpr_spills for r in flydsl.ir.kernel_resources(hsaco).values())
    for code in hotloop.parse(flydsl.ir.disassemble(hsaco)).values():
        body = hotloop.hot_loop(code) if hotloop.loops(code) else []
        if any(hotloop.is_matrix(i) for i in body):
            own = rt.loop_estimate(hsaco, body[0].address, body[-1].address)
            mca = None
            if not arch.startswith("gfx9"):  # its machine model of gfx1250 takes thousands of clocks for a barrier
                return spills, mca, own
            try:
                report = hotloop.analyse([_with_true_passes(i) for i in body], arch)
                mca = report.utilisation if report.matrix_cycles else None
            except (FileNotFoundError, RuntimeError) as error:
                print(f"no estimate of llvm-mca: {error}", file=sys.stderr)
            return spills, mca, own
    return spills, None, None
