// RUN: fly-opt %s --pass-pipeline='builtin.module(gpu.module(convert-rocdl-fastmath-ops))' | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @f
  // CHECK: rocdl.exp2 %{{.*}} f32 -> f32
  // CHECK: math.exp2
  // CHECK-COUNT-2: rocdl.exp2
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_exp_f32|v_s_exp_f32
  gpu.func @f(%x: f32, %v: vector<2xf32>, %o: !llvm.ptr<1>) kernel {
    %0 = math.exp2 %x fastmath<fast> : f32
    %1 = math.exp2 %x : f32
    %2 = math.exp2 %v fastmath<afn> : vector<2xf32>
    llvm.store %0, %o : f32, !llvm.ptr<1>
    llvm.store %1, %o : f32, !llvm.ptr<1>
    llvm.store %2, %o : vector<2xf32>, !llvm.ptr<1>
    gpu.return
  }
}
