"""From the lowered ``gpu.module`` to the code object: in process, or by an external LLVM."""

from __future__ import annotations

from typing import Any

from flydsl.tracing.diagnostics import DSLCompileError, dsl_ir_diagnostics
from flydsl.tracing.ir_walk import children
from flydsl.utils import env

from .external_llvm import generate_externally
from .link_utils import check_bitcode_path
from .unselectable import unselectable

__all__ = ["generate_code"]


def generate_code(
    module: Any, backend: Any, hints: dict[str, Any], link_libs: list[str], dump: Any, phases: dict[str, float]
) -> bytes:
    """The code object of the module's only ``gpu.module``.

    Args:
        link_libs: bitcode to link. dump: writes LLVM IR and assembly, or None. phases: gets the seconds of LLVM and
            of linking where the code generator tells them.

    Raises:
        DSLCompileError: code generation failed. ValueError: a bitcode path that cannot be passed on.
        RuntimeError: external code generation together with bitcode or an assembly dump.
    """
    (gpu_module,) = (op for op in children(module) if op.name == "gpu.module")
    for path in link_libs:
        check_bitcode_path(path)
    if env.compile.llvm_dir:
        return _external(module, backend, hints, link_libs, dump)
    return _in_process(gpu_module, backend, hints, link_libs, dump, phases)


def _in_process(
    gpu_module: Any, backend: Any, hints: dict[str, Any], link_libs: list[str], dump: Any, phases: dict[str, float]
) -> bytes:
    import flydsl.ir as fly_ir

    arch = backend.target_id
    level, debug_info = env.compile.opt_level, env.debug.enable_debug_info
    llvm_options: Any = hints.get("llvm_options") or {}
    try:
        if dump is not None:
            if not dump.assembly_only:
                dump.write("llvm_ir", fly_ir.emit_llvm_ir(gpu_module, arch, debug_info=debug_info), ".ll")
            assembly = fly_ir.emit_isa(gpu_module, arch, level, debug_info=debug_info, llvm_options=llvm_options)
            dump.write("final_isa", assembly, ".s")
        code = fly_ir.compile_to(
            gpu_module, arch, "hsaco", opt_level=level, fast_math=bool(hints.get("fast_fp_math")),
            debug_info=debug_info, link_bitcode=link_libs, llvm_options=llvm_options, timings=phases,
        )
    except fly_ir.CodegenError as error:
        known_cause = unselectable(str(error), gpu_module)
        if known_cause is not None:
            raise known_cause from None
        raise DSLCompileError(f"code generation for {arch} failed: {error}") from None
    return code


def _external(module: Any, backend: Any, hints: dict[str, Any], link_libs: list[str], dump: Any) -> bytes:
    from flydsl._mlir import passmanager

    if link_libs:
        raise RuntimeError("external code generation (FLYDSL_COMPILE_LLVM_DIR) cannot link external bitcode")
    if env.debug.dump_asm:
        raise RuntimeError("external code generation (FLYDSL_COMPILE_LLVM_DIR) cannot dump assembly")
    before, binary = backend.external_binary_pipeline_fragments(compile_hints=hints)
    done = len(backend.pipeline_fragments(compile_hints=hints))
    manager = passmanager.PassManager.parse(f"builtin.module({','.join(before[done:])})")
    with dsl_ir_diagnostics("attaching the target failed"):
        manager.run(module.operation)
    (gpu_module,) = (op for op in children(module) if op.name == "gpu.module")
    directory, stage = (None, "external") if dump is None else (dump.directory, f"{dump.number:02d}_external_binary")
    return generate_externally(
        env.compile.llvm_dir, gpu_module, binary, hints.get("llvm_options") or {}, directory, stage
    )
