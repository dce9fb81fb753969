//===- fly-c/Attributes.h - Attributes of the Fly dialects ------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_ATTRIBUTES_H
#define FLY_C_ATTRIBUTES_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Integer tuples
//===----------------------------------------------------------------------===//

/// The leaf value `*` (a hole).
MLIR_CAPI_EXPORTED MlirAttribute flyIntAttrGetNone(MlirContext context);

/// A static integer leaf value.
MLIR_CAPI_EXPORTED MlirAttribute flyIntAttrGetStatic(MlirContext context, int32_t value);

/// A dynamic leaf value `?{i<width> div=<divisibility>}`; width is 32 or 64.
MLIR_CAPI_EXPORTED MlirAttribute flyIntAttrGetDynamic(MlirContext context, int32_t width,
                                                      int32_t divisibility);

/// The scaled basis vector `value E modes[0] E modes[1] ...`; `value` comes from
/// one of the functions above, `numModes` is at least 1.
MLIR_CAPI_EXPORTED MlirAttribute flyBasisAttrGet(MlirAttribute value, intptr_t numModes,
                                                 const int32_t *modes);

/// An int-tuple leaf; `value` is an integer or a basis attribute from above.
MLIR_CAPI_EXPORTED MlirAttribute flyIntTupleAttrGetLeaf(MlirAttribute value);

/// An int-tuple `(e0, e1, ...)` of int-tuple attributes; at least one element.
MLIR_CAPI_EXPORTED MlirAttribute flyIntTupleAttrGetTuple(MlirContext context,
                                                         intptr_t numElements,
                                                         const MlirAttribute *elements);

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// A tile `[e0|e1|...]`. An element is an integer attribute (hole or static), the
/// attribute of a layout type, or a tile attribute.
MLIR_CAPI_EXPORTED MlirAttribute flyTileAttrGetModes(MlirContext context, intptr_t numElements,
                                                     const MlirAttribute *elements);

/// A leaf tile around a single element (see flyTileAttrGetModes).
MLIR_CAPI_EXPORTED MlirAttribute flyTileAttrGetLeaf(MlirAttribute element);

//===----------------------------------------------------------------------===//
// Address spaces
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_ATTR(AddressSpace);
/// `space` is 0 generic, 1 global, 2 shared, 3 register.
MLIR_CAPI_EXPORTED MlirAttribute flyAddressSpaceAttrGet(MlirContext context, int32_t space);
MLIR_CAPI_EXPORTED int32_t flyAddressSpaceAttrGetValue(MlirAttribute attr);

/// `#fly_rocdl.buffer_desc`.
FLY_DECLARE_CAPI_ATTR(BufferDescAddress);
MLIR_CAPI_EXPORTED MlirAttribute flyBufferDescAddressAttrGet(MlirContext context);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_ATTRIBUTES_H
