//===- Dialect.cpp - the fly_rocdl dialect --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "AsmFormat.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

#include "fly_rocdl/IR/FlyROCDLDialect.cpp.inc"
#include "fly_rocdl/IR/FlyROCDLEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fly_rocdl/IR/FlyROCDLAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fly_rocdl/IR/FlyROCDLTypes.cpp.inc"

#define GET_OP_CLASSES
#include "fly_rocdl/IR/FlyROCDLOps.cpp.inc"

void FlyROCDLDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fly_rocdl/IR/FlyROCDLAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fly_rocdl/IR/FlyROCDLTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fly_rocdl/IR/FlyROCDLOps.cpp.inc"
      >();
}

void fly_rocdl::registerFlyROCDLDialect(DialectRegistry &registry) {
  registry.insert<FlyROCDLDialect>();
}

LogicalResult GetBufferRsrcOp::inferReturnTypes(MLIRContext *ctx, std::optional<Location> loc,
                                                Adaptor adaptor,
                                                SmallVectorImpl<Type> &results) {
  Type type = adaptor.getPtr().getType();
  auto pointer = dyn_cast<fly::PointerType>(type);
  if (!pointer || !isTargetAddressSpace<BufferDescAddressAttr>(pointer.getAddressSpace()))
    return emitOptionalError(loc, "expected a pointer in #fly_rocdl.buffer_desc, got ", type);
  results.push_back(LLVM::LLVMPointerType::get(ctx, 8));
  return success();
}
