//===- Lowering.h - shared parts of fly-layout-lowering -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_TRANSFORMS_LOWERING_H
#define FLY_LIB_TRANSFORMS_LOWERING_H

#include "fly/Algebra/Algebra.h"
#include "fly/IR/FlyOps.h"
#include "fly/IR/Inference.h"
#include "fly/IR/NormalForm.h"

#include "mlir/IR/PatternMatch.h"

namespace mlir::fly::lowering {

/// True if the algebra can read `value`: it is static or in normal form.
bool isReadable(Value value);

/// Replaces `op` by `value`, whose type may be sharper (alignment, divisibility). Users outside
/// the fly dialect keep seeing the old type of a pointer.
void replaceRefined(PatternRewriter &rewriter, Operation *op, Value value);

/// Sets the type of a result, with the same care for other users.
void refineType(PatternRewriter &rewriter, OpResult result, Type type);

/// A copy of `op` with operand `index` replaced and result types inferred again; null on failure.
Operation *cloneWithOperand(PatternRewriter &rewriter, Operation *op, unsigned index, Value operand);

/// Creates an op with inferred result types; null if inference fails.
Operation *createInferred(PatternRewriter &rewriter, Location loc, StringRef name, ValueRange operands,
                          ArrayRef<NamedAttribute> attrs = {});

template <typename OpT>
Value make(PatternRewriter &rewriter, Location loc, ValueRange operands,
           ArrayRef<NamedAttribute> attrs = {}) {
  Operation *op = createInferred(rewriter, loc, OpT::getOperationName(), operands, attrs);
  return op ? op->getResult(0) : Value();
}

/// The int tuple constant described by `attr`.
Value staticTuple(OpBuilder &builder, Location loc, IntTupleAttr attr);
Value staticTuple(OpBuilder &builder, Location loc, const Tuple &tuple);

/// Applies `fn` to the linear layout of a layout value in normal form and rebuilds the chain of
/// compositions around it; null on failure.
Value mapLinearValue(PatternRewriter &rewriter, Location loc, Value layout,
                     function_ref<Layout(Algebra &, const Layout &)> fn);

/// Runs `fn`; if it fails, erases the operations that it created. Otherwise the driver would take
/// them for progress and try the same pattern for ever.
LogicalResult runTransaction(PatternRewriter &rewriter, function_ref<LogicalResult()> fn);

/// A pattern from a function.
template <typename OpT>
struct FnPattern : OpRewritePattern<OpT> {
  using Fn = std::function<LogicalResult(OpT, PatternRewriter &)>;
  FnPattern(MLIRContext *ctx, Fn fn) : OpRewritePattern<OpT>(ctx), fn(std::move(fn)) {}
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    return runTransaction(rewriter, [&] { return fn(op, rewriter); });
  }
  Fn fn;
};

/// Why bulk operations could not be lowered. Patterns run several times, so they only note the
/// reason; the pass reports it once, for what is left at the end.
using Reasons = llvm::DenseMap<Operation *, std::string>;

/// Longest sequence of accesses or atom calls that one operation is expanded to.
constexpr int64_t kMaxUnrolled = 1 << 13;

template <typename OpT>
void addPattern(RewritePatternSet &patterns, typename FnPattern<OpT>::Fn fn) {
  patterns.add(std::make_unique<FnPattern<OpT>>(patterns.getContext(), std::move(fn)));
}

/// One mode of a tensor that its tile does not divide.
struct Overrun {
  int32_t mode, extent, tile;
  int32_t repeats() const { return (extent + tile - 1) / tile; }
};

/// The modes of a layout that the entries of a tile (layouts or integers) do not divide, as far as is known.
void findOverruns(Algebra &alg, const Layout &layout, ArrayRef<Attribute> tile,
                  SmallVectorImpl<Overrun> &overruns);

/// True if the coordinate of a thread's slice is the index of the thread in its workgroup.
bool isThreadIndex(Value coord);

/// True if a branch may leave the operation out.
bool isConditional(Operation *op);

/// Refuses copies that more threads execute than they are of.
LogicalResult checkThreads(Operation *root);

/// Refuses copies of a whole tile that reaches beyond the tensor which was divided.
LogicalResult checkEdges(Operation *root);

/// Refuses copies that overrun their tile or that the hardware would place elsewhere.
LogicalResult checkTiles(Operation *root);

void populateEvaluate(RewritePatternSet &patterns);
void populateForward(RewritePatternSet &patterns);
void populateDistribute(RewritePatternSet &patterns);
void populateMemory(RewritePatternSet &patterns);
void populateVectorAccess(RewritePatternSet &patterns, Reasons &reasons);
void populatePartition(RewritePatternSet &patterns);
void populateCopyGemm(RewritePatternSet &patterns, Reasons &reasons);
void populatePrint(RewritePatternSet &patterns, Reasons &reasons);

} // namespace mlir::fly::lowering

#endif // FLY_LIB_TRANSFORMS_LOWERING_H
