// The text of operations with a format of their own, read back once more.
// RUN: fly-opt %s | fly-opt | FileCheck %s

!fma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!copy = !fly.copy_atom<!fly.universal_copy<32>, 32>
!one = !fly.memref<f32, register, 1:1>
!many = !fly.memref<f32, global, (4,8):(8,1)>
!tiled = !fly.tiled_mma<!fma, !fly.layout<(4,2,1):(2,1,0)>>

// CHECK-LABEL: func.func @append(
// CHECK: fly.append<5> (%{{.*}}, %{{.*}}) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(4,1,1,1,1):(1,0,0,0,0)>
// CHECK: fly.append (%{{.*}}, %{{.*}}) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(4,1):(1,0)>
// CHECK: fly.prepend<3> (%{{.*}}, %{{.*}}) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(1,1,4):(0,0,1)>
func.func @append(%l: !fly.layout<4:1>, %e: !fly.layout<1:0>) {
  %r = fly.append<5>(%l, %e) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(4,1,1,1,1):(1,0,0,0,0)>
  %s = fly.append(%l, %e) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(4,1):(1,0)>
  %t = fly.prepend<3> (%l, %e) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(1,1,4):(0,0,1)>
  return
}

// CHECK-LABEL: func.func @leaves(
// CHECK: fly.get_leaves(%{{.*}}) : (!fly.int_tuple<((4,?{i64}))>) -> (i32, i64)
// CHECK: fly.get_leaves(%{{.*}}) {dynamicOnly = true} : (!fly.int_tuple<((4,?{i64}))>) -> i64
func.func @leaves(%t: !fly.int_tuple<((4,?{i64}))>) {
  %a:2 = fly.get_leaves(%t) {dynamicOnly = false} : (!fly.int_tuple<((4,?{i64}))>) -> (i32, i64)
  %b = fly.get_leaves(%t) {dynamicOnly = true} : (!fly.int_tuple<((4,?{i64}))>) -> i64
  return
}

// CHECK-LABEL: func.func @pointers(
// CHECK: fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
// CHECK: fly.to_llvm_ptr(%{{.*}}) {llvm_address_space = 0 : i32} : (!fly.ptr<f32, generic>) -> !llvm.ptr
// CHECK: fly.extract_aligned_pointer_as_index %{{.*}} : <f32, global, (4,8):(8,1)> -> !llvm.ptr<1>
// CHECK: fly.extract_aligned_pointer_as_index %{{.*}} : <f32, global, (4,8):(8,1)> -> index
// CHECK: fly.ptr.load(%{{.*}}) : (!fly.int_tuple<(?,2)>) -> !fly.int_tuple<(?,2)>
func.func @pointers(%p: !fly.ptr<f32, generic>, %m: !many, %t: !fly.int_tuple<(?,2)>) {
  %a = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
  %b = fly.to_llvm_ptr(%p) {llvm_address_space = 0 : i32} : (!fly.ptr<f32, generic>) -> !llvm.ptr
  %c = fly.extract_aligned_pointer_as_index %m : <f32, global, (4,8):(8,1)> -> !llvm.ptr<1>
  %d = fly.extract_aligned_pointer_as_index %m : !many -> index
  %e = fly.ptr.load(%t) : (!fly.int_tuple<(?,2)>) -> !fly.int_tuple<(?,2)>
  return
}

// The attribute of a copy atom may differ from its type, which decides.
// CHECK-LABEL: func.func @copies(
// CHECK: fly.make_copy_atom(%{{.*}}, %{{.*}} : i64, f32) {valBits = 16 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 16>
// CHECK: fly.make_copy_atom {valBits = 8 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 16>
// CHECK: fly.copy(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.copy_atom<!fly.universal_copy<32>, 32>,
func.func @copies(%a: !copy, %x: !one, %p: !fly.memref<i1, register, 1:1>, %i: i64, %f: f32) {
  %r = fly.make_copy_atom(%i, %f : i64, f32) {valBits = 16 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 16>
  %s = fly.make_copy_atom {valBits = 8 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 16>
  fly.copy(%a, %x, %x, %p) : (!copy, !one, !one, !fly.memref<i1, register, 1:1>) -> ()
  return
}

// CHECK-LABEL: func.func @products(
// CHECK-SAME: %[[A:[^:]*]]: !fly.mma_atom<{{.*}}>, %[[X:[^:]*]]: !fly.memref<f32, register, 1:1>, %[[V:[^:]*]]: f32, %[[L:[^:]*]]: !fly.layout
// CHECK: fly.gemm(%[[A]], %[[X]], %[[X]], %[[X]], %[[X]]) : (
// CHECK: fly.gemm(%[[A]], %[[X]], %[[X]], %[[X]], %[[X]]) {traversalOrder = #fly<gemm_traversal_order knm>} : (
// CHECK: fly.gemm(%[[A]], %[[X]], %[[X]], %[[X]], %[[X]]) traversalLayout = %[[L]] : (
// CHECK: fly.gemm(%[[A]], %[[X]], [%[[X]], %[[X]]], %[[X]], %[[X]]) : (
// CHECK: fly.mma_atom_call(%[[A]], %[[X]], [%[[X]], %[[X]]], %[[X]], %[[X]]) : (
// CHECK: fly.mma_atom_call_ssa(%[[A]], %[[V]], %[[V]], %[[V]]) : (
// CHECK: fly.mma_atom_call_ssa(%[[A]], [%[[V]], %[[V]]], %[[V]], %[[V]]) : (
// CHECK: fly.mma_atom_call_ssa(%[[A]], %[[V]], %[[V]], %[[V]]) dst = %[[X]] : (!fly.mma_atom<{{.*}}>, !fly.memref<f32, register, 1:1>, f32, f32, f32) -> ()
func.func @products(%a: !fma, %x: !one, %v: f32, %l: !fly.layout<(4,8):(8,1)>) {
  fly.gemm(%a, %x, %x, %x, %x) : (!fma, !one, !one, !one, !one) -> ()
  fly.gemm(%a, %x, %x, %x, %x) {traversalOrder = #fly<gemm_traversal_order knm>} : (!fma, !one, !one, !one, !one) -> ()
  fly.gemm(%a, %x, %x, %x, %x) traversalLayout = %l : (!fma, !one, !one, !one, !one, !fly.layout<(4,8):(8,1)>) -> ()
  fly.gemm(%a, %x, [%x, %x], [%x], %x) : (!fma, !one, !one, !one, !one, !one) -> ()
  fly.mma_atom_call(%a, %x, [%x, %x], %x, %x) : (!fma, !one, !one, !one, !one, !one) -> ()
  %r = fly.mma_atom_call_ssa(%a, %v, %v, %v) : (!fma, f32, f32, f32) -> f32
  %s = fly.mma_atom_call_ssa(%a, [%v, %v], %v, %v) : (!fma, f32, f32, f32, f32) -> f32
  fly.mma_atom_call_ssa(%a, %v, %v, %v) dst = %x : (!fma, !one, f32, f32, f32) -> ()
  return
}

// CHECK-LABEL: func.func @partitions(
// CHECK: fly.tiled_mma.partition(b, %{{.*}}, %{{.*}}, %{{.*}}) : (
// CHECK: fly.tiled_mma.partition_shape(%{{.*}}, %{{.*}}) {operand_id = #fly<mma_operand a>} : (
// CHECK: fly.mma.make_fragment(b, %{{.*}}, %{{.*}}) : (
// CHECK: fly.mma.make_fragment(b, %{{.*}}, %{{.*}}, stages = 3) : (
func.func @partitions(%t: !tiled, %m: !fly.memref<f32, global, (8,6):(6,1)>, %i: !fly.int_tuple<?>, %s: !fly.int_tuple<(8,6)>) {
  %p = fly.tiled_mma.partition(b, %t, %m, %i) : (!tiled, !fly.memref<f32, global, (8,6):(6,1)>, !fly.int_tuple<?>) -> !fly.memref<f32, global, (1,4,6):(0,12,1)>
  %q = fly.tiled_mma.partition_shape(%t, %s) {operand_id = #fly<mma_operand a>} : (!tiled, !fly.int_tuple<(8,6)>) -> !fly.int_tuple<(1,2,6)>
  %f = fly.mma.make_fragment(b, %t, %m) : (!tiled, !fly.memref<f32, global, (8,6):(6,1)>) -> !fly.memref<f32, register, (1,4,6):(0,6,1)>
  %g = fly.mma.make_fragment(b, %t, %m, stages = 3) : (!tiled, !fly.memref<f32, global, (8,6):(6,1)>) -> !fly.memref<f32, register, (1,4,6,3):(0,6,1,24)>
  return
}

// CHECK-LABEL: func.func @others(
// CHECK: fly.print() {format = "x"} : () -> ()
// CHECK: fly.print(%{{.*}}) {format = "x {}"} : (i64) -> ()
// CHECK: fly.assume(%{{.*}}, %{{.*}}) : (i64, i64) -> i64
// CHECK: fly.atom.set_value(%{{.*}}, "soffset", %{{.*}}) : (
// A small float may be stored as an integer of its width.
// CHECK: fly.memref.store_vec(%{{.*}}, %{{.*}}) : (vector<4xi8>, !fly.memref<f8E4M3FN, register, 4:1>) -> ()
func.func @others(%a: i64, %b: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, %c: i32, %v: vector<4xi8>, %m: !fly.memref<f8E4M3FN, register, 4:1>) {
  fly.print() {format = "x"} : () -> ()
  fly.print(%a) {format = "x {}"} : (i64) -> ()
  %r = fly.assume(%a, %a) : (i64, i64) -> i64
  %s = fly.atom.set_value(%b, "soffset", %c) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, i32) -> !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  fly.memref.store_vec(%v, %m) : (vector<4xi8>, !fly.memref<f8E4M3FN, register, 4:1>) -> ()
  return
}
