//===- TiledTdm.h - how a tile becomes a tensor copy --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_TILEDTDM_H
#define FLY_ROCDL_LIB_IR_TILEDTDM_H

#include "fly/IR/FlyDialect.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <string>

namespace mlir::fly_rocdl {

/// Attributes of make_tiled_tdm_*_atom.
struct TiledTdmOptions {
  bool isLoad = true;
  int32_t numWarps = 1, cacheModifier = 0;
  bool atomicBarrier = false;
};

/// The options that attributes say; null attributes mean the defaults.
inline TiledTdmOptions getTiledTdmOptions(IntegerAttr numWarps, IntegerAttr cacheModifier,
                                          BoolAttr atomicBarrier, bool isLoad) {
  TiledTdmOptions options;
  options.isLoad = isLoad;
  options.numWarps = numWarps ? numWarps.getInt() : 1;
  options.cacheModifier = cacheModifier ? cacheModifier.getInt() : 0;
  options.atomicBarrier = atomicBarrier && atomicBarrier.getValue();
  return options;
}

/// Consecutive elements of one mode of the tensor inside the tile.
struct TiledTdmRun {
  int32_t extent = 1;
  int32_t mode = 0;       ///< of the tensor
  int32_t modeStride = 1; ///< step along that mode
  int32_t ldsStride = 1;
};

/// One axis of the descriptor.
struct TiledTdmAxis {
  int32_t extent = 1;                 ///< of the whole tile
  SmallVector<TiledTdmRun, 2> runs;   ///< innermost first
};

/// A tile of a tensor in terms of the descriptor.
struct TiledTdm {
  SmallVector<TiledTdmAxis> axes; ///< innermost first
  SmallVector<int32_t> share;     ///< elements of each axis that one warp moves
  std::optional<TiledTdmRun> iteration;
  int32_t iterCount = 1; ///< of one warp
  int32_t padInterval = 0, padAmount = 0;
  /// For each mode of the tensor, its axis (innermost first) and its step along it.
  SmallVector<std::pair<int32_t, int32_t>> modes;
  std::string error; ///< why there is no such copy; empty if there is

  /// The type of the copy operation.
  Type getOperation(Type elemTy, fly::LayoutAttr tensor, const TiledTdmOptions &options) const;
  /// The basis of each mode of the tensor.
  fly::IntTupleAttr getTensor2Tdm(fly::LayoutAttr tensor) const;
};

/// Derives the descriptor from the layouts of the global tensor and of the tile in shared memory.
TiledTdm deriveTiledTdm(fly::MemRefType tensor, fly::LayoutAttr smem, fly::TileAttr tile,
                        const TiledTdmOptions &options);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_TILEDTDM_H
