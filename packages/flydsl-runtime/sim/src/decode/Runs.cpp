//===- Runs.cpp - instructions that run together --------------------------===//
//
// Products of one kind that follow each other share their operands and add to the same tiles. Executed together
// they unpack operands once and keep sums out of the registers (exec/ProductRun.h).
// Between those that steer their wave it runs one instruction after the other, on the same lanes.
//
//===----------------------------------------------------------------------===//

#include "decode/Program.h"
#include "exec/OpTable.h"
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

/// True if some of the registers from `first` on are the operand's.
bool overlaps(const Operand &o, unsigned first, unsigned count) {
  return o.kind == OperandKind::Sgpr && o.reg < first + count && o.reg + unsigned(o.count) > first;
}

/// True if the instruction may read some of the scalar registers from `first` on, none of which has a meaning of its
/// own.
bool mayRead(const Inst &i, unsigned first, unsigned count) {
  const OpFacts &facts = i.def->facts;
  bool found = facts.relativeSrc || (i.ext && i.ext->second);
  for (const Operand *o : {&i.src[0], &i.src[1], &i.src[2], &i.data})
    found |= overlaps(*o, first, count);
  if (i.ext)
    for (const Operand *o : {&i.ext->scale[0], &i.ext->scale[1], &i.ext->index})
      found |= overlaps(*o, first, count);
  // Some scalar instructions read what they write.
  return found || ((facts.unit == Unit::Salu || facts.unit == Unit::Smem) && overlaps(i.dst, first, count));
}

/// True if the lane mask that `insts[n]` writes besides its result is written again, or its wave ends, before anything
/// reads it. LLVM takes products with a carry for addresses, and looks at no carry.
bool masksNothing(const std::vector<Inst> &insts, size_t n) {
  constexpr size_t kReach = 128;
  const Operand &mask = insts[n].sdst;
  const unsigned first = mask.reg, count = mask.count;
  if (mask.kind != OperandKind::Sgpr || first == kSink || first + count > kVcc)
    return first == kSink;
  for (size_t k = n + 1; k < insts.size() && k < n + kReach; ++k) {
    const Inst &i = insts[k];
    if (!i.def)
      return false;
    if (i.def->facts.branch == BranchOn::End)
      return true;
    if (i.def->facts.unit == Unit::Branch || mayRead(i, first, count))
      return false;
    if (i.sdst.kind == OperandKind::Sgpr && i.sdst.reg <= first && i.sdst.reg + unsigned(i.sdst.count) >= first + count)
      return true;
  }
  return false;
}

/// How `insts[n]` runs, which is plain and has a loop over lanes.
ExecFn plainLoop(const std::vector<Inst> &insts, size_t n) {
  const Inst &i = insts[n];
  const OpTable &table = OpTable::instance();
  if (i.def->flags & kCompare)
    return i.def->flags & kCompareX ? i.exec : table.plainCompare;
  if (!(i.def->flags & kCarryOut))
    return table.plain[i.def->nsrc - 1u];
  return i.def->laneResult && i.lane == i.def->lane && masksNothing(insts, n) ? table.plainResult[i.def->nsrc - 1u]
                                                                             : i.exec;
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
    if (i.lane && i.exec == i.def->exec && i.plain && i.rawSources)
      i.run = plainLoop(insts, n);
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
