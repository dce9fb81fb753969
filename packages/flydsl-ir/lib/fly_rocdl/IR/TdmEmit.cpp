//===- TdmEmit.cpp - copies by the tensor data mover ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/IR/FlyROCDLDialect.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

static LogicalResult notImplemented(Location loc) {
  return emitError(loc) << "lowering of !fly_rocdl.gfx1250.tdm copies is not implemented";
}

LogicalResult CopyOpGFX1250TDMType::emitAtomCall(OpBuilder &builder, Location loc, Type copyAtomTy,
                                                 Type srcTy, Type dstTy, Type predTy,
                                                 Value atomVal, Value src, Value dst,
                                                 Value pred) const {
  return notImplemented(loc);
}

FailureOr<Value> CopyOpGFX1250TDMType::emitAtomCallSSA(OpBuilder &builder, Location loc,
                                                       Type resultTy, Type copyAtomTy, Type srcTy,
                                                       Type dstTy, Type predTy, Value atomVal,
                                                       Value src, Value dst, Value pred) const {
  return notImplemented(loc);
}
