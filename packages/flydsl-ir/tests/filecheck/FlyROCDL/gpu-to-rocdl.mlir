// convert-gpu-to-rocdl leaves no call of a device library, and converts device code only.
// RUN: fly-opt %s --split-input-file --convert-gpu-to-rocdl='chipset=gfx942 runtime=HIP' | FileCheck %s
// RUN: fly-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-gpu-to-rocdl{chipset=gfx942 runtime=OpenCL}))' \
// RUN:   | FileCheck %s
// RUN: not fly-opt %s --convert-gpu-to-rocdl='chipset=gfx942 runtime=CUDA' 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: CUDA

gpu.module @kernels {
  // CHECK-NOT: __oc
  // CHECK: llvm.func @printf(!llvm.ptr<4>, ...) -> i32
  // CHECK-LABEL: llvm.func @k(
  // CHECK-NOT: math.
  // CHECK: llvm.call @printf(
  // CHECK-LABEL: llvm.func @__printf_alloc(
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_exp_f32|v_s_exp_f32, s_swap_?pc_[bi]64
  gpu.func @k(%x: f32, %n: i32) kernel {
    %exp2 = math.exp2 %x : f32
    %power = math.fpowi %exp2, %n : f32, i32
    gpu.printf "%f\0A", %power : f32
    gpu.return
  }
}

// CHECK-LABEL: func.func @host(
// CHECK: scf.if
// CHECK: math.exp2
func.func @host(%again: i1, %x: f32) -> f32 {
  %r = scf.if %again -> f32 {
    %y = math.exp2 %x : f32
    scf.yield %y : f32
  } else {
    scf.yield %x : f32
  }
  return %r : f32
}

// -----

gpu.module @silent {
  // CHECK-LABEL: gpu.module @silent
  // CHECK-NOT: __printf_alloc
  // CODEGEN none: it does nothing
  gpu.func @nothing() kernel {
    gpu.return
  }
}
