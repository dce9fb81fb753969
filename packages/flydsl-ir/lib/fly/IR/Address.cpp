//===- Address.cpp - addresses behind swizzled pointers -------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly/IR/Address.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

Value fly::applySwizzle(OpBuilder &builder, Location loc, Value address, SwizzleAttr swizzle) {
  if (!swizzle || swizzle.isTrivial())
    return address;
  Type type = address.getType();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, IntegerAttr::get(type, value));
  };
  int64_t bits = ((int64_t(1) << swizzle.getMask()) - 1)
                 << (swizzle.getBase() + swizzle.getShift());
  Value picked = arith::AndIOp::create(builder, loc, address, constant(bits));
  picked = arith::ShRUIOp::create(builder, loc, picked, constant(swizzle.getShift()));
  return arith::XOrIOp::create(builder, loc, address, picked);
}

Value fly::applySwizzleToPointer(OpBuilder &builder, Location loc, Value pointer,
                                 SwizzleAttr swizzle) {
  if (!swizzle || swizzle.isTrivial())
    return pointer;
  Value address = LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), pointer);
  Value moved = applySwizzle(builder, loc, address, swizzle);
  return LLVM::IntToPtrOp::create(builder, loc, pointer.getType(), moved);
}
