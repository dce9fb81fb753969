//===- Trace.h - what the waves of a work-group executed -------*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_TRACE_H
#define FLYSIM_OBSERVE_TRACE_H

#include <cstdint>
#include <vector>

namespace flysim {

/// One executed instruction with the memory behaviour that the timing model needs.
struct TraceOp {
  uint32_t inst = 0;       ///< index in the program
  uint16_t cost = 0;       ///< clocks of the LDS or of the L1 pipeline
  uint16_t l2Bytes32 = 0;  ///< 32-byte units moved between L1 and L2
};

struct WaveTrace {
  std::vector<TraceOp> ops;
};

struct GroupTrace {
  uint64_t linearId = 0;
  bool shown = true; ///< its instructions are events of the trace
  std::vector<WaveTrace> waves;
};

} // namespace flysim

#endif
