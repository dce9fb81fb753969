"""Intermediate representation and code generation of FlyDSL.

The dialects themselves are in ``flydsl._mlir.dialects``; this module is what the other packages use
to turn lowered IR into code objects, to look at them, and to ask what an architecture has.
"""

from __future__ import annotations

from flydsl._mlir._mlir_libs._site_initialize_0 import parse_own_bytecode
from flydsl.ir._arch import ARCH_TABLE, Arch, arch_table, get_arch
from flydsl.ir._codegen import (
    CodegenError,
    compile_hsaco,
    compile_to,
    disassemble,
    emit_isa,
    emit_llvm_ir,
    llvm_version,
)
from flydsl.ir._forking import compiling
from flydsl.ir._resources import KernelResources, kernel_resources
from flydsl.ir._tools import find_tool, library_dir

__version__ = "0.1.0"

__all__ = [
    "ARCH_TABLE",
    "Arch",
    "CodegenError",
    "KernelResources",
    "__version__",
    "arch_table",
    "compile_hsaco",
    "compile_to",
    "compiling",
    "disassemble",
    "emit_isa",
    "emit_llvm_ir",
    "find_tool",
    "get_arch",
    "kernel_resources",
    "library_dir",
    "llvm_version",
    "parse_own_bytecode",
]
