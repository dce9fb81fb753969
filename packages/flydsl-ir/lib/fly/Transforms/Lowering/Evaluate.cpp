//===- Evaluate.cpp - the algebra on SSA values -----------------------------===//
//
// Operations on int tuples and plain layouts in normal form run the same algorithms as
// type inference, with arithmetic emitted for the dynamic leaves.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

static bool isPlain(Value value) { return isa<IntTupleType, LayoutType>(value.getType()); }

// True if all operands are int tuples, plain layouts or tiles that can be read.
static bool operandsReadable(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value operand) {
    return isReadable(operand) && (isPlain(operand) || isa<TileType>(operand.getType()));
  });
}

template <typename OpT, typename FnT>
static void addEvaluation(RewritePatternSet &patterns, FnT fn) {
  addPattern<OpT>(patterns, [fn](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    if (!operandsReadable(op))
      return failure();
    Algebra algebra(rewriter, op.getLoc());
    Value result = algebra.toValue(fn(op, algebra));
    if (!result)
      return rewriter.notifyMatchFailure(op, algebra.message());
    replaceRefined(rewriter, op, result);
    return success();
  });
}

// An operation that acts on an int tuple, or on shape and stride of a layout.
template <typename OpT, typename FnT>
static void addTupleEvaluation(RewritePatternSet &patterns, FnT fn) {
  addPattern<OpT>(patterns, [fn](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    if (!operandsReadable(op))
      return failure();
    Value input = op->getOperand(0), result;
    Algebra algebra(rewriter, op.getLoc());
    if (isa<LayoutType>(input.getType())) {
      Layout l = algebra.layoutFromValue(input);
      result = algebra.toValue(Layout{fn(op, algebra, l.shape), fn(op, algebra, l.stride)});
    } else {
      result = algebra.toValue(fn(op, algebra, algebra.fromValue(input)));
    }
    if (!result)
      return rewriter.notifyMatchFailure(op, algebra.message());
    replaceRefined(rewriter, op, result);
    return success();
  });
}

static void populateTupleOps(RewritePatternSet &patterns) {
  auto binary = [](auto op, Algebra &alg) {
    return std::make_pair(alg.fromValue(op.getLhs()), alg.fromValue(op.getRhs()));
  };
#define FLY_BINARY(OP, ...)                                                                        \
  addEvaluation<OP>(patterns, [binary](OP op, Algebra &alg) -> Tuple {                             \
    auto [lhs, rhs] = binary(op, alg);                                                             \
    return __VA_ARGS__;                                                                            \
  });
  FLY_BINARY(IntTupleAddOp, alg.addTuples(lhs, rhs))
  FLY_BINARY(IntTupleSubOp, alg.zipWith(&Algebra::sub, lhs, rhs))
  FLY_BINARY(IntTupleMulOp, alg.zipWith(&Algebra::mul, lhs, rhs))
  FLY_BINARY(IntTupleDivOp, alg.zipWith(&Algebra::div, lhs, rhs))
  FLY_BINARY(IntTupleModOp, alg.zipWith(&Algebra::mod, lhs, rhs))
  FLY_BINARY(IntTupleProductLikeOp, alg.productLike(lhs, rhs))
  FLY_BINARY(ShapeDivOp, alg.tupleDiv(&Algebra::shapeDiv, lhs, rhs))
  FLY_BINARY(CeilDivOp, alg.tupleDiv(&Algebra::ceilDiv, lhs, rhs))
#undef FLY_BINARY
  addEvaluation<IntTupleProductOp>(patterns, [](IntTupleProductOp op, Algebra &alg) -> Tuple {
    return alg.product(alg.fromValue(op.getInput()));
  });
  addEvaluation<IntTupleProductEachOp>(patterns, [](IntTupleProductEachOp op, Algebra &alg) {
    return alg.productEach(alg.fromValue(op.getInput()));
  });

  addTupleEvaluation<GetOp>(patterns, [](GetOp op, Algebra &alg, Tuple t) {
    for (int32_t index : op.getMode())
      t = alg.at(t, index);
    return t;
  });
  addTupleEvaluation<TakeOp>(patterns, [](TakeOp op, Algebra &alg, const Tuple &t) {
    return alg.take(t, op.getBegin(), op.getEnd());
  });
  addTupleEvaluation<SelectOp>(patterns, [](SelectOp op, Algebra &alg, const Tuple &t) {
    return alg.select(t, op.getIndices());
  });
  addTupleEvaluation<GroupOp>(patterns, [](GroupOp op, Algebra &alg, const Tuple &t) {
    return alg.group(t, op.getBegin(), op.getEnd());
  });
  addTupleEvaluation<SliceOp>(patterns, [](SliceOp op, Algebra &alg, const Tuple &t) {
    return alg.slice(t, alg.fromValue(op.getCoord()));
  });
  addTupleEvaluation<DiceOp>(patterns, [](DiceOp op, Algebra &alg, const Tuple &t) {
    return alg.dice(t, alg.fromValue(op.getCoord()));
  });
}

template <typename OpT, typename FnT>
static void addExtension(RewritePatternSet &patterns, FnT fn) {
  addPattern<OpT>(patterns, [fn](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    if (!operandsReadable(op))
      return failure();
    std::optional<int32_t> n = op.getN();
    Algebra alg(rewriter, op.getLoc());
    Value result;
    if (isa<LayoutType>(op.getTuple().getType())) {
      Layout l = alg.layoutFromValue(op.getTuple()), x = alg.layoutFromValue(op.getElem());
      result = alg.toValue(Layout{(alg.*fn)(l.shape, x.shape, n), (alg.*fn)(l.stride, x.stride, n)});
    } else {
      result = alg.toValue((alg.*fn)(alg.fromValue(op.getTuple()), alg.fromValue(op.getElem()), n));
    }
    if (!result)
      return rewriter.notifyMatchFailure(op, alg.message());
    replaceRefined(rewriter, op, result);
    return success();
  });
}

template <typename OpT, typename FnT>
static void addComparison(RewritePatternSet &patterns, FnT fn) {
  addPattern<OpT>(patterns, [fn](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    if (!operandsReadable(op))
      return failure();
    Algebra alg(rewriter, op.getLoc());
    Int truth = (alg.*fn)(alg.fromValue(op.getLhs()), alg.fromValue(op.getRhs()));
    if (alg.failed())
      return rewriter.notifyMatchFailure(op, alg.message());
    if (truth.isStatic)
      rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, rewriter.getBoolAttr(truth.value != 0));
    else
      rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, rewriter.getI1Type(), truth.ssa);
    return success();
  });
}

static void populateCoordinateOps(RewritePatternSet &patterns) {
  addPattern<Crd2IdxOp>(patterns, [](Crd2IdxOp op, PatternRewriter &rewriter) -> LogicalResult {
    if (!isReadable(op.getCoord()) || !isReadable(op.getLayout()))
      return failure();
    Algebra alg(rewriter, op.getLoc());
    Tuple index = alg.crd2idx(alg.fromValue(op.getCoord()), alg.mapFromValue(op.getLayout()));
    Value result = alg.toValue(index);
    if (!result)
      return rewriter.notifyMatchFailure(op, alg.message());
    replaceRefined(rewriter, op, result);
    return success();
  });
  addEvaluation<Idx2CrdOp>(patterns, [](Idx2CrdOp op, Algebra &alg) {
    return alg.idx2crd(alg.fromValue(op.getCoord()), alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<GetFlatCoordOp>(patterns, [](GetFlatCoordOp op, Algebra &alg) {
    return alg.flatCoord(alg.fromValue(op.getIndex()), alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<Get1DCoordOp>(patterns, [](Get1DCoordOp op, Algebra &alg) {
    return alg.coord1D(alg.fromValue(op.getIndex()), alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<CoprofileOp>(patterns, [](CoprofileOp op, Algebra &alg) {
    return alg.coprofile(alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<CoshapeOp>(patterns, [](CoshapeOp op, Algebra &alg) {
    return alg.coshape(alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<CosizeOp>(patterns, [](CosizeOp op, Algebra &alg) -> Tuple {
    return alg.cosize(alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<SizeOp>(patterns, [](SizeOp op, Algebra &alg) -> Tuple {
    Value input = op.getIntTuple();
    if (isa<LayoutType>(input.getType()))
      return alg.size(alg.layoutFromValue(input));
    return alg.product(alg.fromValue(input));
  });
}

static void populateLayoutOps(RewritePatternSet &patterns) {
  addEvaluation<MakeOrderedLayoutOp>(patterns, [](MakeOrderedLayoutOp op, Algebra &alg) -> Layout {
    Tuple shape = alg.fromValue(op.getShape());
    return {shape, alg.ordered(shape, alg.fromAttr(op.getOrder().getType().getAttr()))};
  });
  addEvaluation<MakeIdentityLayoutOp>(patterns,
                                      [](MakeIdentityLayoutOp op, Algebra &alg) -> Layout {
                                        Tuple shape = alg.fromValue(op.getShape());
                                        return {shape, alg.identityStride(shape)};
                                      });
  addEvaluation<MakeLayoutLikeOp>(patterns, [](MakeLayoutLikeOp op, Algebra &alg) {
    return alg.layoutLike(alg.layoutFromValue(op.getRef()));
  });
  addEvaluation<CoalesceOp>(patterns, [](CoalesceOp op, Algebra &alg) {
    Layout l = alg.layoutFromValue(op.getLayout());
    return op.getPattern() ? alg.coalesce(l, alg.fromValue(op.getPattern())) : alg.coalesce(l);
  });
  addEvaluation<CompositionOp>(patterns, [](CompositionOp op, Algebra &alg) {
    Layout l = alg.layoutFromValue(op.getOuter());
    if (auto tile = dyn_cast<TileType>(op.getInner().getType()))
      return alg.composition(l, tile.getAttr());
    return alg.composition(l, alg.layoutFromValue(op.getInner()));
  });
  addEvaluation<ComplementOp>(patterns, [](ComplementOp op, Algebra &alg) {
    Layout l = alg.layoutFromValue(op.getLayout());
    if (!op.getCodomainSize())
      return alg.complement(l);
    return alg.complement(l, alg.fromValue(op.getCodomainSize()));
  });
  addEvaluation<RightInverseOp>(patterns, [](RightInverseOp op, Algebra &alg) {
    return alg.rightInverse(alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<LeftInverseOp>(patterns, [](LeftInverseOp op, Algebra &alg) {
    return alg.leftInverse(alg.layoutFromValue(op.getLayout()));
  });
  addEvaluation<RecastLayoutOp>(patterns, [](RecastLayoutOp op, Algebra &alg) {
    return alg.recast(alg.layoutFromValue(op.getSrc()), op.getOldTypeBits(), op.getNewTypeBits());
  });
  addEvaluation<TileToShapeOp>(patterns, [](TileToShapeOp op, Algebra &alg) {
    return alg.tileToShape(alg.layoutFromValue(op.getBlock()), alg.fromValue(op.getTrgShape()),
                           alg.fromValue(op.getOrdShape()));
  });

#define FLY_DIVIDE(OP, KEEP)                                                                       \
  addEvaluation<OP>(patterns, [](OP op, Algebra &alg) -> Layout {                                  \
    Layout l = alg.layoutFromValue(op.getLayout());                                                \
    Layout zipped;                                                                                 \
    if (auto tile = dyn_cast<TileType>(op.getDivisor().getType()))                                 \
      zipped = alg.zippedDivide(l, Attribute(tile.getAttr()));                                     \
    else                                                                                           \
      zipped = alg.zippedDivide(l, alg.layoutFromValue(op.getDivisor()));                          \
    return KEEP;                                                                                   \
  });
  FLY_DIVIDE(ZippedDivideOp, zipped)
  FLY_DIVIDE(TiledDivideOp, alg.expand(zipped, {1}))
  FLY_DIVIDE(FlatDivideOp, alg.expand(zipped, {0, 1}))
#undef FLY_DIVIDE
  addEvaluation<LogicalDivideOp>(patterns, [](LogicalDivideOp op, Algebra &alg) {
    Layout l = alg.layoutFromValue(op.getLayout());
    if (auto tile = dyn_cast<TileType>(op.getDivisor().getType()))
      return alg.logicalDivide(l, tile.getAttr());
    return alg.logicalDivide(l, alg.layoutFromValue(op.getDivisor()));
  });

#define FLY_PRODUCT(OP, ...)                                                                       \
  addEvaluation<OP>(patterns, [](OP op, Algebra &alg) -> Layout {                                  \
    Layout l = alg.layoutFromValue(op.getLayout()), t = alg.layoutFromValue(op.getTile());         \
    return __VA_ARGS__;                                                                            \
  });
  FLY_PRODUCT(LogicalProductOp, alg.logicalProduct(l, t))
  FLY_PRODUCT(ZippedProductOp, alg.logicalProduct(l, t))
  FLY_PRODUCT(TiledProductOp, alg.tiledProduct(l, t))
  FLY_PRODUCT(FlatProductOp, alg.flatProduct(l, t))
  FLY_PRODUCT(BlockedProductOp, alg.blockedProduct(l, t))
  FLY_PRODUCT(RakedProductOp, alg.blockedProduct(l, t, /*raked=*/true))
#undef FLY_PRODUCT
}

void lowering::populateEvaluate(RewritePatternSet &patterns) {
  populateTupleOps(patterns);
  addExtension<AppendOp>(patterns, &Algebra::append);
  addExtension<PrependOp>(patterns, &Algebra::prepend);
  addComparison<ElemLessOp>(patterns, &Algebra::elemLess);
  addComparison<EqualOp>(patterns, &Algebra::equalTuples);
  populateCoordinateOps(patterns);
  populateLayoutOps(patterns);
}
