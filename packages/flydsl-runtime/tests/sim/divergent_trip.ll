target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %n = load i32, ptr addrspace(1) %p
  %z = icmp eq i32 %n, 0
  br i1 %z, label %end, label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %both = and i32 %n, %i
  %not = xor i32 %both, -1
  %low = and i32 %not, 255
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %low
  br i1 %more, label %loop, label %done
done:
  %h = trunc i32 %i to i16
  br label %end
end:
  %e = phi i16 [ 0, %0 ], [ %h, %done ]
  %w = zext i16 %e to i32
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %w, ptr addrspace(1) %o
  ret void
}
