// What types become, the initial states of atoms, and values that control flow carries.
// RUN: fly-opt %s --split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @pointers(
  // CHECK-SAME: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr<1>, %{{[a-z0-9]+}}: !llvm.ptr<3>, %{{[a-z0-9]+}}: !llvm.ptr<5>,
  // CHECK-SAME: !llvm.struct<(ptr<8>, i32)>, %{{[a-z0-9]+}}: !llvm.struct<(ptr<8>, i32)>, %{{[a-z0-9]+}}: !llvm.ptr)
  gpu.func @pointers(%a: !fly.ptr<f32, generic>, %b: !fly.ptr<f32, global>, %c: !fly.memref<f32, shared, 4:1, align<16>, S<1,4,3>>,
                     %d: !fly.ptr<f32, register>, %e: !fly.ptr<f32, #fly_rocdl.buffer_desc>,
                     %f: !fly.memref<f32, #fly_rocdl.buffer_desc, (4,8):(8,1)>, %g: !fly.ptr<f16, 3 : i32>) { gpu.return }
  // CHECK-LABEL: gpu.func @elements(
  // CHECK-SAME: i8, %{{[a-z0-9]+}}: vector<4xi4>, %{{[a-z0-9]+}}: vector<2x2xi6>, %{{[a-z0-9]+}}: vector<[4]xi8>, %{{[a-z0-9]+}}: f16, %{{[a-z0-9]+}}: i32)
  gpu.func @elements(%a: f8E5M2, %b: vector<4xf4E2M1FN>, %c: vector<2x2xf6E2M3FN>, %d: vector<[4]xf8E4M3FN>, %e: f16, %f: ui32) { gpu.return }
}

// -----

!copy = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>
!mma = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
!block32 = !fly.mma_atom<!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 32>>
!block16 = !fly.mma_atom<!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 16>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @atoms(
  // CHECK-SAME: !llvm.struct<(i32)>, %{{[a-z0-9]+}}: !llvm.struct<(i32)>, %{{[a-z0-9]+}}: !llvm.struct<(i32, i32)>, %{{[a-z0-9]+}}: !llvm.struct<(i32, i32)>,
  // CHECK-SAME: !llvm.struct<()>, %{{[a-z0-9]+}}: !llvm.struct<()>, %{{[a-z0-9]+}}: !llvm.struct<(i32, i32)>, %{{[a-z0-9]+}}: !llvm.struct<(i64, i64)>,
  // CHECK-SAME: !llvm.struct<(i32, i32, i32, i32, i32, i32, i64, i64, i64, i64, i64)>,
  // CHECK-SAME: !llvm.struct<(i32, i32, ptr<3>, ptr<1>, i64, i64, i64, i64, i32, i32, i32, i32, i32, i1, i1, i1, i1, i1, i64)>,
  // CHECK-SAME: !llvm.struct<(ptr<3>, ptr<1>, i64, i64, i64, i64, i32, i32, i32, i32, i32, i1, i1, i1, i1, i1, i64)>,
  // CHECK-SAME: !llvm.struct<(i32)>, %{{[a-z0-9]+}}: !llvm.struct<()>)
  gpu.func @atoms(%a: !copy, %b: !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, f32>, 32>,
                  %c: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>,
                  %d: !fly.copy_atom<!fly_rocdl.cdna4.buffer_load_async_lds<96>, 32>,
                  %e: !fly.copy_atom<!fly_rocdl.cdna4.global_load_async_lds<128>, 32>, %f: !mma, %g: !block32, %h: !block16,
                  %i: !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 1, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>, 16>,
                  %j: !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>,
                  %k: !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>,
                  %l: !fly.tiled_copy<!copy, !fly.layout<(4,4):(4,1)>, !fly.tile<[4|4]>>,
                  %m: !fly.tiled_mma<!mma, !fly.layout<(1,1,1):(0,0,0)>>) { gpu.return }

  // A scale may come as the bytes or floats of its words.
  // CHECK-LABEL: gpu.func @state(
  // CHECK-SAME: %[[A:[a-z0-9]+]]: vector<4xi8>, %[[B:[a-z0-9]+]]: vector<1xf32>)
  // CHECK: %[[U:.*]] = llvm.mlir.undef : !llvm.struct<(i32, i32)>
  // CHECK: %[[ZERO:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: %[[S0:.*]] = llvm.insertvalue %[[ZERO]], %[[U]][0]
  // CHECK: %[[S1:.*]] = llvm.insertvalue %[[ZERO]], %[[S0]][1]
  // CHECK: %[[X:.*]] = llvm.bitcast %[[A]] : vector<4xi8> to i32
  // CHECK: %[[S2:.*]] = llvm.insertvalue %[[X]], %[[S1]][0]
  // CHECK: %[[Y:.*]] = llvm.bitcast %[[B]] : vector<1xf32> to i32
  // CHECK: %[[S3:.*]] = llvm.insertvalue %[[Y]], %[[S2]][1]
  // CHECK: gpu.return %[[S3]]
  gpu.func @state(%a: vector<4xf8E8M0FNU>, %b: vector<1xf32>) -> !block32 {
    %m = fly.make_mma_atom : !block32
    %n = fly.atom.set_value(%m, "scale_a", %a) : (!block32, vector<4xf8E8M0FNU>) -> !block32
    %o = fly.atom.set_value(%n, "scale_b", %b) : (!block32, vector<1xf32>) -> !block32
    gpu.return %o : !block32
  }
}

// -----

!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<64>, 16>
!p = !fly.ptr<f8E5M2, global>
!b = !fly.ptr<f8E5M2, #fly_rocdl.buffer_desc>
gpu.module @m {
  // CHECK-LABEL: gpu.func @carried(
  // CHECK: ub.poison : !llvm.struct<(ptr<8>, i32)>
  // CHECK: arith.select %{{.*}} : !llvm.ptr<1>
  // CHECK: scf.for {{.*}} -> (!llvm.struct<(i32)>, !llvm.ptr<1>, i8, !llvm.struct<(ptr<8>, i32)>) {
  // CHECK: scf.yield %{{.*}} : !llvm.struct<(i32)>, !llvm.ptr<1>, i8, !llvm.struct<(ptr<8>, i32)>
  // CHECK: arith.select %{{.*}} : !llvm.struct<(i32)>
  // CHECK: scf.index_switch %{{.*}} -> !llvm.ptr<1>
  gpu.func @carried(%a: !at, %n: index, %p: !p, %q: !p, %c: i1, %b: !b, %i: i32) -> (!at, !p) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %o = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?>
    %none = ub.poison : !b
    %s = arith.select %c, %p, %q : !p
    %v = fly.ptr.load(%s) : (!p) -> f8E5M2
    %r:4 = scf.for %k = %c0 to %n step %c1 iter_args(%x = %a, %y = %s, %z = %v, %w = %none) -> (!at, !p, f8E5M2, !b) {
      %x1 = fly.atom.set_value(%x, "soffset", %i) : (!at, i32) -> !at
      %y1 = fly.add_offset(%y, %o) : (!p, !fly.int_tuple<?>) -> !p
      %z1 = fly.ptr.load(%y1) : (!p) -> f8E5M2
      %w1 = fly.add_offset(%b, %o) : (!b, !fly.int_tuple<?>) -> !b
      fly.ptr.store(%z, %w1) : (f8E5M2, !b) -> ()
      scf.yield %x1, %y1, %z1, %w1 : !at, !p, f8E5M2, !b
    }
    fly.ptr.store(%r#2, %r#3) : (f8E5M2, !b) -> ()
    %t = scf.if %c -> !at {
      fly.ptr.store(%v, %p) : (f8E5M2, !p) -> ()
      scf.yield %r#0 : !at
    } else {
      scf.yield %a : !at
    }
    %u = scf.index_switch %n -> !p
    case 1 {
      fly.ptr.store(%v, %p) : (f8E5M2, !p) -> ()
      scf.yield %r#1 : !p
    }
    default {
      scf.yield %q : !p
    }
    gpu.return %t, %u : !at, !p
  }
}

// -----

gpu.module @m {
  // What asks for a sign gets the same bits.
  // CHECK-LABEL: gpu.func @signs(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: i64, %[[V:[a-z0-9]+]]: vector<2xi8>)
  // CHECK-NEXT: gpu.return %[[X]], %[[V]] : i64, vector<2xi8>
  gpu.func @signs(%x: ui64, %v: vector<2xsi8>) -> (i64, vector<2xi8>) {
    %y = builtin.unrealized_conversion_cast %x : ui64 to i64
    %w = builtin.unrealized_conversion_cast %v : vector<2xsi8> to vector<2xi8>
    gpu.return %y, %w : i64, vector<2xi8>
  }
}
