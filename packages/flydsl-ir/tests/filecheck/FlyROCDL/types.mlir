// Every operation type prints as it was written.
// RUN: fly-opt %s | fly-opt | FileCheck %s

// CHECK-LABEL: @copies
func.func private @copies(
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>
  !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<64, cache = 2>, 16>
  !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<64, cache = 2>, 16>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
  !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, vector<2xf16>>, 16>
  !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, vector<2xf16>>, 16>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>
  !fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>, 16>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.gfx1250.lds_read_trans<trans = 16b, 128>, 16>
  !fly.copy_atom<!fly_rocdl.gfx1250.lds_read_trans<trans = 16b, 128>, 16>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna4.buffer_load_async_lds<96>, 32>
  !fly.copy_atom<!fly_rocdl.cdna4.buffer_load_async_lds<96>, 32>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna4.global_load_async_lds<128>, 32>
  !fly.copy_atom<!fly_rocdl.cdna4.global_load_async_lds<128>, 32>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 32, 4, cache = 0, barrier = false, timeout = true>, 16>
  !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 32, 4, cache = 0, barrier = false, timeout = true>, 16>
)

// CHECK-LABEL: @mmas
func.func private @mmas(
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
  !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x16, (f8E4M3FN, f8E5M2FNUZ) -> f32>>
  !fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x16, (f8E4M3FN, f8E5M2FNUZ) -> f32>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<32x32x64, (f4E2M1FN, f8E4M3FN) -> f32, opselA = 2, opselB = 0>>
  !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<32x32x64, (f4E2M1FN, f8E4M3FN) -> f32, opselA = 2, opselB = 0>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.gfx11.wmma<16x16x16, (i8, i8) -> i32, signA = true, signB = false, clamp = true>>
  !fly.mma_atom<!fly_rocdl.gfx11.wmma<16x16x16, (i8, i8) -> i32, signA = true, signB = false, clamp = true>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.gfx120x.wmma<16x16x32, (i4, i4) -> i32, signA = false, signB = false, clamp = false>>
  !fly.mma_atom<!fly_rocdl.gfx120x.wmma<16x16x32, (i4, i4) -> i32, signA = false, signB = false, clamp = false>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f16, signA = false, signB = false, clamp = false>>
  !fly.mma_atom<!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f16, signA = false, signB = false, clamp = false>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = false, signB = false, clamp = false, modC = 1, reuseB = true>>
  !fly.mma_atom<!fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = false, signB = false, clamp = false, modC = 1, reuseB = true>>,
  // CHECK-SAME: !fly.mma_atom<!fly_rocdl.gfx1250.wmma_scale<32x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 1, opselB = 0, modC = 3, reuseA = true, reuseB = false, blockSize = 16>>
  !fly.mma_atom<!fly_rocdl.gfx1250.wmma_scale<32x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 1, opselB = 0, modC = 3, reuseA = true, reuseB = false, blockSize = 16>>
)

// CHECK-LABEL: @resource
// CHECK: fly_rocdl.get_buffer_rsrc(%{{.*}}) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
func.func @resource(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8> {
  %r = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
  return %r : !llvm.ptr<8>
}

// Atoms of tensor moves need no width of a value.
// CHECK-LABEL: func.func private @no_width(
func.func private @no_width(
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 0>
  !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 0>,
  // CHECK-SAME: !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 0>
  !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 0>
)
