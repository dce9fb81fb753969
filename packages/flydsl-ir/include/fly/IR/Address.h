//===- Address.h - addresses behind swizzled pointers -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_IR_ADDRESS_H
#define FLY_IR_ADDRESS_H

#include "fly/IR/FlyDialect.h"

namespace mlir::fly {

/// xor-swizzles an address, which is an i32 or i64; the address itself for no or a trivial swizzle.
Value applySwizzle(OpBuilder &builder, Location loc, Value address, SwizzleAttr swizzle);

/// The LLVM pointer after a swizzle of its byte address, in 64 bits; LLVM narrows it in LDS, whose
/// addresses have 32. The pointer itself for no or a trivial swizzle.
Value applySwizzleToPointer(OpBuilder &builder, Location loc, Value pointer, SwizzleAttr swizzle);

} // namespace mlir::fly

#endif // FLY_IR_ADDRESS_H
