; The bytes of a 64-bit value in reverse order, with nothing optimised (-O0).
target triple = "amdgcn-amd-amdhsa"

define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %from = getelementptr i64, ptr addrspace(1) %in, i32 %lane
  %to = getelementptr i64, ptr addrspace(1) %out, i32 %lane
  %value = load i64, ptr addrspace(1) %from
  %other = mul i64 %value, 77777777777
  %swapped = call i64 @llvm.bswap.i64(i64 %other)
  store i64 %swapped, ptr addrspace(1) %to
  ret void
}

declare i32 @llvm.amdgcn.workitem.id.x()
declare i64 @llvm.bswap.i64(i64)
