# RUN: %python %s | FileCheck %s
"""Bad input is an exception with the reason, whatever LLVM thinks of it; the process goes on."""

from flydsl import ir

HEAD = "define amdgpu_kernel void @k(ptr addrspace(1) %p) {\n"
TAIL = "\n ret void\n}\n"


def kernel(body: str, declarations: str = "") -> str:
    return declarations + HEAD + body + TAIL


GOOD = kernel("store i32 1, ptr addrspace(1) %p")


def expect_error(action) -> None:
    try:
        action()
    except (ir.CodegenError, ValueError) as error:
        print(type(error).__name__ + ":", str(error))
    else:
        raise AssertionError("no error")


# CHECK: CodegenError: unknown architecture 'gfx999'; known: {{.*}}gfx942
expect_error(lambda: ir.compile_hsaco(GOOD, "gfx999"))
# CHECK: CodegenError: bad target id 'gfx942:fast+'
expect_error(lambda: ir.compile_hsaco(GOOD, "gfx942:fast+"))
# CHECK: CodegenError: unknown subtarget feature '+nope'
expect_error(lambda: ir.compile_hsaco(GOOD, "gfx942", features="+nope"))
# CHECK: CodegenError: optimisation level 9 is not in 0..3
expect_error(lambda: ir.compile_hsaco(GOOD, "gfx942", opt_level=9))
# CHECK: ValueError: unknown output 'exe'
expect_error(lambda: ir.compile_to(GOOD, "gfx942", "exe"))
# CHECK: CodegenError: LLVM IR:1:1: error: expected top-level entity
expect_error(lambda: ir.compile_hsaco("garbage", "gfx942"))
# CHECK: CodegenError: linking the code object failed: {{.*}}undefined {{.*}}symbol: f
expect_error(lambda: ir.compile_hsaco(kernel("call void @f()", "declare void @f()\n"), "gfx942"))
# The instruction does not exist on this architecture.
# CHECK: CodegenError: gfx1201 has no instruction for llvm.amdgcn.{{.*}} (kernel 'k')
expect_error(
    lambda: ir.compile_hsaco(
        kernel(
            "%x = load <4 x float>, ptr addrspace(1) %p\n"
            "%y = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x4f32(float 1.0, float 1.0, <4 x float> %x,"
            " i32 0, i32 0, i32 0)\n"
            "store <4 x float> %y, ptr addrspace(1) %p",
            "declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x4f32(float, float, <4 x float>, i32, i32, i32)\n",
        ),
        "gfx1201",
    )
)
# It exists, but not with these operands: gfx942 copies 4 bytes at once to local memory.
# CHECK: CodegenError: gfx942 has no instruction for llvm.amdgcn.raw.ptr.buffer.load.lds (kernel 'k') with these
expect_error(
    lambda: ir.compile_hsaco(
        kernel(
            "%r = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %p, i16 0, i64 64,"
            " i32 0)\n"
            "call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %r, ptr addrspace(3) @lds, i32 16, i32 0,"
            " i32 0, i32 0, i32 0)",
            "@lds = internal addrspace(3) global [1024 x i8] poison\n",
        ),
        "gfx942",
    )
)
# More LDS than the architecture has.
# CHECK: CodegenError: compiling for gfx942: {{.*}}local memory (131072) exceeds limit (65536)
expect_error(
    lambda: ir.compile_hsaco(
        kernel(
            "store volatile i32 1, ptr addrspace(3) @lds",
            "@lds = internal addrspace(3) global [131072 x i8] poison\n",
        ),
        "gfx942",
    )
)
# CHECK: CodegenError: compiling for gfx942: {{.*}}invalid instruction
expect_error(lambda: ir.compile_hsaco(kernel('call void asm sideeffect "bogus_inst", ""()'), "gfx942"))
# CHECK: CodegenError: {{.*}}
expect_error(lambda: ir.disassemble(b"not an ELF file"))
# CHECK: CodegenError: {{.*}}
expect_error(lambda: ir.disassemble(ir.compile_hsaco(GOOD, "gfx942")[:200]))
# CHECK: ValueError: unknown architecture 'gfx1'
expect_error(lambda: ir.get_arch("gfx1"))

# CHECK: still working
print("still working", len(ir.compile_hsaco(GOOD, "gfx942")))
