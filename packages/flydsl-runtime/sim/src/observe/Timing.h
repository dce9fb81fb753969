//===- Timing.h - cycle-approximate model of a compute unit ----*- C++ -*-===//
//
// Replays the recorded work-groups of one compute unit through a model of its issue
// logic, units and memory pipeline. The result is an estimate and is labelled so
// wherever it is shown.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_TIMING_H
#define FLYSIM_OBSERVE_TIMING_H

#include "observe/Profile.h"

#include <array>

namespace flysim {

/// Why a wave could not issue its next instruction earlier.
enum class Stall : uint8_t {
  None,
  Dependency, ///< a vector or matrix result was not ready
  Memory,     ///< wait for vector memory
  Lds,        ///< wait for LDS or scalar memory
  Barrier,
  Valu,       ///< the SIMD's vector ALU was busy
  Matrix,     ///< the SIMD's matrix unit was busy
  LdsBusy,    ///< the LDS queue was full
  VmemBusy,   ///< the memory pipeline was full
  Issue,      ///< another wave issued in the same category
  Fetch,      ///< taken branch
  Count
};
constexpr unsigned kStalls = static_cast<unsigned>(Stall::Count);
const char *stallName(Stall stall);

struct InstTiming {
  uint64_t issued = 0;
  std::array<uint64_t, kStalls> stall{};
};

struct TimingEvent {
  uint32_t inst;
  uint64_t group; ///< linear number of the work-group
  uint16_t wave;
  uint8_t simd;
  Stall cause;
  uint64_t start, end; ///< clocks; `start - stalled` is when the wave was ready
  uint64_t busyFrom, busyTo; ///< when the unit worked on it (after queueing), 0 and 0 if none did
  uint32_t stalled;
};

struct TimingResult {
  double cycles = 0;            ///< whole launch
  uint64_t sampleCycles = 0;    ///< the replayed work-groups
  unsigned sampleGroups = 0;
  uint64_t groupsPerCu = 0;     ///< work-groups that the busiest compute unit runs
  double memoryBytes = 0;       ///< memory traffic of the launch
  double memoryCycles = 0;      ///< least clocks for it
  double behindL2Bytes = 0;     ///< what the L2s of the dies did not have
  // Clocks that the units of the compute unit were busy, in the sample.
  uint64_t valuBusy = 0, matrixBusy = 0, ldsBusy = 0, l1Busy = 0; ///< VALU, matrix: sum over SIMDs
  uint64_t tensorBusy = 0;      ///< sum over the tensor data movers
  uint64_t matrixFlops = 0;     ///< in the sample
  std::array<uint64_t, kStalls> stall{}; ///< wave clocks
  uint64_t waveCycles = 0;      ///< wave clocks in all
  std::vector<InstTiming> instructions;
  std::vector<TimingEvent> events; ///< of the trace, if asked for
  bool eventsTruncated = false;
};

/// Under what the recorded work-groups are replayed.
struct Conditions {
  double clockMhz, memoryBytesPerSec;
  double memoryLatency; ///< clocks
  /// Of the memory-side cache, which has what the L2 of a die misses and the memory need not give.
  /// 0 bytes: such accesses take no longer than those that hit L2.
  double sideBytesPerSec, sideLatency;
  bool dies; ///< with the caches of the dies; else with one L2 for all of them that keeps what fits
};

/// Replays the work-groups and extends the result to the launch.
TimingResult replay(const LaunchProfile &profile, const Conditions &conditions, bool wantEvents);

/// The reading at peak: peak clock and memory bandwidth, re-reads served by caches, one L2 for all dies.
TimingResult estimateTiming(const LaunchProfile &profile, bool wantEvents);

} // namespace flysim

#endif
