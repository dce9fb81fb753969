//===- Mma.h - matrix instructions --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_MMA_H
#define FLY_ROCDL_LIB_IR_MMA_H

#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include <optional>
#include <string>

namespace mlir::fly_rocdl {

/// A matrix operation of the ROCDL dialect and the types of its operands.
struct MmaInstruction {
  std::string name; ///< without the dialect prefix
  Type a, b, acc;
};

/// True for an 8-bit float with 4 exponent bits (fp8).
bool isFP8(Type type);
/// True for an 8-bit float with 5 exponent bits (bf8).
bool isBF8(Type type);
inline bool isAnyF8(Type type) { return isFP8(type) || isBF8(type); }
/// "fp8" or "bf8".
StringRef getF8Name(Type type);

/// The code of a format in the f8f6f4 instructions; nullopt if `type` is none of them.
std::optional<int32_t> getF8F6F4Format(Type type);

/// The number of i32 words that `count` elements of `type` fill.
int64_t countWords(Type type, int64_t count);

/// i32, or a vector of `count` i32.
Type getWordsType(MLIRContext *ctx, int64_t count);

/// The instruction of an operation; nullopt if there is none.
std::optional<MmaInstruction> getMmaInstruction(Type op);
/// The same for the wave64 and for the wave32 operations.
std::optional<MmaInstruction> getMfmaInstruction(Type op);
std::optional<MmaInstruction> getWmmaInstruction(Type op);

/// The combinations of shape and element types for which there is an instruction, for messages: those
/// with `elemA`, or all if it has none.
std::string listCombinations(
    Type elemA,
    function_ref<bool(int32_t m, int32_t n, int32_t k, Type a, Type b, Type acc)> exists);

/// Operands of one instruction, in the types of its MmaInstruction; scales may be null.
struct MmaOperands {
  Value a, b, c, scaleA, scaleB;
};

/// Creates the operation that `getMmaInstruction` named.
Value createMmaInstruction(OpBuilder &builder, Location loc, Type op,
                           const MmaInstruction &instruction, const MmaOperands &operands);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_MMA_H
