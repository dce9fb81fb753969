//===- TensorCopy.h - tiled tensor copies -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_TENSORCOPY_H
#define FLY_ROCDL_LIB_IR_TENSORCOPY_H

#include "mlir/IR/Builders.h"

namespace mlir::fly_rocdl {

/// The parameters that tensor_load and tensor_store share.
struct TensorCopy {
  bool isLoad = false;
  SmallVector<int32_t> shape; ///< descriptor axes, outermost first
  Type elemTy;
  bool atomicBarrier = false;
  int32_t cacheModifier = 0, iterCount = 1, padInterval = 0, padAmount = 0;

  static TensorCopy get(Type op);
  static bool isTensorCopy(Type op);
};

/// Positions of the fields of the state; groups start at `stride`, `extent` and `check` with the
/// innermost axis that they have.
struct TensorStateLayout {
  explicit TensorStateLayout(bool isLoad);
  int32_t workgroupMask, earlyTimeout, barrier, base, stride, extent, check, iterationStride;

  Type getType(MLIRContext *ctx) const;
  Value getDefault(OpBuilder &builder, Location loc) const;
};

/// The state of an atom made from the operands of `fly.make_copy_atom`.
FailureOr<Value> buildTensorState(OpBuilder &builder, Location loc, Type op, ValueRange operands);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_TENSORCOPY_H
