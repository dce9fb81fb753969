//===- TimingTable.cpp - constants of the timing model --------------------===//
//
// Sources, and how far to trust them:
//   clock, memory bandwidth, SIMDs, LDS, cache sizes: product briefs and architecture
//     papers of the vendor for gfx942, gfx950 and gfx1201 (good); for gfx1250
//     announcements and public simulator configurations (weak).
//   turn, valuLatency: the four-clock cadence of gfx9 (good); LLVM 22's scheduling
//     model for gfx12 (good as a model).
//   latencies: public microbenchmarks, rounded (fair for gfx942, guesses for gfx1250).
//   LDS granule: what LLVM's occupancy implies.
//   bytes per clock: architecture papers (good for gfx9, fair for gfx12).
//
//===----------------------------------------------------------------------===//

#include "observe/TimingTable.h"

#include <cstring>

namespace flysim {

namespace {
constexpr uint64_t kMiB = 1u << 20;
constexpr TimingTable kTable[] = {
    {"gfx942", 2100, 5.3e12, 4, 4, 65536, 512, 4, 4, 64, 100, 120, 250, 800, 20, 32, 64, 64,
     32768, 288 * kMiB, 2048, 16},
    {"gfx950", 2400, 8.0e12, 4, 4, 163840, 512, 4, 4, 64, 100, 120, 250, 800, 20, 32, 64, 64,
     32768, 288 * kMiB, 4096, 16},
    {"gfx1200", 2920, 320e9, 2, 4, 131072, 1024, 1, 5, 30, 30, 100, 225, 700, 32, 24, 64, 64,
     32768, 36 * kMiB, 1024, 32},
    {"gfx1201", 2920, 640e9, 2, 4, 131072, 1024, 1, 5, 30, 30, 100, 225, 700, 32, 24, 64, 64,
     32768, 72 * kMiB, 1024, 32},
    {"gfx1250", 2400, 19.6e12, 4, 4, 327680, 2048, 1, 5, 30, 30, 120, 250, 800, 32, 24, 128, 64,
     65536, 192 * kMiB, 8192, 16},
};
} // namespace

const TimingTable &timingTable(const ArchInfo &arch) {
  for (const TimingTable &t : kTable)
    if (!strcmp(t.arch, arch.name))
      return t;
  return kTable[0];
}

} // namespace flysim
