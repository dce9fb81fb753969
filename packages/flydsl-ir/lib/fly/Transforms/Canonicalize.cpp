//===- Canonicalize.cpp - fly-canonicalize ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/FlyOps.h"
#include "fly/Transforms/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fly {
#define GEN_PASS_DEF_FLYCANONICALIZEPASS
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly

using namespace mlir;
using namespace mlir::fly;

namespace {

template <typename SynonymOp>
struct RewriteSynonym : OpRewritePattern<SynonymOp> {
  using OpRewritePattern<SynonymOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(SynonymOp op, PatternRewriter &rewriter) const override {
    auto maker = MakeIntTupleOp::create(rewriter, op.getLoc(), op.getType(), op.getDyncElems());
    maker->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, maker);
    return success();
  }
};

// A static value is determined by its type, whatever computed it.
struct RebuildStaticValue : RewritePattern {
  RebuildStaticValue(MLIRContext *ctx) : RewritePattern(MatchAnyOpTypeTag(), 1, ctx) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1)
      return failure();
    auto type = dyn_cast<MayStaticTypeInterface>(op->getResult(0).getType());
    if (!type || !type.isStatic())
      return failure();
    // A call or a region of another dialect may do more than give its value: it stays, unused.
    bool stays = !isa<FlyDialect>(op->getDialect()) && !isMemoryEffectFree(op);
    if (stays && op->use_empty())
      return failure();
    Value value = type.rebuildStaticValue(rewriter, op->getLoc(), op->getResult(0));
    if (!value)
      return failure();
    if (stays)
      rewriter.replaceAllUsesWith(op->getResult(0), value);
    else
      rewriter.replaceOp(op, value);
    return success();
  }
};

struct FlyCanonicalizePass : fly::impl::FlyCanonicalizePassBase<FlyCanonicalizePass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RewriteSynonym<MakeShapeOp>, RewriteSynonym<MakeStrideOp>,
                 RewriteSynonym<MakeCoordOp>, RebuildStaticValue>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
