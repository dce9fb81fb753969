//===- Attributes.cpp - C interface of the Fly attributes -----------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/Attributes.h"

#include "CAPIUtils.h"

using namespace mlir;
using namespace mlir::fly;
using capi::errorsIn;

//===----------------------------------------------------------------------===//
// Integer tuples
//===----------------------------------------------------------------------===//

MlirAttribute flyIntAttrGetNone(MlirContext context) {
  return wrap(IntAttr::getNone(unwrap(context)));
}

MlirAttribute flyIntAttrGetStatic(MlirContext context, int32_t value) {
  return wrap(IntAttr::getStatic(unwrap(context), value));
}

MlirAttribute flyIntAttrGetDynamic(MlirContext context, int32_t width, int32_t divisibility) {
  if (width != 32 && width != 64) {
    errorsIn(unwrap(context))() << "a dynamic leaf has 32 or 64 bits, got " << width;
    return {nullptr};
  }
  return wrap(IntAttr::getDynamic(unwrap(context), width, divisibility));
}

MlirAttribute flyBasisAttrGet(MlirAttribute value, intptr_t numModes, const int32_t *modes) {
  MLIRContext *ctx = unwrap(value).getContext();
  auto coefficient = dyn_cast<IntAttr>(unwrap(value));
  ArrayRef<int32_t> path(modes, numModes);
  if (!coefficient || path.empty() || llvm::any_of(path, [](int32_t mode) { return mode < 0; })) {
    errorsIn(ctx)() << "a basis has an integer coefficient and at least one non-negative mode";
    return {nullptr};
  }
  return wrap(BasisAttr::get(ctx, coefficient, path));
}

MlirAttribute flyIntTupleAttrGetLeaf(MlirAttribute value) {
  MLIRContext *ctx = unwrap(value).getContext();
  return wrap(IntTupleAttr::getChecked(errorsIn(ctx), ctx, unwrap(value)));
}

/// The array attribute of `elements`.
static Attribute makeList(MLIRContext *ctx, intptr_t numElements, const MlirAttribute *elements) {
  SmallVector<Attribute> list;
  return ArrayAttr::get(ctx, unwrapList(numElements, elements, list));
}

MlirAttribute flyIntTupleAttrGetTuple(MlirContext context, intptr_t numElements,
                                      const MlirAttribute *elements) {
  MLIRContext *ctx = unwrap(context);
  return wrap(IntTupleAttr::getChecked(errorsIn(ctx), ctx, makeList(ctx, numElements, elements)));
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

MlirAttribute flyTileAttrGetModes(MlirContext context, intptr_t numElements,
                                  const MlirAttribute *elements) {
  MLIRContext *ctx = unwrap(context);
  return wrap(TileAttr::getChecked(errorsIn(ctx), ctx, makeList(ctx, numElements, elements)));
}

MlirAttribute flyTileAttrGetLeaf(MlirAttribute element) {
  MLIRContext *ctx = unwrap(element).getContext();
  return wrap(TileAttr::getChecked(errorsIn(ctx), ctx, unwrap(element)));
}

//===----------------------------------------------------------------------===//
// Address spaces
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_ATTR(AddressSpace, AddressSpaceAttr)

MlirAttribute flyAddressSpaceAttrGet(MlirContext context, int32_t space) {
  MLIRContext *ctx = unwrap(context);
  std::optional<AddressSpace> known = symbolizeAddressSpace(space);
  if (!known) {
    errorsIn(ctx)() << "an address space is 0 (generic), 1 (global), 2 (shared) or 3 (register), "
                       "got "
                    << space;
    return {nullptr};
  }
  return wrap(AddressSpaceAttr::get(ctx, *known));
}

int32_t flyAddressSpaceAttrGetValue(MlirAttribute attr) {
  return static_cast<int32_t>(cast<AddressSpaceAttr>(unwrap(attr)).getValue());
}
