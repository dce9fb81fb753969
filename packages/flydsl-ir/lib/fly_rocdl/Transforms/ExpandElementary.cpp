//===- ExpandElementary.cpp - elementary functions on f32 -----------------===//
//
// Replacements for functions that the back end lacks, or gives to fewer bits than asked for. Operations
// with the flag `afn` (approximate functions) keep what the hardware has. The coefficients are those of
// S. Moshier's Cephes library; tools/math_accuracy.py measures the result.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Emitter.h"
#include "Expand.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

/// Sine and cosine of the remainder of an argument, and the number of the quadrant.
struct Reduced {
  Value sine, cosine, quadrant;
};

} // namespace

// Beyond this the quotient by pi/2 is no longer exact in f32.
static constexpr double kLargestReduced = 1 << 20;

// x = n * pi/2 + r. The first product is subtracted without error, as r has no bits below its last.
static Reduced reduce(const Emitter &e, Value x) {
  Value n = e.round(e.mul(x, e.c(2 / kPi)));
  Value minusN = e.neg(n);
  Value r = e.fma(minusN, e.c(1.57079637050628662109375), x);
  r = e.fma(minusN, e.c(-4.37113900018624283e-8), r);
  r = e.fma(minusN, e.c(-1.71512451000588e-15), r);
  Value z = e.mul(r, r);
  Value sine = e.poly(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = e.fma(e.mul(sine, z), r, r);
  sine = e.select(e.equals(x, e.c(0)), x, sine); // -0 too, to which the sums above add +0
  Value cosine = e.poly(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  cosine = e.fma(e.mul(cosine, z), z, e.fma(z, e.c(-0.5), e.c(1)));
  // The conversion is undefined where n is large; those results are not used.
  Value isSmall = e.less(e.abs(x), kLargestReduced);
  Value quadrant = arith::FPToSIOp::create(e.b, e.loc, e.i32(), e.select(isSmall, n, e.c(0)));
  return {sine, cosine, quadrant};
}

static Value hasBit(const Emitter &e, Value number, int32_t bit) {
  Value masked = arith::AndIOp::create(e.b, e.loc, number, e.ci(bit));
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, masked, e.ci(0));
}

static Value sineOf(const Emitter &e, const Reduced &r) {
  Value value = e.select(hasBit(e, r.quadrant, 1), r.cosine, r.sine);
  return e.select(hasBit(e, r.quadrant, 2), e.neg(value), value);
}

static Value cosineOf(const Emitter &e, const Reduced &r) {
  Value value = e.select(hasBit(e, r.quadrant, 1), r.sine, r.cosine);
  Value next = arith::AddIOp::create(e.b, e.loc, r.quadrant, e.ci(1));
  return e.select(hasBit(e, next, 2), e.neg(value), value);
}

static Value callHardware(const Emitter &e, StringRef intrinsic, Value x) {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, e.type, e.b.getStringAttr(intrinsic),
                                       ValueRange{x})
      .getResults();
}

static Value orHardware(const Emitter &e, Value x, Value value, StringRef intrinsic) {
  return e.select(e.less(e.abs(x), kLargestReduced), value, callHardware(e, intrinsic, x));
}

static Value expandSin(const Emitter &e, Value x) {
  return orHardware(e, x, sineOf(e, reduce(e, x)), "llvm.sin");
}

static Value expandCos(const Emitter &e, Value x) {
  return orHardware(e, x, cosineOf(e, reduce(e, x)), "llvm.cos");
}

static Value expandTan(const Emitter &e, Value x) {
  Reduced r = reduce(e, x);
  Value odd = hasBit(e, r.quadrant, 1);
  Value value = e.div(e.select(odd, e.neg(r.cosine), r.sine), e.select(odd, r.sine, r.cosine));
  Value large = e.div(callHardware(e, "llvm.sin", x), callHardware(e, "llvm.cos", x));
  return e.select(e.less(e.abs(x), kLargestReduced), value, large);
}

// Arctangent of 0 <= q <= 1.
static Value atanOfUnit(const Emitter &e, Value q) {
  Value isLarge = e.greater(q, 0.4142135623730950);
  Value shifted = e.div(e.sub(q, e.c(1)), e.add(q, e.c(1)));
  Value x = e.select(isLarge, shifted, q), z = e.mul(x, x);
  Value p = e.poly(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
  Value value = e.fma(e.mul(p, z), x, x);
  return e.select(isLarge, e.add(e.c(kPi / 4), value), value);
}

static Value expandAtan(const Emitter &e, Value x) {
  Value magnitude = e.abs(x), isLarge = e.greater(magnitude, 1);
  Value q = e.select(isLarge, e.div(e.c(1), magnitude), magnitude);
  Value value = atanOfUnit(e, q);
  return e.withSign(e.select(isLarge, e.sub(e.c(kPi / 2), value), value), x);
}

static Value expandAtan2(const Emitter &e, Value y, Value x) {
  Value ay = e.abs(y), ax = e.abs(x);
  Value isSteep = e.compare(arith::CmpFPredicate::OGT, ay, ax);
  Value numerator = e.select(isSteep, ax, ay), denominator = e.select(isSteep, ay, ax);
  Value q = e.div(numerator, denominator);
  q = e.select(e.equals(numerator, denominator), e.c(1), q); // also of two infinities
  q = e.select(e.equals(denominator, e.c(0)), e.c(0), q);
  Value value = atanOfUnit(e, q);
  value = e.select(isSteep, e.sub(e.c(kPi / 2), value), value);
  // By the sign of x, which -0 has.
  Value isNegative = e.less(e.withSign(e.c(1), x), 0);
  value = e.select(isNegative, e.sub(e.c(kPi), value), value);
  value = e.withSign(value, y);
  return e.select(e.either(e.isNaN(x), e.isNaN(y)), e.add(x, y), value);
}

static Value expandAsin(const Emitter &e, Value x) {
  Value a = e.abs(x), isLarge = e.greater(a, 0.5);
  Value z = e.select(isLarge, e.mul(e.sub(e.c(1), a), e.c(0.5)), e.mul(a, a));
  Value s = e.select(isLarge, e.sqrt(z), a);
  Value p = e.poly(z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2,
                       1.6666752422e-1});
  Value value = e.fma(e.mul(p, z), s, s);
  value = e.select(isLarge, e.fma(value, e.c(-2), e.c(kPi / 2)), value);
  return e.withSign(value, x);
}

static Value log1p(const Emitter &e, Value x) { return math::Log1pOp::create(e.b, e.loc, x); }

// From here on x * x, or twice x, would lose the one that is added to it, and later overflow.
static constexpr double kLargeHyperbolic = 1 << 13;

static Value expandAsinh(const Emitter &e, Value x) {
  Value a = e.abs(x), square = e.mul(a, a);
  Value root = e.sqrt(e.add(square, e.c(1)));
  Value small = log1p(e, e.add(a, e.div(square, e.add(root, e.c(1)))));
  Value large = e.add(math::LogOp::create(e.b, e.loc, a), e.c(std::log(2.0)));
  return e.withSign(e.select(e.less(a, kLargeHyperbolic), small, large), x);
}

static Value expandAcosh(const Emitter &e, Value x) {
  Value t = e.sub(x, e.c(1));
  Value small = log1p(e, e.add(t, e.sqrt(e.fma(t, t, e.add(t, t)))));
  Value large = e.add(math::LogOp::create(e.b, e.loc, x), e.c(std::log(2.0)));
  Value value = e.select(e.less(x, kLargeHyperbolic), small, large);
  // The argument of log1p is about -1 for x far below, and may be rounded to it.
  return e.select(e.less(x, 1), e.c(kNaN), value);
}

static Value expandAtanh(const Emitter &e, Value x) {
  Value a = e.abs(x);
  Value value = log1p(e, e.div(e.add(a, a), e.sub(e.c(1), a)));
  return e.withSign(e.mul(value, e.c(0.5)), x);
}

static Value expandSinh(const Emitter &e, Value x) {
  Value a = e.abs(x);
  Value t = math::ExpM1Op::create(e.b, e.loc, a);
  Value small = e.mul(e.c(0.5), e.add(t, e.div(t, e.add(t, e.c(1)))));
  // exp(a) overflows before sinh(a) does.
  Value half = math::ExpOp::create(e.b, e.loc, e.mul(a, e.c(0.5)));
  Value large = e.mul(e.mul(half, e.c(0.5)), half);
  return e.withSign(e.select(e.less(a, 80), small, large), x);
}

static Value expandCbrt(const Emitter &e, Value x) {
  Value a = e.abs(x);
  Value guess = math::Log2Op::create(e.b, e.loc, a);
  guess = math::Exp2Op::create(e.b, e.loc, e.mul(guess, e.c(1.0 / 3)));
  // One step of Newton's method: y - (y - a / y^2) / 3.
  Value error = e.sub(guess, e.div(e.div(a, guess), guess));
  Value y = e.fma(error, e.c(-1.0 / 3), guess);
  Value isPlain = e.both(e.greater(a, 0), e.less(a, kInf));
  return e.withSign(e.select(isPlain, y, a), x);
}

// log2 of a positive, finite f32, in f64: with x = m * 2^k and t = (m - 1) / (m + 1), the series of the
// area tangent up to t^15, whose error is below 2^-40.
static Value log2Wide(const Emitter &e, Value x) {
  Emitter w = e.wide();
  Value tiny = e.less(x, std::ldexp(1.0, -126));
  Value scaled = e.select(tiny, e.mul(x, e.c(1 << 24)), x);
  Value bits = arith::BitcastOp::create(e.b, e.loc, e.i32(), scaled);
  // The exponent for which m is in [2^-0.5, 2^0.5).
  Value k = arith::SubIOp::create(e.b, e.loc, bits, e.ci(0x3F3504F3));
  k = arith::ShRSIOp::create(e.b, e.loc, k, e.ci(23));
  Value shift = arith::ShLIOp::create(e.b, e.loc, k, e.ci(23));
  Value mantissa = arith::SubIOp::create(e.b, e.loc, bits, shift);
  mantissa = arith::BitcastOp::create(e.b, e.loc, e.type, mantissa);
  k = arith::SubIOp::create(e.b, e.loc, k, e.select(tiny, e.ci(24), e.ci(0)));
  Value m = arith::ExtFOp::create(e.b, e.loc, w.type, mantissa);
  Value t = w.div(w.sub(m, w.c(1)), w.add(m, w.c(1)));
  SmallVector<double> series;
  for (int power = 15; power >= 1; power -= 2)
    series.push_back(2 / (power * std::log(2.0)));
  Value value = w.mul(t, w.poly(w.mul(t, t), series));
  return w.add(arith::SIToFPOp::create(e.b, e.loc, w.type, k), value);
}

static Value expandPow(const Emitter &e, Value x, Value y) {
  Emitter w = e.wide();
  Value a = e.abs(x);
  Value isZero = e.equals(a, e.c(0)), isInf = e.equals(a, e.c(kInf));
  Value plain = e.select(e.either(e.either(isZero, isInf), e.isNaN(x)), e.c(1), a);
  Value log = log2Wide(e, plain);
  log = w.select(isZero, w.c(-kInf), w.select(isInf, w.c(kInf), log));
  Value product = w.mul(arith::ExtFOp::create(e.b, e.loc, w.type, y), log);
  product = arith::MaxNumFOp::create(e.b, e.loc, product, w.c(-1000));
  product = arith::MinNumFOp::create(e.b, e.loc, product, w.c(1000));
  Value whole = w.round(product);
  Value fraction = arith::TruncFOp::create(e.b, e.loc, e.type, w.sub(product, whole));
  Value power = arith::FPToSIOp::create(e.b, e.loc, e.i32(), whole);
  Value value = math::Exp2Op::create(e.b, e.loc, fraction);
  value = LLVM::CallIntrinsicOp::create(e.b, e.loc, e.type, e.b.getStringAttr("llvm.ldexp"),
                                        ValueRange{value, power})
              .getResults();
  return completePower(e, x, y, value);
}

// Of the magnitude: the sign of -0 would be lost.
static Value expandErf(const Emitter &e, Value x) {
  return e.withSign(math::ErfOp::create(e.b, e.loc, e.abs(x)), x);
}

static bool isApproximate(Operation *op) {
  auto flags = dyn_cast<arith::ArithFastMathInterface>(op);
  return flags && arith::bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(),
                                            arith::FastMathFlags::afn);
}

/// The replacement of `op`; null if it stays.
static Value expand(const Emitter &e, Operation *op) {
  auto operand = [&](unsigned i) { return op->getOperand(i); };
  if (isa<math::FPowIOp>(op))
    return expandPow(e, operand(0),
                     arith::SIToFPOp::create(e.b, e.loc, e.type, operand(1)).getResult());
  if (isa<math::AsinOp>(op))
    return expandAsin(e, operand(0));
  if (isa<math::AtanOp>(op))
    return expandAtan(e, operand(0));
  if (isa<math::Atan2Op>(op))
    return expandAtan2(e, operand(0), operand(1));
  if (isa<math::AsinhOp>(op))
    return expandAsinh(e, operand(0));
  if (isa<math::AcoshOp>(op))
    return expandAcosh(e, operand(0));
  if (isa<math::AtanhOp>(op))
    return expandAtanh(e, operand(0));
  if (isa<math::SinhOp>(op))
    return expandSinh(e, operand(0));
  if (isa<math::CbrtOp>(op))
    return expandCbrt(e, operand(0));
  if (isApproximate(op))
    return {};
  if (isa<math::SinOp>(op))
    return expandSin(e, operand(0));
  if (isa<math::CosOp>(op))
    return expandCos(e, operand(0));
  if (isa<math::ErfOp>(op))
    return expandErf(e, operand(0));
  if (isa<math::TanOp>(op))
    return expandTan(e, operand(0));
  if (isa<math::PowFOp>(op))
    return expandPow(e, operand(0), operand(1));
  return {};
}

void fly_rocdl::expandElementary(Operation *func) {
  SmallVector<Operation *> ops;
  func->walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && op->getNumResults() > 0 &&
        getElementTypeOrSelf(op->getResult(0).getType()).isF32())
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    Emitter e{b, loc, op->getResult(0).getType()};
    if (isa<math::SincosOp>(op) && !isApproximate(op)) {
      Value x = op->getOperand(0);
      Reduced r = reduce(e, x);
      op->replaceAllUsesWith(ValueRange{orHardware(e, x, sineOf(e, r), "llvm.sin"),
                                        orHardware(e, x, cosineOf(e, r), "llvm.cos")});
      op->erase();
      continue;
    }
    if (Value value = expand(e, op)) {
      op->replaceAllUsesWith(ValueRange(value));
      op->erase();
    }
  }
}
