//===- Occupancy.cpp - waves that run beside each other -------------------===//

#include "observe/Profile.h"
#include "observe/TimingTable.h"

#include <algorithm>

namespace flysim {

Occupancy occupancy(const ArchInfo &arch, unsigned vgprs, unsigned sgprs, unsigned ldsBytes,
                    unsigned wavesPerGroup, unsigned waveSize) {
  auto alignUp = [](unsigned n, unsigned to) { return (n + to - 1) / to * to; };
  const TimingTable &t = timingTable(arch);
  Occupancy o;
  o.limit = "waves per SIMD";
  unsigned waves = t.maxWaves;
  auto limit = [&](unsigned n, const char *why) {
    if (n < waves) {
      waves = n;
      o.limit = why;
    }
  };
  limit(t.vgprFile(waveSize) / alignUp(std::max(1u, vgprs), t.vgprGranule(waveSize)), "VGPRs");
  if (t.sgprFile && sgprs)
    limit(t.sgprFile / alignUp(sgprs, t.sgprGranule), "SGPRs");
  unsigned perGroup = std::max(1u, wavesPerGroup);
  // As many work-groups as fit; like LLVM, waves per SIMD are those of the fullest SIMD.
  unsigned groups = waves * t.simdsPerLds / perGroup;
  auto limitGroups = [&](unsigned n, const char *why) {
    groups = std::min(groups, n);
    limit(std::max(1u, (n * perGroup + t.simdsPerLds - 1) / t.simdsPerLds), why);
  };
  if (perGroup > 1)
    limitGroups(t.maxBarriers, "work-groups per compute unit");
  if (ldsBytes)
    limitGroups(t.ldsPool / alignUp(ldsBytes, t.ldsGranule), "LDS");
  o.wavesPerSimd = waves;
  o.groupsPerCu = std::max(1u, groups);
  return o;
}

} // namespace flysim
