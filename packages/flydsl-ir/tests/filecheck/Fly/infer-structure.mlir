// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @get_scalar_28(
// CHECK: fly.get_scalar{{.*}} -> i64
func.func @get_scalar_28(%a: !fly.int_tuple<((?{i64}))>) {
  %r = fly.get_scalar(%a) : (!fly.int_tuple<((?{i64}))>) -> i64
  return
}

// -----

// CHECK-LABEL: func.func @get_leaves_29(
// CHECK: fly.get_leaves{{.*}} -> (i32, i32, i64, i32, i32)
func.func @get_leaves_29(%a: !fly.int_tuple<(*,3,?{i64},(?E0,2E1))>) {
  %r:5 = fly.get_leaves(%a) : (!fly.int_tuple<(*,3,?{i64},(?E0,2E1))>) -> (i32, i32, i64, i32, i32)
  return
}

// -----

// CHECK-LABEL: func.func @get_leaves_30(
// CHECK: fly.get_leaves{{.*}} -> (i64, i32)
func.func @get_leaves_30(%a: !fly.int_tuple<(*,3,?{i64},(?E0,2E1))>) {
  %r:2 = fly.get_leaves(%a) {dynamicOnly = true} : (!fly.int_tuple<(*,3,?{i64},(?E0,2E1))>) -> (i64, i32)
  return
}

// -----

// CHECK-LABEL: func.func @get_31(
// CHECK: fly.get{{.*}} -> !fly.memref<f16, global, 8:9, align<16>>
func.func @get_31(%a: !fly.memref<f16, global, (7,(8,9)):(72,(9,1)), align<16>>) {
  %r = fly.get(%a) {mode = array<i32: 1, 0>} : (!fly.memref<f16, global, (7,(8,9)):(72,(9,1)), align<16>>) -> !fly.memref<f16, global, 8:9, align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @take_32(
// CHECK: fly.take{{.*}} -> !fly.int_tuple<(6,7,8)>
func.func @take_32(%a: !fly.int_tuple<(5,6,7,8)>) {
  %r = fly.take(%a) {begin = 1 : i32, end = -1 : i32} : (!fly.int_tuple<(5,6,7,8)>) -> !fly.int_tuple<(6,7,8)>
  return
}

// -----

// CHECK-LABEL: func.func @take_33(
// CHECK: fly.take{{.*}} -> !fly.layout<7:1>
func.func @take_33(%a: !fly.layout<(5,6,7):(42,7,1)>) {
  %r = fly.take(%a) {begin = 2 : i32, end = 3 : i32} : (!fly.layout<(5,6,7):(42,7,1)>) -> !fly.layout<7:1>
  return
}

// -----

// CHECK-LABEL: func.func @select_34(
// CHECK: fly.select{{.*}} -> !fly.layout<(7,5):(1,42)>
func.func @select_34(%a: !fly.layout<(5,6,7):(42,7,1)>) {
  %r = fly.select(%a) {indices = array<i32: 2, 0>} : (!fly.layout<(5,6,7):(42,7,1)>) -> !fly.layout<(7,5):(1,42)>
  return
}

// -----

// CHECK-LABEL: func.func @group_35(
// CHECK: fly.group{{.*}} -> !fly.layout<(5,(6,7)):(42,(7,1))>
func.func @group_35(%a: !fly.layout<(5,6,7):(42,7,1)>) {
  %r = fly.group(%a) {begin = 1 : i32, end = 3 : i32} : (!fly.layout<(5,6,7):(42,7,1)>) -> !fly.layout<(5,(6,7)):(42,(7,1))>
  return
}

// -----

// CHECK-LABEL: func.func @append_36(
// CHECK: fly.append<3>{{.*}} -> !fly.int_tuple<(5,9,9)>
func.func @append_36(%a: !fly.int_tuple<5>, %b: !fly.int_tuple<9>) {
  %r = fly.append<3> (%a, %b) : (!fly.int_tuple<5>, !fly.int_tuple<9>) -> !fly.int_tuple<(5,9,9)>
  return
}

// -----

// CHECK-LABEL: func.func @append_37(
// CHECK: fly.append{{.*}} -> !fly.composed_layout<S<2,2,3> o 0 o (5,6,3):(6,1,30)>
func.func @append_37(%a: !fly.composed_layout<S<2,2,3> o 0 o (5,6):(6,1)>, %b: !fly.layout<3:30>) {
  %r = fly.append (%a, %b) : (!fly.composed_layout<S<2,2,3> o 0 o (5,6):(6,1)>, !fly.layout<3:30>) -> !fly.composed_layout<S<2,2,3> o 0 o (5,6,3):(6,1,30)>
  return
}

// -----

// CHECK-LABEL: func.func @prepend_38(
// CHECK: fly.prepend<3>{{.*}} -> !fly.layout<(1,1,4):(0,0,1)>
func.func @prepend_38(%a: !fly.layout<4:1>, %b: !fly.layout<1:0>) {
  %r = fly.prepend<3> (%a, %b) : (!fly.layout<4:1>, !fly.layout<1:0>) -> !fly.layout<(1,1,4):(0,0,1)>
  return
}

// -----

// CHECK-LABEL: func.func @slice_39(
// CHECK: fly.slice{{.*}} -> !fly.int_tuple<(3,4)>
func.func @slice_39(%a: !fly.int_tuple<(3,(4,5),6)>, %b: !fly.int_tuple<(*,(*,2),0)>) {
  %r = fly.slice(%a, %b) : (!fly.int_tuple<(3,(4,5),6)>, !fly.int_tuple<(*,(*,2),0)>) -> !fly.int_tuple<(3,4)>
  return
}

// -----

// CHECK-LABEL: func.func @slice_40(
// CHECK: fly.slice{{.*}} -> !fly.layout<(3,5):(1,3)>
func.func @slice_40(%a: !fly.layout<((3,4),5):((1,15),3)>, %b: !fly.int_tuple<((*,2),*)>) {
  %r = fly.slice(%a, %b) : (!fly.layout<((3,4),5):((1,15),3)>, !fly.int_tuple<((*,2),*)>) -> !fly.layout<(3,5):(1,3)>
  return
}

// -----

// CHECK-LABEL: func.func @slice_41(
// CHECK: fly.slice{{.*}} -> !fly.memref<f16, global, 11:1, align<8>>
func.func @slice_41(%a: !fly.memref<f16, global, (9,11):(11,1), align<16>>, %b: !fly.int_tuple<(?{div=4},*)>) {
  %r = fly.slice(%a, %b) : (!fly.memref<f16, global, (9,11):(11,1), align<16>>, !fly.int_tuple<(?{div=4},*)>) -> !fly.memref<f16, global, 11:1, align<8>>
  return
}

// -----

// CHECK-LABEL: func.func @slice_42(
// CHECK: fly.slice{{.*}} -> !fly.memref<f32, global, 16:1, align<64>>
func.func @slice_42(%a: !fly.memref<f32, global, (9,16):(16,1), align<64>>, %b: !fly.int_tuple<(3,*)>) {
  %r = fly.slice(%a, %b) : (!fly.memref<f32, global, (9,16):(16,1), align<64>>, !fly.int_tuple<(3,*)>) -> !fly.memref<f32, global, 16:1, align<64>>
  return
}

// -----

// CHECK-LABEL: func.func @slice_43(
// CHECK: fly.slice{{.*}} -> !fly.composed_layout<S<3,2,3> o 64 o 32:1>
func.func @slice_43(%a: !fly.composed_layout<S<3,2,3> o 0 o (9,32):(32,1)>, %b: !fly.int_tuple<(2,*)>) {
  %r = fly.slice(%a, %b) : (!fly.composed_layout<S<3,2,3> o 0 o (9,32):(32,1)>, !fly.int_tuple<(2,*)>) -> !fly.composed_layout<S<3,2,3> o 64 o 32:1>
  return
}

// -----

// CHECK-LABEL: func.func @slice_44(
// CHECK: fly.slice{{.*}} -> !fly.memref<f16, shared, S<3,2,3> o ?{div=32} o 32:1, align<16>>
func.func @slice_44(%a: !fly.memref<f16, shared, S<3,2,3> o 0 o (9,32):(32,1), align<16>>, %b: !fly.int_tuple<(?,*)>) {
  %r = fly.slice(%a, %b) : (!fly.memref<f16, shared, S<3,2,3> o 0 o (9,32):(32,1), align<16>>, !fly.int_tuple<(?,*)>) -> !fly.memref<f16, shared, S<3,2,3> o ?{div=32} o 32:1, align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @slice_45(
// CHECK: fly.slice{{.*}} -> !fly.coord_tensor<(6,2), 8:1E1>
func.func @slice_45(%a: !fly.coord_tensor<(1,2), ((2,3),8):((1E0,2E0),1E1)>, %b: !fly.int_tuple<(5,*)>) {
  %r = fly.slice(%a, %b) : (!fly.coord_tensor<(1,2), ((2,3),8):((1E0,2E0),1E1)>, !fly.int_tuple<(5,*)>) -> !fly.coord_tensor<(6,2), 8:1E1>
  return
}

// -----

// CHECK-LABEL: func.func @dice_46(
// CHECK: fly.dice{{.*}} -> !fly.layout<(4,6):(3,60)>
func.func @dice_46(%a: !fly.layout<(3,(4,5),6):(1,(3,12),60)>, %b: !fly.int_tuple<(*,(0,*),0)>) {
  %r = fly.dice(%a, %b) : (!fly.layout<(3,(4,5),6):(1,(3,12),60)>, !fly.int_tuple<(*,(0,*),0)>) -> !fly.layout<(4,6):(3,60)>
  return
}
