//===- TimingTable.cpp - constants of the timing model --------------------===//

#include "observe/TimingTable.h"

#include "support/Json.h"

#include <cstring>

namespace flysim {

namespace {

constexpr TimingTable kTable[] = {
    {"gfx942"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, source, trust) , a
#include "observe/TimingConstants.def"
    },
    {"gfx950"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, source, trust) , b
#include "observe/TimingConstants.def"
    },
    {"gfx1200"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, source, trust) , c
#include "observe/TimingConstants.def"
    },
    {"gfx1201"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, source, trust) , d
#include "observe/TimingConstants.def"
    },
    {"gfx1250"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, source, trust) , e
#include "observe/TimingConstants.def"
    },
};

} // namespace

const TimingTable &timingTable(const ArchInfo &arch) {
  for (const TimingTable &t : kTable)
    if (!strcmp(t.arch, arch.name))
      return t;
  return kTable[0];
}

std::string timingTableJson(const ArchInfo &arch) {
  const TimingTable &t = timingTable(arch);
  Json j;
  j.open('[');
  auto add = [&](const char *name, double value, const char *unit, const char *source, const char *trust) {
    j.open('{').field("name", name).field("unit", unit);
    if (value < 1e15 && value == static_cast<double>(static_cast<uint64_t>(value)))
      j.field("value", static_cast<uint64_t>(value));
    else
      j.field("value", value);
    // Nothing that is said of gfx1250 is better than an announcement, except what LLVM implies.
    j.field("source", source);
    j.field("trust", arch.gfx1250() && !strstr(source, "LLVM") ? "weak" : trust).close('}');
  };
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, source, trust)                            \
  add(#name, static_cast<double>(t.name), unit, source, trust);
#include "observe/TimingConstants.def"
  j.close(']');
  return j.text;
}

} // namespace flysim
