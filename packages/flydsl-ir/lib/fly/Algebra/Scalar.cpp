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

Int Algebra::emit(const Int &type, StringRef op, const Int &a, const Int &b) {
  if (!builder)
    return type;
  int32_t width = a.width == 64 || b.width == 64 ? 64 : 32;
  Value x = materialize(a, width), y = materialize(b, width);
  OpBuilder &bld = *builder;
  auto compare = [&](arith::CmpIPredicate predicate) -> Value {
    Value bit = arith::CmpIOp::create(bld, *loc, predicate, x, y);
    return arith::ExtUIOp::create(bld, *loc, bld.getI32Type(), bit);
  };
  Int result = type;
  if (op == "add")
    result.ssa = arith::AddIOp::create(bld, *loc, x, y);
  else if (op == "sub")
    result.ssa = arith::SubIOp::create(bld, *loc, x, y);
  else if (op == "mul")
    result.ssa = arith::MulIOp::create(bld, *loc, x, y);
  else if (op == "div")
    result.ssa = arith::DivSIOp::create(bld, *loc, x, y);
  else if (op == "mod")
    result.ssa = arith::RemSIOp::create(bld, *loc, x, y);
  else if (op == "ceildiv")
    result.ssa = arith::CeilDivSIOp::create(bld, *loc, x, y);
  else if (op == "min")
    result.ssa = arith::MinSIOp::create(bld, *loc, x, y);
  else if (op == "max")
    result.ssa = arith::MaxSIOp::create(bld, *loc, x, y);
  else if (op == "lt")
    result.ssa = compare(arith::CmpIPredicate::slt);
  else if (op == "eq")
    result.ssa = compare(arith::CmpIPredicate::eq);
  else if (op == "and")
    result.ssa = arith::AndIOp::create(bld, *loc, x, y);
  else if (op == "shru")
    result.ssa = arith::ShRUIOp::create(bld, *loc, x, y);
  else if (op == "shl")
    result.ssa = arith::ShLIOp::create(bld, *loc, x, y);
  else if (op == "xor")
    result.ssa = arith::XOrIOp::create(bld, *loc, x, y);
  return result;
}

Int Algebra::add(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) + b.value);
  if (a.is(0))
    return b;
  if (b.is(0))
    return a;
  return emit(dynamicResult(a, b, gcd(a.div, b.div)), "add", a, b);
}

Int Algebra::sub(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) - b.value);
  // -b has the type of b (its divisors are the same), but its value must be computed.
  if (a.is(0))
    return emit(Int::dynamic(b.width, b.div), "sub", a, b);
  if (b.is(0))
    return a;
  return emit(dynamicResult(a, b, gcd(a.div, b.div)), "sub", a, b);
}

Int Algebra::mul(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) * b.value);
  if (a.is(0) || b.is(0))
    return Int::constant(0);
  return emit(dynamicResult(a, b, int64_t(a.div) * b.div), "mul", a, b);
}

Int Algebra::div(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("division by zero").num;
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) / b.value);
  if (a.is(0))
    return Int::constant(0);
  return emit(dynamicResult(a, b, 1), "div", a, b);
}

Int Algebra::mod(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("remainder of a division by zero").num;
  if (a.isStatic && b.isStatic)
    return staticInt(int64_t(a.value) % b.value);
  if (b.is(1) || a.is(0))
    return Int::constant(0);
  return emit(dynamicResult(a, b, gcd(a.div, b.div)), "mod", a, b);
}

Int Algebra::min(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(std::min(a.value, b.value));
  return emit(dynamicResult(a, b, gcd(a.div, b.div)), "min", a, b);
}

Int Algebra::max(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return staticInt(std::max(a.value, b.value));
  return emit(dynamicResult(a, b, gcd(a.div, b.div)), "max", a, b);
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
  return emit(dynamicResult(a, b, 1), "div", a, b);
}

Int Algebra::ceilDiv(const Int &a, const Int &b) {
  if (b.is(0))
    return fail("division by zero").num;
  if (a.isStatic && b.isStatic)
    return staticInt((int64_t(a.value) + b.value - 1) / b.value);
  if (a.is(0) || a.is(1))
    return a;
  return emit(dynamicResult(a, b, 1), "ceildiv", a, b);
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
  return emit(Int::dynamic(32, 1), "lt", a, b);
}

Int Algebra::equal(const Int &a, const Int &b) {
  if (a.isStatic && b.isStatic)
    return Int::constant(a.value == b.value);
  return emit(Int::dynamic(32, 1), "eq", a, b);
}

// Operands are truth values 0 or 1.
Int Algebra::logicalAnd(const Int &a, const Int &b) {
  if (a.is(0) || b.is(0))
    return Int::constant(0);
  if (a.isStatic)
    return b;
  if (b.isStatic)
    return a;
  return emit(Int::dynamic(32, 1), "and", a, b);
}

Int Algebra::swizzle(const Int &v, SwizzleAttr attr) {
  if (attr.isTrivial())
    return v;
  int64_t bits = ((int64_t(1) << attr.getMask()) - 1) << (attr.getBase() + attr.getShift());
  if (v.isStatic)
    return staticInt(v.value ^ ((int64_t(v.value) & bits) >> attr.getShift()));
  Int type = Int::dynamic(v.width, gcd(v.div, int64_t(1) << attr.getBase()));
  Int picked = emit(type, "and", v, staticInt(bits));
  return emit(type, "xor", v, emit(type, "shru", picked, Int::constant(attr.getShift())));
}

Int Algebra::coordSwizzle(const Int &row, const Int &col, CoordSwizzleAttr attr) {
  if (attr.getMask() == 0)
    return col;
  int64_t bits = (int64_t(1) << attr.getMask()) - 1;
  if (row.isStatic && col.isStatic)
    return staticInt(col.value ^ (((row.value >> attr.getBaseRow()) & bits) << attr.getBaseCol()));
  Int rowType = Int::dynamic(row.width == 64 ? 64 : 32, 1);
  Int type = dynamicResult(row, col, gcd(col.div, int64_t(1) << attr.getBaseCol()));
  Int picked = emit(rowType, "shru", row, Int::constant(attr.getBaseRow()));
  picked = emit(rowType, "and", picked, staticInt(bits));
  return emit(type, "xor", col, emit(rowType, "shl", picked, Int::constant(attr.getBaseCol())));
}
