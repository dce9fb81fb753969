//===- Partition.cpp - tiled copies and MMAs seen by one thread -------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// A view of the same data through another linear layout; null if the tensor is not readable.
static Value review(PatternRewriter &rewriter, Location loc, Value tensor,
                    function_ref<Layout(Algebra &, const Layout &)> fn) {
  auto view = tensor.getDefiningOp<MakeViewOp>();
  if (!view || !isNormalForm(view.getLayout()))
    return {};
  Value layout = mapLinearValue(rewriter, loc, view.getLayout(), fn);
  return layout ? make<MakeViewOp>(rewriter, loc, {view.getIter(), layout}) : Value();
}

// view[(coord, *, *, ...)]
static Value sliceFirstMode(PatternRewriter &rewriter, Location loc, Value view,
                            const Tuple &coord) {
  Algebra alg(rewriter, loc);
  int32_t rank = getLinearLayout(view.getType()).rank();
  Value coordValue = alg.toValue(firstModeCoord(coord, rank));
  return coordValue ? make<SliceOp>(rewriter, loc, {view, coordValue}) : Value();
}

template <typename OpT>
static LogicalResult lowerCopyPartition(OpT op, Value tensor, Algebra::CopySide side,
                                        PatternRewriter &rewriter) {
  if (!isReadable(op.getCoord()))
    return failure();
  Location loc = op.getLoc();
  auto tiled = cast<TiledCopyType>(op.getTiledCopy().getType());
  Value view = review(rewriter, loc, tensor, [&](Algebra &alg, const Layout &l) {
    return alg.expand(alg.copyView(tiled, side, l), {2});
  });
  if (!view)
    return failure();
  Algebra alg(rewriter, loc);
  Value part = sliceFirstMode(rewriter, loc, view, alg.fromValue(op.getCoord()));
  if (!part)
    return failure();
  replaceRefined(rewriter, op, part);
  return success();
}

static LogicalResult lowerRetile(TiledCopyRetileOp op, PatternRewriter &rewriter) {
  auto tiled = cast<TiledCopyType>(op.getTiledCopy().getType());
  Value view = review(rewriter, op.getLoc(), op.getInput(), [&](Algebra &alg, const Layout &l) {
    return alg.retile(tiled, l);
  });
  if (!view)
    return failure();
  replaceRefined(rewriter, op, view);
  return success();
}

static LogicalResult lowerMmaPartition(TiledMmaPartitionOp op, PatternRewriter &rewriter) {
  if (!isReadable(op.getCoord()))
    return failure();
  Location loc = op.getLoc();
  auto tiled = cast<TiledMmaType>(op.getTiledMma().getType());
  MmaOperand operand = op.getOperandId();
  Value view = review(rewriter, loc, op.getInput(), [&](Algebra &alg, const Layout &l) {
    Layout nested = alg.mmaView(tiled, operand, l);
    // (thread, fragment, rest...)
    return alg.failed() ? nested : alg.expand(alg.expand(nested, {1}), {2});
  });
  if (!view)
    return failure();
  // The thread's place in (V, M, N, K); an operand uses V and two of the others.
  Algebra alg(rewriter, loc);
  Layout vmnk = alg.thrLayoutVMNK(tiled);
  if (alg.failed() || vmnk.rank() != 4)
    return rewriter.notifyMatchFailure(op, "the atom layout must have the modes M, N and K");
  Tuple place = alg.flatCoord(alg.fromValue(op.getCoord()), vmnk);
  int32_t i = operand == MmaOperand::B ? 2 : 1;
  int32_t j = operand == MmaOperand::A || operand == MmaOperand::B ? 3 : 2;
  Tuple coord =
      Tuple::of({alg.at(place, 0), Tuple::of({alg.at(place, i), alg.at(place, j)})});
  if (alg.failed())
    return rewriter.notifyMatchFailure(op, alg.message());
  Value part = sliceFirstMode(rewriter, loc, view, coord);
  if (!part)
    return failure();
  replaceRefined(rewriter, op, part);
  return success();
}

static LogicalResult lowerPartitionShape(TiledMmaPartitionShapeOp op, PatternRewriter &rewriter) {
  if (!isReadable(op.getShape()))
    return failure();
  Algebra alg(rewriter, op.getLoc());
  Tuple shape = alg.fromValue(op.getShape());
  Layout view = alg.mmaView(cast<TiledMmaType>(op.getTiledMma().getType()), op.getOperandId(),
                            {shape, alg.compact(shape)});
  if (alg.failed())
    return rewriter.notifyMatchFailure(op, alg.message());
  Value result = alg.toValue(alg.expand(alg.at(view.shape, 1), {1}));
  if (!result)
    return failure();
  replaceRefined(rewriter, op, result);
  return success();
}

void lowering::populatePartition(RewritePatternSet &patterns) {
  addPattern<TiledCopyPartitionSrcOp>(
      patterns, [](TiledCopyPartitionSrcOp op, PatternRewriter &rewriter) {
        return lowerCopyPartition(op, op.getSrc(), Algebra::CopySide::Src, rewriter);
      });
  addPattern<TiledCopyPartitionDstOp>(
      patterns, [](TiledCopyPartitionDstOp op, PatternRewriter &rewriter) {
        return lowerCopyPartition(op, op.getDst(), Algebra::CopySide::Dst, rewriter);
      });
  addPattern<TiledCopyRetileOp>(patterns, lowerRetile);
  addPattern<TiledMmaPartitionOp>(patterns, lowerMmaPartition);
  addPattern<TiledMmaPartitionShapeOp>(patterns, lowerPartitionShape);
}
