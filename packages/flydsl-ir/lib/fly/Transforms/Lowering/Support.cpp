//===- Support.cpp - shared parts of fly-layout-lowering --------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::fly;

bool lowering::isReadable(Value value) {
  auto mayStatic = dyn_cast<MayStaticTypeInterface>(value.getType());
  return (mayStatic && mayStatic.isStatic()) || isNormalForm(value);
}

// Users outside the dialect (loops, calls) have fixed types: give them the old one.
static void castForeignUses(PatternRewriter &rewriter, Value value, Type oldType,
                            ArrayRef<OpOperand *> foreign) {
  auto oldPtr = dyn_cast<PointerType>(oldType);
  if (foreign.empty() || !oldPtr || value.getType() == oldType)
    return;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfterValue(value);
  Value cast = RecastIterOp::create(rewriter, value.getLoc(), oldPtr, value);
  for (OpOperand *use : foreign)
    rewriter.modifyOpInPlace(use->getOwner(), [&] { use->set(cast); });
}

static SmallVector<OpOperand *> foreignUses(Value value) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    if (!isa_and_nonnull<FlyDialect>(use.getOwner()->getDialect()))
      uses.push_back(&use);
  return uses;
}

void lowering::replaceRefined(PatternRewriter &rewriter, Operation *op, Value value) {
  Value old = op->getResult(0);
  castForeignUses(rewriter, value, old.getType(), foreignUses(old));
  rewriter.replaceOp(op, value);
}

void lowering::refineType(PatternRewriter &rewriter, OpResult result, Type type) {
  Type oldType = result.getType();
  SmallVector<OpOperand *> foreign = foreignUses(result);
  rewriter.modifyOpInPlace(result.getOwner(), [&] { result.setType(type); });
  castForeignUses(rewriter, result, oldType, foreign);
}

static LogicalResult inferAgain(Operation *op, SmallVectorImpl<Type> &types) {
  auto infer = dyn_cast<InferTypeOpInterface>(op);
  if (!infer)
    return failure();
  return infer.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(),
                                op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
                                op->getRegions(), types);
}

namespace {
/// Notes the operations that appear while it listens.
struct CreationRecorder : RewriterBase::ForwardingListener {
  using ForwardingListener::ForwardingListener;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint previous) override {
    ForwardingListener::notifyOperationInserted(op, previous);
    if (!previous.isSet())
      created.push_back(op);
  }
  void notifyOperationErased(Operation *op) override {
    llvm::erase(created, op);
    ForwardingListener::notifyOperationErased(op);
  }
  SmallVector<Operation *> created;
};
} // namespace

LogicalResult lowering::runTransaction(PatternRewriter &rewriter,
                                       function_ref<LogicalResult()> fn) {
  OpBuilder::Listener *listener = rewriter.getListener();
  CreationRecorder recorder(listener);
  rewriter.setListener(&recorder);
  LogicalResult result = fn();
  rewriter.setListener(listener);
  if (failed(result))
    for (Operation *op : llvm::reverse(recorder.created))
      if (op->use_empty())
        rewriter.eraseOp(op);
  return result;
}

Operation *lowering::cloneWithOperand(PatternRewriter &rewriter, Operation *op, unsigned index,
                                      Value operand) {
  Operation *clone = rewriter.clone(*op);
  SmallVector<Type> types;
  clone->setOperand(index, operand);
  if (failed(inferAgain(clone, types))) {
    rewriter.eraseOp(clone);
    return nullptr;
  }
  for (auto [result, type] : llvm::zip(clone->getResults(), types))
    result.setType(type);
  return clone;
}

Operation *lowering::createInferred(PatternRewriter &rewriter, Location loc, StringRef name,
                                    ValueRange operands, ArrayRef<NamedAttribute> attrs) {
  // Properties exist only once the op does, so the result type is set afterwards.
  OperationState state(loc, name, operands, rewriter.getNoneType(), attrs);
  Operation *op = rewriter.create(state);
  SmallVector<Type> types;
  if (failed(inferAgain(op, types)) || types.size() != 1) {
    rewriter.eraseOp(op);
    return nullptr;
  }
  op->getResult(0).setType(types.front());
  return op;
}

Value lowering::staticTuple(OpBuilder &builder, Location loc, IntTupleAttr attr) {
  return MakeIntTupleOp::create(builder, loc, IntTupleType::get(attr), ValueRange());
}

Value lowering::staticTuple(OpBuilder &builder, Location loc, const Tuple &tuple) {
  Algebra algebra(builder.getContext());
  return staticTuple(builder, loc, algebra.toAttr(tuple));
}

Value lowering::mapLinearValue(PatternRewriter &rewriter, Location loc, Value layout,
                               function_ref<Layout(Algebra &, const Layout &)> fn) {
  if (isa<LayoutType>(layout.getType())) {
    Algebra algebra(rewriter, loc);
    Layout mapped = fn(algebra, algebra.layoutFromValue(layout));
    return algebra.toValue(mapped);
  }
  Value inner = make<ComposedGetInnerOp>(rewriter, loc, layout);
  Value offset = make<ComposedGetOffsetOp>(rewriter, loc, layout);
  Value outer = layout;
  if (auto maker = layout.getDefiningOp<MakeComposedLayoutOp>()) {
    inner = maker.getInner();
    offset = maker.getOffset();
    outer = maker.getOuter();
  } else {
    return {};
  }
  Value mapped = mapLinearValue(rewriter, loc, outer, fn);
  return mapped ? make<MakeComposedLayoutOp>(rewriter, loc, {inner, offset, mapped}) : Value();
}
