"""LLVM IR to AMDGPU code objects, in this process: no external tool, no ROCm installation."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

from flydsl._mlir._mlir_libs import _flyCodegen

if TYPE_CHECKING:
    from flydsl._mlir import ir

Output = Literal["llvm", "llvm-opt", "isa", "object", "hsaco"]

# The order is that of FlyCodegenOutput in CodegenCAPI.h.
_OUTPUTS: tuple[Output, ...] = ("llvm", "llvm-opt", "isa", "object", "hsaco")


class CodegenError(RuntimeError):
    """The code generator rejected its input; the text carries every diagnostic it gave."""


def _operation(source: object) -> ir.Operation:
    """The operation behind a module, an op view or an operation."""
    return getattr(source, "operation", source)  # type: ignore[return-value]


def compile_to(
    source: ir.Module | ir.OpView | ir.Operation | str,
    arch: str,
    output: Output,
    *,
    opt_level: int = 3,
    features: str = "",
) -> bytes:
    """Compile for one architecture and return the chosen kind of output.

    ``source`` is LLVM IR text, or a ``gpu.module`` (or a ``builtin.module`` that holds exactly one, or
    a ``builtin.module`` of functions) whose content is in the LLVM and ROCDL dialects. ``arch`` is a
    processor (``"gfx942"``) or target id (``"gfx942:sramecc+:xnack-"``). ``output`` is one of
    ``"llvm"`` (IR text before optimisation), ``"llvm-opt"``, ``"isa"`` (assembly text), ``"object"``
    (relocatable ELF) and ``"hsaco"``. ``opt_level`` is 0 to 3. ``features`` adds subtarget features,
    for example ``"+cumode"``.

    Raises ``CodegenError`` if the input cannot be compiled, ``ValueError`` for an unknown ``output``.
    Warnings of the code generator become Python warnings. The GIL is released meanwhile.
    """
    if output not in _OUTPUTS:
        raise ValueError(f"unknown output {output!r}; known: {', '.join(_OUTPUTS)}")
    kind = _OUTPUTS.index(output)
    try:
        if isinstance(source, str):
            data, notes = _flyCodegen.compile_llvm_ir(source, arch, features, opt_level, kind)
        else:
            data, notes = _flyCodegen.compile_operation(_operation(source), arch, features, opt_level, kind)
    except RuntimeError as error:
        raise CodegenError(str(error)) from None
    if notes:
        warnings.warn(notes, RuntimeWarning, stacklevel=2)
    return data


def compile_hsaco(
    source: ir.Module | ir.OpView | ir.Operation | str,
    arch: str,
    opt_level: int = 3,
    *,
    features: str = "",
) -> bytes:
    """Compile and link to an AMDHSA code object (HSACO). See ``compile_to``."""
    return compile_to(source, arch, "hsaco", opt_level=opt_level, features=features)


def emit_isa(
    source: ir.Module | ir.OpView | ir.Operation | str, arch: str, opt_level: int = 3, *, features: str = ""
) -> str:
    """The assembly text that ``compile_hsaco`` would assemble. See ``compile_to``."""
    return compile_to(source, arch, "isa", opt_level=opt_level, features=features).decode()


def emit_llvm_ir(
    source: ir.Module | ir.OpView | ir.Operation | str,
    arch: str,
    opt_level: int = 3,
    *,
    features: str = "",
    optimized: bool = False,
) -> str:
    """The LLVM IR text before (default) or after optimisation. See ``compile_to``."""
    output: Output = "llvm-opt" if optimized else "llvm"
    return compile_to(source, arch, output, opt_level=opt_level, features=features).decode()


def disassemble(hsaco: bytes) -> str:
    """Disassemble an AMDGPU ELF file; the processor is taken from its header.

    Raises ``CodegenError`` if ``hsaco`` is not an AMDGPU ELF file.
    """
    try:
        return _flyCodegen.disassemble(bytes(hsaco)).decode()
    except RuntimeError as error:
        raise CodegenError(str(error)) from None


def llvm_version() -> str:
    """Version of the LLVM inside, which is part of what determines the generated code."""
    return _flyCodegen.llvm_version()
