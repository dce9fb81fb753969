//===- StructuralConversion.cpp - operations that only pass values on -------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Transforms/FunctionConversion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/ControlFlow/Transforms/StructuralTypeConversions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace mlir::fly;

namespace {

/// Each operand is replaced by the values that it becomes.
SmallVector<Value> flattenRanges(ArrayRef<ValueRange> ranges) {
  SmallVector<Value> flat;
  for (ValueRange range : ranges)
    llvm::append_range(flat, range);
  return flat;
}

struct ConvertLaunch : OpConversionPattern<gpu::LaunchFuncOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::LaunchFuncOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> operands = flattenRanges(adaptor.getKernelOperands());
    rewriter.modifyOpInPlace(op, [&] { op.getKernelOperandsMutable().assign(operands); });
    return success();
  }
};

struct ConvertGPUReturn : OpConversionPattern<gpu::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::ReturnOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<gpu::ReturnOp>(op, flattenRanges(adaptor.getOperands()));
    return success();
  }
};

/// Upstream converts the other operations of scf with results.
struct ConvertExecuteRegion : OpConversionPattern<scf::ExecuteRegionOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(scf::ExecuteRegionOp op, OneToNOpAdaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Type> types;
    SmallVector<size_t> counts;
    for (Type type : op.getResultTypes()) {
      size_t before = types.size();
      if (failed(getTypeConverter()->convertType(type, types)))
        return failure();
      counts.push_back(types.size() - before);
    }
    OperationState state(op.getLoc(), op->getName(), ValueRange(), types, op->getAttrs());
    rewriter.inlineRegionBefore(op.getRegion(), *state.addRegion(), state.regions[0]->end());
    Operation *converted = rewriter.create(state);
    SmallVector<ValueRange> results;
    ResultRange rest = converted->getResults();
    for (size_t count : counts) {
      results.push_back(rest.take_front(count));
      rest = rest.drop_front(count);
    }
    rewriter.replaceOpWithMultiple(op, results);
    return success();
  }
};

/// A choice between tensors, layouts or tuples is one between the numbers in them.
struct ConvertSelect : OpConversionPattern<arith::SelectOp> {
  using OpConversionPattern::OpConversionPattern;

  static Value select(OpBuilder &b, Location loc, Value condition, Value yes, Value no) {
    auto structTy = dyn_cast<LLVM::LLVMStructType>(yes.getType());
    if (!structTy || !structTy.isPacked()) // carriers are packed structs
      return arith::SelectOp::create(b, loc, condition, yes, no);
    Value result = LLVM::UndefOp::create(b, loc, structTy);
    for (int64_t i = 0, n = structTy.getBody().size(); i < n; ++i) {
      Value field = select(b, loc, condition, LLVM::ExtractValueOp::create(b, loc, yes, i),
                           LLVM::ExtractValueOp::create(b, loc, no, i));
      result = LLVM::InsertValueOp::create(b, loc, result, field, i);
    }
    return result;
  }

  LogicalResult matchAndRewrite(arith::SelectOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Value condition = op.getCondition(); // always i1 or a vector of i1, which converts to itself
    SmallVector<Value> chosen;
    for (auto [yes, no] : llvm::zip_equal(adaptor.getTrueValue(), adaptor.getFalseValue()))
      chosen.push_back(select(rewriter, op.getLoc(), condition, yes, no));
    rewriter.replaceOpWithMultiple(op, {ValueRange(chosen)});
    return success();
  }
};

struct ConvertPoison : OpConversionPattern<ub::PoisonOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(ub::PoisonOp op, OpAdaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getType(), types)))
      return failure();
    SmallVector<Value> values;
    for (Type type : types)
      values.push_back(ub::PoisonOp::create(rewriter, op.getLoc(), type, op.getValue()));
    rewriter.replaceOpWithMultiple(op, {ValueRange(values)});
    return success();
  }
};

} // namespace

void fly::populateStructuralConversion(const TypeConverter &converter, RewritePatternSet &patterns,
                                       ConversionTarget &target) {
  MLIRContext *ctx = patterns.getContext();
  patterns.add<FunctionSignaturePattern<func::FuncOp>, FunctionSignaturePattern<gpu::GPUFuncOp>,
               ConvertLaunch, ConvertGPUReturn, ConvertExecuteRegion, ConvertSelect, ConvertPoison>(
      converter, ctx);
  populateReturnOpTypeConversionPattern(patterns, converter);
  populateCallOpTypeConversionPattern(patterns, converter);
  scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
  cf::populateCFStructuralTypeConversionsAndLegality(converter, patterns, target);

  target.addDynamicallyLegalOp<func::FuncOp, gpu::GPUFuncOp>([&](Operation *op) {
    auto function = cast<FunctionOpInterface>(op);
    return converter.isSignatureLegal(cast<FunctionType>(function.getFunctionType())) &&
           converter.isLegal(&function.getFunctionBody());
  });
  target.addDynamicallyLegalOp<func::ReturnOp, func::CallOp, gpu::ReturnOp, gpu::LaunchFuncOp,
                               scf::ExecuteRegionOp, arith::SelectOp, ub::PoisonOp>(
      [&](Operation *op) { return converter.isLegal(op); });
  // Upstream leaves the yields of other parents alone.
  target.addDynamicallyLegalOp<scf::YieldOp>([&](scf::YieldOp op) {
    bool isStructural = isa<scf::ForOp, scf::IfOp, scf::WhileOp, scf::IndexSwitchOp,
                            scf::ExecuteRegionOp>(op->getParentOp());
    return !isStructural || converter.isLegal(op.getOperation());
  });
}
