// Choices, regions and unknown values of tensors, layouts and tuples: the numbers in them are chosen and passed on.
// RUN: fly-opt %s --fly-rewrite-func-signature | FileCheck %s
// RUN: fly-opt %s --pass-pipeline='builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,canonicalize,fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize)' | FileCheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @select_tuple(
// CHECK: %[[A:.*]] = llvm.extractvalue %{{.*}}[0] : !llvm.struct<packed (i32, i64)>
// CHECK: %[[B:.*]] = llvm.extractvalue %{{.*}}[0] : !llvm.struct<packed (i32, i64)>
// CHECK: arith.select %{{.*}}, %[[A]], %[[B]] : i32
// CHECK: arith.select %{{.*}} : i64
// LOWER-LABEL: func.func @select_tuple(
// LOWER-SAME: %[[C:.*]]: i1, %[[N:.*]]: i32, %[[M:.*]]: i32, %[[K:.*]]: i64)
// LOWER-NEXT: %[[R:.*]] = arith.select %[[C]], %[[N]], %[[M]] : i32
// LOWER-NEXT: return %[[R]], %[[K]]
func.func @select_tuple(%c: i1, %n: i32, %m: i32, %k: i64) -> (i32, i64) {
  %x = fly.make_int_tuple(%n, %k) : (i32, i64) -> !fly.int_tuple<(?,(3,?{i64}))>
  %y = fly.make_int_tuple(%m, %k) : (i32, i64) -> !fly.int_tuple<(?,(3,?{i64}))>
  %t = arith.select %c, %x, %y : !fly.int_tuple<(?,(3,?{i64}))>
  %r:2 = fly.get_leaves(%t) {dynamicOnly = true} : (!fly.int_tuple<(?,(3,?{i64}))>) -> (i32, i64)
  return %r#0, %r#1 : i32, i64
}

!static = !fly.memref<f32, global, (4,8):(8,1)>
!dynamic = !fly.memref<f32, global, (4,?):(?{i64},1)>

// A tensor of static layout is its pointer.
// LOWER-LABEL: func.func @select_static(
// LOWER-SAME: %[[C:.*]]: i1, %[[P:.*]]: !llvm.ptr<1>, %[[Q:.*]]: !llvm.ptr<1>)
// LOWER-NEXT: %[[T:.*]] = arith.select %[[C]], %[[P]], %[[Q]] : !llvm.ptr<1>
// LOWER-NEXT: llvm.getelementptr %[[T]][10]
func.func @select_static(%c: i1, %p: !static, %q: !static) -> f32 {
  %t = arith.select %c, %p, %q : !static
  %i = fly.make_int_tuple() : () -> !fly.int_tuple<(1,2)>
  %v = fly.memref.load(%t, %i) : (!static, !fly.int_tuple<(1,2)>) -> f32
  return %v : f32
}

// LOWER-LABEL: func.func @select_dynamic(
// LOWER: arith.select %{{.*}} : !llvm.ptr<1>
// LOWER: %[[S:.*]] = arith.select %{{.*}} : i64
// LOWER: arith.addi %[[S]], %{{.*}} : i64
func.func @select_dynamic(%c: i1, %p: !dynamic, %q: !dynamic) -> f32 {
  %t = arith.select %c, %p, %q : !dynamic
  %i = fly.make_int_tuple() : () -> !fly.int_tuple<(1,2)>
  %v = fly.memref.load(%t, %i) : (!dynamic, !fly.int_tuple<(1,2)>) -> f32
  return %v : f32
}

// What a region does stays, whatever it gives.
// CHECK-LABEL: func.func @regions(
// CHECK: scf.execute_region {
// CHECK-NEXT: fly.ptr.store
// CHECK: scf.execute_region -> (!fly.ptr<f32, global>, !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>, i32) {
// LOWER-LABEL: func.func @regions(
// LOWER-SAME: %[[P:[^:]*]]: !llvm.ptr<1>, %[[D:.*]]: !llvm.struct<{{.*}}>, %[[V:.*]]: f32)
// LOWER: llvm.store %[[V]], %[[P]]
// LOWER: %[[STRIDE:.*]] = llvm.extractvalue %[[D]][1, 0]
// LOWER: %[[O:.*]] = arith.addi %[[STRIDE]], %{{.*}} : i64
// LOWER: llvm.getelementptr %[[P]][%[[O]]]
func.func @regions(%p: !dynamic, %v: f32) -> (f32, i32) {
  %g = fly.get_iter(%p) : (!dynamic) -> !fly.ptr<f32, global>
  %three = scf.execute_region -> !fly.int_tuple<3> {
    fly.ptr.store(%v, %g) : (f32, !fly.ptr<f32, global>) -> ()
    %k = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    scf.yield %k : !fly.int_tuple<3>
  }
  %n = fly.get_scalar(%three) : (!fly.int_tuple<3>) -> i32
  %t:2 = scf.execute_region -> (!dynamic, i32) {
    scf.yield %p, %n : !dynamic, i32
  }
  %i = fly.make_int_tuple() : () -> !fly.int_tuple<(1,2)>
  %w = fly.memref.load(%t#0, %i) : (!dynamic, !fly.int_tuple<(1,2)>) -> f32
  return %w, %t#1 : f32, i32
}

// CHECK-LABEL: func.func @unknown(
// CHECK: ub.poison : !fly.ptr<f32, global>
// LOWER-LABEL: func.func @unknown(
// LOWER: ub.poison : !llvm.ptr<1>
func.func @unknown() -> !static {
  %t = ub.poison : !static
  return %t : !static
}

gpu.module @m {
  // Functions of a kernel's module return pointers, states and small floats as what these become.
  // LOWER-LABEL: gpu.func @results(
  // LOWER-SAME: -> (!llvm.struct<(ptr<8>, i32)>, !llvm.struct<(i32)>, i8, vector<4xi32>)
  // LOWER: gpu.return %{{.*}} : !llvm.struct<(ptr<8>, i32)>, !llvm.struct<(i32)>, i8, vector<4xi32>
  gpu.func @results(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %v: f8E5M2, %w: vector<4xui32>)
      -> (!fly.ptr<f32, #fly_rocdl.buffer_desc>, !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, f8E5M2, vector<4xui32>) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
    gpu.return %p, %a, %v, %w : !fly.ptr<f32, #fly_rocdl.buffer_desc>, !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, f8E5M2, vector<4xui32>
  }
}

// Branches of cf hand on the numbers too.
// CHECK-LABEL: func.func @branch_loop(
// CHECK: cf.br ^[[HEAD:.*]](%{{.*}}, %{{.*}}, %{{.*}} : i32, !fly.ptr<f32, global>, !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>)
// LOWER-LABEL: func.func @branch_loop(
// LOWER: cf.br ^[[HEAD:.*]](%{{.*}}, %{{.*}} : i32, !llvm.ptr<1>
// LOWER: ^[[HEAD]](%[[I:.*]]: i32, %[[T:.*]]: !llvm.ptr<1>
// LOWER: cf.cond_br
// LOWER: %[[AT:.*]] = llvm.getelementptr %[[T]][
// LOWER: llvm.store %{{.*}}, %[[AT]]
// LOWER-NOT: fly.
func.func @branch_loop(%a: !dynamic, %b: !dynamic, %n: i32, %v: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  cf.br ^head(%c0, %a : i32, !dynamic)
^head(%i: i32, %t: !dynamic):
  %more = arith.cmpi slt, %i, %n : i32
  cf.cond_br %more, ^body, ^exit
^body:
  %at = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<(1,?)>
  fly.memref.store(%v, %t, %at) : (f32, !dynamic, !fly.int_tuple<(1,?)>) -> ()
  %next = arith.addi %i, %c1 : i32
  cf.br ^head(%next, %b : i32, !dynamic)
^exit:
  return
}

// LOWER-LABEL: func.func @switch_layout(
// LOWER: cf.switch
// LOWER: ^{{.*}}(%[[S:.*]]: !llvm.struct<packed (struct<packed (i32)>)>):
// LOWER-NEXT: %[[N:.*]] = llvm.extractvalue %[[S]][0, 0]
// LOWER-NEXT: %[[R:.*]] = arith.muli %[[N]],
// LOWER-NEXT: return %[[R]]
func.func @switch_layout(%c: i32, %l: !fly.layout<(4,?):(1,4)>, %k: !fly.layout<(4,?):(1,4)>) -> i32 {
  cf.switch %c : i32, [
    default: ^bb1(%l : !fly.layout<(4,?):(1,4)>),
    1: ^bb1(%k : !fly.layout<(4,?):(1,4)>)
  ]
^bb1(%x: !fly.layout<(4,?):(1,4)>):
  %s = fly.size(%x) : (!fly.layout<(4,?):(1,4)>) -> !fly.int_tuple<?{div=4}>
  %r = fly.get_scalar(%s) : (!fly.int_tuple<?{div=4}>) -> i32
  return %r : i32
}
