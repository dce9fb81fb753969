//===- NativeConversions.cpp - small floats by instructions ---------------===//
//
// The conversions of fp8, bf8 and fp4 that an architecture has instructions for. They give what the integer
// arithmetic of ExpandSmallFloats.cpp gives, a NaN's sign apart: they round to nearest even, and what exceeds the
// largest number becomes infinity if the format has one, else NaN, else the largest number (MODE.FP16_OVFL, which
// would saturate fp8, is clear unless a kernel sets it).
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Expand.h"
#include "fly_codegen/ArchTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;
using fly::ArchFeature;

namespace {

constexpr int kWordBits = 32;
constexpr int kOneE8M0 = 0x7F7F7F7F; ///< scales of 2^0 in each byte

/// Emits conversions of a vector of one dimension at one place.
struct Emitter {
  OpBuilder &b;
  Location loc;
  const fly::ArchInfo &arch;

  /// The name by which instructions call the type, or nothing if they do not know it.
  StringRef nameOf(Type type) const;

  Value widen(Value source, StringRef name, FloatType to) const;
  Value narrow(Value source, StringRef name, FloatType to) const;

private:
  Value i32(int64_t value) const {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value one() const { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0)); }
  VectorType vectorOf(int64_t count, Type element) const { return VectorType::get({count}, element); }

  /// An operation of ROCDL whose name is put together.
  Value call(const Twine &name, Type result, ValueRange operands, StringRef selector = {},
             Attribute selected = {}) const {
    OperationState state(loc, "rocdl.cvt." + name.str());
    state.addOperands(operands);
    state.addTypes(result);
    if (selected)
      state.addAttribute(selector, selected);
    return b.create(state)->getResult(0);
  }

  Value slice(Value vector, int64_t begin, int64_t count) const {
    if (count == cast<VectorType>(vector.getType()).getNumElements())
      return vector;
    return vector::ExtractStridedSliceOp::create(b, loc, vector, begin, count, 1);
  }
  Value resized(Value vector, int64_t count) const;
  Value joined(ArrayRef<Value> parts) const;
  Value fromF32(Value values, FloatType to) const;
};

} // namespace

StringRef Emitter::nameOf(Type type) const {
  bool isFnuz = arch.has(ArchFeature::FP8IsFNUZ);
  if (isa<Float4E2M1FNType>(type))
    return arch.has(ArchFeature::ConvertScaled2) || arch.has(ArchFeature::ConvertScaled8) ? "fp4" : "";
  if (!arch.has(ArchFeature::ConvertFP8))
    return "";
  if (isFnuz ? isa<Float8E4M3FNUZType>(type) : isa<Float8E4M3FNType>(type))
    return "fp8";
  if (isFnuz ? isa<Float8E5M2FNUZType>(type) : isa<Float8E5M2Type>(type))
    return "bf8";
  return "";
}

/// The first elements of a vector, or all of them and then zeros.
Value Emitter::resized(Value vector, int64_t count) const {
  auto type = cast<VectorType>(vector.getType());
  if (count <= type.getNumElements())
    return slice(vector, 0, count);
  VectorType longer = vectorOf(count, type.getElementType());
  Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(longer));
  return vector::InsertStridedSliceOp::create(b, loc, vector, zeros, 0, 1);
}

Value Emitter::joined(ArrayRef<Value> parts) const {
  if (parts.size() == 1 && isa<VectorType>(parts[0].getType()))
    return parts[0];
  SmallVector<Value> elements;
  for (Value part : parts) {
    if (!isa<VectorType>(part.getType())) {
      elements.push_back(part);
      continue;
    }
    auto all = vector::ToElementsOp::create(b, loc, part);
    elements.append(all.getResults().begin(), all.getResults().end());
  }
  VectorType type = vectorOf(static_cast<int64_t>(elements.size()), elements[0].getType());
  return vector::FromElementsOp::create(b, loc, type, elements);
}

/// f32 values that the wider type holds exactly.
Value Emitter::fromF32(Value values, FloatType to) const {
  auto type = cast<VectorType>(values.getType());
  int64_t count = type.getNumElements();
  if (to.isF32())
    return values;
  if (to.isBF16()) { // the upper halves: the rest is zero
    Value words = arith::BitcastOp::create(b, loc, vectorOf(count, b.getI32Type()), values);
    Value shift = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(cast<ShapedType>(words.getType()), b.getI32IntegerAttr(16)));
    Value halves = arith::TruncIOp::create(b, loc, vectorOf(count, b.getI16Type()),
                                           arith::ShRUIOp::create(b, loc, words, shift));
    return arith::BitcastOp::create(b, loc, vectorOf(count, to), halves);
  }
  if (to.isF16() && count % 2 == 0) { // two in an instruction, whatever its rounding
    SmallVector<Value> pairs;
    auto all = vector::ToElementsOp::create(b, loc, values);
    for (int64_t i = 0; i < count; i += 2)
      pairs.push_back(call("pkrtz", vectorOf(2, to), {all.getResult(i), all.getResult(i + 1)}));
    return joined(pairs);
  }
  if (to.getWidth() < 32)
    return arith::TruncFOp::create(b, loc, vectorOf(count, to), values);
  return arith::ExtFOp::create(b, loc, vectorOf(count, to), values);
}

Value Emitter::widen(Value source, StringRef name, FloatType to) const {
  auto type = cast<VectorType>(source.getType());
  int64_t count = type.getNumElements(), width = type.getElementTypeBitWidth();
  int64_t perWord = kWordBits / width, padded = llvm::alignTo(count, perWord);
  bool isHalf = to.isF16() || to.isBF16();
  Value words = vector::BitCastOp::create(b, loc, vectorOf(padded / perWord, b.getI32Type()),
                                          resized(source, padded));
  SmallVector<Value> parts;
  Type wide = isHalf ? Type(to) : b.getF32Type();
  StringRef wideName = to.isF16() ? "f16" : to.isBF16() ? "bf16" : "f32";

  if (arch.has(ArchFeature::ConvertScaled8) && (name == "fp4" || (isHalf && count % 8 == 0))) {
    int64_t wordsOf8 = 8 / perWord;
    for (int64_t i = 0; i < padded / perWord; i += wordsOf8) {
      Value eight = wordsOf8 == 1 ? Value(vector::ExtractOp::create(b, loc, words, i))
                                  : slice(words, i, wordsOf8);
      parts.push_back(call("scale.pk8." + wideName + "." + name, vectorOf(8, wide),
                           {eight, i32(kOneE8M0)}, "scaleSel", b.getI32IntegerAttr(0)));
    }
    Value all = resized(joined(parts), count);
    return isHalf ? all : fromF32(all, to);
  }

  bool isScaled = name == "fp4" || (isHalf && arch.has(ArchFeature::ConvertScaled2));
  if (!isScaled)
    wide = b.getF32Type();
  for (int64_t i = 0; i < count; i += 2) {
    Value word = vector::ExtractOp::create(b, loc, words, i / perWord);
    int64_t at = i % perWord / 2;
    if (name == "fp4")
      parts.push_back(call("scalef32.pk." + wideName + ".fp4", vectorOf(2, wide), {word, one()},
                           "srcSelIndex", b.getI32IntegerAttr(static_cast<int32_t>(at))));
    else if (isScaled)
      parts.push_back(call("scalef32.pk." + wideName + "." + name, vectorOf(2, wide), {word, one()},
                           "srcLoHiSel", b.getBoolAttr(at == 1)));
    else if (i + 1 == count)
      parts.push_back(call("f32." + name, wide, word, "byteSel",
                           b.getI32IntegerAttr(static_cast<int32_t>(i % perWord))));
    else
      parts.push_back(call("pk.f32." + name, vectorOf(2, wide), word, "wordSel", b.getBoolAttr(at == 1)));
  }
  Value all = resized(joined(parts), count);
  return isHalf && isScaled ? all : fromF32(all, to);
}

/// From f32.
Value Emitter::narrow(Value source, StringRef name, FloatType to) const {
  int64_t count = cast<VectorType>(source.getType()).getNumElements();
  int64_t perWord = kWordBits / to.getWidth(), padded = llvm::alignTo(count, perWord);
  SmallVector<Value> words;
  if (name == "fp4" && arch.has(ArchFeature::ConvertScaled8)) {
    Value whole = resized(source, padded);
    for (int64_t i = 0; i < padded; i += perWord)
      words.push_back(call("scalef32.pk8.fp4.f32", b.getI32Type(), {slice(whole, i, perWord), one()}));
  } else {
    auto values = vector::ToElementsOp::create(b, loc, source);
    for (int64_t i = 0; i < padded; i += perWord) {
      Value word = LLVM::PoisonOp::create(b, loc, b.getI32Type()); // halves that nothing writes are not used
      for (int64_t at = 0; at < perWord / 2 && i + 2 * at < count; ++at) {
        Value low = values.getResult(i + 2 * at);
        Value high = i + 2 * at + 1 < count ? Value(values.getResult(i + 2 * at + 1)) : low;
        if (name == "fp4")
          word = call("scalef32.pk.fp4.f32", word.getType(), {word, low, high, one()}, "dstSelIndex",
                      b.getI32IntegerAttr(static_cast<int32_t>(at)));
        else
          word = call("pk." + name + ".f32", word.getType(), {low, high, word}, "wordSel",
                      b.getBoolAttr(at == 1));
      }
      words.push_back(word);
    }
  }
  Value codes = vector::BitCastOp::create(b, loc, vectorOf(padded, to), joined(words));
  return resized(codes, count);
}

Value fly_rocdl::convertNatively(OpBuilder &b, Location loc, Value source, Type target,
                                 const fly::ArchInfo &arch) {
  Emitter emitter{b, loc, arch};
  auto from = cast<FloatType>(getElementTypeOrSelf(source.getType()));
  auto to = cast<FloatType>(getElementTypeOrSelf(target));
  bool isNarrowing = from.isF32();
  StringRef name = emitter.nameOf(isNarrowing ? to : from);
  if (name.empty())
    return {};

  // Vectors of any shape, and scalars, are vectors of one dimension here.
  auto shape = dyn_cast<VectorType>(source.getType());
  if (shape && shape.isScalable())
    return {};
  VectorType flat = VectorType::get({shape ? shape.getNumElements() : 1}, from);
  Value values = source;
  if (!shape)
    values = vector::FromElementsOp::create(b, loc, flat, source);
  else if (shape != flat)
    values = vector::ShapeCastOp::create(b, loc, flat, source);
  Value result = isNarrowing ? emitter.narrow(values, name, to) : emitter.widen(values, name, to);
  if (!shape)
    return vector::ExtractOp::create(b, loc, result, int64_t(0));
  return shape == flat ? result : Value(vector::ShapeCastOp::create(b, loc, target, result));
}
