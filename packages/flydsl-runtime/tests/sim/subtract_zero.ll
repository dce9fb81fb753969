target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %x = load float, ptr addrspace(1) %p
  %s = fsub float 0.0, %x
  %r = fptrunc float %s to half
  %o = getelementptr half, ptr addrspace(1) %out, i32 %t
  store half %r, ptr addrspace(1) %o
  ret void
}
