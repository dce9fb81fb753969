//===- OddBitcasts.cpp - Bitcasts whose elements do not divide each other -===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//
//
// LLVM 22 folds a bitcast of a constant vector as if the number of elements on one side were a
// multiple of that on the other. Sixteen numbers of six bits in twelve bytes became twelve (LLVM's
// FoldBitCast), unseen or as a type that does not fit. Through one integer, and on the side of bytes
// or words by shifts, which are not merged to a bitcast again, constants are folded right.
//
//===----------------------------------------------------------------------===//

#include "fly_rocdl/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_FLYROCDLODDBITCASTSPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;

namespace {

/// A vector of integers or floats as one integer, and back, element by element.
class Words {
public:
  Words(OpBuilder &builder, Location loc, VectorType type)
      : builder(builder), loc(loc), type(type), count(type.getNumElements()),
        element(builder.getIntegerType(type.getElementTypeBitWidth())),
        whole(builder.getIntegerType(count * element.getWidth())) {}

  Value join(Value vector) {
    vector = cast(vector, VectorType::get(count, element));
    Value sum;
    for (unsigned i = 0; i < count; ++i) {
      Value part = LLVM::ExtractElementOp::create(builder, loc, vector, index(i));
      part = LLVM::ZExtOp::create(builder, loc, whole, part);
      if (i != 0)
        part = LLVM::ShlOp::create(builder, loc, part, shift(i));
      sum = sum ? LLVM::OrOp::create(builder, loc, sum, part).getResult() : part;
    }
    return sum;
  }

  Value split(Value integer) {
    Value vector = LLVM::PoisonOp::create(builder, loc, VectorType::get(count, element));
    for (unsigned i = 0; i < count; ++i) {
      Value part = i == 0 ? integer : LLVM::LShrOp::create(builder, loc, integer, shift(i));
      part = LLVM::TruncOp::create(builder, loc, element, part);
      vector = LLVM::InsertElementOp::create(builder, loc, vector, part, index(i));
    }
    return cast(vector, type);
  }

  Value cast(Value value, Type to) {
    return value.getType() == to ? value : LLVM::BitcastOp::create(builder, loc, to, value).getResult();
  }

  IntegerType integer() const { return whole; }

private:
  Value index(unsigned i) {
    return LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(i));
  }
  Value shift(unsigned i) {
    return LLVM::ConstantOp::create(builder, loc, builder.getIntegerAttr(whole, i * element.getWidth()));
  }

  OpBuilder &builder;
  Location loc;
  VectorType type;
  unsigned count;
  IntegerType element, whole;
};

struct FlyROCDLOddBitcasts : fly_rocdl::impl::FlyROCDLOddBitcastsPassBase<FlyROCDLOddBitcasts> {
  void runOnOperation() override {
    getOperation()->walk([](LLVM::BitcastOp op) {
      auto from = dyn_cast<VectorType>(op.getArg().getType());
      auto to = dyn_cast<VectorType>(op.getType());
      if (!from || !to || !from.getElementType().isIntOrFloat() || !to.getElementType().isIntOrFloat())
        return;
      unsigned fromBits = from.getElementTypeBitWidth(), toBits = to.getElementTypeBitWidth();
      if (fromBits % toBits == 0 || toBits % fromBits == 0)
        return;
      OpBuilder builder(op);
      bool isFromWords = llvm::isPowerOf2_32(fromBits);
      Words words(builder, op.getLoc(), isFromWords ? from : to);
      Value result = isFromWords ? words.cast(words.join(op.getArg()), to)
                                 : words.split(words.cast(op.getArg(), words.integer()));
      op.replaceAllUsesWith(result);
      op.erase();
    });
  }
};

} // namespace
