// What an atom call moves must be consecutive. A step that is known only at launch makes it a copy of elements;
// with zeroFill a false predicate gives zero.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering \
// RUN:   --fly-convert-atom-call-to-ssa-form | FileCheck %s

!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
!narrow = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, (4,2):(?{i64},1)>
!r = !fly.memref<f32, register, (4,2):(1,4)>
gpu.module @m {
  // CHECK-LABEL: gpu.func @unknown_step(
  // CHECK-NOT: universal_copy<128>
  // CHECK-COUNT-8: fly.copy_atom_call_ssa({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, global, 1:0{{.*}}>) -> f32
  // CHECK-NOT: fly.copy_atom_call_ssa
  // CHECK: gpu.return
  // CODEGEN none: its fragment is an argument
  gpu.func @unknown_step(%src: !g, %f: !r) kernel {
    %at = fly.make_copy_atom {valBits = 32 : i32} : !atom
    fly.copy(%at, %src, %f) : (!atom, !g, !r) -> ()
    gpu.return
  }
}

!row = !fly.memref<f32, global, 4:1, align<16>>
!fr = !fly.memref<f32, register, 4:1>
!p = !fly.memref<i1, register, 1:0>
gpu.module @zero {
  // CHECK-LABEL: gpu.func @zero_fill(
  // CHECK: %[[Z:.*]] = arith.constant dense<0.000000e+00> : vector<4xf32>
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %[[Z]], %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, zeroFill}
  // CODEGEN none: nothing uses what is loaded
  gpu.func @zero_fill(%src: !row, %c: i1) kernel {
    %at = fly.make_copy_atom {valBits = 32 : i32} : !atom
    %f = fly.make_fragment_like(%src) : (!row) -> !fr
    %pl = fly.static : !fly.layout<1:0>
    %p = fly.memref.alloca(%pl) : (!fly.layout<1:0>) -> !p
    %i0 = fly.make_int_tuple() : () -> !fly.int_tuple<0>
    fly.memref.store(%c, %p, %i0) : (i1, !p, !fly.int_tuple<0>) -> ()
    fly.copy(%at, %src, %f, %p) {zeroFill} : (!atom, !row, !fr, !p) -> ()
    gpu.return
  }
}
