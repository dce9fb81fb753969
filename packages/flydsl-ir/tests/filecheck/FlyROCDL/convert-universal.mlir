// Universal atoms: copies, atomics, multiply-add; in memory form and on values; with predicates.
// RUN: fly-opt %s --split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

!at = !fly.copy_atom<!fly.universal_copy<64>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @memory
  // CHECK-SAME: (%[[S:[^:]*]]: !llvm.ptr<1>, %[[D:[^:]*]]: !llvm.ptr<5>, %[[P:[^:]*]]: !llvm.ptr<5>)
  // CHECK: %[[N:.*]] = arith.constant 8 : i32
  // CHECK: %[[C:.*]] = llvm.load %[[P]] : !llvm.ptr<5> -> i1
  // CHECK: scf.if %[[C]] {
  // CHECK-NEXT: "llvm.intr.memcpy"(%[[D]], %[[S]], %[[N]]) <{isVolatile = false}> : (!llvm.ptr<5>, !llvm.ptr<1>, i32) -> ()
  // CODEGEN gfx942,gfx950: s_and_saveexec_b64, scratch_store_dwordx2
  // CODEGEN gfx1201,gfx1250: v_cmpx_eq_u32, scratch_store_b64
  gpu.func @memory(%s: !fly.memref<f32, global, 2:1, align<8>>, %d: !fly.memref<f32, register, 2:1>, %p: !fly.memref<i1, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call(%a, %s, %d, %p) : (!at, !fly.memref<f32, global, 2:1, align<8>>, !fly.memref<f32, register, 2:1>, !fly.memref<i1, register, 1:1>) -> ()
    gpu.return
  }
  // An access says its alignment only where LLVM would assume more.
  // CHECK-LABEL: gpu.func @values
  // CHECK: %[[A:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> vector<2xf32>
  // CHECK: llvm.store %[[A]], %{{.*}} {alignment = 4 : i64} : vector<2xf32>, !llvm.ptr<3>
  // CODEGEN gfx942,gfx950: ds_write2_b32
  // CODEGEN gfx1201,gfx1250: ds_store_2addr_b32
  gpu.func @values(%s: !fly.memref<f32, global, 2:1, align<8>>, %d: !fly.memref<f32, shared, 2:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %v = fly.copy_atom_call_ssa(%a, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !fly.memref<f32, global, 2:1, align<8>>) -> vector<2xf32>
    fly.copy_atom_call_ssa(%a, %v, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!at, vector<2xf32>, !fly.memref<f32, shared, 2:1>) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @old_value
  // CHECK: scf.if %{{.*}} -> (vector<2xf32>) {
  // CHECK-NEXT: llvm.load
  // CHECK: } else {
  // CHECK-NEXT: scf.yield %[[OLD:.*]] : vector<2xf32>
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_cbranch, global_store_(dwordx2|b64)
  gpu.func @old_value(%s: !fly.memref<f32, global, 2:1, align<8>>, %old: vector<2xf32>, %p: i1, %o: !llvm.ptr<1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %v = fly.copy_atom_call_ssa(%a, %s, %old, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!at, !fly.memref<f32, global, 2:1, align<8>>, vector<2xf32>, i1) -> vector<2xf32>
    llvm.store %v, %o : vector<2xf32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

!add = !fly.copy_atom<!fly.universal_atomic<add, f32, "agent">, 32>
!max = !fly.copy_atom<!fly.universal_atomic<max, i32>, 32>
!inc = !fly.copy_atom<!fly.universal_atomic<inc, i32>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @atomics
  // CHECK: llvm.atomicrmw fadd %{{.*}}, %{{.*}} syncscope("agent") monotonic : !llvm.ptr<1>, f32
  // CHECK: llvm.atomicrmw max %{{.*}}, %{{.*}} monotonic : !llvm.ptr<3>, i32
  // CHECK: llvm.atomicrmw uinc_wrap %{{.*}}, %{{.*}} monotonic : !llvm.ptr<3>, i32
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: global_atomic_add_f32, ds_max_(i32|rtn), ds_inc_u32
  gpu.func @atomics(%f: f32, %g: !fly.memref<f32, global, 1:1>, %i: i32, %s: !fly.memref<i32, shared, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !add
    fly.copy_atom_call_ssa(%a, %f, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!add, f32, !fly.memref<f32, global, 1:1>) -> ()
    %b = fly.make_copy_atom {valBits = 32 : i32} : !max
    fly.copy_atom_call_ssa(%b, %i, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!max, i32, !fly.memref<i32, shared, 1:1>) -> ()
    %c = fly.make_copy_atom {valBits = 32 : i32} : !inc
    fly.copy_atom_call_ssa(%c, %i, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!inc, i32, !fly.memref<i32, shared, 1:1>) -> ()
    gpu.return
  }
}

// -----

!fma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!r = !fly.memref<f32, register, 1:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @fma
  // CHECK: %[[M:.*]] = llvm.fmul %{{.*}}, %{{.*}} : f32
  // CHECK: %[[D:.*]] = llvm.fadd %[[M]], %{{.*}} : f32
  // CHECK: llvm.store %[[D]], %{{.*}} : f32, !llvm.ptr<5>
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_mul_f32, v_add_f32
  gpu.func @fma(%d: !r, %a: !r, %b: !r, %c: !r) kernel {
    %m = fly.make_mma_atom : !fma
    fly.mma_atom_call(%m, %d, %a, %b, %c) : (!fma, !r, !r, !r, !r) -> ()
    gpu.return
  }
}
