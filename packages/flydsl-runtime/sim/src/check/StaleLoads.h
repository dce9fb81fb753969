//===- StaleLoads.h - loads that a cache answers ---------------*- C++ -*-===//
//
// The memory model lets a plain load return what a cache of its device held before the last
// acquire at system scope, as long as the reader has not acquired what was written since.
// With the check "stale" it does: where a load need not see the latest write of another
// device, it gives what the memory held before that write. A kernel that lacks an acquire
// then computes with it.
//
// Loads of one or more dwords and of parts of a dword, to registers of the lane, to LDS and
// (whole dwords) to scalar registers. Loads that convert or rearrange what they fetch
// (formats, transposing loads) give what the memory holds.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_STALELOADS_H
#define FLYSIM_CHECK_STALELOADS_H

#include "exec/Inst.h"

#include <cstdint>
#include <vector>

namespace flysim {

struct Wave;

/// Dwords of one load of a wave that are to be replaced when it has run.
class StaleLoads {
public:
  /// Where what a lane loads goes to.
  struct Target {
    const Inst *inst;
    int lane;         ///< -1: scalar registers
    uint64_t address; ///< of the first byte
    unsigned bytes;
    int64_t lds = -1; ///< offset in LDS, unless it goes to registers
  };
  /// The dword at \p address, which the target has a part of, is to have this value.
  void note(const Target &target, uint64_t address, uint32_t value) {
    dwords.push_back({target, address, value});
  }
  /// Replaces them, after the load.
  void apply(Wave &w);

private:
  struct Dword {
    Target target;
    uint64_t address;
    uint32_t value;
  };
  std::vector<Dword> dwords;
};

} // namespace flysim

#endif
