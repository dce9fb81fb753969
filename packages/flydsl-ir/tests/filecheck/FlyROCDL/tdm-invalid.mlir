// RUN: fly-opt %s --split-input-file --verify-diagnostics --convert-fly-to-rocdl

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 2, 8, cache = 0, barrier = false, timeout = false>, 16>
gpu.module @m {
  gpu.func @padding(%g: !fly.memref<f16, global, 64:1>, %l: !fly.memref<f16, shared, 64:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM: padding (interval=2, amount=8 elements at 16-bit) is not encodable}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !fly.memref<f16, global, 64:1>, !fly.memref<f16, shared, 64:1>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>
gpu.module @m {
  gpu.func @stride(%g: !fly.memref<f16, global, (16,64):(?,1)>, %l: !fly.memref<f16, shared, (16,64):(64,1)>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM: stride 0 of '!fly.memref<f16, global, (16,64):(?,1)>' is dynamic, so the atom's field 'stride_0' must be set}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !fly.memref<f16, global, (16,64):(?,1)>, !fly.memref<f16, shared, (16,64):(64,1)>) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>
gpu.module @m {
  gpu.func @direction(%g: !fly.memref<f16, shared, 64:1>, %l: !fly.memref<f16, shared, 64:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM copies between global and shared memory}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !fly.memref<f16, shared, 64:1>, !fly.memref<f16, shared, 64:1>) -> ()
    gpu.return
  }
}

// -----

// The sum of an extent and an amount of padding that no descriptor takes.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 32, 2147483647, cache = 0, barrier = false, timeout = false>, 32>
gpu.module @m {
  gpu.func @padding_too_large(%g: !fly.memref<f32, global, (8,32):(128,1)>, %l: !fly.memref<f32, shared, (8,32):(36,1)>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM: padding (interval=32, amount=2147483647 elements at 32-bit) is not encodable}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !fly.memref<f32, global, (8,32):(128,1)>, !fly.memref<f32, shared, (8,32):(36,1)>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @cache_modifier(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>) kernel {
    %ti = fly.static : !fly.tile<[128|64]>
    %l = fly.static : !fly.layout<(128,64):(72,1)>
    // expected-error @+1 {{cacheModifier must not be negative, got -2147483648}}
    %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti {cacheModifier = -2147483648 : i32}
        : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(72,1)>, !fly.tile<[128|64]>
    gpu.return
  }
}

// -----

// The last warp would write behind the tile, or over the rows of another.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (6,32):(128,1)>
!l = !fly.memref<f32, shared, (6,32):(32,1)>
gpu.module @m {
  gpu.func @uneven(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM: 4 warps cannot share the tile of '!fly.memref<f32, global, (6,32):(128,1)>': 4 do not divide mode 0}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 16, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (2,4):(128,1)>
!l = !fly.memref<f32, shared, (2,4):(4,1)>
gpu.module @m {
  gpu.func @too_many(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{16 warps cannot share the tile of '!fly.memref<f32, global, (2,4):(128,1)>': 8 do not divide mode 1}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 8, pad = 64, 8, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, (8,32):(36,1)>
gpu.module @m {
  gpu.func @phase(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{the share of one of 8 warps, 32 elements, is no multiple of the padding interval 64}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(-128,1)>
!l = !fly.memref<f32, shared, (8,32):(32,1)>
gpu.module @m {
  gpu.func @negative(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM: stride -128 of mode 0 is negative}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, (8,32):(1,8)>
gpu.module @m {
  gpu.func @columns(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM places mode 0 of the tile in LDS as 8:32, but LDS has '!fly.memref<f32, shared, (8,32):(1,8)>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 32, 4, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, (8,32):(32,1)>
gpu.module @m {
  gpu.func @gaps(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM places mode 0 of the tile in LDS as 8:36, but LDS has '!fly.memref<f32, shared, (8,32):(32,1)>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, (4,32):(32,1)>
gpu.module @m {
  gpu.func @small(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM places mode 0 of the tile in LDS as 8:32, but LDS has '!fly.memref<f32, shared, (4,32):(32,1)>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 64, 8, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, 279:1>
gpu.module @m {
  gpu.func @flat(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM moves 256 elements, which take 280 in LDS, but it is given}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, S<1,4,3> o 0 o (8,32):(32,1)>
gpu.module @m {
  gpu.func @composed(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    // expected-error @+3 {{gfx1250 TDM needs a plain layout in LDS}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 16, 4, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, 1:1>
gpu.module @m {
  gpu.func @stored_gaps(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    // expected-error @+3 {{gfx1250 TDM: a store can leave out the gaps between its rows of 32 elements only, got padding after every 16}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %l, %g) : (!at, !l, !g) -> ()
    gpu.return
  }
}

// -----

// The bounds of iterations are those of the axis that they go along.
!at = !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [8, 64], elem = f32, tensor2tdm = (1E0,1E1), iterCount = 4>, 32>
!s = !fly.memref<f32, shared, ((8,4),64):((64,1000),1)>
!l = !fly.layout<(32,64):(1E2,1E1)>
!c = !fly.coord_tensor<(0,0), (32,64):(1E2,1E1)>
gpu.module @m {
  gpu.func @iterations(%g: !fly.ptr<f32, global>, %s: !s, %stride: i64, %extent: i32) kernel {
    %a = fly.make_copy_atom(%g, %stride, %extent, %extent, %stride : !fly.ptr<f32, global>, i64, i32, i32, i64) {valBits = 32 : i32} : !at
    %zero = fly.make_int_tuple() : () -> !fly.int_tuple<(0,0)>
    %l = fly.static : !l
    %c = fly.make_view(%zero, %l) : (!fly.int_tuple<(0,0)>, !l) -> !c
    // expected-error @+3 {{a tensor copy of 4 iterations needs coordinates in which they go along one axis, got '!fly.coord_tensor<(0,0), (32,64):(1E2,1E1)>'}}
    // expected-error @+2 {{cannot emit}}
    // expected-error @+1 {{failed to legalize operation 'fly.copy_atom_call'}}
    fly.copy_atom_call(%a, %s, %c) : (!at, !s, !c) -> ()
    gpu.return
  }
}
