//===- ExpandDouble.cpp - elementary functions on f64 ---------------------===//
//
// The back end has no elementary function of f64. They are built here from two that carry more than 53
// bits, in pairs of floats whose sum is meant: the exponential of a pair and the logarithm as a pair.
// Polynomials are Taylor series, but for erfc. Vectors are computed element by element.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Emitter.h"
#include "Expand.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

/// The unevaluated sum of two floats, the second at most half a unit of the first's last place.
struct Pair {
  Value hi, lo;
};

/// A constant to about 106 bits.
struct PairConstant {
  double hi, lo;
};

constexpr PairConstant kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
constexpr PairConstant kLog2E = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
constexpr PairConstant kLog10E = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
constexpr PairConstant kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
constexpr PairConstant kTwoThirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
constexpr PairConstant kHalfPi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
constexpr PairConstant kQuarterPi = {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};
constexpr PairConstant kWholePi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};

/// Beyond this, in either direction, the exponential is infinite or zero.
constexpr double kLargestExponent = 1500;

/// n!, without a rounding for n up to 22.
constexpr double factorial(int n) {
  double product = 1;
  for (int i = 2; i <= n; ++i)
    product *= i;
  return product;
}

/// Emitter of scalar f64 with pairs.
struct DoubleEmitter : Emitter {
  DoubleEmitter(OpBuilder &b, Location loc) : Emitter{b, loc, b.getF64Type()} {}

  Pair c2(PairConstant value) const { return {c(value.hi), c(value.lo)}; }
  Pair sum(Value x, Value y) const {
    Value s = add(x, y), part = sub(s, x);
    return {s, add(sub(x, sub(s, part)), sub(y, part))};
  }
  /// The same where |x| >= |y|, or x is zero.
  Pair sumOrdered(Value x, Value y) const {
    Value s = add(x, y);
    return {s, sub(y, sub(s, x))};
  }
  Pair product(Value x, Value y) const {
    Value p = mul(x, y);
    return {p, fma(x, y, neg(p))};
  }
  Pair sum(Pair x, Pair y) const {
    Pair s = sum(x.hi, y.hi);
    return sumOrdered(s.hi, add(s.lo, add(x.lo, y.lo)));
  }
  Pair product(Pair x, Pair y) const {
    Pair p = product(x.hi, y.hi);
    return sumOrdered(p.hi, add(p.lo, fma(x.hi, y.lo, mul(x.lo, y.hi))));
  }
  Pair select2(Value condition, Pair x, Pair y) const {
    return {select(condition, x.hi, y.hi), select(condition, x.lo, y.lo)};
  }
  Value intrinsic(StringRef name, ValueRange operands) const {
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), operands).getResults();
  }
  Value ldexp(Value x, Value power) const { return intrinsic("llvm.ldexp.f64.i32", {x, power}); }
  Value toInt(Value x) const { return arith::FPToSIOp::create(b, loc, b.getI32Type(), x); }
  Value i64(int64_t value) const { return splat(b.getI64Type(), b.getI64IntegerAttr(value)); }
  /// NaN where an argument is, else the value.
  Value orNaN(Value x, Value value) const { return select(isNaN(x), x, value); }
};

using E = DoubleEmitter;

//===------------------------------------------------------------------------===//
// Exponential
//===------------------------------------------------------------------------===//

/// e^x = (1 + fraction) * 2^power, for |x| up to kLargestExponent.
struct Exponential {
  Pair fraction;
  Value power;
};

} // namespace

static Exponential exponentialOfReduced(const E &e, Value power, Pair r) {
  SmallVector<double> series; // (e^r - 1 - r) / r^2, for |r| <= 0.35
  for (int n = 14; n >= 2; --n)
    series.push_back(1 / factorial(n));
  Value rest = e.fma(e.mul(r.hi, r.hi), e.poly(r.hi, series), e.fma(r.lo, r.hi, r.lo));
  return {e.sumOrdered(r.hi, rest), power};
}

static Exponential exponential(const E &e, Pair x) {
  Value isSmall = e.less(e.abs(x.hi), kLargestExponent);
  Value bounded = arith::MaxNumFOp::create(e.b, e.loc, x.hi, e.c(-kLargestExponent));
  bounded = arith::MinNumFOp::create(e.b, e.loc, bounded, e.c(kLargestExponent));
  Value n = e.round(e.mul(bounded, e.c(kLog2E.hi))), minusN = e.neg(n);
  // Exact: the remainder has no bits below the last of ln 2.
  Value r = e.fma(minusN, e.c(kLn2.hi), bounded);
  Value low = e.fma(minusN, e.c(kLn2.lo), e.select(isSmall, x.lo, e.c(0)));
  return exponentialOfReduced(e, e.toInt(n), e.sum(r, low));
}

/// e^x times two to the power of `scale`.
static Value value(const E &e, const Exponential &x, int32_t scale = 0) {
  Pair s = e.sumOrdered(e.c(1), x.fraction.hi);
  Value power = scale ? arith::AddIOp::create(e.b, e.loc, x.power, e.ci(scale)).getResult() : x.power;
  return e.ldexp(e.add(s.hi, e.add(s.lo, x.fraction.lo)), power);
}

static Value expandExp(const E &e, Value x) {
  return e.orNaN(x, value(e, exponential(e, {x, e.c(0)})));
}

static Value expandExp2(const E &e, Value x) {
  Value bounded = arith::MaxNumFOp::create(e.b, e.loc, x, e.c(-kLargestExponent));
  bounded = arith::MinNumFOp::create(e.b, e.loc, bounded, e.c(kLargestExponent));
  Value n = e.round(bounded), f = e.sub(bounded, n);
  Pair r = e.product(f, e.c(kLn2.hi));
  r = e.sumOrdered(r.hi, e.fma(f, e.c(kLn2.lo), r.lo));
  return e.orNaN(x, value(e, exponentialOfReduced(e, e.toInt(n), r)));
}

static Value expandExpM1(const E &e, Value x) {
  // From -40 on the result rounds to -1.
  Value bounded = arith::MaxNumFOp::create(e.b, e.loc, x, e.c(-40));
  Exponential t = exponential(e, {bounded, e.c(0)});
  // (fraction + (1 - 2^-power)) * 2^power.
  Value minusPower = arith::SubIOp::create(e.b, e.loc, e.ci(0), t.power);
  Pair s = e.sum(e.sub(e.c(1), e.ldexp(e.c(1), minusPower)), t.fraction.hi);
  Value result = e.ldexp(e.add(s.hi, e.add(s.lo, t.fraction.lo)), t.power);
  // Also keeps the sign of zero.
  return e.select(e.less(e.abs(x), 0x1p-54), x, e.orNaN(x, result));
}

//===------------------------------------------------------------------------===//
// Logarithm
//===------------------------------------------------------------------------===//

/// The natural logarithm of a positive, finite x to about 2^-64 of its value. x = m * 2^k with m near 1;
/// with t = (m - 1) / (m + 1), log m = 2 t + 2/3 t^3 + 2/5 t^5 + ...
static Pair logarithm(const E &e, Value x) {
  Value tiny = e.less(x, 0x1p-1022);
  Value scaled = e.select(tiny, e.mul(x, e.c(0x1p54)), x);
  Value bits = arith::BitcastOp::create(e.b, e.loc, e.b.getI64Type(), scaled);
  // The exponent for which m is in [2^-0.5, 2^0.5).
  Value k = arith::SubIOp::create(e.b, e.loc, bits, e.i64(0x3FE6A09E667F3BCD));
  k = arith::ShRSIOp::create(e.b, e.loc, k, e.i64(52));
  Value shift = arith::ShLIOp::create(e.b, e.loc, k, e.i64(52));
  Value mantissa = arith::SubIOp::create(e.b, e.loc, bits, shift);
  Value m = arith::BitcastOp::create(e.b, e.loc, e.type, mantissa);
  k = arith::TruncIOp::create(e.b, e.loc, e.b.getI32Type(), k);
  k = arith::SubIOp::create(e.b, e.loc, k, e.select(tiny, e.ci(54), e.ci(0)));

  Value above = e.sub(m, e.c(1));
  Pair below = e.sum(m, e.c(1));
  Value q = e.div(above, below.hi);
  Value rest = e.fma(e.neg(q), below.lo, e.fma(e.neg(q), below.hi, above));
  Pair t = {q, e.div(rest, below.hi)};
  Pair z = e.product(t, t);
  SmallVector<double> series; // 2/5 + 2/7 z + ..., for z < 0.03
  for (int power = 27; power >= 5; power -= 2)
    series.push_back(2.0 / power);
  Value tail = e.poly(z.hi, series);
  Pair p = e.sum(e.c2(kTwoThirds), e.product(z.hi, tail));
  p = e.product(t, e.product(z, p));
  Pair fraction = e.sum({e.add(t.hi, t.hi), e.add(t.lo, t.lo)}, p);
  // The product of k with the upper 40 bits of ln 2 is exact.
  double upper = std::ldexp(std::nearbyint(std::ldexp(kLn2.hi, 40)), -40);
  Value wholes = arith::SIToFPOp::create(e.b, e.loc, e.type, k);
  Pair whole = {e.mul(wholes, e.c(upper)), e.mul(wholes, e.c(kLn2.hi - upper + kLn2.lo))};
  return e.sum(whole, fraction);
}

/// Of x, or of 1 where x has no logarithm. `completeLog` then gives the other results.
static Value logArgument(const E &e, Value x) {
  Value isPlain = e.both(e.greater(x, 0), e.less(x, kInf));
  return e.select(isPlain, x, e.c(1));
}

static Value completeLog(const E &e, Value x, Value value) {
  Value isPlain = e.both(e.greater(x, 0), e.less(x, kInf));
  Value other = e.select(e.less(x, 0), e.c(kNaN), x); // infinity, NaN
  other = e.select(e.equals(x, e.c(0)), e.c(-kInf), other);
  return e.select(isPlain, value, other);
}

static Value expandLog(const E &e, Value x) {
  return completeLog(e, x, logarithm(e, logArgument(e, x)).hi);
}

static Value expandLogOfBase(const E &e, Value x, PairConstant factor) {
  return completeLog(e, x, e.product(logarithm(e, logArgument(e, x)), e.c2(factor)).hi);
}

static Value expandLog1p(const E &e, Value x) {
  Value isPlain = e.both(e.greater(x, -1), e.less(x, kInf));
  Value argument = e.select(isPlain, x, e.c(0));
  Pair s = e.sum(e.c(1), argument);
  Pair log = logarithm(e, s.hi);
  Value result = e.sum(log, {e.div(s.lo, s.hi), e.c(0)}).hi;
  result = e.select(e.less(e.abs(x), 0x1p-54), x, result);
  Value other = e.select(e.less(x, -1), e.c(kNaN), x);
  other = e.select(e.equals(x, e.c(-1)), e.c(-kInf), other);
  return e.select(isPlain, result, other);
}

static Value expandPow(const E &e, Value x, Value y) {
  Value a = e.abs(x);
  Value isZero = e.equals(a, e.c(0)), isInf = e.equals(a, e.c(kInf));
  Pair log = logarithm(e, logArgument(e, a));
  log.hi = e.select(isZero, e.c(-kInf), e.select(isInf, e.c(kInf), log.hi));
  Pair product = e.product(y, log.hi);
  product.lo = e.fma(y, log.lo, product.lo);
  return completePower(e, x, y, value(e, exponential(e, product)));
}

static Value expandCbrt(const E &e, Value x) {
  Value a = e.abs(x), isPlain = e.both(e.greater(a, 0), e.less(a, kInf));
  Pair log = e.product(logarithm(e, logArgument(e, a)), e.c2(kThird));
  return e.withSign(e.select(isPlain, value(e, exponential(e, log)), a), x);
}

//===------------------------------------------------------------------------===//
// Hyperbolic functions
//===------------------------------------------------------------------------===//

// From here on adding or subtracting e^-x makes no difference.
static constexpr double kOneSided = 22;

static Value expandSinh(const E &e, Value x) {
  Value a = e.abs(x), t = expandExpM1(e, a);
  Value small = e.mul(e.c(0.5), e.add(t, e.div(t, e.add(t, e.c(1)))));
  Value large = value(e, exponential(e, {a, e.c(0)}), -1);
  return e.orNaN(x, e.withSign(e.select(e.less(a, kOneSided), small, large), x));
}

static Value expandCosh(const E &e, Value x) {
  Value a = e.abs(x);
  Exponential exp = exponential(e, {a, e.c(0)});
  Value half = value(e, exp, -1);
  Value small = e.add(half, e.div(e.c(0.25), half));
  return e.orNaN(x, e.select(e.less(a, kOneSided), small, half));
}

static Value expandTanh(const E &e, Value x) {
  Value a = e.abs(x), t = expandExpM1(e, e.add(a, a));
  Value small = e.div(t, e.add(t, e.c(2)));
  return e.orNaN(x, e.withSign(e.select(e.less(a, kOneSided), small, e.c(1)), x));
}

// From here on x * x, or twice x, would lose the one that is added to it, and later overflow.
static constexpr double kLargeHyperbolic = 1 << 28;

static Value logOfTwice(const E &e, Value x) {
  Value log = e.sum(logarithm(e, logArgument(e, x)), e.c2(kLn2)).hi;
  return completeLog(e, x, log);
}

static Value expandAsinh(const E &e, Value x) {
  Value a = e.abs(x), square = e.mul(a, a);
  Value root = e.sqrt(e.add(square, e.c(1)));
  Value small = expandLog1p(e, e.add(a, e.div(square, e.add(root, e.c(1)))));
  return e.withSign(e.select(e.less(a, kLargeHyperbolic), small, logOfTwice(e, a)), x);
}

static Value expandAcosh(const E &e, Value x) {
  Value t = e.sub(x, e.c(1));
  Value small = expandLog1p(e, e.add(t, e.sqrt(e.fma(t, t, e.add(t, t)))));
  return e.select(e.less(x, kLargeHyperbolic), small, logOfTwice(e, x));
}

static Value expandAtanh(const E &e, Value x) {
  Value a = e.abs(x);
  Value value = expandLog1p(e, e.div(e.add(a, a), e.sub(e.c(1), a)));
  return e.withSign(e.mul(value, e.c(0.5)), x);
}

//===------------------------------------------------------------------------===//
// Trigonometric functions
//===------------------------------------------------------------------------===//

namespace {
/// x = quadrant * pi/2 + remainder.
struct Reduced {
  Pair remainder;
  Value quadrant;
};
} // namespace

/// After Payne and Hanek, for arguments of any size. The hardware has the bits of 2/pi that matter for an
/// exponent, in pieces of 53; those that would give multiples of four are left out.
static Reduced reduce(const E &e, Value x) {
  SmallVector<Value> pieces;
  for (int32_t i = 0; i < 4; ++i)
    pieces.push_back(e.intrinsic("llvm.amdgcn.trig.preop.f64", {x, e.ci(i)}));
  // For such arguments the pieces are scaled, as they would underflow.
  Value isHuge = e.flip(e.less(e.abs(x), 0x1p945));
  Value scaled = e.select(isHuge, e.mul(x, e.c(0x1p-128)), x);
  Pair p0 = e.product(scaled, pieces[0]), p1 = e.product(scaled, pieces[1]);
  Pair p2 = e.product(scaled, pieces[2]);
  Value p3 = e.mul(scaled, pieces[3]);
  // Modulo four, without rounding.
  Value whole = e.round(e.mul(p0.hi, e.c(0.25)));
  Pair s = e.sum(e.fma(e.c(-4), whole, p0.hi), p0.lo);
  Pair u = e.sum(s.hi, p1.hi);
  Value n = e.round(u.hi);
  // What is left may cancel, so its parts are added exactly.
  Pair a = e.sum(s.lo, u.lo), b = e.sum(p1.lo, p2.hi), middle = e.sum(a.hi, b.hi);
  Value low = e.add(e.add(a.lo, b.lo), e.add(middle.lo, e.add(p2.lo, p3)));
  Pair f = e.sum(e.sub(u.hi, n), middle.hi);
  f = e.sum(f.hi, e.add(f.lo, low));
  Pair r = e.product(f, e.c2(kHalfPi));
  // Small arguments would underflow.
  Value isSmall = e.less(e.abs(x), kPi / 4);
  r = e.select2(isSmall, {x, e.c(0)}, r);
  Value isFinite = e.less(e.abs(x), kInf);
  Value quadrant = e.toInt(e.select(e.both(isFinite, e.flip(isSmall)), n, e.c(0)));
  return {r, quadrant};
}

static Value hasBit(const E &e, Value number, int32_t bit) {
  Value masked = arith::AndIOp::create(e.b, e.loc, number, e.ci(bit));
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, masked, e.ci(0));
}

/// Taylor coefficients sign * 1/n! of every second power from `first` down, highest first.
static SmallVector<double> alternating(int first, int last) {
  SmallVector<double> series;
  for (int n = first; n >= last; n -= 2)
    series.push_back((n / 2 % 2 ? -1 : 1) / factorial(n));
  return series;
}

static std::pair<Value, Value> sineAndCosine(const E &e, Pair r) {
  Value z = e.mul(r.hi, r.hi), half = e.mul(z, e.c(0.5));
  Value p = e.poly(z, alternating(17, 3));
  Value low = e.sub(r.lo, e.mul(r.lo, half));
  Value sine = e.add(r.hi, e.fma(e.mul(r.hi, z), p, low));
  // 1 - z/2 is kept to more bits.
  Value q = e.poly(z, alternating(18, 4));
  Value w = e.sub(e.c(1), half), lost = e.sub(e.sub(e.c(1), w), half);
  Value cosine = e.add(w, e.add(lost, e.fma(e.mul(z, z), q, e.neg(e.mul(r.hi, r.lo)))));
  return {e.select(e.equals(r.hi, e.c(0)), r.hi, sine), cosine};
}

static std::pair<Value, Value> expandSincos(const E &e, Value x) {
  Reduced r = reduce(e, x);
  auto [sine, cosine] = sineAndCosine(e, r.remainder);
  Value isOdd = hasBit(e, r.quadrant, 1);
  Value s = e.select(isOdd, cosine, sine), c = e.select(isOdd, sine, cosine);
  Value next = arith::AddIOp::create(e.b, e.loc, r.quadrant, e.ci(1));
  return {e.select(hasBit(e, r.quadrant, 2), e.neg(s), s), e.select(hasBit(e, next, 2), e.neg(c), c)};
}

static Value expandTan(const E &e, Value x) {
  Reduced r = reduce(e, x);
  auto [sine, cosine] = sineAndCosine(e, r.remainder);
  Value isOdd = hasBit(e, r.quadrant, 1);
  return e.div(e.select(isOdd, e.neg(cosine), sine), e.select(isOdd, sine, cosine));
}

/// The arctangent of y / x for 0 <= y <= x, 0 < x < infinity: that of the nearest of three known angles,
/// and that of the difference, which is below tan(pi/16).
static Pair atanOfRatio(const E &e, Value y, Value x) {
  // The tangent of pi/8, rounded, and its arctangent; the tangents of pi/16 and 3 pi/16.
  constexpr double kTangent = 0x1.a827999fcef32p-2;
  constexpr PairConstant kAngle = {0.39269908169872414, 3.060132146563891e-18};
  constexpr double kFirst = 0.198912367379658, kSecond = 0.6681786379192989;
  Value ratio = e.div(y, x);
  Value isMiddle = e.flip(e.less(ratio, kFirst)), isLarge = e.greater(ratio, kSecond);
  Value tangent = e.select(isLarge, e.c(1), e.c(kTangent));
  Pair angle = e.select2(isLarge, e.c2(kQuarterPi), e.c2(kAngle));
  Value shifted = e.div(e.fma(e.neg(tangent), x, y), e.fma(tangent, y, x));
  Value q = e.select(isMiddle, shifted, ratio), z = e.mul(q, q);
  SmallVector<double> series;
  for (int n = 27; n >= 3; n -= 2)
    series.push_back((n / 2 % 2 ? -1.0 : 1.0) / n);
  Value rest = e.mul(e.mul(q, z), e.poly(z, series));
  Pair s = e.sumOrdered(angle.hi, q);
  Pair sum = {s.hi, e.add(s.lo, e.add(rest, angle.lo))};
  return e.select2(isMiddle, sum, {q, rest});
}

/// The angle of the point (x, y) for x, y >= 0.
static Pair angleOfPoint(const E &e, Value y, Value x) {
  Value isSteep = e.compare(arith::CmpFPredicate::OGT, y, x);
  Value numerator = e.select(isSteep, x, y), denominator = e.select(isSteep, y, x);
  // Keeps products normal and finite.
  Value factor = e.select(e.greater(denominator, 0x1p960), e.c(0x1p-60),
                          e.select(e.less(denominator, 0x1p-900), e.c(0x1p60), e.c(1)));
  Value top = e.mul(numerator, factor), bottom = e.mul(denominator, factor);
  Value isEqual = e.equals(numerator, denominator); // also two infinities
  Value isFlat = e.either(e.equals(denominator, e.c(kInf)), e.equals(denominator, e.c(0)));
  top = e.select(isEqual, e.c(1), e.select(isFlat, e.c(0), top));
  bottom = e.select(e.either(isEqual, isFlat), e.c(1), bottom);
  Value isOrigin = e.equals(denominator, e.c(0));
  top = e.select(isOrigin, e.c(0), top);
  Pair angle = atanOfRatio(e, top, bottom);
  Pair rest = e.sum(e.c2(kHalfPi), {e.neg(angle.hi), e.neg(angle.lo)});
  return e.select2(isSteep, rest, angle);
}

static Value toValue(const E &e, Pair x) { return e.add(x.hi, x.lo); }

/// The angle, seen from the other side if `condition`.
static Value orSupplement(const E &e, Value condition, Pair angle) {
  Pair supplement = e.sum(e.c2(kWholePi), {e.neg(angle.hi), e.neg(angle.lo)});
  return toValue(e, e.select2(condition, supplement, angle));
}

static Value expandAtan(const E &e, Value x) {
  Value angle = toValue(e, angleOfPoint(e, e.abs(x), e.c(1)));
  return e.orNaN(x, e.withSign(angle, x));
}

static Value expandAtan2(const E &e, Value y, Value x) {
  // By the sign of x, which -0 has.
  Value isNegative = e.less(e.withSign(e.c(1), x), 0);
  Value value = orSupplement(e, isNegative, angleOfPoint(e, e.abs(y), e.abs(x)));
  value = e.withSign(value, y);
  return e.select(e.either(e.isNaN(x), e.isNaN(y)), e.add(x, y), value);
}

/// sqrt(1 - x^2); NaN beyond 1.
static Value complementOf(const E &e, Value x) {
  return e.sqrt(e.mul(e.sub(e.c(1), x), e.add(e.c(1), x)));
}

static Value expandAsin(const E &e, Value x) {
  Value a = e.abs(x), root = complementOf(e, a);
  return e.orNaN(root, e.withSign(toValue(e, angleOfPoint(e, a, root)), x));
}

static Value expandAcos(const E &e, Value x) {
  Value a = e.abs(x), root = complementOf(e, a);
  return e.orNaN(root, orSupplement(e, e.less(x, 0), angleOfPoint(e, root, a)));
}

//===------------------------------------------------------------------------===//
// Error function
//===------------------------------------------------------------------------===//

// The error function of |x| < 1, from its Taylor series.
static Value erfOfUnit(const E &e, Value x) {
  SmallVector<double> series;
  for (int n = 20; n >= 1; --n)
    series.push_back((n % 2 ? -1 : 1) / (factorial(n) * (2 * n + 1)));
  Value z = e.mul(x, x), scaled = e.mul(x, e.c(2 / std::sqrt(kPi)));
  return e.fma(e.mul(scaled, z), e.poly(z, series), scaled);
}

// The complement for x >= 0.5: e^(-x^2) / (1 + 2 x) times a function that is nearly constant, as a
// polynomial (Chebyshev interpolation, error below 2^-60) in (x - 4) / (x + 4).
static Value erfcOfLarge(const E &e, Value x) {
  Value bounded = arith::MinNumFOp::create(e.b, e.loc, x, e.c(28)); // zero from 27.3 on
  Value t = e.div(e.sub(bounded, e.c(4)), e.add(bounded, e.c(4)));
  Value p = e.poly(
      t, {1.97176567650497941e-09,  -9.65221352108760444e-09, -1.84066710514039662e-08,
          1.03256669073014994e-07,  7.54046735014458582e-08,  -8.19508508345956524e-07,
          2.93131864236960872e-07,  5.70649472014625361e-06,  -1.12216689422959447e-05,
          -2.43980573339964127e-05, 1.50621555901371627e-04,  -1.99256965539278662e-04,
          -7.57773263497315544e-04, 5.03197001856425970e-03,  -1.61977340610591075e-02,
          3.71675155337947219e-02,  -6.63303658119679534e-02, 9.37328349985343395e-02,
          -1.01039066036314296e-01, 6.80970542546884411e-02,  1.53796521026199010e-02,
          -1.39621116840562498e-01, 1.23299511862555256e+00});
  p = e.div(p, e.fma(e.c(2), bounded, e.c(1)));
  Pair square = e.product(bounded, bounded);
  Exponential exp = exponential(e, {e.neg(square.hi), e.neg(square.lo)});
  Pair s = e.sumOrdered(e.c(1), exp.fraction.hi);
  return e.ldexp(e.mul(e.add(s.hi, e.add(s.lo, exp.fraction.lo)), p), exp.power);
}

static Value expandErf(const E &e, Value x) {
  Value a = e.abs(x);
  Value large = e.sub(e.c(1), erfcOfLarge(e, a));
  Value magnitude = e.select(e.less(a, 1), erfOfUnit(e, a), large);
  return e.orNaN(x, e.withSign(magnitude, x));
}

static Value expandErfc(const E &e, Value x) {
  Value a = e.abs(x), large = erfcOfLarge(e, a);
  large = e.select(e.less(x, 0), e.sub(e.c(2), large), large);
  return e.orNaN(x, e.select(e.less(a, 0.5), e.sub(e.c(1), erfOfUnit(e, x)), large));
}

//===------------------------------------------------------------------------===//

/// The replacement of an operation on scalars; null if it stays.
static Value expand(const E &e, Operation *op, ValueRange operands) {
  Value x = operands[0];
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return expandExp(e, x); })
      .Case([&](math::Exp2Op) { return expandExp2(e, x); })
      .Case([&](math::ExpM1Op) { return expandExpM1(e, x); })
      .Case([&](math::LogOp) { return expandLog(e, x); })
      .Case([&](math::Log1pOp) { return expandLog1p(e, x); })
      .Case([&](math::CbrtOp) { return expandCbrt(e, x); })
      .Case([&](math::SinhOp) { return expandSinh(e, x); })
      .Case([&](math::CoshOp) { return expandCosh(e, x); })
      .Case([&](math::TanhOp) { return expandTanh(e, x); })
      .Case([&](math::AsinhOp) { return expandAsinh(e, x); })
      .Case([&](math::AcoshOp) { return expandAcosh(e, x); })
      .Case([&](math::AtanhOp) { return expandAtanh(e, x); })
      .Case([&](math::TanOp) { return expandTan(e, x); })
      .Case([&](math::AtanOp) { return expandAtan(e, x); })
      .Case([&](math::AsinOp) { return expandAsin(e, x); })
      .Case([&](math::AcosOp) { return expandAcos(e, x); })
      .Case([&](math::ErfOp) { return expandErf(e, x); })
      .Case([&](math::ErfcOp) { return expandErfc(e, x); })
      .Case([&](math::Log2Op) { return expandLogOfBase(e, x, kLog2E); })
      .Case([&](math::Log10Op) { return expandLogOfBase(e, x, kLog10E); })
      .Case([&](math::SinOp) { return expandSincos(e, x).first; })
      .Case([&](math::CosOp) { return expandSincos(e, x).second; })
      .Case([&](math::Atan2Op) { return expandAtan2(e, x, operands[1]); })
      .Case([&](math::PowFOp) { return expandPow(e, x, operands[1]); })
      .Case([&](math::FPowIOp) {
        return expandPow(e, x, arith::SIToFPOp::create(e.b, e.loc, e.type, operands[1]));
      })
      .Default(Value());
}

/// Replaces every result of `op`; false if the operation stays.
static bool expandScalars(OpBuilder &b, Operation *op, ValueRange operands,
                          SmallVectorImpl<Value> &results) {
  E e(b, op->getLoc());
  if (isa<math::SincosOp>(op)) {
    auto [sine, cosine] = expandSincos(e, operands[0]);
    results.assign({sine, cosine});
    return true;
  }
  Value value = expand(e, op, operands);
  if (value)
    results.push_back(value);
  return value != nullptr;
}

/// The same for vectors, element by element.
static bool expandElements(OpBuilder &b, Operation *op, VectorType type,
                           SmallVectorImpl<Value> &results) {
  Location loc = op->getLoc();
  SmallVector<Value> whole(op->getNumResults(),
                           arith::ConstantOp::create(b, loc, b.getZeroAttr(type)));
  SmallVector<int64_t> strides = computeStrides(type.getShape());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    SmallVector<int64_t> position = delinearize(i, strides);
    SmallVector<Value> operands, elements;
    for (Value operand : op->getOperands())
      operands.push_back(vector::ExtractOp::create(b, loc, operand, position));
    if (!expandScalars(b, op, operands, elements))
      return false;
    for (auto [vector, element] : llvm::zip(whole, elements))
      vector = vector::InsertOp::create(b, loc, element, vector, position);
  }
  results = whole;
  return true;
}

void fly_rocdl::expandDouble(Operation *func) {
  SmallVector<Operation *> ops;
  func->walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && op->getNumResults() > 0 &&
        getElementTypeOrSelf(op->getResult(0).getType()).isF64())
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder b(op);
    SmallVector<Value> results;
    auto vector = dyn_cast<VectorType>(op->getResult(0).getType());
    bool done = vector ? expandElements(b, op, vector, results)
                       : expandScalars(b, op, op->getOperands(), results);
    if (!done)
      continue;
    op->replaceAllUsesWith(results);
    op->erase();
  }
}
