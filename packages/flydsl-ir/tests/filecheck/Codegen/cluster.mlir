// Work-group clusters of gfx1250: the size reaches the back end, a multicast copy and the cluster barrier
// become instructions. tests/test_clusters.py runs this kernel.
// DEFINE: %{lower} = fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,\
// DEFINE: fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize,\
// DEFINE: gpu.module(convert-scf-to-cf,cse,\
// DEFINE: convert-gpu-to-rocdl{chipset=gfx1250 index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true},\
// DEFINE: fly-rocdl-cluster-attr),convert-cf-to-llvm,convert-arith-to-llvm,reconcile-unrealized-casts
// RUN: fly-opt %s --pass-pipeline='builtin.module(%{lower})' | FileCheck %s --check-prefix=ATTR
// RUN: fly-opt %s --pass-pipeline='builtin.module(%{lower},rocdl-attach-target{chip=gfx1250 O=3},gpu-module-to-binary{format=isa})' \
// RUN:   | sed 's/\\0A/\n/g' | FileCheck %s --check-prefix=ISA

// ATTR: llvm.func @gather
// ATTR-NOT: rocdl.cluster_dims
// ATTR-SAME: passthrough = {{\[}}["amdgpu-cluster-dims", "4,1,1"]]
// ATTR: rocdl.cluster.load.async.to.lds.b32

// ISA: gather:
// ISA: cluster_load_async_to_lds_b32
// ISA: s_wait_asynccnt 0x0
// ISA: s_barrier_signal -3
// ISA: s_barrier_wait
// ISA-COUNT-2: ds_load
// ISA: .amdhsa_next_free_vgpr
// ISA: .cluster_dims:
// ISA-NEXT: - 4
// ISA-NEXT: - 1
// ISA-NEXT: - 1

// Every work-group of a cluster loads a row of 32 floats into the local memory of all four, then stores
// the four rows, each element raised by a thousand times its own place in the cluster.
!row = !fly.ptr<f32, shared, align<16>>
gpu.module @kernels {
  // CODEGEN gfx1250: cluster_load_async_to_lds_b32 , s_barrier_signal -3, s_barrier_wait (-3|0xfffd)
  gpu.func @gather(%in: !fly.ptr<f32, global>, %out: !fly.ptr<f32, global>) kernel
      attributes {rocdl.cluster_dims = "4,1,1", known_block_size = array<i32: 32, 1, 1>} {
    %thread_index = gpu.thread_id x
    %thread = arith.index_cast %thread_index : index to i32
    %group_index = gpu.block_id x
    %group = arith.index_cast %group_index : index to i32
    %place = llvm.call_intrinsic "llvm.amdgcn.cluster.workgroup.id.x"() : () -> i32

    %rows = fly.make_ptr() {dictAttrs = {allocBytes = 512 : i64, allocAlign = 16 : i64}} : () -> !fly.ptr<i8, shared, align<16>>
    %lds = fly.recast_iter(%rows) : (!fly.ptr<i8, shared, align<16>>) -> !row
    %strides = fly.static : !fly.layout<(32,4):(1,32)>
    %there = fly.make_coord(%thread, %place) : (i32, i32) -> !fly.int_tuple<(?,?)>
    %to = fly.crd2idx(%there, %strides) : (!fly.int_tuple<(?,?)>, !fly.layout<(32,4):(1,32)>) -> !fly.int_tuple<?>
    %target = fly.add_offset(%lds, %to) : (!row, !fly.int_tuple<?>) -> !fly.ptr<f32, shared>
    %here = fly.make_coord(%thread, %group) : (i32, i32) -> !fly.int_tuple<(?,?)>
    %from = fly.crd2idx(%here, %strides) : (!fly.int_tuple<(?,?)>, !fly.layout<(32,4):(1,32)>) -> !fly.int_tuple<?>
    %source = fly.add_offset(%in, %from) : (!fly.ptr<f32, global>, !fly.int_tuple<?>) -> !fly.ptr<f32, global>
    %g = fly.to_llvm_ptr(%source) {llvm_address_space = 1 : i32} : (!fly.ptr<f32, global>) -> !llvm.ptr<1>
    %l = fly.to_llvm_ptr(%target) {llvm_address_space = 3 : i32} : (!fly.ptr<f32, shared>) -> !llvm.ptr<3>
    %all = arith.constant 15 : i32
    rocdl.cluster.load.async.to.lds.b32 %g, %l, 0, 0, %all : !llvm.ptr<1>, !llvm.ptr<3>
    rocdl.s.wait.asynccnt 0
    rocdl.s.barrier.signal id = -3
    rocdl.s.barrier.wait id = -3

    %thousand = arith.constant 1000 : i32
    %raise_int = arith.muli %place, %thousand : i32
    %raise = arith.sitofp %raise_int : i32 to f32
    %view = fly.make_view(%lds, %strides) : (!row, !fly.layout<(32,4):(1,32)>) -> !fly.memref<f32, shared, (32,4):(1,32), align<16>>
    %out_strides = fly.static : !fly.layout<(32,4,8):(1,32,128)>
    %out_view = fly.make_view(%out, %out_strides) : (!fly.ptr<f32, global>, !fly.layout<(32,4,8):(1,32,128)>) -> !fly.memref<f32, global, (32,4,8):(1,32,128)>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    scf.for %i = %zero to %four step %one {
      %r = arith.index_cast %i : index to i32
      %c = fly.make_coord(%thread, %r) : (i32, i32) -> !fly.int_tuple<(?,?)>
      %x = fly.memref.load(%view, %c) : (!fly.memref<f32, shared, (32,4):(1,32), align<16>>, !fly.int_tuple<(?,?)>) -> f32
      %y = arith.addf %x, %raise : f32
      %d = fly.make_coord(%thread, %r, %group) : (i32, i32, i32) -> !fly.int_tuple<(?,?,?)>
      fly.memref.store(%y, %out_view, %d) : (f32, !fly.memref<f32, global, (32,4,8):(1,32,128)>, !fly.int_tuple<(?,?,?)>) -> ()
    }
    gpu.return
  }
}
