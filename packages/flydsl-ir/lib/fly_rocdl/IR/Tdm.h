//===- Tdm.h - descriptors of the tensor data mover ---------------*- C++ -*-===//
//
// Source: AMD gfx1250 instruction set manual, tensor data mover descriptors.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_TDM_H
#define FLY_ROCDL_LIB_IR_TDM_H

#include "fly/IR/FlyOps.h"

#include <optional>

namespace mlir::fly_rocdl {

/// Axes of a descriptor, at most.
constexpr int32_t kTdmMaxRank = 5;

/// One axis of a descriptor.
struct TdmAxis {
  Value extent;         ///< i32: elements of the tensor from the start of the tile on
  int32_t tile = 0;     ///< elements of the tile
  Value stride;         ///< i64 elements; null for the innermost axis
};

/// Everything a descriptor says.
struct TdmDescriptor {
  bool isLoad = true;
  int32_t elemBits = 0;
  int32_t cachePolicy = 0;
  Value ldsAddress;            ///< i32
  Value globalAddress;         ///< i64
  SmallVector<TdmAxis> axes;   ///< innermost first
  int32_t padInterval = 0;     ///< elements, 0 without padding
  int32_t padAmount = 0;
  Value workgroupMask;         ///< i32 or null
  Value barrierAddress;        ///< i32 LDS address or null
  bool barrier = false;
  Value earlyTimeout;          ///< i32, 0 or 1, or null
  int32_t iterations = 1;
  int32_t ldsStep = 0;         ///< elements of LDS between iterations
  Value globalStep;            ///< i64 elements between iterations
};

/// Fields of a descriptor for padding; nullopt if it cannot be encoded.
struct TdmPadding {
  int32_t interval, amount;
};
std::optional<TdmPadding> encodeTdmPadding(int32_t interval, int32_t amount, int32_t elemBits);

/// Builds the descriptor groups and issues the copy.
LogicalResult emitTdm(OpBuilder &builder, Location loc, const TdmDescriptor &descriptor);

/// The value last inserted into field `index` of a state built by a chain of insertions; null if
/// the state comes from elsewhere.
Value traceStateField(Value state, int64_t index);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_TDM_H
