//===- FlyROCDLDialect.h - the fly_rocdl dialect ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_FLYROCDLDIALECT_H
#define FLY_ROCDL_IR_FLYROCDLDIALECT_H

#include "fly/IR/FlyOps.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fly_rocdl/IR/FlyROCDLDialect.h.inc"
#include "fly_rocdl/IR/FlyROCDLEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fly_rocdl/IR/FlyROCDLAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fly_rocdl/IR/FlyROCDLTypes.h.inc"

#define GET_OP_CLASSES
#include "fly_rocdl/IR/FlyROCDLOps.h.inc"

namespace mlir::fly_rocdl {

/// Adds the dialect to `registry`.
void registerFlyROCDLDialect(DialectRegistry &registry);

/// True if `space` is the address space `AttrT` of a target.
template <typename AttrT>
bool isTargetAddressSpace(Attribute space) {
  return isa_and_nonnull<AttrT>(space);
}

/// True if `space` is the generic address space `Space`.
template <fly::AddressSpace Space>
bool isGenericAddressSpace(Attribute space) {
  auto attr = dyn_cast_or_null<fly::AddressSpaceAttr>(space);
  return attr && attr.getValue() == Space;
}

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_IR_FLYROCDLDIALECT_H
