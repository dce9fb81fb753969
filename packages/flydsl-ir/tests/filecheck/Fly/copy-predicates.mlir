// Which entry of a predicate belongs to which call. A value mode (values of a call, calls) has one for each call,
// also if the calls are nested; a mode that the predicate lacks shares one.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering \
// RUN:   --fly-convert-atom-call-to-ssa-form | FileCheck %s

!atom = !fly.copy_atom<!fly.universal_copy<64>, 32>
!g = !fly.memref<f32, global, ((2,(2,2)),1):((1,(8,32)),0)>
!r = !fly.memref<f32, register, ((2,(2,2)),1):((1,(2,4)),0)>
!p = !fly.memref<i1, register, ((2,2),1):((1,2),0)>
gpu.module @nested_calls {
  // CHECK-LABEL: gpu.func @k(
  // CHECK-SAME: %[[P:[a-z0-9]+]]: !fly.ptr<i1, register>
  // CHECK: %[[P0:.*]] = fly.add_offset(%[[P]], %{{.*}}) : (!fly.ptr<i1, register>, !fly.int_tuple<0>)
  // CHECK: %[[C0:.*]] = fly.ptr.load(%[[P0]]) : (!fly.ptr<i1, register>) -> i1
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %[[C0]])
  // CHECK: %[[P1:.*]] = fly.add_offset(%[[P]], %{{.*}}) : (!fly.ptr<i1, register>, !fly.int_tuple<1>)
  // CHECK: %[[C1:.*]] = fly.ptr.load(%[[P1]]) : (!fly.ptr<i1, register>) -> i1
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %[[C1]])
  // CHECK: %[[P2:.*]] = fly.add_offset(%[[P]], %{{.*}}) : (!fly.ptr<i1, register>, !fly.int_tuple<2>)
  // CHECK: %[[C2:.*]] = fly.ptr.load(%[[P2]]) : (!fly.ptr<i1, register>) -> i1
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %[[C2]])
  // CHECK: %[[P3:.*]] = fly.add_offset(%[[P]], %{{.*}}) : (!fly.ptr<i1, register>, !fly.int_tuple<3>)
  // CHECK: %[[C3:.*]] = fly.ptr.load(%[[P3]]) : (!fly.ptr<i1, register>) -> i1
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %[[C3]])
  // CHECK: gpu.return
  // CODEGEN none: its fragments are arguments
  gpu.func @k(%p: !p, %s: !g, %d: !r) kernel {
    %at = fly.make_copy_atom {valBits = 32 : i32} : !atom
    fly.copy(%at, %s, %d, %p) : (!atom, !g, !r, !p) -> ()
    gpu.return
  }
}

!shared = !fly.memref<i1, register, 1:0>
gpu.module @without_the_value_mode {
  // CHECK-LABEL: gpu.func @k(
  // CHECK-SAME: %[[P:[a-z0-9]+]]: !fly.ptr<i1, register>
  // CHECK: %[[Q:.*]] = fly.add_offset(%[[P]], %{{.*}}) : (!fly.ptr<i1, register>, !fly.int_tuple<0>)
  // CHECK-NOT: fly.add_offset(%[[P]]
  // CHECK-COUNT-4: fly.ptr.load(%[[Q]]) : (!fly.ptr<i1, register>) -> i1
  // CHECK: gpu.return
  // CODEGEN none: its fragments are arguments
  gpu.func @k(%p: !shared, %s: !g, %d: !r) kernel {
    %at = fly.make_copy_atom {valBits = 32 : i32} : !atom
    fly.copy(%at, %s, %d, %p) : (!atom, !g, !r, !shared) -> ()
    gpu.return
  }
}
