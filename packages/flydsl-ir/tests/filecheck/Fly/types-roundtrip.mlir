// Text of every type, with elision of defaults, read back once more.
// RUN: fly-opt %s | fly-opt | FileCheck %s

// CHECK-LABEL: func.func private @int_tuples(
// CHECK-SAME: !fly.int_tuple<?{div=4}>, !fly.int_tuple<?>, !fly.int_tuple<?>,
// CHECK-SAME: !fly.int_tuple<(2,(3))>, !fly.int_tuple<1E1>, !fly.int_tuple<0E1>,
// CHECK-SAME: !fly.int_tuple<?{i64 div=2}E0E2>, !fly.int_tuple<?{i64}>, !fly.int_tuple<-3>
func.func private @int_tuples(
  !fly.int_tuple<?{i32 div=4}>, !fly.int_tuple<?{}>, !fly.int_tuple<?{div=1}>,
  !fly.int_tuple<( 2 , (3) )>, !fly.int_tuple<1 E1>, !fly.int_tuple<*E1>,
  !fly.int_tuple<?{i64 div=2}E0E2>, !fly.int_tuple<?{i64}>, !fly.int_tuple<-3>)

// CHECK-LABEL: func.func private @layouts(
// CHECK-SAME: !fly.layout<(4,2):(1,?)>, !fly.layout<(4,2):1>,
// CHECK-SAME: !fly.swizzle<S<3,4,3>>, !fly.coord_swizzle<CS<2,1,[],0,[1, 0]>>,
// CHECK-SAME: !fly.composed_layout<S<1,2,3> o 4 o 8:1 o 2 o 4:2>,
// CHECK-SAME: !fly.composed_layout<S<3,3,3> o 0 o 8:1>,
// CHECK-SAME: !fly.composed_layout<(4,8):(8,1) o ? o [S<1,2,3> o 0 o 16:1]>,
// CHECK-SAME: !fly.tile<[4|8]>, !fly.tile<[4]>, !fly.tile<4>, !fly.tile<{{\[\[}}4]]>,
// CHECK-SAME: !fly.tile<[4|*|[2|3]|(2,2):(1,4)]>, !fly.basis<3E1E0>
func.func private @layouts(
  !fly.layout<(4,2) : (1,?)>, !fly.layout<(4,2):1>,
  !fly.swizzle<S<3,4,3>>, !fly.coord_swizzle<CS<2,1,[],0,[1,0]>>,
  !fly.composed_layout<S<1,2,3> o 4 o 8:1 o 2 o 4:2>,
  !fly.composed_layout<S<3,3,3> o 0 o [8:1]>,
  !fly.composed_layout<(4,8):(8,1) o ? o [S<1,2,3> o 0 o 16:1]>,
  !fly.tile<[4 | 8]>, !fly.tile<[4]>, !fly.tile<4>, !fly.tile<[[4]]>,
  !fly.tile<[4|*|[2|3]|(2,2):(1,4)]>, !fly.basis<3E1E0>)

// CHECK-LABEL: func.func private @pointers(
// CHECK-SAME: !fly.ptr<f32, global>, !fly.ptr<f16, global>, !fly.ptr<f4E2M1FN, global>,
// CHECK-SAME: !fly.ptr<f16, shared, align<16>, S<3,4,3>>, !fly.ptr<f32, 3 : i32>,
// CHECK-SAME: !fly.memref<f16, global, (8,64):(64,1), align<16>, S<3,4,3>>,
// CHECK-SAME: !fly.memref<f32, register, S<3,3,3> o 0 o (8,64):(64,1)>,
// CHECK-SAME: !fly.coord_tensor<(0,?), (4,8):(1E0,1E1)>
func.func private @pointers(
  !fly.ptr<f32, global, align<4>>, !fly.ptr<f16, global, align<2>, S<0,0,0>>,
  !fly.ptr<f4E2M1FN, global, align<1>>,
  !fly.ptr<f16, shared, align<16>, S<3,4,3>>, !fly.ptr<f32, 3 : i32>,
  !fly.memref<f16, global, (8,64):(64,1), align<16>, S<3,4,3>>,
  !fly.memref<f32, register, S<3,3,3> o 0 o (8,64):(64,1)>,
  !fly.coord_tensor<(0,?),(4,8):(1E0,1E1)>)

!fma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
// CHECK-LABEL: func.func private @atoms(
// CHECK-SAME: !fly.universal_atomic<max, i32>, !fly.universal_atomic<add, f32, "agent">,
// CHECK-SAME: !fly.universal_fma<1x1x1, (f32, f32) -> f32>,
// CHECK-SAME: !fly.copy_atom<!fly.universal_copy<64>, 16>,
// CHECK-SAME: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(16,16,1):(1,16,0)>>,
// CHECK-SAME: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>
func.func private @atoms(
  !fly.universal_atomic<max, i32, "">, !fly.universal_atomic<add, f32, "agent">,
  !fly.universal_fma<1x1x1,(f32,f32)->f32>, !fly.copy_atom<!fly.universal_copy<64>, 16>,
  !fly.tiled_mma<!fma, <(16,16,1):(1,16,0)>, !fly.tile<[*|*|*]>>,
  !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, <((4,6),4):((24,1),6)>, <[6|16]>>)

// CHECK-LABEL: func.func private @attributes
// CHECK-SAME: a = #fly<mma_operand b>
// CHECK-SAME: b = #fly<gemm_traversal_order knm_serpentine>
// CHECK-SAME: c = #fly.explicit_module
func.func private @attributes() attributes {
  a = #fly<mma_operand b>, b = #fly<gemm_traversal_order knm_serpentine>, c = #fly.explicit_module}
