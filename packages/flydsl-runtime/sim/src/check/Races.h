//===- Races.h - conflicting accesses that nothing orders ------*- C++ -*-===//
//
// Every dword remembers its last few accesses. Two accesses of which one writes are a
// race if their bytes overlap, they are not both atomic, and nothing orders them:
//
// - within a work-group, waves have vector clocks that barriers and atomic operations on
//   the same address join;
// - between work-groups of a launch only atomic operations on global memory order, taken
//   as release and acquire whatever their scope. The order is that of a list of releases:
//   a work-group that acquires knows all that was released before. This errs on the side
//   of order, so that what is reported is a race.
//
// A barrier object of gfx1250 in LDS is such an address: who reads it (waits read its phase again and
// again) knows what was before the arrivals, and the end of the transfers that arrived there.
//
// LDS remembers the last read of every wave. Global memory remembers four accesses a dword.
//
// Transfers between memory and LDS run beside the wave that starts them: on the side of the
// LDS they end when that wave has waited for their counter. Nothing is ordered after them
// before, not even what the wave itself does. On the side of memory they count as done
// when they are started.
//
// A write that leaves memory as it is (all waves store the same value) counts for nothing.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_RACES_H
#define FLYSIM_CHECK_RACES_H

#include "check/Findings.h"
#include "check/Moves.h"
#include "observe/Access.h"

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace flysim {

constexpr unsigned kMaxWaves = 32;
using WaveClock = std::array<uint32_t, kMaxWaves>;

/// One earlier access to a dword.
struct AccessCell {
  const Inst *inst = nullptr;
  uint32_t group = 0, clock = 0, releases = 0;
  uint8_t wave = 0, lane = 0;
  uint8_t bytes = 0; ///< which of the four
  bool write = false, atomic = false;
  bool transfer = false; ///< of LDS; `clock` is the number of the transfer
};
struct AccessCells {
  AccessCell cell[4];
};

/// What the worker threads of a launch share: accesses to global memory, and which
/// work-groups know of each other.
struct SharedAccesses {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::unique_ptr<std::array<AccessCells, 256>>> pages;
  struct Order {
    uint64_t acquired = 0;          ///< releases up to this number are known
    std::vector<uint64_t> releases; ///< numbers of the own releases
  };
  std::unordered_map<uint32_t, Order> groups;
  std::unordered_map<uint64_t, uint64_t> released; ///< address -> number of its last release
  uint64_t next = 0;

  AccessCells &at(uint64_t dword) {
    auto &page = pages[dword >> 8];
    if (!page)
      page = std::make_unique<std::array<AccessCells, 256>>();
    return (*page)[dword & 255];
  }
};

/// The race check of one resident work-group.
class RaceCheck {
public:
  RaceCheck(const Dispatch &d, SharedAccesses &shared, Findings &findings);
  void startGroup(const Workgroup &wg);
  /// Before a memory instruction runs. `scoped`: loads and stores that are coherent beyond
  /// the work-group (atomic or volatile in the source).
  void memory(Wave &w, const Inst &i, const InstInfo &info, const MemoryAccess &access, bool scoped);
  /// Before any instruction: what it waits for has ended, what it starts is counted.
  void counters(const Wave &w, const InstInfo &info);
  /// Before an instruction that moves between memory and LDS runs, after counters().
  void moves(Wave &w, const Inst &i, const InstInfo &info, const std::vector<LdsMove> &list);
  /// After the last instruction of the wave has run.
  void after(Wave &w);
  /// The wave signals a barrier, passes one, or ends. `whole`: the work-group's barrier.
  void signal(const Wave &w, bool whole);
  void pass(const Wave &w, bool whole);
  void end(const Wave &w);
  /// The same for the barrier of a cluster.
  void clusterBarrier(const Wave &w, bool signals);

private:
  struct WaveState {
    WaveClock clock{};
    unsigned generation = 0;
    std::vector<uint64_t> acquire; ///< addresses to acquire when the instruction has run
    uint64_t issued[kCounters] = {};
    /// The clock at which the wave had waited for each of its transfers; 0: not yet.
    std::vector<uint32_t> ended{1};
    struct Pending {
      uint32_t transfer;
      Counter counter;
      uint64_t number; ///< of those that count there
    };
    std::vector<Pending> pending;
  };
  /// A transfer that arrives at a barrier object, and the clock of its wave then.
  struct Arrival {
    uint32_t wave, transfer, clock;
  };
  static constexpr uint32_t kNoTransfer = 0;
  void arrive(const Wave &w, uint64_t at, Counter transfers, size_t first);
  void touch(Wave &w, const Inst &i, AccessCells &cells, unsigned lane, uint8_t bytes, bool write,
             bool atomic, uint64_t at, bool lds, uint32_t transfer = kNoTransfer);
  void touchLds(Wave &w, const Inst &i, unsigned lane, uint8_t bytes, bool write, bool atomic,
                uint64_t at, uint32_t transfer = kNoTransfer);
  bool ordered(const AccessCell &c, uint32_t wave);
  /// Whether both accesses are atomic. Where stores have no scope in their code, one that an atomic load
  /// meets is taken for an atomic one.
  bool bothAtomic(const AccessCell &c, bool write, bool atomic) const {
    if (atomic && c.atomic)
      return true;
    return plainStoresAreAtomic && ((write && !c.write && c.atomic) || (c.write && !write && atomic));
  }
  bool running(const AccessCell &c) const {
    return c.transfer && !waves[c.wave].ended[c.clock];
  }
  void tell(Wave &w, const Inst &i, unsigned lane, bool write, const AccessCell &other, uint64_t at,
            bool lds);
  void synchronise(unsigned wave, uint64_t address, bool release);
  void tick(unsigned wave);

  const Dispatch &d;
  SharedAccesses &shared;
  Findings &findings;
  const bool plainStoresAreAtomic; ///< an atomic store is one of a plain store's code
  SharedAccesses::Order *order = nullptr; ///< of the work-group that runs
  uint32_t group = 0;
  std::vector<AccessCells> lds;      ///< writes and atomic operations, by dword
  std::vector<AccessCell> ldsReads;  ///< by dword and wave
  std::vector<WaveState> waves;
  WaveClock barrier[2], named{};
  std::unordered_map<uint64_t, WaveClock> atomics; ///< by address, LDS offsets with bit 63
  std::unordered_map<uint64_t, std::vector<Arrival>> objects; ///< barrier objects, by LDS offset
};

/// The bytes that a store is about to write for one lane and address, if they are in
/// registers; false when they are not.
bool storedBytes(Wave &w, const Inst &i, const InstInfo &info, unsigned lane, unsigned pair,
                 uint8_t *out);

} // namespace flysim

#endif
