//===- Scalar.cpp - integers of the layout algebra --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fly;

Tuple Algebra::fail(const Twine &what) {
  if (error.empty())
    error = what.str();
  return Tuple(0);
}

bool Tuple::isStatic() const {
  bool result = true;
  walk([&](const Tuple &leaf) { result &= leaf.num.isStatic; });
  return result;
}

void Tuple::walk(function_ref<void(const Tuple &)> fn) const {
  if (isLeaf)
    return fn(*this);
  for (const Tuple &kid : kids)
    kid.walk(fn);
}

static int64_t gcd(int64_t a, int64_t b) { return std::gcd(a, b); }

Int Algebra::staticInt(int64_t value) {
  if (value < INT32_MIN || value > INT32_MAX)
    return fail("integer overflow: " + Twine(value) + " does not fit in 32 bits").num;
  return Int::constant(static_cast<int32_t>(value));
}

Int Algebra::dynamicResult(const Int &a, const Int &b, int64_t div) {
  // A divisibility too large to store is weakened to its largest power of two that fits.
  if (div < INT32_MIN || div > INT32_MAX)
    div = int64_t(1) << std::min(30, llvm::countr_zero(static_cast<uint64_t>(div)));
  int32_t width = std::max(a.width, b.width);
  return Int::dynamic(width <= 32 ? 32 : 64, static_cast<int32_t>(div));
}

Value Algebra::materialize(const Int &num, int32_t width) {
  if (!builder)
    return {};
  Type type = builder->getIntegerType(width);
  if (num.isStatic)
    return arith::ConstantOp::create(*builder, *loc, builder->getIntegerAttr(type, num.value));
  if (!num.ssa) {
    fail("internal: dynamic leaf without a value");
    return arith::ConstantOp::create(*builder, *loc, builder->getIntegerAttr(type, 0));
  }
  if (num.ssa.getType().getIntOrFloatBitWidth() < static_cast<unsigned>(width))
    return arith::ExtSIOp::create(*builder, *loc, type, num.ssa);
  return num.ssa;
}

std::pair<Value, Value> Algebra::operands(const Int &a, const Int &b) {
  int32_t width = a.width == 64 || b.width == 64 ? 64 : 32;
  Value x = materialize(a, width);
  return {x, materialize(b, width)};
}

/// The result of an operation of the arith dialect, of which `type` says what is known.
template <typename Op> Int Algebra::emit(const Int &type, const Int &a, const Int &b) {
  Int result = type;
  if (builder) {
    auto [x, y] = operands(a, b);
    result.ssa = Op::create(*builder, *loc, x, y);
  }
  return result;
}

/// 0 or 1.
Int Algebra::emitCompare(arith::CmpIPredicate predicate, const Int &a, const Int &b) {
  Int result = Int::dynamic(32, 1);
  if (builder) {
    auto [x, y] = operands(a, b);
    Value bit = arith::CmpIOp::create(*builder, *loc, predicate, x, y);
    result.ssa = arith::ExtUIOp::create(*builder, *loc, builder->getI32Type(), bit);
  }
  return result;
}

Int Algebra::add(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) + b.value);
  if (a.is(0))
    return b;
  if (b.is(0))
    return a;
  return emit<arith::AddIOp>(dynamicResult(a, b, gcd(a.div, b.div)), a, b);
}

Int Algebra::sub(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) - b.value);
  // -b has the type of b (its divisors are the same), but its value must be computed.
  if (a.is(0))
    return emit<arith::SubIOp>(Int::dynamic(b.width, b.div), a, b);
  if (b.is(0))
    return a;
  return emit<arith::SubIOp>(dynamicResult(a, b, gcd(a.div, b.div)), a, b);
}

Int Algebra::mul(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) * b.value);
  if (a.is(0) || b.is(0))
    return Int::constant(0);
  return emit<arith::MulIOp>(dynamicResult(a, b, int64_t(a.div) * b.div), a, b);
}

Int Algebra::div(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("division by zero").num;
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) / b.value);
  if (a.is(0))
    return Int::constant(0);
  return emit<arith::DivSIOp>(dynamicResult(a, b, 1), a, b);
}

Int Algebra::mod(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("remainder of a division by zero").num;
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) % b.value);
  if (b.is(1) || a.is(0))
    return Int::constant(0);
  return emit<arith::RemSIOp>(dynamicResult(a, b, gcd(a.div, b.div)), a, b);
}

Int Algebra::min(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(std::min(a.value, b.value));
  return emit<arith::MinSIOp>(dynamicResult(a, b, gcd(a.div, b.div)), a, b);
}

Int Algebra::max(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(std::max(a.value, b.value));
  return emit<arith::MaxSIOp>(dynamicResult(a, b, gcd(a.div, b.div)), a, b);
}

Int Algebra::safeDiv(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("division by zero").num;
  int64_t known = a.isStatic ? a.value : a.div;
  if (b.isStatic && known % int64_t(b.value) != 0)
    return fail("division is not exact: " + Twine(b.value) + " does not divide " +
                (a.isStatic ? "" : "a multiple of ") + Twine(known))
        .num;
  if (a.is(0))
    return a;
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) / b.value);
  return emit<arith::DivSIOp>(dynamicResult(a, b, 1), a, b);
}

Int Algebra::ceilDiv(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("division by zero").num;
  if (a.isStatic && b.isStatic)
    return staticInt(llvm::divideCeilSigned(int64_t(a.value), int64_t(b.value)));
  if (a.is(0) || a.is(1))
    return a;
  return emit<arith::CeilDivSIOp>(dynamicResult(a, b, 1), a, b);
}

Int Algebra::shapeDiv(const Int &a, const Int &b) {
  int64_t x = a.value, y = b.value; // wide, as INT32_MIN / -1 overflows
  if (a.isStatic && b.isStatic && y != 0 && x != 0 && x % y != 0 && y % x != 0)
    return fail("shape division: neither of " + Twine(a.value) + " and " + Twine(b.value) +
                " divides the other")
        .num;
  return ceilDiv(a, b);
}

Int Algebra::less(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return Int::constant(a.value < b.value);
  return emitCompare(arith::CmpIPredicate::slt, a, b);
}

Int Algebra::equal(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return Int::constant(a.value == b.value);
  return emitCompare(arith::CmpIPredicate::eq, a, b);
}

// Operands are truth values 0 or 1.
Int Algebra::logicalAnd(const Int &a, const Int &b) {
  if (a.is(0) || b.is(0))
    return Int::constant(0);
  if (a.isStatic)
    return b;
  if (b.isStatic)
    return a;
  return emit<arith::AndIOp>(Int::dynamic(32, 1), a, b);
}

Int Algebra::swizzle(const Int &v, SwizzleAttr attr) {
  if (attr.isTrivial())
    return v;
  int64_t bits = ((int64_t(1) << attr.getMask()) - 1) << (attr.getBase() + attr.getShift());
  if (v.isStatic)
    return staticInt(v.value ^ ((int64_t(v.value) & bits) >> attr.getShift()));
  Int type = Int::dynamic(v.width, gcd(v.div, int64_t(1) << attr.getBase()));
  Int picked = emit<arith::AndIOp>(type, v, staticInt(bits));
  picked = emit<arith::ShRUIOp>(type, picked, Int::constant(attr.getShift()));
  return emit<arith::XOrIOp>(type, v, picked);
}

Int Algebra::coordSwizzle(const Int &row, const Int &col, CoordSwizzleAttr attr) {
  if (attr.getMask() == 0)
    return col;
  int64_t bits = (int64_t(1) << attr.getMask()) - 1;
  if (row.isStatic && col.isStatic)
    return staticInt(col.value ^ (((row.value >> attr.getBaseRow()) & bits) << attr.getBaseCol()));
  Int rowType = Int::dynamic(row.width == 64 ? 64 : 32, 1);
  Int type = dynamicResult(row, col, gcd(col.div, int64_t(1) << attr.getBaseCol()));
  Int picked = emit<arith::ShRUIOp>(rowType, row, Int::constant(attr.getBaseRow()));
  picked = emit<arith::AndIOp>(rowType, picked, staticInt(bits));
  picked = emit<arith::ShLIOp>(rowType, picked, Int::constant(attr.getBaseCol()));
  return emit<arith::XOrIOp>(type, col, picked);
}
