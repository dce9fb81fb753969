//===- Forward.cpp - extractors of constructors -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// The extractor becomes the operand that the constructor `MakerT` got.
template <typename OpT, typename MakerT>
static void forward(RewritePatternSet &patterns, Value (*pick)(MakerT)) {
  addPattern<OpT>(patterns, [pick](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    auto maker = op->getOperand(0).template getDefiningOp<MakerT>();
    if (!maker)
      return failure();
    replaceRefined(rewriter, op, pick(maker));
    return success();
  });
}

static Value leafValue(PatternRewriter &rewriter, Location loc, const Tuple &leaf, Type type) {
  if (!leaf.num.isStatic)
    return leaf.num.ssa;
  return arith::ConstantOp::create(rewriter, loc,
                                   rewriter.getIntegerAttr(type, leaf.num.value));
}

void lowering::populateForward(RewritePatternSet &patterns) {
  forward<GetShapeOp, MakeLayoutOp>(patterns, [](MakeLayoutOp m) -> Value { return m.getShape(); });
  forward<GetStrideOp, MakeLayoutOp>(patterns,
                                     [](MakeLayoutOp m) -> Value { return m.getStride(); });
  forward<GetLayoutOp, MakeViewOp>(patterns, [](MakeViewOp m) -> Value { return m.getLayout(); });
  forward<GetIterOp, MakeViewOp>(patterns, [](MakeViewOp m) -> Value { return m.getIter(); });
  forward<ComposedGetInnerOp, MakeComposedLayoutOp>(
      patterns, [](MakeComposedLayoutOp m) -> Value { return m.getInner(); });
  forward<ComposedGetOffsetOp, MakeComposedLayoutOp>(
      patterns, [](MakeComposedLayoutOp m) -> Value { return m.getOffset(); });
  forward<ComposedGetOuterOp, MakeComposedLayoutOp>(
      patterns, [](MakeComposedLayoutOp m) -> Value { return m.getOuter(); });
  forward<GetCopyAtomOp, MakeTiledCopyOp>(
      patterns, [](MakeTiledCopyOp m) -> Value { return m.getCopyAtom(); });
  forward<GetMmaAtomOp, MakeTiledMmaOp>(patterns,
                                        [](MakeTiledMmaOp m) -> Value { return m.getMmaAtom(); });

  addPattern<GetScalarOp>(patterns, [](GetScalarOp op, PatternRewriter &rewriter) -> LogicalResult {
    if (!isReadable(op.getIntTuple()))
      return failure();
    Algebra alg(rewriter, op.getLoc());
    Tuple leaf = alg.unwrap(alg.fromValue(op.getIntTuple()));
    if (alg.failed() || !leaf.isLeaf)
      return failure();
    rewriter.replaceOp(op, leafValue(rewriter, op.getLoc(), leaf, op.getType()));
    return success();
  });

  addPattern<GetLeavesOp>(patterns, [](GetLeavesOp op, PatternRewriter &rewriter) -> LogicalResult {
    if (!isReadable(op.getInput()))
      return failure();
    Algebra alg(rewriter, op.getLoc());
    Tuple tuple = alg.fromValue(op.getInput());
    SmallVector<Value> leaves;
    tuple.walk([&](const Tuple &leaf) {
      if (!op.getDynamicOnly() || !leaf.num.isStatic)
        leaves.push_back(
            leafValue(rewriter, op.getLoc(), leaf, op->getResult(leaves.size()).getType()));
    });
    if (alg.failed())
      return failure();
    rewriter.replaceOp(op, leaves);
    return success();
  });
}
