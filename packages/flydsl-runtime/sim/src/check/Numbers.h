//===- Numbers.h - where NaN and infinity come from ------------*- C++ -*-===//
#ifndef FLYSIM_CHECK_NUMBERS_H
#define FLYSIM_CHECK_NUMBERS_H

#include "check/Findings.h"
#include "exec/Matrix.h"

#include <vector>

namespace flysim {

/// Finds the instruction that makes a NaN or infinity from finite operands, lane by lane
/// for vector instructions, row by column for matrix instructions.
class NumberCheck {
public:
  explicit NumberCheck(Findings &findings) : findings(findings) {}
  void startGroup(const Workgroup &wg) { pending.assign(wg.numWaves, Pending()); }
  /// Before `i` runs: looks at the result of the instruction before it.
  void before(Wave &w, const Inst &i);

private:
  /// A result to look at when its instruction has run.
  struct Pending {
    const Inst *inst = nullptr;
    uint64_t lanes = 0;                ///< vector: lanes with finite operands
    const MatrixPlan *plan = nullptr;  ///< matrix instructions
    uint64_t badRows = 0, badCols = 0; ///< with a special value in A, in B
    std::vector<uint64_t> badC;        ///< per slot of C: lanes with one
  };
  bool watchVector(Wave &w, const Inst &i, Pending &p);
  bool watchMatrix(Wave &w, const Inst &i, Pending &p);
  void inspectVector(Wave &w, const Pending &p);
  void inspectMatrix(Wave &w, const Pending &p);
  void tell(Wave &w, const Inst &i, unsigned lane, unsigned bits, uint64_t value, const std::string &where);

  Findings &findings;
  std::vector<Pending> pending;
  uint32_t scratch[32 * kRow];
};

} // namespace flysim

#endif
