"""What is known of a launch: facts of its code, and the simulator's counts and estimates."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cases import Case

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "bench"))


@dataclass(frozen=True)
class Row:
    """One line of the table. Everything that starts with ``estimated`` comes from the timing model.

    Attributes:
        bytes_moved: counted between the caches and memory; `bytes_minimum` is each input and output once.
        estimated_share: of the peak that limits the kernel: bandwidth, or the matrix unit's.
        bound: which of the two.
        estimated_matrix_busy: share of a compute unit's clocks in which its matrix units work, first to last.
        mca_matrix_busy: the same for the hot loop of one wave by llvm-mca, None where it has no model.
        estimated_loop_busy: share of the hot loop's clocks in which the matrix unit works by the timing model, for one
            wave alone whose accesses hit the nearest cache: what `mca_matrix_busy` is by LLVM's.
        lds_conflicts: share of the LDS clocks that bank conflicts add.
        compile_seconds: CPU time of the first compilation; `simulator_seconds`: of a launch, says nothing of a GPU.
    """

    op: str
    name: str
    shape: str
    dtype: str
    arch: str
    status: str
    estimated_cycles: float = 0.0
    estimated_us: float = 0.0
    estimated_tb_s: float = 0.0
    estimated_tflop_s: float = 0.0
    estimated_share: float = 0.0
    estimated_matrix_busy: float | None = None
    mca_matrix_busy: float | None = None
    estimated_loop_busy: float | None = None
    bound: str = ""
    bytes_minimum: int = 0
    bytes_moved: int = 0
    vgpr: int = 0
    agpr: int = 0
    lds_bytes: int = 0
    spills: int = 0
    waves_per_simd: int = 0
    occupancy_limit: str = ""
    lds_conflicts: float | None = None
    compile_seconds: float = 0.0
    simulator_seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"simulated": True, **asdict(self)}


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


def code_facts(hsaco: bytes, arch: str) -> tuple[int, float | None, float | None]:
    """Spilled vector registers of all kernels; utilisation of the hot loop of the one with matrix instructions, by
    llvm-mca (None where LLVM has no model of the matrix unit, or is not installed) and by the timing model."""
    import hotloop

    import flydsl.ir
    import flydsl.runtime as rt

    spills = sum(r.vgpr_spills for r in flydsl.ir.kernel_resources(hsaco).values())
    for code in hotloop.parse(flydsl.ir.disassemble(hsaco)).values():
        if any(hotloop.is_matrix(i) for i in code) and hotloop.loops(code):
            body = hotloop.hot_loop(code)
            own = rt.loop_estimate(hsaco, body[0].address, body[-1].address)
            mca = None
            if not arch.startswith("gfx9"):  # its machine model of gfx1250 takes thousands of clocks for a barrier
                return spills, mca, own.matrix_busy / own.clocks
            try:
                report = hotloop.analyse([_with_true_passes(i) for i in body], arch)
                mca = report.utilisation if report.matrix_cycles else None
            except (FileNotFoundError, RuntimeError) as error:
                print(f"no estimate of llvm-mca: {error}", file=sys.stderr)
            return spills, mca, own.matrix_busy / own.clocks
    return spills, None, None


def _timed(call: Any, *arguments: Any) -> float:
    import flydsl.runtime as rt

    start = time.perf_counter()
    call(*arguments)
    rt.synchronize()
    return time.perf_counter() - start


def compile_seconds(launcher: Any, arguments: list[Any]) -> float:
    """CPU seconds from tracing to code object, into an empty cache; nothing is launched."""
    import flydsl.compiler as flyc

    os.environ["COMPILE_ONLY"] = "1"
    start = time.process_time()  # a busy machine changes it least
    try:
        flyc.compile(launcher, *arguments)
        return time.process_time() - start
    finally:
        del os.environ["COMPILE_ONLY"]


def warm_up() -> None:
    """Compile something once, so that the first case does not pay for loading the compiler."""
    import torch

    from flydsl.kernels.elementwise import build_add_module

    x = torch.zeros(4, 8, dtype=torch.float16)
    compile_seconds(build_add_module("f16"), [x, x, x, 4, 8])


def measure(case: Case, arch: str) -> Row:
    """Compile, run and profile one case; an unsupported one gets the reason as its status."""
    import flydsl.compiler as flyc
    import flydsl.runtime as rt

    head = dict(op=case.op, name=case.name, shape=case.shape, dtype=case.dtype, arch=arch)
    try:
        launcher, arguments = case.make()
        seconds_to_compile = compile_seconds(launcher, arguments)
        compiled = flyc.compile(launcher, *arguments)
        again = _timed(launcher, *arguments)
        with rt.profile(timing=True) as profile:
            launcher(*arguments)
    except (ValueError, RuntimeError, TypeError) as error:
        return Row(**head, status=f"{type(error).__name__}: {error}".splitlines()[0])
    launches = list(profile.launches)
    main = max(launches, key=lambda launch: launch.timing.cycles)
    spills, mca, loop = code_facts(compiled.artifact.hsaco, arch)
    seconds = sum(launch.timing.microseconds for launch in launches) * 1e-6
    traffic = [launch.traffic() for launch in launches]
    moved = sum(t["memory_read"] + t["memory_written"] for t in traffic)
    timing, agpr = main.timing, main.raw["agprs"]
    vgpr = main.raw["vgprs"] - agpr  # the notes of the code object count both files together
    clocks, conflicts, _ = main.lds_conflicts()
    busy = timing.matrix_busy / (timing.sample_cycles * timing.simds) if timing.matrix_busy else None
    bandwidth = case.bytes / seconds
    cycles = sum(launch.timing.cycles for launch in launches)
    by_bytes = sum(launch.timing.memory_cycles for launch in launches) / cycles
    share, bound = (busy, "matrix") if busy is not None and busy > by_bytes else (by_bytes, "memory")
    return Row(
        **head, status="ok", estimated_cycles=cycles,
        estimated_us=seconds * 1e6, estimated_tb_s=bandwidth / 1e12, estimated_tflop_s=case.flops / seconds / 1e12,
        estimated_share=min(share, 1.0), estimated_matrix_busy=busy, mca_matrix_busy=mca,
        estimated_loop_busy=loop, bound=bound,
        bytes_minimum=case.bytes, bytes_moved=moved, vgpr=vgpr, agpr=agpr, lds_bytes=main.raw["lds_bytes"],
        spills=spills, waves_per_simd=main.occupancy()["waves_per_simd"], occupancy_limit=main.occupancy()["limit"],
        lds_conflicts=conflicts / clocks if clocks else None, compile_seconds=seconds_to_compile,
        simulator_seconds=again,
    )
