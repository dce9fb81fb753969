//===- MmaElements.cpp - element types of matrix instructions -------------===//
//
// What the wave64 and the wave32 instructions have in common: their operands and their formats.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Mma.h"

#include "fly/IR/FlyDialect.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

bool fly_rocdl::isFP8(Type type) { return isa<Float8E4M3FNUZType, Float8E4M3FNType>(type); }
bool fly_rocdl::isBF8(Type type) { return isa<Float8E5M2FNUZType, Float8E5M2Type>(type); }
StringRef fly_rocdl::getF8Name(Type type) { return isFP8(type) ? "fp8" : "bf8"; }

std::optional<int32_t> fly_rocdl::getF8F6F4Format(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return 0;
  if (isa<Float8E5M2Type>(type))
    return 1;
  if (isa<Float6E2M3FNType>(type))
    return 2;
  if (isa<Float6E3M2FNType>(type))
    return 3;
  if (isa<Float4E2M1FNType>(type))
    return 4;
  return std::nullopt;
}

int64_t fly_rocdl::countWords(Type type, int64_t count) {
  return count * fly::getElementBitWidth(type) / 32;
}

Type fly_rocdl::getWordsType(MLIRContext *ctx, int64_t count) {
  Type i32 = IntegerType::get(ctx, 32);
  return count == 1 ? i32 : VectorType::get(count, i32);
}

std::string fly_rocdl::listCombinations(
    Type elemA, function_ref<bool(int32_t, int32_t, int32_t, Type, Type, Type)> exists) {
  Builder b(elemA.getContext());
  Type i4 = b.getI4Type(), i8 = b.getI8Type();
  SmallVector<Type> inputs = {b.getF32Type(),
                              b.getF16Type(),
                              b.getBF16Type(),
                              b.getType<Float8E4M3FNUZType>(),
                              b.getType<Float8E5M2FNUZType>(),
                              b.getType<Float8E4M3FNType>(),
                              b.getType<Float8E5M2Type>(),
                              i8,
                              i4};
  auto list = [&](ArrayRef<Type> inputs) {
    std::string result;
    llvm::raw_string_ostream os(result);
    for (Type input : inputs)
      for (Type acc : {Type(b.getF32Type()), Type(b.getF16Type()), Type(b.getBF16Type()),
                       Type(b.getI32Type())})
        for (auto [m, n] : {std::pair(16, 16), std::pair(32, 32)})
          for (int32_t k : {2, 4, 8, 16, 32, 64, 128})
            if (exists(m, n, k, input, input, acc))
              os << (result.empty() ? "" : ", ") << m << 'x' << n << 'x' << k << " (" << input << ", "
                 << input << ") -> " << acc;
    return result;
  };
  std::string same = list(elemA);
  return same.empty() ? list(inputs) : same;
}
