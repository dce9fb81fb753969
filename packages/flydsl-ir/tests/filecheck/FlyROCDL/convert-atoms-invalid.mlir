// Copies, atomics and pointers that have no instruction: which operand, and what it must be.
// RUN: fly-opt %s --split-input-file --verify-diagnostics --convert-fly-to-rocdl

gpu.module @m {
  gpu.func @copy_types(%s: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, %d: !fly.memref<i32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
    // expected-error @+2 {{src/dst element types mismatch: 'f32' and 'i32'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, !fly.memref<i32, register, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @load_coordinates(%s: !fly.coord_tensor<0, 1:1E0>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{copies coordinates, which '!fly.universal_copy<32>' does not take}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.coord_tensor<0, 1:1E0>, !fly.memref<f32, register, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @lds_source(%s: !fly.memref<f32, global, 1:1>, %d: !fly.memref<f32, shared, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
    // expected-error @+3 {{this copy goes from #fly_rocdl.buffer_desc to shared memory, got '!fly.memref<f32, global, 1:1>' to '!fly.memref<f32, shared, 1:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna3.buffer_copy_lds<32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>, !fly.memref<f32, global, 1:1>, !fly.memref<f32, shared, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @global_lds(%s: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, %d: !fly.memref<f32, shared, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna4.global_load_async_lds<32>, 32>
    // expected-error @+3 {{this copy goes from global to shared memory, got '!fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>' to '!fly.memref<f32, shared, 1:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna4.global_load_async_lds<32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna4.global_load_async_lds<32>, 32>, !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, !fly.memref<f32, shared, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @transpose_source(%s: !fly.memref<f16, global, 4:1>, %d: !fly.memref<f16, register, 4:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>
    // expected-error @+3 {{a transposing read takes shared memory, got '!fly.memref<f16, global, 4:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>, !fly.memref<f16, global, 4:1>, !fly.memref<f16, register, 4:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @transpose_target(%s: !fly.memref<f16, shared, 4:1>, %d: !fly.memref<f16, global, 4:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>
    // expected-error @+3 {{a transposing read goes to registers with a static layout, got '!fly.memref<f16, global, 4:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>, !fly.memref<f16, shared, 4:1>, !fly.memref<f16, global, 4:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @transpose_dynamic(%s: !fly.memref<f16, shared, 4:1>, %d: !fly.memref<f16, register, ?:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>
    // expected-error @+3 {{a transposing read goes to registers with a static layout, got '!fly.memref<f16, register, ?:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>, !fly.memref<f16, shared, 4:1>, !fly.memref<f16, register, ?:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @atomic_target(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, global, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>
    // expected-error @+3 {{a buffer atomic goes from registers to #fly_rocdl.buffer_desc, got '!fly.memref<f32, register, 1:1>' to '!fly.memref<f32, global, 1:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna3.buffer_atomic<add, f32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, global, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @universal_atomic_float(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, global, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_atomic<and, f32>, 32>
    // expected-error @+3 {{universal atomic and does not work on 'f32'}}
    // expected-error @+2 {{cannot emit '!fly.universal_atomic<and, f32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly.universal_atomic<and, f32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, global, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @universal_atomic_small_float(%s: !fly.memref<f8E5M2, register, 1:1>, %d: !fly.memref<f8E5M2, global, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 8 : i32} : !fly.copy_atom<!fly.universal_atomic<add, f8E5M2>, 8>
    // expected-error @+3 {{universal atomic add does not work on 'f8E5M2', expected an integer of 8, 16, 32 or 64 bits}}
    // expected-error @+2 {{cannot emit '!fly.universal_atomic<add, f8E5M2>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly.universal_atomic<add, f8E5M2>, 8>, !fly.memref<f8E5M2, register, 1:1>, !fly.memref<f8E5M2, global, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @unknown_scope(%p: !llvm.ptr<1>, %v: i32) kernel {
    // expected-error @+1 {{'llvm.atomicrmw' op has the unknown syncscope "wave", expected one of: system (""), "agent", "cluster", "workgroup", "wavefront" or "singlethread", or one of them for one address space ("one-as", "agent-one-as", ...)}}
    %0 = llvm.atomicrmw add %p, %v syncscope("wave") monotonic : !llvm.ptr<1>, i32
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @unknown_scope_of_an_atom(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, global, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_atomic<add, f32, "gpu">, 32>
    // expected-error @+1 {{'llvm.atomicrmw' op has the unknown syncscope "gpu"}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly.universal_atomic<add, f32, "gpu">, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, global, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @huge_registers() kernel {
    // expected-error @+1 {{'fly.make_ptr' op of registers: allocSize = 600000 elements of 'f32' are more than the 2097144 bytes that a lane can have}}
    %p = fly.make_ptr() {dictAttrs = {allocSize = 600000 : i64}} : () -> !fly.ptr<f32, register>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @bit_copy(%s: !fly.memref<i4, global, 1:1>, %d: !fly.memref<i4, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 4 : i32} : !fly.copy_atom<!fly.universal_copy<4>, 4>
    // expected-error @+3 {{a universal copy through memory needs whole bytes, got 4 bits}}
    // expected-error @+2 {{cannot emit '!fly.universal_copy<4>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly.universal_copy<4>, 4>, !fly.memref<i4, global, 1:1>, !fly.memref<i4, register, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @bit_copy_ssa(%s: !fly.memref<i8, global, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 7 : i32} : !fly.copy_atom<!fly.universal_copy<7>, 7>
    // expected-error @+3 {{a universal copy through memory needs whole bytes, got 7 bits}}
    // expected-error @+2 {{cannot emit '!fly.universal_copy<7>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call_ssa'}}
    %v = fly.copy_atom_call_ssa(%a, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<7>, 7>, !fly.memref<i8, global, 1:1>) -> i7
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @tdm_element(%s: !fly.memref<f4E2M1FN, global, 64:1>, %d: !fly.memref<f4E2M1FN, shared, 64:1>) kernel {
    %a = fly.make_copy_atom {valBits = 4 : i32} : !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 4>
    // expected-error @+3 {{gfx1250 TDM moves elements of 1, 2, 4 or 8 bytes, got 'f4E2M1FN'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 4>, !fly.memref<f4E2M1FN, global, 64:1>, !fly.memref<f4E2M1FN, shared, 64:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @tdm_rank(%s: !fly.memref<f16, global, 64:1>, %d: !fly.memref<f16, shared, 64:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>
    // expected-error @+3 {{gfx1250 TDM of rank 2 needs a global tensor with 2 flat modes of static extent, got '!fly.memref<f16, global, 64:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>, !fly.memref<f16, global, 64:1>, !fly.memref<f16, shared, 64:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @tdm_stride(%s: !fly.memref<f16, global, 64:2>, %d: !fly.memref<f16, shared, 64:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>
    // expected-error @+3 {{gfx1250 TDM: the last mode of the global tensor must have stride 1, got '!fly.memref<f16, global, 64:2>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>, !fly.memref<f16, global, 64:2>, !fly.memref<f16, shared, 64:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @tensor_store(%s: !fly.memref<f16, global, (4,64):(64,1)>, %d: !fly.memref<f16, shared, (4,64):(64,1)>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [4, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
    // expected-error @+3 {{a tensor store goes from shared memory to coordinates, got '!fly.memref<f16, global, (4,64):(64,1)>' to '!fly.memref<f16, shared, (4,64):(64,1)>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna5.tensor_store<shape = [4, 64], elem = f16, tensor2tdm = (1E0,1E1)>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [4, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>, !fly.memref<f16, global, (4,64):(64,1)>, !fly.memref<f16, shared, (4,64):(64,1)>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @ssa_width(%s: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
    // expected-error @+3 {{the atom loads 32 bits, but the result is 'vector<4xf32>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna3.buffer_copy<32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call_ssa'}}
    %r = "fly.copy_atom_call_ssa"(%a, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>) -> vector<4xf32>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @ssa_atomic(%s: vector<1xf32>, %d: !fly.memref<f32, global, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>
    // expected-error @+3 {{a buffer atomic writes #fly_rocdl.buffer_desc, got '!fly.memref<f32, global, 1:1>'}}
    // expected-error @+2 {{cannot emit '!fly_rocdl.cdna3.buffer_atomic<add, f32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call_ssa'}}
    fly.copy_atom_call_ssa(%a, %s, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>, vector<1xf32>, !fly.memref<f32, global, 1:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @register_pointer(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{of registers needs dictAttrs = {allocSize = N}}}
    // expected-error @+1 {{failed to legalize operation 'fly.make_ptr'}}
    %p = fly.make_ptr() : () -> !fly.ptr<f32, register>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @shared_pointer(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{of shared memory needs dictAttrs = {allocBytes = N, allocAlign = N}}}
    // expected-error @+1 {{failed to legalize operation 'fly.make_ptr'}}
    %p = fly.make_ptr() {dictAttrs = {allocBytes = 4 : i64}} : () -> !fly.ptr<f32, shared>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @global_pointer(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{cannot make a pointer in the address space of '!fly.ptr<f32, global>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.make_ptr'}}
    %p = fly.make_ptr() : () -> !fly.ptr<f32, global>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @buffer_pointer(%s: !fly.memref<f32, register, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{of a buffer takes a pointer, an i16 stride, an i64 size in bytes and i32 flags}}
    // expected-error @+1 {{failed to legalize operation 'fly.make_ptr'}}
    %p = fly.make_ptr() : () -> !fly.ptr<f32, #fly_rocdl.buffer_desc>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @buffer_address(%s: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{pointer address space does not lower to a bare ROCDL LLVM pointer}}
    // expected-error @+1 {{failed to legalize operation 'fly.extract_aligned_pointer_as_index'}}
    %p = fly.extract_aligned_pointer_as_index %s : <f32, #fly_rocdl.buffer_desc, 1:1> -> !llvm.ptr<8>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @buffer_width(%s: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %d: !fly.memref<f32, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
    // expected-error @+2 {{a buffer access moves 8, 16, 32, 64, 96 or 128 bits, got 'vector<8xf32>'}}
    // expected-error @+1 {{failed to legalize operation 'fly.ptr.load'}}
    %v = fly.ptr.load(%s) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> vector<8xf32>
    gpu.return
  }
}

// -----

func.func @dynamic_shared() {
  // expected-error @+2 {{get_dyn_shared must be inside a gpu.module}}
  // expected-error @+1 {{failed to legalize operation 'fly.get_dyn_shared'}}
  %p = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
  return
}

// -----

func.func @shared_outside() {
  // expected-error @+2 {{shared make_ptr must be inside a gpu.module}}
  // expected-error @+1 {{failed to legalize operation 'fly.make_ptr'}}
  %p = fly.make_ptr() {dictAttrs = {allocBytes = 4 : i64, allocAlign = 4 : i64}} : () -> !fly.ptr<f32, shared>
  return
}

// -----

// The view of one element is an address, of which the atom moves 16 bytes.
!at = !fly.copy_atom<!fly.universal_copy<128>, 16>
!s = !fly.memref<f16, shared, 1:1, align<16>, S<3,3,3>>
gpu.module @m {
  gpu.func @swizzled_address(%s: !s, %d: !fly.memref<f16, register, 8:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    // expected-error @+2 {{moves 128 consecutive bits, but the swizzle of '!fly.memref<f16, shared, 1:1, align<16>, S<3,3,3>>' permutes chunks of 64}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!at, !s, !fly.memref<f16, register, 8:1>) -> ()
    gpu.return
  }
}

// -----

// 12 bytes in rows of 12 begin inside of a chunk of 16; aligned to 16 they do not.
!at = !fly.copy_atom<!fly.universal_copy<96>, 32>
!s = !fly.memref<f32, shared, 3:1, S<2,4,3>>
!t = !fly.memref<f32, shared, 3:1, align<16>, S<2,4,3>>
!r = !fly.memref<f32, register, 3:1>
gpu.module @m {
  gpu.func @straddling(%s: !s, %t: !t, %d: !r) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call(%a, %t, %d) : (!at, !t, !r) -> ()
    // expected-error @+2 {{moves 96 consecutive bits, which may lie in two of the chunks of 128 that the swizzle of '!fly.memref<f32, shared, 3:1, S<2,4,3>>' permutes: align them to 16 bytes}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %d) : (!at, !s, !r) -> ()
    gpu.return
  }
}
