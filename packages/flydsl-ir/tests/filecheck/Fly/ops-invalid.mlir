// Preconditions of the algebra are diagnosed and name the condition.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

func.func @size(%l: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{inferred type(s) '!fly.int_tuple<32>' are incompatible with return type(s) of operation '!fly.int_tuple<33>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.size(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<33>
  return
}

// -----

func.func @tuple(%i: i32) {
  // expected-error @+1 {{operand 0 has type 'i32' but its leaf is 64 bits wide}}
  %t = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?{i64}>
  return
}

// -----

func.func @tuple(%i: i32) {
  // expected-error @+1 {{has 1 operands but its result type has 2 dynamic leaves}}
  %t = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<(?,?)>
  return
}

// -----

func.func @static() {
  // expected-error @+1 {{needs a static type}}
  %t = fly.static : !fly.int_tuple<?>
  return
}

// -----

func.func @composition(%a: !fly.layout<(4,6):(6,1)>, %b: !fly.layout<3:5>) {
  // expected-error @+2 {{composition: stride 5 neither divides nor is divided by mode 0 of extent 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %c = fly.composition(%a, %b) : (!fly.layout<(4,6):(6,1)>, !fly.layout<3:5>) -> !fly.layout<3:5>
  return
}

// -----

func.func @slice(%a: !fly.int_tuple<(3,4)>, %c: !fly.int_tuple<(1,2)>) {
  // expected-error @+2 {{a slice must keep at least one mode}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.slice(%a, %c) : (!fly.int_tuple<(3,4)>, !fly.int_tuple<(1,2)>) -> !fly.int_tuple<3>
  return
}

// -----

func.func @get(%a: !fly.int_tuple<(3,4)>) {
  // expected-error @+2 {{mode 2 does not exist in a tuple of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.get(%a) {mode = array<i32: 2>} : (!fly.int_tuple<(3,4)>) -> !fly.int_tuple<3>
  return
}

// -----

func.func @divide(%a: !fly.int_tuple<(3,4)>, %b: !fly.int_tuple<(1,0)>) {
  // expected-error @+2 {{division by zero}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.int_tuple_div(%a, %b) : (!fly.int_tuple<(3,4)>, !fly.int_tuple<(1,0)>) -> !fly.int_tuple<3>
  return
}

// -----

func.func @shape_div(%a: !fly.int_tuple<6>, %b: !fly.int_tuple<4>) {
  // expected-error @+2 {{neither of 6 and 4 divides the other}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.shape_div(%a, %b) : (!fly.int_tuple<6>, !fly.int_tuple<4>) -> !fly.int_tuple<2>
  return
}

// -----

func.func @overflow(%a: !fly.int_tuple<65536>) {
  // expected-error @+2 {{integer overflow: 4294967296 does not fit in 32 bits}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.int_tuple_mul(%a, %a) : (!fly.int_tuple<65536>, !fly.int_tuple<65536>) -> !fly.int_tuple<0>
  return
}

// -----

func.func @complement(%a: !fly.layout<(2,2):(1,3)>) {
  // expected-error @+2 {{stride 3 of mode 1 is not a multiple of 2, where the modes of smaller stride end}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.complement(%a) : (!fly.layout<(2,2):(1,3)>) -> !fly.layout<1:0>
  return
}

// -----

func.func @zipped(%a: !fly.layout<(4,6):(6,1)>, %t: !fly.tile<[2|*]>) {
  // expected-error @+2 {{a mode covered by the tile must split into two parts, but has rank 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %s = fly.zipped_divide(%a, %t) : (!fly.layout<(4,6):(6,1)>, !fly.tile<[2|*]>) -> !fly.layout<1:0>
  return
}

// -----

func.func @store_vec(%m: !fly.memref<f32, register, 4:1>, %v: vector<4xf16>) {
  // expected-error @+1 {{stores a vector of 'f32', got 'vector<4xf16>'}}
  fly.memref.store_vec(%v, %m) : (vector<4xf16>, !fly.memref<f32, register, 4:1>) -> ()
  return
}

// -----

func.func @store(%m: !fly.memref<f32, register, 4:1>, %i: !fly.int_tuple<0>, %x: i8) {
  // expected-error @+1 {{stores 'i8' into a tensor of 'f32'}}
  fly.memref.store(%x, %m, %i) : (i8, !fly.memref<f32, register, 4:1>, !fly.int_tuple<0>) -> ()
  return
}

// -----

func.func @fragment(%a: !fly.memref<f32, global, ?:1>) {
  // expected-error @+2 {{a fragment needs a static shape}}
  // expected-error @+1 {{failed to infer returned types}}
  %f = fly.make_fragment_like(%a) : (!fly.memref<f32, global, ?:1>) -> !fly.memref<f32, register, 4:1>
  return
}

// -----

// A pointer and a number are not described by their types.
func.func @static_pointer() {
  // expected-error @+1 {{needs a type that describes its value, got '!fly.ptr<f32, global>'}}
  %p = fly.static : !fly.ptr<f32, global>
  return
}

// -----

func.func @static_number() {
  // expected-error @+1 {{needs a type that describes its value, got 'i32'}}
  %n = fly.static : i32
  return
}

// -----

func.func @store_vec_size(%m: !fly.memref<f32, global, (2,2):(1,8)>, %v: vector<2xf32>) {
  // expected-error @+1 {{stores a flat vector of all elements of '!fly.memref<f32, global, (2,2):(1,8)>', got 'vector<2xf32>'}}
  fly.memref.store_vec(%v, %m) : (vector<2xf32>, !fly.memref<f32, global, (2,2):(1,8)>) -> ()
  return
}

// -----

func.func @store_vec_rank(%m: !fly.memref<f32, global, (2,2):(1,8)>, %v: vector<2x2xf32>) {
  // expected-error @+1 {{stores a flat vector of all elements}}
  fly.memref.store_vec(%v, %m) : (vector<2x2xf32>, !fly.memref<f32, global, (2,2):(1,8)>) -> ()
  return
}
