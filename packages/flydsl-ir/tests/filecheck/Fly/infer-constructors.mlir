// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @make_identity_layout_47(
// CHECK: fly.make_identity_layout{{.*}} -> !fly.layout<(12,(5,?)):(1E0,(1E1E0,1E1E1))>
func.func @make_identity_layout_47(%a: !fly.int_tuple<(12,(5,?))>) {
  %r = fly.make_identity_layout(%a) : (!fly.int_tuple<(12,(5,?))>) -> !fly.layout<(12,(5,?)):(1E0,(1E1E0,1E1E1))>
  return
}

// -----

// CHECK-LABEL: func.func @make_ordered_layout_48(
// CHECK: fly.make_ordered_layout{{.*}} -> !fly.layout<(12,20,5):(100,1,20)>
func.func @make_ordered_layout_48(%a: !fly.int_tuple<(12,20,5)>, %b: !fly.int_tuple<(2,0,1)>) {
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(12,20,5)>, !fly.int_tuple<(2,0,1)>) -> !fly.layout<(12,20,5):(100,1,20)>
  return
}

// -----

// CHECK-LABEL: func.func @make_ordered_layout_49(
// CHECK: fly.make_ordered_layout{{.*}} -> !fly.layout<(?{div=4},20,5):(20,1,?{div=80})>
func.func @make_ordered_layout_49(%a: !fly.int_tuple<(?{div=4},20,5)>, %b: !fly.int_tuple<(1,0,2)>) {
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(?{div=4},20,5)>, !fly.int_tuple<(1,0,2)>) -> !fly.layout<(?{div=4},20,5):(20,1,?{div=80})>
  return
}

// -----

// CHECK-LABEL: func.func @make_ordered_layout_50(
// CHECK: fly.make_ordered_layout{{.*}} -> !fly.layout<((2,3),(4,5)):((60,1),(15,3))>
func.func @make_ordered_layout_50(%a: !fly.int_tuple<((2,3),(4,5))>, %b: !fly.int_tuple<((3,0),(2,1))>) {
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<((2,3),(4,5))>, !fly.int_tuple<((3,0),(2,1))>) -> !fly.layout<((2,3),(4,5)):((60,1),(15,3))>
  return
}

// -----

// CHECK-LABEL: func.func @make_ordered_layout_51(
// CHECK: fly.make_ordered_layout{{.*}} -> !fly.layout<(6,7,8):(7,1,42)>
func.func @make_ordered_layout_51(%a: !fly.int_tuple<(6,7,8)>, %b: !fly.int_tuple<(?,0,?)>) {
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(6,7,8)>, !fly.int_tuple<(?,0,?)>) -> !fly.layout<(6,7,8):(7,1,42)>
  return
}

// -----

// CHECK-LABEL: func.func @make_ordered_layout_52(
// CHECK: fly.make_ordered_layout{{.*}} -> !fly.layout<(6,7,8):(8,8,1)>
func.func @make_ordered_layout_52(%a: !fly.int_tuple<(6,7,8)>, %b: !fly.int_tuple<(1,1,0)>) {
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(6,7,8)>, !fly.int_tuple<(1,1,0)>) -> !fly.layout<(6,7,8):(8,8,1)>
  return
}

// -----

// CHECK-LABEL: func.func @make_layout_like_53(
// CHECK: fly.make_layout_like{{.*}} -> !fly.layout<(6,7,5):(1,5,1)>
func.func @make_layout_like_53(%a: !fly.layout<(6,7,5):(0,5,1)>) {
  %r = fly.make_layout_like(%a) : (!fly.layout<(6,7,5):(0,5,1)>) -> !fly.layout<(6,7,5):(1,5,1)>
  return
}

// -----

// CHECK-LABEL: func.func @make_fragment_layout_like_54(
// CHECK: fly.make_fragment_layout_like{{.*}} -> !fly.layout<((4,2),3,5):((1,4),8,24)>
func.func @make_fragment_layout_like_54(%a: !fly.layout<((4,2),(3,5)):((1,64),(8,24))>) {
  %r = fly.make_fragment_layout_like(%a) : (!fly.layout<((4,2),(3,5)):((1,64),(8,24))>) -> !fly.layout<((4,2),3,5):((1,4),8,24)>
  return
}

// -----

// CHECK-LABEL: func.func @make_fragment_layout_like_55(
// CHECK: fly.make_fragment_layout_like{{.*}} -> !fly.layout<(4,3,5):(1,20,4)>
func.func @make_fragment_layout_like_55(%a: !fly.layout<(4,3,5):(1,?{div=4},8)>) {
  %r = fly.make_fragment_layout_like(%a) : (!fly.layout<(4,3,5):(1,?{div=4},8)>) -> !fly.layout<(4,3,5):(1,20,4)>
  return
}

// -----

// CHECK-LABEL: func.func @make_fragment_like_56(
// CHECK: fly.make_fragment_like{{.*}} -> !fly.memref<i1, register, (4,6):(1,4)>
func.func @make_fragment_like_56(%a: !fly.coord_tensor<(0,0), (4,6):(1E0,1E1)>) {
  %r = fly.make_fragment_like(%a, i1) : (!fly.coord_tensor<(0,0), (4,6):(1E0,1E1)>) -> !fly.memref<i1, register, (4,6):(1,4)>
  return
}

// -----

// CHECK-LABEL: func.func @make_composed_layout_57(
// CHECK: fly.make_composed_layout{{.*}} -> !fly.composed_layout<(4,8):(8,1) o ? o [S<1,2,3> o 0 o 16:1]>
func.func @make_composed_layout_57(%a: !fly.layout<(4,8):(8,1)>, %b: !fly.int_tuple<?>, %c: !fly.composed_layout<S<1,2,3> o 0 o 16:1>) {
  %r = fly.make_composed_layout(%a, %b, %c) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<?>, !fly.composed_layout<S<1,2,3> o 0 o 16:1>) -> !fly.composed_layout<(4,8):(8,1) o ? o [S<1,2,3> o 0 o 16:1]>
  return
}
