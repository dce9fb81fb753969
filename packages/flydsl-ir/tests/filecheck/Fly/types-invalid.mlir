// Malformed types are diagnosed.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected at least one composition}}
func.func private @f(!fly.composed_layout<4:1>)

// -----

// expected-error @+1 {{a tile element is}}
func.func private @f(!fly.tile<[(2,2)|4]>)

// -----

// expected-error @+1 {{a tile element is}}
func.func private @f(!fly.tile<[1E0|4]>)

// -----

// expected-error @+1 {{alignment must be a positive multiple of the element size of 2 bytes, got 3}}
func.func private @f(!fly.ptr<f16, shared, align<3>>)

// -----

// expected-error @+1 {{expected '>'}}
func.func private @f(!fly.memref<f16, global, (8,64):(64,1), S<3,4,3>, align<16>>)

// -----

// expected-error @+1 {{expected an integer, '?' or '*'}}
func.func private @f(!fly.int_tuple<()>)

// -----

// expected-error @+1 {{expected '}'}}
func.func private @f(!fly.int_tuple<?{div=4 i64}>)

// -----

// expected-error @+1 {{integer does not fit in 32 bits: 4294967296}}
func.func private @f(!fly.int_tuple<4294967296>)

// -----

// expected-error @+1 {{expected a basis suffix of the form E0E1}}
func.func private @f(!fly.int_tuple<1E0F2>)

// -----

// expected-error @+1 {{expected an address space: generic, global, shared or register}}
func.func private @f(!fly.ptr<f32, local>)

// -----

// expected-error @+1 {{element type must be an integer or float, got 'index'}}
func.func private @f(!fly.ptr<index, global>)

// -----

// expected-error @+1 {{swizzle parameters must not be negative}}
func.func private @f(!fly.swizzle<S<-1,0,0>>)

// -----

// expected-error @+1 {{a universal FMA has the dimensions 1x1x1}}
func.func private @f(!fly.universal_fma<1x1x2, (f32, f32) -> f32>)

// -----

// expected-error @+1 {{a universal FMA has one element type}}
func.func private @f(!fly.universal_fma<1x1x1, (f32, f16) -> f32>)

// -----

// expected-error @+1 {{expected an atomic operation: add, max, min, and, or, inc or dec}}
func.func private @f(!fly.universal_atomic<xor, i32>)

// -----

// expected-error @+1 {{valBits of a copy atom must be positive, got 0}}
func.func private @f(!fly.copy_atom<!fly.universal_copy<64>, 0>)

// -----

// expected-error @+1 {{nested deeper than 64 levels}}
func.func private @f(!fly.int_tuple<((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))>)
