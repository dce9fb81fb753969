// Parameters of atoms, tiles and swizzles that no type can have.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{valBits of a copy atom must be positive, got 0}}
func.func private @f(!fly.copy_atom<!fly.universal_copy<32>, 0>)

// -----

// expected-error @+1 {{bitSize of a universal copy must be positive, got 0}}
func.func private @f(!fly.universal_copy<0>)

// -----

// expected-error @+1 {{valType of a universal atomic must be an integer or float, got 'index'}}
func.func private @f(!fly.universal_atomic<add, index>)

// -----

// expected-error @+1 {{elemTy of a universal FMA must be an integer or float, got 'index'}}
func.func private @f(!fly.universal_fma<1x1x1, (index, index) -> index>)

// -----

// expected-error @+1 {{swizzle reaches beyond bit 30: S<3,40,3>}}
func.func private @f(!fly.swizzle<S<3,40,3>>)

// -----

// expected-error @+1 {{swizzle reaches beyond bit 30: S<3,28,3>}}
func.func private @f(!fly.swizzle<S<3,28,3>>)

// -----

// expected-error @+1 {{swizzle parameters must not be negative: S<-1,0,3>}}
func.func private @f(!fly.swizzle<S<-1,0,3>>)

// -----

// expected-error @+1 {{coordinate swizzle parameters must not be negative: mask -1, baseRow 0, baseCol 0}}
func.func private @f(!fly.coord_swizzle<CS<-1,0,[0],0,[1]>>)

// -----

// expected-error @+1 {{copyAtom must be a copy atom, got 'f32'}}
func.func private @f(!fly.tiled_copy<f32, !fly.layout<1:1>, !fly.tile<[4]>>)

// -----

// expected-error @+1 {{layoutThrVal must be static, got '!fly.layout<(4,?):(1,4)>'}}
func.func private @f(!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,?):(1,4)>, !fly.tile<[4|8]>>)

// -----

// expected-error @+1 {{expected a type !fly.layout, got '!fly.int_tuple<1>'}}
func.func private @f(!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.int_tuple<1>, !fly.tile<[4|8]>>)

// -----

// expected-error @+1 {{mmaAtom must be an MMA atom, got '!fly.copy_atom<!fly.universal_copy<32>, 32>'}}
func.func private @f(!fly.tiled_mma<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,2,1):(2,1,0)>>)

// -----

// expected-error @+1 {{atomLayout must be static, got '!fly.layout<(?,2,1):(2,1,0)>'}}
func.func private @f(!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(?,2,1):(2,1,0)>>)

// -----

// expected-error @+1 {{a tile element is '*', an integer, a layout or a bracketed tile}}
func.func private @f(!fly.tile<[(4,2)|?{div=q}]>)
