// Small floats by the conversion instructions of an architecture; that they agree with the integer arithmetic that is
// there for the others is compared on devices (flydsl-compiler's tests/language/test_narrow_floats.py).
// RUN: fly-opt %s --fly-expand-math=chipset=gfx942 | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: fly-opt %s --fly-expand-math=chipset=gfx950 | FileCheck %s --check-prefixes=CHECK,OCP,GFX950
// RUN: fly-opt %s --fly-expand-math=chipset=gfx1201 | FileCheck %s --check-prefixes=CHECK,OCP,GFX1201
// RUN: fly-opt %s --fly-expand-math=chipset=gfx1250 | FileCheck %s --check-prefixes=CHECK,OCP,GFX1250

gpu.module @m {
  // CHECK-LABEL: gpu.func @widen
  // OCP: rocdl.cvt.f32.fp8 {{.*}}[0]
  // OCP: rocdl.cvt.pk.f32.fp8 {{.*}}[false]
  // OCP: rocdl.cvt.f32.fp8 {{.*}}[2]
  // GFX942: arith.uitofp
  // GFX942-NOT: rocdl.cvt
  // CHECK: gpu.return
  // CODEGEN gfx942: v_cvt_f32_ubyte0
  // CODEGEN gfx950,gfx1201,gfx1250: v_cvt_f32_fp8, v_cvt_pk_f32_fp8
  gpu.func @widen(%x: f8E4M3FN, %v: vector<3xf8E4M3FN>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.extf %x : f8E4M3FN to f32
    llvm.store %0, %p : f32, !llvm.ptr<1>
    %1 = arith.extf %v : vector<3xf8E4M3FN> to vector<3xf32>
    llvm.store %1, %p : vector<3xf32>, !llvm.ptr<1>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @widen_to_halves
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f16.bf8
  // GFX1201-COUNT-4: rocdl.cvt.pk.f32.bf8
  // GFX1201-COUNT-4: rocdl.cvt.pkrtz
  // GFX1250: rocdl.cvt.scale.pk8.f16.bf8
  // CHECK: gpu.return
  // CODEGEN gfx950: v_cvt_scalef32_pk_f16_bf8
  // CODEGEN gfx1201: v_cvt_pk_f32_bf8, v_cvt_pk_rtz_f16_f32
  // CODEGEN gfx1250: v_cvt_scale_pk8_f16_bf8
  // CODEGEN gfx942: v_cvt_f32_ubyte0
  gpu.func @widen_to_halves(%v: vector<8xf8E5M2>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.extf %v : vector<8xf8E5M2> to vector<8xf16>
    llvm.store %0, %p : vector<8xf16>, !llvm.ptr<1>
    gpu.return
  }

  // Vectors of more dimensions are flat meanwhile.
  // CHECK-LABEL: gpu.func @two_dimensions
  // OCP: vector.shape_cast {{.*}} : vector<2x1xf8E5M2> to vector<2xf8E5M2>
  // OCP: vector.shape_cast {{.*}} : vector<2xf32> to vector<2x1xf32>
  // CHECK: gpu.return
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: global_store
  gpu.func @two_dimensions(%v: vector<2x1xf8E5M2>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.extf %v : vector<2x1xf8E5M2> to vector<2x1xf32>
    %1 = vector.extract %0[1, 0] : f32 from vector<2x1xf32>
    llvm.store %1, %p : f32, !llvm.ptr<1>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @narrow
  // OCP: arith.extf {{.*}} : vector<3xbf16> to vector<3xf32>
  // OCP: rocdl.cvt.pk.fp8.f32
  // OCP: rocdl.cvt.pk.fp8.f32
  // GFX942: rocdl.cvt.pk.fp8.f32
  // GFX942-NOT: rocdl.cvt
  // CHECK: gpu.return
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: v_cvt_pk_fp8_f32
  gpu.func @narrow(%v: vector<3xbf16>, %x: f32, %p: !llvm.ptr<1>, %q: !llvm.ptr<1>) kernel {
    %0 = arith.truncf %v : vector<3xbf16> to vector<3xf8E4M3FN>
    %1 = arith.bitcast %0 : vector<3xf8E4M3FN> to vector<3xi8>
    llvm.store %1, %p : vector<3xi8>, !llvm.ptr<1>
    %2 = arith.truncf %x : f32 to f8E4M3FNUZ
    %3 = arith.bitcast %2 : f8E4M3FNUZ to i8
    llvm.store %3, %q : i8, !llvm.ptr<1>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @fp4
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp4
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.fp4.f32
  // GFX1250: rocdl.cvt.scale.pk8.f32.fp4
  // GFX1250: rocdl.cvt.scalef32.pk8.fp4.f32
  // GFX942-NOT: rocdl.cvt
  // GFX1201-NOT: rocdl.cvt
  // CHECK: gpu.return
  // CODEGEN gfx950: v_cvt_scalef32_pk_f32_fp4, v_cvt_scalef32_pk_fp4_f32
  // CODEGEN gfx1250: v_cvt_scale_pk8_f32_fp4, v_cvt_scalef32_pk8_fp4_f32
  // CODEGEN gfx942,gfx1201: global_store
  gpu.func @fp4(%v: vector<8xf4E2M1FN>, %p: !llvm.ptr<1>) kernel {
    %0 = arith.addf %v, %v : vector<8xf4E2M1FN>
    %1 = arith.bitcast %0 : vector<8xf4E2M1FN> to vector<8xi4>
    llvm.store %1, %p : vector<8xi4>, !llvm.ptr<1>
    gpu.return
  }
}
