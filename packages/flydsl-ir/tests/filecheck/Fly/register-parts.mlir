// Register memory that is wider than any operand of an instruction becomes several values, as its accesses allow.
// RUN: fly-opt %s --split-input-file --fly-promote-regmem-to-vectorssa | FileCheck %s

// What is written and read in the loop alone is no part of the loop's state. A read gets what was written to the same
// elements; what was written in pieces is joined, and of a larger one it takes its part.
// CHECK-LABEL: gpu.module @temporary
// CHECK: gpu.func @k(%[[OUT:.*]]: !fly.ptr<f32, global>, %[[X:.*]]: vector<8xf32>, %[[Y:.*]]: vector<8xf32>)
// CHECK: scf.for
// CHECK-NOT: iter_args
// CHECK-NOT: vector.insert_strided_slice
// CHECK: %[[BOTH:.*]] = vector.shuffle %[[X]], %[[Y]] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// CHECK: %[[PART:.*]] = vector.extract_strided_slice %[[X]] {offsets = [2], sizes = [4], strides = [1]}
// CHECK: fly.ptr.store(%[[X]], %[[OUT]])
// CHECK: fly.ptr.store(%[[BOTH]], %[[OUT]])
// CHECK: fly.ptr.store(%[[PART]], %[[OUT]])
// CHECK-NOT: scf.yield
gpu.module @temporary {
  // CODEGEN gfx942,gfx950: global_store_dwordx4
  // CODEGEN gfx1201,gfx1250: global_store_b128
  gpu.func @k(%out: !fly.ptr<f32, global>, %x: vector<8xf32>, %y: vector<8xf32>) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocSize = 128 : i64}} : () -> !fly.ptr<f32, register>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %o16 = fly.make_int_tuple() : () -> !fly.int_tuple<16>
    %o18 = fly.make_int_tuple() : () -> !fly.int_tuple<18>
    %o24 = fly.make_int_tuple() : () -> !fly.int_tuple<24>
    %o40 = fly.make_int_tuple() : () -> !fly.int_tuple<40>
    scf.for %i = %c0 to %c4 step %c1 : i32 {
      %p16 = fly.add_offset(%p, %o16) : (!fly.ptr<f32, register>, !fly.int_tuple<16>) -> !fly.ptr<f32, register>
      %p18 = fly.add_offset(%p, %o18) : (!fly.ptr<f32, register>, !fly.int_tuple<18>) -> !fly.ptr<f32, register>
      %p24 = fly.add_offset(%p, %o24) : (!fly.ptr<f32, register>, !fly.int_tuple<24>) -> !fly.ptr<f32, register>
      %p40 = fly.add_offset(%p, %o40) : (!fly.ptr<f32, register>, !fly.int_tuple<40>) -> !fly.ptr<f32, register>
      fly.ptr.store(%x, %p40) : (vector<8xf32>, !fly.ptr<f32, register>) -> ()
      fly.ptr.store(%x, %p16) : (vector<8xf32>, !fly.ptr<f32, register>) -> ()
      fly.ptr.store(%y, %p24) : (vector<8xf32>, !fly.ptr<f32, register>) -> ()
      %v = fly.ptr.load(%p40) : (!fly.ptr<f32, register>) -> vector<8xf32>
      %w = fly.ptr.load(%p16) : (!fly.ptr<f32, register>) -> vector<16xf32>
      %u = fly.ptr.load(%p18) : (!fly.ptr<f32, register>) -> vector<4xf32>
      fly.ptr.store(%v, %out) : (vector<8xf32>, !fly.ptr<f32, global>) -> ()
      fly.ptr.store(%w, %out) : (vector<16xf32>, !fly.ptr<f32, global>) -> ()
      fly.ptr.store(%u, %out) : (vector<4xf32>, !fly.ptr<f32, global>) -> ()
    }
    gpu.return
  }
}

// -----

// Of an accumulator, each turn reads what the last one wrote: it stays one value, the state of the loop, into which a turn
// inserts once what it wrote last.
// CHECK-LABEL: gpu.module @accumulator
// CHECK: scf.for {{.*}} iter_args(%[[STATE:.*]] = {{.*}}) -> (vector<128xf32>)
// CHECK: %[[OLD:.*]] = vector.extract_strided_slice %[[STATE]] {offsets = [8], sizes = [8]
// CHECK: %[[ONE:.*]] = arith.addf %[[OLD]],
// CHECK: %[[TWO:.*]] = arith.addf %[[ONE]],
// CHECK: %[[NEW:.*]] = vector.insert_strided_slice %[[TWO]], %[[STATE]] {offsets = [8]
// CHECK-NEXT: scf.yield %[[NEW]]
gpu.module @accumulator {
  // CODEGEN gfx942,gfx950: global_store_dwordx4
  // CODEGEN gfx1201,gfx1250: global_store_b128
  gpu.func @k(%out: !fly.ptr<f32, global>, %x: vector<128xf32>, %y: vector<8xf32>) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocSize = 128 : i64}} : () -> !fly.ptr<f32, register>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %o8 = fly.make_int_tuple() : () -> !fly.int_tuple<8>
    %p8 = fly.add_offset(%p, %o8) : (!fly.ptr<f32, register>, !fly.int_tuple<8>) -> !fly.ptr<f32, register>
    fly.ptr.store(%x, %p) : (vector<128xf32>, !fly.ptr<f32, register>) -> ()
    scf.for %i = %c0 to %c4 step %c1 : i32 {
      %v = fly.ptr.load(%p8) : (!fly.ptr<f32, register>) -> vector<8xf32>
      %s = arith.addf %v, %y : vector<8xf32>
      fly.ptr.store(%s, %p8) : (vector<8xf32>, !fly.ptr<f32, register>) -> ()
      %t = fly.ptr.load(%p8) : (!fly.ptr<f32, register>) -> vector<8xf32>
      %u = arith.addf %t, %y : vector<8xf32>
      fly.ptr.store(%u, %p8) : (vector<8xf32>, !fly.ptr<f32, register>) -> ()
    }
    %w = fly.ptr.load(%p) : (!fly.ptr<f32, register>) -> vector<128xf32>
    fly.ptr.store(%w, %out) : (vector<128xf32>, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}

// -----

// A block that has written an element reads what a region has written since.
// CHECK-LABEL: gpu.module @written_between
// CHECK: %[[NEW:.*]] = scf.if {{.*}} -> (vector<1xf32>)
// CHECK: vector.extract %[[NEW]][0]
gpu.module @written_between {
  // CODEGEN gfx942,gfx950: global_store_dword
  // CODEGEN gfx1201,gfx1250: global_store_b32
  gpu.func @k(%out: !fly.ptr<f32, global>, %x: f32, %y: f32, %c: i1) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocSize = 1 : i64}} : () -> !fly.ptr<f32, register>
    fly.ptr.store(%x, %p) : (f32, !fly.ptr<f32, register>) -> ()
    scf.if %c {
      fly.ptr.store(%y, %p) : (f32, !fly.ptr<f32, register>) -> ()
    }
    %v = fly.ptr.load(%p) : (!fly.ptr<f32, register>) -> f32
    fly.ptr.store(%v, %out) : (f32, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}

// -----

// A write over parts of others leaves the rest of them. All that a turn wrote goes into the state at its end.
// CHECK-LABEL: gpu.module @overwritten
// CHECK: gpu.func @k(%{{.*}}, %[[X:.*]]: vector<16xf32>, %[[Y:.*]]: vector<8xf32>, %[[E:.*]]: f32)
// CHECK: scf.for {{.*}} -> (vector<32xf32>)
// CHECK-DAG: %[[HEAD:.*]] = vector.extract_strided_slice %[[X]] {offsets = [0], sizes = [8]
// CHECK-DAG: %[[TAIL:.*]] = vector.extract_strided_slice %[[X]] {offsets = [9], sizes = [7]
// CHECK: %[[A:.*]] = vector.insert_strided_slice %[[HEAD]], %{{.*}} {offsets = [0]
// CHECK: %[[B:.*]] = vector.insert_strided_slice %[[Y]], %[[A]] {offsets = [8]
// CHECK: %[[C:.*]] = vector.insert_strided_slice %[[HEAD]], %[[B]] {offsets = [16]
// CHECK: %[[D:.*]] = vector.insert %[[E]], %[[C]] [24]
// CHECK: %[[ALL:.*]] = vector.insert_strided_slice %[[TAIL]], %[[D]] {offsets = [25]
// CHECK: scf.yield %[[ALL]]
gpu.module @overwritten {
  // CODEGEN gfx942,gfx950: global_store_dwordx4
  // CODEGEN gfx1201,gfx1250: global_store_b128
  gpu.func @k(%out: !fly.ptr<f32, global>, %x: vector<16xf32>, %y: vector<8xf32>, %e: f32) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocSize = 32 : i64}} : () -> !fly.ptr<f32, register>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %o8 = fly.make_int_tuple() : () -> !fly.int_tuple<8>
    %o16 = fly.make_int_tuple() : () -> !fly.int_tuple<16>
    %o24 = fly.make_int_tuple() : () -> !fly.int_tuple<24>
    %p8 = fly.add_offset(%p, %o8) : (!fly.ptr<f32, register>, !fly.int_tuple<8>) -> !fly.ptr<f32, register>
    %p16 = fly.add_offset(%p, %o16) : (!fly.ptr<f32, register>, !fly.int_tuple<16>) -> !fly.ptr<f32, register>
    %p24 = fly.add_offset(%p, %o24) : (!fly.ptr<f32, register>, !fly.int_tuple<24>) -> !fly.ptr<f32, register>
    scf.for %i = %c0 to %c4 step %c1 : i32 {
      fly.ptr.store(%x, %p) : (vector<16xf32>, !fly.ptr<f32, register>) -> ()
      fly.ptr.store(%y, %p8) : (vector<8xf32>, !fly.ptr<f32, register>) -> ()
      fly.ptr.store(%x, %p16) : (vector<16xf32>, !fly.ptr<f32, register>) -> ()
      fly.ptr.store(%e, %p24) : (f32, !fly.ptr<f32, register>) -> ()
    }
    %w = fly.ptr.load(%p) : (!fly.ptr<f32, register>) -> vector<32xf32>
    fly.ptr.store(%w, %out) : (vector<32xf32>, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}
