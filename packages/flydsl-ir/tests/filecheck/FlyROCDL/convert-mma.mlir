// RUN: fly-opt %s -split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @memory
  // CHECK-DAG: %[[A:.*]] = llvm.load %{{.*}} : !llvm.ptr<5> -> vector<4xf16>
  // CHECK-DAG: %[[C:.*]] = llvm.load %{{.*}} : !llvm.ptr<5> -> vector<4xf32>
  // CHECK: %[[R:.*]] = rocdl.mfma.f32.16x16x16f16 %{{.*}} : (vector<4xf16>, vector<4xf16>, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
  // CHECK: llvm.store %[[R]], %{{.*}} : vector<4xf32>, !llvm.ptr<5>
  // CODEGEN gfx942,gfx950: scratch_load_dwordx2, v_mfma_f32_16x16x16_f16, scratch_store_dwordx4
  gpu.func @memory(%d: !fly.memref<f32, register, 4:1>, %a: !fly.memref<f16, register, 4:1>, %b: !fly.memref<f16, register, 4:1>, %c: !fly.memref<f32, register, 4:1>) kernel {
    %m = fly.make_mma_atom : !at
    fly.mma_atom_call(%m, %d, %a, %b, %c) : (!at, !fly.memref<f32, register, 4:1>, !fly.memref<f16, register, 4:1>, !fly.memref<f16, register, 4:1>, !fly.memref<f32, register, 4:1>) -> ()
    gpu.return
  }
}

// -----

// 8-bit floats travel as one integer.
!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x32, (f8E4M3FN, f8E5M2FNUZ) -> f32>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @fp8
  // CHECK-COUNT-2: llvm.bitcast %{{.*}} : vector<8xi8> to i64
  // CHECK: rocdl.mfma.f32.16x16x32.fp8.bf8 %{{.*}} : (i64, i64, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
  // CODEGEN gfx942,gfx950: v_mfma_f32_16x16x32_fp8_bf8
  gpu.func @fp8(%a: vector<8xi8>, %b: vector<8xi8>, %c: vector<4xf32>, %o: !llvm.ptr<1>) kernel {
    %m = fly.make_mma_atom : !at
    %d = fly.mma_atom_call_ssa(%m, %a, %b, %c) : (!at, vector<8xi8>, vector<8xi8>, vector<4xf32>) -> vector<4xf32>
    llvm.store %d, %o : vector<4xf32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// The int8 instruction of CDNA2 takes half as much as that of CDNA3.
!at = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (i8, i8) -> i32>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @narrow
  // CHECK-COUNT-2: llvm.bitcast %{{.*}} : vector<4xi8> to i32
  // CHECK: rocdl.mfma.i32.16x16x16i8 %{{.*}} : (i32, i32, vector<4xi32>, i32, i32, i32) -> vector<4xi32>
  // CODEGEN gfx90a: v_mfma_i32_16x16x16i8
  gpu.func @narrow(%a: vector<4xi8>, %b: vector<4xi8>, %c: vector<4xi32>, %o: !llvm.ptr<1>) kernel {
    %m = fly.make_mma_atom : !at
    %d = fly.mma_atom_call_ssa(%m, %a, %b, %c) : (!at, vector<4xi8>, vector<4xi8>, vector<4xi32>) -> vector<4xi32>
    llvm.store %d, %o : vector<4xi32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Formats 4 (f4) and 0 (fp8), a byte selector and a scale given as bytes.
!at = !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<32x32x64, (f4E2M1FN, f8E4M3FN) -> f32, opselA = 2, opselB = 0>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @scaled
  // CHECK-SAME: %[[SC:[a-z0-9]+]]: vector<4xi8>
  // CHECK: %[[S:.*]] = llvm.bitcast %[[SC]] : vector<4xi8> to i32
  // CHECK: rocdl.mfma.scale.f32.32x32x64.f8f6f4 %{{.*}} : (vector<4xi32>, vector<8xi32>, vector<16xf32>, i32, i32, i32, i32, i32, i32) -> vector<16xf32>
  // CODEGEN gfx950: v_mfma_scale_f32_32x32x64_f8f6f4 .* op_sel_hi:\[1,0,0\] cbsz:4
  gpu.func @scaled(%sc: vector<4xi8>, %a: vector<4xi32>, %b: vector<8xi32>, %c: vector<16xf32>, %o: !llvm.ptr<1>) kernel {
    %m = fly.make_mma_atom : !at
    %n = fly.atom.set_value(%m, "scale_a", %sc) : (!at, vector<4xi8>) -> !at
    %d = fly.mma_atom_call_ssa(%n, %a, %b, %c) : (!at, vector<4xi32>, vector<8xi32>, vector<16xf32>) -> vector<16xf32>
    llvm.store %d, %o : vector<16xf32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// A call without a result stores to its destination.
!at = !fly.mma_atom<!fly_rocdl.gfx120x.wmma<16x16x16, (bf16, bf16) -> f32, signA = false, signB = false, clamp = false>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @wmma(
  // CHECK: %[[R:.*]] = rocdl.wmma.f32.16x16x16.bf16 %{{.*}} : (vector<8xi16>, vector<8xi16>, vector<8xf32>) -> vector<8xf32>
  // CHECK: llvm.store %[[R]], %{{.*}} : vector<8xf32>, !llvm.ptr<5>
  // CODEGEN gfx1201: v_wmma_f32_16x16x16_bf16
  gpu.func @wmma(%d: !fly.memref<f32, register, 8:1>, %a: vector<8xbf16>, %b: vector<8xbf16>, %c: vector<8xf32>) kernel {
    %m = fly.make_mma_atom : !at
    fly.mma_atom_call_ssa(%m, %a, %b, %c) dst = %d : (!at, !fly.memref<f32, register, 8:1>, vector<8xbf16>, vector<8xbf16>, vector<8xf32>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.mma_atom<!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 1, modC = 0, reuseA = false, reuseB = false, blockSize = 32>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @wmma_scale
  // CHECK: rocdl.wmma.scale.f32.16x16x128.f8f6f4 %{{.*}} {fmtB = 4 : i32, scaleBType = 1 : i32}
  // CHECK-SAME: (vector<16xi32>, vector<8xi32>, vector<8xf32>, i32, i32) -> vector<8xf32>
  // CODEGEN gfx1250: v_wmma_scale_f32_16x16x128_f8f6f4 .* matrix_b_fmt:MATRIX_FMT_FP4 .*matrix_b_scale:MATRIX_SCALE_ROW1
  gpu.func @wmma_scale(%a: vector<16xi32>, %b: vector<8xi32>, %c: vector<8xf32>, %sa: i32, %sb: i32, %o: !llvm.ptr<1>) kernel {
    %m = fly.make_mma_atom : !at
    %n = fly.atom.set_value(%m, "scale_a", %sa) : (!at, i32) -> !at
    %k = fly.atom.set_value(%n, "scale_b", %sb) : (!at, i32) -> !at
    %d = fly.mma_atom_call_ssa(%k, %a, %b, %c) : (!at, vector<16xi32>, vector<8xi32>, vector<8xf32>) -> vector<8xf32>
    llvm.store %d, %o : vector<8xf32>, !llvm.ptr<1>
    gpu.return
  }
}
