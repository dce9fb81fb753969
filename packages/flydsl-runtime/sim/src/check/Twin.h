//===- Twin.h - what depends on values that nobody wrote -------*- C++ -*-===//
//
// Every wave has a twin that runs the same instructions on registers, LDS and private
// memory of its own. What nobody wrote has other bits there. Where the two differ, a value
// depends on something that was never written; it may be copied, selected and thrown away
// (compilers do that), but it must not decide a branch or an address, nor be stored to
// global memory.
//
// Device memory that nobody wrote is known by its contents (Unwritten.h).
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_TWIN_H
#define FLYSIM_CHECK_TWIN_H

#include "check/Findings.h"
#include "check/Moves.h"
#include "observe/Access.h"

#include <memory>
#include <vector>

namespace flysim {

/// The twins of the waves of one resident work-group.
class TwinCheck {
public:
  TwinCheck(const Dispatch &d, const std::vector<InstInfo> &infos, Findings &findings);
  /// `twin` is the twin of `wg`, in an array with those of the other work-groups of the
  /// cluster (multicasts write the LDS of all of them).
  void startGroup(Workgroup &wg, Workgroup &twin);
  /// Before `i` runs on `w`.
  void before(Wave &w, const Inst &i, const InstInfo &info);

private:
  /// Where a value that nobody wrote comes from.
  struct Origin {
    const Inst *load = nullptr; ///< the load that fetched it; null: a register
    const char *space = "";     ///< "lds", "global", "private"
    uint64_t address = 0;
    uint16_t reg = 0; ///< register number if there was no load
    bool scalar = false;
    uint16_t wave = 0;
    uint8_t lane = 0;
  };
  enum class Action : uint8_t {
    None,    ///< no results
    Run,     ///< the twin runs it too
    Copy,    ///< the twin takes the results (clocks, counters)
    Load,    ///< global memory: the twin takes what was loaded
    OwnLoad, ///< LDS and private memory: the twin loads from its own
    Store,   ///< global memory: the twin stores nothing
    Branch,
  };

  struct Twin {
    Wave wave;
    const Inst *last = nullptr; ///< the instruction whose results are to be compared
    Action action = Action::None;
    uint64_t lanes = 0; ///< EXEC when it ran
    uint32_t source = 0; ///< origin of the first operand that differed; 0: none
    MemoryAccess access;
    std::vector<uint32_t> vectorOrigin, scalarOrigin;
  };

  static Action actionOf(const Inst &i, const InstInfo &info);
  void run(Wave &w, Twin &t, const Inst &i);
  void written(Wave &w, const Inst &i, const InstInfo &info);
  void setUp(Wave &w, Twin &t);
  void finish(Wave &w, Twin &t);
  void finishLoad(Wave &w, Twin &t, const Inst &i);
  void note(Wave &w, Twin &t, const Inst &i, const InstInfo &info);
  void compare(Wave &w, Twin &t, const Operand &o, unsigned words, uint32_t origin);
  void checkAddress(Wave &w, Twin &t, const Inst &i, const InstInfo &info);
  void checkMoves(Wave &w, Twin &t, const Inst &i);
  void unwrittenMoves(Wave &w, Twin &t);
  void checkStore(Wave &w, Twin &t, const Inst &i, const InstInfo &info);
  void checkBranch(Wave &w, Twin &t, const Inst &i);
  uint32_t firstDifference(Wave &w, Twin &t, const Inst &i);
  /// Lanes (bit 0 for scalars) in which an operand of `words` registers differs.
  uint64_t difference(Wave &w, Twin &t, const Operand &o, unsigned words);
  uint32_t originOf(Wave &w, Twin &t, const Operand &o, unsigned words);
  void copy(Wave &w, Twin &t, const Operand &o, unsigned words, uint64_t lanes);
  uint32_t addOrigin(const Origin &o);
  void tell(Wave &w, const Inst &i, uint32_t origin, const char *use, int lane);

  const Dispatch &d;
  const std::vector<InstInfo> &infos;
  const Inst *base;
  Findings &findings;
  std::vector<Action> actions;
  std::vector<Twin> twins;
  std::vector<uint32_t> registers;
  std::vector<uint8_t> lds, scratch;
  std::vector<bool> ldsWritten;
  Temps temps;
  std::vector<Origin> origins; ///< [0] is unused
  std::vector<LdsMove> list;   ///< of the instruction that runs
};

} // namespace flysim

#endif
