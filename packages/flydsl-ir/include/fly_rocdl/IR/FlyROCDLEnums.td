//===- FlyROCDLEnums.td - enums of the fly_rocdl dialect --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_FLYROCDLENUMS_TD
#define FLY_ROCDL_IR_FLYROCDLENUMS_TD

include "mlir/IR/EnumAttr.td"

// Names of state that several operations share; an operation may have private names besides.
def FlyROCDL_AtomStateField : I32EnumAttr<"AtomStateField", "field of the state of an atom", [
  I32EnumAttrCase<"Soffset", 0, "soffset">,
  I32EnumAttrCase<"ImmOffset", 1, "imm_offset">,
  I32EnumAttrCase<"ScaleA", 2, "scale_a">,
  I32EnumAttrCase<"ScaleB", 3, "scale_b">,
  I32EnumAttrCase<"WorkgroupMask", 4, "workgroup_mask">,
  I32EnumAttrCase<"AtomicBarrierAddr", 5, "atomic_barrier_addr">,
  I32EnumAttrCase<"EarlyTimeout", 6, "early_timeout">
]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fly_rocdl";
}

#endif // FLY_ROCDL_IR_FLYROCDLENUMS_TD
