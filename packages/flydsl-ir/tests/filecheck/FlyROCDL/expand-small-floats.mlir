// Conversions of small floats become integer arithmetic on every architecture; what the expansion computes
// is compared with the constants that the folder of arith gives in tests/test_small_floats.py.
// RUN: fly-opt %s --fly-expand-math | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @small
  // CHECK-NOT: arith.extf {{.*}} f8E4M3FN
  // CHECK-NOT: arith.truncf {{.*}} f4E2M1FN
  // CHECK: llvm.store
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_cvt_f32_ubyte0
  gpu.func @small(%x: f8E4M3FN, %v: vector<4xf16>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.extf %x : f8E4M3FN to f32
    llvm.store %0, %p : f32, !llvm.ptr<1>
    %1 = arith.truncf %v : vector<4xf16> to vector<4xf4E2M1FN>
    %2 = arith.bitcast %1 : vector<4xf4E2M1FN> to vector<4xi4>
    llvm.store %2, %p : vector<4xi4>, !llvm.ptr<1>
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
