"""Single instructions, assembled by LLVM and run on one wave of the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hiplib import Sim, assemble

FIRST = 8  # input registers start at v8; v0..v7 are the harness's and the test's scratch


@dataclass(frozen=True)
class Program:
    """Code that reads `inputs` registers v[FIRST...] and leaves results in `outputs` registers from `result`."""

    name: str
    code: str
    inputs: int
    result: int
    outputs: int


def rdna(arch: str) -> bool:
    """Whether the assembly is that of gfx11 and later."""
    return not arch.startswith("gfx9")


def wait_all(arch: str) -> str:
    """Waits for every vector memory and LDS access."""
    if arch.startswith("gfx11"):
        return "  s_waitcnt vmcnt(0) lgkmcnt(0)\n  s_waitcnt_vscnt null, 0x0\n"
    if arch.startswith("gfx12"):
        return "  s_wait_loadcnt 0x0\n  s_wait_storecnt 0x0\n  s_wait_dscnt 0x0\n"
    return "  s_waitcnt vmcnt(0) lgkmcnt(0)\n"


def lane_address(arch: str) -> str:
    """v[2:3] = s[6:7] + v1."""
    vcc, carry = ("vcc_lo", "v_add_co_ci_u32") if rdna(arch) else ("vcc", "v_addc_co_u32")
    return f"  v_add_co_u32 v2, {vcc}, s6, v1\n  v_mov_b32 v3, s7\n  {carry} v3, {vcc}, 0, v3, {vcc}\n"


def open_descriptor(arch: str) -> str:
    """s[12:15]: a raw buffer at s[6:7] whose size bounds nothing."""
    text = "  s_mov_b32 s12, s6\n  s_mov_b32 s13, s7\n  s_mov_b32 s14, -1\n"
    if arch == "gfx1250":
        return text + "  s_or_b32 s13, s13, 0xfe000000\n  s_mov_b32 s15, 0\n"
    return text + f"  s_mov_b32 s15, {'0x31027000' if rdna(arch) else '0x27000'}\n"


def _load(arch: str, reg: str) -> str:
    op = "global_load_b32" if rdna(arch) else "global_load_dword"
    return f"  {op} {reg}, v0, s[4:5]\n"


def _step(base: int) -> str:
    return f"  s_add_u32 s{base}, s{base}, 256\n  s_addc_u32 s{base + 1}, s{base + 1}, 0\n"


def _wait(arch: str) -> str:
    if arch.startswith("gfx12"):
        return "  s_wait_loadcnt 0x0\n  s_wait_kmcnt 0x0\n"
    return "  s_waitcnt vmcnt(0) lgkmcnt(0)\n"


def kernel_text(arch: str, program: Program, wave: int) -> str:
    """Assembly of a kernel: input rows from the first argument, output rows to the second."""
    load4, store = ("s_load_b128", "global_store_b32") if rdna(arch) else ("s_load_dwordx4", "global_store_dword")
    text = f"\n.text\n.globl {program.name}\n.p2align 8\n.type {program.name},@function\n{program.name}:\n"
    text += f"  {load4} s[4:7], s[0:1], 0x0\n" + _wait(arch)
    text += "  v_and_b32 v0, 0x3ff, v0\n  v_lshlrev_b32 v0, 2, v0\n"
    for i in range(program.inputs):
        text += _load(arch, f"v{FIRST + i}") + _step(4)
    text += _wait(arch) + program.code + "\n"
    for i in range(program.outputs):
        text += f"  {store} v0, v{program.result + i}, s[6:7]\n" + _step(6)
    text += "  s_endpgm\n"
    directives = [
        "user_sgpr_kernarg_segment_ptr 1",
        "system_vgpr_workitem_id 0",
        "next_free_vgpr 512" if not rdna(arch) else "next_free_vgpr 256",
        "next_free_sgpr 64",
    ]
    if not rdna(arch):
        directives.append("accum_offset 256")
    else:
        directives.append(f"wavefront_size32 {int(wave == 32)}")
    text += f".rodata\n.p2align 6\n.amdhsa_kernel {program.name}\n"
    text += "".join(f"  .amdhsa_{d}\n" for d in directives) + ".end_amdhsa_kernel\n"
    return text


def module_text(arch: str, programs: list[Program], wave: int) -> str:
    """One assembly file with all programs and their metadata."""
    text = "".join(kernel_text(arch, p, wave) for p in programs)
    text += '.amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: "amdgcn-amd-amdhsa--' + arch + '"\n'
    text += "amdhsa.kernels:\n"
    for p in programs:
        text += (
            f"  - .name: {p.name}\n    .symbol: {p.name}.kd\n    .kernarg_segment_size: 16\n"
            "    .kernarg_segment_align: 8\n    .group_segment_fixed_size: 0\n    .private_segment_fixed_size: 0\n"
            f"    .wavefront_size: {wave}\n    .sgpr_count: 64\n    .vgpr_count: 256\n"
            "    .max_flat_workgroup_size: 64\n    .args:\n"
            "      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}\n"
            "      - {.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}\n"
        )
    return text + "...\n.end_amdgpu_metadata\n"


class Bench:
    """Assembled programs of one architecture."""

    def __init__(self, sim: Sim, arch: str, programs: list[Program], tmp: str, wave: int | None = None,
                 options: tuple[str, ...] = ()) -> None:
        self.sim, self.arch = sim, arch
        self.wave = wave or (32 if rdna(arch) else 64)
        self.programs = {p.name: p for p in programs}
        sim.set_arch(arch)
        features = ("-mattr=+wavefrontsize64",) if self.wave == 64 and rdna(arch) else options
        self.module = sim.load(assemble(module_text(arch, programs, self.wave), arch, tmp, features))

    def run(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Runs on input rows (inputs, wave) of uint32; returns rows (outputs, wave)."""
        p = self.programs[name]
        self.sim.set_arch(self.arch)
        padded = np.zeros((p.inputs, 64), np.uint32)
        padded[:, : self.wave] = rows
        out = np.full((p.outputs, 64), 0xDEADBEEF, np.uint32)
        self.sim.launch(self.sim.function(self.module, name), (1,), (self.wave,), [padded, out])
        return out[:, : self.wave].copy()
