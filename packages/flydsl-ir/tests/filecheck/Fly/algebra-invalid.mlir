// Every precondition of the algebra is a diagnostic that names the operand, the mode or the condition.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

func.func @coordinate_rank(%a: !fly.int_tuple<(1,2,3)>, %b: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{the coordinate has rank 3 but the shape has rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(1,2,3)>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @coordinate_basis(%a: !fly.int_tuple<1E0>, %b: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{a basis is not a coordinate}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<1E0>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @composed_coordinate(%a: !fly.int_tuple<(1,2)>, %b: !fly.composed_layout<S<1,2,3> o (0,0) o (4,8):(1E0,1E1)>) {
  // expected-error @+2 {{a swizzle applies to an integer, not to a coordinate tuple}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(1,2)>, !fly.composed_layout<S<1,2,3> o (0,0) o (4,8):(1E0,1E1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @index_basis(%a: !fly.int_tuple<3>, %b: !fly.layout<(4,8):(1E0,1E1)>) {
  // expected-error @+2 {{idx2crd needs an integer index and integer strides}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.idx2crd(%a, %b) : (!fly.int_tuple<3>, !fly.layout<(4,8):(1E0,1E1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @flat_basis(%a: !fly.int_tuple<1E0>, %b: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{idx2crd needs an integer index and integer strides}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_flat_coord(%a, %b) : (!fly.int_tuple<1E0>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @flat_rank(%a: !fly.int_tuple<(1,2,3)>, %b: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{the index has rank 3 but the shape has rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_flat_coord(%a, %b) : (!fly.int_tuple<(1,2,3)>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @order_basis(%a: !fly.int_tuple<(4,8)>, %b: !fly.int_tuple<(1E0,1E1)>) {
  // expected-error @+2 {{an order must consist of integers, not of basis leaves}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(4,8)>, !fly.int_tuple<(1E0,1E1)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @order_rank(%a: !fly.int_tuple<(4,8)>, %b: !fly.int_tuple<(0,1,2)>) {
  // expected-error @+2 {{the order is not weakly congruent to the shape: rank 3 where the shape has rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(4,8)>, !fly.int_tuple<(0,1,2)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @block_rank(%a: !fly.layout<(2,2,2):(1,2,4)>, %b: !fly.int_tuple<(4,4)>, %c: !fly.int_tuple<(0,1)>) {
  // expected-error @+2 {{tile_to_shape: the block has rank 3 but the target shape has rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.tile_to_shape(%a, %b, %c) : (!fly.layout<(2,2,2):(1,2,4)>, !fly.int_tuple<(4,4)>, !fly.int_tuple<(0,1)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @recast_ratio(%a: !fly.layout<4:1>) {
  // expected-error @+2 {{recast: the 4 elements of mode 0 are not a multiple of the 3 that share a new one}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.recast_layout(%a) {new_type_bits = 24 : i32, old_type_bits = 16 : i32} : (!fly.layout<4:1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @recast_unit_strides(%a: !fly.layout<(2,2):(1,1)>) {
  // expected-error @+2 {{recast: several modes address elements inside of one new element}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 16 : i32} : (!fly.layout<(2,2):(1,1)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @recast_stride(%a: !fly.layout<(2,2):(1,3)>) {
  // expected-error @+2 {{recast: stride 3 and the factor 2 do not divide each other}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 16 : i32} : (!fly.layout<(2,2):(1,3)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @recast_swizzle_bits(%a: !fly.composed_layout<S<2,0,3> o 0 o 64:1>) {
  // expected-error @+2 {{recast: the swizzle works on bits smaller than the new element}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 16 : i32} : (!fly.composed_layout<S<2,0,3> o 0 o 64:1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @recast_swizzle_reach(%a: !fly.composed_layout<S<3,20,8> o 0 o 64:1>) {
  // expected-error @+2 {{recast: the swizzle reaches beyond bit 30}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.recast_layout(%a) {new_type_bits = 8 : i32, old_type_bits = 32 : i32} : (!fly.composed_layout<S<3,20,8> o 0 o 64:1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @recast_swizzle_power(%a: !fly.composed_layout<S<2,3,3> o 0 o 64:1>) {
  // expected-error @+2 {{recast: a swizzle can only be recast by a power of two}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.recast_layout(%a) {new_type_bits = 48 : i32, old_type_bits = 16 : i32} : (!fly.composed_layout<S<2,3,3> o 0 o 64:1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @composition_basis(%a: !fly.layout<(4,8):(8,1)>, %b: !fly.layout<(2,2):(1E0,1E1)>) {
  // expected-error @+2 {{composition needs integer shapes and strides in the inner layout}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.composition(%a, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<(2,2):(1E0,1E1)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @composition_negative(%a: !fly.layout<(4,8):(8,1)>, %b: !fly.layout<2:-1>) {
  // expected-error @+2 {{composition: the inner layout has the negative stride -1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.composition(%a, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:-1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @composition_extent(%a: !fly.layout<(4,8):(8,1)>, %b: !fly.layout<3:2>) {
  // expected-error @+2 {{composition: the 3 elements left do not divide into the 2 of mode 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.composition(%a, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<3:2>) -> !fly.layout<1:1>
  return
}

// -----

func.func @tile_dynamic(%a: !fly.layout<(4,8):(8,1)>, %b: !fly.tile<[?|2]>) {
  // expected-error @+2 {{a tile must be static}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[?|2]>) -> !fly.layout<1:1>
  return
}

// -----

func.func @divide_layout(%a: !fly.layout<(4,8):(8,1)>, %b: !fly.layout<5:1>) {
  // expected-error @+2 {{composition: the 5 elements left do not divide into the 4 of mode 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<5:1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @complement_size(%a: !fly.layout<4:1>, %b: !fly.int_tuple<(2,3)>) {
  // expected-error @+2 {{the codomain size of a complement must be an integer}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.complement(%a, %b) : (!fly.layout<4:1>, !fly.int_tuple<(2,3)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @complement_basis(%a: !fly.layout<(2,2):(1E0,1E1)>, %b: !fly.int_tuple<16>) {
  // expected-error @+2 {{the complement of a layout with basis strides is not defined}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.complement(%a, %b) : (!fly.layout<(2,2):(1E0,1E1)>, !fly.int_tuple<16>) -> !fly.layout<1:1>
  return
}

// -----

func.func @complement_dynamic(%a: !fly.layout<(2,2):(?,1)>, %b: !fly.int_tuple<16>) {
  // expected-error @+2 {{the complement of a layout with several modes needs static strides}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.complement(%a, %b) : (!fly.layout<(2,2):(?,1)>, !fly.int_tuple<16>) -> !fly.layout<1:1>
  return
}

// -----

func.func @complement_overlap(%a: !fly.layout<(4,4):(1,2)>, %b: !fly.int_tuple<64>) {
  // expected-error @+2 {{stride 2 of mode 1 is not a multiple of 4, where the modes of smaller stride end}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.complement(%a, %b) : (!fly.layout<(4,4):(1,2)>, !fly.int_tuple<64>) -> !fly.layout<1:1>
  return
}

// -----

func.func @product_overlap(%a: !fly.layout<(4,4):(1,2)>, %b: !fly.layout<2:1>) {
  // expected-error @+2 {{stride 2 of mode 1 is not a multiple of 4, where the modes of smaller stride end}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.logical_product(%a, %b) : (!fly.layout<(4,4):(1,2)>, !fly.layout<2:1>) -> !fly.layout<1:1>
  return
}

// -----

func.func @modulo_zero(%a: !fly.int_tuple<4>, %b: !fly.int_tuple<0>) {
  // expected-error @+2 {{remainder of a division by zero}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_mod(%a, %b) : (!fly.int_tuple<4>, !fly.int_tuple<0>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @divide_zero(%a: !fly.int_tuple<4>, %b: !fly.int_tuple<0>) {
  // expected-error @+2 {{division by zero}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_div(%a, %b) : (!fly.int_tuple<4>, !fly.int_tuple<0>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @take_leaf(%a: !fly.int_tuple<4>) {
  // expected-error @+2 {{take needs a tuple, not a leaf}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.take(%a) {begin = 0 : i32, end = 1 : i32} : (!fly.int_tuple<4>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @take_empty(%a: !fly.int_tuple<(4,5)>) {
  // expected-error @+2 {{take: modes 1..1 are empty or outside a tuple of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.take(%a) {begin = 1 : i32, end = 1 : i32} : (!fly.int_tuple<(4,5)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @take_outside(%a: !fly.int_tuple<(4,5)>) {
  // expected-error @+2 {{take: modes 0..3 are empty or outside a tuple of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.take(%a) {begin = 0 : i32, end = 3 : i32} : (!fly.int_tuple<(4,5)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @select_nothing(%a: !fly.int_tuple<(4,5)>) {
  // expected-error @+2 {{select needs at least one index}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.select(%a) {indices = array<i32>} : (!fly.int_tuple<(4,5)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @select_outside(%a: !fly.int_tuple<(4,5)>) {
  // expected-error @+2 {{mode 2 does not exist in a tuple of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.select(%a) {indices = array<i32: 0, 2>} : (!fly.int_tuple<(4,5)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @group_outside(%a: !fly.int_tuple<(4,5)>) {
  // expected-error @+2 {{group: modes 0..3 are outside a tuple of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.group(%a) {begin = 0 : i32, end = 3 : i32} : (!fly.int_tuple<(4,5)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @get_deep(%a: !fly.int_tuple<(4,5)>) {
  // expected-error @+2 {{get: the path is longer than the tuple is deep: mode 1 of a leaf at position 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get(%a) {mode = array<i32: 0, 1>} : (!fly.int_tuple<(4,5)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @slice_rank(%a: !fly.int_tuple<(3,4)>, %b: !fly.int_tuple<(*,1,2)>) {
  // expected-error @+2 {{the coordinate has rank 3 where the tuple has rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.slice(%a, %b) : (!fly.int_tuple<(3,4)>, !fly.int_tuple<(*,1,2)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @slice_deep(%a: !fly.layout<(3,4):(4,1)>, %b: !fly.int_tuple<((1,*),2)>) {
  // expected-error @+2 {{the coordinate has rank 2 where the tuple has rank 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.slice(%a, %b) : (!fly.layout<(3,4):(4,1)>, !fly.int_tuple<((1,*),2)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @dice_nothing(%a: !fly.int_tuple<(3,4)>, %b: !fly.int_tuple<(*,*)>) {
  // expected-error @+2 {{dice must keep at least one mode: the coordinate has only '*'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.dice(%a, %b) : (!fly.int_tuple<(3,4)>, !fly.int_tuple<(*,*)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @append_kinds(%a: !fly.int_tuple<(3,4)>, %b: !fly.layout<2:1>) {
  // expected-error @+2 {{tuple and elem must both be int tuples or both be layouts}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.append(%a, %b) : (!fly.int_tuple<(3,4)>, !fly.layout<2:1>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @append_rank(%a: !fly.layout<(4,2):(1,4)>, %b: !fly.layout<1:0>) {
  // expected-error @+2 {{cannot extend a tuple of rank 2 to rank 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.append<1> (%a, %b) : (!fly.layout<(4,2):(1,4)>, !fly.layout<1:0>) -> !fly.layout<4:1>
  return
}

// -----

func.func @add_basis(%a: !fly.int_tuple<1E0>, %b: !fly.int_tuple<4>) {
  // expected-error @+2 {{cannot add an integer to a coordinate}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<1E0>, !fly.int_tuple<4>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @mul_bases(%a: !fly.int_tuple<1E0>, %b: !fly.int_tuple<1E1>) {
  // expected-error @+2 {{two basis leaves cannot be multiplied}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<1E0>, !fly.int_tuple<1E1>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @div_basis(%a: !fly.int_tuple<4>, %b: !fly.int_tuple<1E1>) {
  // expected-error @+2 {{this operation does not take basis leaves}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_div(%a, %b) : (!fly.int_tuple<4>, !fly.int_tuple<1E1>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @product_basis(%a: !fly.int_tuple<(1E0,1E1)>) {
  // expected-error @+2 {{the product of basis leaves is not defined}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_product(%a) : (!fly.int_tuple<(1E0,1E1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @product_like(%a: !fly.int_tuple<3>, %b: !fly.int_tuple<(1,2)>) {
  // expected-error @+2 {{product_like: the guide has more modes than the tuple}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_product_like(%a, %b) : (!fly.int_tuple<3>, !fly.int_tuple<(1,2)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @product_like_rank(%a: !fly.int_tuple<(3,4)>, %b: !fly.int_tuple<(1,2,3)>) {
  // expected-error @+2 {{product_like: the guide has more modes than the tuple}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_product_like(%a, %b) : (!fly.int_tuple<(3,4)>, !fly.int_tuple<(1,2,3)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @shape_div(%a: !fly.int_tuple<(6,4)>, %b: !fly.int_tuple<5>) {
  // expected-error @+2 {{shape division: neither of 6 and 5 divides the other}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.shape_div(%a, %b) : (!fly.int_tuple<(6,4)>, !fly.int_tuple<5>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @ceil_div_zero(%a: !fly.int_tuple<6>, %b: !fly.int_tuple<0>) {
  // expected-error @+2 {{division by zero}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<6>, !fly.int_tuple<0>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @size_basis(%a: !fly.layout<(1E0,4):(1,1)>) {
  // expected-error @+2 {{the product of basis leaves is not defined}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.size(%a) : (!fly.layout<(1E0,4):(1,1)>) -> !fly.int_tuple<1>
  return
}

// -----

func.func @left_inverse(%a: !fly.layout<(4,8):(1,2)>) {
  // expected-error @+2 {{left inverse: stride 2 does not clear the 4 indices of the modes of smaller stride}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.left_inverse(%a) : (!fly.layout<(4,8):(1,2)>) -> !fly.layout<1:1>
  return
}

// -----

func.func @too_large(%a: !fly.int_tuple<2147483647>, %b: !fly.int_tuple<2>) {
  // expected-error @+2 {{integer overflow: 4294967294 does not fit in 32 bits}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<2147483647>, !fly.int_tuple<2>) -> !fly.int_tuple<1>
  return
}
