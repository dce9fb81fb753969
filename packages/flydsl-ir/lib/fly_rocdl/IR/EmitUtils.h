//===- EmitUtils.h - what the emission of instructions shares -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_EMITUTILS_H
#define FLY_ROCDL_LIB_IR_EMITUTILS_H

#include "fly/IR/Address.h"
#include "fly/IR/FlyDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::fly_rocdl {

Value createI32(OpBuilder &builder, Location loc, int64_t value);
Value createI64(OpBuilder &builder, Location loc, int64_t value);

/// Total width of a scalar or vector type; 0 for any other type.
int64_t getTotalBits(Type type);

/// `value` itself if it has type `type`, else a bitcast; null if the widths differ or a type is neither a
/// scalar nor a vector of one dimension and known length.
Value bitcastTo(OpBuilder &builder, Location loc, Value value, Type type);

/// The value type of a whole register memref: its element, or a vector of cosize elements.
/// Null if the layout is not static.
Type getRegisterValueType(fly::MemRefType type);

/// The alignment a memory access may claim for a pointer with this alignment and swizzle; 0 if none.
unsigned getAccessAlignment(fly::AlignAttr alignment, fly::SwizzleAttr swizzle);

/// `elements` (i32) in bytes, for elements of `elemBits` bits.
Value elementsToBytes(OpBuilder &builder, Location loc, Value elements, unsigned elemBits);

/// Operands of a buffer instruction.
struct BufferAddress {
  Value resource;
  Value voffset; // i32 bytes
};

/// Splits a fat pointer {resource, element offset}.
BufferAddress unpackBuffer(OpBuilder &builder, Location loc, Value fatPointer, Type elemTy,
                           fly::SwizzleAttr swizzle);

/// Emits what `body` emits under `if (pred)`; unconditionally if `pred` is null.
LogicalResult emitPredicated(OpBuilder &builder, Location loc, Value pred,
                             function_ref<LogicalResult(OpBuilder &)> body);

/// The same with a result; `otherwise` is the result if the predicate is false.
FailureOr<Value> emitPredicatedValue(OpBuilder &builder, Location loc, Value pred, Value otherwise,
                                     function_ref<FailureOr<Value>(OpBuilder &)> body);

/// Creates `llvm.call_intrinsic`; the value is null without a result type.
Value callIntrinsic(OpBuilder &builder, Location loc, StringRef name, Type resultTy,
                    ValueRange operands);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_EMITUTILS_H
