//===- LayoutLowering.cpp - fly-layout-lowering -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering/Lowering.h"
#include "fly/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "llvm/ADT/ScopedHashTable.h"

namespace mlir::fly {
#define GEN_PASS_DEF_FLYLAYOUTLOWERINGPASS
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly

using namespace mlir;
using namespace mlir::fly;

namespace {

// Operands may have become sharper (alignment, divisibility): infer the result types again.
struct RefreshInferredType : RewritePattern {
  RefreshInferredType(MLIRContext *ctx) : RewritePattern(MatchAnyOpTypeTag(), 0, ctx) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa_and_nonnull<FlyDialect>(op->getDialect()) || op->getNumResults() != 1)
      return failure();
    auto infer = dyn_cast<InferTypeOpInterface>(op);
    SmallVector<Type> types;
    if (!infer ||
        failed(infer.inferReturnTypes(op->getContext(), std::nullopt, op->getOperands(),
                                      op->getDiscardableAttrDictionary(),
                                      op->getPropertiesStorage(), op->getRegions(), types)) ||
        types.size() != 1 || types.front() == op->getResult(0).getType())
      return failure();
    lowering::refineType(rewriter, op->getResult(0), types.front());
    return success();
  }
};

using StaticValues = llvm::ScopedHashTable<Type, Value>;

// Makes one of the static tuples and layouts that are equal. Tracing leaves one for each time it was asked for, which
// are most of the operations.
void shareStaticValues(Block &block, StaticValues &known) {
  StaticValues::ScopeTy scope(known);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    for (Region &region : op.getRegions())
      for (Block &inner : region) {
        StaticValues own; // what is isolated from above sees nothing from there
        shareStaticValues(inner, op.hasTrait<OpTrait::IsIsolatedFromAbove>() ? own : known);
      }
    if (!isa<MakeIntTupleOp, MakeLayoutOp>(op) || !op.getDiscardableAttrDictionary().empty())
      continue;
    Value value = op.getResult(0);
    if (!cast<MayStaticTypeInterface>(value.getType()).isStatic())
      continue;
    if (Value same = known.lookup(value.getType())) {
      value.replaceAllUsesWith(same);
      op.erase();
    } else {
      known.insert(value.getType(), value);
    }
  }
}

struct FlyLayoutLoweringPass : fly::impl::FlyLayoutLoweringPassBase<FlyLayoutLoweringPass> {
  void runOnOperation() override {
    if (failed(lowering::checkThreads(getOperation())) || failed(lowering::checkTiles(getOperation())) ||
        failed(lowering::checkEdges(getOperation())))
      return signalPassFailure();
    StaticValues known;
    for (Region &region : getOperation()->getRegions())
      for (Block &block : region)
        shareStaticValues(block, known);
    lowering::Reasons reasons;
    RewritePatternSet patterns(&getContext());
    patterns.add<RefreshInferredType>(&getContext());
    lowering::populateEvaluate(patterns);
    lowering::populateForward(patterns);
    lowering::populateDistribute(patterns);
    lowering::populateMemory(patterns);
    lowering::populateVectorAccess(patterns, reasons);
    lowering::populatePartition(patterns);
    lowering::populateCopyGemm(patterns, reasons);
    lowering::populatePrint(patterns, reasons);
    GreedyRewriteConfig config;
    config.setUseTopDownTraversal(true);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return signalPassFailure();
    bool leftOver = false;
    getOperation()->walk([&](Operation *op) {
      auto reason = reasons.find(op);
      bool isNoted = reason != reasons.end() && isa<MemRefLoadVecOp, MemRefStoreVecOp, CopyAtomCall>(op);
      if (!isa<CopyOp, GemmOp, PrintOp>(op) && !isNoted)
        return;
      op->emitOpError() << (reason == reasons.end()
                                ? "cannot be lowered: run fly-canonicalize before, and make sure "
                                  "that its operands are not block arguments"
                                : StringRef(reason->second));
      leftOver = true;
    });
    if (leftOver)
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};

} // namespace
