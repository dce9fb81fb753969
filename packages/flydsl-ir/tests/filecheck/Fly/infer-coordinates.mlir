// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @crd2idx_58(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<28>
func.func @crd2idx_58(%a: !fly.int_tuple<23>, %b: !fly.layout<(5,(2,4)):(8,(1,2))>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<23>, !fly.layout<(5,(2,4)):(8,(1,2))>) -> !fly.int_tuple<28>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_59(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<35>
func.func @crd2idx_59(%a: !fly.int_tuple<(7,3)>, %b: !fly.layout<((2,5),4):((20,4),1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(7,3)>, !fly.layout<((2,5),4):((20,4),1)>) -> !fly.int_tuple<35>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_60(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<?{div=2}>
func.func @crd2idx_60(%a: !fly.int_tuple<(?,5)>, %b: !fly.layout<(5,7):(14,2)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?,5)>, !fly.layout<(5,7):(14,2)>) -> !fly.int_tuple<?{div=2}>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_61(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<?{div=2}>
func.func @crd2idx_61(%a: !fly.int_tuple<?{div=8}>, %b: !fly.layout<(4,6):(12,2)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<?{div=8}>, !fly.layout<(4,6):(12,2)>) -> !fly.int_tuple<?{div=2}>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_62(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<?{i64}>
func.func @crd2idx_62(%a: !fly.int_tuple<(?,3)>, %b: !fly.layout<(6,?{i64 div=2}):(?{i64 div=16},1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?,3)>, !fly.layout<(6,?{i64 div=2}):(?{i64 div=16},1)>) -> !fly.int_tuple<?{i64}>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_63(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<(2,3)>
func.func @crd2idx_63(%a: !fly.int_tuple<17>, %b: !fly.layout<(5,7):(1E0,1E1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<17>, !fly.layout<(5,7):(1E0,1E1)>) -> !fly.int_tuple<(2,3)>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_64(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<(12,?{div=2})>
func.func @crd2idx_64(%a: !fly.int_tuple<(?,4)>, %b: !fly.layout<(5,7):(2E1,3E0)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?,4)>, !fly.layout<(5,7):(2E1,3E0)>) -> !fly.int_tuple<(12,?{div=2})>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_65(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<14>
func.func @crd2idx_65(%a: !fly.int_tuple<(2,*)>, %b: !fly.layout<(5,7):(7,1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(2,*)>, !fly.layout<(5,7):(7,1)>) -> !fly.int_tuple<14>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_66(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<51>
func.func @crd2idx_66(%a: !fly.int_tuple<(3,5)>, %b: !fly.composed_layout<S<2,1,3> o 0 o (6,16):(16,1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(3,5)>, !fly.composed_layout<S<2,1,3> o 0 o (6,16):(16,1)>) -> !fly.int_tuple<51>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_67(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<?{div=2}>
func.func @crd2idx_67(%a: !fly.int_tuple<(?{div=2},0)>, %b: !fly.composed_layout<S<2,1,3> o ?{div=8} o (6,16):(16,1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?{div=2},0)>, !fly.composed_layout<S<2,1,3> o ?{div=8} o (6,16):(16,1)>) -> !fly.int_tuple<?{div=2}>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_68(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<26>
func.func @crd2idx_68(%a: !fly.int_tuple<(2,3)>, %b: !fly.composed_layout<(6,7):(7,1) o (1,2) o (3,4):(1E0,1E1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(2,3)>, !fly.composed_layout<(6,7):(7,1) o (1,2) o (3,4):(1E0,1E1)>) -> !fly.int_tuple<26>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_69(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<82>
func.func @crd2idx_69(%a: !fly.int_tuple<90>, %b: !fly.swizzle<S<2,2,3>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<90>, !fly.swizzle<S<2,2,3>>) -> !fly.int_tuple<82>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_70(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<?{i64 div=4}>
func.func @crd2idx_70(%a: !fly.int_tuple<?{i64 div=24}>, %b: !fly.swizzle<S<2,2,3>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<?{i64 div=24}>, !fly.swizzle<S<2,2,3>>) -> !fly.int_tuple<?{i64 div=4}>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_71(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<(5,11)>
func.func @crd2idx_71(%a: !fly.int_tuple<(5,9)>, %b: !fly.coord_swizzle<CS<2,1,[0],0,[1]>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(5,9)>, !fly.coord_swizzle<CS<2,1,[0],0,[1]>>) -> !fly.int_tuple<(5,11)>
  return
}

// -----

// CHECK-LABEL: func.func @crd2idx_72(
// CHECK: fly.crd2idx{{.*}} -> !fly.int_tuple<(?{i64},?{i64 div=2})>
func.func @crd2idx_72(%a: !fly.int_tuple<(?{i64},?{div=8})>, %b: !fly.coord_swizzle<CS<2,0,[0],1,[1]>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?{i64},?{div=8})>, !fly.coord_swizzle<CS<2,0,[0],1,[1]>>) -> !fly.int_tuple<(?{i64},?{i64 div=2})>
  return
}

// -----

// CHECK-LABEL: func.func @idx2crd_73(
// CHECK: fly.idx2crd{{.*}} -> !fly.int_tuple<((0,2),3)>
func.func @idx2crd_73(%a: !fly.int_tuple<23>, %b: !fly.layout<((2,3),5):((5,10),1)>) {
  %r = fly.idx2crd(%a, %b) : (!fly.int_tuple<23>, !fly.layout<((2,3),5):((5,10),1)>) -> !fly.int_tuple<((0,2),3)>
  return
}

// -----

// CHECK-LABEL: func.func @idx2crd_74(
// CHECK: fly.idx2crd{{.*}} -> !fly.int_tuple<(0,(0,3))>
func.func @idx2crd_74(%a: !fly.int_tuple<(3,11)>, %b: !fly.layout<(6,(2,4)):(8,(4,1))>) {
  %r = fly.idx2crd(%a, %b) : (!fly.int_tuple<(3,11)>, !fly.layout<(6,(2,4)):(8,(4,1))>) -> !fly.int_tuple<(0,(0,3))>
  return
}

// -----

// CHECK-LABEL: func.func @idx2crd_75(
// CHECK: fly.idx2crd{{.*}} -> !fly.int_tuple<(?{i64},?{i64})>
func.func @idx2crd_75(%a: !fly.int_tuple<?{i64}>, %b: !fly.layout<(4,9):(9,1)>) {
  %r = fly.idx2crd(%a, %b) : (!fly.int_tuple<?{i64}>, !fly.layout<(4,9):(9,1)>) -> !fly.int_tuple<(?{i64},?{i64})>
  return
}

// -----

// CHECK-LABEL: func.func @get_flat_coord_76(
// CHECK: fly.get_flat_coord{{.*}} -> !fly.int_tuple<(1,11)>
func.func @get_flat_coord_76(%a: !fly.int_tuple<37>, %b: !fly.layout<((2,3),(4,5)):((20,40),(5,1))>) {
  %r = fly.get_flat_coord(%a, %b) : (!fly.int_tuple<37>, !fly.layout<((2,3),(4,5)):((20,40),(5,1))>) -> !fly.int_tuple<(1,11)>
  return
}

// -----

// CHECK-LABEL: func.func @get_1d_coord_77(
// CHECK: fly.get_1d_coord{{.*}} -> !fly.int_tuple<67>
func.func @get_1d_coord_77(%a: !fly.int_tuple<37>, %b: !fly.layout<((2,3),(4,5)):((20,40),(5,1))>) {
  %r = fly.get_1d_coord(%a, %b) : (!fly.int_tuple<37>, !fly.layout<((2,3),(4,5)):((20,40),(5,1))>) -> !fly.int_tuple<67>
  return
}

// -----

// CHECK-LABEL: func.func @size_78(
// CHECK: fly.size{{.*}} -> !fly.int_tuple<?{div=60}>
func.func @size_78(%a: !fly.layout<(3,(?{div=4},5)):(1,(3,12))>) {
  %r = fly.size(%a) : (!fly.layout<(3,(?{div=4},5)):(1,(3,12))>) -> !fly.int_tuple<?{div=60}>
  return
}

// -----

// CHECK-LABEL: func.func @coshape_79(
// CHECK: fly.coshape{{.*}} -> !fly.int_tuple<(3,12)>
func.func @coshape_79(%a: !fly.layout<(3,(5,2)):(1E0,(2E1,3E1))>) {
  %r = fly.coshape(%a) : (!fly.layout<(3,(5,2)):(1E0,(2E1,3E1))>) -> !fly.int_tuple<(3,12)>
  return
}

// -----

// CHECK-LABEL: func.func @cosize_80(
// CHECK: fly.cosize{{.*}} -> !fly.int_tuple<19>
func.func @cosize_80(%a: !fly.layout<(3,5):(5,2)>) {
  %r = fly.cosize(%a) : (!fly.layout<(3,5):(5,2)>) -> !fly.int_tuple<19>
  return
}

// -----

// CHECK-LABEL: func.func @cosize_81(
// CHECK: fly.cosize{{.*}} -> !fly.int_tuple<?{i64}>
func.func @cosize_81(%a: !fly.layout<(4,8):(?{i64 div=8},1)>) {
  %r = fly.cosize(%a) : (!fly.layout<(4,8):(?{i64 div=8},1)>) -> !fly.int_tuple<?{i64}>
  return
}

// -----

// CHECK-LABEL: func.func @coprofile_82(
// CHECK: fly.coprofile{{.*}} -> !fly.int_tuple<(0,0)>
func.func @coprofile_82(%a: !fly.layout<(3,5):(1E0,2E1)>) {
  %r = fly.coprofile(%a) : (!fly.layout<(3,5):(1E0,2E1)>) -> !fly.int_tuple<(0,0)>
  return
}
