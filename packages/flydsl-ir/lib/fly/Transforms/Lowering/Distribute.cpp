//===- Distribute.cpp - operations on composed layouts and tensors ----------===//
//
// An operation on a composed layout acts on its outer part; one on a tensor acts on
// its layout.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

static bool isTensor(Value value) {
  return isa<fly::MemRefType, CoordTensorType>(value.getType());
}

template <typename OpT>
static void distributeOverComposed(RewritePatternSet &patterns) {
  addPattern<OpT>(patterns, [](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    Value layout = op->getOperand(0);
    Location loc = op.getLoc();
    if (!isa<ComposedLayoutType>(layout.getType()))
      return failure();
    Value outer = make<ComposedGetOuterOp>(rewriter, loc, layout);
    Operation *mapped = cloneWithOperand(rewriter, op, 0, outer);
    if (!mapped)
      return failure();
    Value inner = make<ComposedGetInnerOp>(rewriter, loc, layout);
    Value offset = make<ComposedGetOffsetOp>(rewriter, loc, layout);
    Value result = make<MakeComposedLayoutOp>(rewriter, loc, {inner, offset, mapped->getResult(0)});
    replaceRefined(rewriter, op, result);
    return success();
  });
}

template <typename OpT>
static void distributeOverTensor(RewritePatternSet &patterns) {
  addPattern<OpT>(patterns, [](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    Value tensor = op->getOperand(0);
    Location loc = op.getLoc();
    if (!isTensor(tensor))
      return failure();
    Operation *mapped =
        cloneWithOperand(rewriter, op, 0, make<GetLayoutOp>(rewriter, loc, tensor));
    if (!mapped)
      return failure();
    Value iter = make<GetIterOp>(rewriter, loc, tensor);
    replaceRefined(rewriter, op, make<MakeViewOp>(rewriter, loc, {iter, mapped->getResult(0)}));
    return success();
  });
}

// A measure depends on the linear layout only.
template <typename OpT>
static void measureInner(RewritePatternSet &patterns) {
  addPattern<OpT>(patterns, [](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    Value layout = op->getOperand(0), inner;
    if (isTensor(layout))
      inner = make<GetLayoutOp>(rewriter, op.getLoc(), layout);
    else if (isa<ComposedLayoutType>(layout.getType()))
      inner = make<ComposedGetOuterOp>(rewriter, op.getLoc(), layout);
    else
      return failure();
    Operation *mapped = cloneWithOperand(rewriter, op, 0, inner);
    if (!mapped)
      return failure();
    replaceRefined(rewriter, op, mapped->getResult(0));
    return success();
  });
}

static LogicalResult recastComposed(RecastLayoutOp op, PatternRewriter &rewriter) {
  auto type = dyn_cast<ComposedLayoutType>(op.getSrc().getType());
  Location loc = op.getLoc();
  if (!type || !isReadable(op.getSrc()))
    return failure();
  int32_t oldBits = op.getOldTypeBits(), newBits = op.getNewTypeBits();
  auto recastPart = [&](Value part) -> Value {
    Attribute attr = getLayoutAttr(part.getType());
    if (attr) {
      Operation *mapped = cloneWithOperand(rewriter, op, 0, part);
      return mapped ? mapped->getResult(0) : Value();
    }
    Algebra alg(rewriter.getContext());
    Attribute swizzle;
    if (auto plain = dyn_cast<SwizzleType>(part.getType()))
      swizzle = alg.recast(Attribute(plain.getAttr()), oldBits, newBits);
    else
      swizzle = alg.recast(Attribute(cast<CoordSwizzleType>(part.getType()).getAttr()), oldBits,
                           newBits);
    return alg.failed() ? Value() : StaticOp::create(rewriter, loc, getTypeFor(swizzle)).getResult();
  };
  Value inner = recastPart(make<ComposedGetInnerOp>(rewriter, loc, op.getSrc()));
  Value outer = recastPart(make<ComposedGetOuterOp>(rewriter, loc, op.getSrc()));
  Value offset = make<ComposedGetOffsetOp>(rewriter, loc, op.getSrc());
  if (auto maker = op.getSrc().getDefiningOp<MakeComposedLayoutOp>())
    offset = maker.getOffset();
  Algebra alg(rewriter, loc);
  Value scaled = alg.toValue(alg.recastOffset(alg.fromValue(offset), oldBits, newBits));
  if (!inner || !outer || !scaled)
    return failure();
  replaceRefined(rewriter, op, make<MakeComposedLayoutOp>(rewriter, loc, {inner, scaled, outer}));
  return success();
}

static LogicalResult sliceComposed(SliceOp op, PatternRewriter &rewriter) {
  Value layout = op.getSrc(), coord = op.getCoord();
  Location loc = op.getLoc();
  if (!isa<ComposedLayoutType>(layout.getType()))
    return failure();
  Value inner = make<ComposedGetInnerOp>(rewriter, loc, layout);
  Value offset = make<ComposedGetOffsetOp>(rewriter, loc, layout);
  Value outer = make<ComposedGetOuterOp>(rewriter, loc, layout);
  Value sliced = make<SliceOp>(rewriter, loc, {outer, coord});
  if (isa<LayoutType>(outer.getType())) {
    Value moved = make<Crd2IdxOp>(rewriter, loc, {coord, outer});
    offset = moved ? make<IntTupleAddOp>(rewriter, loc, {offset, moved}) : Value();
  }
  if (!sliced || !offset)
    return failure();
  replaceRefined(rewriter, op, make<MakeComposedLayoutOp>(rewriter, loc, {inner, offset, sliced}));
  return success();
}

static LogicalResult sliceTensor(SliceOp op, PatternRewriter &rewriter) {
  Value tensor = op.getSrc(), coord = op.getCoord();
  Location loc = op.getLoc();
  if (!isTensor(tensor))
    return failure();
  Value layout = make<GetLayoutOp>(rewriter, loc, tensor);
  Value iter = make<GetIterOp>(rewriter, loc, tensor);
  Value sliced = make<SliceOp>(rewriter, loc, {layout, coord});
  if (isa<LayoutType>(layout.getType())) {
    Value offset = make<Crd2IdxOp>(rewriter, loc, {coord, layout});
    iter = offset ? make<AddOffsetOp>(rewriter, loc, {iter, offset}) : Value();
  }
  if (!iter || !sliced)
    return failure();
  replaceRefined(rewriter, op, make<MakeViewOp>(rewriter, loc, {iter, sliced}));
  return success();
}

template <typename... Ops>
static void overBoth(RewritePatternSet &patterns) {
  (distributeOverComposed<Ops>(patterns), ...);
  (distributeOverTensor<Ops>(patterns), ...);
}

void lowering::populateDistribute(RewritePatternSet &patterns) {
  overBoth<GetOp, TakeOp, SelectOp, GroupOp, CoalesceOp, CompositionOp, LogicalDivideOp,
           ZippedDivideOp, TiledDivideOp, FlatDivideOp>(patterns);
  (void)std::initializer_list<int>{
      (distributeOverComposed<AppendOp>(patterns), 0),
      (distributeOverComposed<PrependOp>(patterns), 0),
      (distributeOverComposed<ComplementOp>(patterns), 0),
      (distributeOverComposed<RightInverseOp>(patterns), 0),
      (distributeOverComposed<LeftInverseOp>(patterns), 0),
      (distributeOverComposed<LogicalProductOp>(patterns), 0),
      (distributeOverComposed<ZippedProductOp>(patterns), 0),
      (distributeOverComposed<TiledProductOp>(patterns), 0),
      (distributeOverComposed<FlatProductOp>(patterns), 0),
      (distributeOverComposed<BlockedProductOp>(patterns), 0),
      (distributeOverComposed<RakedProductOp>(patterns), 0),
      (distributeOverComposed<TileToShapeOp>(patterns), 0),
      (measureInner<GetShapeOp>(patterns), 0),
      (measureInner<SizeOp>(patterns), 0),
      (measureInner<CoprofileOp>(patterns), 0),
      (measureInner<CoshapeOp>(patterns), 0),
      (measureInner<CosizeOp>(patterns), 0)};
  addPattern<GetStrideOp>(patterns, [](GetStrideOp op, PatternRewriter &rewriter) -> LogicalResult {
    if (!isTensor(op.getLayout()))
      return failure();
    Value layout = make<GetLayoutOp>(rewriter, op.getLoc(), op.getLayout());
    replaceRefined(rewriter, op, make<GetStrideOp>(rewriter, op.getLoc(), layout));
    return success();
  });
  addPattern<RecastLayoutOp>(patterns, recastComposed);
  addPattern<SliceOp>(patterns, sliceComposed);
  addPattern<SliceOp>(patterns, sliceTensor);
}
