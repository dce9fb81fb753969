// Calls with values: where the predicate, the result and the destination are.
// RUN: fly-opt %s --split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

!at = !fly.copy_atom<!fly.universal_copy<128>, 32>
!g = !fly.memref<f32, global, 4:1, align<16>>
!s = !fly.memref<f32, shared, 4:1, align<16>>
gpu.module @m {
  // From memory to memory it goes through an integer; a value is itself.
  // CHECK-LABEL: gpu.func @universal(
  // CHECK-NEXT: %[[V:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> i128
  // CHECK-NEXT: llvm.store %[[V]], %{{.*}} : i128, !llvm.ptr<3>
  // CHECK-NEXT: gpu.return %arg2
  gpu.func @universal(%g: !g, %s: !s, %v: vector<4xf32>) -> vector<4xf32> {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call_ssa(%a, %g, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, !g, !s) -> ()
    %r = fly.copy_atom_call_ssa(%a, %v) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, vector<4xf32>) -> vector<4xf32>
    gpu.return %r : vector<4xf32>
  }
}

// -----

// From memory to a value the type of the result is loaded, a value is stored as it is: also where an atom is narrower.
!at = !fly.copy_atom<!fly.universal_copy<32>, 32>
!g = !fly.memref<f32, global, 4:1, align<16>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @values(
  // CHECK-NEXT: %[[V:.*]] = llvm.load %arg0 : !llvm.ptr<1> -> vector<4xf32>
  // CHECK-NEXT: llvm.store %[[V]], %arg1 : vector<4xf32>, !llvm.ptr<1>
  gpu.func @values(%g: !g, %h: !g) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %r = fly.copy_atom_call_ssa(%a, %g) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !g) -> vector<4xf32>
    fly.copy_atom_call_ssa(%a, %r, %h) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, vector<4xf32>, !g) -> ()
    gpu.return
  }
}

// -----

// A predicate in memory is loaded, for every kind of atom; its swizzle is applied.
!buffer = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
!dma = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
!b = !fly.memref<i32, #fly_rocdl.buffer_desc, 1:1>
!p = !fly.memref<i1, register, 1:1>
!q = !fly.memref<i1, shared, 1:1, S<1,0,3>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @predicates(
  // CHECK: %[[P:.*]] = llvm.load %{{.*}} : !llvm.ptr<5> -> i1
  // CHECK: scf.if %[[P]] {
  // CHECK: rocdl.raw.ptr.buffer.store
  // CHECK: %[[X:.*]] = arith.xori
  // CHECK: %[[A:.*]] = llvm.inttoptr %[[X]]
  // CHECK: %[[Q:.*]] = llvm.load %[[A]] : !llvm.ptr<3> -> i1
  // CHECK: scf.if %[[Q]] {
  // CHECK: rocdl.raw.ptr.buffer.load.lds
  gpu.func @predicates(%v: i32, %b: !b, %l: !fly.memref<i32, shared, 1:1>, %p: !p, %q: !q) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !buffer
    fly.copy_atom_call_ssa(%a, %v, %b, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!buffer, i32, !b, !p) -> ()
    %c = fly.make_copy_atom {valBits = 32 : i32} : !dma
    fly.copy_atom_call_ssa(%c, %b, %l, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!dma, !b, !fly.memref<i32, shared, 1:1>, !q) -> ()
    gpu.return
  }
}

// -----

// An atomic gives back what it was given, also without a predicate.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>
!b = !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @atomic(
  // CHECK-SAME: %[[V:[^:]*]]: f32
  // CHECK: rocdl.raw.ptr.buffer.atomic.fadd %[[V]]
  // CHECK: gpu.return %[[V]] : f32
  gpu.func @atomic(%v: f32, %b: !b) -> f32 {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %r = fly.copy_atom_call_ssa(%a, %v, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, f32, !b) -> f32
    gpu.return %r : f32
  }
}

// -----

// LLVM knows no signs; the comparison is unsigned all the same.
!at = !fly.copy_atom<!fly.universal_atomic<max, ui32>, 32>
!r = !fly.memref<ui32, register, 1:1>
!g = !fly.memref<ui32, global, 1:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @unsigned(
  // CHECK: %[[V:.*]] = llvm.load %{{.*}} : !llvm.ptr<5> -> i32
  // CHECK: llvm.atomicrmw umax %{{.*}}, %[[V]] monotonic : !llvm.ptr<1>, i32
  gpu.func @unsigned(%v: !r, %g: !g) {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call(%a, %v, %g) : (!at, !r, !g) -> ()
    gpu.return
  }
}
