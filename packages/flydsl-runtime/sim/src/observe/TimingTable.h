//===- TimingTable.h - constants of the timing model -----------*- C++ -*-===//
//
// One table for all architectures: limits, sizes, rates and latencies, each with its
// unit, its source and how far to trust it (TimingConstants.def). None of these numbers
// was measured by this project. FLYDSL_SIM_MODEL names a file with those of a machine.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_TIMINGTABLE_H
#define FLYSIM_OBSERVE_TIMINGTABLE_H

#include "support/Arch.h"

#include <cstdint>
#include <string>

namespace flysim {

struct TimingTable {
  static constexpr unsigned kMaxSimds = 4; ///< of a compute unit
  const char *arch;
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) type name; ///< unit
#include "observe/TimingConstants.def"

  /// Registers of one SIMD's file for each lane, and the granule of their allocation.
  unsigned vgprFile(unsigned waveSize) const { return waveSize == 64 ? vgprFile64 : vgprFile32; }
  unsigned vgprGranule(unsigned waveSize) const {
    return waveSize == 64 ? vgprGranule64 : vgprGranule32;
  }
};

/// The row of an architecture. Raises InvalidConfiguration for one without, or for a wrong file.
const TimingTable &timingTable(const ArchInfo &arch);

/// All constants of an architecture with unit, source and trust, as a JSON list.
std::string timingTableJson(const ArchInfo &arch);

} // namespace flysim

#endif
