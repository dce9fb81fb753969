# RUN: %python %s | FileCheck %s
from flydsl import ir

# CHECK: gfx942 64 65536 159744 159744 True
# CHECK: gfx1201 32 65536 553807872 822243328 False
# CHECK: gfx950 64 163840
# CHECK: gfx1250 32 327680 159744
# CHECK: gfx90a 64 65536 159744 159744 True
for name in ("gfx942", "gfx1201", "gfx950", "gfx1250", "gfx90a"):
    arch = ir.get_arch(name)
    flags = (arch.buffer_rsrc_flags, arch.buffer_rsrc_flags_checked)
    print(name, arch.wave_size, arch.lds_bytes, *flags, arch.has("mfma"))

# Every row is an architecture that the code generator knows.
KERNEL = "define amdgpu_kernel void @k() {\n ret void\n}\n"
for name in ir.ARCH_TABLE:
    assert ir.compile_hsaco(KERNEL, name)[:4] == b"\x7fELF"
# CHECK: all compile
print("all compile")
