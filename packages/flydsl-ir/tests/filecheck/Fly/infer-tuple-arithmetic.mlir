// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @int_tuple_add_1(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<(4,?{div=6})>
func.func @int_tuple_add_1(%a: !fly.int_tuple<(6,?{div=12})>, %b: !fly.int_tuple<(-2,18)>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<(6,?{div=12})>, !fly.int_tuple<(-2,18)>) -> !fly.int_tuple<(4,?{div=6})>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_2(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<?{i64 div=2}>
func.func @int_tuple_add_2(%a: !fly.int_tuple<?{i64 div=6}>, %b: !fly.int_tuple<?{div=10}>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<?{i64 div=6}>, !fly.int_tuple<?{div=10}>) -> !fly.int_tuple<?{i64 div=2}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_3(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<(4,6,9)>
func.func @int_tuple_add_3(%a: !fly.int_tuple<(3,4)>, %b: !fly.int_tuple<(1,2,9)>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<(3,4)>, !fly.int_tuple<(1,2,9)>) -> !fly.int_tuple<(4,6,9)>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_4(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<(7,7)>
func.func @int_tuple_add_4(%a: !fly.int_tuple<5E1>, %b: !fly.int_tuple<(7,2)>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<5E1>, !fly.int_tuple<(7,2)>) -> !fly.int_tuple<(7,7)>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_5(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<(3,?{div=4})>
func.func @int_tuple_add_5(%a: !fly.int_tuple<3E0>, %b: !fly.int_tuple<?{div=4}E1>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<3E0>, !fly.int_tuple<?{div=4}E1>) -> !fly.int_tuple<(3,?{div=4})>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_6(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<(1,(6,3))>
func.func @int_tuple_add_6(%a: !fly.int_tuple<(1,(2,3))>, %b: !fly.int_tuple<4E1E0>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<(1,(2,3))>, !fly.int_tuple<4E1E0>) -> !fly.int_tuple<(1,(6,3))>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_7(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<(0,(4,0,2))>
func.func @int_tuple_add_7(%a: !fly.int_tuple<2E1E2>, %b: !fly.int_tuple<4E1E0>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<2E1E2>, !fly.int_tuple<4E1E0>) -> !fly.int_tuple<(0,(4,0,2))>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_add_8(
// CHECK: fly.int_tuple_add{{.*}} -> !fly.int_tuple<?{div=4}>
func.func @int_tuple_add_8(%a: !fly.int_tuple<*>, %b: !fly.int_tuple<?{div=4}>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<*>, !fly.int_tuple<?{div=4}>) -> !fly.int_tuple<?{div=4}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_sub_9(
// CHECK: fly.int_tuple_sub{{.*}} -> !fly.int_tuple<?{div=4}>
func.func @int_tuple_sub_9(%a: !fly.int_tuple<?{div=12}>, %b: !fly.int_tuple<8>) {
  %r = fly.int_tuple_sub(%a, %b) : (!fly.int_tuple<?{div=12}>, !fly.int_tuple<8>) -> !fly.int_tuple<?{div=4}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_sub_10(
// CHECK: fly.int_tuple_sub{{.*}} -> !fly.int_tuple<?{div=10}>
func.func @int_tuple_sub_10(%a: !fly.int_tuple<0>, %b: !fly.int_tuple<?{div=10}>) {
  %r = fly.int_tuple_sub(%a, %b) : (!fly.int_tuple<0>, !fly.int_tuple<?{div=10}>) -> !fly.int_tuple<?{div=10}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_mul_11(
// CHECK: fly.int_tuple_mul{{.*}} -> !fly.int_tuple<?{i64 div=30}>
func.func @int_tuple_mul_11(%a: !fly.int_tuple<?{i64 div=6}>, %b: !fly.int_tuple<?{div=5}>) {
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<?{i64 div=6}>, !fly.int_tuple<?{div=5}>) -> !fly.int_tuple<?{i64 div=30}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_mul_12(
// CHECK: fly.int_tuple_mul{{.*}} -> !fly.int_tuple<(0,21)>
func.func @int_tuple_mul_12(%a: !fly.int_tuple<(0,7)>, %b: !fly.int_tuple<(?,3)>) {
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<(0,7)>, !fly.int_tuple<(?,3)>) -> !fly.int_tuple<(0,21)>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_mul_13(
// CHECK: fly.int_tuple_mul{{.*}} -> !fly.int_tuple<?{div=6}E1>
func.func @int_tuple_mul_13(%a: !fly.int_tuple<2E1>, %b: !fly.int_tuple<?{div=3}>) {
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<2E1>, !fly.int_tuple<?{div=3}>) -> !fly.int_tuple<?{div=6}E1>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_mul_14(
// CHECK: fly.int_tuple_mul{{.*}} -> !fly.int_tuple<?{div=-12}>
func.func @int_tuple_mul_14(%a: !fly.int_tuple<?{div=6}>, %b: !fly.int_tuple<-2>) {
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<?{div=6}>, !fly.int_tuple<-2>) -> !fly.int_tuple<?{div=-12}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_div_15(
// CHECK: fly.int_tuple_div{{.*}} -> !fly.int_tuple<?>
func.func @int_tuple_div_15(%a: !fly.int_tuple<?{div=64}>, %b: !fly.int_tuple<16>) {
  %r = fly.int_tuple_div(%a, %b) : (!fly.int_tuple<?{div=64}>, !fly.int_tuple<16>) -> !fly.int_tuple<?>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_div_16(
// CHECK: fly.int_tuple_div{{.*}} -> !fly.int_tuple<-3>
func.func @int_tuple_div_16(%a: !fly.int_tuple<-7>, %b: !fly.int_tuple<2>) {
  %r = fly.int_tuple_div(%a, %b) : (!fly.int_tuple<-7>, !fly.int_tuple<2>) -> !fly.int_tuple<-3>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_mod_17(
// CHECK: fly.int_tuple_mod{{.*}} -> !fly.int_tuple<?{div=4}>
func.func @int_tuple_mod_17(%a: !fly.int_tuple<?{div=48}>, %b: !fly.int_tuple<20>) {
  %r = fly.int_tuple_mod(%a, %b) : (!fly.int_tuple<?{div=48}>, !fly.int_tuple<20>) -> !fly.int_tuple<?{div=4}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_mod_18(
// CHECK: fly.int_tuple_mod{{.*}} -> !fly.int_tuple<(0,2)>
func.func @int_tuple_mod_18(%a: !fly.int_tuple<(?,17)>, %b: !fly.int_tuple<(1,5)>) {
  %r = fly.int_tuple_mod(%a, %b) : (!fly.int_tuple<(?,17)>, !fly.int_tuple<(1,5)>) -> !fly.int_tuple<(0,2)>
  return
}

// -----

// CHECK-LABEL: func.func @shape_div_19(
// CHECK: fly.shape_div{{.*}} -> !fly.int_tuple<(1,5,4)>
func.func @shape_div_19(%a: !fly.int_tuple<(6,10,4)>, %b: !fly.int_tuple<12>) {
  %r = fly.shape_div(%a, %b) : (!fly.int_tuple<(6,10,4)>, !fly.int_tuple<12>) -> !fly.int_tuple<(1,5,4)>
  return
}

// -----

// CHECK-LABEL: func.func @shape_div_20(
// CHECK: fly.shape_div{{.*}} -> !fly.int_tuple<4>
func.func @shape_div_20(%a: !fly.int_tuple<24>, %b: !fly.int_tuple<(2,3)>) {
  %r = fly.shape_div(%a, %b) : (!fly.int_tuple<24>, !fly.int_tuple<(2,3)>) -> !fly.int_tuple<4>
  return
}

// -----

// CHECK-LABEL: func.func @shape_div_21(
// CHECK: fly.shape_div{{.*}} -> !fly.int_tuple<(3,(4,3))>
func.func @shape_div_21(%a: !fly.int_tuple<(12,(8,9))>, %b: !fly.int_tuple<(4,(2,3))>) {
  %r = fly.shape_div(%a, %b) : (!fly.int_tuple<(12,(8,9))>, !fly.int_tuple<(4,(2,3))>) -> !fly.int_tuple<(3,(4,3))>
  return
}

// -----

// Rounded up for either sign, as arith.ceildivsi does at run time.
// CHECK-LABEL: func.func @ceil_div_negative(
// CHECK: fly.ceil_div{{.*}} -> !fly.int_tuple<(-1,-3)>
func.func @ceil_div_negative(%a: !fly.int_tuple<(-5,7)>, %b: !fly.int_tuple<(4,-2)>) {
  %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<(-5,7)>, !fly.int_tuple<(4,-2)>) -> !fly.int_tuple<(-1,-3)>
  return
}

// -----

// CHECK-LABEL: func.func @ceil_div_22(
// CHECK: fly.ceil_div{{.*}} -> !fly.int_tuple<(2,7,9)>
func.func @ceil_div_22(%a: !fly.int_tuple<(5,7,9)>, %b: !fly.int_tuple<4>) {
  %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<(5,7,9)>, !fly.int_tuple<4>) -> !fly.int_tuple<(2,7,9)>
  return
}

// -----

// CHECK-LABEL: func.func @ceil_div_23(
// CHECK: fly.ceil_div{{.*}} -> !fly.int_tuple<5>
func.func @ceil_div_23(%a: !fly.int_tuple<50>, %b: !fly.int_tuple<(3,4)>) {
  %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<50>, !fly.int_tuple<(3,4)>) -> !fly.int_tuple<5>
  return
}

// -----

// CHECK-LABEL: func.func @ceil_div_24(
// CHECK: fly.ceil_div{{.*}} -> !fly.int_tuple<(1,?)>
func.func @ceil_div_24(%a: !fly.int_tuple<(1,?)>, %b: !fly.int_tuple<(?,6)>) {
  %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<(1,?)>, !fly.int_tuple<(?,6)>) -> !fly.int_tuple<(1,?)>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_product_25(
// CHECK: fly.int_tuple_product{{.*}} -> !fly.int_tuple<?{div=60}>
func.func @int_tuple_product_25(%a: !fly.int_tuple<(3,(?{div=4},5))>) {
  %r = fly.int_tuple_product(%a) : (!fly.int_tuple<(3,(?{div=4},5))>) -> !fly.int_tuple<?{div=60}>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_product_each_26(
// CHECK: fly.int_tuple_product_each{{.*}} -> !fly.int_tuple<(?{div=6},20,6)>
func.func @int_tuple_product_each_26(%a: !fly.int_tuple<((3,?{div=2}),(4,5),6)>) {
  %r = fly.int_tuple_product_each(%a) : (!fly.int_tuple<((3,?{div=2}),(4,5),6)>) -> !fly.int_tuple<(?{div=6},20,6)>
  return
}

// -----

// CHECK-LABEL: func.func @int_tuple_product_like_27(
// CHECK: fly.int_tuple_product_like{{.*}} -> !fly.int_tuple<(?{div=6},(4,5))>
func.func @int_tuple_product_like_27(%a: !fly.int_tuple<((2,?{div=3}),(4,5))>, %b: !fly.int_tuple<(1,(1,1))>) {
  %r = fly.int_tuple_product_like(%a, %b) : (!fly.int_tuple<((2,?{div=3}),(4,5))>, !fly.int_tuple<(1,(1,1))>) -> !fly.int_tuple<(?{div=6},(4,5))>
  return
}
