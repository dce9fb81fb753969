// Loop orders of fly.gemm; operands are told apart by their offsets.
// RUN: fly-opt %s --fly-canonicalize --fly-layout-lowering | FileCheck %s

!at = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!cd = !fly.memref<f32, register, (1,2,3):(0,1,2)>
!a = !fly.memref<f32, register, (1,2,2):(0,1,2)>
!b = !fly.memref<f32, register, (1,3,2):(0,1,3)>

// CHECK-LABEL: func.func @default_order(
// CHECK-COUNT-12: fly.mma_atom_call
// CHECK-NOT: fly.mma_atom_call
func.func @default_order(%d: !cd, %a: !a, %b: !b, %c: !cd, %m: !at) {
  fly.gemm(%m, %d, %a, %b, %c) : (!at, !cd, !a, !b, !cd) -> ()
  return
}

// CHECK-LABEL: func.func @serpentine(
// CHECK-COUNT-12: fly.mma_atom_call
// CHECK-NOT: fly.mma_atom_call
func.func @serpentine(%d: !cd, %a: !a, %b: !b, %c: !cd, %m: !at) {
  fly.gemm(%m, %d, %a, %b, %c) {traversalOrder = #fly<gemm_traversal_order kmn_serpentine>} : (!at, !cd, !a, !b, !cd) -> ()
  return
}
