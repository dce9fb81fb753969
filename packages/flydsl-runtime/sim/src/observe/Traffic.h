//===- Traffic.h - what work-groups move through L2 and what is behind it -*- C++ -*-===//
//
// Worker threads run work-groups in an order that depends on the host. What each of them
// moves is therefore written down and given to the caches in the order of the grid,
// so that the traffic of a launch, and every estimate made from it, depends on the launch
// alone. Addresses do not count either: pages are numbered as they are met.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_TRAFFIC_H
#define FLYSIM_OBSERVE_TRAFFIC_H

#include "memory/Memory.h"
#include "observe/DieCaches.h"
#include "support/Arch.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace flysim {

/// The host arrays of a launch. On a device each would start an allocation, wherever the
/// host's heap has it here.
class HostArrays {
public:
  explicit HostArrays(const std::vector<Region> &list) : arrays(disjoint(list)) {}
  /// A stretch of addresses up to `end`, and what is added to each of them to get its place.
  struct Part {
    uint64_t from = 0, end = 0, shift = 0;
    bool has(uint64_t address) const { return address - from < end - from; }
  };
  /// The part around an address: an array, or the gap between two. The place of an address depends
  /// on its place in the array alone (and on the array's address modulo 16, which may be a view's);
  /// addresses in gaps stay as they are.
  Part partAround(uint64_t address) const;
  uint64_t place(uint64_t address) const { return address + partAround(address).shift; }

private:
  std::vector<Region> arrays;
};

/// Numbers of pages in the order in which they are met.
class PageNumbers {
public:
  /// The line at the same place of the page's number.
  uint64_t renumber(uint64_t line) {
    const uint64_t page = line / kPageLines;
    if (page / kTogether != last) {
      last = page / kTogether;
      here = &slotOf(last);
    }
    uint32_t &n = here->numbers[page % kTogether];
    if (!n)
      n = ++count;
    return uint64_t(n - 1) * kPageLines + line % kPageLines;
  }
  void clear() {
    count = used = 0;
    ++round;
    last = ~uint64_t(0);
  }

private:
  static constexpr unsigned kTogether = 8;
  /// Neighbouring pages, which are mostly met together. One of an open hash table, used if it is of this round: each
  /// work-group starts one.
  struct Slot {
    uint64_t pages; ///< the first of them, over kTogether
    uint32_t round; // below 2^32, as the number of pages: so many rounds never end, so many pages are 16 TiB
    uint32_t numbers[kTogether]; ///< plus 1; 0: it was not met
  };
  Slot &slotOf(uint64_t pages) {
    if (2 * used >= slots.size())
      grow();
    Slot &s = find(pages);
    if (s.round != round) {
      s = {pages, round, {}};
      ++used;
    }
    return s;
  }
  Slot &find(uint64_t pages) {
    size_t at = (pages * 0x9e3779b97f4a7c15ull >> 32) & (slots.size() - 1);
    while (slots[at].round == round && slots[at].pages != pages)
      at = (at + 1) & (slots.size() - 1);
    return slots[at];
  }
  void grow() {
    std::vector<Slot> before(std::max<size_t>(64, 2 * slots.size()));
    before.swap(slots);
    for (const Slot &s : before)
      if (s.round == round)
        find(s.pages) = s;
  }

  std::vector<Slot> slots; ///< a power of two of them, at most half of them used
  size_t used = 0;         ///< of this round
  uint32_t round = 1, count = 0;
  uint64_t last = ~uint64_t(0); ///< pages that were asked for last, over kTogether
  Slot *here = nullptr;         ///< theirs
};

/// The caches of one launch behind L1. Thread safe.
class Traffic {
public:
  /// What work-groups move that run in one place, one after the other. Neighbours of the grid that have ended there are
  /// handed on together: others need not be asked for each.
  class alignas(64) Source { // which threads write to side by side
  public:
    std::vector<LineMove> moves; ///< of those that have ended, then of the one that runs

  private:
    friend class Traffic;
    uint64_t first = 0;       ///< number of the first of them
    std::vector<size_t> ends; ///< of those that have ended: where the moves of each end
  };

  struct GiveBack {
    void operator()(Traffic *) const noexcept;
  };
  /// Given back, it serves another launch: what its caches have mapped and grown to, the host need not map again.
  typedef std::unique_ptr<Traffic, GiveBack> Lease;
  /// The caches for a launch on `arch` of a program of so many instructions. `resident`: work-groups (or clusters) of
  /// all dies that run at once, if the L2 of each die is followed as well; else 0.
  static Lease take(const ArchInfo &arch, size_t instructions, uint64_t resident);

  /// For another place where work-groups run, as long as the launch.
  Source &source();
  /// The work-groups with number `linear` (those of a cluster have one) start at a place.
  void begin(Source &s, uint64_t linear);
  /// They have ended.
  void end(Source &s);
  /// Takes what they have moved so far, while they go on, if all before them have ended.
  void drain(Source &s);
  /// After the launch: what is left. Of work-groups that never ended nothing counts that was not taken.
  void finish();
  /// After that: the sectors that an instruction moved and that were not in the cache.
  uint64_t absentSectors(size_t inst) const { return absent[inst]; }
  /// The same of the L2 of its work-group's die; 0 if those are not followed.
  uint64_t absentFromDie(size_t inst) const { return followed ? dies->absentSectors(inst) : 0; }
  /// Those of them that came from the memory or went there.
  uint64_t memoryBehindDies(size_t inst) const { return followed ? dies->memorySectors(inst) : 0; }

private:
  explicit Traffic(const ArchInfo &arch);
  void begin(size_t instructions, uint64_t resident);
  /// Gives back the memory that only large launches need.
  void release();
  /// Gives what work-groups that have ended have moved to the caches, or to the thread that does so.
  void hand(Source &s);
  /// Gives it to the caches and empties it; also of a work-group that runs.
  void apply(Source &s);
  /// The same while others may add to what waits; by the thread that set `applying`.
  void applyUnlocked(std::unique_lock<std::mutex> &lock, Source &s);
  void apply(uint64_t linear, LineMove *from, LineMove *to);

  // One thread at a time gives moves to the caches, without the lock: the others leave theirs and run on.
  std::mutex mutex; ///< of what follows the caches
  std::condition_variable caughtUp;
  bool applying = false;
  /// Moves (of 16 bytes) that may wait for the thread that applies them before others wait for it.
  static constexpr size_t kMostHeld = size_t(1) << 22;
  /// Moves that are worth a lock, and work-groups without so many.
  static constexpr size_t kManyMoves = 1024, kManyGroups = 64;
  const ArchInfo &arch;
  SharedCache cache;
  std::unique_ptr<DieCaches> dies; ///< of the launches so far
  bool followed = false;           ///< by this one
  std::vector<uint64_t> absent; ///< sectors, by instruction
  uint64_t next = 0; ///< the work-groups that come next
  size_t held = 0;   ///< moves of all that wait
  std::map<uint64_t, Source> waiting; ///< what work-groups have moved that come later, by the first of them
  std::vector<Source> spare; ///< empty: their memory is for work-groups that move later
  std::deque<Source> sources;
  PageNumbers pages;
};

} // namespace flysim

#endif
