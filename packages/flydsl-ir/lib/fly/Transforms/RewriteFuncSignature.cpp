//===- RewriteFuncSignature.cpp - fly-rewrite-func-signature ----------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "SignatureCarriers.h"
#include "fly/IR/FlyOps.h"
#include "fly/Transforms/FunctionConversion.h"
#include "fly/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fly {
#define GEN_PASS_DEF_FLYREWRITEFUNCSIGNATUREPASS
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly

using namespace mlir;
using namespace mlir::fly;

namespace {

struct FlyRewriteFuncSignaturePass
    : fly::impl::FlyRewriteFuncSignaturePassBase<FlyRewriteFuncSignaturePass> {
  void runOnOperation() override {
    MLIRContext *ctx = &getContext();
    TypeConverter converter;
    converter.addConversion(
        [](Type type, SmallVectorImpl<Type> &carriers) -> std::optional<LogicalResult> {
          if (std::optional<SmallVector<Type>> types = getCarrierTypes(type))
            carriers.append(types->begin(), types->end());
          else
            carriers.push_back(type);
          return success();
        });
    converter.addSourceMaterialization(
        [](OpBuilder &b, Type type, ValueRange carriers, Location loc) {
          return unpackCarriers(b, loc, type, carriers);
        });
    converter.addTargetMaterialization([](OpBuilder &b, TypeRange, ValueRange inputs, Location loc,
                                          Type) -> SmallVector<Value> {
      if (inputs.size() != 1)
        return {};
      return packCarriers(b, loc, inputs.front());
    });

    RewritePatternSet patterns(ctx);
    ConversionTarget target(*ctx);
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    populateStructuralConversion(converter, patterns, target);
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
