//===- fly-c/Support.h - Conventions of the Fly C interface -----*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//
//
// Conventions of every header in this directory:
//
// * A constructor or a derived property that cannot be computed returns a null
//   handle (mlirTypeIsNull, mlirAttributeIsNull) after it has emitted an error
//   diagnostic at the unknown location of the context. It never aborts.
// * Functions on a specific type or attribute require an argument for which
//   the matching `...IsA...` function returns true.
// * Arrays are passed as a count and a pointer; nothing is retained.
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_SUPPORT_H
#define FLY_C_SUPPORT_H

#include "mlir-c/IR.h"
#include "mlir-c/Support.h"

/// Declares the type test and the TypeID of the C++ type class NAMEType.
#define FLY_DECLARE_CAPI_TYPE(NAME)                                            \
  MLIR_CAPI_EXPORTED bool flyTypeIsA##NAME(MlirType type);                     \
  MLIR_CAPI_EXPORTED MlirTypeID fly##NAME##TypeGetTypeID(void)

/// Declares the attribute test and the TypeID of the C++ class NAMEAttr.
#define FLY_DECLARE_CAPI_ATTR(NAME)                                            \
  MLIR_CAPI_EXPORTED bool flyAttributeIsA##NAME(MlirAttribute attr);           \
  MLIR_CAPI_EXPORTED MlirTypeID fly##NAME##AttrGetTypeID(void)

#endif // FLY_C_SUPPORT_H
