//===- Emitter.h - arithmetic on floats, for expansions -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_TRANSFORMS_EMITTER_H
#define FLY_ROCDL_LIB_TRANSFORMS_EMITTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include <limits>

namespace mlir::fly_rocdl {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Creates arithmetic on floats of one width, scalar or vector.
struct Emitter {
  OpBuilder &b;
  Location loc;
  Type type; ///< f32, f64, or a vector of them

  Type shaped(Type elem) const {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? Type(vector.clone(elem)) : elem;
  }
  Emitter wide() const { return {b, loc, shaped(b.getF64Type())}; }
  Type i32() const { return shaped(b.getI32Type()); }

  Value splat(Type like, TypedAttr attr) const {
    if (auto vector = dyn_cast<VectorType>(like))
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, Attribute(attr)));
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value c(double value) const {
    return splat(type, FloatAttr::get(getElementTypeOrSelf(type), value));
  }
  Value ci(int32_t value) const { return splat(i32(), b.getI32IntegerAttr(value)); }

  Value add(Value x, Value y) const { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) const { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) const { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) const { return arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) const { return arith::NegFOp::create(b, loc, x); }
  Value fma(Value x, Value y, Value z) const { return math::FmaOp::create(b, loc, x, y, z); }
  Value abs(Value x) const { return math::AbsFOp::create(b, loc, x); }
  Value sqrt(Value x) const { return math::SqrtOp::create(b, loc, x); }
  Value round(Value x) const { return math::RoundEvenOp::create(b, loc, x); }
  Value trunc(Value x) const { return math::TruncOp::create(b, loc, x); }
  Value withSign(Value magnitude, Value sign) const {
    return math::CopySignOp::create(b, loc, magnitude, sign);
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) const {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value less(Value x, double y) const { return compare(arith::CmpFPredicate::OLT, x, c(y)); }
  Value greater(Value x, double y) const { return compare(arith::CmpFPredicate::OGT, x, c(y)); }
  Value equals(Value x, Value y) const { return compare(arith::CmpFPredicate::OEQ, x, y); }
  Value isNaN(Value x) const { return compare(arith::CmpFPredicate::UNO, x, x); }
  Value select(Value condition, Value x, Value y) const {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value both(Value x, Value y) const { return arith::AndIOp::create(b, loc, x, y); }
  Value either(Value x, Value y) const { return arith::OrIOp::create(b, loc, x, y); }
  Value flip(Value x) const {
    Type i1 = shaped(b.getI1Type());
    return arith::XOrIOp::create(b, loc, x, splat(i1, b.getBoolAttr(true)));
  }
  /// The polynomial with these coefficients, highest power first.
  Value poly(Value x, ArrayRef<double> coefficients) const {
    Value result = c(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      result = fma(result, x, c(coefficient));
    return result;
  }
};

/// What C's pow returns for x and y, given |x|^y as `value` (which may be anything where C defines the
/// result without a power): signs, NaN, whole and infinite exponents.
inline Value completePower(const Emitter &e, Value x, Value y, Value value) {
  Value a = e.abs(x);
  // A negative base has a power if the exponent is whole; it is negative if the exponent is odd.
  Value isWhole = e.equals(e.trunc(y), y);
  Value half = e.mul(y, e.c(0.5));
  Value isOdd = e.both(isWhole, e.flip(e.equals(e.trunc(half), half)));
  Value isNegative = e.less(e.withSign(e.c(1), x), 0);
  value = e.select(e.both(isNegative, isOdd), e.neg(value), value);
  Value isUndefined = e.both(e.both(e.less(x, 0), e.greater(x, -kInf)), e.flip(isWhole));
  value = e.select(isUndefined, e.c(kNaN), value);
  value = e.select(e.either(e.isNaN(x), e.isNaN(y)), e.add(x, y), value);
  Value isOne = e.either(e.equals(x, e.c(1)), e.equals(y, e.c(0)));
  // (-1) to an infinite power is 1.
  Value unit = e.both(e.equals(a, e.c(1)), e.equals(e.abs(y), e.c(kInf)));
  return e.select(e.either(isOne, unit), e.c(1), value);
}

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_TRANSFORMS_EMITTER_H
