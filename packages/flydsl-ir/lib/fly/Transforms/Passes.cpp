//===- Passes.cpp - registration of the fly passes --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Transforms/Passes.h"
#include "fly/IR/FlyDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fly::generated {
#define GEN_PASS_REGISTRATION
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly::generated

void mlir::fly::registerFlyPasses() { generated::registerFlyPasses(); }
