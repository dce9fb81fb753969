//===- GroupRunner.h - one resident work-group or cluster ------*- C++ -*-===//
#ifndef FLYSIM_EXEC_GROUPRUNNER_H
#define FLYSIM_EXEC_GROUPRUNNER_H

#include "exec/LoopState.h"
#include "exec/Machine.h"
#include "exec/ProductRun.h"
#include "exec/Wave.h"
#include "exec/WaveStart.h"
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
  /// `observer` may be null.
  GroupRunner(const Dispatch &dispatch, uint64_t kernarg, uint64_t packet,
              std::unique_ptr<GroupObserver> observer);
  ~GroupRunner();
  GroupRunner(const GroupRunner &) = delete;
  GroupRunner &operator=(const GroupRunner &) = delete;

  /// Work-groups that run together: 1, or the size of a cluster.
  unsigned groups() const { return static_cast<unsigned>(wgs.size()); }
  /// Sets up the initial state of cluster number `linear` of the grid and tells the observer.
  void begin(uint64_t linear);
  /// Gives every wave a turn; true when all have ended.
  bool step();
  /// True when the waves wait for memory that others write, or have run for so long, or
  /// slept so often, that they may do so.
  bool patient() const { return waits || rounds > kPatience || sleeps > kSleepPatience; }
  /// True when no wave can go on unless others write memory: each is in a loop that changes nothing
  /// that matters to it, alone or with the others, or waits at a barrier.
  bool stuck() const;
  /// The fault with its place, as data and in its text: instruction, line, group, wave, lane.
  Fault located(const Fault &f) const;

private:
  std::string where(const Fault &f) const;
  const LaunchArgument *arrayOf(const Fault &f) const;
  static constexpr unsigned kPatience = 48, kSleepPatience = 4;
  static constexpr uint64_t kFirstLook = 500000, kSoonLook = 20000;

  /// Where a wave was a while ago, and hashes of its registers there.
  struct Place {
    uint32_t pc = ~0u;
    uint64_t scalars = 0, vectors = 0;
    bool spins = false; ///< it came back there
    bool stuck = false; ///< its loop changes nothing that matters
    uint64_t nextLook = kFirstLook; ///< at stuck loops, in executed instructions
  };

  /// A loop of all waves together, with barriers in it: what they were at one of them.
  struct Round {
    uint64_t state = 0;
    unsigned turns = 0, releases = 0; ///< since then, or since the last look
    unsigned period = 0;              ///< releases of one round, once the waves have come back
    unsigned nextLook = kFirstRound;  ///< in releases
    bool watched = false;             ///< instructions are looked at for what they change
    bool known = true;                ///< none of them depends on more than registers and memory
    bool stuck = false;               ///< the waves have come back, and have changed nothing
  };
  static constexpr unsigned kFirstRound = 4096, kSoonRound = 256;
  void lookAtRound(bool released);
  uint64_t stateOfWaves() const;

  bool spins(Wave &w, Place &place);
  bool walkLoop(Wave &w, uint32_t head, std::vector<uint32_t> &path);
  bool loopsForEver(Wave &w);

  void start(Wave &w, Workgroup &wg, unsigned index);
  void runSlice(Wave &w, uint64_t slice);
  /// The next instruction of the wave alone, seen by the observer.
  void runOne(Wave &w);
  /// The next `budget` instructions, those that run together counted as one; fewer if the wave stops.
  void runLoop(Wave &w, uint64_t &budget);
  /// The next instruction, looked at for what it changes.
  void runWatched(Wave &w);
  void runCounted(Wave &w, uint64_t &budget, Tally &tally);
  bool releaseBarriers(Workgroup &wg);
  [[noreturn]] void deadlock();

  const Dispatch &d;
  const WaveStart initial;
  const uint64_t limit;
  const unsigned lanes, numWaves, usedRows;
  unsigned rows;
  uint32_t ldsSize, scratchPerLane;
  uint32_t *registers = nullptr;
  uint8_t *lds = nullptr, *scratch = nullptr;
  Temps *temps = nullptr;
  std::unique_ptr<GroupObserver> observer;
  /// By instruction, once some are counted: the number of the first one, from it on, that steers or that the observer
  /// is shown.
  std::vector<uint32_t> quietEnds;
  std::vector<Wave> waves;
  std::vector<Place> places; ///< by wave
  Round round;
  LoopState loops;
  std::unique_ptr<StoreWatch> stores; ///< made when the first loop is looked at
  std::vector<Workgroup> wgs;
  std::vector<Region> writable; ///< host memory that the launch may write
  AccessCache cache;
  ProductRuns products;
  const Wave *running = nullptr;
  unsigned rounds = 0, sleeps = 0;
  uint64_t unpolled = 0; ///< instructions since the program was last asked for an interrupt
  bool waits = false; ///< every wave that ran last does the same over and over, or sleeps
  uint64_t random = 0; ///< state of the random schedule; 0: deterministic
  std::vector<unsigned> order;
};

} // namespace flysim

#endif
