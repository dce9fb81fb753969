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
