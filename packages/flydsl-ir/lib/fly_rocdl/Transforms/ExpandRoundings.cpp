//===- ExpandRoundings.cpp - arith.truncf with a rounding mode ------------===//
//
// The back end rounds to nearest even. Any other result is the neighbour of that one, which the error of
// the rounding tells.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Expand.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

static void expandRounding(arith::TruncFOp op, arith::RoundingMode mode) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = op.getIn();
  Type narrow = op.getType(), wide = x.getType();
  unsigned width = getElementTypeOrSelf(narrow).getIntOrFloatBitWidth();
  Type bits = b.getIntegerType(width);
  if (auto vector = dyn_cast<VectorType>(narrow))
    bits = vector.clone(b.getIntegerType(width));
  auto constant = [&](int64_t value) -> Value {
    auto number = b.getIntegerAttr(getElementTypeOrSelf(bits), value);
    if (auto vector = dyn_cast<VectorType>(bits))
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, Attribute(number)));
    return arith::ConstantOp::create(b, loc, number);
  };
  auto compare = [&](arith::CmpFPredicate predicate, Value y, Value z) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, y, z);
  };
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(wide));
  auto abs = [&](Value value) -> Value {
    Value negated = arith::NegFOp::create(b, loc, value);
    return arith::SelectOp::create(b, loc, compare(arith::CmpFPredicate::OLT, value, zero), negated,
                                   value);
  };
  auto widen = [&](Value code) -> Value {
    Value value = arith::BitcastOp::create(b, loc, narrow, code);
    return arith::ExtFOp::create(b, loc, wide, value);
  };
  Value nearest = arith::TruncFOp::create(b, loc, narrow, x);
  Value code = arith::BitcastOp::create(b, loc, bits, nearest);
  Value value = arith::ExtFOp::create(b, loc, wide, nearest);
  Value toZero = arith::SubIOp::create(b, loc, code, constant(1));
  Value awayFromZero = arith::AddIOp::create(b, loc, code, constant(1));
  Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, code, constant(0));
  auto select = [&](Value condition, Value y, Value z) -> Value {
    return arith::SelectOp::create(b, loc, condition, y, z);
  };
  Value result;
  switch (mode) {
  case arith::RoundingMode::toward_zero:
    result = select(compare(arith::CmpFPredicate::OGT, abs(value), abs(x)), toZero, code);
    break;
  case arith::RoundingMode::upward:
    result = select(compare(arith::CmpFPredicate::OLT, value, x),
                    select(isNegative, toZero, awayFromZero), code);
    break;
  case arith::RoundingMode::downward:
    result = select(compare(arith::CmpFPredicate::OGT, value, x),
                    select(isNegative, awayFromZero, toZero), code);
    break;
  default: { // to nearest, ties away from zero
    // A tie was rounded towards zero if the next number is as far from x.
    Value below = arith::SubFOp::create(b, loc, abs(x), abs(value));
    Value above = arith::SubFOp::create(b, loc, abs(widen(awayFromZero)), abs(x));
    result = select(compare(arith::CmpFPredicate::OEQ, below, above), awayFromZero, code);
    break;
  }
  }
  op.replaceAllUsesWith(arith::BitcastOp::create(b, loc, narrow, result).getResult());
  op.erase();
}

void fly_rocdl::expandRoundings(Operation *func) {
  func->walk([](arith::TruncFOp op) {
    std::optional<arith::RoundingMode> mode = op.getRoundingmode();
    if (!mode)
      return;
    if (*mode == arith::RoundingMode::to_nearest_even)
      op.removeRoundingmodeAttr();
    else if (getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth() >= 16)
      expandRounding(op, *mode);
  });
}
