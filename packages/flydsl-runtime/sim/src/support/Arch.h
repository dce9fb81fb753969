//===- Arch.h - facts about each simulated architecture --------*- C++ -*-===//
#ifndef FLYSIM_SUPPORT_ARCH_H
#define FLYSIM_SUPPORT_ARCH_H

#include <cstdint>
#include <string>
#include <vector>

namespace flysim {

struct ArchInfo {
  const char *name;        ///< "gfx942"
  const char *gcnArchName; ///< target id as HIP reports it
  const char *product;
  unsigned major, minor, stepping;
  unsigned waveSize;       ///< default wave size
  unsigned computeUnits;
  unsigned ldsPerWorkgroup, ldsPerCu;
  unsigned maxThreadsPerCu;
  unsigned vgprRows;       ///< rows of the simulated register file (v and a registers)
  unsigned clockKhz, memClockKhz, memBusBits;
  unsigned l2Bytes;
  uint64_t memoryBytes;

  bool gfx12() const { return major == 12; }
  bool gfx1250() const { return major == 12 && minor == 5; }
  bool gfx950() const { return major == 9 && minor == 5; }
  /// 8-bit floats are the FNUZ formats, else OCP's.
  bool fnuz() const { return major == 9 && minor == 4; }
};

/// The table entry for `name` ("gfx942", target ids with ":feature" accepted), or
/// null for an architecture that is not simulated.
const ArchInfo *findArch(const std::string &name);
/// All names, in the order of the table.
std::vector<std::string> archNames();
/// "gfx942, gfx950, ..." for messages.
std::string knownArchs();

} // namespace flysim

#endif
