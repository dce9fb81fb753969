//===- ExpandSmallFloats.cpp - floats of at most 8 bits -------------------===//
//
// Arithmetic is that of f32, whose results have more than twice the digits, rounded to the small type.
// Conversions are bit-exact on every architecture: rounding to nearest even; what exceeds the largest
// number becomes infinity if the format has one, else NaN, else the largest number. f8E8M0FNU has powers
// of two from 2^-127 to 2^127 alone: zero becomes the smallest, and negative numbers become NaN.
// NativeConversions.cpp has those for which there are instructions.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Expand.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::fly_rocdl;
using llvm::APFloat;
using llvm::APInt;

namespace {

constexpr int kF32Mantissa = 23, kF32Bias = 127;
constexpr int64_t kF32Inf = 0x7F800000, kF32QuietNaN = 0x7FC00000;

/// The encoding of a small float type.
struct Format {
  int width, mantissa, bias;
  bool isExponentOnly;
  int64_t signBit;  ///< 0 for a type without sign
  int64_t largest;  ///< code of the largest number
  int64_t infinity; ///< code, or -1
  int64_t nan;      ///< code of a NaN, or -1
  bool nanIsNegativeZero;

  explicit Format(FloatType type);
  int64_t magnitudeMask() const { return (int64_t(1) << (signBit ? width - 1 : width)) - 1; }
};

/// Creates arithmetic on i32, or on vectors of it.
struct Bits {
  OpBuilder &b;
  Location loc;
  Type like; ///< the type of the converted value, which gives the shape

  Type shaped(Type elem) const {
    auto vector = dyn_cast<VectorType>(like);
    return vector ? Type(vector.clone(elem)) : elem;
  }
  Type i32() const { return shaped(b.getI32Type()); }
  Type f32() const { return shaped(b.getF32Type()); }
  Value constant(int64_t value) const {
    APInt bits(32, static_cast<uint64_t>(value) & 0xFFFFFFFF);
    return splat(IntegerAttr::get(b.getI32Type(), bits));
  }
  Value constantF32(double value) const { return splat(b.getF32FloatAttr(value)); }
  Value splat(TypedAttr attr) const {
    Type type = shaped(attr.getType());
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, Attribute(attr)));
    return arith::ConstantOp::create(b, loc, attr);
  }
  template <typename OpT>
  Value op(Value x, Value y) const {
    return OpT::create(b, loc, x, y);
  }
  template <typename OpT>
  Value op(Value x, int64_t y) const {
    return OpT::create(b, loc, x, constant(y));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, int64_t y) const {
    return arith::CmpIOp::create(b, loc, predicate, x, constant(y));
  }
  Value select(Value condition, Value x, Value y) const {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value toF32(Value bits) const { return arith::BitcastOp::create(b, loc, f32(), bits); }
  Value fromF32(Value value) const { return arith::BitcastOp::create(b, loc, i32(), value); }
};

} // namespace

Format::Format(FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  width = type.getWidth();
  mantissa = APFloat::semanticsPrecision(semantics) - 1;
  bias = 1 - APFloat::semanticsMinExponent(semantics);
  isExponentOnly = isa<Float8E8M0FNUType>(type);
  signBit = isExponentOnly ? 0 : int64_t(1) << (width - 1);
  auto code = [](const APFloat &value) {
    return static_cast<int64_t>(value.bitcastToAPInt().getZExtValue());
  };
  largest = code(APFloat::getLargest(semantics));
  infinity = APFloat::semanticsHasInf(semantics) ? code(APFloat::getInf(semantics)) : -1;
  nan = APFloat::semanticsHasNaN(semantics) ? code(APFloat::getNaN(semantics)) : -1;
  nanIsNegativeZero = nan == signBit && signBit != 0;
}

/// The f32 value of a small float.
static Value decode(OpBuilder &b, Location loc, Value value) {
  auto type = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  Format format(type);
  Bits bits{b, loc, value.getType()};
  Value narrow = arith::BitcastOp::create(b, loc, bits.shaped(b.getIntegerType(format.width)), value);
  Value code = arith::ExtUIOp::create(b, loc, bits.i32(), narrow);
  if (format.isExponentOnly) {
    Value result = bits.op<arith::ShLIOp>(code, kF32Mantissa);
    // 2^-127 is subnormal in f32.
    result = bits.select(bits.compare(arith::CmpIPredicate::eq, code, 0),
                         bits.constant(0x00400000), result);
    result = bits.select(bits.compare(arith::CmpIPredicate::eq, code, 255),
                         bits.constant(kF32QuietNaN), result);
    return bits.toF32(result);
  }
  Value magnitude = bits.op<arith::AndIOp>(code, format.magnitudeMask());
  Value normal = bits.op<arith::ShLIOp>(magnitude, kF32Mantissa - format.mantissa);
  normal = bits.op<arith::AddIOp>(normal, int64_t(kF32Bias - format.bias) << kF32Mantissa);
  // A subnormal is a small integer times the smallest one.
  Value count = arith::UIToFPOp::create(b, loc, bits.f32(), magnitude);
  double smallest = std::ldexp(1.0, 1 - format.bias - format.mantissa);
  Value subnormal = bits.fromF32(bits.op<arith::MulFOp>(count, bits.constantF32(smallest)));
  Value result = bits.select(
      bits.compare(arith::CmpIPredicate::ult, magnitude, int64_t(1) << format.mantissa), subnormal,
      normal);
  if (format.infinity >= 0) {
    result = bits.select(bits.compare(arith::CmpIPredicate::eq, magnitude, format.infinity),
                         bits.constant(kF32Inf), result);
    result = bits.select(bits.compare(arith::CmpIPredicate::ugt, magnitude, format.infinity),
                         bits.constant(kF32QuietNaN), result);
  } else if (format.nan >= 0 && !format.nanIsNegativeZero) {
    result = bits.select(bits.compare(arith::CmpIPredicate::ugt, magnitude, format.largest),
                         bits.constant(kF32QuietNaN), result);
  }
  Value sign = bits.op<arith::AndIOp>(code, format.signBit);
  sign = bits.op<arith::ShLIOp>(sign, 32 - format.width);
  result = bits.op<arith::OrIOp>(result, sign);
  if (format.nanIsNegativeZero)
    result = bits.select(bits.compare(arith::CmpIPredicate::eq, code, format.nan),
                         bits.constant(kF32QuietNaN), result);
  return bits.toF32(result);
}

/// The small float nearest to an f32 value.
static Value encode(OpBuilder &b, Location loc, Value value, Type target) {
  Format format(cast<FloatType>(getElementTypeOrSelf(target)));
  Bits bits{b, loc, value.getType()};
  Value code = bits.fromF32(value);
  Value magnitude = bits.op<arith::AndIOp>(code, 0x7FFFFFFF);
  Value isNaN = bits.compare(arith::CmpIPredicate::ugt, magnitude, kF32Inf);
  Value result;
  if (format.isExponentOnly) {
    // Half way between two powers is 1.5 times the lower, whose significand 1 is odd: up. Below the
    // normal numbers of f32 the two are 2^-127 and 2^-126, which lie half as far apart.
    Value half = bits.select(bits.compare(arith::CmpIPredicate::ult, magnitude, int64_t(1) << kF32Mantissa),
                             bits.constant(1 << (kF32Mantissa - 2)), bits.constant(1 << (kF32Mantissa - 1)));
    result = bits.op<arith::ShRUIOp>(Value(bits.op<arith::AddIOp>(magnitude, half)), kF32Mantissa);
    Value belowZero = arith::AndIOp::create(b, loc, bits.compare(arith::CmpIPredicate::slt, code, 0),
                                            bits.compare(arith::CmpIPredicate::ne, magnitude, 0));
    result = bits.select(isNaN, bits.constant(format.nan), result);
    result = bits.select(belowZero, bits.constant(format.nan), result);
  } else {
    int shift = kF32Mantissa - format.mantissa;
    // Normal numbers: add half a unit, less one for an even neighbour, and cut.
    Value odd = bits.op<arith::AndIOp>(bits.op<arith::ShRUIOp>(magnitude, shift), 1);
    Value normal = bits.op<arith::AddIOp>(magnitude, (int64_t(1) << (shift - 1)) - 1);
    normal = bits.op<arith::AddIOp>(normal, odd);
    normal = bits.op<arith::ShRUIOp>(normal, shift);
    normal = bits.op<arith::SubIOp>(normal, int64_t(kF32Bias - format.bias) << format.mantissa);
    // Subnormal numbers: an addition that leaves the last place at the smallest one rounds them.
    double aligner = std::ldexp(1.0, 1 - format.bias - format.mantissa + kF32Mantissa);
    Value aligned = bits.op<arith::AddFOp>(bits.toF32(magnitude), bits.constantF32(aligner));
    Value subnormal = bits.op<arith::SubIOp>(bits.fromF32(aligned),
                                             bits.fromF32(bits.constantF32(aligner)));
    int64_t smallestNormal = int64_t(kF32Bias + 1 - format.bias) << kF32Mantissa;
    result = bits.select(bits.compare(arith::CmpIPredicate::ult, magnitude, smallestNormal),
                         subnormal, normal);
    int64_t overflow = format.infinity >= 0 ? format.infinity
                       : format.nan >= 0    ? format.nan
                                            : format.largest;
    Value isLarge = bits.compare(arith::CmpIPredicate::sgt, result, format.largest);
    result = bits.select(isLarge, bits.constant(overflow), result);
    result = bits.select(isNaN, bits.constant(format.nan >= 0 ? format.nan : format.largest),
                         result);
    Value sign = bits.op<arith::ShRUIOp>(code, 32 - format.width);
    sign = bits.op<arith::AndIOp>(sign, format.signBit);
    Value withSign = bits.op<arith::OrIOp>(result, sign);
    // Where minus zero means NaN, zero has no sign.
    if (format.nanIsNegativeZero)
      withSign = bits.select(bits.compare(arith::CmpIPredicate::eq, result, 0), result, withSign);
    result = withSign;
  }
  Value narrow =
      arith::TruncIOp::create(b, loc, bits.shaped(b.getIntegerType(format.width)), result);
  return arith::BitcastOp::create(b, loc, target, narrow);
}

/// The f32 value next to an f64 value towards zero, with an odd last place if it is not equal: it is on the same
/// side of every number that has at least two places less, so that a second rounding is as good as the only one.
static Value roundToOdd(OpBuilder &b, Location loc, Value value) {
  Bits bits{b, loc, value.getType()};
  Value nearest = arith::TruncFOp::create(b, loc, bits.f32(), value);
  Value back = arith::ExtFOp::create(b, loc, value.getType(), nearest);
  auto compare = [&](arith::CmpFPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  };
  Value zero = bits.splat(b.getF64FloatAttr(0.0));
  Value away = arith::SelectOp::create(b, loc, compare(arith::CmpFPredicate::OLT, value, zero),
                                       compare(arith::CmpFPredicate::OLT, back, value),
                                       compare(arith::CmpFPredicate::OGT, back, value));
  Value inexact = compare(arith::CmpFPredicate::ONE, back, value);
  Value code = bits.fromF32(nearest);
  code = bits.op<arith::SubIOp>(code, Value(arith::ExtUIOp::create(b, loc, bits.i32(), away)));
  code = bits.op<arith::OrIOp>(code, Value(arith::ExtUIOp::create(b, loc, bits.i32(), inexact)));
  return bits.toF32(code);
}

static bool isSmall(Type type) {
  auto floatTy = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return floatTy && floatTy.getWidth() <= 8;
}

static unsigned widthOf(Type type) { return getElementTypeOrSelf(type).getIntOrFloatBitWidth(); }

/// Whether an operation computes with small floats; what only moves them needs no value of them.
static bool computesSmall(Operation *op) {
  if (!(isa<vector::ReductionOp>(op) ||
        isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect())) ||
      isa<arith::BitcastOp, arith::ConstantOp, arith::ExtFOp, arith::SelectOp, arith::TruncFOp>(op))
    return false;
  return llvm::any_of(op->getOperandTypes(), isSmall) || llvm::any_of(op->getResultTypes(), isSmall);
}

/// Computes with the values in f32. An integer that this does not hold goes through f64.
static void widen(Operation *op) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  bool isLongInteger = isa<arith::SIToFPOp, arith::UIToFPOp>(op) &&
                       widthOf(op->getOperand(0).getType()) > 24;
  auto wide = [&](Type type) {
    return Bits{b, loc, type}.shaped(isLongInteger ? Type(b.getF64Type()) : b.getF32Type());
  };
  IRMapping operands;
  for (Value operand : op->getOperands())
    if (isSmall(operand.getType()))
      operands.map(operand, arith::ExtFOp::create(b, loc, wide(operand.getType()), operand));
  Operation *computed = b.clone(*op, operands);
  for (auto [result, value] : llvm::zip_equal(op->getResults(), computed->getResults())) {
    if (isSmall(result.getType())) {
      value.setType(wide(result.getType()));
      result.replaceAllUsesWith(arith::TruncFOp::create(b, loc, result.getType(), value));
    } else {
      result.replaceAllUsesWith(value);
    }
  }
  op->erase();
}

void fly_rocdl::expandSmallFloats(Operation *func, const fly::ArchInfo *arch) {
  func->walk([](Operation *op) {
    if (computesSmall(op))
      widen(op);
  });
  func->walk([arch](Operation *op) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      return;
    Value source = op->getOperand(0);
    Type from = source.getType(), to = op->getResult(0).getType();
    if (!isSmall(from) && !isSmall(to))
      return;
    OpBuilder b(op);
    Location loc = op->getLoc();
    Bits shape{b, loc, from};
    Value value = source;
    auto native = [&](Type target) -> Value {
      return arch ? convertNatively(b, loc, value, target, *arch) : Value();
    };
    if (isSmall(from)) {
      Value wide = native(isSmall(to) ? shape.f32() : to);
      value = wide ? wide : decode(b, loc, value);
    } else if (widthOf(from) > 32) {
      value = roundToOdd(b, loc, value);
    } else if (widthOf(from) < 32) {
      value = arith::ExtFOp::create(b, loc, shape.f32(), value);
    }
    if (isSmall(to)) {
      Value code = native(to);
      value = code ? code : encode(b, loc, value, to);
    } else if (value.getType() != to) {
      value = widthOf(to) > 32 ? Value(arith::ExtFOp::create(b, loc, to, value))
                               : Value(arith::TruncFOp::create(b, loc, to, value));
    }
    op->replaceAllUsesWith(ValueRange(value));
    op->erase();
  });
}
