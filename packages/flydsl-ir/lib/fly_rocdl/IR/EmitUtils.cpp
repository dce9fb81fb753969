//===- EmitUtils.cpp - what the emission of instructions shares -----------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "EmitUtils.h"

#include "fly/IR/Booleans.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::fly_rocdl;

Value fly_rocdl::createI32(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value fly_rocdl::createI64(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 64);
}

int64_t fly_rocdl::getTotalBits(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements() * fly::getElementBitWidth(vector.getElementType());
  return fly::getElementBitWidth(type);
}

/// True for what fits in registers: a scalar, or a vector of one dimension and known length.
static bool isRegisterType(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return getTotalBits(type) != 0 && (!vector || (vector.getRank() == 1 && !vector.isScalable()));
}

Value fly_rocdl::bitcastTo(OpBuilder &builder, Location loc, Value value, Type type) {
  if (value.getType() == type)
    return value;
  if (!isRegisterType(value.getType()) || !isRegisterType(type) ||
      getTotalBits(value.getType()) != getTotalBits(type))
    return {};
  return LLVM::BitcastOp::create(builder, loc, type, value);
}

// No more than a whole register file; also keeps the sum below far from overflow.
static constexpr int64_t kMaxRegisters = 1 << 20;

Type fly_rocdl::getRegisterValueType(fly::MemRefType type) {
  fly::LayoutAttr layout = type.getLinearLayout();
  if (!layout || !layout.isStatic())
    return {};
  SmallVector<int64_t> shape, stride;
  auto collect = [](fly::IntTupleAttr tuple, SmallVectorImpl<int64_t> &out) {
    tuple.walkLeaves([&](fly::IntTupleAttr leaf) {
      fly::IntAttr value = leaf.extractIntFromLeaf();
      out.push_back(value ? value.getValue() : 0);
    });
  };
  collect(layout.getShape(), shape);
  collect(layout.getStride(), stride);
  if (shape.size() != stride.size())
    return {};
  int64_t count = 1;
  for (auto [extent, step] : llvm::zip(shape, stride)) {
    count += (extent - 1) * step;
    if (count < 1 || count > kMaxRegisters)
      return {};
  }
  Type elem = fly::getStorageType(type.getElemTy());
  return count == 1 ? elem : VectorType::get(count, elem);
}

unsigned fly_rocdl::getAccessAlignment(fly::AlignAttr alignment, fly::SwizzleAttr swizzle) {
  int64_t align = alignment ? alignment.getAlignment() : 0;
  if (align <= 0)
    return 0;
  if (swizzle && !swizzle.isTrivial())
    align = std::gcd(align, int64_t(1) << swizzle.getBase());
  return align & -align; // the largest power of two that divides it
}

Value fly_rocdl::elementsToBytes(OpBuilder &builder, Location loc, Value elements,
                                 unsigned elemBits) {
  if (elemBits == 8)
    return elements;
  if (elemBits % 8 == 0)
    return arith::MulIOp::create(builder, loc, elements, createI32(builder, loc, elemBits / 8));
  Value bits = arith::MulIOp::create(builder, loc, elements, createI32(builder, loc, elemBits));
  return arith::DivUIOp::create(builder, loc, bits, createI32(builder, loc, 8));
}

BufferAddress fly_rocdl::unpackBuffer(OpBuilder &builder, Location loc, Value fatPointer,
                                      Type elemTy, fly::SwizzleAttr swizzle) {
  BufferAddress address;
  address.resource = LLVM::ExtractValueOp::create(builder, loc, fatPointer, ArrayRef<int64_t>{0});
  Value offset = LLVM::ExtractValueOp::create(builder, loc, fatPointer, ArrayRef<int64_t>{1});
  Value bytes = elementsToBytes(builder, loc, offset, fly::getStorageBitWidth(elemTy));
  address.voffset = fly::applySwizzle(builder, loc, bytes, swizzle);
  return address;
}

LogicalResult fly_rocdl::emitPredicated(OpBuilder &builder, Location loc, Value pred,
                                        function_ref<LogicalResult(OpBuilder &)> body) {
  if (!pred)
    return body(builder);
  OpBuilder::InsertionGuard guard(builder);
  auto ifOp = scf::IfOp::create(builder, loc, pred, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(ifOp.thenBlock());
  return body(builder);
}

FailureOr<Value>
fly_rocdl::emitPredicatedValue(OpBuilder &builder, Location loc, Value pred, Value otherwise,
                               function_ref<FailureOr<Value>(OpBuilder &)> body) {
  if (!pred)
    return body(builder);
  if (!otherwise) {
    emitError(loc) << "a predicated copy into registers needs the old register content";
    return failure();
  }
  OpBuilder::InsertionGuard guard(builder);
  auto ifOp = scf::IfOp::create(builder, loc, otherwise.getType(), pred, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(ifOp.thenBlock());
  FailureOr<Value> value = body(builder);
  if (failed(value))
    return failure();
  scf::YieldOp::create(builder, loc, *value);
  builder.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(builder, loc, otherwise);
  return ifOp.getResult(0);
}

Value fly_rocdl::callIntrinsic(OpBuilder &builder, Location loc, StringRef name, Type resultTy,
                               ValueRange operands) {
  StringAttr intrinsic = builder.getStringAttr(name);
  if (resultTy)
    return LLVM::CallIntrinsicOp::create(builder, loc, resultTy, intrinsic, operands).getResults();
  LLVM::CallIntrinsicOp::create(builder, loc, intrinsic, operands);
  return {};
}
