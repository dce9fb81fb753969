//===- Functions.cpp - operations that pass values on ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Patterns.h"

#include "fly/Transforms/FunctionConversion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

struct LaunchFuncPattern : OpConversionPattern<gpu::LaunchFuncOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::LaunchFuncOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(adaptor.getOperands()); });
    return success();
  }
};

struct SelectPattern : OpConversionPattern<arith::SelectOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::SelectOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<arith::SelectOp>(
        op, adaptor.getCondition(), adaptor.getTrueValue(), adaptor.getFalseValue());
    return success();
  }
};

struct PoisonPattern : OpConversionPattern<ub::PoisonOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(ub::PoisonOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type type = getTypeConverter()->convertType(op.getType());
    if (!type)
      return failure();
    rewriter.replaceOpWithNewOp<ub::PoisonOp>(op, type, op.getValue());
    return success();
  }
};

} // namespace

void fly_rocdl::populateFunctionPatterns(const TypeConverter &converter,
                                         RewritePatternSet &patterns, ConversionTarget &target) {
  MLIRContext *ctx = patterns.getContext();
  patterns.add<LaunchFuncPattern, SelectPattern, PoisonPattern>(converter, ctx);
  patterns.add<fly::FunctionSignaturePattern<func::FuncOp>,
               fly::FunctionSignaturePattern<gpu::GPUFuncOp>>(converter, patterns.getContext());
  populateReturnOpTypeConversionPattern(patterns, converter);
  populateCallOpTypeConversionPattern(patterns, converter);
  scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);

  target.addDynamicallyLegalOp<func::FuncOp>([&](func::FuncOp op) {
    return converter.isSignatureLegal(op.getFunctionType()) && converter.isLegal(&op.getBody());
  });
  target.addDynamicallyLegalOp<gpu::GPUFuncOp>([&](gpu::GPUFuncOp op) {
    return converter.isSignatureLegal(op.getFunctionType()) && converter.isLegal(&op.getBody());
  });
  target.addDynamicallyLegalOp<gpu::LaunchFuncOp, func::ReturnOp, func::CallOp, arith::SelectOp,
                               ub::PoisonOp>([&](Operation *op) { return converter.isLegal(op); });
}
