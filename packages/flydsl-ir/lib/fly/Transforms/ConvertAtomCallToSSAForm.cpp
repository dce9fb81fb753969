//===- ConvertAtomCallToSSAForm.cpp - register operands as values -----------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"
#include "fly/IR/FlyOps.h"
#include "fly/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fly {
#define GEN_PASS_DEF_FLYCONVERTATOMCALLTOSSAFORMPASS
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly

using namespace mlir;
using namespace mlir::fly;

namespace {

/// The type of all elements of a contiguous register memref as one value; null for any other.
Type getSSAType(Value operand) {
  auto type = dyn_cast<fly::MemRefType>(operand.getType());
  int64_t count = 0;
  if (!type || !type.isInSpace(AddressSpace::Register) || !type.isConsecutive(&count))
    return {};
  Type element = getStorageType(type.getElemTy());
  return count == 1 ? element : Type(VectorType::get(count, element));
}

/// Rewrites the atom calls of one operation tree.
class Converter {
public:
  explicit Converter(MLIRContext *ctx) : builder(ctx) {}

  LogicalResult convert(CopyAtomCall op) {
    Type srcType = getSSAType(op.getSrc()), dstType = getSSAType(op.getDst());
    if (!srcType && !dstType)
      return success();
    builder.setInsertionPoint(op);
    FailureOr<Value> src = load(op, op.getSrc(), srcType);
    FailureOr<Value> pred = Value();
    if (op.getPred())
      pred = load(op, op.getPred(), getSSAType(op.getPred()));
    if (failed(src) || failed(pred))
      return failure();
    if (!dstType) {
      CopyAtomCallSSA::create(builder, op.getLoc(), TypeRange{}, op.getCopyAtom(), *src,
                              op.getDst(), *pred, op.getZeroFill());
    } else {
      FailureOr<Value> target = iterator(op, op.getDst());
      if (failed(target))
        return failure();
      // Where the predicate is false, the destination keeps what it holds or becomes zero.
      Value old;
      if (*pred && op.getZeroFill())
        old = arith::ConstantOp::create(builder, op.getLoc(),
                                        cast<TypedAttr>(builder.getZeroAttr(dstType)));
      else if (*pred)
        old = PtrLoadOp::create(builder, op.getLoc(), dstType, *target);
      auto call = CopyAtomCallSSA::create(builder, op.getLoc(), TypeRange{dstType},
                                          op.getCopyAtom(), *src, old, *pred, op.getZeroFill());
      PtrStoreOp::create(builder, op.getLoc(), call.getResult(0), *target);
    }
    op.erase();
    return success();
  }

  LogicalResult convert(MmaAtomCall op) {
    Type dType = getSSAType(op.getD());
    bool any = static_cast<bool>(dType) || getSSAType(op.getC());
    for (Value operand : llvm::concat<Value>(op.getA(), op.getB()))
      any |= static_cast<bool>(getSSAType(operand));
    if (!any)
      return success();
    builder.setInsertionPoint(op);
    SmallVector<Value> a, b, c;
    if (failed(loadAll(op, op.getA(), a)) || failed(loadAll(op, op.getB(), b)) ||
        failed(loadAll(op, ValueRange{op.getC()}, c)))
      return failure();
    if (!dType) {
      MmaAtomCallSSA::create(builder, op.getLoc(), TypeRange{}, op.getMmaAtom(), op.getD(), a, b,
                             c[0]);
    } else {
      FailureOr<Value> target = iterator(op, op.getD());
      if (failed(target))
        return failure();
      auto call = MmaAtomCallSSA::create(builder, op.getLoc(), TypeRange{dType}, op.getMmaAtom(),
                                         Value(), a, b, c[0]);
      PtrStoreOp::create(builder, op.getLoc(), call.getResult(0), *target);
    }
    op.erase();
    return success();
  }

private:
  FailureOr<Value> iterator(Operation *op, Value memref) {
    auto view = memref.getDefiningOp<MakeViewOp>();
    if (!view)
      return op->emitOpError("needs register operands made by fly.make_view");
    return view.getIter();
  }

  /// The elements of `operand` as a value of `type`, or `operand` itself if `type` is null.
  FailureOr<Value> load(Operation *op, Value operand, Type type) {
    if (!type)
      return operand;
    FailureOr<Value> ptr = iterator(op, operand);
    if (failed(ptr))
      return failure();
    return PtrLoadOp::create(builder, op->getLoc(), type, *ptr).getResult();
  }

  LogicalResult loadAll(Operation *op, ValueRange operands, SmallVectorImpl<Value> &out) {
    for (Value operand : operands) {
      FailureOr<Value> value = load(op, operand, getSSAType(operand));
      if (failed(value))
        return failure();
      out.push_back(*value);
    }
    return success();
  }

  OpBuilder builder;
};

class ConvertAtomCallToSSAForm
    : public fly::impl::FlyConvertAtomCallToSSAFormPassBase<ConvertAtomCallToSSAForm> {
  void runOnOperation() override {
    Converter converter(&getContext());
    WalkResult result = getOperation()->walk([&](Operation *op) -> WalkResult {
      if (auto copy = dyn_cast<CopyAtomCall>(op))
        return converter.convert(copy);
      if (auto mma = dyn_cast<MmaAtomCall>(op))
        return converter.convert(mma);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
