target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %d = load i32, ptr addrspace(1) %p
  %q = getelementptr i8, ptr addrspace(1) %p, i32 256
  %x = load i32, ptr addrspace(1) %q
  %b = trunc i32 %x to i8
  switch i32 %d, label %other [ i32 0, label %zero
                                i32 3, label %three ]
other:
  %wide = zext i8 %b to i32
  br label %join
three:
  %half = lshr i8 %b, 1
  %halfwide = zext i8 %half to i32
  br label %join
zero:
  %more = add i8 %b, 1
  %morewide = zext i8 %more to i32
  br label %join
join:
  %r = phi i32 [ %wide, %other ], [ %morewide, %zero ], [ %halfwide, %three ]
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}
