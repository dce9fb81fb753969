// One case for each rule of the operation types.
// RUN: fly-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{unsupported bitSize = 24}}
func.func private @f(!fly_rocdl.cdna3.buffer_copy<24>)

// -----
// expected-error@+1 {{unsupported bitSize = 64}}
func.func private @f(!fly_rocdl.cdna3.buffer_copy_lds<64>)

// -----
// expected-error@+1 {{unsupported bitSize = 64}}
func.func private @f(!fly_rocdl.cdna4.buffer_load_async_lds<64>)

// -----
// expected-error@+1 {{unsupported bitSize = 16}}
func.func private @f(!fly_rocdl.cdna4.global_load_async_lds<16>)

// -----
// expected-error@+1 {{unsupported buffer atomic and of 'f32', expected add, max or min for a float type}}
func.func private @f(!fly_rocdl.cdna3.buffer_atomic<and, f32>)

// -----
// expected-error@+1 {{unsupported buffer atomic max of 'vector<2xf16>'}}
func.func private @f(!fly_rocdl.cdna3.buffer_atomic<max, vector<2xf16>>)

// -----
// expected-error@+1 {{expected 4b/64, 8b/64, 6b/96 or 16b/64}}
func.func private @f(!fly_rocdl.cdna4.lds_read_trans<trans = 8b, 96>)

// -----
// expected-error@+1 {{expected 8b/64 or 16b/128}}
func.func private @f(!fly_rocdl.gfx1250.lds_read_trans<trans = 16b, 64>)

// -----
// expected-error@+1 {{rank must be in 1..5, got 6}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 6, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>)

// -----
// expected-error@+1 {{numWarps must be a positive power of two, got 3}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 3, pad = 0, 0, cache = 0, barrier = false, timeout = false>)

// -----
// expected-error@+1 {{padInterval and padAmount must both be zero or both non-zero}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 32, 0, cache = 0, barrier = false, timeout = false>)

// -----
// expected-error@+1 {{padInterval must be a power of two (in elements), got 48}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 48, 8, cache = 0, barrier = false, timeout = false>)

// -----
// expected-error@+1 {{unsupported MFMA configuration: 16x16x16 with A='f16', B='bf16', Acc='f32'}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x16, (f16, bf16) -> f32>)

// -----
// expected-error@+1 {{unsupported MFMA configuration: 4x4x4}}
func.func private @f(!fly_rocdl.cdna3.mfma<4x4x4, (f16, f16) -> f32>)

// -----
// expected-error@+1 {{unsupported MFMA configuration: 16x16x32 with A='i8', B='i8', Acc='f32'; there is 16x16x16 (i8, i8) -> i32, 16x16x32 (i8, i8) -> i32, 32x32x8 (i8, i8) -> i32, 32x32x16 (i8, i8) -> i32}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x32, (i8, i8) -> f32>)

// -----
// expected-error@+1 {{expected 16x16x128 or 32x32x64}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x64, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0>)

// -----
// expected-error@+1 {{opselA and opselB must be in 0..3, got 4}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 4, opselB = 0>)

// -----
// expected-error@+1 {{GFX11 WMMA fp16/bf16 path does not accept signA/signB/clamp}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = true, signB = false, clamp = false>)

// -----
// expected-error@+1 {{GFX120X WMMA requires M=N=K=16, got 16x16x32}}
func.func private @f(!fly_rocdl.gfx120x.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false>)

// -----
// expected-error@+1 {{unsupported GFX120X WMMA configuration: 16x16x16 with A=}}
func.func private @f(!fly_rocdl.gfx120x.wmma<16x16x16, (f32, f32) -> f32, signA = false, signB = false, clamp = false>)

// -----
// expected-error@+1 {{GFX120X WMMA fp16/bf16 path does not accept signA/signB/clamp}}
func.func private @f(!fly_rocdl.gfx120x.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = true>)

// -----
// expected-error@+1 {{signA/signB/clamp are only valid for integer (iu4/iu8) WMMA}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f32, signA = true, signB = false, clamp = false>)

// -----
// expected-error@+1 {{unsupported MNK for GFX1250 WMMA_Scale: 32x32x64 (expected 16x16x128 or 32x16x128)}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<32x32x64, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 32>)

// -----
// expected-error@+1 {{GFX1250 WMMA_Scale 32x16x128 requires f4E2M1FN A and B}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<32x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 32>)

// -----
// expected-error@+1 {{blockSize must be 16 or 32, got 8}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 8>)

// -----
// expected-error@+1 {{unsupported GFX1250 WMMA configuration: 16x16x16 with A='f16', B='f16', Acc='f16'; there is 16x16x32 (f16, f16) -> f32, 16x16x32 (f16, f16) -> f16}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x16, (f16, f16) -> f16, signA = false, signB = false, clamp = false>)

// -----
// expected-error@+1 {{unsupported GFX11 WMMA configuration: 16x16x16 with A='f32', B='f32', Acc='f32'; there is 16x16x16 (f16, f16) -> f32, 16x16x16 (bf16, bf16) -> f32, 16x16x16 (i8, i8) -> i32, 16x16x16 (i4, i4) -> i32}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x16, (f32, f32) -> f32, signA = false, signB = false, clamp = false>)
