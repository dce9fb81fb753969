//===- Arch.cpp - facts about each simulated architecture -----------------===//

#include "support/Arch.h"

namespace flysim {

namespace {
constexpr uint64_t kGiB = uint64_t(1) << 30;

constexpr Features cdna2() {
  Features f;
  f.indexMode = f.accumulators = f.clampModes = true;
  f.architectedScratch = false;
  f.slowMatrix = true;
  return f;
}
constexpr Features cdna3() {
  Features f = cdna2();
  f.architectedScratch = true;
  f.slowMatrix = false;
  f.scopes = ScopeSyntax::Bits;
  f.fnuz = true;
  return f;
}
constexpr Features cdna4() {
  Features f = cdna3();
  f.fnuz = false;
  f.slowF64Matrix = true;
  f.matrixHazard = 1;
  f.ldsBanks = LdsBanks::Cdna64;
  return f;
}
constexpr Features rdna3() {
  Features f;
  f.m0 = 125;
  f.wave32 = f.rdna = f.clampModes = f.keepsHigh = f.true16 = true;
  f.flatAperture = f.vectorStores = f.replicatedWmma = true;
  f.initialSgprs = 106;
  f.vgprGranule64 = 4;
  f.f32PerF64 = 32;
  f.ldsBanks = LdsBanks::Rdna32;
  return f;
}
constexpr Features rdna4() {
  Features f = rdna3();
  f.clampModes = f.vectorStores = f.replicatedWmma = false;
  f.workgroupInTtmp = f.splitCounters = true;
  f.scopes = ScopeSyntax::Field;
  f.flatOffsetBits = 24;
  f.scratchMiB = 64;
  return f;
}
constexpr Features gfx1250() {
  Features f = rdna4();
  f.clusters = f.wideDescriptors = f.vgprMsb = f.scaledOffsets = true;
  f.vgprGranule64 = f.vgprGranule32 = 16;
  f.f32PerF64 = 2;
  f.ldsBanks = LdsBanks::Rdna64;
  return f;
}

constexpr ArchInfo kArchs[] = {
    {"gfx90a", "gfx90a:sramecc+:xnack-", "simulated AMD Instinct MI250X (one die)", 0x3f, 9, 0, 10, 64, 110,
     65536, 65536, 2048, 512, 1700000, 1600000, 4096, 8u << 20, 64 * kGiB, cdna2()},
    {"gfx942", "gfx942:sramecc+:xnack-", "simulated AMD Instinct MI300X", 0x4c, 9, 4, 2, 64, 304, 65536,
     65536, 2048, 512, 2100000, 1300000, 8192, 4u << 20, 192 * kGiB, cdna3()},
    {"gfx950", "gfx950:sramecc+:xnack-", "simulated AMD Instinct MI355X", 0x4f, 9, 5, 0, 64, 256, 163840,
     163840, 2048, 512, 2400000, 2000000, 8192, 4u << 20, 288 * kGiB, cdna4()},
    {"gfx1100", "gfx1100", "simulated AMD Radeon RX 7900 XTX", 0x41, 11, 0, 0, 32, 96, 65536, 65536, 2048,
     256, 2500000, 1250000, 384, 6u << 20, 24 * kGiB, rdna3()},
    {"gfx1151", "gfx1151", "simulated AMD Radeon 8060S", 0x4a, 11, 5, 1, 32, 40, 65536, 65536, 2048, 256,
     2900000, 1000000, 256, 2u << 20, 64 * kGiB, rdna3()},
    {"gfx1200", "gfx1200", "simulated AMD Radeon (gfx1200)", 0x48, 12, 0, 0, 32, 32, 65536, 65536, 2048,
     256, 2920000, 1250000, 128, 4u << 20, 16 * kGiB, rdna4()},
    {"gfx1201", "gfx1201", "simulated AMD Radeon AI PRO R9700", 0x4e, 12, 0, 1, 32, 64, 65536, 65536,
     2048, 256, 2920000, 1250000, 256, 8u << 20, 32 * kGiB, rdna4()},
    {"gfx1250", "gfx1250", "simulated AMD Instinct MI450", 0x49, 12, 5, 0, 32, 256, 327680, 327680, 2048,
     1024, 2400000, 2400000, 8192, 192u << 20, 432 * kGiB, gfx1250()},
};
} // namespace

const ArchInfo *findArch(const std::string &name) {
  std::string base = name.substr(0, name.find(':'));
  for (const ArchInfo &a : kArchs)
    if (base == a.name)
      return &a;
  return nullptr;
}

const ArchInfo *findArch(unsigned elfMachine) {
  for (const ArchInfo &a : kArchs)
    if (elfMachine == a.elfMachine)
      return &a;
  return nullptr;
}

std::vector<std::string> archNames() {
  std::vector<std::string> names;
  for (const ArchInfo &a : kArchs)
    names.push_back(a.name);
  return names;
}

std::string knownArchs() {
  std::string text;
  for (const std::string &name : archNames())
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

} // namespace flysim
