//===- MemoryOps.cpp - pointers and tensors ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "InferMacros.h"

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fly;

FLY_INFER_BODY(GetDynSharedOp) {
  Type byte = IntegerType::get(ctx, 8);
  types.push_back(PointerType::get(byte, AddressSpace::Shared, AlignAttr::get(ctx, 1024)));
  return success();
}

FLY_INFER_BODY(PtrToIntOp) {
  auto ptr = cast<PointerType>(adaptor.getPtr().getType());
  if (!ptr.isInSpace(AddressSpace::Shared) && !ptr.isInSpace(AddressSpace::Global))
    return emitOptionalError(loc, "ptrtoint needs a shared or global pointer, got ", ptr);
  types.push_back(IntegerType::get(ctx, ptr.isInSpace(AddressSpace::Shared) ? 32 : 64));
  return success();
}

FLY_INFER_BODY(ToLLVMPtrOp) {
  int32_t space = static_cast<int32_t>(adaptor.getLlvmAddressSpace());
  if (space < 0)
    return emitOptionalError(loc, "llvm_address_space must not be negative, got ", space);
  types.push_back(LLVM::LLVMPointerType::get(ctx, space));
  return success();
}

FLY_INFER_BODY(AddOffsetOp) {
  Tuple offset = alg.fromAttr(tupleAttr(adaptor.getOffset()));
  auto ptr = dyn_cast<PointerType>(adaptor.getPtr().getType());
  if (!ptr) {
    Tuple base = alg.fromAttr(tupleAttr(adaptor.getPtr()));
    return finishInference(loc, alg, IntTupleType::get(alg.toAttr(alg.coordAdd(base, offset))),
                           types);
  }
  if (!offset.isInt())
    return emitOptionalError(loc, "the offset of a pointer must be an integer leaf, got ",
                             adaptor.getOffset().getType());
  types.push_back(offsetPointer(ptr, offset.num));
  return success();
}

FLY_INFER_BODY(ApplySwizzleOp) {
  auto ptr = cast<PointerType>(adaptor.getPtr().getType());
  SwizzleAttr swizzle = cast<SwizzleType>(adaptor.getSwizzle().getType()).getAttr();
  int64_t div = std::gcd(ptr.getValueDivisibility(), int64_t(1) << swizzle.getBase());
  types.push_back(PointerType::get(ptr.getElemTy(), ptr.getAddressSpace(),
                                   AlignAttr::get(ptr.getElemTy(), div), swizzle));
  return success();
}

FLY_INFER_BODY(DecompositionOp) {
  Type tensor = adaptor.getTensor().getType();
  auto composed = dyn_cast<ComposedLayoutAttr>(getLayoutAttr(tensor));
  if (!composed) {
    types.push_back(tensor);
    return success();
  }
  Tuple offset = alg.decomposedOffset(alg.mapFromAttr(composed));
  Type plain = withLayout(tensor, composed.getLinear());
  Type moved = offsetTensor(alg, plain, offset, alg.fromAttr(composed.getLinear()));
  return finishInference(loc, alg, moved, types);
}

//===------------------------------------------------------------------------===//
// Accesses
//===------------------------------------------------------------------------===//

// Loads and stores move a scalar or a 1-D vector.
static LogicalResult verifyAccess(Operation *op, Type value) {
  Type elem = value;
  if (auto vector = dyn_cast<VectorType>(value))
    elem = vector.getElementType();
  if (getElementBitWidth(elem) == 0 && !isa<LLVM::LLVMPointerType>(elem))
    return op->emitOpError("accesses a scalar or a vector of integers or floats, got ") << value;
  return success();
}

LogicalResult PtrLoadOp::verify() {
  if (auto tuple = dyn_cast<IntTupleType>(getPtr().getType())) {
    if (getType() != tuple)
      return emitOpError("of an int tuple gives the tuple ") << tuple << ", not " << getType();
    return success();
  }
  return verifyAccess(*this, getType());
}

LogicalResult PtrStoreOp::verify() { return verifyAccess(*this, getValue().getType()); }

LogicalResult MakePtrOp::verify() {
  // Private memory of a lane, of the architecture that has most: 2^18 - 1 blocks of 64 words for 32 lanes.
  constexpr int64_t kLaneBytes = ((1 << 18) - 1) * 64 * 4 / 32;
  auto type = getResult().getType();
  auto size = getDictAttrs() ? getDictAttrs()->getAs<IntegerAttr>("allocSize") : IntegerAttr();
  if (!size || !type.isInSpace(AddressSpace::Register))
    return success();
  int64_t most = kLaneBytes * 8 / std::max(1u, getElementBitWidth(type.getElemTy()));
  if (size.getInt() > most)
    return emitOpError("of registers: allocSize = ")
           << size.getInt() << " elements of " << type.getElemTy() << " are more than the "
           << kLaneBytes << " bytes that a lane can have";
  return success();
}

LogicalResult MemRefAllocaOp::verify() {
  Attribute layout = cast<LayoutType>(getLayout().getType()).getAttr();
  if (getType().getLayout() != layout)
    return emitOpError("result layout differs from the operand's layout ")
           << getLayout().getType();
  return success();
}

FLY_INFER_BODY(MemRefLoadOp) {
  if (auto memref = dyn_cast<fly::MemRefType>(adaptor.getMemref().getType())) {
    checkInside(alg, memref, alg.fromAttr(tupleAttr(adaptor.getIndices())));
    return finishInference(loc, alg, memref.getElemTy(), types);
  }
  auto tensor = cast<CoordTensorType>(adaptor.getMemref().getType());
  Tuple index = alg.crd2idx(alg.fromAttr(tupleAttr(adaptor.getIndices())),
                            alg.mapFromAttr(tensor.getLayout()));
  Tuple result = alg.coordAdd(alg.fromAttr(tensor.getBase()), index);
  return finishInference(loc, alg, IntTupleType::get(alg.toAttr(result)), types);
}

// A small float may be given as an integer of its width.
static bool isStorable(Type value, Type elem) {
  unsigned bits = getElementBitWidth(elem);
  return value == elem || (bits != 0 && getElementBitWidth(value) == bits);
}

LogicalResult MemRefStoreOp::verify() {
  if (!isStorable(getValue().getType(), getMemref().getType().getElemTy()))
    return emitOpError("stores ") << getValue().getType() << " into a tensor of "
                                  << getMemref().getType().getElemTy();
  Algebra alg(getContext());
  checkInside(alg, getMemref().getType(), alg.fromAttr(tupleAttr(getIndices())));
  return alg.failed() ? LogicalResult(emitOpError(alg.message())) : success();
}

FLY_INFER_BODY(MemRefLoadVecOp) {
  Type tensor = adaptor.getMemref().getType();
  auto layout = dyn_cast<LayoutAttr>(getLayoutAttr(tensor));
  if (!layout)
    return emitOptionalError(loc, "load_vec needs a plain layout, got ", tensor);
  Int size = alg.size(alg.fromAttr(layout));
  if (alg.failed())
    return emitOptionalError(loc, alg.message());
  if (!size.isStatic || size.value <= 0)
    return emitOptionalError(loc, "load_vec needs a static, positive size, got ", tensor);
  if (auto memref = dyn_cast<fly::MemRefType>(tensor)) {
    types.push_back(VectorType::get({size.value}, memref.getElemTy()));
    return success();
  }
  IntTupleAttr base = cast<CoordTensorType>(tensor).getBase();
  if (!base.isLeafInt())
    return emitOptionalError(loc, "load_vec of coordinates needs an integer base, got ", tensor);
  bool wide = base.extractIntFromLeaf().getWidth() == 64;
  layout.getStride().walkLeaves(
      [&](IntTupleAttr leaf) { wide |= leaf.extractIntFromLeaf().getWidth() == 64; });
  types.push_back(VectorType::get({size.value}, IntegerType::get(ctx, wide ? 64 : 32)));
  return success();
}

LogicalResult MemRefStoreVecOp::verify() {
  auto vector = dyn_cast<VectorType>(getVector().getType());
  if (!vector || !isStorable(vector.getElementType(), getMemref().getType().getElemTy()))
    return emitOpError("stores a vector of ") << getMemref().getType().getElemTy() << ", got "
                                              << getVector().getType();
  auto layout = dyn_cast<LayoutAttr>(getMemref().getType().getLayout());
  Algebra alg(getContext());
  Int size = layout ? alg.size(alg.fromAttr(layout)) : Int::none();
  bool known = layout && !alg.failed() && size.isStatic;
  if (vector.getRank() != 1 || (known && vector.getNumElements() != size.value))
    return emitOpError("stores a flat vector of all elements of ") << getMemref().getType()
                                                                   << ", got " << vector;
  return success();
}
