// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @logical_divide_110(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<((2,3),(2,2)):((6,1),(3,12))>
func.func @logical_divide_110(%a: !fly.layout<24:1>, %b: !fly.layout<(2,3):(6,1)>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<24:1>, !fly.layout<(2,3):(6,1)>) -> !fly.layout<((2,3),(2,2)):((6,1),(3,12))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_111(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<(3,(3,10)):(30,(10,1))>
func.func @logical_divide_111(%a: !fly.layout<(9,10):(10,1)>, %b: !fly.layout<3:3>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(9,10):(10,1)>, !fly.layout<3:3>) -> !fly.layout<(3,(3,10)):(30,(10,1))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_112(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<((3,4),((5,2),3)):((30,90),((1,15),5))>
func.func @logical_divide_112(%a: !fly.layout<(12,30):(30,1)>, %b: !fly.tile<[3|(5,2):(1,15)]>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(12,30):(30,1)>, !fly.tile<[3|(5,2):(1,15)]>) -> !fly.layout<((3,4),((5,2),3)):((30,90),((1,15),5))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_113(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<((3,4),(4,?)):((?,?{div=3}),(1,4))>
func.func @logical_divide_113(%a: !fly.layout<(10,?):(?,1)>, %b: !fly.tile<[3|4]>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(10,?):(?,1)>, !fly.tile<[3|4]>) -> !fly.layout<((3,4),(4,?)):((?,?{div=3}),(1,4))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_114(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<((4,?),(5,4)):((20,80),(1,5))>
func.func @logical_divide_114(%a: !fly.layout<(?{div=8},20):(20,1)>, %b: !fly.tile<[4|5]>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(?{div=8},20):(20,1)>, !fly.tile<[4|5]>) -> !fly.layout<((4,?),(5,4)):((20,80),(1,5))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_115(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<(4,2):(3,12)>
func.func @logical_divide_115(%a: !fly.layout<7:3>, %b: !fly.layout<4:1>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<7:3>, !fly.layout<4:1>) -> !fly.layout<(4,2):(3,12)>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_116(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<(4,(?,?)):(?,(1,?{div=4}))>
func.func @logical_divide_116(%a: !fly.layout<24:1>, %b: !fly.layout<4:?>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<24:1>, !fly.layout<4:?>) -> !fly.layout<(4,(?,?)):(?,(1,?{div=4}))>
  return
}

// -----

// CHECK-LABEL: func.func @logical_divide_117(
// CHECK: fly.logical_divide{{.*}} -> !fly.layout<((4,2),?):((1,4),8)>
func.func @logical_divide_117(%a: !fly.layout<(4,?):(1,4)>, %b: !fly.layout<8:1>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(4,?):(1,4)>, !fly.layout<8:1>) -> !fly.layout<((4,2),?):((1,4),8)>
  return
}

// -----

// CHECK-LABEL: func.func @zipped_divide_118(
// CHECK: fly.zipped_divide{{.*}} -> !fly.layout<((3,5),(4,6,4)):((120,4),(360,20,1))>
func.func @zipped_divide_118(%a: !fly.layout<(12,30,4):(120,4,1)>, %b: !fly.tile<[3|5]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(12,30,4):(120,4,1)>, !fly.tile<[3|5]>) -> !fly.layout<((3,5),(4,6,4)):((120,4),(360,20,1))>
  return
}

// -----

// CHECK-LABEL: func.func @zipped_divide_119(
// CHECK: fly.zipped_divide{{.*}} -> !fly.layout<((3,2),(3,2)):((1,9),(3,18))>
func.func @zipped_divide_119(%a: !fly.layout<36:1>, %b: !fly.layout<(3,2):(1,9)>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<36:1>, !fly.layout<(3,2):(1,9)>) -> !fly.layout<((3,2),(3,2)):((1,9),(3,18))>
  return
}

// -----

// CHECK-LABEL: func.func @zipped_divide_120(
// CHECK: fly.zipped_divide{{.*}} -> !fly.memref<f32, global, ((16,8),(?,?)):((?{i64 div=4},1),(?{i64 div=64},8)), align<16>>
func.func @zipped_divide_120(%a: !fly.memref<f32, global, (?,?{div=4}):(?{i64 div=4},1), align<16>>, %b: !fly.tile<[16|8]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.memref<f32, global, (?,?{div=4}):(?{i64 div=4},1), align<16>>, !fly.tile<[16|8]>) -> !fly.memref<f32, global, ((16,8),(?,?)):((?{i64 div=4},1),(?{i64 div=64},8)), align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @zipped_divide_121(
// CHECK: fly.zipped_divide{{.*}} -> !fly.coord_tensor<(0,0), ((16,8),(?,7)):((1E0,1E1),(16E0,8E1))>
func.func @zipped_divide_121(%a: !fly.coord_tensor<(0,0), (?,50):(1E0,1E1)>, %b: !fly.tile<[16|8]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.coord_tensor<(0,0), (?,50):(1E0,1E1)>, !fly.tile<[16|8]>) -> !fly.coord_tensor<(0,0), ((16,8),(?,7)):((1E0,1E1),(16E0,8E1))>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_divide_122(
// CHECK: fly.tiled_divide{{.*}} -> !fly.layout<((3,5),4,6,4):((120,4),360,20,1)>
func.func @tiled_divide_122(%a: !fly.layout<(12,30,4):(120,4,1)>, %b: !fly.tile<[3|5]>) {
  %r = fly.tiled_divide(%a, %b) : (!fly.layout<(12,30,4):(120,4,1)>, !fly.tile<[3|5]>) -> !fly.layout<((3,5),4,6,4):((120,4),360,20,1)>
  return
}

// -----

// CHECK-LABEL: func.func @flat_divide_123(
// CHECK: fly.flat_divide{{.*}} -> !fly.layout<(3,2,3,2):(1,9,3,18)>
func.func @flat_divide_123(%a: !fly.layout<36:1>, %b: !fly.layout<(3,2):(1,9)>) {
  %r = fly.flat_divide(%a, %b) : (!fly.layout<36:1>, !fly.layout<(3,2):(1,9)>) -> !fly.layout<(3,2,3,2):(1,9,3,18)>
  return
}

// -----

// CHECK-LABEL: func.func @flat_divide_124(
// CHECK: fly.flat_divide{{.*}} -> !fly.memref<f16, shared, S<3,3,3> o 0 o (8,16,3,4):(64,1,512,16), align<128>>
func.func @flat_divide_124(%a: !fly.memref<f16, shared, S<3,3,3> o 0 o (24,64):(64,1), align<128>>, %b: !fly.tile<[8|16]>) {
  %r = fly.flat_divide(%a, %b) : (!fly.memref<f16, shared, S<3,3,3> o 0 o (24,64):(64,1), align<128>>, !fly.tile<[8|16]>) -> !fly.memref<f16, shared, S<3,3,3> o 0 o (8,16,3,4):(64,1,512,16), align<128>>
  return
}
