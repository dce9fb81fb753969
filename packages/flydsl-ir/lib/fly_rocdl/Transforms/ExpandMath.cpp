//===- ExpandMath.cpp - the pass fly-expand-math --------------------------===//
//
// The AMDGPU back end has no library to call: what it does not lower is rewritten here.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/Passes.h"

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_FLYEXPANDMATHPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;
using namespace mlir::fly_rocdl;

/// Expanded to polynomials on f32; f16 and bf16 are computed in f32.
static constexpr StringLiteral kApproximated[] = {
    "math.acos", "math.asin", "math.atan", "math.atan2", "math.cbrt",
    "math.erf",  "math.erfc", "math.expm1", "math.log1p", "math.tanh"};

/// Written in terms of other operations of the math dialect; f16 and bf16 are computed in f32.
static constexpr StringLiteral kRewritten[] = {"acosh", "asinh", "atanh", "cosh",  "sinh",
                                               "tan",   "fpowi", "ctlz",  "clampf"};

/// Lowered by the back end for f16, bf16 and f32, but not for f64.
static constexpr StringLiteral kNotInF64[] = {"math.exp",  "math.exp2",  "math.log", "math.log2",
                                              "math.log10", "math.powf", "math.sin", "math.cos",
                                              "math.sincos"};

static bool isApproximated(StringRef name) { return llvm::is_contained(kApproximated, name); }

static bool isRewritten(StringRef name) {
  return name.consume_front("math.") && llvm::is_contained(kRewritten, name);
}

/// Computed in f32 whatever the type.
static bool needsF32(StringRef name) {
  return isApproximated(name) ||
         (isRewritten(name) && name != "math.ctlz" && name != "math.fpowi");
}

static bool isF64(Operation *op) {
  return llvm::any_of(op->getOperandTypes(),
                      [](Type type) { return getElementTypeOrSelf(type).isF64(); });
}

/// True (with a diagnostic) if there is no way to lower `op`.
static bool isUnsupported(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (!isF64(op) || !(needsF32(name) || llvm::is_contained(kNotInF64, name)))
    return false;
  op->emitOpError("on f64 has no expansion for this target");
  return true;
}

static LogicalResult expand(Operation *func) {
  MLIRContext *ctx = func->getContext();
  RewritePatternSet patterns(ctx);
  populateMathF32ExpansionPatterns(patterns, needsF32);
  populateMathPolynomialApproximationPatterns(patterns, isApproximated);
  SmallVector<StringRef> rewritten(std::begin(kRewritten), std::end(kRewritten));
  math::populateExpansionPatterns(patterns, rewritten);
  return applyPatternsGreedily(func, std::move(patterns));
}

static LogicalResult lowerToIntrinsics(Operation *func) {
  MLIRContext *ctx = func->getContext();
  LLVMTypeConverter converter(ctx);
  RewritePatternSet patterns(ctx);
  populateMathToLLVMConversionPatterns(converter, patterns);
  ConversionTarget target(*ctx);
  target.addIllegalDialect<math::MathDialect>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(func, target, std::move(patterns));
}

namespace {

struct FlyExpandMath : fly_rocdl::impl::FlyExpandMathPassBase<FlyExpandMath> {
  void runOnOperation() override {
    SmallVector<Operation *> functions;
    getOperation()->walk([&](FunctionOpInterface func) {
      if (func->getParentOfType<gpu::GPUModuleOp>() && !func.isExternal())
        functions.push_back(func);
    });
    for (Operation *func : functions) {
      bool unsupported = false;
      bool hasMath = false;
      func->walk([&](Operation *op) {
        if (!isa_and_nonnull<math::MathDialect>(op->getDialect()))
          return;
        hasMath = true;
        unsupported |= isUnsupported(op);
      });
      if (!hasMath)
        continue;
      if (unsupported || failed(expand(func)) || failed(lowerToIntrinsics(func)))
        return signalPassFailure();
    }
  }
};

} // namespace
