//===- Operations.cpp - The end of operations -----------------------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/Operations.h"

#include "mlir/CAPI/IR.h"

void flyOperationDestroyUsed(MlirOperation op) {
  unwrap(op)->dropAllDefinedValueUses();
  unwrap(op)->erase();
}
