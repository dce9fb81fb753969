"""The pass pipeline: traced module in, launch plan and code object out; with IR dumps."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flydsl.tracing.diagnostics import DSLCompileError, dsl_ir_diagnostics, warnings_of
from flydsl.tracing.ir_walk import children, kernel_functions
from flydsl.utils import env, log

from ..backends import get_backend
from ..plan.host import PlanBuilder
from ..plan.host_only import host_plan, is_host_only
from ..store.artifact import CompiledArtifact
from .codegen import generate_code
from .lowered import LoweredModule

__all__ = ["MlirCompiler", "stage_label"]


def stage_label(fragment: str) -> str:
    """File label of a pipeline fragment: ``gpu.module(a,b{c})`` -> ``a_b``."""
    text = fragment
    if text.startswith("gpu.module(") and text.endswith(")"):
        text = text[len("gpu.module(") : -1]
    text = re.sub(r"[^A-Za-z0-9]+", "_", text.split("{", 1)[0]).strip("_").lower()
    return text or "stage"


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Failures to write a dump as the setting's: ValueError that names it."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"FLYDSL_DUMP_DIR={env.debug.dump_dir!r}: {path} cannot be written "
                         f"({error.strerror or error})") from error


class _Dump:
    """Numbered files in the dump directory of one compile."""

    def __init__(self, sub: str, assembly_only: bool = False) -> None:
        self.assembly_only = assembly_only
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", sub)
        self.directory = Path(env.debug.dump_dir).expanduser() / safe
        with _writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        self.number = 0
        asked = "FLYDSL_DEBUG_DUMP_ASM" if assembly_only else "FLYDSL_DUMP_IR"
        sys.stdout.write(f"[flydsl.compile] {asked}=1 dir={self.directory}\n")

    def write(self, label: str, text: str, suffix: str = ".mlir") -> None:
        path = self.directory / f"{self.number:02d}_{label}{suffix}"
        with _writing(path):
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"[flydsl.compile] dump {label} -> {path}\n")
        self.number += 1


def _text(module: Any) -> str:
    return module.operation.get_asm(enable_debug_info=True)


def _symbol(op: Any) -> str:
    return str(op.attributes["sym_name"].value)


class MlirCompiler:
    """Runs the stages of a backend over a traced module."""

    @classmethod
    def compile(
        cls, module: Any, *, compile_hints: dict[str, Any] | None = None, **options: Any
    ) -> CompiledArtifact:
        """Lower a traced module and generate code: `lower`, whose options it takes, and `generate`."""
        return cls.generate(cls.lower(module, compile_hints=compile_hints, **options), compile_hints=compile_hints)

    @classmethod
    def lower(
        cls,
        module: Any,
        *,
        arch: str = "",
        func_name: str = "",
        link_libs: list[str] | None = None,
        compile_hints: dict[str, Any] | None = None,
        arguments: list[dict[str, Any]] | None = None,
    ) -> LoweredModule:
        """Run the passes over a traced module. The result does not depend on `call.BACKEND_HINTS`.

        Args:
            arch: target; default: the detected one.
            func_name: host function of the launch plan.
            arguments: launch plan entries of its arguments.

        Raises:
            DSLCompileError: verification or a pass failed; carries the user's lines.
        """
        started = time.perf_counter()
        hints = compile_hints or {}
        backend = get_backend(arch=arch)
        cls._check_hints(hints)
        with dsl_ir_diagnostics("MLIR verification failed"):
            module.operation.verify()
        if env.debug.print_origin_ir:
            log().info("%s", _text(module))
        names = [_symbol(k) for k in kernel_functions(module)]
        text = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
        source = zlib.compress(text.encode(), 1)
        dump = _Dump(names[0] if len(names) == 1 else func_name or "module") if env.debug.dump_ir else None
        if dump is not None:
            dump.write("origin", text)
        if not names and is_host_only(module):
            phases = {"passes": time.perf_counter() - started}
            plan = host_plan(func_name, arguments or [])
            return LoweredModule(func_name, backend.target.arch, plan, [], b"", source, phases=phases, dump=dump)
        module = module.operation.clone()  # the traced one stays as it is
        cls._run(module, backend.pipeline_fragments(compile_hints=hints), dump)
        if hints.get("ktrace") or env.ktrace.enable:
            from flydsl.marks.device import define_functions

            define_functions(module, hints.get("ktrace_blocks") or env.ktrace.blocks)
        plan = cls._plan(module, func_name, arguments or [])
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        phases = {"passes": time.perf_counter() - started}
        return LoweredModule(
            func_name, backend.target.arch, plan, names, buffer.getvalue(), source, module, list(link_libs or ()), [],
            phases, dump,
        )

    @classmethod
    def generate(cls, lowered: LoweredModule, *, compile_hints: dict[str, Any] | None = None) -> CompiledArtifact:
        """Generate code for a lowered module, with the options that only code generation reads."""
        from flydsl.ir import parse_own_bytecode

        started = time.perf_counter()
        hints = compile_hints or {}
        cls._check_hints(hints)
        if not lowered.kernels:
            metadata: dict[str, Any] = {"kernels": [], "phases": lowered.phases, "compile_seconds": 0.0}
            return CompiledArtifact(
                lowered.name, lowered.arch, lowered.plan, b"", metadata=metadata, source=lowered.source
            )
        backend = get_backend(arch=lowered.arch)
        module = lowered.module if lowered.module is not None else parse_own_bytecode(lowered.bytecode)
        backend.lower_compile_hints(module, compile_hints=hints)
        dump = lowered.dump
        if dump is None and env.debug.dump_asm:
            dump = _Dump(lowered.kernels[0] if len(lowered.kernels) == 1 else lowered.name, assembly_only=True)
        detail: dict[str, float] = {}
        hsaco = generate_code(module, backend, hints, lowered.link_libs, dump, detail)
        phases = {**lowered.phases, "codegen": time.perf_counter() - started, **detail}
        if env.debug.timing:
            show = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in phases.items())
            sys.stderr.write(f"[flydsl.compile] {lowered.name} for {lowered.arch}: {show}\n")
        total = sum(phases.values()) - sum(detail.values())
        schedules = cls._schedules(module, lowered.bytecode, hsaco)
        metadata = {"kernels": lowered.kernels, "phases": phases, "compile_seconds": total}
        if schedules:
            metadata["schedules"] = schedules
        return CompiledArtifact(
            lowered.name, lowered.arch, lowered.plan, hsaco, metadata=metadata, source=lowered.source
        )

    @staticmethod
    def _schedules(module: Any, bytecode: bytes, hsaco: bytes) -> dict[str, list[dict[str, Any]]]:
        """For each kernel its loops with scheduling hints, compared with the final code; warns of stale ones."""
        if b"sched.group.barrier" not in bytecode:
            return {}
        from .schedule_check import check_schedules, warn_stale

        found = check_schedules(module, hsaco)
        warn_stale(found)
        schedules: dict[str, list[dict[str, Any]]] = {}
        for schedule in found:
            schedules.setdefault(schedule.kernel, []).append(schedule.as_dict())
        return schedules

    @staticmethod
    def _check_hints(hints: dict[str, Any]) -> None:
        if "maxnreg" in hints:
            raise ValueError("the compile hint maxnreg has no effect on AMD GPUs; use waves_per_eu")
        options = hints.get("llvm_options")
        if not isinstance(options, dict | None):
            raise TypeError(f"the compile hint llvm_options is a dict of names and values, got {options!r}")

    @staticmethod
    def _run(module: Any, fragments: list[str], dump: _Dump | None) -> None:
        from flydsl._mlir import passmanager

        groups = [[f] for f in fragments] if dump is not None else [fragments]
        for group in groups:
            manager = passmanager.PassManager.parse(f"builtin.module({','.join(group)})")
            manager.enable_verifier(env.debug.enable_verifier)
            if env.debug.print_after_all:
                manager.enable_ir_printing()
            with dsl_ir_diagnostics("a compiler pass failed"), warnings_of(module.context):
                manager.run(module.operation)
            if dump is not None:
                dump.write(stage_label(group[0]), _text(module))

    @staticmethod
    def _plan(module: Any, func_name: str, arguments: list[dict[str, Any]]) -> dict[str, Any]:
        for op in children(module):
            if op.name == "func.func" and _symbol(op) == func_name:
                return PlanBuilder(func_name, arguments).build(op)
        raise DSLCompileError(f"the traced module has no host function {func_name!r}")
