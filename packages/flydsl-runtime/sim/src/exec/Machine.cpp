//===- Machine.cpp - running a grid ---------------------------------------===//

#include "exec/Machine.h"

#include "exec/GroupRunner.h"
#include "exec/Interrupt.h"
#include "exec/ThreadPool.h"
#include "memory/Memory.h"
#include "observe/Observer.h"
#include "support/CrashGuard.h"
#include "support/Error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace flysim {

void validate(const Dispatch &d) {
  const ArchInfo &arch = *d.program->arch;
  const KernelInfo &k = *d.kernel;
  uint64_t items = uint64_t(d.block[0]) * d.block[1] * d.block[2];
  if (items == 0 || items > 1024 || items > k.maxWorkgroup)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s: a work-group of %ux%ux%u has %llu work-items; the kernel allows 1 to "
                 "%u",
                 k.name.c_str(), d.block[0], d.block[1], d.block[2], (unsigned long long)items,
                 std::min(k.maxWorkgroup, 1024u)));
  uint64_t groups = 0;
  if (__builtin_mul_overflow(uint64_t(d.grid[0]) * d.grid[1], d.grid[2], &groups))
    raise(FaultKind::InvalidConfiguration, format("kernel %s: a grid of %ux%ux%u has more than 2^64 work-groups",
                                                  k.name.c_str(), d.grid[0], d.grid[1], d.grid[2]));
  // The packet that starts a kernel has 32 bits for the number of work-items along each axis.
  for (unsigned i = 0; i < 3; ++i)
    if (uint64_t(d.grid[i]) * d.block[i] > UINT32_MAX)
      raise(FaultKind::InvalidConfiguration,
            format("kernel %s: a grid of %ux%ux%u work-groups of %ux%ux%u has 2^32 or more work-items along %c",
                   k.name.c_str(), d.grid[0], d.grid[1], d.grid[2], d.block[0], d.block[1], d.block[2], "xyz"[i]));
  if (k.reqdWorkgroup[0])
    for (unsigned i = 0; i < 3; ++i)
      if (k.reqdWorkgroup[i] != d.block[i])
        raise(FaultKind::InvalidConfiguration,
              format("kernel %s needs a work-group of %ux%ux%u, not %ux%ux%u", k.name.c_str(),
                     k.reqdWorkgroup[0], k.reqdWorkgroup[1], k.reqdWorkgroup[2], d.block[0],
                     d.block[1], d.block[2]));
  uint64_t lds = uint64_t(k.ldsBytes) + d.dynamicLds;
  if (lds > arch.ldsPerWorkgroup)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s needs %llu bytes of LDS; %s has %u per work-group", k.name.c_str(),
                 (unsigned long long)lds, arch.name, arch.ldsPerWorkgroup));
  if (k.wave32 && !arch.has.wave32)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s is for wave32, which %s does not have", k.name.c_str(), arch.name));
  uint64_t size = uint64_t(d.cluster[0]) * d.cluster[1] * d.cluster[2];
  if (size == 1)
    return;
  if (!arch.has.clusters)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s: %s has no clusters of work-groups", k.name.c_str(), arch.name));
  if (size == 0 || size > 16)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s: a cluster has 1 to 16 work-groups, not %llu", k.name.c_str(),
                 (unsigned long long)size));
  for (unsigned i = 0; i < 3; ++i)
    if (d.grid[i] % d.cluster[i])
      raise(FaultKind::InvalidConfiguration,
            format("kernel %s: the grid (%u,%u,%u) is no multiple of the cluster (%u,%u,%u)",
                   k.name.c_str(), d.grid[0], d.grid[1], d.grid[2], d.cluster[0], d.cluster[1],
                   d.cluster[2]));
}

namespace {

/// Kernarg segment and AQL packet in device memory.
struct LaunchMemory {
  static constexpr uint64_t kBytes = 64 * 1024;
  uint64_t base = AddressSpace::instance().allocate(kBytes, MemKind::Service, 0);
};

/// Launch memories are kept for the next launch; concurrent launches have one each.
class LaunchMemories {
public:
  static LaunchMemories &instance() {
    static auto *memories = new LaunchMemories;
    return *memories;
  }
  std::unique_ptr<LaunchMemory> take() {
    std::lock_guard<std::mutex> lock(mutex);
    if (unused.empty()) {
      unused.reserve(made + 1); // giving it back takes no memory: there may be none then
      auto m = std::make_unique<LaunchMemory>();
      ++made;
      return m;
    }
    auto m = std::move(unused.back());
    unused.pop_back();
    return m;
  }
  void give(std::unique_ptr<LaunchMemory> m) noexcept {
    std::lock_guard<std::mutex> lock(mutex);
    unused.push_back(std::move(m));
  }

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<LaunchMemory>> unused;
  size_t made = 0;
};

void fillPacket(uint8_t *p, const Dispatch &d, uint64_t kernarg) {
  memset(p, 0, 64);
  auto put = [&](unsigned at, auto value) { memcpy(p + at, &value, sizeof value); };
  put(0, uint16_t(2));
  put(2, uint16_t(3));
  for (unsigned i = 0; i < 3; ++i) {
    put(4 + 2 * i, uint16_t(d.block[i]));
    put(12 + 4 * i, uint32_t(d.grid[i] * d.block[i]));
  }
  put(24, d.kernel->scratchBytes);
  put(28, uint32_t(d.kernel->ldsBytes + d.dynamicLds));
  put(32, d.kernel->descriptorAddr);
  put(40, kernarg);
}

/// Groups that one thread keeps at a time; together they stay below what the
/// simulated device could hold.
constexpr size_t kResident = 512;

/// One launch: what its threads share.
class Launch {
  using Clock = std::chrono::steady_clock;

public:
  explicit Launch(const Dispatch &dispatch) : d(dispatch), memory(LaunchMemories::instance().take()) {
    if (!memory->base || d.kernarg->size() + 128 > LaunchMemory::kBytes)
      raise(FaultKind::OutOfMemory, "no memory for the kernel arguments");
    packet = memory->base;
    kernarg = memory->base + 64;
    std::copy(d.kernarg->begin(), d.kernarg->end(), reinterpret_cast<uint8_t *>(kernarg)); // there may be none
    fillPacket(reinterpret_cast<uint8_t *>(packet), d, kernarg);
    total = 1;
    for (unsigned i = 0; i < 3; ++i)
      total *= d.grid[i] / d.cluster[i];
    // An atomic addition waits for all that its thread has stored: threads of large grids take a few groups by one.
    constexpr uint64_t kMostAtOnce = 16, kSharesOfThread = 64;
    static_assert(kResident % kMostAtOnce == 0, "a thread that keeps all it may has started its whole share");
    while (atOnce < kMostAtOnce && 2 * atOnce * kSharesOfThread * workerCount() <= total)
      atOnce *= 2;
    observer = observerFor(d);
  }
  ~Launch() { LaunchMemories::instance().give(std::move(memory)); }

  unsigned threads() const {
    return static_cast<unsigned>(std::min<uint64_t>(total, workerCount()));
  }

  /// The work of one thread: takes groups until none is left.
  void work() noexcept {
    try {
      std::vector<std::unique_ptr<GroupRunner>> live, idle;
      Clock::time_point quietSince = Clock::now();
      uint64_t seen = 0;
      Share share;
      std::optional<Turn> turn(std::in_place);
      while (!failed.load(std::memory_order_relaxed)) {
        if (live.empty() && !take(live, idle, share))
          break;
        bool waiting = true;
        for (size_t i = 0; i < live.size() && !failed.load(std::memory_order_relaxed);) {
          bool ended = guardedStep(*live[i]);
          if (d.service)
            d.service->serve();
          if (!ended) {
            waiting &= live[i]->patient();
            ++i;
            continue;
          }
          waiting = false;
          idle.push_back(std::move(live[i]));
          live.erase(live.begin() + static_cast<ptrdiff_t>(i));
        }
        // Groups that only wait may wait for one that has not started yet.
        bool taken = false;
        if (!live.empty() && waiting)
          for (size_t more = 1 + live.size() / 4; more && live.size() < kResident && take(live, idle, share); --more)
            taken = true;
        if (!taken && !live.empty())
          watchProgress(live, turn, quietSince, seen);
        else if (!turn)
          turn.emplace();
      }
    } catch (...) {
      report(std::current_exception());
    }
  }

  /// Raises what ended the launch as a Fault. The threads have given back what they held: unlike
  /// report(), this may take memory.
  [[noreturn]] void raiseFailure() {
    try {
      std::rethrow_exception(first);
    } catch (const std::bad_alloc &) {
      raise(FaultKind::OutOfMemory, "the host has no memory for the state of a work-group");
    } catch (const std::exception &e) {
      raise(FaultKind::OutOfMemory, std::string("the host cannot run the launch: ") + e.what());
    }
  }
  bool hasFailed() const { return failed; }

private:
  /// Neighbouring groups that a thread starts one after the other.
  struct Share {
    uint64_t next = 0, end = 0;
  };

  bool take(std::vector<std::unique_ptr<GroupRunner>> &live, std::vector<std::unique_ptr<GroupRunner>> &idle,
            Share &share) {
    if (share.next == share.end) {
      const uint64_t from = next.fetch_add(atOnce);
      if (from >= total)
        return false;
      share = {from, std::min(from + atOnce, total)};
    }
    const uint64_t linear = share.next++;
    std::unique_ptr<GroupRunner> runner;
    if (idle.empty()) {
      runner = std::make_unique<GroupRunner>(d, kernarg, packet, observer ? observer->group() : nullptr);
    } else {
      runner = std::move(idle.back());
      idle.pop_back();
    }
    runner->begin(linear);
    live.push_back(std::move(runner));
    return true;
  }

  /// Ends a launch whose work-groups all wait for memory that nobody writes. `quietSince` is when this
  /// thread last saw a thread with a wave that may get on, of any launch; `seen` the count then.
  void watchProgress(const std::vector<std::unique_ptr<GroupRunner>> &live, std::optional<Turn> &turn,
                     Clock::time_point &quietSince, uint64_t &seen) {
    bool stuck = true;
    for (const auto &group : live)
      stuck &= group->stuck();
    if (stuck)
      turn.reset();
    else if (!turn)
      turn.emplace();
    uint64_t now = Turn::count();
    if (!stuck || now != seen) {
      seen = now;
      quietSince = Clock::now();
      return;
    }
    if (d.stallSeconds <= 0)
      return;
    double quiet = std::chrono::duration<double>(Clock::now() - quietSince).count();
    if (quiet < d.stallSeconds)
      return;
    Fault fault{FaultKind::InstructionLimit,
                format("endless loop: each time round, the wave finds its registers and the memory that it "
                       "reads as they were, and for %g s no other wave has changed anything "
                       "(FLYDSL_SIM_STALL_SECONDS)",
                       d.stallSeconds)};
    report(std::make_exception_ptr(live.front()->located(fault)));
  }

  bool guardedStep(GroupRunner &g) {
    try {
      return g.step();
    } catch (const Fault &f) {
      report(std::make_exception_ptr(g.located(f)));
      return true;
    }
  }

  /// Keeps the first failure, a Fault or what the host's library threw. Memory may have run out:
  /// it takes none.
  void report(std::exception_ptr failure) noexcept {
    std::lock_guard<std::mutex> guard(failureMutex);
    if (!failed.exchange(true))
      first = std::move(failure);
  }

  const Dispatch &d;
  std::unique_ptr<LaunchMemory> memory;
  std::unique_ptr<LaunchObserver> observer;
  uint64_t packet = 0, kernarg = 0, total = 0;
  uint64_t atOnce = 1; ///< groups that a thread takes at a time
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex failureMutex;
  std::exception_ptr first;
};

std::mutex poolMutex;

} // namespace

uint64_t mostGroups() { return uint64_t(workerCount()) * kResident; }

void runDispatch(const Dispatch &dispatch) {
  if (uint64_t(dispatch.grid[0]) * dispatch.grid[1] * dispatch.grid[2] == 0)
    return;
  installCrashHandler();
  beginLongCall();
  Launch launch(dispatch);
  std::unique_lock<std::mutex> pool(poolMutex, std::defer_lock);
  if (dispatch.ownThreads) {
    // Launches of several devices run beside each other, each on threads of its own.
    std::vector<std::thread> threads;
    try {
      for (unsigned i = 1; i < launch.threads(); ++i)
        threads.emplace_back([&] {
          becomeWorker();
          launch.work();
        });
    } catch (const std::exception &) {
      // The system gives no more threads: those that there are share the work.
    }
    launch.work();
    for (std::thread &t : threads)
      t.join();
  } else {
    pool.lock();
    ThreadPool::instance().run(launch.threads(), [&] { launch.work(); });
  }
  if (launch.hasFailed())
    launch.raiseFailure();
}

} // namespace flysim
