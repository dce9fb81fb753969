//===- Passes.h - passes for AMD GPUs -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_PASSES_H
#define FLY_ROCDL_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::fly_rocdl {

#define GEN_PASS_DECL
#include "fly_rocdl/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fly_rocdl/Passes.h.inc"

/// Registers `convert-gpu-to-rocdl` as a pipeline that leaves no call of a device library.
void registerGpuToROCDLPipeline();

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_PASSES_H
