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

#endif // FLY_ROCDL_IR_FLYROCDLOPS_TD
