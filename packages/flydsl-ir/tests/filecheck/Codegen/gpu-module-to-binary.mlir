// The stock pass links in process: no toolkit is given and none is needed.
// RUN: fly-opt %s --rocdl-attach-target='chip=gfx942' --gpu-module-to-binary | FileCheck %s
// RUN: fly-opt %s --rocdl-attach-target='chip=gfx1250' --gpu-module-to-binary='format=isa' | FileCheck %s --check-prefix=ISA
// RUN: not fly-opt %s --rocdl-attach-target='chip=gfx999' --gpu-module-to-binary 2>&1 | FileCheck %s --check-prefix=BAD

// CHECK: gpu.binary @kernels [#gpu.object<#rocdl.target<chip = "gfx942">, properties = {O = 2 : i32}, kernels = <[#gpu.kernel_metadata<"k"
// CHECK-SAME: "\7FELF
// ISA: s_endpgm
// BAD: unknown architecture 'gfx999'
module attributes {gpu.container_module} {
  gpu.module @kernels {
    llvm.func @k(%p: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
      %c = llvm.mlir.constant(1 : i32) : i32
      llvm.store %c, %p : i32, !llvm.ptr<1>
      llvm.return
    }
  }
}
