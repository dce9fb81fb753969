# RUN: %python %s | FileCheck %s
"""A gpu.binary with #fly.explicit_module becomes a constant, a handle and two functions of the host program."""

from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm

TEXT = """
module attributes {gpu.container_module} {
  gpu.binary @kernels <#fly.explicit_module> [#gpu.object<#rocdl.target, bin = "BLOB">]
  llvm.func @launch(%x: i64, %s: !llvm.ptr, %a: !llvm.ptr, %b: f32) {
    %m = llvm.mlir.constant(64 : i32) : i32
    gpu.launch_func<%s : !llvm.ptr> @kernels::@k blocks in (%x, %x, %x) threads in (%x, %x, %x) : i64
        dynamic_shared_memory_size %m args(%a : !llvm.ptr, %b : f32)
    llvm.return
  }
}
"""

with ir.Context():
    module = ir.Module.parse(TEXT)
    print(llvm.translate_module_to_llvmir(module.operation))

# CHECK-DAG: @kernels_binary = internal constant [4 x i8] c"BLOB", align 8
# CHECK-DAG: @kernels_module = internal global ptr null
# CHECK-LABEL: define void @launch(
# CHECK: %[[M:.*]] = load ptr, ptr @kernels_module
# CHECK: %[[F:.*]] = call ptr @mgpuModuleGetFunction(ptr %[[M]], ptr @k_name)
# CHECK: call void @mgpuLaunchKernel(ptr %[[F]], i64 %{{.*}}, i32 64, ptr %{{.*}}, ptr %{{.*}}, ptr null, i64 2)
# CHECK-LABEL: define void @flydsl_gpu_module_init(ptr %0, ptr %1)
# CHECK: store ptr null, ptr %0
# CHECK: store i32 0, ptr %1
# CHECK-LABEL: define void @flydsl_gpu_module_load_to_device(ptr %0, ptr %1)
# CHECK: %[[H:.*]] = call ptr @mgpuModuleLoad(ptr @kernels_binary, i64 4)
# CHECK: store ptr %[[H]], ptr @kernels_module
# CHECK: store ptr %[[H]], ptr %0
# CHECK: %[[NULL:.*]] = icmp eq ptr %[[H]], null
# CHECK: select i1 %[[NULL]], i32 -1, i32 0
