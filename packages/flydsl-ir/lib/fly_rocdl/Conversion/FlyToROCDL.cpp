//===- FlyToROCDL.cpp - the pass convert-fly-to-rocdl ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Patterns.h"

#include "fly/Transforms/FunctionConversion.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"
#include "fly_rocdl/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_CONVERTFLYTOROCDLPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

/// LLVM's scope names are free text until the back end refuses one, without a line.
WalkResult checkSyncScope(Operation *op) {
  static constexpr StringLiteral kScopes[] = {"agent", "cluster", "workgroup", "wavefront",
                                              "singlethread"};
  auto attr = op->getAttrOfType<StringAttr>("syncscope");
  if (!attr || !isa_and_nonnull<LLVM::LLVMDialect>(op->getDialect()))
    return WalkResult::advance();
  StringRef scope = attr.getValue();
  if (scope.empty() || scope == "one-as")
    return WalkResult::advance();
  scope.consume_back("-one-as"); // of one address space only
  if (llvm::is_contained(kScopes, scope))
    return WalkResult::advance();
  op->emitOpError("has the unknown syncscope ")
      << attr
      << ", expected one of: system (\"\"), \"agent\", \"cluster\", \"workgroup\", \"wavefront\" or "
         "\"singlethread\", or one of them for one address space (\"one-as\", \"agent-one-as\", ...)";
  return WalkResult::interrupt();
}

struct ConvertFlyToROCDL : fly_rocdl::impl::ConvertFlyToROCDLPassBase<ConvertFlyToROCDL> {
  void runOnOperation() override {
    MLIRContext *ctx = &getContext();
    FlyToROCDLTypeConverter converter(ctx);
    ConversionTarget target(*ctx);
    target.addLegalDialect<arith::ArithDialect, scf::SCFDialect, vector::VectorDialect,
                           gpu::GPUDialect, func::FuncDialect, LLVM::LLVMDialect,
                           ROCDL::ROCDLDialect>();
    target.addIllegalDialect<fly::FlyDialect, FlyROCDLDialect>();
    // Constructors without effect: dead afterwards, or read by index arithmetic already emitted.
    target.addLegalOp<fly::StaticOp, fly::MakeIntTupleOp, fly::MakeLayoutOp,
                      fly::MakeComposedLayoutOp>();

    // Calls of tensor copies read the coordinates that are viewed.
    target.addDynamicallyLegalOp<fly::MakeViewOp>([](fly::MakeViewOp op) {
      return isa<fly::CoordTensorType>(op.getResult().getType());
    });

    RewritePatternSet patterns(ctx);
    populateMemoryPatterns(converter, patterns);
    populateAtomPatterns(converter, patterns);
    fly::populateStructuralConversion(converter, patterns, target);
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      return signalPassFailure();
    bool hasUses = false;
    getOperation()->walk([&](fly::MakeViewOp op) {
      hasUses |= !op->use_empty();
      if (!op->use_empty())
        op.emitOpError("of coordinates is still used; run fly-layout-lowering before");
      else
        op.erase();
    });
    if (hasUses || getOperation()->walk(checkSyncScope).wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
