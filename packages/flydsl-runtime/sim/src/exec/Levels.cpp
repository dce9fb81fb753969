//===- Levels.cpp - the instruction table for this CPU --------------------===//

#include "exec/OpTable.h"

#include <cstdlib>

namespace flysim {

// One table builder per compiled CPU feature level (Level.cpp). The matrix instructions may be
// compiled for level 4 alone.
#ifdef FLYSIM_HAVE_V4
namespace v4 {
void buildTable(OpTable &);
}
#endif
#ifdef FLYSIM_HAVE_MATRIX_V4
namespace v4 {
void registerMatrix(OpTable &);
}
#endif
#ifdef FLYSIM_HAVE_V3
namespace v3 {
void buildTable(OpTable &);
}
#endif
#ifdef FLYSIM_HAVE_V2
namespace v2 {
void buildTable(OpTable &);
}
#endif

#if defined(FLYSIM_HAVE_V4) || defined(FLYSIM_HAVE_MATRIX_V4)
static bool cpuHasV4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

const OpTable &OpTable::instance() {
  static const OpTable *table = [] {
    auto *t = new OpTable;
    const char *forced = getenv("FLYDSL_SIM_CPU");
    std::string want = forced ? forced : "";
#ifdef FLYSIM_HAVE_V4
    if ((want.empty() || want == "v4") && cpuHasV4()) {
      v4::buildTable(*t);
      t->level = "x86-64-v4";
      return t;
    }
#endif
#ifdef FLYSIM_HAVE_V3
    if ((want.empty() || want == "v3" || want == "v4") && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
      v3::buildTable(*t);
      t->level = "x86-64-v3";
#ifdef FLYSIM_HAVE_MATRIX_V4
      if (want != "v3" && cpuHasV4())
        v4::registerMatrix(*t);
#endif
      return t;
    }
#endif
#ifdef FLYSIM_HAVE_V2
    v2::buildTable(*t);
    t->level = "x86-64-v2";
#endif
    return t;
  }();
  return *table;
}

} // namespace flysim
