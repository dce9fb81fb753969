//===- Memory.cpp - element accesses, allocations, pointer offsets ----------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// The iterator of a tensor moved to the element at a coordinate.
static Value elementIter(PatternRewriter &rewriter, Location loc, Value tensor, Value indices) {
  Value iter = make<GetIterOp>(rewriter, loc, tensor);
  Value layout = make<GetLayoutOp>(rewriter, loc, tensor);
  Value index = make<Crd2IdxOp>(rewriter, loc, {indices, layout});
  return index ? make<AddOffsetOp>(rewriter, loc, {iter, index}) : Value();
}

static LogicalResult lowerLoad(MemRefLoadOp op, PatternRewriter &rewriter) {
  Value iter = elementIter(rewriter, op.getLoc(), op.getMemref(), op.getIndices());
  if (!iter)
    return failure();
  if (isa<PointerType>(iter.getType()))
    rewriter.replaceOpWithNewOp<PtrLoadOp>(op, op.getType(), iter);
  else
    replaceRefined(rewriter, op, iter);
  return success();
}

static LogicalResult lowerStore(MemRefStoreOp op, PatternRewriter &rewriter) {
  Value iter = elementIter(rewriter, op.getLoc(), op.getMemref(), op.getIndices());
  if (!iter)
    return failure();
  rewriter.replaceOpWithNewOp<PtrStoreOp>(op, op.getValue(), iter);
  return success();
}

// Registers for the elements of a static layout.
static Value allocate(PatternRewriter &rewriter, Location loc, fly::MemRefType type) {
  auto layout = dyn_cast<LayoutAttr>(type.getLayout());
  if (!layout || !layout.isStatic())
    return {};
  Algebra alg(rewriter.getContext());
  Int size = alg.cosize(alg.fromAttr(layout));
  if (alg.failed() || !size.isStatic || size.value <= 0)
    return {};
  NamedAttribute key = rewriter.getNamedAttr("allocSize", rewriter.getI64IntegerAttr(size.value));
  Value ptr = MakePtrOp::create(rewriter, loc, type.getPointerType(), ValueRange(),
                                rewriter.getDictionaryAttr(key));
  Value layoutValue = LayoutType::get(layout).rebuildStaticValue(rewriter, loc, Value());
  return MakeViewOp::create(rewriter, loc, type, ptr, layoutValue);
}

template <typename OpT>
static LogicalResult lowerAllocation(OpT op, PatternRewriter &rewriter) {
  Value view = allocate(rewriter, op.getLoc(), op.getType());
  if (!view)
    return rewriter.notifyMatchFailure(op, "an allocation needs a static, plain layout");
  rewriter.replaceOp(op, view);
  return success();
}

static LogicalResult lowerDecomposition(DecompositionOp op, PatternRewriter &rewriter) {
  Location loc = op.getLoc();
  Attribute layout = getLayoutAttr(op.getTensor().getType());
  if (isa<LayoutAttr>(layout)) {
    replaceRefined(rewriter, op, op.getTensor());
    return success();
  }
  auto view = op.getTensor().getDefiningOp<MakeViewOp>();
  if (!view || !isReadable(view.getLayout()))
    return failure();
  Algebra alg(rewriter, loc);
  CoordMap map = alg.mapFromValue(view.getLayout());
  Value offset = alg.toValue(alg.decomposedOffset(map));
  Value linear = alg.toValue(map.linear());
  if (!offset || !linear)
    return rewriter.notifyMatchFailure(op, alg.message());
  Value iter = make<AddOffsetOp>(rewriter, loc, {view.getIter(), offset});
  if (!iter)
    return failure();
  replaceRefined(rewriter, op, make<MakeViewOp>(rewriter, loc, {iter, linear}));
  return success();
}

static bool isStaticOffset(AddOffsetOp op) { return op.getOffset().getType().isStatic(); }

// Chains end up with one dynamic offset inside and one static offset outside.
static LogicalResult normalizeOffsets(AddOffsetOp op, PatternRewriter &rewriter) {
  auto inner = op.getPtr().getDefiningOp<AddOffsetOp>();
  if (!inner || !isa<PointerType>(op.getPtr().getType()))
    return failure();
  Location loc = op.getLoc();
  if (isStaticOffset(inner) == isStaticOffset(op)) {
    Value sum = make<IntTupleAddOp>(rewriter, loc, {inner.getOffset(), op.getOffset()});
    Value moved = sum ? make<AddOffsetOp>(rewriter, loc, {inner.getPtr(), sum}) : Value();
    if (!moved)
      return failure();
    replaceRefined(rewriter, op, moved);
    return success();
  }
  if (!isStaticOffset(inner) || !inner->hasOneUse())
    return failure();
  Value dynamic = make<AddOffsetOp>(rewriter, loc, {inner.getPtr(), op.getOffset()});
  Value moved = dynamic ? make<AddOffsetOp>(rewriter, loc, {dynamic, inner.getOffset()}) : Value();
  if (!moved)
    return failure();
  replaceRefined(rewriter, op, moved);
  return success();
}

void lowering::populateMemory(RewritePatternSet &patterns) {
  addPattern<MemRefLoadOp>(patterns, lowerLoad);
  addPattern<MemRefStoreOp>(patterns, lowerStore);
  addPattern<MemRefAllocaOp>(patterns, lowerAllocation<MemRefAllocaOp>);
  addPattern<MakeFragmentLikeOp>(patterns, lowerAllocation<MakeFragmentLikeOp>);
  addPattern<MmaMakeFragmentOp>(patterns, lowerAllocation<MmaMakeFragmentOp>);
  addPattern<MakeFragmentLayoutLikeOp>(
      patterns, [](MakeFragmentLayoutLikeOp op, PatternRewriter &rewriter) -> LogicalResult {
        LayoutType type = op.getType();
        if (!type.isStatic())
          return failure();
        rewriter.replaceOp(op, type.rebuildStaticValue(rewriter, op.getLoc(), Value()));
        return success();
      });
  addPattern<DecompositionOp>(patterns, lowerDecomposition);
  addPattern<AddOffsetOp>(patterns, normalizeOffsets);
  // Iterators of coordinate tensors are int tuples.
  addPattern<AddOffsetOp>(patterns, [](AddOffsetOp op, PatternRewriter &rewriter) -> LogicalResult {
    if (!isa<IntTupleType>(op.getPtr().getType()) || !isReadable(op.getPtr()) ||
        !isReadable(op.getOffset()))
      return failure();
    Algebra alg(rewriter, op.getLoc());
    Value sum =
        alg.toValue(alg.coordAdd(alg.fromValue(op.getPtr()), alg.fromValue(op.getOffset())));
    if (!sum)
      return failure();
    replaceRefined(rewriter, op, sum);
    return success();
  });
  addPattern<PtrLoadOp>(patterns, [](PtrLoadOp op, PatternRewriter &rewriter) -> LogicalResult {
    if (!isa<IntTupleType>(op.getPtr().getType()))
      return failure();
    rewriter.replaceOp(op, op.getPtr());
    return success();
  });
}
