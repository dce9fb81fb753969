//===- Observer.h - watching a launch --------------------------*- C++ -*-===//
//
// The hook on which counters, timing, traces and checks are built. A launch without
// an observer runs the plain loop: observation costs nothing unless it is asked for.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_OBSERVER_H
#define FLYSIM_OBSERVE_OBSERVER_H

#include "exec/Wave.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace flysim {

struct Dispatch;

/// Executions of one instruction.
struct Executions {
  uint64_t issued = 0;  ///< wave instructions
  uint64_t partial = 0; ///< of these, with some lanes of the wave switched off
  uint64_t lanes = 0;   ///< active lanes of those
};

/// Counts of instructions, for an observer that need not see each one.
struct Tally {
  std::vector<uint8_t> seen;          ///< by instruction: 1 for an access that the observer is shown
  std::vector<Executions> executions; ///< by instruction
  std::vector<uint32_t> issued;       ///< wave instructions, by work-group of the cluster

  void resize(size_t instructions) {
    seen.resize(instructions);
    executions.resize(instructions);
    begun.resize(instructions + 1);
  }
  /// Instruction number `index` is about to run on `w`.
  void count(size_t index, const Wave &w) {
    ++executions[index].issued;
    ++issued[w.wg->clusterIndex];
    if (w.exec() != w.fullMask)
      countPartial(index, w);
  }
  /// The lanes of an instruction that runs on some lanes of `w` alone.
  void countPartial(size_t index, const Wave &w) {
    Executions &e = executions[index];
    ++e.partial;
    e.lanes += static_cast<unsigned>(__builtin_popcountll(w.exec()));
  }
  /// `w` has run the instructions from `first` up to `end` once, one after the other, on the lanes that it has now.
  void countStraight(size_t first, size_t end, const Wave &w) {
    ++begun[first];
    --begun[end];
    issued[w.wg->clusterIndex] += static_cast<uint32_t>(end - first);
    if (w.exec() != w.fullMask)
      for (size_t n = first; n < end; ++n)
        countPartial(n, w);
  }
  /// Instruction number `index`, which was counted and leaves the lanes alone, did not run after all.
  void takeBack(size_t index, const Wave &w) {
    Executions &e = executions[index];
    --e.issued;
    --issued[w.wg->clusterIndex];
    if (w.exec() == w.fullMask)
      return;
    --e.partial;
    e.lanes -= static_cast<unsigned>(__builtin_popcountll(w.exec()));
  }
  /// After the last instruction: `executions` has them all.
  void finish() {
    int64_t running = 0;
    for (size_t n = 0; n < executions.size(); ++n) {
      running += begun[n];
      begun[n] = 0;
      executions[n].issued += static_cast<uint64_t>(running);
    }
  }

private:
  std::vector<int64_t> begun; ///< by instruction: how many straight runs begin at it, less those that end before it
};

/// Sees what runs in one place for a work-group (or a cluster of them). Work-groups come
/// there one after the other; their waves in the order in which the machine interleaves
/// them. A thread has several such places when work-groups wait for each other.
class GroupObserver {
public:
  virtual ~GroupObserver() = default;
  virtual void startGroup(Workgroup &, uint64_t /*linearId*/) {}
  virtual void endGroup(Workgroup &) {}
  /// Before `inst` runs on `wave`: registers and memory still hold the operands. A
  /// barrier wait that does not complete is seen again when it is tried again.
  virtual void instruction(Wave &wave, const Inst &inst) = 0;
  /// The same for an instruction that `tally` says is shown, and the machine counts.
  virtual void memoryAccess(Wave &, const Inst &) {}
  /// All waves of the group have arrived at the work-group's barrier.
  virtual void barrier(Workgroup &) {}
  /// Where the machine counts instructions instead of showing them; null: it shows all. It may show
  /// all in any case.
  Tally *tally = nullptr;
  /// True if it may be shown instructions that run together one after the other, before the first of them runs.
  bool seesRuns = false;
};

/// Sees one launch. `group` is called once for each place, on its thread; the observer is
/// destroyed, on that thread, before the launch ends.
class LaunchObserver {
public:
  virtual ~LaunchObserver() = default;
  virtual std::unique_ptr<GroupObserver> group() = 0;
};

/// The observer that the process asked for (profiling), or null.
std::unique_ptr<LaunchObserver> observerFor(const Dispatch &dispatch);

} // namespace flysim

#endif
