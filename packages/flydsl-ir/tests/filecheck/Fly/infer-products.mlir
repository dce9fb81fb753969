// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @logical_product_125(
// CHECK: fly.logical_product{{.*}} -> !fly.layout<(3,(2,5)):(1,(15,3))>
func.func @logical_product_125(%a: !fly.layout<3:1>, %b: !fly.layout<(2,5):(5,1)>) {
  %r = fly.logical_product(%a, %b) : (!fly.layout<3:1>, !fly.layout<(2,5):(5,1)>) -> !fly.layout<(3,(2,5)):(1,(15,3))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_product_126(
// CHECK: fly.logical_product{{.*}} -> !fly.layout<((3,2),6):((4,1),12)>
func.func @logical_product_126(%a: !fly.layout<(3,2):(4,1)>, %b: !fly.layout<6:2>) {
  %r = fly.logical_product(%a, %b) : (!fly.layout<(3,2):(4,1)>, !fly.layout<6:2>) -> !fly.layout<((3,2),6):((4,1),12)>
  return
}

// -----

// CHECK-LABEL: func.func @logical_product_127(
// CHECK: fly.logical_product{{.*}} -> !fly.layout<((4,2),?{div=2}):((1,4),8)>
func.func @logical_product_127(%a: !fly.layout<(4,2):(1,4)>, %b: !fly.layout<?{div=2}:1>) {
  %r = fly.logical_product(%a, %b) : (!fly.layout<(4,2):(1,4)>, !fly.layout<?{div=2}:1>) -> !fly.layout<((4,2),?{div=2}):((1,4),8)>
  return
}

// -----

// CHECK-LABEL: func.func @logical_product_128(
// CHECK: fly.logical_product{{.*}} -> !fly.layout<((2,1),(1,3)):((1,0),(0,2))>
func.func @logical_product_128(%a: !fly.layout<(2,1):(1,7)>, %b: !fly.layout<(1,3):(5,1)>) {
  %r = fly.logical_product(%a, %b) : (!fly.layout<(2,1):(1,7)>, !fly.layout<(1,3):(5,1)>) -> !fly.layout<((2,1),(1,3)):((1,0),(0,2))>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_product_129(
// CHECK: fly.tiled_product{{.*}} -> !fly.layout<((3,2),4,5):((2,1),6,24)>
func.func @tiled_product_129(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.layout<(4,5):(1,4)>) {
  %r = fly.tiled_product(%a, %b) : (!fly.layout<(3,2):(2,1)>, !fly.layout<(4,5):(1,4)>) -> !fly.layout<((3,2),4,5):((2,1),6,24)>
  return
}

// -----

// CHECK-LABEL: func.func @flat_product_130(
// CHECK: fly.flat_product{{.*}} -> !fly.layout<(3,2,4,5):(2,1,6,24)>
func.func @flat_product_130(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.layout<(4,5):(1,4)>) {
  %r = fly.flat_product(%a, %b) : (!fly.layout<(3,2):(2,1)>, !fly.layout<(4,5):(1,4)>) -> !fly.layout<(3,2,4,5):(2,1,6,24)>
  return
}

// -----

// CHECK-LABEL: func.func @blocked_product_131(
// CHECK: fly.blocked_product{{.*}} -> !fly.layout<((3,4),(2,5)):((2,6),(1,24))>
func.func @blocked_product_131(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.layout<(4,5):(1,4)>) {
  %r = fly.blocked_product(%a, %b) : (!fly.layout<(3,2):(2,1)>, !fly.layout<(4,5):(1,4)>) -> !fly.layout<((3,4),(2,5)):((2,6),(1,24))>
  return
}

// -----

// CHECK-LABEL: func.func @raked_product_132(
// CHECK: fly.raked_product{{.*}} -> !fly.layout<((4,3),(5,2)):((6,2),(24,1))>
func.func @raked_product_132(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.layout<(4,5):(1,4)>) {
  %r = fly.raked_product(%a, %b) : (!fly.layout<(3,2):(2,1)>, !fly.layout<(4,5):(1,4)>) -> !fly.layout<((4,3),(5,2)):((6,2),(24,1))>
  return
}

// -----

// CHECK-LABEL: func.func @blocked_product_133(
// CHECK: fly.blocked_product{{.*}} -> !fly.layout<((3,4),(1,5)):((1,15),(0,3))>
func.func @blocked_product_133(%a: !fly.layout<3:1>, %b: !fly.layout<(4,5):(5,1)>) {
  %r = fly.blocked_product(%a, %b) : (!fly.layout<3:1>, !fly.layout<(4,5):(5,1)>) -> !fly.layout<((3,4),(1,5)):((1,15),(0,3))>
  return
}

// -----

// CHECK-LABEL: func.func @raked_product_134(
// CHECK: fly.raked_product{{.*}} -> !fly.layout<((5,6),(1,2)):((12,2),(0,1))>
func.func @raked_product_134(%a: !fly.layout<(6,2):(2,1)>, %b: !fly.layout<5:1>) {
  %r = fly.raked_product(%a, %b) : (!fly.layout<(6,2):(2,1)>, !fly.layout<5:1>) -> !fly.layout<((5,6),(1,2)):((12,2),(0,1))>
  return
}

// -----

// CHECK-LABEL: func.func @tile_to_shape_135(
// CHECK: fly.tile_to_shape{{.*}} -> !fly.layout<((3,4),(2,5),(1,4)):((2,120),(1,6),(0,30))>
func.func @tile_to_shape_135(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.int_tuple<(12,10,4)>, %c: !fly.int_tuple<(2,0,1)>) {
  %r = fly.tile_to_shape(%a, %b, %c) : (!fly.layout<(3,2):(2,1)>, !fly.int_tuple<(12,10,4)>, !fly.int_tuple<(2,0,1)>) -> !fly.layout<((3,4),(2,5),(1,4)):((2,120),(1,6),(0,30))>
  return
}

// -----

// CHECK-LABEL: func.func @tile_to_shape_136(
// CHECK: fly.tile_to_shape{{.*}} -> !fly.layout<((3,?),(2,5)):((2,6),(1,?{div=6}))>
func.func @tile_to_shape_136(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.int_tuple<(?,10)>, %c: !fly.int_tuple<(0,1)>) {
  %r = fly.tile_to_shape(%a, %b, %c) : (!fly.layout<(3,2):(2,1)>, !fly.int_tuple<(?,10)>, !fly.int_tuple<(0,1)>) -> !fly.layout<((3,?),(2,5)):((2,6),(1,?{div=6}))>
  return
}

// -----

// CHECK-LABEL: func.func @recast_layout_137(
// CHECK: fly.recast_layout{{.*}} -> !fly.layout<(6,4):(4,1)>
func.func @recast_layout_137(%a: !fly.layout<(6,8):(8,1)>) {
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 16 : i32} : (!fly.layout<(6,8):(8,1)>) -> !fly.layout<(6,4):(4,1)>
  return
}

// -----

// CHECK-LABEL: func.func @recast_layout_138(
// CHECK: fly.recast_layout{{.*}} -> !fly.layout<(1,6):(1,?)>
func.func @recast_layout_138(%a: !fly.layout<(4,6):(1,?{div=8})>) {
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 8 : i32} : (!fly.layout<(4,6):(1,?{div=8})>) -> !fly.layout<(1,6):(1,?)>
  return
}

// -----

// CHECK-LABEL: func.func @recast_layout_139(
// CHECK: fly.recast_layout{{.*}} -> !fly.layout<(6,16):(16,1)>
func.func @recast_layout_139(%a: !fly.layout<(6,24):(24,1)>) {
  %r = fly.recast_layout(%a) {new_type_bits = 24 : i32, old_type_bits = 16 : i32} : (!fly.layout<(6,24):(24,1)>) -> !fly.layout<(6,16):(16,1)>
  return
}

// -----

// CHECK-LABEL: func.func @recast_layout_140(
// CHECK: fly.recast_layout{{.*}} -> !fly.composed_layout<S<3,4,3> o 32 o (8,96):(96,1)>
func.func @recast_layout_140(%a: !fly.composed_layout<S<3,3,3> o 16 o (8,48):(48,1)>) {
  %r = fly.recast_layout(%a) {new_type_bits = 8 : i32, old_type_bits = 16 : i32} : (!fly.composed_layout<S<3,3,3> o 16 o (8,48):(48,1)>) -> !fly.composed_layout<S<3,4,3> o 32 o (8,96):(96,1)>
  return
}
