//===- ValuCompare.cpp - v_cmp and v_cmpx ---------------------------------===//

#include "exec/Register.h"
#include "exec/Valu.h"

#include <cmath>

namespace flysim {
namespace {

template <class T> void integers(ValuBuilder &v, const std::string &type) {
  v.cmp("f_" + type, [](T, T) { return false; });
  v.cmp("lt_" + type, [](T a, T b) { return a < b; });
  v.cmp("eq_" + type, [](T a, T b) { return a == b; });
  v.cmp("le_" + type, [](T a, T b) { return a <= b; });
  v.cmp("gt_" + type, [](T a, T b) { return a > b; });
  v.cmp("ne_" + type, [](T a, T b) { return a != b; });
  v.cmp("ge_" + type, [](T a, T b) { return a >= b; });
  v.cmp("t_" + type, [](T, T) { return true; });
}

inline float value(float a) { return a; }
inline double value(double a) { return a; }
inline float value(H16 a) { return halfToFloat(a.bits); }
inline float value(BF a) { return bf16ToFloat(a.bits); }

template <class T> void floats(ValuBuilder &v, const std::string &type) {
  v.cmp("f_" + type, [](T, T) { return false; });
  v.cmp("lt_" + type, [](T a, T b) { return value(a) < value(b); });
  v.cmp("eq_" + type, [](T a, T b) { return value(a) == value(b); });
  v.cmp("le_" + type, [](T a, T b) { return value(a) <= value(b); });
  v.cmp("gt_" + type, [](T a, T b) { return value(a) > value(b); });
  v.cmp("lg_" + type, [](T a, T b) { return value(a) < value(b) || value(a) > value(b); });
  v.cmp("ge_" + type, [](T a, T b) { return value(a) >= value(b); });
  v.cmp("o_" + type, [](T a, T b) { return value(a) == value(a) && value(b) == value(b); });
  v.cmp("u_" + type, [](T a, T b) { return value(a) != value(a) || value(b) != value(b); });
  v.cmp("nge_" + type, [](T a, T b) { return !(value(a) >= value(b)); });
  v.cmp("nlg_" + type, [](T a, T b) { return !(value(a) < value(b) || value(a) > value(b)); });
  v.cmp("ngt_" + type, [](T a, T b) { return !(value(a) > value(b)); });
  v.cmp("nle_" + type, [](T a, T b) { return !(value(a) <= value(b)); });
  v.cmp("neq_" + type, [](T a, T b) { return !(value(a) == value(b)); });
  v.cmp("nlt_" + type, [](T a, T b) { return !(value(a) < value(b)); });
  v.cmp("tru_" + type, [](T, T) { return true; });
  v.cmp("t_" + type, [](T, T) { return true; }); // the same on gfx11
}

/// Bit of v_cmp_class's mask for a value with the given fields.
inline uint32_t classBit(bool sign, bool maxExp, bool zeroExp, bool zeroMant, bool quiet) {
  if (maxExp)
    return zeroMant ? (sign ? 2 : 9) : (quiet ? 1 : 0);
  if (zeroExp)
    return zeroMant ? (sign ? 5 : 6) : (sign ? 4 : 7);
  return sign ? 3 : 8;
}

void classes(ValuBuilder &v) {
  v.cmp("class_f32", [](float a, uint32_t mask) {
    uint32_t b = asBits(a), e = b >> 23 & 0xff, m = b & 0x7fffff;
    return (mask >> classBit(b >> 31, e == 255, e == 0, m == 0, m >> 22) & 1) != 0;
  });
  v.cmp("class_f64", [](double a, uint32_t mask) {
    uint64_t b = asBits(a), e = b >> 52 & 0x7ff, m = b & 0xfffffffffffffull;
    return (mask >> classBit(b >> 63, e == 2047, e == 0, m == 0, m >> 51) & 1) != 0;
  });
  v.cmp("class_f16", [](H16 a, uint32_t mask) {
    uint32_t b = a.bits, e = b >> 10 & 0x1f, m = b & 0x3ff;
    return (mask >> classBit(b >> 15, e == 31, e == 0, m == 0, m >> 9) & 1) != 0;
  });
}

} // namespace

void FLYSIM_LEVEL::registerValuCompare(OpTable &table) {
  ValuBuilder v(table);
  integers<uint32_t>(v, "u32");
  integers<int32_t>(v, "i32");
  integers<uint64_t>(v, "u64");
  integers<int64_t>(v, "i64");
  integers<uint16_t>(v, "u16");
  integers<int16_t>(v, "i16");
  floats<float>(v, "f32");
  floats<double>(v, "f64");
  floats<H16>(v, "f16");
  classes(v);
}

} // namespace flysim
