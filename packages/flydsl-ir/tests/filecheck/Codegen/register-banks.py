# RUN: %python %s | FileCheck %s
"""Registers beyond 256 of gfx1250: a loop over sums, of which each names two that lie anywhere."""

from flydsl import ir

TURN = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %n) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %to = getelementptr i32, ptr addrspace(1) %p, i32 %t
LOADS
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
PHIS
SUMS
  %j = add i32 %i, 1
  %c = icmp ult i32 %j, %n
  br i1 %c, label %loop, label %end
end:
STORES
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-waves-per-eu"="1" }
"""


def loop(count: int) -> str:
    """The loop over `count` sums, five times one plus another."""
    numbers = range(count)
    lines = {
        "LOADS": [f"  %q{k} = getelementptr i32, ptr addrspace(1) %to, i64 {64 * k}\n"
                  f"  %v{k} = load i32, ptr addrspace(1) %q{k}" for k in numbers],
        "PHIS": [f"  %a{k} = phi i32 [ %v{k}, %entry ], [ %b{k}, %loop ]" for k in numbers],
        "SUMS": [f"  %m{k} = mul i32 %a{k}, 5\n  %b{k} = add i32 %m{k}, %a{(37 * k + 11) % count}" for k in numbers],
        "STORES": [f"  store i32 %b{k}, ptr addrspace(1) %q{k}" for k in numbers],
    }
    text = TURN
    for name, part in lines.items():
        text = text.replace(name, "\n".join(part))
    isa = ir.emit_isa(text, "gfx1250", llvm_options={"verify-machineinstrs": True})
    return isa.split("\n.LBB0_1:")[1].split("s_cbranch")[0]


# One bank: no switch.
# CHECK: 200 sums: 200 multiplied, 0 switches
# Two banks: LLVM 22 alone places 276.
# CHECK: 400 sums: 400 multiplied, {{1?[0-9]?[0-9]}} switches
for count in (200, 400):
    isa = loop(count)
    print(f"{count} sums: {isa.count('v_mad_u32')} multiplied, {isa.count('s_set_vgpr_msb')} switches")
