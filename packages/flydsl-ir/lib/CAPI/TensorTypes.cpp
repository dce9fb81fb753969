//===- TensorTypes.cpp - C interface of pointer and tensor types ----------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/TensorTypes.h"

#include "CAPIUtils.h"

using namespace mlir;
using namespace mlir::fly;
using capi::errorsIn;
using capi::wrapAsType;

/// The alignment attribute; the verifiers of the types check it against the element type.
static AlignAttr makeAlignment(Type elementType, int32_t bytes) {
  if (bytes == FLY_TRIVIAL_ALIGNMENT && getElementBitWidth(elementType) != 0)
    return AlignAttr::getTrivialAlignment(elementType);
  return AlignAttr::get(elementType.getContext(), bytes);
}

//===----------------------------------------------------------------------===//
// !fly.ptr
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(Pointer, PointerType)

MlirType flyPointerTypeGet(MlirType elementType, MlirAttribute addressSpace, int32_t alignment) {
  Type elemTy = unwrap(elementType);
  MLIRContext *ctx = elemTy.getContext();
  AlignAttr align = makeAlignment(elemTy, alignment);
  return wrap(PointerType::getChecked(errorsIn(ctx), ctx, elemTy, unwrap(addressSpace), align,
                                      SwizzleAttr::getTrivial(ctx)));
}

static PointerType getPointer(MlirType type) { return cast<PointerType>(unwrap(type)); }

MlirType flyPointerTypeGetElementType(MlirType type) { return wrap(getPointer(type).getElemTy()); }
MlirAttribute flyPointerTypeGetAddressSpace(MlirType type) {
  return wrap(getPointer(type).getAddressSpace());
}
int32_t flyPointerTypeGetAlignment(MlirType type) {
  return getPointer(type).getAlignment().getAlignment();
}
MlirType flyPointerTypeGetSwizzle(MlirType type) {
  return wrapAsType(getPointer(type).getSwizzle());
}

//===----------------------------------------------------------------------===//
// !fly.memref
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(MemRef, fly::MemRefType)

/// The attribute of a layout or composed_layout type; null after an error.
static Attribute getLayoutArgument(MlirType layout) {
  Type type = unwrap(layout);
  if (isa<LayoutType, ComposedLayoutType>(type))
    return getLayoutAttr(type);
  errorsIn(type.getContext())() << "the layout of a tensor is a layout or a composed layout, got "
                                << type;
  return {};
}

MlirType flyMemRefTypeGet(MlirType elementType, MlirType layout, MlirAttribute addressSpace,
                          int32_t alignment) {
  Type elemTy = unwrap(elementType);
  MLIRContext *ctx = elemTy.getContext();
  Attribute layoutAttr = getLayoutArgument(layout);
  if (!layoutAttr)
    return {nullptr};
  AlignAttr align = makeAlignment(elemTy, alignment);
  return wrap(fly::MemRefType::getChecked(errorsIn(ctx), ctx, elemTy, unwrap(addressSpace),
                                          layoutAttr, align, SwizzleAttr::getTrivial(ctx)));
}

static fly::MemRefType getMemRef(MlirType type) { return cast<fly::MemRefType>(unwrap(type)); }

MlirType flyMemRefTypeGetElementType(MlirType type) { return wrap(getMemRef(type).getElemTy()); }
MlirType flyMemRefTypeGetLayout(MlirType type) { return wrapAsType(getMemRef(type).getLayout()); }
MlirAttribute flyMemRefTypeGetAddressSpace(MlirType type) {
  return wrap(getMemRef(type).getAddressSpace());
}
int32_t flyMemRefTypeGetAlignment(MlirType type) {
  return getMemRef(type).getAlignment().getAlignment();
}
MlirType flyMemRefTypeGetSwizzle(MlirType type) { return wrapAsType(getMemRef(type).getSwizzle()); }

//===----------------------------------------------------------------------===//
// !fly.coord_tensor
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(CoordTensor, CoordTensorType)

MlirType flyCoordTensorTypeGet(MlirType base, MlirType layout) {
  MLIRContext *ctx = unwrap(base).getContext();
  Attribute layoutAttr = getLayoutArgument(layout);
  if (!layoutAttr)
    return {nullptr};
  return wrap(CoordTensorType::getChecked(errorsIn(ctx), ctx,
                                          cast<IntTupleType>(unwrap(base)).getAttr(), layoutAttr));
}

static CoordTensorType getCoordTensor(MlirType type) { return cast<CoordTensorType>(unwrap(type)); }

MlirType flyCoordTensorTypeGetBase(MlirType type) {
  return wrapAsType(getCoordTensor(type).getBase());
}
MlirType flyCoordTensorTypeGetLayout(MlirType type) {
  return wrapAsType(getCoordTensor(type).getLayout());
}
