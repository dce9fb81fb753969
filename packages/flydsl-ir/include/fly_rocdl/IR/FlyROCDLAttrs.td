//===- FlyROCDLAttrs.td - attributes of the fly_rocdl dialect ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_FLYROCDLATTRS_TD
#define FLY_ROCDL_IR_FLYROCDLATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "fly_rocdl/IR/FlyROCDLDialect.td"
include "fly_rocdl/IR/FlyROCDLEnums.td"

def FlyROCDL_BufferDescAddressAttr : AttrDef<FlyROCDL_Dialect, "BufferDescAddress"> {
  let mnemonic = "buffer_desc";
  let summary = "address space of buffer descriptors, `#fly_rocdl.buffer_desc`";
  let description = [{
    A pointer in this space is a buffer resource and an element offset into it.
  }];
}

#endif // FLY_ROCDL_IR_FLYROCDLATTRS_TD
