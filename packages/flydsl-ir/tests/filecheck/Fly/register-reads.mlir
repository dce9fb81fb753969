// RUN: fly-opt %s --split-input-file --verify-diagnostics --fly-layout-lowering --fly-promote-regmem-to-vectorssa

gpu.module @never {
  gpu.func @k(%out: !fly.memref<f32, global, 4:1>) kernel {
    %l = fly.static : !fly.layout<4:1>
    %m = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    // expected-error @below {{a fragment is read before anything is written to it}}
    %v = fly.memref.load_vec(%m) : (!fly.memref<f32, register, 4:1>) -> vector<4xf32>
    fly.memref.store_vec(%v, %out) : (vector<4xf32>, !fly.memref<f32, global, 4:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @branch {
  gpu.func @k(%out: !fly.memref<f32, global, 4:1>, %c: i1, %x: vector<4xf32>) kernel {
    %l = fly.static : !fly.layout<4:1>
    %m = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    scf.if %c {
      fly.memref.store_vec(%x, %m) : (vector<4xf32>, !fly.memref<f32, register, 4:1>) -> ()
    }
    // expected-warning @below {{a fragment is read here that is not written on every path}}
    %v = fly.memref.load_vec(%m) : (!fly.memref<f32, register, 4:1>) -> vector<4xf32>
    fly.memref.store_vec(%v, %out) : (vector<4xf32>, !fly.memref<f32, global, 4:1>) -> ()
    gpu.return
  }
}

// -----

// The first iteration reads what the loop writes only afterwards.
gpu.module @loop {
  gpu.func @k(%out: !fly.memref<f32, global, 4:1>, %x: vector<4xf32>) kernel {
    %l = fly.static : !fly.layout<4:1>
    %m = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    scf.for %i = %c0 to %c4 step %c1 : i32 {
      // expected-error @below {{a fragment is read in the first iteration of a loop before anything is written to it}}
      %v = fly.memref.load_vec(%m) : (!fly.memref<f32, register, 4:1>) -> vector<4xf32>
      %s = arith.addf %v, %x : vector<4xf32>
      fly.memref.store_vec(%s, %m) : (vector<4xf32>, !fly.memref<f32, register, 4:1>) -> ()
    }
    %w = fly.memref.load_vec(%m) : (!fly.memref<f32, register, 4:1>) -> vector<4xf32>
    fly.memref.store_vec(%w, %out) : (vector<4xf32>, !fly.memref<f32, global, 4:1>) -> ()
    gpu.return
  }
}

// -----

// A branch may leave the first iteration out.
gpu.module @hidden {
  gpu.func @k(%out: !fly.memref<f32, global, 4:1>, %x: vector<4xf32>, %n: i32) kernel {
    %l = fly.static : !fly.layout<4:1>
    %m = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    scf.for %i = %c0 to %c4 step %c1 : i32 {
      %later = arith.cmpi sgt, %i, %n : i32
      scf.if %later {
        // expected-warning @below {{a fragment is read here that is not written on every path}}
        %v = fly.memref.load_vec(%m) : (!fly.memref<f32, register, 4:1>) -> vector<4xf32>
        fly.memref.store_vec(%v, %out) : (vector<4xf32>, !fly.memref<f32, global, 4:1>) -> ()
      }
      fly.memref.store_vec(%x, %m) : (vector<4xf32>, !fly.memref<f32, register, 4:1>) -> ()
    }
    %w = fly.memref.load_vec(%m) : (!fly.memref<f32, register, 4:1>) -> vector<4xf32>
    fly.memref.store_vec(%w, %out) : (vector<4xf32>, !fly.memref<f32, global, 4:1>) -> ()
    gpu.return
  }
}

// -----

// Accesses stay inside of what is allocated.
gpu.module @outside {
  gpu.func @k(%out: !fly.ptr<f32, global>, %x: f32) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocSize = 2 : i64}} : () -> !fly.ptr<f32, register>
    %n = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    %q = fly.add_offset(%p, %n) : (!fly.ptr<f32, register>, !fly.int_tuple<3>) -> !fly.ptr<f32, register>
    // expected-error @below {{is at element 3 of 2 elements of register memory}}
    fly.ptr.store(%x, %q) : (f32, !fly.ptr<f32, register>) -> ()
    gpu.return
  }
}
