//===- Expand.h - parts of the pass fly-expand-math ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_TRANSFORMS_EXPAND_H
#define FLY_ROCDL_LIB_TRANSFORMS_EXPAND_H

#include "mlir/IR/Builders.h"

namespace mlir::fly {
struct ArchInfo;
}

namespace mlir::fly_rocdl {

/// Rewrites elementary functions of f32, scalar or vector, in terms of arithmetic and of functions that
/// the back end has.
void expandElementary(Operation *func);

/// The same for f64, all of them.
void expandDouble(Operation *func);

/// Computes with floats of at most 8 bits in f32, and rewrites the conversions: as instructions of the architecture,
/// if it is given and has them, else as integer arithmetic.
void expandSmallFloats(Operation *func, const fly::ArchInfo *arch);

/// A small float that is widened, or f32 that becomes one, by conversion instructions; null if the architecture has
/// none for the type.
Value convertNatively(OpBuilder &b, Location loc, Value source, Type target, const fly::ArchInfo &arch);

/// Rewrites arith.truncf with a rounding mode as rounding to nearest even and a correction.
void expandRoundings(Operation *func);

/// Rewrites gpu.block_dim and gpu.grid_dim as constants, if the kernel states them, or as loads of the
/// implicit kernel arguments.
void expandLaunchDims(Operation *func);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_TRANSFORMS_EXPAND_H
