//===- TimingTable.h - constants of the timing model -----------*- C++ -*-===//
//
// One table for all architectures. None of these numbers was measured by this
// project; each column says in TimingTable.cpp where it comes from and how sure it is.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_TIMINGTABLE_H
#define FLYSIM_OBSERVE_TIMINGTABLE_H

#include "support/Arch.h"

#include <cstdint>

namespace flysim {

struct TimingTable {
  const char *arch;
  double clockMhz;          ///< peak engine clock
  double memoryBytesPerSec; ///< peak of the memory
  unsigned simdsPerCu;
  unsigned simdsPerLds;     ///< SIMDs that share one LDS (a work-group processor on gfx120x)
  unsigned ldsPool, ldsGranule;
  unsigned turn;            ///< clocks between issue turns of a SIMD
  unsigned valuLatency;     ///< clocks until a dependent vector operation can issue
  unsigned ldsLatency, scalarLatency;
  unsigned l1Latency, l2Latency, memoryLatency;
  unsigned branchPenalty, barrierLatency;
  unsigned l1BytesPerClk, l2BytesPerClk; ///< per compute unit
  unsigned l1Bytes;
  uint64_t sharedCacheBytes; ///< L2 and memory-side cache together
  unsigned peakFlopsPerClk;  ///< of one compute unit, dense f16 matrix operations
  unsigned maxBarriers;      ///< work-groups of several waves that share an LDS
};

/// The row of an architecture.
const TimingTable &timingTable(const ArchInfo &arch);

} // namespace flysim

#endif
