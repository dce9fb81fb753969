// RUN: fly-opt %s -split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

// A swizzled vector load: the alignment is limited by the swizzle.
gpu.module @m {
  // CHECK-LABEL: gpu.func @swizzled
  // LLVM narrows the address to the 32 bits of LDS.
  // CHECK-DAG: %[[MASK:.*]] = arith.constant 896 : i64
  // CHECK-DAG: %[[SHIFT:.*]] = arith.constant 3 : i64
  // CHECK: %[[A:.*]] = llvm.ptrtoint %{{.*}} : !llvm.ptr<3> to i64
  // CHECK: %[[B:.*]] = arith.andi %[[A]], %[[MASK]]
  // CHECK: %[[C:.*]] = arith.shrui %[[B]], %[[SHIFT]]
  // CHECK: %[[D:.*]] = arith.xori %[[A]], %[[C]]
  // CHECK: %[[P:.*]] = llvm.inttoptr %[[D]]
  // CHECK: llvm.load %[[P]] {alignment = 16 : i64} : !llvm.ptr<3> -> vector<8xf16>
  // CODEGEN gfx942,gfx950: s_xor_b32, ds_read_b128
  // CODEGEN gfx1201,gfx1250: s_xor_b32, ds_load_b128
  gpu.func @swizzled(%p: !fly.ptr<f16, shared, align<64>, S<3,4,3>>, %o: !llvm.ptr<1>) kernel {
    %v = fly.ptr.load(%p) : (!fly.ptr<f16, shared, align<64>, S<3,4,3>>) -> vector<8xf16>
    llvm.store %v, %o : vector<8xf16>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Static shared memory.
// CHECK-LABEL: gpu.module @static
// CHECK: llvm.mlir.global external @__shared_alloc_0() {addr_space = 3 : i32, alignment = 32 : i64, dso_local} : !llvm.array<96 x i8>
// CHECK: %[[P:.*]] = llvm.mlir.addressof @__shared_alloc_0
// CHECK: llvm.store %{{.*}}, %[[P]] {alignment = 32 : i64} : i32, !llvm.ptr<3>
gpu.module @static {
  // CODEGEN gfx942,gfx950: ds_write_b(32|8)
  // CODEGEN gfx1201,gfx1250: ds_store_b(32|8)
  gpu.func @f(%v: i32) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocBytes = 96 : i64, allocAlign = 32 : i64}} : () -> !fly.ptr<i8, shared, align<32>>
    %q = fly.recast_iter(%p) : (!fly.ptr<i8, shared, align<32>>) -> !fly.ptr<i32, shared, align<32>>
    fly.ptr.store(%v, %q) : (i32, !fly.ptr<i32, shared, align<32>>) -> ()
    gpu.return
  }
}

// -----

// Shared memory is aligned as the pointer promises, whatever the attribute asks for.
// CHECK-LABEL: gpu.module @promise
// CHECK: llvm.mlir.global external @__shared_alloc_0() {addr_space = 3 : i32, alignment = 16 : i64, dso_local} : !llvm.array<16 x i8>
gpu.module @promise {
  // CODEGEN gfx942,gfx950: ds_write_b128
  // CODEGEN gfx1201,gfx1250: ds_store_b128
  gpu.func @f(%v: vector<4xf32>) kernel {
    %p = fly.make_ptr() {dictAttrs = {allocBytes = 16 : i64, allocAlign = 4 : i64}} : () -> !fly.ptr<f32, shared, align<16>>
    fly.ptr.store(%v, %p) : (vector<4xf32>, !fly.ptr<f32, shared, align<16>>) -> ()
    gpu.return
  }
}

// -----

// One global for all dynamic shared memory of a module.
// CHECK-LABEL: gpu.module @dynamic
// CHECK-COUNT-1: llvm.mlir.global external @__dynamic_shared_0() {addr_space = 3 : i32, alignment = 1024 : i64, dso_local} : !llvm.array<0 x i8>
gpu.module @dynamic {
  // CODEGEN gfx942,gfx950: ds_write_b(32|8)
  // CODEGEN gfx1201,gfx1250: ds_store_b(32|8)
  gpu.func @f(%v: i8) kernel {
    %p = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
    fly.ptr.store(%v, %p) : (i8, !fly.ptr<i8, shared, align<1024>>) -> ()
    gpu.return
  }
  // CODEGEN gfx942,gfx950: ds_write_b8
  // CODEGEN gfx1201,gfx1250: ds_store_b8
  gpu.func @g(%v: i8) kernel {
    %p = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
    fly.ptr.store(%v, %p) : (i8, !fly.ptr<i8, shared, align<1024>>) -> ()
    gpu.return
  }
}

// -----

// A buffer pointer: descriptor, offset in elements, load in bytes.
gpu.module @m {
  // CHECK-LABEL: gpu.func @buffer
  // CHECK: %[[R:.*]] = rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : <1> to <8>
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}} : vector<4xf32>
  // CODEGEN gfx942,gfx950: buffer_load_dwordx4
  // CODEGEN gfx1201,gfx1250: buffer_load_b128
  gpu.func @buffer(%p: !fly.ptr<f32, global>, %n: i32, %o: !llvm.ptr<1>) kernel {
    %stride = arith.constant 0 : i16
    %records = arith.constant 4294967295 : i64
    %flags = arith.constant 159744 : i32
    %b = fly.make_ptr(%p, %stride, %records, %flags) : (!fly.ptr<f32, global>, i16, i64, i32) -> !fly.ptr<f32, #fly_rocdl.buffer_desc>
    %off = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<?>
    %q = fly.add_offset(%b, %off) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>, !fly.int_tuple<?>) -> !fly.ptr<f32, #fly_rocdl.buffer_desc>
    %v = fly.ptr.load(%q) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> vector<4xf32>
    llvm.store %v, %o : vector<4xf32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Recasting a buffer pointer rescales its element offset.
gpu.module @m {
  // CHECK-LABEL: gpu.func @recast
  // CHECK: %[[C2:.*]] = arith.constant 2 : i32
  // CHECK: arith.divui %{{.*}}, %[[C2]] : i32
  // CODEGEN gfx942,gfx950: buffer_load_dword 
  // CODEGEN gfx1201,gfx1250: buffer_load_b32
  gpu.func @recast(%p: !fly.ptr<f16, #fly_rocdl.buffer_desc>, %o: !llvm.ptr<1>) kernel {
    %q = fly.recast_iter(%p) : (!fly.ptr<f16, #fly_rocdl.buffer_desc>) -> !fly.ptr<i32, #fly_rocdl.buffer_desc>
    %v = fly.ptr.load(%q) : (!fly.ptr<i32, #fly_rocdl.buffer_desc>) -> i32
    llvm.store %v, %o : i32, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Elements smaller than a byte: the pointer moves by bits / 8 bytes.
gpu.module @m {
  // CHECK-LABEL: gpu.func @subbyte
  // CHECK: llvm.getelementptr %{{.*}}[3] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  // CODEGEN gfx942,gfx950: global_load_ubyte
  // CODEGEN gfx1201,gfx1250: global_load_u8
  gpu.func @subbyte(%p: !fly.ptr<f4E2M1FN, global>, %o: !llvm.ptr<1>) kernel {
    %off = fly.make_int_tuple() : () -> !fly.int_tuple<6>
    %q = fly.add_offset(%p, %off) : (!fly.ptr<f4E2M1FN, global>, !fly.int_tuple<6>) -> !fly.ptr<f4E2M1FN, global>
    %r = fly.recast_iter(%q) : (!fly.ptr<f4E2M1FN, global>) -> !fly.ptr<i8, global>
    %v = fly.ptr.load(%r) : (!fly.ptr<i8, global>) -> i8
    llvm.store %v, %o : i8, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// A 64-bit value fills a leaf of 32 bits; the address takes all of it.
gpu.module @wide {
  // CHECK-LABEL: gpu.func @wide_offset
  // CHECK-SAME: (%[[P:.*]]: !llvm.ptr<1>, %[[N:.*]]: i64)
  // CHECK: llvm.getelementptr %[[P]][%[[N]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  // CODEGEN gfx942,gfx950: s_lshl_b64, (s|global)_load_dword, global_store_dword
  // CODEGEN gfx1201,gfx1250: s_lshl_b64, (s|global)_load_b32, global_store_b32
  gpu.func @wide_offset(%p: !fly.ptr<f32, global>, %n: i64) kernel {
    %t = fly.make_int_tuple(%n) : (i64) -> !fly.int_tuple<?>
    %q = fly.add_offset(%p, %t) : (!fly.ptr<f32, global>, !fly.int_tuple<?>) -> !fly.ptr<f32, global>
    %v = fly.ptr.load(%q) : (!fly.ptr<f32, global>) -> f32
    fly.ptr.store(%v, %p) : (f32, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}

// -----

// The address of a pointer, as a pointer and as an index.
gpu.module @address {
  // CHECK-LABEL: gpu.func @address
  // CHECK: %[[I:.*]] = llvm.ptrtoint %[[A:.*]] : !llvm.ptr<1> to i64
  // CHECK: llvm.store %[[A]], %{{.*}} : !llvm.ptr<1>
  // CHECK: llvm.store %[[I]], %{{.*}} : i64
  // CODEGEN gfx942,gfx950: (flat|global)_store_dword
  // CODEGEN gfx1201,gfx1250: (flat|global)_store_b
  gpu.func @address(%p: !fly.ptr<f32, global>, %o: !llvm.ptr<1>) kernel {
    %a = fly.extract_aligned_pointer_as_index %p : !fly.ptr<f32, global> -> !llvm.ptr<1>
    %i = fly.extract_aligned_pointer_as_index %p : !fly.ptr<f32, global> -> index
    llvm.store %a, %o : !llvm.ptr<1>, !llvm.ptr<1>
    %j = arith.index_cast %i : index to i64
    llvm.store %j, %o : i64, !llvm.ptr<1>
    gpu.return
  }
}
