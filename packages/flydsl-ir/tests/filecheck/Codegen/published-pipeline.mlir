// The published pipeline, host side included, on a kernel with math and a print: where an installation with ROCm has
// calls of device libraries, nothing is left to be linked.
// DEFINE: %{chip} = gfx942
// DEFINE: %{to-rocdl} = fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,\
// DEFINE: fly-int-swizzle-simplify,canonicalize,fly-convert-atom-call-to-ssa-form,\
// DEFINE: fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize,\
// DEFINE: gpu.module(convert-scf-to-cf,cse,\
// DEFINE: convert-gpu-to-rocdl{chipset=%{chip} index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true},\
// DEFINE: fly-rocdl-cluster-attr)
// DEFINE: %{binary} = rocdl-attach-target{O=2 abi=600 chip=%{chip} correct-sqrt=true daz=false fast=false features= \
// DEFINE: finite-only=false module= triple=amdgcn-amd-amdhsa unsafe-math=false wave64=true},\
// DEFINE: convert-scf-to-cf,convert-cf-to-llvm,\
// DEFINE: gpu-to-llvm{use-bare-pointers-for-host=true use-bare-pointers-for-kernels=true},\
// DEFINE: convert-vector-to-llvm,convert-arith-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts,\
// DEFINE: gpu-module-to-binary{format=fatbin}
// RUN: fly-opt %s --pass-pipeline='builtin.module(%{to-rocdl})' | FileCheck %s --check-prefix=ROCDL
// RUN: fly-opt %s --pass-pipeline='builtin.module(%{to-rocdl},%{binary})' | FileCheck %s

// ROCDL-NOT: __oc
// ROCDL: llvm.func @functions
// ROCDL-NOT: math.
// CHECK: gpu.binary @kernels [#gpu.object<#rocdl.target<chip = "gfx942"
// CHECK-SAME: "\7FELF
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_exp_f32|v_s_exp_f32, s_swap_?pc_[bi]64
    gpu.func @functions(%in: !fly.ptr<f32, global>, %out: !fly.ptr<f32, global>) kernel
        attributes {known_block_size = array<i32: 64, 1, 1>} {
      %x = fly.ptr.load(%in) : (!fly.ptr<f32, global>) -> f32
      %exp2 = math.exp2 %x : f32
      %exp = math.exp %exp2 : f32
      %log = math.log %exp : f32
      %sin = math.sin %log : f32
      %tanh = math.tanh %sin : f32
      %erf = math.erf %tanh : f32
      %rsqrt = math.rsqrt %erf : f32
      %pow = math.powf %rsqrt, %x : f32
      %rest = arith.remf %pow, %x : f32
      %wide = arith.extf %rest : f32 to f64
      %wider = math.exp %wide : f64
      %narrow = arith.truncf %wider : f64 to f32
      fly.print(%narrow) {format = "{}"} : (f32) -> ()
      fly.ptr.store(%narrow, %out) : (f32, !fly.ptr<f32, global>) -> ()
      gpu.return
    }
    // Vectors are reshaped between the orders of two layouts.
    // CODEGEN gfx942,gfx950,gfx1201,gfx1250: global_load, global_store
    gpu.func @reordered(%in: !fly.memref<f16, global, (5,8):(18,2)>, %out: !fly.memref<f16, global, (5,8):(8,1)>) kernel
        attributes {known_block_size = array<i32: 64, 1, 1>} {
      %v = fly.memref.load_vec(%in) : (!fly.memref<f16, global, (5,8):(18,2)>) -> vector<40xf16>
      fly.memref.store_vec(%v, %out) : (vector<40xf16>, !fly.memref<f16, global, (5,8):(8,1)>) -> ()
      gpu.return
    }
  }
  func.func @host(%in: !fly.ptr<f32, global>, %out: !fly.ptr<f32, global>, %launches: i1) attributes {llvm.emit_c_interface} {
    %one = arith.constant 1 : index
    %wave = arith.constant 64 : index
    scf.if %launches {
      gpu.launch_func @kernels::@functions blocks in (%one, %one, %one) threads in (%wave, %one, %one)
          args(%in : !fly.ptr<f32, global>, %out : !fly.ptr<f32, global>)
    }
    return
  }
}
