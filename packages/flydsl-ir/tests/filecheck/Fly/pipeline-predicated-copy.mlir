// A predicated copy: the predicate lacks the value mode and applies to whole atoms.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering \
// RUN:   --fly-convert-atom-call-to-ssa-form --fly-promote-regmem-to-vectorssa | FileCheck %s

!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
!g = !fly.memref<f32, global, (4,2):(1,64), align<16>>
!r = !fly.memref<f32, register, (4,2):(1,4)>
!p = !fly.memref<i1, register, 2:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @k(
  // CHECK-SAME: %{{.*}}: !fly.ptr<f32, global, align<16>>, %[[C0:.*]]: i1, %[[C1:.*]]: i1)
  // CHECK: fly.copy_atom_call_ssa({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.memref<f32, global, 4:1, align<16>>, vector<4xf32>, i1) -> vector<4xf32>
  // CHECK: fly.copy_atom_call_ssa({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.memref<f32, global, 4:1, align<16>>, vector<4xf32>, i1) -> vector<4xf32>
  // CHECK-NOT: fly.make_ptr
  // CHECK: gpu.return
  // CODEGEN none: the printf of HIP is a call of a device library
  gpu.func @k(%src: !g, %c0: i1, %c1: i1) kernel {
    %at = fly.make_copy_atom {valBits = 32 : i32} : !atom
    %f = fly.make_fragment_like(%src) : (!g) -> !r
    %pl = fly.static : !fly.layout<2:1>
    %p = fly.memref.alloca(%pl) : (!fly.layout<2:1>) -> !p
    %i0 = fly.make_int_tuple() : () -> !fly.int_tuple<0>
    %i1 = fly.make_int_tuple() : () -> !fly.int_tuple<1>
    fly.memref.store(%c0, %p, %i0) : (i1, !p, !fly.int_tuple<0>) -> ()
    fly.memref.store(%c1, %p, %i1) : (i1, !p, !fly.int_tuple<1>) -> ()
    fly.copy(%at, %src, %f, %p) : (!atom, !g, !r, !p) -> ()
    %z = fly.make_int_tuple() : () -> !fly.int_tuple<(0,1)>
    %v = fly.memref.load(%f, %z) : (!r, !fly.int_tuple<(0,1)>) -> f32
    fly.print(%v) {format = "{}"} : (f32) -> ()
    gpu.return
  }
}
