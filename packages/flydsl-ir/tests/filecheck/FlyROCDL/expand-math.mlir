// RUN: fly-opt %s --fly-expand-math | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @f
  // CHECK-NOT: math.
  // CHECK: llvm.call_intrinsic "llvm.exp2"
  // CHECK-NOT: math.
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_div_fixup_f32
  gpu.func @f(%x: f32, %h: f16, %v: vector<4xf32>, %o: !llvm.ptr<1>) kernel {
    %0 = math.tanh %x : f32
    %1 = math.exp2 %0 : f32
    %2 = math.erf %h : f16
    %3 = math.tan %v : vector<4xf32>
    llvm.store %1, %o : f32, !llvm.ptr<1>
    llvm.store %2, %o : f16, !llvm.ptr<1>
    llvm.store %3, %o : vector<4xf32>, !llvm.ptr<1>
    gpu.return
  }

  // An index has no number of bits of its own: it is computed with in i64.
  // CHECK-LABEL: gpu.func @index
  // CHECK-NOT: math.
  // CHECK-COUNT-4: arith.index_cast {{.*}} : i64 to index
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_endpgm
  gpu.func @index(%x: index, %o: !llvm.ptr<1>) kernel {
    %c = arith.constant 3 : index
    %0 = math.ipowi %x, %c : index
    %1 = math.ctlz %0 : index
    %2 = math.absi %1 : index
    %3 = math.ctpop %2 : index
    %4 = arith.index_cast %3 : index to i64
    llvm.store %4, %o : i64, !llvm.ptr<1>
    gpu.return
  }
}
// Host code keeps its operations.
// CHECK-LABEL: func.func @host
// CHECK: math.tanh
func.func @host(%x: f32) -> f32 {
  %0 = math.tanh %x : f32
  return %0 : f32
}
