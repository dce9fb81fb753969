// Tiled tensor copies that cannot be derived say which operand stands in the way.
// RUN: fly-opt %s --split-input-file --verify-diagnostics

func.func @space(%t: !fly.memref<f16, shared, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(64,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{the tensor must be in global memory with a plain layout}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, shared, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @rank(%t: !fly.memref<f16, global, (2,2,2,2,2,2):(32,16,8,4,2,1)>, %l: !fly.layout<(2,2):(2,1)>, %k: !fly.tile<[2|2]>) {
  // expected-error @+1 {{the tensor has 6 modes, at most 5 are supported}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (2,2,2,2,2,2):(32,16,8,4,2,1)>, !fly.layout<(2,2):(2,1)>, !fly.tile<[2|2]>
  return
}

// -----

func.func @nested(%t: !fly.memref<f16, global, ((2,2),64):((128,64),1)>, %l: !fly.layout<(4,64):(64,1)>, %k: !fly.tile<[4|64]>) {
  // expected-error @+1 {{mode 0 of the tensor must be a leaf}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, ((2,2),64):((128,64),1)>, !fly.layout<(4,64):(64,1)>, !fly.tile<[4|64]>
  return
}

// -----

func.func @element(%t: !fly.memref<f4E2M1FN, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(64,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{elements must have 8, 16, 32 or 64 bits}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f4E2M1FN, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @tile_rank(%t: !fly.memref<f16, global, 64:1>, %l: !fly.layout<(8,8):(8,1)>, %k: !fly.tile<[8|8]>) {
  // expected-error @+1 {{the tile has rank 2 but the tensor has rank 1}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, 64:1>, !fly.layout<(8,8):(8,1)>, !fly.tile<[8|8]>
  return
}

// -----

func.func @shared_rank(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<128:1>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{the layout in shared memory has rank 1 but the tile has rank 2}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<128:1>, !fly.tile<[128|64]>
  return
}

// -----

func.func @tile_layout(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(64,1)>, %k: !fly.tile<[128|64:2]>) {
  // expected-error @+1 {{entry 1 of the tile must be an integer or a layout n:1}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64:2]>
  return
}

// -----

func.func @tile_whole(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(64,1)>, %k: !fly.tile<[*|64]>) {
  // expected-error @+1 {{entry 0 of the tile must be a positive static integer}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[*|64]>
  return
}

// -----

func.func @shared_dynamic(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(?,64):(64,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{the layout in shared memory must be static, with positive extents}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(?,64):(64,1)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @size(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(64,64):(64,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{mode 0 of the layout in shared memory has size 64 but the tile has extent 128}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(64,64):(64,1)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @single(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(1,1):(1,1)>, %k: !fly.tile<[1|1]>) {
  // expected-error @+1 {{the tile has one element only}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(1,1):(1,1)>, !fly.tile<[1|1]>
  return
}

// -----

func.func @unit_stride(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(128,2)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{the layout in shared memory needs a mode of stride 1}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(128,2)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @contiguous(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(1,128)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{mode 0 is contiguous in shared memory, so it must be contiguous in global memory}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(1,128)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @overlap(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(32,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{modes of the layout in shared memory overlap}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(32,1)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @store_gap(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(512,64):(72,1)>, %k: !fly.tile<[512|64]>) {
  // expected-error @+1 {{the gap of 8 elements after 64 elements in shared memory can be expressed neither as padding nor as iteration (a store cannot be padded)}}
  %a, %c = fly_rocdl.make_tiled_tdm_store_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(512,64):(72,1)>, !fly.tile<[512|64]>
  return
}

// -----

func.func @axis(%t: !fly.memref<f8E4M3FN, global, 131072:1>, %l: !fly.layout<131072:1>, %k: !fly.tile<[131072]>) {
  // expected-error @+1 {{an axis of 131072 elements exceeds 65535}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f8E4M3FN, global, 131072:1>, !fly.layout<131072:1>, !fly.tile<[131072]>
  return
}

// -----

func.func @small(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,4):(4,1)>, %k: !fly.tile<[128|4]>) {
  // expected-error @+1 {{the innermost axis spans 8 bytes, at least 16 are needed}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,4):(4,1)>, !fly.tile<[128|4]>
  return
}

// -----

func.func @warps_split(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(3,64):(64,1)>, %k: !fly.tile<[3|64]>) {
  // expected-error @+1 {{the tile cannot be split among 128 warps}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k {numWarps = 128 : i32} : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(3,64):(64,1)>, !fly.tile<[3|64]>
  return
}

// -----

func.func @warps(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(64,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{numWarps must be a positive power of two, got 3}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k {numWarps = 3 : i32} : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64]>
  return
}

// -----

func.func @axes(%t: !fly.memref<f16, global, (8,8,8,8,64):(100000,10000,1000,100,1)>, %l: !fly.layout<(2,(2,2),(2,2),2,64):(2048,(1024,512),(256,128),64,1)>, %k: !fly.tile<[2|4|4|2|64]>) {
  // expected-error @+1 {{the copy needs 7 axes, at most 5 exist}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !fly.memref<f16, global, (8,8,8,8,64):(100000,10000,1000,100,1)>, !fly.layout<(2,(2,2),(2,2),2,64):(2048,(1024,512),(256,128),64,1)>, !fly.tile<[2|4|4|2|64]>
  return
}

// -----

func.func @cache(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %l: !fly.layout<(128,64):(64,1)>, %k: !fly.tile<[128|64]>) {
  // expected-error @+1 {{cacheModifier must not be negative, got -1}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k {cacheModifier = -1 : i32} : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>, !fly.tile<[128|64]>
  return
}
