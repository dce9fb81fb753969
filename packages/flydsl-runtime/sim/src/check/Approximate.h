//===- Approximate.h - what depends on approximate results -----*- C++ -*-===//
//
// Some instructions need not give the same bits on hardware (the fidelity table lists
// them). This check follows their results through registers, LDS, private memory and,
// within a launch, global memory, lane by lane, and tells when a branch, the set of
// active lanes or an address depends on one: there, hardware may do something else.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_APPROXIMATE_H
#define FLYSIM_CHECK_APPROXIMATE_H

#include "check/Findings.h"
#include "observe/Access.h"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace flysim {

/// Dwords of memory that hold approximate values, with the instruction they come from.
using ApproximateMemory = std::unordered_map<uint64_t, const Inst *>;

/// Global memory of one launch, shared by its worker threads.
struct ApproximateGlobal {
  std::mutex mutex;
  ApproximateMemory dwords;
};

/// Follows approximate values in one resident work-group.
class ApproximateCheck {
public:
  ApproximateCheck(const Dispatch &d, const std::vector<InstInfo> &infos, ApproximateGlobal &global,
                   Findings &findings);
  /// Adds what was executed to the counts that flysimApproximations reports.
  ~ApproximateCheck();
  void startGroup(const Workgroup &wg);
  /// Before `i` runs on `w`.
  void before(Wave &w, const Inst &i, const InstInfo &info);

private:
  /// Lanes with an approximate value, and where it comes from.
  struct Mark {
    uint64_t lanes = 0;
    const Inst *from = nullptr;
    void add(Mark m) {
      lanes |= m.lanes;
      from = from ? from : m.from;
    }
  };
  struct State {
    std::vector<Mark> rows, scalars;
  };
  /// Properties of an instruction with its operands.
  struct Kind {
    bool approximate = false, crossesLanes = false, writesExec = false, partial = false;
  };

  static Kind kindOf(const Inst &i);
  Mark read(Wave &w, const Operand &o, unsigned words);
  Mark sources(Wave &w, const Inst &i);
  void write(Wave &w, const Operand &o, unsigned words, Mark m, uint64_t lanes, bool keep);
  void vector(Wave &w, const Inst &i, const Kind &k, const InstInfo &info);
  void result(Wave &w, const Inst &i, const Kind &k, Mark m);
  void scalar(Wave &w, const Inst &i, const Kind &k);
  void branch(Wave &w, const Inst &i);
  void memory(Wave &w, const Inst &i, const InstInfo &info);
  Mark memoryMark(Wave &w, unsigned pair, unsigned lane, unsigned word);
  void setMemory(Wave &w, unsigned pair, unsigned lane, unsigned word, const Inst *from, bool keep);
  void tell(Wave &w, const Inst &i, Mark m, const char *use);

  const std::vector<InstInfo> &infos;
  const Inst *base;
  ApproximateGlobal &global;
  Findings &findings;
  std::vector<Kind> kinds;
  std::vector<uint64_t> executed; ///< approximate instructions, by index
  std::vector<State> waves;
  std::vector<const Inst *> lds;
  ApproximateMemory scratch;
  MemoryAccess access;
  bool any = false; ///< something approximate has run in this group
};

} // namespace flysim

#endif
