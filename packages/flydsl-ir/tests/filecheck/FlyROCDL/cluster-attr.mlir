// RUN: fly-opt %s --pass-pipeline='builtin.module(gpu.module(fly-rocdl-cluster-attr))' | FileCheck %s

gpu.module @m {
  // CHECK: llvm.func @f() attributes {passthrough = ["nounwind", ["amdgpu-cluster-dims", "4,1,1"]], rocdl.kernel}
  llvm.func @f() attributes {rocdl.kernel, rocdl.cluster_dims = "4,1,1", passthrough = ["nounwind"]} {
    llvm.return
  }
}
