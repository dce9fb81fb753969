//===- Print.cpp - fly.print ------------------------------------------------===//
//
// Inside a kernel, one gpu.printf; on the host, a sequence of vector.print.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

namespace {

/// Text, or a scalar with the conversion that prints it.
struct Piece {
  std::string text;
  Value scalar;
  const char *conversion = nullptr;
  bool isUnsigned = false;
};

/// Renders values as pieces.
class Renderer {
public:
  Renderer(PatternRewriter &rewriter, Location loc) : rewriter(rewriter), loc(loc) {}

  bool render(Value value);
  void text(StringRef text) {
    if (!pieces.empty() && !pieces.back().scalar)
      pieces.back().text += text;
    else
      pieces.push_back({text.str(), {}, nullptr});
  }

  SmallVector<Piece> pieces;

private:
  bool scalar(Value value);
  Value cast(Value value, Type type) {
    return UnrealizedConversionCastOp::create(rewriter, loc, type, value).getResult(0);
  }
  void tuple(const Tuple &tuple, Algebra &algebra, bool literal);

  PatternRewriter &rewriter;
  Location loc;
};

} // namespace

bool Renderer::scalar(Value value) {
  Type type = value.getType();
  if (type.isIndex()) {
    value = arith::IndexCastOp::create(rewriter, loc, rewriter.getI64Type(), value);
    type = value.getType();
  }
  if (!type.isIntOrFloat())
    return false;
  unsigned bits = type.getIntOrFloatBitWidth();
  bool wide = bits > 32, isFloat = isa<FloatType>(type), isUnsigned = type.isUnsignedInteger();
  Type target = isFloat ? (wide ? Type(rewriter.getF64Type()) : Type(rewriter.getF32Type()))
                        : Type(rewriter.getIntegerType(wide ? 64 : 32));
  unsigned targetBits = wide ? 64 : 32;
  if (bits > 64)
    return false;
  if (isUnsigned)
    value = cast(value, rewriter.getIntegerType(bits));
  if (isFloat && bits < targetBits)
    value = arith::ExtFOp::create(rewriter, loc, target, value);
  else if (isUnsigned && bits < targetBits)
    value = arith::ExtUIOp::create(rewriter, loc, target, value);
  else if (!isFloat && bits < targetBits)
    value = arith::ExtSIOp::create(rewriter, loc, target, value);
  const char *integer = isUnsigned ? (wide ? "%lu" : "%u") : (wide ? "%ld" : "%d");
  pieces.push_back({"", value, isFloat ? (wide ? "%.2lf" : "%.2f") : integer, isUnsigned});
  return true;
}

// A static tuple is literal text; in a dynamic one every leaf is an argument.
void Renderer::tuple(const Tuple &t, Algebra &algebra, bool literal) {
  if (t.isLeaf) {
    if (t.isNone())
      text("*");
    else if (literal)
      text(std::to_string(t.num.value));
    else
      scalar(algebra.materialize(t.num, t.num.width));
    for (int32_t mode : t.modes)
      text("E" + std::to_string(mode));
    return;
  }
  text("(");
  for (auto [i, kid] : llvm::enumerate(t.kids)) {
    if (i != 0)
      text(",");
    tuple(kid, algebra, literal);
  }
  text(")");
}

// Longest vector that is printed: every element becomes an argument.
static constexpr int64_t kMaxPrinted = 4096;

bool Renderer::render(Value value) {
  Type type = value.getType();
  if (isa<IntTupleType>(type)) {
    Algebra algebra(rewriter, loc);
    Tuple t = algebra.fromValue(value);
    tuple(t, algebra, t.isStatic());
    return !algebra.failed();
  }
  if (isa<LayoutType>(type)) {
    Algebra algebra(rewriter, loc);
    Layout l = algebra.layoutFromValue(value);
    tuple(l.shape, algebra, l.isStatic());
    text(":");
    tuple(l.stride, algebra, l.isStatic());
    return !algebra.failed();
  }
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return scalar(value);
  // An unsigned vector is a cast of a signless one, whose elements the back end can take.
  Type unsignedElement = vector.getElementType().isUnsignedInteger() ? vector.getElementType() : Type();
  if (unsignedElement) {
    vector = vector.clone(rewriter.getIntegerType(unsignedElement.getIntOrFloatBitWidth()));
    value = cast(value, vector);
  }
  if (vector.getRank() != 1 || vector.isScalable() || vector.getNumElements() > kMaxPrinted)
    return false;
  text("[");
  for (int64_t i = 0; i < vector.getNumElements(); ++i) {
    if (i != 0)
      text(", ");
    Value element = vector::ExtractOp::create(rewriter, loc, value, ArrayRef<int64_t>{i});
    if (!scalar(unsignedElement ? cast(element, unsignedElement) : element))
      return false;
  }
  text("]");
  return true;
}

static void emitDevicePrint(PatternRewriter &rewriter, Location loc, ArrayRef<Piece> pieces) {
  std::string format;
  SmallVector<Value> args;
  for (const Piece &piece : pieces) {
    if (piece.scalar) {
      format += piece.conversion;
      args.push_back(piece.scalar);
      continue;
    }
    for (char c : piece.text) {
      format += c;
      // The runtime reads the format as C source has it: what stands for itself is doubled.
      if (c == '%' || c == '\\')
        format += c;
    }
  }
  gpu::PrintfOp::create(rewriter, loc, rewriter.getStringAttr(format + "\n"), args);
}

static void emitHostPrint(PatternRewriter &rewriter, Location loc, ArrayRef<Piece> pieces) {
  for (const Piece &piece : pieces) {
    Value value = piece.scalar;
    if (piece.isUnsigned) {
      Type type = rewriter.getIntegerType(value.getType().getIntOrFloatBitWidth(), false);
      value = UnrealizedConversionCastOp::create(rewriter, loc, type, value).getResult(0);
    }
    if (value)
      vector::PrintOp::create(rewriter, loc, value, vector::PrintPunctuation::NoPunctuation);
    else
      vector::PrintOp::create(rewriter, loc, piece.text);
  }
  vector::PrintOp::create(rewriter, loc, vector::PrintPunctuation::NewLine);
}

static LogicalResult lowerPrint(PrintOp op, PatternRewriter &rewriter, Reasons &reasons) {
  for (Value value : op.getValues())
    if (isa<IntTupleType, LayoutType>(value.getType()) && !isReadable(value))
      return failure();
  Renderer renderer(rewriter, op.getLoc());
  ValueRange values = op.getValues();
  StringRef format = op.getFormat();
  bool plain = format.empty();
  for (auto [i, value] : llvm::enumerate(values)) {
    if (plain) {
      renderer.text(i == 0 ? "" : " ");
    } else {
      auto [before, after] = format.split("{}");
      renderer.text(before);
      format = after;
    }
    if (!renderer.render(value)) {
      llvm::raw_string_ostream(reasons[op] = "")
          << "cannot print a value of type " << value.getType();
      return failure();
    }
  }
  renderer.text(format);
  llvm::erase_if(renderer.pieces, [](const Piece &p) { return !p.scalar && p.text.empty(); });
  if (op->getParentOfType<gpu::GPUFuncOp>())
    emitDevicePrint(rewriter, op.getLoc(), renderer.pieces);
  else
    emitHostPrint(rewriter, op.getLoc(), renderer.pieces);
  rewriter.eraseOp(op);
  return success();
}

void lowering::populatePrint(RewritePatternSet &patterns, Reasons &reasons) {
  addPattern<PrintOp>(patterns, [&](PrintOp op, PatternRewriter &rewriter) {
    return lowerPrint(op, rewriter, reasons);
  });
}
