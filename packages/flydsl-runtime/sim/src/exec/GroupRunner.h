//===- GroupRunner.h - one resident work-group or cluster ------*- C++ -*-===//
#ifndef FLYSIM_EXEC_GROUPRUNNER_H
#define FLYSIM_EXEC_GROUPRUNNER_H

#include "exec/Machine.h"
#include "exec/Wave.h"
#include "observe/Observer.h"
#include "support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace flysim {

/// The registers, LDS and scratch of a work-group, or of the work-groups of a cluster,
/// and the state of its waves. Runs a little at a time, so that a thread can turn to
/// another group when the waves of this one wait for memory that others write.
class GroupRunner {
public:
  GroupRunner(const Dispatch &dispatch, uint64_t kernarg, uint64_t packet);
  ~GroupRunner();
  GroupRunner(const GroupRunner &) = delete;
  GroupRunner &operator=(const GroupRunner &) = delete;

  /// Work-groups that run together: 1, or the size of a cluster.
  unsigned groups() const { return static_cast<unsigned>(wgs.size()); }
  /// Sets up the initial state of cluster number `linear` of the grid.
  void begin(uint64_t linear);
  /// Gives every wave a turn; true when all have ended. `observer` may be null.
  bool step(WorkerObserver *observer);
  /// Tells an observer that the groups start or have ended.
  void announce(WorkerObserver &observer, uint64_t linear) {
    for (Workgroup &wg : wgs)
      observer.startGroup(wg, linear);
  }
  void conclude(WorkerObserver &observer) {
    for (Workgroup &wg : wgs)
      observer.endGroup(wg);
  }
  /// True when the waves have run for so long, or slept so often, that they may be
  /// waiting for another group.
  bool patient() const { return rounds > kPatience || sleeps > kSleepPatience; }
  /// Adds the place of `f` to its text: which instruction, line, group, wave, lane.
  std::string where(const Fault &f) const;

private:
  static constexpr unsigned kPatience = 48, kSleepPatience = 4;

  void clearRegisters();
  void start(Wave &w, Workgroup &wg, unsigned index);
  void initScalars(Wave &w);
  void initVectors(Wave &w);
  void runSlice(Wave &w, WorkerObserver *observer, uint64_t budget);
  void runLoop(Wave &w, WorkerObserver *observer, uint64_t &budget);
  bool releaseBarriers(Workgroup &wg);
  [[noreturn]] void deadlock();

  const Dispatch &d;
  uint64_t kernarg, packet, limit;
  unsigned lanes, items, numWaves, rows;
  uint32_t ldsSize, scratchPerLane;
  uint32_t *registers = nullptr;
  uint8_t *lds = nullptr, *scratch = nullptr;
  Temps *temps = nullptr;
  std::vector<Wave> waves;
  std::vector<Workgroup> wgs;
  std::vector<Region> writable; ///< host memory that the launch may write
  AccessCache cache;
  const Wave *running = nullptr;
  unsigned rounds = 0, sleeps = 0;
  uint64_t random = 0; ///< state of the random schedule; 0: deterministic
  std::vector<unsigned> order;
};

} // namespace flysim

#endif
