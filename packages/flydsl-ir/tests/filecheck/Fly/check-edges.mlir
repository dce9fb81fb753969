// RUN: fly-opt %s --split-input-file --verify-diagnostics --fly-layout-lowering

gpu.module @last {
  gpu.func @k(%a: !fly.memref<f32, global, 10:1>) kernel {
    %t = fly.static : !fly.layout<4:1>
    %d = fly.logical_divide(%a, %t) : (!fly.memref<f32, global, 10:1>, !fly.layout<4:1>) -> !fly.memref<f32, global, (4,3):(1,4)>
    %c = fly.static : !fly.int_tuple<(*,2)>
    %s = fly.slice(%d, %c) : (!fly.memref<f32, global, (4,3):(1,4)>, !fly.int_tuple<(*,2)>) -> !fly.memref<f32, global, 4:1>
    %l = fly.static : !fly.layout<4:1>
    %r = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    %atom = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<128>, 32>
    // expected-error @below {{mode 0 of '!fly.memref<f32, global, 10:1>' has extent 10 and is divided in tiles of 4, the last of which is copied whole}}
    fly.copy(%atom, %s, %r) : (!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.memref<f32, global, 4:1>, !fly.memref<f32, register, 4:1>) -> ()
    gpu.return
  }
}

// -----

gpu.module @some {
  gpu.func @k(%a: !fly.memref<f32, global, 10:1>, %i: i32) kernel {
    %t = fly.static : !fly.layout<4:1>
    %d = fly.logical_divide(%a, %t) : (!fly.memref<f32, global, 10:1>, !fly.layout<4:1>) -> !fly.memref<f32, global, (4,3):(1,4)>
    %c = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<(*,?)>
    %s = fly.slice(%d, %c) : (!fly.memref<f32, global, (4,3):(1,4)>, !fly.int_tuple<(*,?)>) -> !fly.memref<f32, global, 4:1>
    %l = fly.static : !fly.layout<4:1>
    %r = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    %atom = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<128>, 32>
    // expected-warning @below {{which one is copied is known only at run time}}
    fly.copy(%atom, %s, %r) : (!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.memref<f32, global, 4:1>, !fly.memref<f32, register, 4:1>) -> ()
    gpu.return
  }
}
