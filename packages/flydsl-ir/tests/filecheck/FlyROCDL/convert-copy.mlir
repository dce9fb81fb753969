// RUN: fly-opt %s -split-input-file --convert-fly-to-rocdl --canonicalize | FileCheck %s

// A cached buffer load; soffset counts elements.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<64, cache = 2>, 16>
gpu.module @m {
  // CHECK-LABEL: gpu.func @buffer_load
  // CHECK-SAME: (%[[S:.*]]: !llvm.struct<(ptr<8>, i32)>, %[[D:.*]]: !llvm.ptr<5>, %[[N:.*]]: i32)
  // CHECK-DAG: %[[C2:.*]] = arith.constant 2 : i32
  // CHECK-DAG: %[[R:.*]] = llvm.extractvalue %[[S]][0]
  // CHECK-DAG: %[[O:.*]] = llvm.extractvalue %[[S]][1]
  // CHECK-DAG: %[[V:.*]] = arith.muli %[[O]], %[[C2]]
  // CHECK-DAG: %[[SO:.*]] = arith.muli %[[N]], %[[C2]]
  // CHECK: %[[L:.*]] = rocdl.raw.ptr.buffer.load %[[R]], %[[V]], %[[SO]], %[[C2]] : i64
  // CHECK: %[[B:.*]] = llvm.bitcast %[[L]] : i64 to vector<4xf16>
  // CHECK: llvm.store %[[B]], %[[D]] : vector<4xf16>, !llvm.ptr<5>
  // CODEGEN gfx942,gfx950: buffer_load_dwordx2 .* nt, scratch_store_dwordx2
  // CODEGEN gfx1201,gfx1250: buffer_load_b64 .* th:TH_LOAD_HT, scratch_store_b64
  gpu.func @buffer_load(%s: !fly.memref<f16, #fly_rocdl.buffer_desc, 4:1>, %d: !fly.memref<f16, register, 4:1>, %n: i32) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    %b = fly.atom.set_value(%a, "soffset", %n) : (!at, i32) -> !at
    fly.copy_atom_call(%b, %s, %d) : (!at, !fly.memref<f16, #fly_rocdl.buffer_desc, 4:1>, !fly.memref<f16, register, 4:1>) -> ()
    gpu.return
  }
}

// -----

// LDS DMA with an immediate offset in bytes.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @buffer_lds
  // CHECK-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // CHECK-DAG: %[[C4:.*]] = arith.constant 4 : i32
  // CHECK-DAG: %[[C64:.*]] = arith.constant 64 : i32
  // CHECK: rocdl.raw.ptr.buffer.load.lds %{{.*}}, %{{.*}}, %[[C4]], %{{.*}}, %{{.*}}, %[[C64]], %[[C0]]
  // CODEGEN gfx942,gfx950: buffer_load_dword .* offset:64 lds
  gpu.func @buffer_lds(%s: !fly.memref<i32, #fly_rocdl.buffer_desc, 1:1>, %d: !fly.memref<i32, shared, 1:1>) kernel {
    %c64 = arith.constant 64 : i32
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %b = fly.atom.set_value(%a, "imm_offset", %c64) : (!at, i32) -> !at
    fly.copy_atom_call(%b, %s, %d) : (!at, !fly.memref<i32, #fly_rocdl.buffer_desc, 1:1>, !fly.memref<i32, shared, 1:1>) -> ()
    gpu.return
  }
}

// -----

// A predicated load keeps the old value.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @predicated
  // CHECK: %[[V:.*]] = scf.if %{{.*}} -> (vector<4xf32>) {
  // CHECK: rocdl.raw.ptr.buffer.load {{.*}} : i128
  // CHECK: } else {
  // CHECK: scf.yield %[[OLD:.*]] : vector<4xf32>
  // CODEGEN gfx942,gfx950: s_cbranch, buffer_load_dwordx4, global_store_dwordx4
  // CODEGEN gfx1201,gfx1250: s_cbranch, buffer_load_b128, global_store_b128
  gpu.func @predicated(%s: !fly.memref<f32, #fly_rocdl.buffer_desc, 4:1>, %old: vector<4xf32>, %p: i1, %o: !llvm.ptr<1>) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %v = fly.copy_atom_call_ssa(%a, %s, %old, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!at, !fly.memref<f32, #fly_rocdl.buffer_desc, 4:1>, vector<4xf32>, i1) -> vector<4xf32>
    llvm.store %v, %o : vector<4xf32>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// A predicated packed atomic.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_atomic<add, vector<2xf16>>, 16>
gpu.module @m {
  // CHECK-LABEL: gpu.func @atomic
  // CHECK: scf.if
  // CHECK: rocdl.raw.ptr.buffer.atomic.fadd %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : vector<2xf16>
  // CHECK-NOT: else
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_cbranch, buffer_atomic_pk_add_f16
  gpu.func @atomic(%v: vector<2xf16>, %d: !fly.memref<f16, #fly_rocdl.buffer_desc, 2:1>, %p: i1) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    fly.copy_atom_call_ssa(%a, %v, %d, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!at, vector<2xf16>, !fly.memref<f16, #fly_rocdl.buffer_desc, 2:1>, i1) -> ()
    gpu.return
  }
}

// -----

// A transposing LDS read.
!at = !fly.copy_atom<!fly_rocdl.cdna4.lds_read_trans<trans = 8b, 64>, 8>
gpu.module @m {
  // CHECK-LABEL: gpu.func @transpose
  // CHECK: %[[R:.*]] = rocdl.ds.read.tr8.b64 %{{.*}} : <3> -> vector<2xi32>
  // CHECK: llvm.bitcast %[[R]] : vector<2xi32> to vector<8xi8>
  // CODEGEN gfx950: ds_read_b64_tr_b8
  gpu.func @transpose(%s: !fly.memref<i8, shared, 8:1>, %o: !llvm.ptr<1>) kernel {
    %a = fly.make_copy_atom {valBits = 8 : i32} : !at
    %v = fly.copy_atom_call_ssa(%a, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !fly.memref<i8, shared, 8:1>) -> vector<8xi8>
    llvm.store %v, %o : vector<8xi8>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Those of gfx1250. The lane's 16 bytes are swizzled as a whole.
!at = !fly.copy_atom<!fly_rocdl.gfx1250.lds_read_trans<trans = 16b, 128>, 16>
!at8 = !fly.copy_atom<!fly_rocdl.gfx1250.lds_read_trans<trans = 8b, 64>, 8>
gpu.module @m {
  // CHECK-LABEL: gpu.func @exchange
  // CHECK: llvm.inttoptr
  // CHECK: %[[R:.*]] = rocdl.ds.load.tr16.b128 %{{.*}} -> vector<8xi16>
  // CHECK: llvm.bitcast %[[R]] : vector<8xi16> to vector<8xbf16>
  // CHECK: rocdl.ds.load.tr8.b64 %{{.*}} -> vector<2xi32>
  // CODEGEN gfx1250: ds_load_tr16_b128, ds_load_tr8_b64
  gpu.func @exchange(%s: !fly.memref<bf16, shared, 8:1, align<16>, S<3,4,3>>, %t: !fly.memref<i8, shared, 8:1>, %o: !llvm.ptr<1>) kernel {
    %a = fly.make_copy_atom {valBits = 16 : i32} : !at
    %v = fly.copy_atom_call_ssa(%a, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at, !fly.memref<bf16, shared, 8:1, align<16>, S<3,4,3>>) -> vector<8xbf16>
    llvm.store %v, %o : vector<8xbf16>, !llvm.ptr<1>
    %b = fly.make_copy_atom {valBits = 8 : i32} : !at8
    %w = fly.copy_atom_call_ssa(%b, %t) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!at8, !fly.memref<i8, shared, 8:1>) -> vector<8xi8>
    llvm.store %w, %o : vector<8xi8>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Views of one element are addresses: the atom says what moves, whatever the element type.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 8>
!dma = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 8>
!plain = !fly.copy_atom<!fly.universal_copy<64>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @addresses
  // CHECK: rocdl.raw.ptr.buffer.load {{.*}} : i128
  // CHECK: rocdl.raw.ptr.buffer.load.lds
  // CHECK: "llvm.intr.memcpy"(%{{.*}}, %{{.*}}, %[[C8:.*]]) {{.*}} : (!llvm.ptr<5>, !llvm.ptr<3>, i32)
  // CHECK: "llvm.intr.memcpy"(%{{.*}}, %{{.*}}, %[[C8]]) {{.*}} : (!llvm.ptr<1>, !llvm.ptr<5>, i32)
  gpu.func @addresses(%s: !fly.memref<i8, #fly_rocdl.buffer_desc, 1:1>, %d: !fly.memref<i8, register, 16:1>,
                      %l: !fly.memref<i8, shared, 1:0>, %f: !fly.memref<f32, shared, 1:1, align<8>>,
                      %r: !fly.memref<f32, register, 2:1>, %g: !fly.memref<f32, global, (1):(1), align<8>>) kernel {
    %a = fly.make_copy_atom {valBits = 8 : i32} : !at
    %b = fly.make_copy_atom {valBits = 8 : i32} : !dma
    %c = fly.make_copy_atom {valBits = 32 : i32} : !plain
    fly.copy_atom_call(%a, %s, %d) : (!at, !fly.memref<i8, #fly_rocdl.buffer_desc, 1:1>, !fly.memref<i8, register, 16:1>) -> ()
    fly.copy_atom_call(%b, %s, %l) : (!dma, !fly.memref<i8, #fly_rocdl.buffer_desc, 1:1>, !fly.memref<i8, shared, 1:0>) -> ()
    fly.copy_atom_call(%c, %f, %r) : (!plain, !fly.memref<f32, shared, 1:1, align<8>>, !fly.memref<f32, register, 2:1>) -> ()
    fly.copy_atom_call(%c, %r, %g) : (!plain, !fly.memref<f32, register, 2:1>, !fly.memref<f32, global, (1):(1), align<8>>) -> ()
    gpu.return
  }
}

// -----

// With zeroFill a buffer access takes an offset outside of the resource where the predicate is false: no branch.
!at = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @masked
  // CHECK-SAME: (%[[S:.*]]: !llvm.struct<(ptr<8>, i32)>, %{{.*}}: !llvm.struct<(ptr<8>, i32)>, %{{.*}}: f32, %[[P:.*]]: i1)
  // CHECK-NOT: scf.if
  // CHECK: %[[O:.*]] = llvm.extractvalue %[[S]][1]
  // CHECK: arith.select %[[P]], %[[O]], %{{.*}} : i32
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: arith.select %[[P]]
  // CHECK: rocdl.raw.ptr.buffer.store
  // CHECK-NOT: scf.if
  // CODEGEN gfx942,gfx950: buffer_load_dword, buffer_store_dword
  // CODEGEN gfx1201,gfx1250: buffer_load_b32, buffer_store_b32
  gpu.func @masked(%s: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:0>, %d: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:0>, %z: f32, %p: i1) kernel {
    %a = fly.make_copy_atom {valBits = 32 : i32} : !at
    %v = fly.copy_atom_call_ssa(%a, %s, %z, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, zeroFill} : (!at, !fly.memref<f32, #fly_rocdl.buffer_desc, 1:0>, f32, i1) -> f32
    fly.copy_atom_call_ssa(%a, %v, %d, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, zeroFill} : (!at, f32, !fly.memref<f32, #fly_rocdl.buffer_desc, 1:0>, i1) -> ()
    gpu.return
  }
}
