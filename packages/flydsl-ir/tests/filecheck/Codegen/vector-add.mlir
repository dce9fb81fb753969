// From layouts to machine code: the whole device pipeline on a predicated 2-D vector add.
// DEFINE: %{chip} = gfx942
// DEFINE: %{pipeline} = fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,\
// DEFINE: fly-int-swizzle-simplify,canonicalize,fly-convert-atom-call-to-ssa-form,\
// DEFINE: fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize,\
// DEFINE: gpu.module(convert-scf-to-cf,cse,convert-rocdl-fastmath-ops,fly-expand-math,\
// DEFINE: convert-gpu-to-rocdl{chipset=%{chip} index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true},\
// DEFINE: fly-rocdl-cluster-attr),\
// DEFINE: rocdl-attach-target{chip=%{chip} O=3},convert-scf-to-cf,convert-cf-to-llvm,\
// DEFINE: convert-vector-to-llvm,convert-arith-to-llvm,reconcile-unrealized-casts,\
// DEFINE: gpu-module-to-binary{format=isa}
// RUN: fly-opt %s --pass-pipeline='builtin.module(%{pipeline})' | sed 's/\\0A/\n/g' | FileCheck %s
// REDEFINE: %{chip} = gfx1250
// RUN: fly-opt %s --pass-pipeline='builtin.module(%{pipeline})' | sed 's/\\0A/\n/g' | FileCheck %s --check-prefix=GFX1250

// CHECK: gpu.binary @kernels
// CHECK-COUNT-2: global_load_dwordx4
// CHECK: v_pk_add_f32
// CHECK: global_store_dwordx4
// CHECK: .amdhsa_private_segment_fixed_size 0
// GFX1250-COUNT-2: global_load_b128
// GFX1250: global_store_b128
!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
!tiled = !fly.tiled_copy<!atom, !fly.layout<((32,4),4):((16,1),4)>, !fly.tile<[4|128]>>
!tensor = !fly.memref<f32, global, (?,?):(?{i64},1), align<16>>
!blocks = !fly.memref<f32, global, (4,128,?,?):(?{i64},1,?{i64 div=4},128), align<16>>
!block = !fly.memref<f32, global, (4,128):(?{i64},1), align<16>>
!part = !fly.memref<f32, global, ((4,1),1,1):((1,0),0,0)>
!regs = !fly.memref<f32, register, ((4,1),1,1):((1,0),0,0)>
!coords = !fly.coord_tensor<(0,0), (?,?):(1E0,1E1)>
!coord_blocks = !fly.coord_tensor<(0,0), (4,128,?,?):(1E0,1E1,4E0,128E1)>
!coord_block = !fly.coord_tensor<(?{div=4},?{div=128}), (4,128):(1E0,1E1)>
!coord_part = !fly.coord_tensor<(?,?{div=4}), ((4,1),1,1):((1E1,0),0,0)>
!pred = !fly.memref<i1, register, (1,1,1):(0,0,0)>
gpu.module @kernels {
  // CODEGEN gfx942,gfx950: global_load_dwordx4, v_pk_add_f32, global_store_dwordx4
  // CODEGEN gfx1201,gfx1250: global_load_b128, global_store_b128
  gpu.func @add(%a: !tensor, %b: !tensor, %c: !tensor, %m: i32, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %tid_index = gpu.thread_id x
    %tid = arith.index_cast %tid_index : index to i32
    %bx_index = gpu.block_id x
    %bx = arith.index_cast %bx_index : index to i32
    %by_index = gpu.block_id y
    %by = arith.index_cast %by_index : index to i32
    %atom = fly.make_copy_atom {valBits = 32 : i32} : !atom
    %tv = fly.static : !fly.layout<((32,4),4):((16,1),4)>
    %tile = fly.static : !fly.tile<[4|128]>
    %tiled = fly.make_tiled_copy(%atom, %tv, %tile) : (!atom, !fly.layout<((32,4),4):((16,1),4)>, !fly.tile<[4|128]>) -> !tiled
    %coord = fly.make_coord(%by, %bx) : (i32, i32) -> !fly.int_tuple<(*,*,?,?)>
    %thread = fly.make_int_tuple(%tid) : (i32) -> !fly.int_tuple<?>

    %a_blocks = fly.flat_divide(%a, %tile) : (!tensor, !fly.tile<[4|128]>) -> !blocks
    %a_block = fly.slice(%a_blocks, %coord) : (!blocks, !fly.int_tuple<(*,*,?,?)>) -> !block
    %a_part = fly.tiled_copy.partition_src(%tiled, %a_block, %thread) : (!tiled, !block, !fly.int_tuple<?>) -> !part

    %b_blocks = fly.flat_divide(%b, %tile) : (!tensor, !fly.tile<[4|128]>) -> !blocks
    %b_block = fly.slice(%b_blocks, %coord) : (!blocks, !fly.int_tuple<(*,*,?,?)>) -> !block
    %b_part = fly.tiled_copy.partition_src(%tiled, %b_block, %thread) : (!tiled, !block, !fly.int_tuple<?>) -> !part

    %c_blocks = fly.flat_divide(%c, %tile) : (!tensor, !fly.tile<[4|128]>) -> !blocks
    %c_block = fly.slice(%c_blocks, %coord) : (!blocks, !fly.int_tuple<(*,*,?,?)>) -> !block
    %c_part = fly.tiled_copy.partition_src(%tiled, %c_block, %thread) : (!tiled, !block, !fly.int_tuple<?>) -> !part

    // A thread copies if its first element is inside the tensor.
    %shape = fly.make_int_tuple(%m, %n) : (i32, i32) -> !fly.int_tuple<(?,?)>
    %identity = fly.make_identity_layout(%shape) : (!fly.int_tuple<(?,?)>) -> !fly.layout<(?,?):(1E0,1E1)>
    %origin = fly.make_int_tuple() : () -> !fly.int_tuple<(0,0)>
    %coords = fly.make_view(%origin, %identity) : (!fly.int_tuple<(0,0)>, !fly.layout<(?,?):(1E0,1E1)>) -> !coords
    %coord_blocks = fly.flat_divide(%coords, %tile) : (!coords, !fly.tile<[4|128]>) -> !coord_blocks
    %coord_block = fly.slice(%coord_blocks, %coord) : (!coord_blocks, !fly.int_tuple<(*,*,?,?)>) -> !coord_block
    %coord_part = fly.tiled_copy.partition_src(%tiled, %coord_block, %thread) : (!tiled, !coord_block, !fly.int_tuple<?>) -> !coord_part
    %zero = fly.make_int_tuple() : () -> !fly.int_tuple<0>
    %first = fly.memref.load(%coord_part, %zero) : (!coord_part, !fly.int_tuple<0>) -> !fly.int_tuple<(?,?{div=4})>
    %inside = fly.elem_less(%first, %shape) : (!fly.int_tuple<(?,?{div=4})>, !fly.int_tuple<(?,?)>) -> i1
    %pred_layout = fly.static : !fly.layout<(1,1,1):(0,0,0)>
    %pred = fly.memref.alloca(%pred_layout) : (!fly.layout<(1,1,1):(0,0,0)>) -> !pred
    fly.memref.store(%inside, %pred, %zero) : (i1, !pred, !fly.int_tuple<0>) -> ()

    %x = fly.make_fragment_like(%a_part) : (!part) -> !regs
    %y = fly.make_fragment_like(%b_part) : (!part) -> !regs
    fly.copy(%atom, %a_part, %x, %pred) : (!atom, !part, !regs, !pred) -> ()
    fly.copy(%atom, %b_part, %y, %pred) : (!atom, !part, !regs, !pred) -> ()
    %xv = fly.memref.load_vec(%x) : (!regs) -> vector<4xf32>
    %yv = fly.memref.load_vec(%y) : (!regs) -> vector<4xf32>
    %sum = arith.addf %xv, %yv : vector<4xf32>
    fly.memref.store_vec(%sum, %x) : (vector<4xf32>, !regs) -> ()
    fly.copy(%atom, %x, %c_part, %pred) : (!atom, !regs, !part, !pred) -> ()
    gpu.return
  }
}
