//===- FlyROCDLOps.td - operations of the fly_rocdl dialect -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_FLYROCDLOPS_TD
#define FLY_ROCDL_IR_FLYROCDLOPS_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "fly/IR/FlyTypes.td"
include "fly_rocdl/IR/FlyROCDLTypes.td"

class FlyROCDL_Op<string mnemonic, list<Trait> traits = []>
    : Op<FlyROCDL_Dialect, mnemonic, traits>;

def FlyROCDL_GetBufferRsrcOp
    : FlyROCDL_Op<"get_buffer_rsrc", [Pure, InferTypeOpAdaptor]> {
  let summary = "the resource of a buffer pointer";
  let description = [{
    The element offset of the pointer is not part of the result.

    ```mlir
    %r = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
    ```
  }];
  let arguments = (ins AnyType:$ptr);
  let results = (outs AnyType:$result);
  let assemblyFormat = "`(` operands `)` attr-dict `:` functional-type(operands, results)";
}

class FlyROCDL_MakeTiledTdmOp<string mnemonic>
    : FlyROCDL_Op<mnemonic, [Pure, InferTypeOpAdaptor]> {
  let arguments = (ins Fly_MemRefType:$tensor, Fly_LayoutType:$smemLayout, Fly_TileType:$tile,
                       DefaultValuedAttr<I32Attr, "1">:$numWarps,
                       DefaultValuedAttr<BoolAttr, "true">:$initBoundaryCheck,
                       DefaultValuedAttr<BoolAttr, "false">:$atomicBarrier,
                       DefaultValuedAttr<I32Attr, "0">:$cacheModifier,
                       OptionalAttr<TypeAttr>:$internalType);
  let results = (outs Fly_CopyAtomType:$atom, Fly_CoordTensorType:$coord);
  let assemblyFormat = [{
    $tensor `,` $smemLayout `,` $tile attr-dict `:` qualified(type($tensor)) `,`
    qualified(type($smemLayout)) `,` qualified(type($tile))
  }];
}

def FlyROCDL_MakeTiledTdmLoadAtomOp : FlyROCDL_MakeTiledTdmOp<"make_tiled_tdm_load_atom"> {
  let summary = "a copy atom that loads tiles of a tensor, and the tensor's descriptor coordinates";
  let description = [{
    The descriptor axes are derived from the order in which the tile lies in shared memory; gaps
    between its modes become padding. `fly-rocdl-expand-ops` lowers it to `fly.make_copy_atom`.

    ```mlir
    %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %ti {numWarps = 4 : i32}
        : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>,
          !fly.tile<[128|64]>
    ```
  }];
}

def FlyROCDL_MakeTiledTdmStoreAtomOp : FlyROCDL_MakeTiledTdmOp<"make_tiled_tdm_store_atom"> {
  let summary = "a copy atom that stores tiles to a tensor, and the tensor's descriptor coordinates";
  let description = [{
    ```mlir
    %a, %c = fly_rocdl.make_tiled_tdm_store_atom %t, %l, %ti
        : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(128,64):(64,1)>,
          !fly.tile<[128|64]>
    ```
  }];
}

#endif // FLY_ROCDL_IR_FLYROCDLOPS_TD
