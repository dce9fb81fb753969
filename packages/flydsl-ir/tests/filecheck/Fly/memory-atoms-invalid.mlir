// Operations on memory, atoms and tiled atoms: what their operands and results cannot be.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

func.func @copy_kind(%a: !fly.memref<f32, register, 1:1>, %b: !fly.memref<f32, register, 1:1>, %c: !fly.memref<f32, register, 1:1>) {
  // expected-error @+1 {{needs a copy atom or a tiled copy, got '!fly.memref<f32, register, 1:1>'}}
  fly.copy(%a, %b, %c) : (!fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  return
}

// -----

func.func @gemm_kind(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %b: !fly.memref<f32, register, 1:1>, %c: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, register, 1:1>, %e: !fly.memref<f32, register, 1:1>) {
  // expected-error @+1 {{needs an MMA atom or a tiled MMA, got '!fly.copy_atom<!fly.universal_copy<32>, 32>'}}
  fly.gemm(%a, %b, %c, %d, %e) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  return
}

// -----

func.func @stages(%t: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %m: !fly.memref<f32, global, (8,8):(8,1)>) {
  // expected-error @+2 {{stages must be positive, got 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %f = fly.mma.make_fragment(b, %t, %m, stages = 0) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, (8,8):(8,1)>) -> !fly.memref<f32, register, 1:1>
  return
}

// -----

func.func @stages_rank(%t: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %m: !fly.memref<f32, global, 8:1>) {
  // expected-error @+2 {{stages needs an input of rank 2 or more}}
  // expected-error @+1 {{failed to infer returned types}}
  %f = fly.mma.make_fragment(b, %t, %m, stages = 2) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, 8:1>) -> !fly.memref<f32, register, 1:1>
  return
}

// -----

func.func @fragment_dynamic(%t: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %m: !fly.memref<f32, global, (?,8):(8,1)>) {
  // expected-error @+2 {{a fragment needs a static shape}}
  // expected-error @+1 {{failed to infer returned types}}
  %f = fly.mma.make_fragment(a, %t, %m) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, (?,8):(8,1)>) -> !fly.memref<f32, register, 1:1>
  return
}

// -----

func.func @partition_rank(%t: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, %m: !fly.memref<f32, global, 8:1>, %i: !fly.int_tuple<0>) {
  // expected-error @+2 {{an MMA operand needs two modes}}
  // expected-error @+1 {{failed to infer returned types}}
  %f = fly.tiled_mma.partition(b, %t, %m, %i) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>, !fly.memref<f32, global, 8:1>, !fly.int_tuple<0>) -> !fly.memref<f32, register, 1:1>
  return
}

// -----

func.func @retile_composed(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>, %b: !fly.memref<f32, register, S<1,2,3> o 0 o (1,1):(1,1)>) {
  // expected-error @+2 {{retile needs a plain layout, got '!fly.memref<f32, register, S<1,2,3> o 0 o (1,1):(1,1)>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.tiled_copy.retile(%a, %b) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>, !fly.memref<f32, register, S<1,2,3> o 0 o (1,1):(1,1)>) -> !fly.memref<f32, register, 1:1>
  return
}

// -----

func.func @retile_dynamic(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>, %b: !fly.memref<f32, register, (?,1):(1,1)>) {
  // expected-error @+2 {{retile needs a fragment with a static value mode}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.tiled_copy.retile(%a, %b) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>, !fly.memref<f32, register, (?,1):(1,1)>) -> !fly.memref<f32, register, 1:1>
  return
}

// -----

func.func @partition_tile(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>, %b: !fly.memref<f32, global, 4:1>, %c: !fly.int_tuple<0>) {
  // expected-error @+2 {{the tile has rank 2 but the layout has rank 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>, !fly.memref<f32, global, 4:1>, !fly.int_tuple<0>) -> !fly.memref<f32, global, 1:1>
  return
}

// -----

func.func @tiled_mma_atom(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %b: !fly.layout<(4,2,1):(2,1,0)>) {
  // expected-error @+2 {{make_tiled_mma needs an MMA atom, got '!fly.copy_atom<!fly.universal_copy<32>, 32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_tiled_mma(%a, %b) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,2,1):(2,1,0)>) -> !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>
  return
}

// -----

func.func @tiled_mma_layout(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %b: !fly.layout<(?,2,1):(2,1,0)>) {
  // expected-error @+2 {{atomLayout of a tiled MMA must be static, got '!fly.layout<(?,2,1):(2,1,0)>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_tiled_mma(%a, %b) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(?,2,1):(2,1,0)>) -> !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>
  return
}

// -----

func.func @tiled_copy_layout(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %b: !fly.layout<((4,?),1):((8,1),0)>, %c: !fly.tile<[4|8]>) {
  // expected-error @+2 {{layoutThrVal of a tiled copy must be static, got '!fly.layout<((4,?),1):((8,1),0)>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_tiled_copy(%a, %b, %c) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,?),1):((8,1),0)>, !fly.tile<[4|8]>) -> !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<((4,8),1):((8,1),0)>, !fly.tile<[4|8]>>
  return
}

// -----

func.func @copy_results(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %b: !fly.memref<f32, register, 1:1>) {
  // expected-error @+1 {{needs a destination or a result}}
  fly.copy_atom_call_ssa(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>) -> ()
  return
}

// -----

func.func @copy_destination(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %b: !fly.memref<f32, register, 1:1>, %c: vector<1xf32>) {
  // expected-error @+1 {{takes the old destination only together with a predicate}}
  %r = fly.copy_atom_call_ssa(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, vector<1xf32>) -> vector<1xf32>
  return
}

// -----

func.func @mma_result(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %b: f32, %c: f32, %d: f32) {
  // expected-error @+1 {{has either a result or a destination}}
  fly.mma_atom_call_ssa(%a, %b, %c, %d) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 1>} : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, f32, f32) -> ()
  return
}

// -----

func.func @address(%a: !fly.ptr<f32, register>) {
  // expected-error @+2 {{ptrtoint needs a shared or global pointer, got '!fly.ptr<f32, register>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.ptrtoint(%a) : (!fly.ptr<f32, register>) -> i32
  return
}

// -----

func.func @offset_basis(%a: !fly.ptr<f32, global>, %b: !fly.int_tuple<1E0>) {
  // expected-error @+2 {{the offset of a pointer must be an integer leaf, got '!fly.int_tuple<1E0>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.add_offset(%a, %b) : (!fly.ptr<f32, global>, !fly.int_tuple<1E0>) -> !fly.ptr<f32, global>
  return
}

// -----

func.func @offset_tuple(%a: !fly.ptr<f32, global>, %b: !fly.int_tuple<(1,2)>) {
  // expected-error @+2 {{the offset of a pointer must be an integer leaf, got '!fly.int_tuple<(1,2)>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.add_offset(%a, %b) : (!fly.ptr<f32, global>, !fly.int_tuple<(1,2)>) -> !fly.ptr<f32, global>
  return
}

// -----

func.func @load_index(%a: !fly.ptr<f32, global>) {
  // expected-error @+1 {{accesses a scalar or a vector of integers or floats, got 'index'}}
  %r = fly.ptr.load(%a) : (!fly.ptr<f32, global>) -> index
  return
}

// -----

func.func @store_index(%a: index, %b: !fly.ptr<f32, global>) {
  // expected-error @+1 {{accesses a scalar or a vector of integers or floats, got 'index'}}
  fly.ptr.store(%a, %b) : (index, !fly.ptr<f32, global>) -> ()
  return
}

// -----

func.func @alloca_layout(%a: !fly.layout<4:1>) {
  // expected-error @+1 {{result layout differs from the operand's layout '!fly.layout<4:1>'}}
  %r = fly.memref.alloca(%a) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 5:1>
  return
}

// -----

func.func @load_composed(%a: !fly.memref<f32, register, S<1,2,3> o 0 o 4:1>) {
  // expected-error @+2 {{load_vec needs a plain layout, got '!fly.memref<f32, register, S<1,2,3> o 0 o 4:1>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.memref.load_vec(%a) : (!fly.memref<f32, register, S<1,2,3> o 0 o 4:1>) -> vector<4xf32>
  return
}

// -----

func.func @load_dynamic(%a: !fly.memref<f32, register, ?:1>) {
  // expected-error @+2 {{load_vec needs a static, positive size, got '!fly.memref<f32, register, ?:1>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.memref.load_vec(%a) : (!fly.memref<f32, register, ?:1>) -> vector<4xf32>
  return
}

// -----

func.func @load_coordinates(%a: !fly.coord_tensor<(0,0), (4,6):(1E0,1E1)>) {
  // expected-error @+2 {{load_vec of coordinates needs an integer base, got '!fly.coord_tensor<(0,0), (4,6):(1E0,1E1)>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.memref.load_vec(%a) : (!fly.coord_tensor<(0,0), (4,6):(1E0,1E1)>) -> vector<24xi32>
  return
}

// -----

func.func @scalar_of_tuple(%a: !fly.int_tuple<(1,?)>) {
  // expected-error @+2 {{get_scalar needs a leaf, got a tuple of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_scalar(%a) : (!fly.int_tuple<(1,?)>) -> i32
  return
}

// -----

func.func @stride_of_composed(%a: !fly.composed_layout<S<1,2,3> o 0 o 4:1>) {
  // expected-error @+2 {{get_stride needs a plain layout: a composed one has no stride}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_stride(%a) : (!fly.composed_layout<S<1,2,3> o 0 o 4:1>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @fragment_type(%a: !fly.memref<f32, register, 4:1>) {
  // expected-error @+2 {{dtype must be an integer or float type}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_fragment_like(%a) {dtype = index} : (!fly.memref<f32, register, 4:1>) -> !fly.memref<f32, register, 4:1>
  return
}

// -----

func.func @fragment_dynamic_layout(%a: !fly.memref<f32, register, ?:1>) {
  // expected-error @+2 {{a fragment needs a static shape}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_fragment_layout_like(%a) : (!fly.memref<f32, register, ?:1>) -> !fly.layout<4:1>
  return
}

// -----

func.func @copy_bits() {
  // expected-error @+1 {{valBits must be positive, got 0}}
  %r = "fly.make_copy_atom"() <{valBits = 0 : i32}> : () -> !fly.copy_atom<!fly.universal_copy<32>, 32>
  return
}

// -----

func.func @gemm_empty(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %b: !fly.memref<f32, register, 1:1>, %c: !fly.memref<f32, register, 1:1>) {
  // expected-error @+1 {{needs at least one A and one B operand}}
  "fly.gemm"(%a, %b, %c) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 0>}> : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  return
}

// -----

func.func @mma_empty(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %b: !fly.memref<f32, register, 1:1>, %c: !fly.memref<f32, register, 1:1>) {
  // expected-error @+1 {{needs at least one A and one B operand}}
  "fly.mma_atom_call"(%a, %b, %c) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>}> : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  return
}

// -----

func.func @mma_ssa_empty(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %b: f32) {
  // expected-error @+1 {{needs at least one A and one B operand}}
  %r = "fly.mma_atom_call_ssa"(%a, %b) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 1>}> : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32) -> f32
  return
}

// -----

func.func @mma_destination(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %b: !fly.memref<f32, register, 1:1>, %c: f32, %d: f32, %e: f32) {
  // expected-error @+1 {{has either a result or a destination}}
  %r = "fly.mma_atom_call_ssa"(%a, %b, %c, %d, %e) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}> : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, f32, f32, f32) -> f32
  return
}

// -----

// It would be lost: an atom without state is made again from its type.
!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @no_state(%a: !at, %n: i32) {
  // expected-error @+2 {{the atom of '!fly.copy_atom<!fly.universal_copy<32>, 32>' has no state}}
  // expected-error @+1 {{failed to infer returned types}}
  %b = fly.atom.set_value(%a, "soffset", %n) : (!at, i32) -> !at
  return
}

// -----

!mma = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
func.func @no_scale(%a: !mma, %n: i32) {
  // expected-error @+2 {{has no state}}
  // expected-error @+1 {{failed to infer returned types}}
  %b = fly.atom.set_value(%a, "scale_a", %n) : (!mma, i32) -> !mma
  return
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @predicate(%a: !at, %m: !fly.memref<f32, global, 1:1>, %r: !fly.memref<f32, register, 1:1>, %p: !fly.memref<i8, register, 1:1>) {
  // expected-error @+1 {{a predicate holds i1, got '!fly.memref<i8, register, 1:1>'}}
  fly.copy_atom_call(%a, %m, %r, %p) : (!at, !fly.memref<f32, global, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<i8, register, 1:1>) -> ()
  return
}
