// RUN: not fly-opt %s --nvvm-attach-target 2>&1 | FileCheck %s --check-prefix=NVVM
// RUN: not fly-opt %s --spirv-attach-target 2>&1 | FileCheck %s --check-prefix=SPIRV
// RUN: fly-opt %s --rocdl-attach-target=chip=gfx942 | FileCheck %s
// The passes of other vendors' targets are registered with the dialect; they refuse to run.

// NVVM: error: pass 'nvvm-attach-target': this library is built without the target NVVM
// SPIRV: error: pass 'spirv-attach-target': this library is built without the target SPIR-V
// CHECK: gpu.module @kernels [#rocdl.target<chip = "gfx942">]
gpu.module @kernels {
  // CODEGEN none: an empty kernel
  gpu.func @kernel() kernel {
    gpu.return
  }
}
