//===- TdmPartition.h - shares of warps in a tiled tensor copy ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_TDMPARTITION_H
#define FLY_ROCDL_IR_TDMPARTITION_H

#include "fly/IR/FlyDialect.h"

namespace mlir::fly_rocdl {

/// The layout ((ATOM, ITER), WARP) -> index in the tile (column-major over its modes) of a tensor copy
/// that `numWarps` warps share. The tile is all of `smem`, or its mode 0. Null after a diagnostic.
fly::LayoutType getTdmPartitionLayout(fly::CopyAtomType atom, fly::MemRefType smem,
                                      int32_t numWarps);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_IR_TDMPARTITION_H
