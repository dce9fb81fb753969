//===- Access.h - the memory that an instruction is about to touch -*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_ACCESS_H
#define FLYSIM_OBSERVE_ACCESS_H

#include "exec/Wave.h"
#include "observe/Classify.h"

#include <memory>
#include <vector>

namespace flysim {

/// Lane addresses of one memory instruction: host addresses for global memory and
/// scratch, byte offsets for LDS.
struct MemoryAccess {
  uint64_t lanes = 0;      ///< lanes that access memory
  unsigned count = 1;      ///< addresses per lane (2 for read2/write2)
  unsigned bytes = 0;      ///< per address
  uint64_t addr[2][kRow];
  bool ldsSpace = false;   ///< addresses are LDS offsets
};

/// Describes what `inst` will access in the state before it runs. False for
/// instructions that access no memory lane by lane. Raises the fault that running the
/// instruction would raise.
bool describeAccess(Wave &wave, const Inst &inst, const InstInfo &info, MemoryAccess &out);

/// A stretch of memory.
struct Run {
  uint64_t from, bytes;
};
/// What a tensor move transfers: the stretches of memory and the bytes of LDS (more, if
/// elements outside the tensor are filled with zeros).
uint64_t describeTensor(Wave &wave, const Inst &inst, std::vector<Run> &out);

/// What one LDS instruction of a wave costs.
struct LdsCost {
  unsigned cycles = 0; ///< sum over the phases of the most dwords that one bank serves
  unsigned ideal = 0;  ///< the same with no two lanes in conflict
  unsigned degree = 0; ///< of the worst phase: 1 is free of conflicts
};

/// Cost of an access of a wave of `lanes` lanes. Lanes that read or write one dword in
/// a phase share it; atomic operations on it come one after the other.
LdsCost ldsCost(const MemoryAccess &access, const InstInfo &info, const ArchInfo &arch, unsigned lanes);

/// The lanes that the LDS serves together, phase after phase, and its banks.
struct LdsPhases {
  std::vector<std::vector<unsigned>> lanes;
  unsigned banks;
};
LdsPhases ldsPhases(const InstInfo &info, const ArchInfo &arch, unsigned lanes);

/// Addresses of one access, for a picture of its conflicts.
struct LdsPattern {
  unsigned degree = 0;
  uint64_t group = 0; ///< the work-groups that had it first
  uint64_t lanes = 0;
  uint32_t address[kRow]; ///< of each lane; of a pair the first
};

/// Which lanes are active, and how far their offsets are from that of the first lane.
class LanePattern {
public:
  /// True if a wave of `blocks` blocks of lanes, of which `active` are active, has the pattern that was kept.
  bool matches(uint64_t active, const uint32_t *offsets, unsigned blocks) const;
  void keep(uint64_t active, const uint32_t *offsets, unsigned blocks);

private:
  uint64_t lanes = 0; ///< 0: none was kept
  uint32_t relative[kRow];
};

/// The cost of the LDS instructions of a program. A pattern of addresses costs the same
/// wherever it starts, so that the pattern seen last answers for most executions.
class LdsCosts {
public:
  explicit LdsCosts(size_t instructions) : memos(instructions) {}
  /// What follows is of the work-groups with this number.
  void begin(uint64_t number) { group = number; }
  /// `index`: number of the LDS instruction `inst` that `wave` is about to run.
  LdsCost find(size_t index, Wave &wave, const Inst &inst, const InstInfo &info);
  /// The worst pattern that the instruction had, or null.
  const LdsPattern *worst(size_t index) const { return memos[index] ? &memos[index]->worst : nullptr; }

private:
  struct Memo {
    LanePattern pattern;
    uint32_t low = 0; ///< position in its dword of the first lane's address
    LdsCost cost;
    LdsPattern worst;
  };
  std::vector<std::unique_ptr<Memo>> memos;
  uint64_t group = 0;
};

} // namespace flysim

#endif
