//===- Passes.h - passes of the fly dialect -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_TRANSFORMS_PASSES_H
#define FLY_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::fly {

#define GEN_PASS_DECL
#include "fly/Transforms/Passes.h.inc"

/// Registers every pass of the fly dialect.
void registerFlyPasses();

} // namespace mlir::fly

#endif // FLY_TRANSFORMS_PASSES_H
