//===- Access.h - the memory that an instruction is about to touch -*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_ACCESS_H
#define FLYSIM_OBSERVE_ACCESS_H

#include "exec/Wave.h"
#include "observe/Classify.h"

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
/// instructions that access no memory (or none that is modelled: tensor moves).
/// Raises the fault that running the instruction would raise.
bool describeAccess(Wave &wave, const Inst &inst, const InstInfo &info, MemoryAccess &out);

/// Clocks that the LDS needs for the access: the sum over its phases of the most
/// dwords that one bank serves; equal addresses in a phase broadcast.
unsigned ldsCycles(const MemoryAccess &access, const InstInfo &info, const ArchInfo &arch);

/// The same with no two lanes in conflict.
unsigned ldsIdealCycles(const MemoryAccess &access, const InstInfo &info, const ArchInfo &arch);

} // namespace flysim

#endif
