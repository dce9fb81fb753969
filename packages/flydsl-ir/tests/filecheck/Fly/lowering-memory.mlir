// Accesses, offsets, allocations and partitions.
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering | FileCheck %s

// CHECK-LABEL: func.func @fuse_offsets(
// CHECK: %[[O:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<8>
// CHECK: fly.add_offset(%{{.*}}, %[[O]])
// CHECK-NOT: fly.add_offset
// CHECK: fly.ptr.load
func.func @fuse_offsets(%p: !fly.ptr<f32, shared, align<32>>) -> f32 {
  %o = fly.make_int_tuple() : () -> !fly.int_tuple<4>
  %a = fly.add_offset(%p, %o) : (!fly.ptr<f32, shared, align<32>>, !fly.int_tuple<4>) -> !fly.ptr<f32, shared, align<16>>
  %b = fly.add_offset(%a, %o) : (!fly.ptr<f32, shared, align<16>>, !fly.int_tuple<4>) -> !fly.ptr<f32, shared, align<16>>
  %v = fly.ptr.load(%b) : (!fly.ptr<f32, shared, align<16>>) -> f32
  return %v : f32
}

// CHECK-LABEL: func.func @alloca(
// CHECK: fly.make_ptr() {dictAttrs = {allocSize = 6 : i64}} : () -> !fly.ptr<f32, register>
func.func @alloca() -> f32 {
  %l = fly.static : !fly.layout<(2,3):(1,2)>
  %m = fly.memref.alloca(%l) : (!fly.layout<(2,3):(1,2)>) -> !fly.memref<f32, register, (2,3):(1,2)>
  %z = fly.make_int_tuple() : () -> !fly.int_tuple<(0,0)>
  %v = fly.memref.load(%m, %z) : (!fly.memref<f32, register, (2,3):(1,2)>, !fly.int_tuple<(0,0)>) -> f32
  return %v : f32
}

// CHECK-LABEL: func.func @load_vec_rows(
// CHECK-COUNT-3: vector.insert_strided_slice {{.*}} vector<2xf32> into vector<6xf32>
// CHECK-NOT: vector.transpose
// CHECK: return
func.func @load_vec_rows(%m: !fly.memref<f32, global, (2,3):(1,10)>) -> vector<6xf32> {
  %v = fly.memref.load_vec(%m) : (!fly.memref<f32, global, (2,3):(1,10)>) -> vector<6xf32>
  return %v : vector<6xf32>
}

// CHECK-LABEL: func.func @load_vec_columns(
// CHECK-COUNT-3: vector.insert_strided_slice {{.*}} vector<2xf32> into vector<6xf32>
// CHECK: vector.shape_cast %{{.*}} : vector<6xf32> to vector<3x2xf32>
// CHECK: vector.transpose %{{.*}}, [1, 0] : vector<3x2xf32> to vector<2x3xf32>
// CHECK: vector.shape_cast %{{.*}} : vector<2x3xf32> to vector<6xf32>
func.func @load_vec_columns(%m: !fly.memref<f32, global, (3,2):(2,1)>) -> vector<6xf32> {
  %v = fly.memref.load_vec(%m) : (!fly.memref<f32, global, (3,2):(2,1)>) -> vector<6xf32>
  return %v : vector<6xf32>
}

// Lanes of one chunk are taken from it; a chunk of which none are taken is not loaded.
// CHECK-LABEL: func.func @load_vec_parts(
// CHECK: %[[SECOND:.*]] = fly.ptr.load
// CHECK: vector.extract_strided_slice %[[SECOND]] {offsets = [2], sizes = [2], strides = [1]} : vector<4xf32>
// CHECK: %[[THIRD:.*]] = fly.ptr.load
// CHECK: %[[LAST:.*]] = vector.extract %[[THIRD]][3] : f32 from vector<4xf32>
// CHECK-NOT: fly.ptr.load
// CHECK: return %{{.*}}, %[[LAST]], %[[THIRD]]
func.func @load_vec_parts(%m: !fly.memref<f32, global, (4,3):(1,10)>) -> (vector<2xf32>, f32, vector<4xf32>) {
  %v = fly.memref.load_vec(%m) : (!fly.memref<f32, global, (4,3):(1,10)>) -> vector<12xf32>
  %a = vector.shuffle %v, %v [6, 7] : vector<12xf32>, vector<12xf32>
  %b = vector.extract %v[11] : f32 from vector<12xf32>
  %c = vector.shuffle %v, %v [8, 9, 10, 11] : vector<12xf32>, vector<12xf32>
  return %a, %b, %c : vector<2xf32>, f32, vector<4xf32>
}

// Lanes of two chunks, and those in another order, are taken from the whole.
// CHECK-LABEL: func.func @load_vec_across(
// CHECK-COUNT-3: vector.insert_strided_slice
// CHECK: vector.shuffle {{.*}} [3, 4]
// CHECK: vector.shuffle {{.*}} [1, 0]
func.func @load_vec_across(%m: !fly.memref<f32, global, (4,3):(1,10)>) -> (vector<2xf32>, vector<2xf32>) {
  %v = fly.memref.load_vec(%m) : (!fly.memref<f32, global, (4,3):(1,10)>) -> vector<12xf32>
  %a = vector.shuffle %v, %v [3, 4] : vector<12xf32>, vector<12xf32>
  %b = vector.shuffle %v, %v [1, 0] : vector<12xf32>, vector<12xf32>
  return %a, %b : vector<2xf32>, vector<2xf32>
}

// CHECK-LABEL: func.func @coordinates(
// CHECK-SAME: %[[X:.*]]: i32, %[[Y:.*]]: i32)
// CHECK-DAG: %[[R:.*]] = arith.remsi %[[Y]], %c6_i32
// CHECK-DAG: %[[Q:.*]] = arith.divsi %[[Y]], %c6_i32
// CHECK-DAG: %[[A:.*]] = arith.addi %[[X]], %[[R]]
// CHECK-DAG: %[[B:.*]] = arith.addi %{{.*}}
// CHECK: return %[[A]], %[[B]]
func.func @coordinates(%x: i32, %y: i32) -> (i32, i32) {
  %base = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,4)>
  %l = fly.static : !fly.layout<(6,9):(1E0,1E1)>
  %t = fly.make_view(%base, %l) : (!fly.int_tuple<(?,4)>, !fly.layout<(6,9):(1E0,1E1)>) -> !fly.coord_tensor<(?,4), (6,9):(1E0,1E1)>
  %i = fly.make_int_tuple(%y) : (i32) -> !fly.int_tuple<?>
  %c = fly.memref.load(%t, %i) : (!fly.coord_tensor<(?,4), (6,9):(1E0,1E1)>, !fly.int_tuple<?>) -> !fly.int_tuple<(?,?)>
  %r:2 = fly.get_leaves(%c) : (!fly.int_tuple<(?,?)>) -> (i32, i32)
  return %r#0, %r#1 : i32, i32
}

!fma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!tm = !fly.tiled_mma<!fma, !fly.layout<(4,2,1):(2,1,0)>>
// CHECK-LABEL: func.func @partition_b(
// CHECK: %[[N:.*]] = arith.remsi %{{.*}}, %c2_i32
// CHECK: %[[O:.*]] = arith.muli %[[N]], %c6_i32
// CHECK: %[[T:.*]] = fly.make_int_tuple(%[[O]]) : (i32) -> !fly.int_tuple<?{div=6}>
// CHECK: %[[P:.*]] = fly.add_offset(%{{.*}}, %[[T]])
// CHECK: %[[K:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<14>
// CHECK: fly.add_offset(%[[P]], %[[K]])
func.func @partition_b(%g: !fly.ptr<f32, global>, %t: i32) -> f32 {
  %at = fly.make_mma_atom : !fma
  %al = fly.static : !fly.layout<(4,2,1):(2,1,0)>
  %tm = fly.make_tiled_mma(%at, %al) : (!fma, !fly.layout<(4,2,1):(2,1,0)>) -> !tm
  %l = fly.static : !fly.layout<(8,6):(6,1)>
  %v = fly.make_view(%g, %l) : (!fly.ptr<f32, global>, !fly.layout<(8,6):(6,1)>) -> !fly.memref<f32, global, (8,6):(6,1)>
  %c = fly.make_int_tuple(%t) : (i32) -> !fly.int_tuple<?>
  %p = fly.tiled_mma.partition(b, %tm, %v, %c) : (!tm, !fly.memref<f32, global, (8,6):(6,1)>, !fly.int_tuple<?>) -> !fly.memref<f32, global, (1,4,6):(0,12,1)>
  %z = fly.make_int_tuple() : () -> !fly.int_tuple<(0,1,2)>
  %x = fly.memref.load(%p, %z) : (!fly.memref<f32, global, (1,4,6):(0,12,1)>, !fly.int_tuple<(0,1,2)>) -> f32
  return %x : f32
}
