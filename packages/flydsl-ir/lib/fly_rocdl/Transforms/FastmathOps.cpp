//===- FastmathOps.cpp - the pass convert-rocdl-fastmath-ops --------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/Passes.h"

#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_CONVERTROCDLFASTMATHOPSPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

struct FastExp2 : OpRewritePattern<math::Exp2Op> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::Exp2Op op, PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32() ||
        !bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn))
      return failure();
    Location loc = op.getLoc();
    auto emit = [&](Value x) -> Value {
      return ROCDL::ROCDLExp2::create(rewriter, loc, x.getType(), x);
    };
    auto vector = dyn_cast<VectorType>(type);
    if (!vector) {
      rewriter.replaceOp(op, emit(op.getOperand()));
      return success();
    }
    if (vector.getRank() != 1 || vector.isScalable())
      return failure();
    Value result = ub::PoisonOp::create(rewriter, loc, type);
    for (int64_t i = 0, n = vector.getNumElements(); i < n; ++i) {
      Value x = vector::ExtractOp::create(rewriter, loc, op.getOperand(), i);
      result = vector::InsertOp::create(rewriter, loc, emit(x), result, i);
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct ConvertROCDLFastmathOps
    : fly_rocdl::impl::ConvertROCDLFastmathOpsPassBase<ConvertROCDLFastmathOps> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FastExp2>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace
