//===- fly-c/TensorTypes.h - Pointers, memrefs, coordinate tensors -*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_TENSORTYPES_H
#define FLY_C_TENSORTYPES_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Passed as an alignment: the trivial alignment of the element type.
#define FLY_TRIVIAL_ALIGNMENT INT32_MIN

//===----------------------------------------------------------------------===//
// !fly.ptr
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(Pointer);
/// `alignment` is in bytes and must be a positive multiple of the element's byte
/// size (or FLY_TRIVIAL_ALIGNMENT); the element type must be an integer or a
/// float type.
MLIR_CAPI_EXPORTED MlirType flyPointerTypeGet(MlirType elementType, MlirAttribute addressSpace,
                                              int32_t alignment);
MLIR_CAPI_EXPORTED MlirType flyPointerTypeGetElementType(MlirType type);
MLIR_CAPI_EXPORTED MlirAttribute flyPointerTypeGetAddressSpace(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyPointerTypeGetAlignment(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyPointerTypeGetSwizzle(MlirType type);

//===----------------------------------------------------------------------===//
// !fly.memref
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(MemRef);
/// `layout` is a layout or composed_layout type; otherwise as flyPointerTypeGet.
MLIR_CAPI_EXPORTED MlirType flyMemRefTypeGet(MlirType elementType, MlirType layout,
                                             MlirAttribute addressSpace, int32_t alignment);
MLIR_CAPI_EXPORTED MlirType flyMemRefTypeGetElementType(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyMemRefTypeGetLayout(MlirType type);
MLIR_CAPI_EXPORTED MlirAttribute flyMemRefTypeGetAddressSpace(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyMemRefTypeGetAlignment(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyMemRefTypeGetSwizzle(MlirType type);

//===----------------------------------------------------------------------===//
// !fly.coord_tensor
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(CoordTensor);
/// `base` is an int_tuple type, `layout` a layout or composed_layout type.
MLIR_CAPI_EXPORTED MlirType flyCoordTensorTypeGet(MlirType base, MlirType layout);
MLIR_CAPI_EXPORTED MlirType flyCoordTensorTypeGetBase(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyCoordTensorTypeGetLayout(MlirType type);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_TENSORTYPES_H
