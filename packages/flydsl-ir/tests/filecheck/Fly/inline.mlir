// Calls are inlined: operations of ours in the callee, and tensors, layouts and atoms that it takes and gives.
// RUN: fly-opt %s --inline --symbol-dce | FileCheck %s
// RUN: fly-opt %s --inline --symbol-dce --fly-rewrite-func-signature --fly-canonicalize \
// RUN:   --fly-layout-lowering --canonicalize | FileCheck %s --check-prefix=LOWER

!T = !fly.memref<f32, global, (4,?):(?,1)>
!R = !fly.memref<f32, global, ?:1>
!B = !fly.memref<f32, #fly_rocdl.buffer_desc, 4:1>

func.func private @row(%t: !T, %i: i32) -> !R {
  %c = fly.make_coord(%i) : (i32) -> !fly.int_tuple<(?,*)>
  %r = fly.slice(%t, %c) : (!T, !fly.int_tuple<(?,*)>) -> !R
  return %r : !R
}

func.func private @element(%t: !T, %i: i32) -> f32 {
  %r = call @row(%t, %i) : (!T, i32) -> !R
  %j = fly.make_int_tuple() : () -> !fly.int_tuple<3>
  %v = fly.memref.load(%r, %j) : (!R, !fly.int_tuple<3>) -> f32
  return %v : f32
}

func.func private @resource(%b: !B) -> !llvm.ptr<8> {
  %p = fly.get_iter(%b) : (!B) -> !fly.ptr<f32, #fly_rocdl.buffer_desc>
  %r = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
  return %r : !llvm.ptr<8>
}

// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @sum
// CHECK: scf.for
// CHECK:   fly.slice
// CHECK:   %[[V:.*]] = fly.memref.load
// CHECK:   arith.addf %{{.*}}, %[[V]]
// CHECK: fly_rocdl.get_buffer_rsrc
// CHECK-NOT: call
// LOWER-LABEL: func.func @sum
// LOWER-NOT: call
// LOWER: scf.for
// LOWER:   fly.ptr.load
func.func @sum(%t: !T, %b: !B, %n: i32) -> (f32, !llvm.ptr<8>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (f32) : i32 {
    %v = func.call @element(%t, %i) : (!T, i32) -> f32
    %x = arith.addf %a, %v : f32
    scf.yield %x : f32
  }
  %r = call @resource(%b) : (!B) -> !llvm.ptr<8>
  return %s, %r : f32, !llvm.ptr<8>
}
