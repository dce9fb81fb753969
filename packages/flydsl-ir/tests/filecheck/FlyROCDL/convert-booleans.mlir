// A boolean in memory is a byte, in every address space; other elements below a byte are packed.
// RUN: fly-opt %s --split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @pointers
  // CHECK-SAME: (%[[P:[^:]*]]: !llvm.ptr<1>, %[[N:[^:]*]]: i32,
  // CHECK: %[[Q:.*]] = llvm.getelementptr %[[P]][%[[N]]] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i1
  // CHECK: %[[V:.*]] = llvm.load %[[Q]] {alignment = 1 : i64} : !llvm.ptr<1> -> vector<8xi8>
  // CHECK: %[[W:.*]] = arith.trunci %[[V]] : vector<8xi8> to vector<8xi1>
  // CHECK: %[[A:.*]] = llvm.load %[[Q]] {alignment = 1 : i64} : !llvm.ptr<1> -> i1
  // CHECK: %[[E:.*]] = arith.extui %{{.*}} : vector<8xi1> to vector<8xi8>
  // CHECK: llvm.store %[[E]], %{{.*}} : vector<8xi8>, !llvm.ptr<3>
  // CODEGEN gfx942,gfx950: global_load_dwordx2, ds_write_b(64|8)
  // CODEGEN gfx1201,gfx1250: global_load_b64, ds_store_b(64|8)
  gpu.func @pointers(%p: !fly.ptr<i1, global>, %n: i32, %l: !fly.ptr<i1, shared>) kernel {
    %t = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<?>
    %q = fly.add_offset(%p, %t) : (!fly.ptr<i1, global>, !fly.int_tuple<?>) -> !fly.ptr<i1, global>
    %v = fly.ptr.load(%q) : (!fly.ptr<i1, global>) -> vector<8xi1>
    %a = fly.ptr.load(%q) : (!fly.ptr<i1, global>) -> i1
    %b = vector.broadcast %a : i1 to vector<8xi1>
    %c = arith.xori %v, %b : vector<8xi1>
    fly.ptr.store(%c, %l) : (vector<8xi1>, !fly.ptr<i1, shared>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  // The offset of a buffer counts bytes, also after a change from and to 8-bit elements.
  // CHECK-LABEL: gpu.func @buffers
  // CHECK-NOT: arith.divui
  // CHECK: %[[X:.*]] = rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}} : i8
  // CHECK: %[[Y:.*]] = arith.trunci %[[X]] : i8 to i1
  // CHECK: rocdl.raw.ptr.buffer.load {{.*}} : i32
  // CHECK: arith.extui %{{.*}} : vector<4xi1> to vector<4xi8>
  // CHECK: rocdl.raw.ptr.buffer.store {{.*}} : i32
  // CODEGEN gfx942,gfx950: buffer_load_ubyte, buffer_load_dword , buffer_store_dword
  // CODEGEN gfx1201,gfx1250: buffer_load_u8, buffer_load_b32, buffer_store_b32
  gpu.func @buffers(%p: !fly.ptr<i8, #fly_rocdl.buffer_desc>, %n: i32) kernel {
    %t = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<?>
    %q = fly.add_offset(%p, %t) : (!fly.ptr<i8, #fly_rocdl.buffer_desc>, !fly.int_tuple<?>) -> !fly.ptr<i8, #fly_rocdl.buffer_desc>
    %r = fly.recast_iter(%q) : (!fly.ptr<i8, #fly_rocdl.buffer_desc>) -> !fly.ptr<i1, #fly_rocdl.buffer_desc>
    %a = fly.ptr.load(%r) : (!fly.ptr<i1, #fly_rocdl.buffer_desc>) -> i1
    %v = fly.ptr.load(%r) : (!fly.ptr<i1, #fly_rocdl.buffer_desc>) -> vector<4xi1>
    %b = vector.broadcast %a : i1 to vector<4xi1>
    %c = arith.xori %v, %b : vector<4xi1>
    fly.ptr.store(%c, %r) : (vector<4xi1>, !fly.ptr<i1, #fly_rocdl.buffer_desc>) -> ()
    gpu.return
  }
}

// -----

// An atom of 8 bits moves eight booleans of one bit, or one of eight bits.
!eight = !fly.copy_atom<!fly.universal_copy<8>, 1>
!one = !fly.copy_atom<!fly.universal_copy<8>, 8>
!buffer = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<8>, 1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @copies
  // CHECK-DAG: %[[C8:.*]] = arith.constant 8 : i32
  // CHECK-DAG: %[[C1:.*]] = arith.constant 1 : i32
  // CHECK: "llvm.intr.memcpy"(%{{.*}}, %{{.*}}, %[[C8]])
  // CHECK: "llvm.intr.memcpy"(%{{.*}}, %{{.*}}, %[[C1]])
  // CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<8xi8>
  // CHECK: arith.trunci
  // CHECK: %[[E:.*]] = arith.extui
  // CHECK: %[[W:.*]] = llvm.bitcast %[[E]] : vector<8xi8> to i64
  // CHECK: rocdl.raw.ptr.buffer.store %[[W]]
  // CHECK: rocdl.raw.ptr.buffer.load {{.*}} : i64
  // CHECK: llvm.store %{{.*}} : vector<8xi8>, !llvm.ptr<5>
  // CODEGEN gfx942,gfx950: global_load_dwordx2, buffer_store_dwordx2, buffer_load_dwordx2
  // CODEGEN gfx1201,gfx1250: global_load_b64, buffer_store_b64, buffer_load_b64
  gpu.func @copies(%g: !fly.memref<i1, global, 8:1>, %o: !fly.memref<i1, global, 1:1>, %l: !fly.memref<i1, shared, 8:1>, %s: !fly.memref<i1, shared, 1:1>, %b: !fly.memref<i1, #fly_rocdl.buffer_desc, 8:1>, %r: !fly.memref<i1, register, 8:1>) kernel {
    %eight = fly.make_copy_atom {valBits = 1 : i32} : !eight
    fly.copy_atom_call(%eight, %g, %l) : (!eight, !fly.memref<i1, global, 8:1>, !fly.memref<i1, shared, 8:1>) -> ()
    %one = fly.make_copy_atom {valBits = 8 : i32} : !one
    fly.copy_atom_call(%one, %o, %s) : (!one, !fly.memref<i1, global, 1:1>, !fly.memref<i1, shared, 1:1>) -> ()
    %v = fly.copy_atom_call_ssa(%eight, %g) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!eight, !fly.memref<i1, global, 8:1>) -> vector<8xi1>
    %buffer = fly.make_copy_atom {valBits = 1 : i32} : !buffer
    fly.copy_atom_call_ssa(%buffer, %v, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!buffer, vector<8xi1>, !fly.memref<i1, #fly_rocdl.buffer_desc, 8:1>) -> ()
    fly.copy_atom_call(%buffer, %b, %r) : (!buffer, !fly.memref<i1, #fly_rocdl.buffer_desc, 8:1>, !fly.memref<i1, register, 8:1>) -> ()
    gpu.return
  }
}
