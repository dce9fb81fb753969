//===- IntSwizzleSimplify.cpp - fly-int-swizzle-simplify --------------------===//
//
// swizzle(v + k * P) = swizzle(v) + k * P for the period P of the swizzle, so addends that
// are multiples of P can be added afterwards, where they fold into addressing modes.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/FlyOps.h"
#include "fly/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

namespace mlir::fly {
#define GEN_PASS_DEF_FLYINTSWIZZLESIMPLIFYPASS
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly

using namespace mlir;
using namespace mlir::fly;

namespace {

/// What is known to divide an SSA integer: the larger of what its definition and its use as a
/// leaf with a divisibility annotation say.
class Divisibility {
public:
  int64_t of(Value value) {
    auto [entry, isNew] = cache.try_emplace(value, 1);
    if (!isNew)
      return entry->second;
    int64_t result = std::max(fromDefinition(value), fromUses(value));
    cache[value] = result;
    return result;
  }

private:
  static constexpr int64_t limit = INT32_MAX;

  int64_t fromDefinition(Value value) {
    APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant))) {
      int64_t magnitude = std::abs(constant.getSExtValue());
      return magnitude == 0 ? limit : std::min(magnitude, limit);
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return 1;
    if (isa<arith::AddIOp>(op))
      return std::gcd(of(op->getOperand(0)), of(op->getOperand(1)));
    if (isa<arith::SelectOp>(op))
      return std::gcd(of(op->getOperand(1)), of(op->getOperand(2)));
    if (isa<arith::MulIOp>(op))
      return saturate(of(op->getOperand(0)), of(op->getOperand(1)));
    if (isa<arith::ShLIOp>(op) && matchPattern(op->getOperand(1), m_ConstantInt(&constant)) &&
        constant.ult(31))
      return saturate(of(op->getOperand(0)), int64_t(1) << constant.getZExtValue());
    return 1;
  }

  // A product beyond the limit is still a multiple of both factors.
  static int64_t saturate(int64_t a, int64_t b) {
    return a > limit / b ? std::max(a, b) : a * b;
  }

  int64_t fromUses(Value value) {
    int64_t result = 1;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (!isa<MakeIntTupleOp, MakeShapeOp, MakeStrideOp, MakeCoordOp>(user))
        continue;
      unsigned position = 0;
      cast<IntTupleType>(user->getResult(0).getType()).getAttr().walkLeaves([&](IntTupleAttr leaf) {
        IntAttr number = leaf.extractIntFromLeaf();
        if (!number.isStatic() && position++ == use.getOperandNumber())
          result = std::max<int64_t>(result, std::abs(int64_t(number.getDivisibility())));
      });
    }
    return result;
  }

  DenseMap<Value, int64_t> cache;
};

/// xori(x, shrui(andi(x, mask), shift))
struct SwizzleOps {
  Value x;
  APInt mask, shift;
  int64_t period;
};

} // namespace

static std::optional<SwizzleOps> matchSwizzle(arith::XOrIOp xorOp) {
  if (!xorOp.getType().isIntOrIndex()) // constants match splats of vectors as well
    return std::nullopt;
  SwizzleOps result;
  auto matchSide = [&](Value x, Value moved) {
    auto shr = moved.getDefiningOp<arith::ShRUIOp>();
    auto mask = shr ? shr.getLhs().getDefiningOp<arith::AndIOp>() : arith::AndIOp();
    if (!mask || mask.getLhs() != x || !matchPattern(mask.getRhs(), m_ConstantInt(&result.mask)) ||
        !matchPattern(shr.getRhs(), m_ConstantInt(&result.shift)) ||
        !result.mask.isShiftedMask())
      return false;
    unsigned low = result.mask.countr_zero(), high = low + result.mask.popcount();
    if (result.shift.ugt(low) || high > 30)
      return false;
    result.x = x;
    result.period = int64_t(1) << high;
    return true;
  };
  if (matchSide(xorOp.getLhs(), xorOp.getRhs()) || matchSide(xorOp.getRhs(), xorOp.getLhs()))
    return result;
  return std::nullopt;
}

static void simplify(arith::XOrIOp xorOp, Divisibility &divisibility) {
  std::optional<SwizzleOps> swizzle = matchSwizzle(xorOp);
  if (!swizzle)
    return;
  Value base = swizzle->x;
  SmallVector<Value> peeled; // outermost first
  auto isMultiple = [&](Value value) { return divisibility.of(value) % swizzle->period == 0; };
  while (auto add = base.getDefiningOp<arith::AddIOp>()) {
    if (isMultiple(add.getRhs())) {
      peeled.push_back(add.getRhs());
      base = add.getLhs();
    } else if (isMultiple(add.getLhs())) {
      peeled.push_back(add.getLhs());
      base = add.getRhs();
    } else {
      break;
    }
  }
  bool baseIsMultiple = !base.getDefiningOp<arith::AddIOp>() && isMultiple(base);
  if (peeled.empty() && !baseIsMultiple)
    return;
  OpBuilder b(xorOp);
  Location loc = xorOp.getLoc();
  auto constant = [&](const APInt &value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(base.getType(), value));
  };
  Value result;
  if (baseIsMultiple) {
    peeled.push_back(base);
    result = constant(APInt(swizzle->mask.getBitWidth(), 0));
  } else {
    Value picked = arith::AndIOp::create(b, loc, base, constant(swizzle->mask));
    picked = arith::ShRUIOp::create(b, loc, picked, constant(swizzle->shift));
    result = arith::XOrIOp::create(b, loc, base, picked);
  }
  for (Value addend : llvm::reverse(peeled))
    result = arith::AddIOp::create(b, loc, result, addend);
  xorOp.getResult().replaceAllUsesWith(result);
  xorOp.erase();
}

namespace {
struct FlyIntSwizzleSimplifyPass
    : fly::impl::FlyIntSwizzleSimplifyPassBase<FlyIntSwizzleSimplifyPass> {
  void runOnOperation() override {
    getOperation()->walk([](gpu::GPUFuncOp func) {
      SmallVector<arith::XOrIOp> candidates;
      func.walk([&](arith::XOrIOp op) { candidates.push_back(op); });
      Divisibility divisibility;
      for (arith::XOrIOp op : candidates) {
        simplify(op, divisibility);
        // Values may have been replaced: start again with an empty cache.
        divisibility = Divisibility();
      }
    });
  }
};
} // namespace
