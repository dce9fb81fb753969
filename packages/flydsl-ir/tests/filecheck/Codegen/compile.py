# RUN: %python %s | FileCheck %s
"""LLVM IR text to code objects of every supported architecture, and what comes back as text."""

from concurrent.futures import ThreadPoolExecutor

from flydsl import ir

KERNEL = """
define amdgpu_kernel void @scale(ptr addrspace(1) %p, float %s) {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr float, ptr addrspace(1) %p, i32 %i
  %x = load float, ptr addrspace(1) %q
  %y = fmul float %x, %s
  store float %y, ptr addrspace(1) %q
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
"""

# CHECK: gfx942 ELF
# CHECK: gfx950 ELF
# CHECK: gfx1200 ELF
# CHECK: gfx1201 ELF
# CHECK: gfx1250 ELF
for arch in ("gfx942", "gfx950", "gfx1200", "gfx1201", "gfx1250"):
    hsaco = ir.compile_hsaco(KERNEL, arch)
    print(arch, hsaco[1:4].decode())
    assert f"; {arch}\n" in ir.disassemble(hsaco)

# CHECK: <scale>:
# CHECK: global_load_dword
# CHECK: s_endpgm
print(ir.disassemble(ir.compile_hsaco(KERNEL, "gfx942:sramecc+:xnack-")))

# CHECK: .amdgcn_target "amdgcn-amd-amdhsa--gfx1250
print(ir.emit_isa(KERNEL, "gfx1250"))
# CHECK: target triple = "amdgcn-amd-amdhsa"
print(ir.emit_llvm_ir(KERNEL, "gfx942"))

# Compilation is deterministic and safe in threads.
with ThreadPoolExecutor(8) as pool:
    results = set(pool.map(lambda n: ir.compile_hsaco(KERNEL, ("gfx942", "gfx1250")[n % 2]), range(32)))
# CHECK: different results: 2
print("different results:", len(results))
