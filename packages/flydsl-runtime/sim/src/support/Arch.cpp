//===- Arch.cpp - facts about each simulated architecture -----------------===//

#include "support/Arch.h"

namespace flysim {

namespace {
constexpr uint64_t kGiB = uint64_t(1) << 30;
constexpr ArchInfo kArchs[] = {
    {"gfx942", "gfx942:sramecc+:xnack-", "simulated AMD Instinct MI300X", 9, 4, 2, 64, 304, 65536,
     65536, 2048, 512, 2100000, 1300000, 8192, 4u << 20, 192 * kGiB},
    {"gfx950", "gfx950:sramecc+:xnack-", "simulated AMD Instinct MI355X", 9, 5, 0, 64, 256, 163840,
     163840, 2048, 512, 2400000, 2000000, 8192, 4u << 20, 288 * kGiB},
    {"gfx1200", "gfx1200", "simulated AMD Radeon (gfx1200)", 12, 0, 0, 32, 32, 65536, 65536, 2048,
     256, 2920000, 1250000, 128, 4u << 20, 16 * kGiB},
    {"gfx1201", "gfx1201", "simulated AMD Radeon AI PRO R9700", 12, 0, 1, 32, 64, 65536, 65536,
     2048, 256, 2920000, 1250000, 256, 8u << 20, 32 * kGiB},
    {"gfx1250", "gfx1250", "simulated AMD Instinct MI450", 12, 5, 0, 32, 256, 327680, 327680, 2048,
     1024, 2400000, 2400000, 8192, 192u << 20, 432 * kGiB},
};
} // namespace

const ArchInfo *findArch(const std::string &name) {
  std::string base = name.substr(0, name.find(':'));
  for (const ArchInfo &a : kArchs)
    if (base == a.name)
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
