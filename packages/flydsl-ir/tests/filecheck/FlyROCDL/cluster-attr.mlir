// RUN: fly-opt %s --pass-pipeline='builtin.module(gpu.module(fly-rocdl-cluster-attr))' | FileCheck %s

gpu.module @m {
  // CHECK: llvm.func @f() attributes {passthrough = ["nounwind", ["amdgpu-cluster-dims", "4,1,1"]], rocdl.kernel}
  llvm.func @f() attributes {rocdl.kernel, rocdl.cluster_dims = "4,1,1", passthrough = ["nounwind"]} {
    llvm.return
  }
  // CHECK: llvm.func @first() attributes {passthrough = [["amdgpu-cluster-dims", "2,1,1"]]}
  llvm.func @first() attributes {rocdl.cluster_dims = "2,1,1"} {
    llvm.return
  }
  // Only a string says the size of clusters.
  // CHECK: llvm.func @number() attributes {rocdl.cluster_dims = 3 : i32}
  llvm.func @number() attributes {rocdl.cluster_dims = 3 : i32} {
    llvm.return
  }
}
