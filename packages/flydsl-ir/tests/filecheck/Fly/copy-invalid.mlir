// Copies that would not do what their layouts say.
// RUN: fly-opt %s --split-input-file --verify-diagnostics --fly-canonicalize --fly-layout-lowering

!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
func.func @element_types(%a: !atom, %s: !fly.memref<f32, register, 4:1>, %d: !fly.memref<f64, global, 4:1>) {
  // expected-error @+1 {{src/dst element types mismatch: 'f32' and 'f64'}}
  fly.copy(%a, %s, %d) : (!atom, !fly.memref<f32, register, 4:1>, !fly.memref<f64, global, 4:1>) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
func.func @element_types_of_a_call(%a: !atom, %s: !fly.memref<f16, register, 8:1>, %d: !fly.memref<bf16, global, 8:1>) {
  // expected-error @+1 {{src/dst element types mismatch: 'f16' and 'bf16'}}
  fly.copy_atom_call(%a, %s, %d) : (!atom, !fly.memref<f16, register, 8:1>, !fly.memref<bf16, global, 8:1>) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @zero_fill_of_nothing(%a: !atom, %s: !fly.memref<f32, global, 1:0>, %d: !fly.memref<f32, register, 1:0>) {
  // expected-error @+1 {{fills with zero where a predicate is false, and has no predicate}}
  fly.copy(%a, %s, %d) {zeroFill} : (!atom, !fly.memref<f32, global, 1:0>, !fly.memref<f32, register, 1:0>) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<128>, 8>
func.func @wider_than_what_is_consecutive(%a: !atom, %s: !fly.memref<i8, global, (8,2):(1,16)>, %d: !fly.memref<i8, register, 16:1>) {
  // expected-error @+1 {{moves 128 consecutive bits, but only 8 elements (64 bits) of !fly.memref<i8, global, (8,2):(1,16)> are consecutive: take a narrower atom}}
  fly.copy(%a, %s, %d) : (!atom, !fly.memref<i8, global, (8,2):(1,16)>, !fly.memref<i8, register, 16:1>) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<128>, 32>
!s = !fly.memref<f32, register, 4:1>
!d = !fly.memref<f32, global, (2,2):(?{i64},1)>
func.func @consecutive_perhaps(%a: !atom, %s: !s, %d: !d) {
  // expected-error @+1 {{whether the elements of !fly.memref<f32, global, (2,2):(?{i64},1)> are consecutive is known only at launch}}
  fly.copy(%a, %s, %d) : (!atom, !s, !d) -> ()
  return
}

// -----

!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!f = !fly.memref<f32, register, 1:0>
!h = !fly.memref<f16, register, 1:0>
func.func @product_types(%m: !mma, %a: !h, %b: !f, %c: !f) {
  // expected-error @+1 {{operand a is a fragment of 'f16', but '!fly.universal_fma<1x1x1, (f32, f32) -> f32>' takes 'f32'}}
  fly.gemm(%m, %c, %a, %b, %c) : (!mma, !f, !h, !f, !f) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<64>, 32>
func.func @a_part_of_the_values(%a: !atom, %s: !fly.memref<f32, global, 4:1>, %d: !fly.memref<f32, register, 4:1>) {
  %v = fly.get_iter(%s) : (!fly.memref<f32, global, 4:1>) -> !fly.ptr<f32, global>
  %w = fly.get_iter(%d) : (!fly.memref<f32, register, 4:1>) -> !fly.ptr<f32, register>
  %l = fly.static : !fly.layout<4:1>
  %x = fly.make_view(%v, %l) : (!fly.ptr<f32, global>, !fly.layout<4:1>) -> !fly.memref<f32, global, 4:1>
  %y = fly.make_view(%w, %l) : (!fly.ptr<f32, register>, !fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
  // expected-error @+1 {{one call moves 64 bits, but !fly.memref<f32, global, 4:1> holds 128}}
  fly.copy(%a, %x, %y) : (!atom, !fly.memref<f32, global, 4:1>, !fly.memref<f32, register, 4:1>) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<32>, 32>
!tiled = !fly.tiled_copy<!atom, !fly.layout<(16,1):(1,0)>, !fly.tile<[16]>>
!t = !fly.memref<f32, global, 24:1>
!part = !fly.memref<f32, global, ((1,1),2):((0,0),16)>
!frag = !fly.memref<f32, register, ((1,1),2):((1,1),1)>
func.func @overrun(%tiled: !tiled, %a: !atom, %s: !t, %d: !frag) {
  %i = fly.make_int_tuple() : () -> !fly.int_tuple<3>
  %p = fly.tiled_copy.partition_src(%tiled, %s, %i) : (!tiled, !t, !fly.int_tuple<3>) -> !part
  // expected-error @+1 {{overruns its tile: mode 0 of '!fly.memref<f32, global, 24:1>' has extent 24, which the copy takes in tiles of 16}}
  fly.copy(%a, %p, %d) : (!atom, !part, !frag) -> ()
  return
}

// -----

func.func @index(%t: !fly.memref<f32, register, (4,2):(1,4)>) {
  %i = fly.make_int_tuple() : () -> !fly.int_tuple<(4,0)>
  // expected-error @+2 {{index 4 is outside of a mode of !fly.memref<f32, register, (4,2):(1,4)>, whose extent is 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %v = fly.memref.load(%t, %i) : (!fly.memref<f32, register, (4,2):(1,4)>, !fly.int_tuple<(4,0)>) -> f32
  return
}

// -----

func.func @layout_profiles() {
  %s = fly.make_int_tuple() : () -> !fly.int_tuple<(4,2)>
  %d = fly.make_int_tuple() : () -> !fly.int_tuple<1>
  // expected-error @+2 {{of a layout differ in their profiles: every extent needs one stride}}
  // expected-error @+1 {{failed to infer returned types}}
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(4,2)>, !fly.int_tuple<1>) -> !fly.layout<(4,2):1>
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<64>, 32>
!s = !fly.memref<f32, global, (2,4):(1,2)>
!d = !fly.memref<f32, register, (2,4):(1,2)>
func.func @predicate_of_each_value(%a: !atom, %s: !s, %d: !d, %p: !fly.memref<i1, register, (2,4):(1,2)>) {
  // expected-error @+1 {{is one call of the atom, which takes one predicate, but got !fly.memref<i1, register, 2:1>}}
  fly.copy(%a, %s, %d, %p) : (!atom, !s, !d, !fly.memref<i1, register, (2,4):(1,2)>) -> ()
  return
}

// -----

!atom = !fly.copy_atom<!fly.universal_copy<64>, 32>
!s = !fly.memref<f32, global, (2,4):(1,2)>
!d = !fly.memref<f32, register, (2,4):(1,2)>
!p = !fly.memref<i1, register, (1,2,3):(0,1,2)>
func.func @predicate_of_another_copy(%a: !atom, %s: !s, %d: !d, %p: !p) {
  // expected-error @+1 {{has 4 parts, which the predicate !fly.memref<i1, register, (1,2,3):(0,1,2)> does not fit}}
  fly.copy(%a, %s, %d, %p) : (!atom, !s, !d, !p) -> ()
  return
}
