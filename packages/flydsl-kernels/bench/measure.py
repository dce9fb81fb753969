"""What is known of a launch: facts of its code, and the simulator's counts and estimates."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from cases import Case
from code_facts import code_facts


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
    spills, mca, alone = code_facts(compiled.artifact.hsaco, arch)
    loop = alone and alone.matrix_busy / alone.clocks
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
