//===- SaluHalf.cpp - scalar f16 arithmetic -------------------------------===//

#include "exec/ExecInline.h"
#include "exec/FloatFormats.h"
#include "exec/MinMax.h"
#include "exec/Register.h"

#include <cmath>

namespace flysim {
namespace {

inline float half0(const Wave &w, const Inst &i) {
  return halfToFloat(read32(w, i.src[0]) & 0xffff);
}
inline float half1(const Wave &w, const Inst &i) {
  return halfToFloat(read32(w, i.src[1]) & 0xffff);
}


} // namespace

void scalar::registerSaluHalf(OpTable &t) {
  auto add = [&](const char *name, ExecFn exec) {
    OpDef d;
    d.exec = exec;
    t.add(name, d);
  };
#define FLYSIM_UNARY(name, expr)                                                                   \
  add(name, [](Wave &w, const Inst &i) {                                                           \
    float a = half0(w, i);                                                                         \
    write32(w, i.dst, floatToHalf(expr));                                                          \
  })
  FLYSIM_UNARY("s_ceil_f16", std::ceil(a));
  FLYSIM_UNARY("s_floor_f16", std::floor(a));
  FLYSIM_UNARY("s_trunc_f16", std::trunc(a));
  FLYSIM_UNARY("s_rndne_f16", __builtin_roundevenf(a));
#undef FLYSIM_UNARY
#define FLYSIM_BINARY(name, expr)                                                                  \
  add(name, [](Wave &w, const Inst &i) {                                                           \
    float a = half0(w, i), b = half1(w, i);                                                        \
    write32(w, i.dst, floatToHalf(expr));                                                          \
  })
  FLYSIM_BINARY("s_minimum_f16", minProp(a, b));
  FLYSIM_BINARY("s_maximum_f16", maxProp(a, b));
  FLYSIM_BINARY("s_min_num_f16", minNum(a, b));
  FLYSIM_BINARY("s_min_f16", minNum(a, b));
  FLYSIM_BINARY("s_max_f16", maxNum(a, b));
  FLYSIM_BINARY("s_max_num_f16", maxNum(a, b));
#undef FLYSIM_BINARY
#define FLYSIM_COMPARE(name, expr)                                                                 \
  add("s_cmp_" name "_f16", [](Wave &w, const Inst &i) {                                           \
    float a = half0(w, i), b = half1(w, i);                                                        \
    w.scc = (expr) ? 1 : 0;                                                                        \
  })
  FLYSIM_COMPARE("lt", a < b);
  FLYSIM_COMPARE("eq", a == b);
  FLYSIM_COMPARE("le", a <= b);
  FLYSIM_COMPARE("gt", a > b);
  FLYSIM_COMPARE("lg", a < b || a > b);
  FLYSIM_COMPARE("ge", a >= b);
  FLYSIM_COMPARE("o", a == a && b == b);
  FLYSIM_COMPARE("u", a != a || b != b);
  FLYSIM_COMPARE("nge", !(a >= b));
  FLYSIM_COMPARE("nlg", !(a < b || a > b));
  FLYSIM_COMPARE("ngt", !(a > b));
  FLYSIM_COMPARE("nle", !(a <= b));
  FLYSIM_COMPARE("neq", !(a == b));
  FLYSIM_COMPARE("nlt", !(a < b));
#undef FLYSIM_COMPARE
  add("s_quadmask_b32", [](Wave &w, const Inst &i) {
    uint32_t a = read32(w, i.src[0]), r = 0;
    for (unsigned q = 0; q < 8; ++q)
      r |= (a >> (4 * q) & 15 ? 1u : 0u) << q;
    write32(w, i.dst, r);
    w.scc = r != 0;
  });
  add("s_quadmask_b64", [](Wave &w, const Inst &i) {
    uint64_t a = read64(w, i.src[0]), r = 0;
    for (unsigned q = 0; q < 16; ++q)
      r |= (a >> (4 * q) & 15 ? uint64_t(1) : 0) << q;
    write64(w, i.dst, r);
    w.scc = r != 0;
  });
}

} // namespace flysim
