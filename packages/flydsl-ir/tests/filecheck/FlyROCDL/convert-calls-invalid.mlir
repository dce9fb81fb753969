// Operands of calls and allocations that no instruction takes: which one, and what it must be.
// RUN: fly-opt %s --split-input-file --verify-diagnostics --convert-fly-to-rocdl

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
!a = !fly.memref<f16, register, 4:1>
!d = !fly.memref<f32, register, 4:1>
!x = !fly.memref<f32, global, 4:1>
gpu.module @m {
  gpu.func @destination_space(%d: !d, %a: !a, %x: !x) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand D must be a register memref of 128 bits with consecutive elements, got '!fly.memref<f32, global, 4:1>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %x, %a, %a, %d) : (!at, !x, !a, !a, !d) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
!a = !fly.memref<f16, register, 4:1>
!d = !fly.memref<f32, register, 4:1>
!x = !fly.memref<f32, register, 2:1>
gpu.module @m {
  gpu.func @destination_size(%d: !d, %a: !a, %x: !x) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand D must be a register memref of 128 bits with consecutive elements, got '!fly.memref<f32, register, 2:1>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %x, %a, %a, %d) : (!at, !x, !a, !a, !d) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
!a = !fly.memref<f16, register, 4:1>
!d = !fly.memref<f32, register, 4:1>
!x = !fly.memref<f32, #fly_rocdl.buffer_desc, 4:1>
gpu.module @m {
  gpu.func @destination_buffer(%d: !d, %a: !a, %x: !x) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand D must be a register memref of 128 bits}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %x, %a, %a, %d) : (!at, !x, !a, !a, !d) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
!a = !fly.memref<f16, register, 4:1>
!d = !fly.memref<f32, register, 4:1>
!x = !fly.memref<f16, register, (2,2):(2,1)>
gpu.module @m {
  gpu.func @order(%d: !d, %a: !a, %x: !x) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand A must be a register memref of 64 bits with consecutive elements, got '!fly.memref<f16, register, (2,2):(2,1)>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %d, %x, %a, %d) : (!at, !d, !x, !a, !d) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
gpu.module @m {
  gpu.func @mma_scalable(%x: vector<[4]xf16>, %a: vector<4xf16>, %c: vector<4xf32>) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand A of '!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>' must have the width of 'vector<4xf16>', got 'vector<[4]xf16>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.mma_atom_call_ssa(%m, %x, %a, %c) : (!at, vector<[4]xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
gpu.module @m {
  gpu.func @mma_two_dimensions(%x: vector<2x2xf16>, %a: vector<4xf16>, %c: vector<4xf32>) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand A of '!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>' must have the width of 'vector<4xf16>', got 'vector<2x2xf16>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.mma_atom_call_ssa(%m, %x, %a, %c) : (!at, vector<2x2xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
gpu.module @m {
  gpu.func @mma_index(%x: index, %a: vector<4xf16>, %c: vector<4xf32>) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand A of '!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>' must have the width of 'vector<4xf16>', got 'index'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.mma_atom_call_ssa(%m, %x, %a, %c) : (!at, index, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
gpu.module @m {
  gpu.func @mma_destination(%x: i32, %a: vector<4xf16>, %c: vector<4xf32>) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{operand D must be a register memref of 128 bits with consecutive elements, got 'i32'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call_ssa(%m, %a, %a, %c) dst = %x : (!at, i32, vector<4xf16>, vector<4xf16>, vector<4xf32>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0>>
!a = !fly.memref<f4E2M1FN, register, 32:1>
!d = !fly.memref<f32, register, 4:1>
!s = !fly.memref<i8, register, ?:1>
gpu.module @m {
  gpu.func @scale_dynamic(%a: !a, %d: !d, %s: !s) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{the scale of operand B must be a register memref with consecutive elements, got '!fly.memref<i8, register, ?:1>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %d, %a, [%a, %s], %d) : (!at, !d, !a, !a, !s, !d) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0>>
!a = !fly.memref<f4E2M1FN, register, 32:1>
!d = !fly.memref<f32, register, 4:1>
!s = !fly.memref<i32, shared, 1:1>
gpu.module @m {
  gpu.func @scale_space(%a: !a, %d: !d, %s: !s) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{the scale of operand B must be a register memref with consecutive elements, got '!fly.memref<i32, shared, 1:1>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %d, %a, [%a, %s], %d) : (!at, !d, !a, !a, !s, !d) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
gpu.module @m {
  gpu.func @fma_operand(%x: f16, %v: f32) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{a universal FMA of 'f32' got an operand of type 'f16'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.mma_atom_call_ssa(%m, %x, %v, %v) : (!at, f16, f32, f32) -> f32
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly.universal_fma<1x1x1, (f8E5M2, f8E5M2) -> f8E5M2>>
gpu.module @m {
  gpu.func @fma_small(%x: f8E5M2) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{a universal FMA needs f16, bf16, f32 or f64, got 'f8E5M2'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.mma_atom_call_ssa(%m, %x, %x, %x) : (!at, f8E5M2, f8E5M2, f8E5M2) -> f8E5M2
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!b = !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>
gpu.module @m {
  gpu.func @fma_buffer(%x: !b) {
    %m = fly.make_mma_atom : !at
    // expected-error @+3 {{a universal FMA does not take operands in buffers}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.mma_atom_call(%m, %x, %x, %x, %x) : (!at, !b, !b, !b, !b) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @other_value(%v: f32) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{a copy of a value has its type, got 'f32' to 'i32'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.copy_atom_call_ssa(%a, %v) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, f32) -> i32
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @no_old(%g: !g, %p: i1) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{needs the old destination, which a false predicate keeps}}
    %r = fly.copy_atom_call_ssa(%a, %g, %p) {operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (!at, !g, i1) -> f32
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @other_old(%g: !g, %o: i32, %p: i1) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{has a result of type 'f32', but the old destination is 'i32'}}
    %r = fly.copy_atom_call_ssa(%a, %g, %o, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!at, !g, i32, i1) -> f32
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @predicate(%g: !g, %v: f32, %p: i32) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{a predicate is an i1 or a memref of i1, got 'i32'}}
    fly.copy_atom_call_ssa(%a, %v, %g, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!at, f32, !g, i32) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @fill(%g: !g, %v: f32) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{fills with zero where a predicate is false, and has no predicate}}
    fly.copy_atom_call_ssa(%a, %v, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, zeroFill} : (!at, f32, !g) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @destination_value(%v: f32) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{without a result needs a tensor as its destination, got 'f32'}}
    fly.copy_atom_call_ssa(%a, %v, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, f32, f32) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @source(%p: !llvm.ptr<1>) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{source must be a tensor, a scalar or a vector of one dimension, got '!llvm.ptr<1>'}}
    %r = fly.copy_atom_call_ssa(%a, %p) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !llvm.ptr<1>) -> f32
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
gpu.module @m {
  gpu.func @result(%g: !g) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+1 {{result must be a scalar or a vector of one dimension, got 'vector<1x1xf32>'}}
    %r = fly.copy_atom_call_ssa(%a, %g) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !g) -> vector<1x1xf32>
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 1:1>
!p = !fly.memref<i1, #fly_rocdl.buffer_desc, 1:1>
gpu.module @m {
  gpu.func @predicate_buffer(%g: !g, %r: !fly.memref<f32, register, 1:1>, %p: !p) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+2 {{a predicate cannot be in a buffer, got '!fly.memref<i1, #fly_rocdl.buffer_desc, 1:1>'}}
    // expected-error @+1 {{failed to legalize}}
    fly.copy_atom_call(%a, %g, %r, %p) : (!at, !g, !fly.memref<f32, register, 1:1>, !p) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
!b = !fly.memref<i32, #fly_rocdl.buffer_desc, 1:1>
gpu.module @m {
  gpu.func @lds_result(%b: !b) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{a copy into LDS has no result in registers}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.copy_atom_call_ssa(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !b) -> i32
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_atomic<add, i32>, 32>
!g = !fly.memref<i32, global, 1:1>
gpu.module @m {
  gpu.func @atomic_width(%v: i64, %g: !g) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{a universal atomic of 'i32' takes a value of type 'i32', got 'i64'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.copy_atom_call_ssa(%a, %v, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, i64, !g) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_atomic<add, i32>, 32>
!g = !fly.memref<i32, global, 1:1>
gpu.module @m {
  gpu.func @atomic_result(%v: i32, %g: !g) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{a universal atomic has no result}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.copy_atom_call_ssa(%a, %v, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, i32, !g) -> i32
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly.universal_atomic<add, i32>, 32>
!g = !fly.memref<i32, global, 1:1>
!b = !fly.memref<i32, #fly_rocdl.buffer_desc, 1:1>
gpu.module @m {
  gpu.func @atomic_buffer(%v: i32, %b: !b) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{the destination of a universal atomic must be in memory, got '!fly.memref<i32, #fly_rocdl.buffer_desc, 1:1>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize}}
    fly.copy_atom_call_ssa(%a, %v, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, i32, !b) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>
!b = !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>
gpu.module @m {
  gpu.func @buffer_atomic_result(%v: f32, %b: !b) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+2 {{'!fly_rocdl.cdna3.buffer_atomic<add, f32>' has no result of type 'i32'}}
    // expected-error @+1 {{failed to legalize}}
    %r = fly.copy_atom_call_ssa(%a, %v, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, f32, !b) -> i32
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @buffer_base(%b: !fly.ptr<f32, shared>, %s: i16, %n: i64, %f: i32) {
    // expected-error @+2 {{of a buffer needs a base in global memory, got '!fly.ptr<f32, shared>'}}
    // expected-error @+1 {{failed to legalize}}
    %p = fly.make_ptr(%b, %s, %n, %f) : (!fly.ptr<f32, shared>, i16, i64, i32) -> !fly.ptr<f32, #fly_rocdl.buffer_desc>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @shared_alignment() {
    // expected-error @+2 {{of shared memory: allocAlign must be a power of two, got 24}}
    // expected-error @+1 {{failed to legalize}}
    %p = fly.make_ptr() {dictAttrs = {allocBytes = 96 : i64, allocAlign = 24 : i64}} : () -> !fly.ptr<i8, shared>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @shared_wide() {
    // expected-error @+2 {{of shared memory needs dictAttrs = {allocBytes = N, allocAlign = N} with N >= 0}}
    // expected-error @+1 {{failed to legalize}}
    %p = fly.make_ptr() {dictAttrs = {allocBytes = 18446744073709551620 : i128, allocAlign = 8 : i64}} : () -> !fly.ptr<i8, shared>
    gpu.return
  }
}
