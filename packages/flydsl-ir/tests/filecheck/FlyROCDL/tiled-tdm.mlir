// Tiled tensor copies: derivation of the descriptor, expansion, lowering.
// RUN: fly-opt %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=TYPE
// RUN: fly-opt %s --split-input-file | fly-opt --split-input-file | FileCheck %s --check-prefix=TEXT
// RUN: fly-opt %s --split-input-file --fly-rewrite-func-signature --fly-canonicalize --fly-rocdl-expand-ops --fly-layout-lowering --convert-fly-to-rocdl --canonicalize | FileCheck %s --check-prefix=LOWER

// Row major: one axis a mode, rows split among the warps.
// TYPE: !fly_rocdl.cdna5.tensor_load<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1)>
// TYPE-SAME: !fly.coord_tensor<(0,0), (?,?):(1E0,1E1)>
// TEXT: %{{.*}}, %{{.*}} = fly_rocdl.make_tiled_tdm_load_atom %{{.*}}, %{{.*}}, %{{.*}} {numWarps = 4 : i32} : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64]>
gpu.module @m {
  // CODEGEN none: shows the inferred type; the value is not used
  gpu.func @row_major(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>) kernel {
    %l = fly.static : !fly.layout<(128,64):(64,1)>
    %ti = fly.static : !fly.tile<[128|64]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti {numWarps = 4 : i32}
        : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64]>
    gpu.return
  }
}

// -----

// Column major: the axes swap.
// TYPE: !fly_rocdl.cdna5.tensor_load<shape = [64, 128], elem = f16, tensor2tdm = (1E1,1E0)>
gpu.module @m {
  // CODEGEN none: shows the inferred type; the value is not used
  gpu.func @column_major(%t: !fly.memref<f16, global, (?,?):(1,?{i64})>) kernel {
    %l = fly.static : !fly.layout<(128,64):(1,128)>
    %ti = fly.static : !fly.tile<[128|64]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti
        : !fly.memref<f16, global, (?,?):(1,?{i64})>, !fly.layout<(128,64):(1,128)>, !fly.tile<[128|64]>
    gpu.return
  }
}

// -----

// Two modes that are contiguous on both sides are one axis.
// TYPE: !fly_rocdl.cdna5.tensor_load<shape = [4, 512], elem = f16, tensor2tdm = (1E0,64E1,1E1)>
gpu.module @m {
  // CODEGEN none: shows the inferred type; the value is not used
  gpu.func @three_modes(%t: !fly.memref<f16, global, (?,?,64):(?{i64},64,1)>) kernel {
    %l = fly.static : !fly.layout<(4,8,64):(512,64,1)>
    %ti = fly.static : !fly.tile<[4|8|64]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti
        : !fly.memref<f16, global, (?,?,64):(?{i64},64,1)>, !fly.layout<(4,8,64):(512,64,1)>, !fly.tile<[4|8|64]>
    gpu.return
  }
}

// -----

// Gaps in shared memory are padding.
// TYPE: !fly_rocdl.cdna5.tensor_load<shape = [128, 64], elem = f16, tensor2tdm = (1E0,1E1), padInterval = 64, padAmount = 8>
// TYPE: !fly_rocdl.cdna5.tensor_load<shape = [128, 64], elem = f16, tensor2tdm = (1E0,1E1), cacheModifier = 2, padInterval = 512, padAmount = 64>
gpu.module @m {
  // CODEGEN none: shows the inferred type; the value is not used
  gpu.func @padding(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>) kernel {
    %ti = fly.static : !fly.tile<[128|64]>
    %l = fly.static : !fly.layout<(128,64):(72,1)>
    %a0, %c0 = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti
        : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(72,1)>, !fly.tile<[128|64]>
    %k = fly.static : !fly.layout<((8,16),64):((64,576),1)>
    %a1, %c1 = fly_rocdl.make_tiled_tdm_load_atom %t, %k, %ti {cacheModifier = 2 : i32}
        : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<((8,16),64):((64,576),1)>, !fly.tile<[128|64]>
    gpu.return
  }
}

// -----

// A store is not padded, so the outermost gap becomes iteration.
// TYPE: !fly_rocdl.cdna5.tensor_store<shape = [8, 64], elem = f32, tensor2tdm = (1E0,1E1), iterCount = 4>
gpu.module @m {
  // CODEGEN none: shows the inferred type; the value is not used
  gpu.func @iteration(%t: !fly.memref<f32, global, (?,?):(?{i64},1)>) kernel {
    %ti = fly.static : !fly.tile<[32|64]>
    %l = fly.static : !fly.layout<((8,4),64):((64,1000),1)>
    %a0, %c0 = fly_rocdl.make_tiled_tdm_store_atom %t, %l, %ti
        : !fly.memref<f32, global, (?,?):(?{i64},1)>, !fly.layout<((8,4),64):((64,1000),1)>, !fly.tile<[32|64]>
    gpu.return
  }
}

// -----

// The whole way: tile (1, 2) of a tensor, with bounds checks.
!t = !fly.memref<f16, global, (?,?):(?{i64},1)>
!s = !fly.memref<f16, shared, (16,64):(64,1)>
!c = !fly.coord_tensor<(0,0), (?,?):(1E0,1E1)>
!at = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [16, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
// LOWER-LABEL: gpu.func @lower
// LOWER-SAME: (%[[G:[^:]*]]: !llvm.ptr<1>, %[[D:[^:]*]]: !llvm.struct<packed (struct<packed (i32, i32)>, struct<packed (i64)>)>, %[[S:[^:]*]]: !llvm.ptr<3>)
// LOWER: %[[ROWS:.*]] = llvm.extractvalue %[[D]][0, 0]
// LOWER: %[[COLUMNS:.*]] = llvm.extractvalue %[[D]][0, 1]
// LOWER: %[[STRIDE:.*]] = llvm.extractvalue %[[D]][1, 0]
// LOWER: %[[LEFT:.*]] = arith.subi %[[COLUMNS]], %c128_i32
// LOWER: arith.maxsi %[[LEFT]], %c0_i32
// LOWER: %[[OFFSET:.*]] = arith.muli %[[STRIDE]], %c16_i64
// LOWER: %[[ELEMENTS:.*]] = arith.addi %[[OFFSET]], %c128_i64
// LOWER: arith.subi %[[ROWS]], %c16_i32
// LOWER: %[[BYTES:.*]] = arith.muli %[[ELEMENTS]], %c2_i64
// LOWER: %[[ADDRESS:.*]] = llvm.ptrtoint %[[G]] : !llvm.ptr<1> to i64
// LOWER: arith.addi %[[ADDRESS]], %[[BYTES]]
// LOWER: llvm.ptrtoint %[[S]] : !llvm.ptr<3> to i32
// LOWER: rocdl.tensor.load.to.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} cachepolicy 0
gpu.module @m {
  // CODEGEN gfx1250: tensor_load_to_lds
  gpu.func @lower(%t: !t, %s: !s) kernel {
    %l = fly.static : !fly.layout<(16,64):(64,1)>
    %ti = fly.static : !fly.tile<[16|64]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti
        : !t, !fly.layout<(16,64):(64,1)>, !fly.tile<[16|64]>
    %tiles = fly.zipped_divide(%coord, %ti) : (!c, !fly.tile<[16|64]>) -> !fly.coord_tensor<(0,0), ((16,64),(?,?)):((1E0,1E1),(16E0,64E1))>
    %where = fly.make_int_tuple() : () -> !fly.int_tuple<(*,(1,2))>
    %tile = fly.slice(%tiles, %where) : (!fly.coord_tensor<(0,0), ((16,64),(?,?)):((1E0,1E1),(16E0,64E1))>, !fly.int_tuple<(*,(1,2))>) -> !fly.coord_tensor<(16,128), (16,64):(1E0,1E1)>
    fly.copy_atom_call(%atom, %tile, %s) : (!at, !fly.coord_tensor<(16,128), (16,64):(1E0,1E1)>, !s) -> ()
    gpu.return
  }
}

// -----

// The check is switched off for the rows only.
!t = !fly.memref<f16, global, (64,64):(128,1)>
!s = !fly.memref<f16, shared, (16,64):(64,1)>
!at = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [16, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
!c = !fly.coord_tensor<(0,0), (64,64):(1E0,1E1)>
// LOWER-LABEL: gpu.func @check
// LOWER: arith.constant dense<[65536, 4194304, 4194304, 4194304, 16, 128, 0, 0]> : vector<8xi32>
// LOWER: rocdl.tensor.load.to.lds
gpu.module @m {
  // CODEGEN gfx1250: tensor_load_to_lds
  gpu.func @check(%t: !t, %s: !s) kernel {
    %l = fly.static : !fly.layout<(16,64):(64,1)>
    %ti = fly.static : !fly.tile<[16|64]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti
        : !t, !fly.layout<(16,64):(64,1)>, !fly.tile<[16|64]>
    %flags = fly.make_int_tuple() : () -> !fly.int_tuple<(0,1)>
    %checked = fly.atom.set_value(%atom, "boundary_check", %flags) : (!at, !fly.int_tuple<(0,1)>) -> !at
    %zero = arith.constant 0 : i32
    %masked = fly.atom.set_value(%checked, "workgroup_mask", %zero) : (!at, i32) -> !at
    fly.copy_atom_call(%masked, %coord, %s) : (!at, !c, !s) -> ()
    gpu.return
  }
}

// -----

// The engine takes the bounds of the first iteration for all: a tile that the tensor ends in is copied an
// iteration at a time, by a branch that the whole wave takes.
!t = !fly.memref<f32, global, (?,?):(?{i64},1)>
!s = !fly.memref<f32, shared, ((8,4),64):((64,1000),1)>
!c = !fly.coord_tensor<(0,0), (?,?):(1E0,1E1)>
!at = !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [8, 64], elem = f32, tensor2tdm = (1E0,1E1), iterCount = 4>, 32>
!tile = !fly.coord_tensor<(32,0), (32,64):(1E0,1E1)>
// LOWER-LABEL: gpu.func @iterations
// LOWER: %[[LEFT:.*]] = arith.subi %{{.*}}, %c32_i32
// LOWER: %[[ROWS:.*]] = arith.maxsi %[[LEFT]], %c0_i32
// LOWER: %[[INSIDE:.*]] = arith.cmpi sge, %[[ROWS]], %c32_i32
// LOWER: rocdl.readfirstlane
// LOWER: scf.if
// LOWER: vector.from_elements %c655360_i32
// LOWER: rocdl.tensor.store.from.lds
// LOWER: } else {
// LOWER: scf.for
// LOWER: rocdl.tensor.store.from.lds
// LOWER: }
// LOWER: rocdl.tensor.store.from.lds
gpu.module @m {
  // CODEGEN gfx1250: tensor_store_from_lds
  gpu.func @iterations(%t: !t, %s: !s) kernel {
    %l = fly.static : !fly.layout<((8,4),64):((64,1000),1)>
    %ti = fly.static : !fly.tile<[32|64]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_store_atom %t, %l, %ti
        : !t, !fly.layout<((8,4),64):((64,1000),1)>, !fly.tile<[32|64]>
    %tiles = fly.zipped_divide(%coord, %ti) : (!c, !fly.tile<[32|64]>) -> !fly.coord_tensor<(0,0), ((32,64),(?,?)):((1E0,1E1),(32E0,64E1))>
    %where = fly.make_int_tuple() : () -> !fly.int_tuple<(*,(1,0))>
    %tile = fly.slice(%tiles, %where) : (!fly.coord_tensor<(0,0), ((32,64),(?,?)):((1E0,1E1),(32E0,64E1))>, !fly.int_tuple<(*,(1,0))>) -> !tile
    fly.copy_atom_call(%atom, %s, %tile) : (!at, !s, !tile) -> ()
    gpu.return
  }
}

// -----

// Tensors of one mode. Each of two warps has one of two rows with a gap between: no iterations are left.
!t = !fly.memref<f32, global, ?:1>
// LOWER-LABEL: gpu.func @one_mode
gpu.module @m {
  // CODEGEN none: the atom is not used
  gpu.func @one_mode(%t: !t) kernel {
    %l = fly.static : !fly.layout<64:1>
    %ti = fly.static : !fly.tile<64>
    %atom, %coord = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti : !t, !fly.layout<64:1>, !fly.tile<64>
    gpu.return
  }
  // CODEGEN none: the atom is not used
  gpu.func @row_for_each(%t: !fly.memref<f32, global, (?,?):(?{i64},1)>) kernel {
    %l = fly.static : !fly.layout<(2,16):(40,1)>
    %ti = fly.static : !fly.tile<[2|16]>
    %atom, %coord = fly_rocdl.make_tiled_tdm_store_atom %t, %l, %ti {numWarps = 2 : i32}
        : !fly.memref<f32, global, (?,?):(?{i64},1)>, !fly.layout<(2,16):(40,1)>, !fly.tile<[2|16]>
    gpu.return
  }
}
