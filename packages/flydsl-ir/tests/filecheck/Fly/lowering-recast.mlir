// A recast scales the dynamic offset of a composed layout as it scales its type.
// RUN: fly-opt %s --fly-canonicalize --fly-layout-lowering | FileCheck %s

// CHECK-LABEL: func.func @recast
// CHECK-SAME: (%[[N:.*]]: i32)
// CHECK: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK: %[[DOWN:.*]] = arith.muli %[[N]], %[[TWO]]
// CHECK: %[[UP:.*]] = arith.divsi %[[N]], %[[TWO]]
// CHECK: return %[[DOWN]], %[[UP]]
func.func @recast(%n: i32) -> (i32, i32) {
  %sw = fly.static : !fly.swizzle<S<3,3,3>>
  %o = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<?{div=16}>
  %l = fly.static : !fly.layout<(8,48):(48,1)>
  %c = fly.make_composed_layout(%sw, %o, %l) : (!fly.swizzle<S<3,3,3>>, !fly.int_tuple<?{div=16}>, !fly.layout<(8,48):(48,1)>) -> !fly.composed_layout<S<3,3,3> o ?{div=16} o (8,48):(48,1)>
  %r = fly.recast_layout(%c) {new_type_bits = 8 : i32, old_type_bits = 16 : i32} : (!fly.composed_layout<S<3,3,3> o ?{div=16} o (8,48):(48,1)>) -> !fly.composed_layout<S<3,4,3> o ?{div=32} o (8,96):(96,1)>
  %ro = fly.composed_get_offset(%r) : (!fly.composed_layout<S<3,4,3> o ?{div=32} o (8,96):(96,1)>) -> !fly.int_tuple<?{div=32}>
  %x = fly.get_scalar(%ro) : (!fly.int_tuple<?{div=32}>) -> i32
  %u = fly.recast_layout(%c) {new_type_bits = 32 : i32, old_type_bits = 16 : i32} : (!fly.composed_layout<S<3,3,3> o ?{div=16} o (8,48):(48,1)>) -> !fly.composed_layout<S<3,2,3> o ? o (8,24):(24,1)>
  %uo = fly.composed_get_offset(%u) : (!fly.composed_layout<S<3,2,3> o ? o (8,24):(24,1)>) -> !fly.int_tuple<?>
  %y = fly.get_scalar(%uo) : (!fly.int_tuple<?>) -> i32
  return %x, %y : i32, i32
}
