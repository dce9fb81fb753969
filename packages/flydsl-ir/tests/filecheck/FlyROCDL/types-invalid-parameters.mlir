// Parameters of instructions that no architecture has.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{modC must be in 0..3, got 4}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = false, signB = false, clamp = false, modC = 4>)

// -----

// expected-error @+1 {{modC is only valid for float WMMA}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x64, (i8, i8) -> i32, signA = false, signB = false, clamp = false, modC = 1>)

// -----

// expected-error @+1 {{signA/signB/clamp are only valid for integer (iu4/iu8) WMMA}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = true, signB = false, clamp = false>)

// -----

// expected-error @+1 {{expected true or false}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = maybe, signB = false, clamp = false>)

// -----

// expected-error @+1 {{expected modC, reuseA or reuseB}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = false, signB = false, clamp = false, other = 1>)

// -----

// expected-error @+1 {{modC must be in 0..65535, got 65536}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0, modC = 65536, reuseA = false, reuseB = false, blockSize = 32>)

// -----

// expected-error @+1 {{GFX11 WMMA requires M=N=K=16, got 16x16x32}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false>)

// -----

// expected-error @+1 {{expected the three dimensions MxNxK}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16, (f16, f16) -> f32>)

// -----

// expected-error @+1 {{unsupported buffer atomic add of 'i16', expected f32, f64, i32, i64, vector<2xf16> or vector<2xbf16>}}
func.func private @f(!fly_rocdl.cdna3.buffer_atomic<add, i16>)

// -----

// expected-error @+1 {{unsupported buffer atomic max of 'f16', expected f32, f64, i32, i64, vector<2xf16> or vector<2xbf16>}}
func.func private @f(!fly_rocdl.cdna3.buffer_atomic<max, f16>)

// -----

// expected-error @+1 {{MFMA_Scale takes f8E4M3FN, f8E5M2, f6E2M3FN, f6E3M2FN or f4E2M1FN, got 'f16'}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x128, (f16, f16) -> f32, opselA = 0, opselB = 0>)

// -----

// expected-error @+1 {{MFMA_Scale accumulates in f32, got 'f16'}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x128, (f4E2M1FN, f4E2M1FN) -> f16, opselA = 0, opselB = 0>)

// -----

// expected-error @+1 {{padInterval, padAmount and cacheModifier must not be negative, got -1, 1 and 0}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = -1, 1, cache = 0, barrier = false, timeout = false>)

// -----

// expected-error @+1 {{elem must have 8, 16, 32 or 64 bits, got 'f4E2M1FN'}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [4, 64], elem = f4E2M1FN, tensor2tdm = (1E0,1E1)>)

// -----

// expected-error @+1 {{iterCount must be in 1..256, got 300}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [4, 64], elem = f16, tensor2tdm = (1E0,1E1), iterCount = 300>)

// -----

// The accumulator has no sign of its own.
// expected-error @+1 {{unsupported MFMA configuration: 16x16x32 with A='i8', B='i8', Acc='si32'; there is 16x16x16 (i8, i8) -> i32}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x32, (i8, i8) -> si32>)

// -----

// expected-error @+1 {{unsupported GFX11 WMMA configuration: 16x16x16 with A='ui8', B='si8', Acc='ui32'}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x16, (ui8, si8) -> ui32, signA = false, signB = true, clamp = false>)

// -----

// expected-error @+1 {{a dimension has at most 32 bits, got 4294967312}}
func.func private @f(!fly_rocdl.cdna3.mfma<4294967312x16x16, (f16, f16) -> f32>)

// -----

// expected-error @+1 {{unsupported buffer atomic add of 'vector<[2]xf16>', expected add of vector<2xf16> or vector<2xbf16>}}
func.func private @f(!fly_rocdl.cdna3.buffer_atomic<add, vector<[2]xf16>>)
