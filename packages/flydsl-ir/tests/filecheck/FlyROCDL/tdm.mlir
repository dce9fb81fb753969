// Whole-tile copies of the tensor data mover.
// RUN: fly-opt %s --split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

// Four warps share 8 rows: two rows each; the row count is clamped, and rows of 32 are padded by 4.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 32, 4, cache = 0, barrier = false, timeout = false>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @load_rank2
  // CHECK-SAME: (%[[G:.*]]: !llvm.ptr<1>, %[[L:.*]]: !llvm.ptr<3>, %[[M:.*]]: i32)
  // CHECK-DAG: %[[FLAGS:.*]] = arith.constant 118620160 : i32
  // CHECK-DAG: %[[TD0:.*]] = arith.constant -65536 : i32
  // CHECK-DAG: %[[C32767:.*]] = arith.constant 32767 : i32
  // CHECK-DAG: %[[C2:.*]] = arith.constant 2 : i32
  // CHECK-DAG: %[[C128:.*]] = arith.constant 128 : i32
  // CHECK-DAG: %[[C288:.*]] = arith.constant 288 : i32
  // CHECK: %[[WAVE:.*]] = llvm.call_intrinsic "llvm.amdgcn.wave.id"() : () -> i32
  // CHECK: %[[COORD:.*]] = arith.remui %[[WAVE]]
  // CHECK: %[[START:.*]] = arith.muli %[[COORD]], %[[C2]]
  // CHECK: llvm.ptrtoint %[[G]] : !llvm.ptr<1> to i64
  // CHECK: arith.subi %[[M]], %[[START]]
  // CHECK: arith.maxsi
  // CHECK: vector.from_elements {{.*}} : vector<4xi32>
  // CHECK: vector.from_elements %[[FLAGS]], %[[TD0]], %{{.*}}, %{{.*}}, %[[C2]], %[[C128]], %{{.*}}, %{{.*}} : vector<8xi32>
  // CHECK: rocdl.tensor.load.to.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} cachepolicy 0 : vector<4xi32>, vector<8xi32>
  // CODEGEN gfx1250: tensor_load_to_lds
  gpu.func @load_rank2(%g: !fly.memref<f32, global, (8,32):(128,1)>, %l: !fly.memref<f32, shared, (8,32):(36,1)>, %m: i32) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %b = fly.atom.set_value(%a, "extent_0", %m) : (!at, i32) -> !at
    fly.copy_atom_call(%b, %g, %l) : (!at, !fly.memref<f32, global, (8,32):(128,1)>, !fly.memref<f32, shared, (8,32):(36,1)>) -> ()
    gpu.return
  }
}

// -----

// One warp needs no wave number; the flags hold barrier and timeout. f16.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 2, barrier = true, timeout = true>, 16>
gpu.module @m {
  // CHECK-LABEL: gpu.func @store_rank1
  // CHECK: arith.constant dense<[2424832, -65536, 32767, 4194304, 0, 0, 0, 0]> : vector<8xi32>
  // CHECK-NOT: wave.id
  // CHECK: rocdl.tensor.store.from.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} cachepolicy 2
  // CODEGEN gfx1250: tensor_store_from_lds
  gpu.func @store_rank1(%g: !fly.memref<f16, global, 64:1>, %l: !fly.memref<f16, shared, 64:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    fly.copy_atom_call(%a, %l, %g) : (!at, !fly.memref<f16, shared, 64:1>, !fly.memref<f16, global, 64:1>) -> ()
    gpu.return
  }
}

// -----

// Padding of 64/8 halves; a dynamic stride is given; the predicate guards the copy.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 64, 8, cache = 0, barrier = false, timeout = false>, 16>
gpu.module @m {
  // CHECK-LABEL: gpu.func @strided
  // CHECK-SAME: %[[S:[^:]*]]: i64, %[[P:[^:]*]]: !llvm.ptr<5>)
  // CHECK-DAG: arith.constant 118554624 : i32
  // CHECK: %[[C:.*]] = llvm.load %[[P]] : !llvm.ptr<5> -> i1
  // CHECK: scf.if %[[C]]
  // CHECK: arith.trunci %[[S]] : i64 to i32
  // CHECK: rocdl.tensor.load.to.lds
  // CODEGEN gfx1250: s_cbranch, tensor_load_to_lds
  gpu.func @strided(%g: !fly.memref<f16, global, (16,64):(?{i64},1)>, %l: !fly.memref<f16, shared, (16,64):(72,1)>, %s: i64, %p: !fly.memref<i1, register, 1:1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    %b = fly.atom.set_value(%a, "stride_0", %s) : (!at, i64) -> !at
    fly.copy_atom_call(%b, %g, %l, %p) : (!at, !fly.memref<f16, global, (16,64):(?{i64},1)>, !fly.memref<f16, shared, (16,64):(72,1)>, !fly.memref<i1, register, 1:1>) -> ()
    gpu.return
  }
}

// -----

// Five axes: all words of the descriptor are used.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 5, warps = 2, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 8>
!g = !fly.memref<i8, global, (2,3,4,5,16):(3840,1280,320,64,1)>
!l = !fly.memref<i8, shared, (2,3,4,5,16):(960,320,80,16,1)>
gpu.module @m {
  // CHECK-LABEL: gpu.func @rank5
  // CHECK: rocdl.tensor.load.to.lds
  // CODEGEN gfx1250: tensor_load_to_lds
  gpu.func @rank5(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 8 : i32} : !at
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    gpu.return
  }
}

// -----

// Padding after every two rows: each of four warps moves two, and starts behind the gaps of those before it.
// LDS may be an address, or have the modes that the gaps make.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 64, 8, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, ((2,4),32):((32,72),1)>
!p = !fly.memref<f32, shared, 1:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @two_rows
  // CHECK-DAG: %[[C288:.*]] = arith.constant 288 : i32
  // CHECK: arith.muli %{{.*}}, %[[C288]] : i32
  // CHECK-COUNT-2: rocdl.tensor.load.to.lds
  // CODEGEN gfx1250: tensor_load_to_lds
  gpu.func @two_rows(%g: !g, %l: !l, %p: !p) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call(%a, %g, %l) : (!at, !g, !l) -> ()
    fly.copy_atom_call(%a, %g, %p) : (!at, !g, !p) -> ()
    gpu.return
  }
}

// -----

// The engine pads loads only. A stored row of 32 takes its gap of 4 along, behind the end of the tensor.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 32, 4, cache = 0, barrier = false, timeout = false>, 32>
!g = !fly.memref<f32, global, (8,32):(128,1)>
!l = !fly.memref<f32, shared, (8,32):(36,1)>
gpu.module @m {
  // CHECK-LABEL: gpu.func @padded_store
  // CHECK: arith.constant dense<[131072, 2097152, -65536, 2392063, 8, 128, 0, 0]> : vector<8xi32>
  // CHECK: rocdl.tensor.store.from.lds
  // CODEGEN gfx1250: tensor_store_from_lds
  gpu.func @padded_store(%g: !g, %l: !l) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    fly.copy_atom_call(%a, %l, %g) : (!at, !l, !g) -> ()
    gpu.return
  }
}
