//===- Runs.cpp - instructions that run together --------------------------===//
//
// Products of one kind that follow each other share their operands and add to the same tiles. Executed together
// they unpack operands once and keep sums out of the registers (exec/ProductRun.h).
// Between those that steer their wave it runs one instruction after the other, on the same lanes.
//
//===----------------------------------------------------------------------===//

#include "decode/Program.h"
#include "exec/Wave.h"

#include <cstdint>

namespace flysim {

namespace {

/// True for a product whose operands are what their registers hold.
bool isPlainProduct(const Inst &i) {
  const bool swizzled = i.ext && (i.ext->cbsz | i.ext->abid | i.ext->blgp);
  return i.def && i.def->run && i.exec == i.def->exec && !swizzled && !((i.negLo | i.negHi) & 7);
}

/// True for s_nop and for waits for memory: what compilers place between products.
bool passesTime(const Inst &i) {
  return i.def && (i.def->facts.idles || i.def->facts.wait.kind != WaitKind::None);
}

/// Some registers of the operand are EXEC.
bool hasExec(const Operand &o) {
  return o.kind == OperandKind::Sgpr && o.reg <= kExec + 1 && o.reg + unsigned(o.count) > kExec;
}

/// False for what is known to leave the way and the lanes of its wave alone.
bool maySteer(const Inst &i) {
  if (!i.def || (i.def->flags & kBranch) || writesExec(i))
    return true;
  const OpFacts &facts = i.def->facts;
  switch (facts.unit) {
  case Unit::Branch:
  case Unit::Barrier:
    return true;
  case Unit::Internal:
    return !facts.idles && !facts.setsPriority;
  case Unit::Salu:
    return facts.outside; // messages, traps, halts
  default:
    return false;
  }
}

} // namespace

bool writesExec(const Inst &i) {
  if (!i.def)
    return false;
  const OpFacts &facts = i.def->facts;
  return facts.savesExec || (i.def->flags & kCompareX) || hasExec(i.dst) || hasExec(i.sdst);
}

void joinRuns(Program &p) {
  std::vector<Inst> &insts = p.insts;
  const Inst *next = nullptr; // the next instruction that does something
  for (size_t n = insts.size(); n-- > 0;) {
    Inst &i = insts[n];
    i.run = i.exec;
    i.steers = maySteer(i);
    if (passesTime(i))
      continue;
    if (next && next->def == i.def && isPlainProduct(i) && isPlainProduct(*next)) {
      const size_t joined = static_cast<size_t>(next - &i) + next->joined;
      if (joined <= UINT16_MAX) {
        i.joined = static_cast<uint16_t>(joined);
        i.run = i.def->run;
      }
    }
    next = &i;
  }
}

} // namespace flysim
