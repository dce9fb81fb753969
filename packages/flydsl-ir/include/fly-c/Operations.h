//===- fly-c/Operations.h - The end of operations ----------------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_OPERATIONS_H
#define FLY_C_OPERATIONS_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Destroys an operation that is in no block. What uses its values, in whatever context that is,
/// loses these operands.
MLIR_CAPI_EXPORTED void flyOperationDestroyUsed(MlirOperation op);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_OPERATIONS_H
