// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @coalesce_83(
// CHECK: fly.coalesce{{.*}} -> !fly.layout<30:2>
func.func @coalesce_83(%a: !fly.layout<(3,1,(2,5)):(2,9,(6,12))>) {
  %r = fly.coalesce(%a) : (!fly.layout<(3,1,(2,5)):(2,9,(6,12))>) -> !fly.layout<30:2>
  return
}

// -----

// CHECK-LABEL: func.func @coalesce_84(
// CHECK: fly.coalesce{{.*}} -> !fly.layout<(24,5):(1,30)>
func.func @coalesce_84(%a: !fly.layout<((4,3),(2,5)):((1,4),(12,30))>) {
  %r = fly.coalesce(%a) : (!fly.layout<((4,3),(2,5)):((1,4),(12,30))>) -> !fly.layout<(24,5):(1,30)>
  return
}

// -----

// CHECK-LABEL: func.func @coalesce_85(
// CHECK: fly.coalesce{{.*}} -> !fly.layout<(12,(2,5)):(1,(12,30))>
func.func @coalesce_85(%a: !fly.layout<((4,3),(2,5)):((1,4),(12,30))>, %b: !fly.int_tuple<(1,1)>) {
  %r = fly.coalesce(%a, %b) : (!fly.layout<((4,3),(2,5)):((1,4),(12,30))>, !fly.int_tuple<(1,1)>) -> !fly.layout<(12,(2,5)):(1,(12,30))>
  return
}

// -----

// CHECK-LABEL: func.func @coalesce_86(
// CHECK: fly.coalesce{{.*}} -> !fly.layout<(?,6):(1,?)>
func.func @coalesce_86(%a: !fly.layout<(?,1,6):(1,5,?)>) {
  %r = fly.coalesce(%a) : (!fly.layout<(?,1,6):(1,5,?)>) -> !fly.layout<(?,6):(1,?)>
  return
}

// -----

// CHECK-LABEL: func.func @coalesce_87(
// CHECK: fly.coalesce{{.*}} -> !fly.layout<(6,(4,5),6):(1,(6,24),120)>
func.func @coalesce_87(%a: !fly.layout<((2,3),(4,5),6):((1,2),(6,24),120)>, %b: !fly.int_tuple<(1,(1,1))>) {
  %r = fly.coalesce(%a, %b) : (!fly.layout<((2,3),(4,5),6):((1,2),(6,24),120)>, !fly.int_tuple<(1,(1,1))>) -> !fly.layout<(6,(4,5),6):(1,(6,24),120)>
  return
}

// -----

// CHECK-LABEL: func.func @composition_88(
// CHECK: fly.composition{{.*}} -> !fly.layout<(2,5):(15,1)>
func.func @composition_88(%a: !fly.layout<(6,5):(5,1)>, %b: !fly.layout<10:3>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(6,5):(5,1)>, !fly.layout<10:3>) -> !fly.layout<(2,5):(15,1)>
  return
}

// -----

// CHECK-LABEL: func.func @composition_89(
// CHECK: fly.composition{{.*}} -> !fly.layout<(2,3):(60,10)>
func.func @composition_89(%a: !fly.layout<(4,6,5):(30,5,1)>, %b: !fly.layout<(2,3):(2,8)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(4,6,5):(30,5,1)>, !fly.layout<(2,3):(2,8)>) -> !fly.layout<(2,3):(60,10)>
  return
}

// -----

// CHECK-LABEL: func.func @composition_90(
// CHECK: fly.composition{{.*}} -> !fly.layout<(3,(2,2)):(16,(1,2))>
func.func @composition_90(%a: !fly.layout<(6,8):(8,1)>, %b: !fly.layout<(3,(2,2)):(2,(6,12))>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(6,8):(8,1)>, !fly.layout<(3,(2,2)):(2,(6,12))>) -> !fly.layout<(3,(2,2)):(16,(1,2))>
  return
}

// -----

// CHECK-LABEL: func.func @composition_91(
// CHECK: fly.composition{{.*}} -> !fly.layout<((2,3),(3,5)):((90,15),(5,1))>
func.func @composition_91(%a: !fly.layout<(12,(3,5)):(15,(5,1))>, %b: !fly.tile<[(2,3):(6,1)|*]>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(12,(3,5)):(15,(5,1))>, !fly.tile<[(2,3):(6,1)|*]>) -> !fly.layout<((2,3),(3,5)):((90,15),(5,1))>
  return
}

// -----

// CHECK-LABEL: func.func @composition_92(
// CHECK: fly.composition{{.*}} -> !fly.layout<(5,4):(12,1)>
func.func @composition_92(%a: !fly.layout<(10,12):(12,1)>, %b: !fly.tile<[[5|2]|4]>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(10,12):(12,1)>, !fly.tile<[[5|2]|4]>) -> !fly.layout<(5,4):(12,1)>
  return
}

// -----

// CHECK-LABEL: func.func @composition_93(
// CHECK: fly.composition{{.*}} -> !fly.layout<(4,3):(1E0,2E1)>
func.func @composition_93(%a: !fly.layout<(8,6):(1E0,1E1)>, %b: !fly.layout<(4,3):(1,16)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(8,6):(1E0,1E1)>, !fly.layout<(4,3):(1,16)>) -> !fly.layout<(4,3):(1E0,2E1)>
  return
}

// -----

// CHECK-LABEL: func.func @composition_94(
// CHECK: fly.composition{{.*}} -> !fly.layout<(2,4):(?{i64 div=16},?{i64 div=4})>
func.func @composition_94(%a: !fly.layout<8:?{i64 div=4}>, %b: !fly.layout<(2,4):(4,1)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<8:?{i64 div=4}>, !fly.layout<(2,4):(4,1)>) -> !fly.layout<(2,4):(?{i64 div=16},?{i64 div=4})>
  return
}

// -----

// CHECK-LABEL: func.func @composition_95(
// CHECK: fly.composition{{.*}} -> !fly.layout<(?,?):(16,?)>
func.func @composition_95(%a: !fly.layout<(?,8):(8,1)>, %b: !fly.layout<4:2>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(?,8):(8,1)>, !fly.layout<4:2>) -> !fly.layout<(?,?):(16,?)>
  return
}

// -----

// CHECK-LABEL: func.func @composition_96(
// CHECK: fly.composition{{.*}} -> !fly.layout<24:1>
func.func @composition_96(%a: !fly.layout<(4,1):(1,4)>, %b: !fly.layout<24:1>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(4,1):(1,4)>, !fly.layout<24:1>) -> !fly.layout<24:1>
  return
}

// -----

// CHECK-LABEL: func.func @composition_97(
// CHECK: fly.composition{{.*}} -> !fly.layout<(2,8):(2,?{i64 div=4})>
func.func @composition_97(%a: !fly.layout<(4,?{i64}):(1,?{i64 div=4})>, %b: !fly.layout<(2,8):(2,4)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(4,?{i64}):(1,?{i64 div=4})>, !fly.layout<(2,8):(2,4)>) -> !fly.layout<(2,8):(2,?{i64 div=4})>
  return
}

// -----

// CHECK-LABEL: func.func @composition_98(
// CHECK: fly.composition{{.*}} -> !fly.memref<f16, global, (8,4):(?{i64 div=8},1), align<16>>
func.func @composition_98(%a: !fly.memref<f16, global, (24,?{div=8}):(?{i64 div=8},1), align<16>>, %b: !fly.tile<[8|4]>) {
  %r = fly.composition(%a, %b) : (!fly.memref<f16, global, (24,?{div=8}):(?{i64 div=8},1), align<16>>, !fly.tile<[8|4]>) -> !fly.memref<f16, global, (8,4):(?{i64 div=8},1), align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @complement_99(
// CHECK: fly.complement{{.*}} -> !fly.layout<(3,2,4):(1,6,60)>
func.func @complement_99(%a: !fly.layout<(2,5):(3,12)>, %b: !fly.int_tuple<240>) {
  %r = fly.complement(%a, %b) : (!fly.layout<(2,5):(3,12)>, !fly.int_tuple<240>) -> !fly.layout<(3,2,4):(1,6,60)>
  return
}

// -----

// CHECK-LABEL: func.func @complement_100(
// CHECK: fly.complement{{.*}} -> !fly.layout<(5,3):(1,30)>
func.func @complement_100(%a: !fly.layout<6:5>, %b: !fly.int_tuple<70>) {
  %r = fly.complement(%a, %b) : (!fly.layout<6:5>, !fly.int_tuple<70>) -> !fly.layout<(5,3):(1,30)>
  return
}

// -----

// CHECK-LABEL: func.func @complement_101(
// CHECK: fly.complement{{.*}} -> !fly.layout<(4,3):(1,12)>
func.func @complement_101(%a: !fly.layout<(2,3):(0,4)>, %b: !fly.int_tuple<36>) {
  %r = fly.complement(%a, %b) : (!fly.layout<(2,3):(0,4)>, !fly.int_tuple<36>) -> !fly.layout<(4,3):(1,12)>
  return
}

// -----

// CHECK-LABEL: func.func @complement_102(
// CHECK: fly.complement{{.*}} -> !fly.layout<?:?{div=4}>
func.func @complement_102(%a: !fly.layout<?{div=4}:1>, %b: !fly.int_tuple<?{div=32}>) {
  %r = fly.complement(%a, %b) : (!fly.layout<?{div=4}:1>, !fly.int_tuple<?{div=32}>) -> !fly.layout<?:?{div=4}>
  return
}

// -----

// CHECK-LABEL: func.func @complement_103(
// CHECK: fly.complement{{.*}} -> !fly.layout<(?,?):(1,?{div=7})>
func.func @complement_103(%a: !fly.layout<7:?>, %b: !fly.int_tuple<70>) {
  %r = fly.complement(%a, %b) : (!fly.layout<7:?>, !fly.int_tuple<70>) -> !fly.layout<(?,?):(1,?{div=7})>
  return
}

// -----

// CHECK-LABEL: func.func @complement_104(
// CHECK: fly.complement{{.*}} -> !fly.layout<2:6>
func.func @complement_104(%a: !fly.layout<(4,6):(12,1)>) {
  %r = fly.complement(%a) : (!fly.layout<(4,6):(12,1)>) -> !fly.layout<2:6>
  return
}

// -----

// CHECK-LABEL: func.func @right_inverse_105(
// CHECK: fly.right_inverse{{.*}} -> !fly.layout<(4,6):(6,1)>
func.func @right_inverse_105(%a: !fly.layout<(6,4):(4,1)>) {
  %r = fly.right_inverse(%a) : (!fly.layout<(6,4):(4,1)>) -> !fly.layout<(4,6):(6,1)>
  return
}

// -----

// CHECK-LABEL: func.func @right_inverse_106(
// CHECK: fly.right_inverse{{.*}} -> !fly.layout<(2,4,3):(1,6,2)>
func.func @right_inverse_106(%a: !fly.layout<((2,3),4):((1,8),2)>) {
  %r = fly.right_inverse(%a) : (!fly.layout<((2,3),4):((1,8),2)>) -> !fly.layout<(2,4,3):(1,6,2)>
  return
}

// -----

// CHECK-LABEL: func.func @right_inverse_107(
// CHECK: fly.right_inverse{{.*}} -> !fly.layout<4:?>
func.func @right_inverse_107(%a: !fly.layout<(?,4):(4,1)>) {
  %r = fly.right_inverse(%a) : (!fly.layout<(?,4):(4,1)>) -> !fly.layout<4:?>
  return
}

// -----

// CHECK-LABEL: func.func @left_inverse_108(
// CHECK: fly.left_inverse{{.*}} -> !fly.layout<(2,15):(0,1)>
func.func @left_inverse_108(%a: !fly.layout<(3,5):(2,6)>) {
  %r = fly.left_inverse(%a) : (!fly.layout<(3,5):(2,6)>) -> !fly.layout<(2,15):(0,1)>
  return
}

// -----

// CHECK-LABEL: func.func @left_inverse_109(
// CHECK: fly.left_inverse{{.*}} -> !fly.layout<(4,5,3):(0,3,1)>
func.func @left_inverse_109(%a: !fly.layout<(3,5):(20,4)>) {
  %r = fly.left_inverse(%a) : (!fly.layout<(3,5):(20,4)>) -> !fly.layout<(4,5,3):(0,3,1)>
  return
}
