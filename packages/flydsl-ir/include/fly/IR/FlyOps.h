//===- FlyOps.h - operations of the fly dialect -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYOPS_H
#define FLY_IR_FLYOPS_H

#include "fly/IR/FlyDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "fly/IR/FlyOps.h.inc"

#endif // FLY_IR_FLYOPS_H
