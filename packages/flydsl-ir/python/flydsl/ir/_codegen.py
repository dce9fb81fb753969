"""LLVM IR to AMDGPU code objects, in this process: no external tool, no ROCm installation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from flydsl._mlir._mlir_libs import _flyCodegen
from flydsl.ir._forking import compiling

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flydsl._mlir import ir

    Source = ir.Module | ir.OpView | ir.Operation | str

Output = Literal["llvm", "llvm-opt", "isa", "object", "hsaco"]

# The order is that of FlyCodegenOutput in CodegenCAPI.h.
_OUTPUTS: tuple[Output, ...] = ("llvm", "llvm-opt", "isa", "object", "hsaco")


class CodegenError(RuntimeError):
    """The code generator rejected its input; the text carries every diagnostic it gave."""


class CodegenOptions(TypedDict, total=False):
    """Keyword arguments of every function that compiles."""

    #: Subtarget features, for example ``"+cumode"``.
    features: str
    #: Waves on a SIMD that registers are allocated for: ``2``, ``"2"`` or ``"2,4"`` (least and most).
    waves_per_eu: int | str | None
    #: Give every floating-point operation all fast-math flags.
    fast_math: bool
    #: Emit line tables from the locations of the operations (``llvm-dwarfdump --debug-line`` reads them).
    debug_info: bool
    #: LLVM bitcode or IR to take missing definitions from: contents or paths.
    link_bitcode: Iterable[bytes | str | os.PathLike[str]]
    #: Command-line options of LLVM for this compilation, by name; it then runs alone in the process.
    llvm_options: Mapping[str, bool | int | str]
    #: Receives the seconds of the phases: ``"llvm"`` (optimisation and code generation), ``"link"``.
    timings: MutableMapping[str, float] | None


def _operation(source: object) -> ir.Operation:
    """The operation behind a module, an op view or an operation."""
    return getattr(source, "operation", source)  # type: ignore[return-value]


def _library(library: bytes | str | os.PathLike[str]) -> bytes:
    return bytes(library) if isinstance(library, (bytes, bytearray, memoryview)) else Path(library).read_bytes()


def _option(name: str, value: bool | int | str) -> str:
    if not isinstance(value, (bool, int, str)):
        raise TypeError(f"Unsupported type {type(value).__name__} for the LLVM option {name!r}: bool, int or str")
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _native_options(arch: str, output: int, opt_level: int, options: CodegenOptions) -> dict[str, object]:
    unknown = options.keys() - CodegenOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}; known: "
                        f"{', '.join(CodegenOptions.__annotations__)}")
    waves = options.get("waves_per_eu")
    return {
        "arch": arch, "output": output, "opt_level": opt_level, "features": options.get("features", ""),
        "waves_per_eu": "" if waves is None else str(waves),
        "fast_math": bool(options.get("fast_math", False)), "debug_info": bool(options.get("debug_info", False)),
        "libraries": [_library(library) for library in options.get("link_bitcode", ())],
        "llvm_options": [text for name, value in options.get("llvm_options", {}).items()
                         for text in (name, _option(name, value))],
    }


def compile_to(source: Source, arch: str, output: Output, *, opt_level: int = 3,
               **options: Unpack[CodegenOptions]) -> bytes:
    """Compile for one architecture and return the chosen kind of output.

    ``source`` is LLVM IR text, or a ``gpu.module`` (or a ``builtin.module`` that holds exactly one, or
    a ``builtin.module`` of functions) whose content is in the LLVM and ROCDL dialects. ``arch`` is a
    processor (``"gfx942"``) or target id (``"gfx942:sramecc+:xnack-"``). ``output`` is one of
    ``"llvm"`` (IR text before optimisation), ``"llvm-opt"``, ``"isa"`` (assembly text), ``"object"``
    (relocatable ELF) and ``"hsaco"``. ``opt_level`` is 0 to 3. ``options``: see ``CodegenOptions``.

    Raises ``CodegenError`` if the input or an option cannot be used, ``ValueError`` for an unknown
    ``output``, ``OSError`` if a library cannot be read. Warnings of the code generator become Python
    warnings. The GIL is released meanwhile.
    """
    if output not in _OUTPUTS:
        raise ValueError(f"unknown output {output!r}; known: {', '.join(_OUTPUTS)}")
    native = _native_options(arch, _OUTPUTS.index(output), opt_level, options)
    try:
        with compiling():
            if isinstance(source, str):
                data, notes, llvm_seconds, link_seconds = _flyCodegen.compile_llvm_ir(source, native)
            else:
                data, notes, llvm_seconds, link_seconds = _flyCodegen.compile_operation(_operation(source), native)
    except RuntimeError as error:
        raise CodegenError(str(error)) from None
    timings = options.get("timings")
    if timings is not None:
        timings.update(llvm=llvm_seconds, link=link_seconds)
    if notes:
        warnings.warn(notes, RuntimeWarning, stacklevel=2)
    return data


def compile_hsaco(source: Source, arch: str, opt_level: int = 3, **options: Unpack[CodegenOptions]) -> bytes:
    """Compile and link to an AMDHSA code object (HSACO). See ``compile_to``."""
    return compile_to(source, arch, "hsaco", opt_level=opt_level, **options)


def emit_isa(source: Source, arch: str, opt_level: int = 3, **options: Unpack[CodegenOptions]) -> str:
    """The assembly text that ``compile_hsaco`` would assemble. See ``compile_to``."""
    return compile_to(source, arch, "isa", opt_level=opt_level, **options).decode()


def emit_llvm_ir(source: Source, arch: str, opt_level: int = 3, *, optimized: bool = False,
                 **options: Unpack[CodegenOptions]) -> str:
    """The LLVM IR text before (default) or after optimisation. See ``compile_to``."""
    output: Output = "llvm-opt" if optimized else "llvm"
    return compile_to(source, arch, output, opt_level=opt_level, **options).decode()


def disassemble(hsaco: bytes) -> str:
    """Disassemble an AMDGPU ELF file; the processor is taken from its header.

    Raises ``CodegenError`` if ``hsaco`` is not an AMDGPU ELF file.
    """
    try:
        with compiling():
            text = _flyCodegen.disassemble(bytes(hsaco))
        return text.decode(errors="replace")  # names of symbols may be any bytes
    except RuntimeError as error:
        raise CodegenError(str(error)) from None


def llvm_version() -> str:
    """Version of the LLVM inside, which is part of what determines the generated code."""
    return _flyCodegen.llvm_version()
