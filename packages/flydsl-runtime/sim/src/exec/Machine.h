//===- Machine.h - running a grid ------------------------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_MACHINE_H
#define FLYSIM_EXEC_MACHINE_H

#include "decode/Program.h"
#include "loader/CodeObject.h"
#include "memory/Arguments.h"
#include "memory/Memory.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace flysim {

/// What the host does for a running launch. Called between the turns of its work-groups, by
/// all of its threads.
class Service {
public:
  virtual ~Service() = default;
  virtual void serve() = 0;
  /// Where waves and host exchange requests, by lists that need no locks: a wave may read
  /// there what another writes, and finds out when it was too late.
  Region exchange;
};

/// A kernel launch in the terms of the hardware.
struct Dispatch {
  const CodeObject *object = nullptr;
  const KernelInfo *kernel = nullptr;
  const Program *program = nullptr;
  uint32_t grid[3] = {1, 1, 1};  ///< work-groups
  uint32_t block[3] = {1, 1, 1}; ///< work-items of a work-group
  uint32_t cluster[3] = {1, 1, 1}; ///< work-groups of a cluster
  uint32_t dynamicLds = 0;
  const std::vector<uint8_t> *kernarg = nullptr; ///< the whole segment, hidden arguments included
  /// Host arrays of the launch, in any order; they may overlap.
  std::vector<Region> hostRanges;
  std::vector<LaunchArgument> arguments; ///< named arrays, for messages
  /// Which host memory that HIP has neither allocated nor registered the kernel may use: none,
  /// the arrays of the launch (it may read elsewhere too), or whatever the process has mapped.
  enum class Host { None, Arrays, Mapped } host = Host::Mapped;
  Service *service = nullptr; ///< may be null
  /// Seconds without any progress after which waiting for memory is an endless loop; 0: never.
  double stallSeconds = 0;
  uint64_t mostInstructions = ~uint64_t(0); ///< of a wave before it counts as an endless loop
  uint64_t scheduleSeed = 0; ///< of a random order of waves; 0: the deterministic one
  unsigned checks = 0;       ///< kCheckOob and others (check/Checks.h)
  mutable std::atomic<bool> stuckSeen{false}; ///< a wave of the launch cannot go on by itself
  uint64_t stops = 0; ///< requests to end launches that had been made when this one began
  int device = 0;           ///< its number in the process
  bool ownThreads = false; ///< run beside other launches instead of on the shared threads
};

/// Raises InvalidConfiguration for sizes that the kernel or its device does not have. To be
/// asked before anything is allocated by these sizes.
void validate(const Dispatch &dispatch);

/// Runs the grid to completion on the worker threads. A fault is raised again in the
/// caller with the text that names kernel, instruction, work-group, wave and lane.
/// `dispatch` must be valid.
void runDispatch(const Dispatch &dispatch);

/// The most work-groups (or clusters) of a launch that run at a time.
uint64_t mostGroups();

/// Number of worker threads (FLYDSL_SIM_THREADS, default: all CPUs).
unsigned workerCount();

} // namespace flysim

#endif
