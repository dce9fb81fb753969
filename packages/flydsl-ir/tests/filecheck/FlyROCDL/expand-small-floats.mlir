// Conversions of small floats become integer arithmetic where the architecture is not known; what the expansion computes
// is compared with the constants that the folder of arith gives in tests/test_small_floats.py.
// RUN: fly-opt %s --fly-expand-math | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @small
  // CHECK-NOT: arith.extf {{.*}} f8E4M3FN
  // CHECK-NOT: arith.truncf {{.*}} f4E2M1FN
  // CHECK: llvm.store
  // CODEGEN gfx942: v_cvt_f32_ubyte0
  // CODEGEN gfx950,gfx1201,gfx1250: v_cvt_f32_fp8
  gpu.func @small(%x: f8E4M3FN, %v: vector<4xf16>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.extf %x : f8E4M3FN to f32
    llvm.store %0, %p : f32, !llvm.ptr<1>
    %1 = arith.truncf %v : vector<4xf16> to vector<4xf4E2M1FN>
    %2 = arith.bitcast %1 : vector<4xf4E2M1FN> to vector<4xi4>
    llvm.store %2, %p : vector<4xi4>, !llvm.ptr<1>
    gpu.return
  }

  // Arithmetic is done in f32, an integer that this does not hold is rounded from f64.
  // CHECK-LABEL: gpu.func @arithmetic
  // CHECK-NOT: arith.addf {{.*}} f8E5M2
  // CHECK: arith.addf {{.*}} : f32
  // CHECK: arith.cmpf olt, {{.*}} : f32
  // CHECK: arith.fptosi {{.*}} : f32 to i32
  // CHECK: arith.sitofp {{.*}} : i32 to f64
  // CHECK: arith.uitofp {{.*}} : vector<2xi8> to vector<2xf32>
  // CHECK: gpu.return
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: (s|v|v_dual)_add_f32
  gpu.func @arithmetic(%x: f8E5M2, %y: f8E5M2, %i: i32, %v: vector<2xi8>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.addf %x, %y : f8E5M2
    %1 = arith.cmpf olt, %0, %y : f8E5M2
    %2 = arith.fptosi %0 : f8E5M2 to i32
    %3 = arith.select %1, %2, %i : i32
    llvm.store %3, %p : i32, !llvm.ptr<1>
    %4 = arith.sitofp %i : i32 to f8E5M2
    %5 = arith.bitcast %4 : f8E5M2 to i8
    llvm.store %5, %p : i8, !llvm.ptr<1>
    %6 = arith.uitofp %v : vector<2xi8> to vector<2xf4E2M1FN>
    %7 = arith.bitcast %6 : vector<2xf4E2M1FN> to vector<2xi4>
    llvm.store %7, %p : vector<2xi4>, !llvm.ptr<1>
    gpu.return
  }

  // Sizes that the kernel states are constants; others are implicit arguments.
  // CHECK-LABEL: gpu.func @known
  // CHECK: arith.constant 64 : index
  // CHECK: llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"
  // CHECK: llvm.getelementptr %{{.*}}[4]
  // CHECK: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: global_store_(dwordx2|b64)
  gpu.func @known(%p: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %b = gpu.block_dim x
    %g = gpu.grid_dim y
    %s = arith.addi %b, %g : index
    %i = arith.index_cast %s : index to i64
    llvm.store %i, %p : i64, !llvm.ptr<1>
    gpu.return
  }
  // CHECK-LABEL: gpu.func @unknown
  // CHECK: llvm.getelementptr %{{.*}}[16]
  // CHECK: llvm.load %{{.*}} invariant {alignment = 2 : i64} : !llvm.ptr<4> -> i16
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: global_store_(dwordx2|b64)
  gpu.func @unknown(%p: !llvm.ptr<1>) kernel {
    %b = gpu.block_dim z
    %i = arith.index_cast %b : index to i64
    llvm.store %i, %p : i64, !llvm.ptr<1>
    gpu.return
  }
}
