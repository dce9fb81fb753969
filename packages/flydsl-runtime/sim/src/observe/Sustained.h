//===- Sustained.h - what a machine keeps up over many launches -*- C++ -*-===//
//
// The second reading of a launch. The first one (Timing.h) says what the machine could do at the
// clock and the memory bandwidth of its data sheet. This one replays the same work-groups with
// what is known to be less: the bandwidth that streams achieve, caches that are divided among
// dies and work-groups that run side by side, the way from a die to what is behind its L2, the
// compute unit that has most to do, the clock that the power limit leaves, and the time between
// launches. It is an estimate as well.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_SUSTAINED_H
#define FLYSIM_OBSERVE_SUSTAINED_H

#include "observe/Timing.h"

namespace flysim {

struct SustainedResult {
  double microseconds = 0;
  double clockMhz = 0;      ///< under this load
  double power = 0;         ///< at the peak clock, of what the board allows; above 1 the clock falls
  double memoryBytes = 0;   ///< the launch's traffic, with what caches of dies did not keep
  double rereadBytes = 0;   ///< the part of it that work-groups had fetched before
  double behindL2Bytes = 0; ///< what the L2s of the dies did not have: from the memory-side cache or the memory
  double l2Hit = 1;         ///< the part of all that went to L2 which the L2 of the work-group's die had
  double imbalance = 1;     ///< time of the compute unit that has most to do, over that of the replayed one
  double unevenness = 1;    ///< the same over the mean of those that have something to do
  /// What decides most: "memory", "memory-side cache", "clock", "imbalance", "launch" or "issue".
  const char *bound = "";
};

/// `peak`: the first reading of the same launch.
SustainedResult estimateSustained(const LaunchProfile &profile, const TimingResult &peak);

} // namespace flysim

#endif
