target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %x = load i32, ptr addrspace(1) %p
  %d = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %x, i32 289, i32 15, i32 15, i1 true)
  %w = zext i32 %d to i64
  %m = mul i64 %w, 31
  %e = zext i32 %x to i64
  %r = add i64 %m, %e
  %o = getelementptr i64, ptr addrspace(1) %out, i32 %t
  store i64 %r, ptr addrspace(1) %o
  ret void
}
