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
  std::vector<uint8_t> seen;          ///< by instruction: not 0 if the observer is called for it, and counts it
  std::vector<Executions> executions; ///< by instruction
  std::vector<uint32_t> issued;       ///< wave instructions, by work-group of the cluster

  /// Instruction number `index` is about to run on `w`.
  void count(size_t index, const Wave &w) {
    Executions &e = executions[index];
    ++e.issued;
    ++issued[w.wg->clusterIndex];
    if (uint64_t exec = w.exec(); exec != w.fullMask) {
      ++e.partial;
      e.lanes += static_cast<unsigned>(__builtin_popcountll(exec));
    }
  }
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
  /// All waves of the group have arrived at the work-group's barrier.
  virtual void barrier(Workgroup &) {}
  /// Where the machine counts instructions instead of showing them; null: it shows all. It may show
  /// all in any case.
  Tally *tally = nullptr;
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
