// Copies and gemms that cannot be expanded say why.
// RUN: fly-opt %s --split-input-file --verify-diagnostics --fly-canonicalize --fly-layout-lowering

!at = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!cd = !fly.memref<f32, register, (1,2,3):(0,(1),2)>
!a = !fly.memref<f32, register, (1,2,2):(0,1,2)>
!b = !fly.memref<f32, register, (1,3,2):(0,1,3)>
func.func @uneven(%d: !cd, %a: !a, %b: !b, %c: !cd, %m: !at) {
  // expected-error@+2 {{shape and stride are not congruent}}
  // expected-error@+1 {{cannot slice its operands: shape and stride of a layout differ in their modes}}
  fly.gemm(%m, %d, %a, %b, %c) : (!at, !cd, !a, !b, !cd) -> ()
  return
}

// -----

!at = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!cd = !fly.memref<f32, register, (1,2,3):(0,1,2)>
!a = !fly.memref<f32, register, (1,4):(0,1)>
!b = !fly.memref<f32, register, (1,3):(0,1)>
func.func @extents(%d: !cd, %a: !a, %b: !b, %m: !at) {
  // expected-error@+1 {{mode 1 of !fly.memref<f32, register, (1,4):(0,1)> must have extent 2}}
  fly.gemm(%m, %d, %a, %b, %d) : (!at, !cd, !a, !b, !cd) -> ()
  return
}
