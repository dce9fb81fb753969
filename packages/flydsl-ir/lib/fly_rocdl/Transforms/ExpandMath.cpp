//===- ExpandMath.cpp - the pass fly-expand-math --------------------------===//
//
// The AMDGPU back end has no library to call: what it does not lower is rewritten here.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Expand.h"
#include "fly_codegen/ArchTable.h"
#include "fly_rocdl/Passes.h"

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/FloatingPointMode.h"

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
                                               "tan",   "fpowi", "ctlz"};

static bool isApproximated(StringRef name) { return llvm::is_contained(kApproximated, name); }

static bool isRewritten(StringRef name) {
  return name.consume_front("math.") && llvm::is_contained(kRewritten, name);
}

/// Lowered by the back end for f16, but not accurately.
static constexpr StringLiteral kWidened[] = {"math.sin", "math.cos", "math.sincos", "math.powf"};

/// Computed in f32 whatever the type.
static bool needsF32(StringRef name) {
  return isApproximated(name) || llvm::is_contained(kWidened, name) ||
         (isRewritten(name) && name != "math.ctlz" && name != "math.fpowi");
}

static LogicalResult expand(Operation *func) {
  MLIRContext *ctx = func->getContext();
  RewritePatternSet widening(ctx);
  populateMathF32ExpansionPatterns(widening, needsF32);
  if (failed(applyPatternsGreedily(func, std::move(widening))))
    return failure();
  expandElementary(func);
  expandDouble(func);
  RewritePatternSet patterns(ctx);
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

/// Intrinsics that convert-gpu-to-rocdl rejects, in favour of calls of a device library, although the
/// back end lowers them. As calls of an intrinsic they pass.
static constexpr StringLiteral kRejected[] = {"llvm.intr.cos",   "llvm.intr.exp",   "llvm.intr.exp2",
                                              "llvm.intr.ceil",  "llvm.intr.floor", "llvm.intr.log",
                                              "llvm.intr.log10", "llvm.intr.log2",  "llvm.intr.pow",
                                              "llvm.intr.sin"};

static void callRejectedIntrinsics(Operation *func) {
  func->walk([&](Operation *op) {
    StringRef name = op->getName().getStringRef();
    if (!llvm::is_contained(kRejected, name))
      return;
    // These two are accepted for a scalar f32.
    if ((name == "llvm.intr.exp" || name == "llvm.intr.log") && op->getResult(0).getType().isF32())
      return;
    OpBuilder builder(op);
    std::string intrinsic = ("llvm." + name.drop_front(strlen("llvm.intr."))).str();
    auto call = LLVM::CallIntrinsicOp::create(builder, op->getLoc(), op->getResult(0).getType(),
                                              builder.getStringAttr(intrinsic), op->getOperands());
    if (auto flags = op->getAttrOfType<LLVM::FastmathFlagsAttr>("fastmathFlags"))
      call.setFastmathFlagsAttr(flags);
    op->replaceAllUsesWith(call->getResults());
    op->erase();
  });
}

/// The value between two bounds; NaN if any operand is. (Upstream's expansion mixes up the operands.)
static void expandClamp(math::ClampFOp op) {
  OpBuilder b(op);
  Value low = arith::MaximumFOp::create(b, op.getLoc(), op.getValue(), op.getMin());
  op.replaceAllUsesWith(arith::MinimumFOp::create(b, op.getLoc(), low, op.getMax()).getResult());
  op.erase();
}

/// fmod of two f32 or f64 numbers, exactly. Each step takes as many bits of the quotient as the format holds
/// and leaves an exact remainder: with |y| scaled by 2^k, the largest for which the quotient fits,
/// r - trunc(r / y) * y is a multiple of the last place of y and below it (or one y lower, where the rounded
/// quotient reached the next integer).
static Value remainderOf(OpBuilder &b, Location loc, Value x, Value y) {
  Type type = x.getType();
  const llvm::fltSemantics &semantics = cast<FloatType>(type).getFloatSemantics();
  int quotientBits = llvm::APFloat::semanticsPrecision(semantics) - 2;
  auto constant = [&](const llvm::APFloat &value) -> Value {
    return arith::ConstantOp::create(b, loc, FloatAttr::get(type, value));
  };
  auto compare = [&](arith::CmpFPredicate predicate, Value p, Value q) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, p, q);
  };
  auto exponentOf = [&](Value value) -> Value {
    return LLVM::CallIntrinsicOp::create(b, loc, b.getI32Type(),
                                         b.getStringAttr("llvm.amdgcn.frexp.exp"),
                                         ValueRange{value})
        .getResult(0);
  };
  Value zero = constant(llvm::APFloat::getZero(semantics));
  Value infinity = constant(llvm::APFloat::getInf(semantics));
  Value absX = math::AbsFOp::create(b, loc, x), absY = math::AbsFOp::create(b, loc, y);
  Value hasRemainder =
      arith::AndIOp::create(b, loc, compare(arith::CmpFPredicate::OLT, absX, infinity),
                            compare(arith::CmpFPredicate::OGT, absY, zero));
  auto loop = scf::WhileOp::create(b, loc, TypeRange{type}, ValueRange{absX});
  {
    OpBuilder::InsertionGuard guard(b);
    Block *before = b.createBlock(&loop.getBefore(), {}, {type}, {loc});
    Value rest = before->getArgument(0);
    Value goesOn = arith::AndIOp::create(b, loc, hasRemainder,
                                         compare(arith::CmpFPredicate::OGE, rest, absY));
    scf::ConditionOp::create(b, loc, goesOn, ValueRange{rest});
    Block *after = b.createBlock(&loop.getAfter(), {}, {type}, {loc});
    rest = after->getArgument(0);
    auto integer = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(b, loc, value, 32);
    };
    Value scale = arith::SubIOp::create(b, loc, exponentOf(rest), exponentOf(absY));
    scale = arith::SubIOp::create(b, loc, scale, integer(quotientBits));
    scale = arith::MaxSIOp::create(b, loc, scale, integer(0));
    Value divisor =
        LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr("llvm.ldexp"),
                                      ValueRange{absY, scale})
            .getResult(0);
    Value quotient =
        math::TruncOp::create(b, loc, arith::DivFOp::create(b, loc, rest, divisor));
    Value next =
        math::FmaOp::create(b, loc, arith::NegFOp::create(b, loc, quotient), divisor, rest);
    Value below = compare(arith::CmpFPredicate::OLT, next, zero);
    next = arith::SelectOp::create(b, loc, below, arith::AddFOp::create(b, loc, next, divisor),
                                   next);
    scf::YieldOp::create(b, loc, ValueRange{next});
  }
  Value result = math::CopySignOp::create(b, loc, loop.getResult(0), x);
  return arith::SelectOp::create(b, loc, hasRemainder, result,
                                 constant(llvm::APFloat::getNaN(semantics)));
}

static void expandRemainder(arith::RemFOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type type = op.getType();
  Value x = op.getLhs(), y = op.getRhs();
  bool widen = getElementTypeOrSelf(type).getIntOrFloatBitWidth() < 32;
  Type wide = type;
  if (widen) {
    wide = b.getF32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(b.getF32Type());
    x = arith::ExtFOp::create(b, loc, wide, x);
    y = arith::ExtFOp::create(b, loc, wide, y);
  }
  Value result;
  if (auto vector = dyn_cast<VectorType>(wide)) {
    // Lane by lane: each has its own number of steps.
    result = arith::ConstantOp::create(b, loc, b.getZeroAttr(wide));
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      Value part = remainderOf(b, loc, vector::ExtractOp::create(b, loc, x, lane),
                               vector::ExtractOp::create(b, loc, y, lane));
      result = vector::InsertOp::create(b, loc, part, result, lane);
    }
  } else {
    result = remainderOf(b, loc, x, y);
  }
  if (widen)
    result = arith::TruncFOp::create(b, loc, type, result);
  op.replaceAllUsesWith(result);
  op.erase();
}

/// isinf and isnormal, which the conversion to LLVM lacks.
template <typename OpT>
static void expandClass(OpT op, uint32_t mask) {
  OpBuilder b(op);
  Value result = LLVM::IsFPClass::create(b, op.getLoc(), op.getType(), op.getOperand(), mask);
  op.replaceAllUsesWith(result);
  op.erase();
}

/// Integer power by squaring, modulo 2^width. A negative exponent gives the truncated quotient: 0
/// unless the base is 1 or -1.
static void expandIntegerPower(math::IPowIOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type type = op.getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  auto constant = [&](int64_t value) -> Value {
    APInt number(width, static_cast<uint64_t>(value), /*isSigned=*/true, /*implicitTrunc=*/true);
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, number));
    return arith::ConstantOp::create(b, loc, IntegerAttr::get(type, number));
  };
  Value zero = constant(0), one = constant(1), minusOne = constant(-1);
  auto isOdd = [&](Value x) -> Value {
    Value bit = arith::AndIOp::create(b, loc, x, one);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, bit, zero);
  };
  auto indexOf = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  Value base = op.getLhs(), exponent = op.getRhs();
  auto loop = scf::ForOp::create(b, loc, indexOf(0), indexOf(width), indexOf(1),
                                 ValueRange{one, base, exponent});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value result = loop.getRegionIterArgs()[0], square = loop.getRegionIterArgs()[1];
    Value rest = loop.getRegionIterArgs()[2];
    Value product = arith::MulIOp::create(b, loc, result, square);
    result = arith::SelectOp::create(b, loc, isOdd(rest), product, result);
    square = arith::MulIOp::create(b, loc, square, square);
    rest = arith::ShRUIOp::create(b, loc, rest, one);
    scf::YieldOp::create(b, loc, ValueRange{result, square, rest});
  }
  auto isEqual = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y);
  };
  Value sign = arith::SelectOp::create(b, loc, isOdd(exponent), minusOne, one);
  Value negative = arith::SelectOp::create(b, loc, isEqual(base, minusOne), sign, zero);
  negative = arith::SelectOp::create(b, loc, isEqual(base, one), one, negative);
  Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, exponent, zero);
  op.replaceAllUsesWith(
      arith::SelectOp::create(b, loc, isNegative, negative, loop.getResult(0)).getResult());
  op.erase();
}

/// The quotient rounded down of integers wider than 64 bits, to which upstream's expansion adds the 64 bits
/// of -1 without their sign.
static void expandWideFloorDivision(arith::FloorDivSIOp op) {
  Type type = op.getType(), element = getElementTypeOrSelf(type);
  if (element.isIndex() || element.getIntOrFloatBitWidth() <= 64)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = op.getLhs(), y = op.getRhs();
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  Value rest = arith::RemSIOp::create(b, loc, x, y);
  auto compare = [&](arith::CmpIPredicate predicate, Value value) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, value, zero);
  };
  Value otherSign = compare(arith::CmpIPredicate::slt, arith::XOrIOp::create(b, loc, rest, y));
  Value isLess = arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::ne, rest), otherSign);
  Value quotient = arith::DivSIOp::create(b, loc, x, y);
  Value minusOne = arith::ExtSIOp::create(b, loc, type, isLess);
  op.replaceAllUsesWith(arith::AddIOp::create(b, loc, quotient, minusOne).getResult());
  op.erase();
}

/// The functions of an index are those of i64: the expansions need a number of bits.
static void computeIndexInI64(Operation *op) {
  if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
      !llvm::any_of(op->getResultTypes(), [](Type t) { return getElementTypeOrSelf(t).isIndex(); }))
    return;
  OpBuilder b(op);
  auto cast = [&](Value value, Type element) -> Value {
    auto vector = dyn_cast<VectorType>(value.getType());
    Type type = vector ? Type(vector.clone(element)) : element;
    return arith::IndexCastOp::create(b, op->getLoc(), type, value);
  };
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, cast(operand, b.getI64Type()));
  Operation *computed = b.clone(*op, operands);
  computed->getResult(0).setType(computed->getOperand(0).getType());
  op->getResult(0).replaceAllUsesWith(cast(computed->getResult(0), b.getIndexType()));
  op->erase();
}

namespace {

struct FlyExpandMath : fly_rocdl::impl::FlyExpandMathPassBase<FlyExpandMath> {
  using FlyExpandMathPassBase::FlyExpandMathPassBase;

  void runOnOperation() override {
    const fly::ArchInfo *arch = fly::lookupArch(chipset);
    SmallVector<Operation *> functions;
    getOperation()->walk([&](FunctionOpInterface func) {
      if (func->getParentOfType<gpu::GPUModuleOp>() && !func.isExternal())
        functions.push_back(func);
    });
    for (Operation *func : functions) {
      expandLaunchDims(func);
      expandRoundings(func);
      expandSmallFloats(func, arch);
      func->walk(computeIndexInI64);
      func->walk([](Operation *op) {
        if (auto clamp = dyn_cast<math::ClampFOp>(op))
          expandClamp(clamp);
        else if (auto remainder = dyn_cast<arith::RemFOp>(op))
          expandRemainder(remainder);
        else if (auto power = dyn_cast<math::IPowIOp>(op))
          expandIntegerPower(power);
        else if (auto division = dyn_cast<arith::FloorDivSIOp>(op))
          expandWideFloorDivision(division);
        else if (auto isInf = dyn_cast<math::IsInfOp>(op))
          expandClass(isInf, llvm::fcInf);
        else if (auto isNormal = dyn_cast<math::IsNormalOp>(op))
          expandClass(isNormal, llvm::fcNormal);
      });
      bool hasMath = false;
      func->walk([&](Operation *op) {
        hasMath |= isa_and_nonnull<math::MathDialect>(op->getDialect());
      });
      if (!hasMath)
        continue;
      if (failed(expand(func)) || failed(lowerToIntrinsics(func)))
        return signalPassFailure();
      callRejectedIntrinsics(func);
    }
  }
};

} // namespace
