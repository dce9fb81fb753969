// Layout algebra as integer arithmetic.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering | FileCheck %s

// CHECK-LABEL: func.func @mixed_width(
// CHECK-SAME: %[[I:.*]]: i32, %[[S:.*]]: i64)
// CHECK-DAG: %[[R:.*]] = arith.remsi %[[I]], %c4_i32
// CHECK-DAG: %[[Q:.*]] = arith.divsi %[[I]], %c4_i32
// CHECK-DAG: %[[QX:.*]] = arith.extsi %[[Q]] : i32 to i64
// CHECK-DAG: %[[RX:.*]] = arith.extsi %[[R]] : i32 to i64
// CHECK-DAG: %[[M:.*]] = arith.muli %[[QX]], %[[S]] : i64
// CHECK-DAG: %[[A:.*]] = arith.addi %[[RX]], %[[M]] : i64
// CHECK: %[[B:.*]] = arith.addi %[[A]], %c72_i64 : i64
// CHECK: return %[[B]]
func.func @mixed_width(%i: i32, %s: i64) -> i64 {
  %shape = fly.make_shape() : () -> !fly.int_tuple<((4,6),5)>
  %stride = fly.make_stride(%s) : (i64) -> !fly.int_tuple<((1,?{i64 div=8}),24)>
  %l = fly.make_layout(%shape, %stride) : (!fly.int_tuple<((4,6),5)>, !fly.int_tuple<((1,?{i64 div=8}),24)>) -> !fly.layout<((4,6),5):((1,?{i64 div=8}),24)>
  %c = fly.make_coord(%i) : (i32) -> !fly.int_tuple<(?,3)>
  %x = fly.crd2idx(%c, %l) : (!fly.int_tuple<(?,3)>, !fly.layout<((4,6),5):((1,?{i64 div=8}),24)>) -> !fly.int_tuple<?{i64}>
  %r = fly.get_scalar(%x) : (!fly.int_tuple<?{i64}>) -> i64
  return %r : i64
}

// CHECK-LABEL: func.func @swizzle(
// CHECK-SAME: %[[X:.*]]: i64)
// CHECK: %[[A:.*]] = arith.andi %[[X]], %c96_i64
// CHECK: %[[B:.*]] = arith.shrui %[[A]], %c3_i64
// CHECK: %[[C:.*]] = arith.xori %[[X]], %[[B]]
// CHECK: return %[[C]]
func.func @swizzle(%x: i64) -> i64 {
  %s = fly.static : !fly.swizzle<S<2,2,3>>
  %t = fly.make_int_tuple(%x) : (i64) -> !fly.int_tuple<?{i64}>
  %i = fly.crd2idx(%t, %s) : (!fly.int_tuple<?{i64}>, !fly.swizzle<S<2,2,3>>) -> !fly.int_tuple<?{i64}>
  %r = fly.get_scalar(%i) : (!fly.int_tuple<?{i64}>) -> i64
  return %r : i64
}

// CHECK-LABEL: func.func @coord_swizzle(
// CHECK-SAME: %[[R:.*]]: i32, %[[C:.*]]: i32)
// CHECK: %[[A:.*]] = arith.shrui %[[R]], %c1_i32
// CHECK: %[[B:.*]] = arith.andi %[[A]], %c3_i32
// CHECK: %[[D:.*]] = arith.shli %[[B]], %c2_i32
// CHECK: %[[E:.*]] = arith.xori %[[C]], %[[D]]
// CHECK: return %[[E]]
func.func @coord_swizzle(%a: i32, %b: i32) -> i32 {
  %s = fly.static : !fly.coord_swizzle<CS<2,1,[0],2,[1]>>
  %t = fly.make_int_tuple(%a, %b) : (i32, i32) -> !fly.int_tuple<(?,?)>
  %i = fly.crd2idx(%t, %s) : (!fly.int_tuple<(?,?)>, !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) -> !fly.int_tuple<(?,?)>
  %m = fly.get(%i) {mode = array<i32: 1>} : (!fly.int_tuple<(?,?)>) -> !fly.int_tuple<?>
  %r = fly.get_scalar(%m) : (!fly.int_tuple<?>) -> i32
  return %r : i32
}

// CHECK-LABEL: func.func @ceil_div(
// CHECK-SAME: %[[X:.*]]: i32)
// CHECK-DAG: %[[A:.*]] = arith.ceildivsi %[[X]], %c8_i32
// CHECK-DAG: %[[B:.*]] = arith.ceildivsi %c8_i32, %[[X]]
// CHECK: %[[C:.*]] = arith.ceildivsi %c5_i32, %[[B]]
// CHECK: return %[[A]], %[[C]]
func.func @ceil_div(%x: i32) -> (i32, i32) {
  %a = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,5)>
  %b = fly.make_int_tuple() : () -> !fly.int_tuple<8>
  %d = fly.ceil_div(%a, %b) : (!fly.int_tuple<(?,5)>, !fly.int_tuple<8>) -> !fly.int_tuple<(?,?)>
  %r:2 = fly.get_leaves(%d) : (!fly.int_tuple<(?,?)>) -> (i32, i32)
  return %r#0, %r#1 : i32, i32
}

// CHECK-LABEL: func.func @cosize(
// CHECK-SAME: %[[N:.*]]: i32)
// CHECK: %[[A:.*]] = arith.subi %[[N]], %c1_i32
// CHECK: %[[B:.*]] = arith.muli %[[A]], %c6_i32
// CHECK: %[[C:.*]] = arith.addi %[[B]], %c5_i32
// CHECK: %[[D:.*]] = arith.addi %[[C]], %c1_i32
// CHECK: return %[[D]]
func.func @cosize(%n: i32) -> i32 {
  %s = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<(?,6)>
  %d = fly.make_int_tuple() : () -> !fly.int_tuple<(6,1)>
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(?,6)>, !fly.int_tuple<(6,1)>) -> !fly.layout<(?,6):(6,1)>
  %c = fly.cosize(%l) : (!fly.layout<(?,6):(6,1)>) -> !fly.int_tuple<?>
  %r = fly.get_scalar(%c) : (!fly.int_tuple<?>) -> i32
  return %r : i32
}

// CHECK-LABEL: func.func @divided_shape(
// CHECK-SAME: %[[M:.*]]: i32)
// CHECK-NEXT: %[[C:.*]] = arith.constant 4
// CHECK-NEXT: %[[Q:.*]] = arith.ceildivsi %[[M]], %[[C]]
// CHECK-NEXT: return %[[Q]]
func.func @divided_shape(%m: i32) -> i32 {
  %s = fly.make_int_tuple(%m) : (i32) -> !fly.int_tuple<(?,20)>
  %d = fly.make_int_tuple() : () -> !fly.int_tuple<(20,1)>
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(?,20)>, !fly.int_tuple<(20,1)>) -> !fly.layout<(?,20):(20,1)>
  %t = fly.static : !fly.tile<[4|5]>
  %z = fly.logical_divide(%l, %t) : (!fly.layout<(?,20):(20,1)>, !fly.tile<[4|5]>) -> !fly.layout<((4,?),(5,4)):((20,80),(1,5))>
  %shape = fly.get_shape(%z) : (!fly.layout<((4,?),(5,4)):((20,80),(1,5))>) -> !fly.int_tuple<((4,?),(5,4))>
  %r = fly.get_leaves(%shape) {dynamicOnly = true} : (!fly.int_tuple<((4,?),(5,4))>) -> i32
  return %r : i32
}

// CHECK-LABEL: func.func @compare(
// CHECK-DAG: %[[T:.*]] = arith.constant true
// CHECK-DAG: %[[F:.*]] = arith.constant false
// CHECK: return %[[T]], %[[F]], %[[F]]
func.func @compare(%x: i32) -> (i1, i1, i1) {
  %a = fly.make_int_tuple() : () -> !fly.int_tuple<(1,2)>
  %b = fly.make_int_tuple() : () -> !fly.int_tuple<(3,4)>
  %c = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,2,3)>
  %d = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,4)>
  %e = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,4,9)>
  %p = fly.elem_less(%a, %b) : (!fly.int_tuple<(1,2)>, !fly.int_tuple<(3,4)>) -> i1
  %q = fly.elem_less(%c, %d) : (!fly.int_tuple<(?,2,3)>, !fly.int_tuple<(?,4)>) -> i1
  %r = fly.equal(%d, %e) : (!fly.int_tuple<(?,4)>, !fly.int_tuple<(?,4,9)>) -> i1
  return %p, %q, %r : i1, i1, i1
}
