//===- Moves.h - transfers between memory and LDS --------------*- C++ -*-===//
#ifndef FLYSIM_CHECK_MOVES_H
#define FLYSIM_CHECK_MOVES_H

#include "observe/Access.h"

#include <optional>
#include <vector>

namespace flysim {

/// A stretch that goes from memory to LDS or back without passing a register.
struct LdsMove {
  uint64_t memory = 0; ///< address; 0: LDS is filled with zeros
  uint64_t lds = 0;    ///< offset
  unsigned bytes = 0;  ///< of LDS
  unsigned memoryBytes = 0; ///< of memory: fewer when a load extends what it fetches
  int lane = -1;       ///< -1: the tensor data mover

  /// Whether LDS has the place; what lies outside is dropped.
  bool inside(const Workgroup &wg) const { return lds <= wg.ldsSize && bytes <= wg.ldsSize - lds; }
};

/// True for loads to LDS, stores from LDS and tensor moves.
bool movesLds(const Inst &i, const InstInfo &info);

/// What such an instruction is about to move for the work-group of the wave. `access` is
/// what describeAccess said of it.
void describeMoves(Wave &w, const Inst &i, const InstInfo &info, const MemoryAccess &access,
                   std::vector<LdsMove> &out);

/// Offset of the barrier object in LDS at which a tensor move arrives when it has ended, if there is one.
std::optional<uint64_t> arrivalOf(Wave &w, const Inst &i, const InstInfo &info);

} // namespace flysim

#endif
