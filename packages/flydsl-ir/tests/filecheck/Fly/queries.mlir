// What a value is made of: layouts, composed layouts and views give back their parts, pointers their addresses.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @parts_of_a_layout(
// CHECK-SAME: %[[N:.*]]: i32
// CHECK-DAG: %[[C10:.*]] = arith.constant 10 : i32
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : i32
// CHECK: %[[SIZE:.*]] = arith.muli %[[N]], %[[C2]] : i32
// CHECK: return %[[SIZE]], %[[C10]] : i32, i32
func.func @parts_of_a_layout(%n: i32) -> (i32, i32) {
  %s = fly.make_shape(%n) : (i32) -> !fly.int_tuple<(2,?)>
  %d = fly.make_stride() : () -> !fly.int_tuple<(5,10)>
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(5,10)>) -> !fly.layout<(2,?):(5,10)>
  %i = fly.get_shape(%l) : (!fly.layout<(2,?):(5,10)>) -> !fly.int_tuple<(2,?)>
  %z = fly.size(%i) : (!fly.int_tuple<(2,?)>) -> !fly.int_tuple<?{div=2}>
  %r = fly.get_scalar(%z) : (!fly.int_tuple<?{div=2}>) -> i32
  %st = fly.get_stride(%l) : (!fly.layout<(2,?):(5,10)>) -> !fly.int_tuple<(5,10)>
  %g = fly.get(%st) {mode = array<i32: 1>} : (!fly.int_tuple<(5,10)>) -> !fly.int_tuple<10>
  %q = fly.get_scalar(%g) : (!fly.int_tuple<10>) -> i32
  return %r, %q : i32, i32
}

// CHECK-LABEL: func.func @zipped_product(
// CHECK: %[[C23:.*]] = arith.constant 23 : i32
// CHECK: return %[[C23]] : i32
func.func @zipped_product() -> i32 {
  %l = fly.static : !fly.layout<(2,2):(4,1)>
  %t = fly.static : !fly.layout<(2,3):(1,2)>
  %p = fly.zipped_product(%l, %t) : (!fly.layout<(2,2):(4,1)>, !fly.layout<(2,3):(1,2)>) -> !fly.layout<((2,2),(2,3)):((4,1),(2,8))>
  %c = fly.make_int_tuple() : () -> !fly.int_tuple<((1,1),(1,2))>
  %i = fly.crd2idx(%c, %p) : (!fly.int_tuple<((1,1),(1,2))>, !fly.layout<((2,2),(2,3)):((4,1),(2,8))>) -> !fly.int_tuple<23>
  %r = fly.get_scalar(%i) : (!fly.int_tuple<23>) -> i32
  return %r : i32
}

// The map applies its swizzle to the sum of its offset and the outer index.
// CHECK-LABEL: func.func @parts_of_a_composed_layout(
// CHECK-SAME: %[[O:.*]]: i32, %[[C:.*]]: i32
// CHECK: %[[A:.*]] = arith.andi %[[C]], %{{.*}} : i32
// CHECK: %[[S:.*]] = arith.shrui %[[A]], %{{.*}} : i32
// CHECK: %[[INNER:.*]] = arith.xori %[[C]], %[[S]] : i32
// CHECK: %[[SUM:.*]] = arith.addi %[[O]], %[[OUTER:.*]] : i32
// CHECK: %[[A2:.*]] = arith.andi %[[SUM]], %{{.*}} : i32
// CHECK: %[[S2:.*]] = arith.shrui %[[A2]], %{{.*}} : i32
// CHECK: %[[ALL:.*]] = arith.xori %[[SUM]], %[[S2]] : i32
// CHECK: return %[[INNER]], %[[O]], %[[OUTER]], %[[ALL]] : i32, i32, i32, i32
func.func @parts_of_a_composed_layout(%o: i32, %c: i32) -> (i32, i32, i32, i32) {
  %sw = fly.static : !fly.swizzle<S<2,0,3>>
  %off = fly.make_int_tuple(%o) : (i32) -> !fly.int_tuple<?>
  %l = fly.static : !fly.layout<(8,4):(1,8)>
  %m = fly.make_composed_layout(%sw, %off, %l) : (!fly.swizzle<S<2,0,3>>, !fly.int_tuple<?>, !fly.layout<(8,4):(1,8)>) -> !fly.composed_layout<S<2,0,3> o ? o (8,4):(1,8)>
  %in = fly.composed_get_inner(%m) : (!fly.composed_layout<S<2,0,3> o ? o (8,4):(1,8)>) -> !fly.swizzle<S<2,0,3>>
  %of = fly.composed_get_offset(%m) : (!fly.composed_layout<S<2,0,3> o ? o (8,4):(1,8)>) -> !fly.int_tuple<?>
  %ou = fly.composed_get_outer(%m) : (!fly.composed_layout<S<2,0,3> o ? o (8,4):(1,8)>) -> !fly.layout<(8,4):(1,8)>
  %x = fly.make_coord(%c) : (i32) -> !fly.int_tuple<?>
  %a = fly.crd2idx(%x, %in) : (!fly.int_tuple<?>, !fly.swizzle<S<2,0,3>>) -> !fly.int_tuple<?>
  %b = fly.crd2idx(%x, %ou) : (!fly.int_tuple<?>, !fly.layout<(8,4):(1,8)>) -> !fly.int_tuple<?>
  %d = fly.crd2idx(%x, %m) : (!fly.int_tuple<?>, !fly.composed_layout<S<2,0,3> o ? o (8,4):(1,8)>) -> !fly.int_tuple<?>
  %ra = fly.get_scalar(%a) : (!fly.int_tuple<?>) -> i32
  %rb = fly.get_scalar(%of) : (!fly.int_tuple<?>) -> i32
  %ro = fly.get_scalar(%b) : (!fly.int_tuple<?>) -> i32
  %rd = fly.get_scalar(%d) : (!fly.int_tuple<?>) -> i32
  return %ra, %rb, %ro, %rd : i32, i32, i32, i32
}

// CHECK-LABEL: func.func @parts_of_a_view(
// CHECK-SAME: %[[P:.*]]: i64, %[[Q:.*]]: i32, %{{.*}}: i32
// CHECK-DAG: %[[G:.*]] = fly.inttoptr(%[[P]]) : (i64) -> !fly.ptr<f32, global>
// CHECK-DAG: %[[S:.*]] = fly.inttoptr(%[[Q]]) : (i32) -> !fly.ptr<f32, shared>
// CHECK: %[[AT:.*]] = fly.add_offset(%[[G]], %{{.*}}) : (!fly.ptr<f32, global>, !fly.int_tuple<?{div=2}>)
// CHECK-DAG: %[[X:.*]] = fly.ptr.load(%[[AT]]) : (!fly.ptr<f32, global>) -> f32
// CHECK-DAG: %[[A:.*]] = fly.ptrtoint(%[[AT]]) : (!fly.ptr<f32, global>) -> i64
// CHECK-DAG: %[[B:.*]] = fly.ptrtoint(%[[S]]) : (!fly.ptr<f32, shared>) -> i32
// CHECK: return %[[X]], %[[A]], %[[B]] : f32, i64, i32
func.func @parts_of_a_view(%p: i64, %q: i32, %i: i32) -> (f32, i64, i32) {
  %g = fly.inttoptr(%p) : (i64) -> !fly.ptr<f32, global>
  %s = fly.inttoptr(%q) : (i32) -> !fly.ptr<f32, shared>
  %l = fly.static : !fly.layout<(4,8):(8,1)>
  %v = fly.make_view(%g, %l) : (!fly.ptr<f32, global>, !fly.layout<(4,8):(8,1)>) -> !fly.memref<f32, global, (4,8):(8,1)>
  %it = fly.get_iter(%v) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.ptr<f32, global>
  %la = fly.get_layout(%v) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  %c = fly.make_coord(%i) : (i32) -> !fly.int_tuple<(?,2)>
  %o = fly.crd2idx(%c, %la) : (!fly.int_tuple<(?,2)>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<?{div=2}>
  %pp = fly.add_offset(%it, %o) : (!fly.ptr<f32, global>, !fly.int_tuple<?{div=2}>) -> !fly.ptr<f32, global>
  %x = fly.ptr.load(%pp) : (!fly.ptr<f32, global>) -> f32
  %a = fly.ptrtoint(%pp) : (!fly.ptr<f32, global>) -> i64
  %b = fly.ptrtoint(%s) : (!fly.ptr<f32, shared>) -> i32
  return %x, %a, %b : f32, i64, i32
}
