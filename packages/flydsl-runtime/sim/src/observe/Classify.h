//===- Classify.h - what an instruction asks of the machine ----*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_CLASSIFY_H
#define FLYSIM_OBSERVE_CLASSIFY_H

#include "exec/Inst.h"
#include "support/Arch.h"

#include <cstdint>
#include <vector>

namespace flysim {

struct Program;

const char *unitName(Unit unit);

constexpr uint8_t kNoWait = 255;

/// A range of VGPR rows.
struct RegRange {
  uint16_t first = 0, count = 0;
};

/// What the profiler needs to know of one instruction, found once per program.
struct InstInfo {
  Unit unit = Unit::Valu;
  MemSpace space = MemSpace::None;
  bool load = false, store = false, atomic = false;
  bool toLds = false;      ///< global or buffer load that writes LDS
  bool whole = false;      ///< a scalar access of all its bytes, whenever it runs
  bool xdl = true;         ///< matrix operation that lets other vector work issue beside it
  uint16_t bytes = 0;      ///< per lane (per wave for scalar loads)
  uint8_t pairs = 1;       ///< addresses per lane: 2 for read2/write2
  uint16_t cycles = 1;     ///< clocks that its unit is busy, without conflicts
  uint32_t flops = 0;      ///< matrix operations: 2*M*N*K*blocks
  uint8_t laneFlops = 0;   ///< vector arithmetic: floating-point operations of one lane
  Counter counter = Counter::Count; ///< counter that it increments
  uint8_t wait[kCounters]; ///< highest counts it lets pass, kNoWait where it does not wait
  RegRange reads[4], writes[2];
  int8_t srcC = -1;        ///< which of `reads` is added by a matrix operation
  int8_t priority = -1;    ///< s_setprio: what it sets
  BarrierRole barrier = BarrierRole::None;
  InstInfo() {
    for (uint8_t &w : wait)
      w = kNoWait;
  }
};

/// Information about one instruction; `arch` is the program's, `high` the fields of the s_set_vgpr_msb in force.
InstInfo classifyOne(const Inst &inst, const ArchInfo &arch, unsigned waveSize, unsigned high = 0);
/// Information for every instruction of the program.
std::vector<InstInfo> classify(const Program &program, unsigned waveSize);

} // namespace flysim

#endif
