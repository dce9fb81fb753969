//===- Levels.cpp - the instruction table for this CPU --------------------===//

#include "exec/OpTable.h"

#include "support/Error.h"
#include "support/Settings.h"

#include <memory>

namespace flysim {

// One table builder per compiled CPU feature level (Level.cpp), which is given the parts that wide vectors help most
// (Wide.cpp). Those may be compiled for level 4 alone.
#ifdef FLYSIM_HAVE_V4
namespace v4 {
void buildTable(OpTable &, void (*)(OpTable &));
}
#endif
#if defined(FLYSIM_HAVE_V4) || defined(FLYSIM_HAVE_WIDE_V4)
namespace v4 {
void registerWide(OpTable &);
}
#endif
#ifdef FLYSIM_HAVE_V3
namespace v3 {
void buildTable(OpTable &, void (*)(OpTable &));
void registerWide(OpTable &);
}
#endif
#ifdef FLYSIM_HAVE_V2
namespace v2 {
void buildTable(OpTable &, void (*)(OpTable &));
void registerWide(OpTable &);
}
#endif

#if defined(FLYSIM_HAVE_V4) || defined(FLYSIM_HAVE_WIDE_V4)
static bool cpuHasV4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

/// Fills a table with the best code that the CPU and this build have, up to level `want` if it is not empty; which
/// level that is.
static std::string build(OpTable &t, const std::string &want) {
#ifdef FLYSIM_HAVE_V4
  if ((want.empty() || want == "v4") && cpuHasV4()) {
    v4::buildTable(t, v4::registerWide);
    t.level = "x86-64-v4";
    return "v4";
  }
#endif
#ifdef FLYSIM_HAVE_V3
  if (want != "v2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    t.level = "x86-64-v3";
#ifdef FLYSIM_HAVE_WIDE_V4
    if (want != "v3" && cpuHasV4()) {
      v3::buildTable(t, v4::registerWide);
      return "v4";
    }
#endif
    v3::buildTable(t, v3::registerWide);
    return "v3";
  }
#endif
#ifdef FLYSIM_HAVE_V2
  v2::buildTable(t, v2::registerWide);
  t.level = "x86-64-v2";
#endif
  return "v2";
}

const OpTable &OpTable::instance() {
  static const OpTable *table = [] {
    auto t = std::make_unique<OpTable>();
    const char *chosen = choiceSetting("FLYDSL_SIM_CPU", {"v2", "v3", "v4"});
    const std::string want = chosen ? chosen : "", got = build(*t, want);
    if (!want.empty() && want != got)
      raise(FaultKind::InvalidConfiguration, "FLYDSL_SIM_CPU=" + want + ": expected a level that this CPU and this " +
                                                 "build have; the best is '" + got + "'");
    return t.release();
  }();
  return *table;
}

} // namespace flysim
