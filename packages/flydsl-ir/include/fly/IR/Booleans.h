//===- Booleans.h - booleans in memory ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_BOOLEANS_H
#define FLY_IR_BOOLEANS_H

#include "mlir/IR/Builders.h"

namespace mlir::fly {

/// Bits that an element takes in memory: its width, but a byte for a boolean (i1), as in NumPy and
/// PyTorch. Other elements of less than a byte are packed.
unsigned getStorageBitWidth(Type elemTy);

/// The type with which memory of `elemTy` is accessed as `valueTy`: bytes for a vector of booleans.
Type getAccessType(Type valueTy, Type elemTy);

/// Converts what was loaded with an access type to the value, and back.
Value fromAccessType(OpBuilder &builder, Location loc, Value loaded, Type valueTy);
Value toAccessType(OpBuilder &builder, Location loc, Value value, Type accessTy);

} // namespace mlir::fly

#endif // FLY_IR_BOOLEANS_H
