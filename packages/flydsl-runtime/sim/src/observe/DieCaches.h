//===- DieCaches.h - the L2 of each die and what is behind it --*- C++ -*-===//
//
// Work-groups are given to the dies in turns, in the order of the grid, and each die has an L2 of
// its own: what two work-groups share is fetched once if they sit on one die, and twice if not.
// How the order of a grid places its work-groups therefore shows here, and nowhere else. What a
// work-group reads again is there if what all that run beside it move until then fits.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_DIECACHES_H
#define FLYSIM_OBSERVE_DIECACHES_H

#include "observe/Cache.h"

#include <vector>

namespace flysim {

/// One L2 for each die, and the cache that all of them share. Work-groups that are resident together move side by
/// side: they take turns here.
class DieCaches {
public:
  /// `bytes`: of an L2; `shared`: of what all dies share, down to the memory.
  DieCaches(unsigned dies, uint64_t bytes, uint64_t shared);
  /// Before a launch. `resident`: work-groups (or clusters) of all dies that run at once. `instructions`: of its
  /// program.
  void begin(uint64_t resident, size_t instructions);
  /// Moves of a work-group, of so many lines; groups come in the order of the grid, the moves of one in the order of
  /// time.
  void add(uint64_t group, const LineMove *from, const LineMove *to, size_t lines);
  /// Moves what is held.
  void flush();
  /// Gives back the memory that only large launches need.
  void release();
  /// The sectors that an instruction moved and that the L2 of its die did not have.
  uint64_t absentSectors(size_t inst) const { return absent[inst]; }
  /// Those of them that the shared cache did not have, either.
  uint64_t memorySectors(size_t inst) const { return fromMemory[inst]; }

private:
  /// What is held of a work-group.
  struct Held {
    uint64_t group;
    SharedCache *cache; ///< of its die
    size_t next, end;  ///< its moves that are not done
    unsigned done = 0; ///< lines of the first of them that are
  };
  void turn(Held &h);

  std::vector<SharedCache> caches;
  SharedCache shared;
  std::vector<uint64_t> absent, fromMemory; ///< sectors, by instruction
  uint64_t resident = 1;
  std::vector<Held> held; ///< of work-groups that run side by side
  std::vector<LineMove> moves; ///< theirs, one work-group after the other
  uint64_t batchEnd = 0;  ///< the first work-group behind the `resident` ones of the grid that these are of
  size_t heldLines = 0;   ///< of all that is held
};

} // namespace flysim

#endif
