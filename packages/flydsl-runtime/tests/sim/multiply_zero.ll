target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr bfloat, ptr addrspace(1) %in, i32 %t
  %x = load bfloat, ptr addrspace(1) %p
  %q = getelementptr i8, ptr addrspace(1) %p, i32 128
  %y = load bfloat, ptr addrspace(1) %q
  %r = fmul bfloat %x, %y
  %o = getelementptr bfloat, ptr addrspace(1) %out, i32 %t
  store bfloat %r, ptr addrspace(1) %o
  ret void
}
