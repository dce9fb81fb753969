//===- WaveStart.h - the state in which waves start ------------*- C++ -*-===//
//
// What the command processor and the dispatcher put into the registers of a wave before its first
// instruction, as the kernel descriptor asks for it. Source: LLVM's AMDGPUUsage, "Initial Kernel
// Execution State".
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_WAVESTART_H
#define FLYSIM_EXEC_WAVESTART_H

#include "exec/Machine.h"
#include "exec/Wave.h"

namespace flysim {

/// The start of the waves of one launch.
class WaveStart {
public:
  /// `kernarg` and `packet`: addresses of the arguments and of the dispatch packet.
  WaveStart(const Dispatch &dispatch, uint64_t kernarg, uint64_t packet);

  const unsigned lanes; ///< of a wave
  const unsigned items; ///< of a work-group
  unsigned waves() const { return (items + lanes - 1) / lanes; }
  /// Rows of the vector register file that the kernel may name as v registers.
  unsigned usedRows() const { return vectors; }
  /// Zeroes the registers at `rows` that the kernel may name; the rest of the file is never touched.
  void clearVectors(uint32_t *rows) const;
  /// Fills a new wave whose memory (registers, private memory, work-group) is in place.
  void setUp(Wave &w) const;

private:
  void scalars(Wave &w) const;

  const Dispatch &d;
  const uint64_t kernarg, packet;
  unsigned vectors;      ///< rows of v registers
  unsigned accumulators; ///< rows of a registers, from row 256
  /// v0 of each work-item, wave after wave: every work-group has the same.
  std::vector<uint32_t> workItems;
};

} // namespace flysim

#endif
