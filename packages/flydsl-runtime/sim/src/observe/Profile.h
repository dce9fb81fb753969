//===- Profile.h - counters of a launch ------------------------*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_PROFILE_H
#define FLYSIM_OBSERVE_PROFILE_H

#include "exec/Machine.h"
#include "observe/Access.h"
#include "observe/Cache.h"
#include "observe/Classify.h"
#include "observe/Observer.h"
#include "observe/Trace.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace flysim {

/// What to collect. Timing and trace need the counters.
enum : unsigned { kProfileCounters = 1, kProfileTiming = 2, kProfileTrace = 4 };

/// Counts of one static instruction, over all waves of the launch.
struct InstCounters {
  uint64_t issued = 0;      ///< wave instructions
  uint64_t lanes = 0;       ///< sum of active lanes
  uint64_t partial = 0;     ///< issued with some lanes of the wave switched off
  uint64_t bytes = 0;       ///< bytes that lanes asked for
  uint64_t lines = 0;       ///< 128-byte lines, one per line and wave instruction
  uint64_t l2Bytes = 0;     ///< between L1 and L2
  uint64_t readBytes = 0;   ///< from memory
  uint64_t writtenBytes = 0; ///< to memory
  // With the timing model alone:
  uint64_t l2Missed = 0;    ///< of l2Bytes, what the L2 of the work-group's die did not have
  uint64_t sideMissed = 0;  ///< of that, what the cache that all dies share did not have
  uint64_t ldsBytes = 0;    ///< into or out of the LDS, by whichever instruction
  uint64_t ldsCycles = 0, ldsIdeal = 0;
  uint64_t ldsDegree = 0;   ///< worst conflict of a phase that was seen

  void add(const InstCounters &o);
};

/// Which work-groups the timing model replays and the trace shows.
struct Selection {
  bool one = false; ///< only the work-group below; else all that are replayed
  int64_t workgroup[3] = {0, 0, 0};
  uint64_t computeUnit = 0; ///< of the round-robin dispatcher, if no work-group is chosen
  uint64_t maxEvents = 400000; ///< of the trace of one launch
};

/// Everything that was found out about one launch.
struct LaunchProfile {
  std::string kernel, code; ///< its name, and CodeObject::digest: other code objects may have kernels of that name
  const ArchInfo *arch = nullptr;
  uint32_t grid[3], block[3];
  unsigned waveSize = 64, wavesPerGroup = 1;
  unsigned clusterSize = 1; ///< work-groups that start together, on one die
  uint32_t vgprs = 0, sgprs = 0, agprs = 0, ldsBytes = 0, scratchBytes = 0;
  unsigned what = 0;
  Selection selection;
  std::vector<InstInfo> infos;
  std::vector<InstCounters> counters;
  std::vector<std::string> texts, sources; ///< of the instructions that ran, else empty
  std::vector<uint64_t> addresses;
  std::map<size_t, LdsPattern> ldsPatterns; ///< of LDS instructions with conflicts, the worst of each
  std::vector<uint32_t> groupIssued; ///< wave instructions of each work-group; empty for huge grids
  std::vector<GroupTrace> traces; ///< of the work-groups that the timing model replays
};

/// Observes a launch; hands the profile to `done` when the launch ends.
std::unique_ptr<LaunchObserver> profileLaunch(const Dispatch &dispatch, unsigned what,
                                              const Selection &selection, void (*done)(LaunchProfile &&));

/// Resident waves and what limits them.
struct Occupancy {
  unsigned groupsPerCu = 0, wavesPerSimd = 0;
  const char *limit = "";
};
Occupancy occupancy(const ArchInfo &arch, unsigned vgprs, unsigned sgprs, unsigned ldsBytes,
                    unsigned wavesPerGroup, unsigned waveSize);

} // namespace flysim

#endif
