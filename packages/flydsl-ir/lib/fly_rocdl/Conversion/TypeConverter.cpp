//===- TypeConverter.cpp - what fly types become --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Patterns.h"

#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

bool fly_rocdl::isBufferSpace(Attribute space) {
  return isTargetAddressSpace<BufferDescAddressAttr>(space);
}

unsigned fly_rocdl::getLLVMAddressSpace(Attribute space) {
  if (isBufferSpace(space))
    return 8;
  auto attr = dyn_cast_or_null<fly::AddressSpaceAttr>(space);
  if (!attr)
    return 0;
  switch (attr.getValue()) {
  case fly::AddressSpace::Generic:
    return 0;
  case fly::AddressSpace::Global:
    return 1;
  case fly::AddressSpace::Shared:
    return 3;
  case fly::AddressSpace::Register:
    return 5;
  }
  return 0;
}

Type fly_rocdl::getFatPointerType(MLIRContext *ctx) {
  return LLVM::LLVMStructType::getLiteral(
      ctx, {LLVM::LLVMPointerType::get(ctx, 8), IntegerType::get(ctx, 32)});
}

static Type convertPointer(MLIRContext *ctx, Attribute space) {
  if (isBufferSpace(space))
    return getFatPointerType(ctx);
  return LLVM::LLVMPointerType::get(ctx, getLLVMAddressSpace(space));
}

/// The struct of an operation's state, empty for a stateless one.
static Type convertOperation(MLIRContext *ctx, Type op) {
  if (auto stateful = dyn_cast<fly::StatefulOpTypeInterface>(op))
    return stateful.getConvertedType(ctx);
  return LLVM::LLVMStructType::getLiteral(ctx, {});
}

static bool isSmallFloat(Type type) {
  auto floatTy = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return floatTy && floatTy.getWidth() < 16;
}

/// Small floats and the integers that stand for them are the same bits, as are integers of any sign,
/// which no operation of LLVM has: what takes them (a print) casts them back.
static Value materializeBitcast(OpBuilder &builder, Type type, ValueRange inputs, Location loc) {
  if (inputs.size() != 1)
    return {};
  Type from = inputs[0].getType();
  if (getElementTypeOrSelf(from).isInteger() && getElementTypeOrSelf(type).isInteger())
    return UnrealizedConversionCastOp::create(builder, loc, type, inputs).getResult(0);
  if (!isSmallFloat(from) && !isSmallFloat(type))
    return {};
  if (!arith::BitcastOp::areCastCompatible(from, type))
    return {};
  return arith::BitcastOp::create(builder, loc, type, inputs[0]);
}

FlyToROCDLTypeConverter::FlyToROCDLTypeConverter(MLIRContext *ctx) {
  // Later conversions are tried first.
  addConversion([](Type type) { return type; });
  addConversion([](FloatType type) { return fly::getStorageType(type); });
  addConversion([](IntegerType type) { return fly::getStorageType(type); });
  addConversion([](VectorType type) {
    return type.clone(fly::getStorageType(type.getElementType()));
  });
  addConversion([ctx](fly::PointerType type) {
    return convertPointer(ctx, type.getAddressSpace());
  });
  addConversion([ctx](fly::MemRefType type) {
    return convertPointer(ctx, type.getAddressSpace());
  });
  addConversion([ctx](fly::CopyAtomType type) { return convertOperation(ctx, type.getCopyOp()); });
  addConversion([ctx](fly::MmaAtomType type) { return convertOperation(ctx, type.getMmaOp()); });
  addConversion([this](fly::TiledCopyType type) { return convertType(type.getCopyAtom()); });
  addConversion([this](fly::TiledMmaType type) { return convertType(type.getMmaAtom()); });
  addSourceMaterialization(materializeBitcast);
  addTargetMaterialization(
      [](OpBuilder &builder, Type type, ValueRange inputs, Location loc) -> Value {
        return materializeBitcast(builder, type, inputs, loc);
      });
}
