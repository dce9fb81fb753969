"""The allocator behind the device's `printf`.

The AMDGPU back end turns a call of `printf` into stores to a buffer that the runtime passes as a hidden kernel
argument; the format goes into the code object's metadata (`amdhsa.printf`), and the runtime prints the records
when the kernel has finished. Space in the buffer comes from `__printf_alloc`, which other compilers link from
the device library. Here it is defined in the module that prints.
"""

from __future__ import annotations

from typing import Any

from flydsl.tracing.ir_walk import children

# The buffer starts with two words, the bytes used and the bytes available; records follow. Offset 72 of the
# implicit arguments is `hidden_printf_buffer` (code object v5 and later).
_ALLOCATOR = """
llvm.func @__printf_alloc(%bytes: i32) -> !llvm.ptr<1> attributes {passthrough = ["noinline"]} {
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c8 = llvm.mlir.constant(8 : i64) : i64
  %implicit = llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"() : () -> !llvm.ptr<4>
  %slot = llvm.getelementptr %implicit[72] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %buffer = llvm.load %slot {alignment = 8 : i64} : !llvm.ptr<4> -> !llvm.ptr<1>
  %limit_slot = llvm.getelementptr %buffer[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  %limit = llvm.load %limit_slot {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %offset = llvm.atomicrmw add %buffer, %bytes syncscope("agent") monotonic : !llvm.ptr<1>, i32
  %end = llvm.add %offset, %bytes : i32
  %fits = llvm.icmp "ule" %end, %limit : i32
  %wide = llvm.zext %offset : i32 to i64
  %from = llvm.add %wide, %c8 : i64
  %place = llvm.getelementptr %buffer[%from] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %null = llvm.mlir.zero : !llvm.ptr<1>
  %result = llvm.select %fits, %place, %null : i1, !llvm.ptr<1>
  llvm.return %result : !llvm.ptr<1>
}
"""


def define_allocator(module: Any) -> None:
    """Add the allocator to every GPU module of a lowered module that calls `printf`."""
    from flydsl._mlir import ir

    for top in children(module):
        if top.name != "gpu.module":
            continue
        symbols = {op.attributes["sym_name"].value for op in children(top) if "sym_name" in op.attributes}
        if "printf" in symbols and "__printf_alloc" not in symbols:
            parsed = ir.Module.parse(_ALLOCATOR, context=module.context)
            (function,) = children(parsed)
            function.detach_from_parent()
            top.regions[0].blocks[0].append(function)
