// RUN: fly-opt %s -split-input-file -verify-diagnostics --convert-fly-to-rocdl

gpu.module @m {
  gpu.func @swizzle_granularity(%p: !fly.ptr<f16, shared, align<64>, S<3,3,3>>) kernel {
    // expected-error@+2 {{byte size must divide swizzle base granularity: 16 bytes, granularity 8}}
    // expected-error@+1 {{failed to legalize operation}}
    %v = fly.ptr.load(%p) : (!fly.ptr<f16, shared, align<64>, S<3,3,3>>) -> vector<8xf16>
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
gpu.module @m {
  gpu.func @no_buffer(%s: !fly.memref<f32, global, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error@+3 {{a buffer copy goes between #fly_rocdl.buffer_desc and registers}}
    // expected-error@+2 {{cannot emit '!fly_rocdl.cdna3.buffer_copy<32>'}}
    // expected-error@+1 {{failed to legalize operation}}
    fly.copy_atom_call(%a, %s, %d) : (!at, !fly.memref<f32, global, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
gpu.module @m {
  gpu.func @no_field(%n: i32) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error@+3 {{this atom has no state field "imm_offset"; it has 'soffset'}}
    // expected-error@+2 {{cannot set "imm_offset"}}
    // expected-error@+1 {{failed to legalize operation}}
    %b = fly.atom.set_value(%a, "imm_offset", %n) : (!at, i32) -> !at
    gpu.return
  }
}

// -----

func.func @outside() {
  // expected-error@+2 {{shared make_ptr must be inside a gpu.module}}
  // expected-error@+1 {{failed to legalize operation}}
  %p = fly.make_ptr() {dictAttrs = {allocBytes = 96 : i64, allocAlign = 32 : i64}} : () -> !fly.ptr<i8, shared, align<32>>
  return
}

// -----

// The instruction takes consecutive elements, which these are not.
!at = !fly.copy_atom<!fly.universal_copy<128>, 32>
gpu.module @m {
  gpu.func @strided(%s: !fly.memref<f32, global, 4:64, align<16>>, %d: !fly.memref<f32, register, 4:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+2 {{moves 128 consecutive bits, but the elements of '!fly.memref<f32, global, 4:64, align<16>>' are not consecutive}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!at, !fly.memref<f32, global, 4:64, align<16>>, !fly.memref<f32, register, 4:1>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<128>, 32>
gpu.module @m {
  gpu.func @short(%s: !fly.memref<f32, global, 2:1, align<16>>, %d: !fly.memref<f32, register, 4:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+2 {{moves 128 bits, but '!fly.memref<f32, global, 2:1, align<16>>' holds only 64}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!at, !fly.memref<f32, global, 2:1, align<16>>, !fly.memref<f32, register, 4:1>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 1>
gpu.module @m {
  gpu.func @f(%s: !fly.memref<i1, #fly_rocdl.buffer_desc, 32:1>, %d: !fly.memref<i1, shared, 32:1>) kernel {
    %a = fly.make_copy_atom {valBits = 1 : i32} : !at
    // expected-error@+2 {{copies booleans, which take a byte each, as values of 1 bits; its atom needs valBits = 8}}
    // expected-error@+1 {{failed to legalize operation}}
    fly.copy_atom_call(%a, %s, %d) : (!at, !fly.memref<i1, #fly_rocdl.buffer_desc, 32:1>, !fly.memref<i1, shared, 32:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @negative_bytes() kernel {
    // expected-error@+2 {{of shared memory needs dictAttrs = {allocBytes = N, allocAlign = N} with N >= 0}}
    // expected-error@+1 {{failed to legalize operation}}
    %p = fly.make_ptr() {dictAttrs = {allocBytes = -4 : i64, allocAlign = 4 : i64}} : () -> !fly.ptr<f32, shared>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @no_elements() kernel {
    // expected-error@+2 {{of registers needs dictAttrs = {allocSize = N} with N > 0}}
    // expected-error@+1 {{failed to legalize operation}}
    %p = fly.make_ptr() {dictAttrs = {allocSize = 0 : i64}} : () -> !fly.ptr<f32, register>
    gpu.return
  }
}

// -----

// Its address is no multiple of the new element, in which the offset is counted.
gpu.module @m {
  gpu.func @recast(%p: !fly.ptr<f16, #fly_rocdl.buffer_desc>) kernel {
    %n = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    %q = fly.add_offset(%p, %n) : (!fly.ptr<f16, #fly_rocdl.buffer_desc>, !fly.int_tuple<3>) -> !fly.ptr<f16, #fly_rocdl.buffer_desc>
    // expected-error@+2 {{element 3 of 'f16' is inside an element of 'i32'}}
    // expected-error@+1 {{failed to legalize operation}}
    %r = fly.recast_iter(%q) : (!fly.ptr<f16, #fly_rocdl.buffer_desc>) -> !fly.ptr<i32, #fly_rocdl.buffer_desc>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @two_dimensions(%p: !fly.ptr<f32, global>) {
    // expected-error@+2 {{an access is of a scalar or of a vector of one dimension and known length, got 'vector<2x2xf32>'}}
    // expected-error@+1 {{failed to legalize operation 'fly.ptr.load'}}
    %v = fly.ptr.load(%p) : (!fly.ptr<f32, global>) -> vector<2x2xf32>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @scalable(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %v: vector<[4]xf32>) {
    // expected-error@+2 {{an access is of a scalar or of a vector of one dimension and known length, got 'vector<[4]xf32>'}}
    // expected-error@+1 {{failed to legalize operation 'fly.ptr.store'}}
    fly.ptr.store(%v, %p) : (vector<[4]xf32>, !fly.ptr<f32, #fly_rocdl.buffer_desc>) -> ()
    gpu.return
  }
}
