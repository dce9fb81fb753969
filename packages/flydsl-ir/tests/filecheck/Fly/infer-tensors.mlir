// Result types are inferred: an annotation that differs would be rejected.
// RUN: fly-opt --split-input-file %s | fly-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @add_offset_141(
// CHECK: fly.add_offset{{.*}} -> !fly.ptr<f16, shared, align<4>>
func.func @add_offset_141(%a: !fly.ptr<f16, shared, align<32>>, %b: !fly.int_tuple<?{i64 div=6}>) {
  %r = fly.add_offset(%a, %b) : (!fly.ptr<f16, shared, align<32>>, !fly.int_tuple<?{i64 div=6}>) -> !fly.ptr<f16, shared, align<4>>
  return
}

// -----

// CHECK-LABEL: func.func @add_offset_142(
// CHECK: fly.add_offset{{.*}} -> !fly.ptr<f16, shared, align<8>>
func.func @add_offset_142(%a: !fly.ptr<f16, shared, align<32>>, %b: !fly.int_tuple<-4>) {
  %r = fly.add_offset(%a, %b) : (!fly.ptr<f16, shared, align<32>>, !fly.int_tuple<-4>) -> !fly.ptr<f16, shared, align<8>>
  return
}

// -----

// CHECK-LABEL: func.func @add_offset_143(
// CHECK: fly.add_offset{{.*}} -> !fly.int_tuple<(3,?)>
func.func @add_offset_143(%a: !fly.int_tuple<(3,?)>, %b: !fly.int_tuple<2E1>) {
  %r = fly.add_offset(%a, %b) : (!fly.int_tuple<(3,?)>, !fly.int_tuple<2E1>) -> !fly.int_tuple<(3,?)>
  return
}

// -----

// CHECK-LABEL: func.func @apply_swizzle_144(
// CHECK: fly.apply_swizzle{{.*}} -> !fly.ptr<f32, shared, align<32>, S<3,3,3>>
func.func @apply_swizzle_144(%a: !fly.ptr<f32, shared, align<64>>, %b: !fly.swizzle<S<3,3,3>>) {
  %r = fly.apply_swizzle(%a, %b) : (!fly.ptr<f32, shared, align<64>>, !fly.swizzle<S<3,3,3>>) -> !fly.ptr<f32, shared, align<32>, S<3,3,3>>
  return
}

// -----

// CHECK-LABEL: func.func @decomposition_145(
// CHECK: fly.decomposition{{.*}} -> !fly.memref<f16, shared, (8,48):(48,1), align<16>>
func.func @decomposition_145(%a: !fly.memref<f16, shared, S<3,3,3> o 40 o (8,48):(48,1), align<128>>) {
  %r = fly.decomposition(%a) : (!fly.memref<f16, shared, S<3,3,3> o 40 o (8,48):(48,1), align<128>>) -> !fly.memref<f16, shared, (8,48):(48,1), align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @decomposition_146(
// CHECK: fly.decomposition{{.*}} -> !fly.coord_tensor<(?,2), (8,16):(1E0,1E1)>
func.func @decomposition_146(%a: !fly.coord_tensor<(?,0), CS<2,0,[0],1,[1]> o (3,4) o (8,16):(1E0,1E1)>) {
  %r = fly.decomposition(%a) : (!fly.coord_tensor<(?,0), CS<2,0,[0],1,[1]> o (3,4) o (8,16):(1E0,1E1)>) -> !fly.coord_tensor<(?,2), (8,16):(1E0,1E1)>
  return
}

// -----

// CHECK-LABEL: func.func @memref_load_147(
// CHECK: fly.memref.load{{.*}} -> !fly.int_tuple<(7,?)>
func.func @memref_load_147(%a: !fly.coord_tensor<(5,?), (4,6):(1E0,2E1)>, %b: !fly.int_tuple<(2,3)>) {
  %r = fly.memref.load(%a, %b) : (!fly.coord_tensor<(5,?), (4,6):(1E0,2E1)>, !fly.int_tuple<(2,3)>) -> !fly.int_tuple<(7,?)>
  return
}

// -----

// CHECK-LABEL: func.func @memref_load_vec_148(
// CHECK: fly.memref.load_vec{{.*}} -> vector<24xi64>
func.func @memref_load_vec_148(%a: !fly.coord_tensor<?{i64}, (4,6):(6,1)>) {
  %r = fly.memref.load_vec(%a) : (!fly.coord_tensor<?{i64}, (4,6):(6,1)>) -> vector<24xi64>
  return
}

// -----

// CHECK-LABEL: func.func @memref_load_vec_149(
// CHECK: fly.memref.load_vec{{.*}} -> vector<24xf16>
func.func @memref_load_vec_149(%a: !fly.memref<f16, register, (4,(2,3)):(1,(4,8))>) {
  %r = fly.memref.load_vec(%a) : (!fly.memref<f16, register, (4,(2,3)):(1,(4,8))>) -> vector<24xf16>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_partition_src_150(
// CHECK: fly.tiled_copy.partition_src{{.*}} -> !fly.memref<f16, global, ((4,1),2,3):((1,0),288,16), align<8>>
func.func @tiled_copy_partition_src_150(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, %b: !fly.memref<f16, global, (12,48):(48,1), align<16>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, !fly.memref<f16, global, (12,48):(48,1), align<16>>, !fly.int_tuple<?>) -> !fly.memref<f16, global, ((4,1),2,3):((1,0),288,16), align<8>>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_partition_src_151(
// CHECK: fly.tiled_copy.partition_src{{.*}} -> !fly.memref<f16, global, ((4,1),?,3):((1,0),?{i64 div=48},16), align<8>>
func.func @tiled_copy_partition_src_151(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, %b: !fly.memref<f16, global, (?,48):(?{i64 div=8},1), align<16>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, !fly.memref<f16, global, (?,48):(?{i64 div=8},1), align<16>>, !fly.int_tuple<?>) -> !fly.memref<f16, global, ((4,1),?,3):((1,0),?{i64 div=48},16), align<8>>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_partition_src_152(
// CHECK: fly.tiled_copy.partition_src{{.*}} -> !fly.coord_tensor<(?,?{div=4}), ((4,1),2,3):((1E1,0),6E0,16E1)>
func.func @tiled_copy_partition_src_152(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, %b: !fly.coord_tensor<(0,0), (12,48):(1E0,1E1)>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, !fly.coord_tensor<(0,0), (12,48):(1E0,1E1)>, !fly.int_tuple<?>) -> !fly.coord_tensor<(?,?{div=4}), ((4,1),2,3):((1E1,0),6E0,16E1)>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_partition_src_153(
// CHECK: fly.tiled_copy.partition_src{{.*}} -> !fly.memref<f16, shared, S<2,3,3> o ?{div=4} o ((4,1),2,4):((1,0),384,16), align<16>>
func.func @tiled_copy_partition_src_153(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, %b: !fly.memref<f16, shared, S<2,3,3> o 0 o (12,64):(64,1), align<16>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, !fly.memref<f16, shared, S<2,3,3> o 0 o (12,64):(64,1), align<16>>, !fly.int_tuple<?>) -> !fly.memref<f16, shared, S<2,3,3> o ?{div=4} o ((4,1),2,4):((1,0),384,16), align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_partition_dst_154(
// CHECK: fly.tiled_copy.partition_dst{{.*}} -> !fly.memref<f16, global, ((4,1),2,3,3):((1,0),288,16,576), align<8>>
func.func @tiled_copy_partition_dst_154(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, %b: !fly.memref<f16, global, (12,48,3):(48,1,576), align<16>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_dst(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, !fly.memref<f16, global, (12,48,3):(48,1,576), align<16>>, !fly.int_tuple<?>) -> !fly.memref<f16, global, ((4,1),2,3,3):((1,0),288,16,576), align<8>>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_partition_src_155(
// CHECK: fly.tiled_copy.partition_src{{.*}} -> !fly.memref<f16, global, ((8,2),2,1):((1,256),512,0), align<16>>
func.func @tiled_copy_partition_src_155(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<128>, 16>, !fly.layout<((8,4),(8,2)):((64,1),(8,4))>, !fly.tile<[8|64]>>, %b: !fly.memref<f16, global, (16,64):(64,1), align<16>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<128>, 16>, !fly.layout<((8,4),(8,2)):((64,1),(8,4))>, !fly.tile<[8|64]>>, !fly.memref<f16, global, (16,64):(64,1), align<16>>, !fly.int_tuple<?>) -> !fly.memref<f16, global, ((8,2),2,1):((1,256),512,0), align<16>>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_copy_retile_156(
// CHECK: fly.tiled_copy.retile{{.*}} -> !fly.memref<f16, register, (((2,2),1),4,2):(((1,8),0),2,16)>
func.func @tiled_copy_retile_156(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, %b: !fly.memref<f16, register, (2,4,3):(1,2,8)>) {
  %r = fly.tiled_copy.retile(%a, %b) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>, !fly.memref<f16, register, (2,4,3):(1,2,8)>) -> !fly.memref<f16, register, (((2,2),1),4,2):(((1,8),0),2,16)>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_mma_partition_157(
// CHECK: fly.tiled_mma.partition{{.*}} -> !fly.memref<f32, global, (1,4,6):(0,12,1)>
func.func @tiled_mma_partition_157(%a: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %b: !fly.memref<f32, global, (8,6):(6,1)>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_mma.partition(b, %a, %b, %c) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, (8,6):(6,1)>, !fly.int_tuple<?>) -> !fly.memref<f32, global, (1,4,6):(0,12,1)>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_mma_partition_158(
// CHECK: fly.tiled_mma.partition{{.*}} -> !fly.memref<f32, global, (1,(2,2),6):(0,(12,96),2)>
func.func @tiled_mma_partition_158(%a: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>, !fly.tile<[(4,2):(2,1)|6|*]>>, %b: !fly.memref<f32, global, (16,12):(12,1)>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_mma.partition(c, %a, %b, %c) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>, !fly.tile<[(4,2):(2,1)|6|*]>>, !fly.memref<f32, global, (16,12):(12,1)>, !fly.int_tuple<?>) -> !fly.memref<f32, global, (1,(2,2),6):(0,(12,96),2)>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_mma_partition_159(
// CHECK: fly.tiled_mma.partition{{.*}} -> !fly.coord_tensor<(?{div=2},?), (1,(2,2),6):(0,(1E0,8E0),2E1)>
func.func @tiled_mma_partition_159(%a: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>, !fly.tile<[(4,2):(2,1)|6|*]>>, %b: !fly.coord_tensor<(0,0), (16,12):(1E0,1E1)>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_mma.partition(c, %a, %b, %c) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>, !fly.tile<[(4,2):(2,1)|6|*]>>, !fly.coord_tensor<(0,0), (16,12):(1E0,1E1)>, !fly.int_tuple<?>) -> !fly.coord_tensor<(?{div=2},?), (1,(2,2),6):(0,(1E0,8E0),2E1)>
  return
}

// -----

// CHECK-LABEL: func.func @tiled_mma_partition_shape_160(
// CHECK: fly.tiled_mma.partition_shape{{.*}} -> !fly.int_tuple<(1,2,6)>
func.func @tiled_mma_partition_shape_160(%a: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %b: !fly.int_tuple<(8,6)>) {
  %r = fly.tiled_mma.partition_shape(%a, %b) {operand_id = #fly<mma_operand a>} : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.int_tuple<(8,6)>) -> !fly.int_tuple<(1,2,6)>
  return
}

// -----

// CHECK-LABEL: func.func @mma_make_fragment_161(
// CHECK: fly.mma.make_fragment{{.*}} -> !fly.memref<f32, register, (1,4,6):(0,6,1)>
func.func @mma_make_fragment_161(%a: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %b: !fly.memref<f32, global, (8,6):(6,1)>) {
  %r = fly.mma.make_fragment(b, %a, %b) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, (8,6):(6,1)>) -> !fly.memref<f32, register, (1,4,6):(0,6,1)>
  return
}

// -----

// CHECK-LABEL: func.func @mma_make_fragment_162(
// CHECK: fly.mma.make_fragment{{.*}} -> !fly.memref<f32, register, (1,4,6,3):(0,6,1,24)>
func.func @mma_make_fragment_162(%a: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %b: !fly.memref<f32, global, (8,6):(6,1)>) {
  %r = fly.mma.make_fragment(b, %a, %b, stages = 3) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, (8,6):(6,1)>) -> !fly.memref<f32, register, (1,4,6,3):(0,6,1,24)>
  return
}
