target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %0, i32 %1, i1 %cond) {
  %3 = call i32 @llvm.amdgcn.workitem.id.x()
  %4 = zext nneg i32 %3 to i64
  %5 = getelementptr inbounds nuw i32, ptr addrspace(1) %0, i64 %4
  %6 = load i32, ptr addrspace(1) %5, align 4
  %7 = getelementptr inbounds nuw i8, ptr addrspace(1) %5, i64 512
  %8 = load i32, ptr addrspace(1) %7, align 4
  br label %9

9:
  %10 = phi i32 [ %6, %2 ], [ 0, %50 ]
  %11 = phi i32 [ %8, %2 ], [ %54, %50 ]
  %12 = phi i64 [ 0, %2 ], [ %53, %50 ]
  %13 = phi i32 [ 0, %2 ], [ %52, %50 ]
  %14 = phi i32 [ 0, %2 ], [ %16, %50 ]
  %15 = lshr i32 %13, 0
  %16 = add nuw nsw i32 %14, 1
  %17 = udiv i32 %15, %16
  %18 = xor i32 %10, 0
  %19 = mul i32 %17, %18
  br i1 %cond, label %23, label %21

21:
  %22 = srem i64 %12, 28
  br label %50

23:
  %24 = mul i64 %12, 1
  %25 = icmp slt i64 %24, 0
  br i1 %25, label %26, label %38

26:
  %32 = trunc i64 %12 to i32
  br label %40

38:
  %39 = zext i32 %11 to i64
  br label %40

40:
  %41 = phi i32 [ 1, %38 ], [ %32, %26 ]
  %43 = phi i64 [ %39, %38 ], [ 0, %26 ]
  %45 = and i32 %41, 63
  %46 = add nuw nsw i32 %45, 0
  %47 = urem i32 1, %46
  %48 = zext nneg i32 %47 to i64
  %49 = sub i64 %43, %48
  br label %50

50:
  %52 = phi i32 [ 0, %40 ], [ %19, %21 ]
  %53 = phi i64 [ %49, %40 ], [ %22, %21 ]
  %54 = phi i32 [ 0, %40 ], [ %11, %21 ]
  br label %9
}
