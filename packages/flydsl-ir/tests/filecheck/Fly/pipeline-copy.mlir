// A tiled copy with a fragment, from layouts to vector values.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering \
// RUN:   --fly-int-swizzle-simplify --canonicalize --fly-convert-atom-call-to-ssa-form \
// RUN:   --fly-promote-regmem-to-vectorssa | FileCheck %s

!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
!tc = !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.layout<((32,4),4):((16,1),4)>, !fly.tile<[4|128]>>
!g = !fly.memref<f32, global, (?,?):(?{i64 div=4},1), align<16>>
!zg = !fly.memref<f32, global, ((4,128),(?,?)):((?{i64 div=4},1),(?{i64 div=16},128)), align<16>>
!blk = !fly.memref<f32, global, (4,128):(?{i64 div=4},1), align<16>>

// CHECK-LABEL: gpu.func @k(
// CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}{{.*}} -> vector<4xf32>
// CHECK: arith.addf
// CHECK: fly.copy_atom_call_ssa({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
// CHECK-NOT: fly.ptr.load
// CHECK-NOT: fly.make_ptr
// CHECK: gpu.return
gpu.module @m {
  // CODEGEN gfx942,gfx950: global_load_dwordx4, v_pk_add_f32, global_store_dwordx4
  // CODEGEN gfx1201,gfx1250: global_load_b128, global_store_b128
  gpu.func @k(%A: !g, %bi: i32) kernel {
    %at = fly.make_copy_atom {valBits = 32 : i32} : !atom
    %tidx = gpu.thread_id x
    %tid = arith.index_cast %tidx : index to i32
    %t = fly.make_int_tuple(%tid) : (i32) -> !fly.int_tuple<?>
    %tile = fly.static : !fly.tile<[4|128]>
    %z = fly.zipped_divide(%A, %tile) : (!g, !fly.tile<[4|128]>) -> !zg
    %bc = fly.make_coord(%bi, %bi) : (i32, i32) -> !fly.int_tuple<(*,(?,?))>
    %blk = fly.slice(%z, %bc) : (!zg, !fly.int_tuple<(*,(?,?))>) -> !blk
    %tvl = fly.static : !fly.layout<((32,4),4):((16,1),4)>
    %tcv = fly.make_tiled_copy(%at, %tvl, %tile) : (!atom, !fly.layout<((32,4),4):((16,1),4)>, !fly.tile<[4|128]>) -> !tc
    %p = fly.tiled_copy.partition_src(%tcv, %blk, %t) : (!tc, !blk, !fly.int_tuple<?>) -> !fly.memref<f32, global, ((4,1),1,1):((1,0),0,0), align<16>>
    %f = fly.make_fragment_like(%p) : (!fly.memref<f32, global, ((4,1),1,1):((1,0),0,0), align<16>>) -> !fly.memref<f32, register, ((4,1),1,1):((1,0),0,0)>
    %pf = fly.make_fragment_like(%p, i1) : (!fly.memref<f32, global, ((4,1),1,1):((1,0),0,0), align<16>>) -> !fly.memref<i1, register, ((4,1),1,1):((1,0),0,0)>
    fly.copy(%tcv, %p, %f) : (!tc, !fly.memref<f32, global, ((4,1),1,1):((1,0),0,0), align<16>>, !fly.memref<f32, register, ((4,1),1,1):((1,0),0,0)>) -> ()
    %v = fly.memref.load_vec(%f) : (!fly.memref<f32, register, ((4,1),1,1):((1,0),0,0)>) -> vector<4xf32>
    %w = arith.addf %v, %v : vector<4xf32>
    fly.memref.store_vec(%w, %f) : (vector<4xf32>, !fly.memref<f32, register, ((4,1),1,1):((1,0),0,0)>) -> ()
    fly.copy(%tcv, %f, %p) : (!tc, !fly.memref<f32, register, ((4,1),1,1):((1,0),0,0)>, !fly.memref<f32, global, ((4,1),1,1):((1,0),0,0), align<16>>) -> ()
    gpu.return
  }
}
