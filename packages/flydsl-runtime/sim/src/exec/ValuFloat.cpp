//===- ValuFloat.cpp - f32 and f64 arithmetic -----------------------------===//

#include "exec/Register.h"
#include "exec/MinMax.h"
#include "exec/Valu.h"

#include <cmath>

namespace flysim {
namespace {

/// Transcendental units treat denormal inputs as zero and flush denormal results.
inline float flush(float a) {
  return (asBits(a) & 0x7f800000) == 0 ? asFloat(asBits(a) & 0x80000000) : a;
}
inline float fract(float a) {
  float r = a - std::floor(a);
  return std::isinf(a) ? NAN : (r > 0x1.fffffep-1f ? 0x1.fffffep-1f : r);
}
inline double fract(double a) {
  double r = a - std::floor(a);
  return std::isinf(a) ? NAN : (r > 0x1.fffffffffffffp-1 ? 0x1.fffffffffffffp-1 : r);
}

inline int exponentOf(float a) { return static_cast<int>(asBits(a) >> 23 & 0xff); }
inline int exponentOf(double a) { return static_cast<int>(asBits(a) >> 52 & 0x7ff); }

/// v_div_scale: decision table of the architecture's division sequence. `minExp` is
/// the exponent of the smallest normal, `shift` the scaling exponent.
template <class T>
inline T divScale(T s0, T den, T num, uint32_t &vcc, int shift, int gap, int tiny) {
  const T up = std::ldexp(T(1), shift), down = std::ldexp(T(1), -shift);
  const T smallest = sizeof(T) == 4 ? T(0x1p-126) : T(0x1p-1022);
  auto denormal = [&](T x) { return x != 0 && std::fabs(x) < smallest; };
  vcc = 0;
  if (den == 0 || num == 0) {
    vcc = 1;
    return T(NAN);
  }
  bool isDen = std::memcmp(&s0, &den, sizeof(T)) == 0;
  bool isNum = std::memcmp(&s0, &num, sizeof(T)) == 0;
  if (exponentOf(num) - exponentOf(den) >= gap) {
    vcc = 1;
    return isDen ? s0 * up : s0;
  }
  if (denormal(den))
    return s0 * up;
  // No quotient of finite numbers that are not zero is zero: one that is rounded to it is below all others.
  bool rcp = denormal(T(1) / den), quot = std::isfinite(den) && std::fabs(num / den) < smallest;
  if (rcp && quot) {
    vcc = 1;
    return isDen ? s0 * down : s0;
  }
  if (rcp)
    return s0 * down;
  if (quot) {
    vcc = 1;
    return isNum ? s0 * up : s0;
  }
  if (exponentOf(num) <= tiny)
    return s0 * up;
  return s0;
}

template <class T> inline T divFixup(T quotient, T den, T num, int under, int special) {
  bool sign = std::signbit(den) != std::signbit(num);
  T zero = sign ? T(-0.0) : T(0), inf = sign ? T(-INFINITY) : T(INFINITY);
  if (num != num)
    return num + num;
  if (den != den)
    return den + den;
  if ((den == 0 && num == 0) || (std::isinf(den) && std::isinf(num)))
    return -T(NAN);
  if (den == 0 || std::isinf(num))
    return inf;
  if (std::isinf(den) || num == 0)
    return zero;
  if (exponentOf(num) - exponentOf(den) < under)
    return zero;
  if (exponentOf(den) == special)
    return inf;
  if (quotient != quotient)
    return inf;
  return sign ? -std::fabs(quotient) : std::fabs(quotient);
}

template <class T> inline T frexpMant(T a) {
  int e;
  return std::isfinite(a) ? std::frexp(a, &e) : a;
}
template <class T> inline int32_t frexpExp(T a) {
  int e = 0;
  if (std::isfinite(a))
    std::frexp(a, &e);
  return e;
}

void arithmetic(ValuBuilder &v) {
  v.op("v_add_f32", [](float a, float b) { return a + b; });
  v.op("v_sub_f32", [](float a, float b) { return a - b; });
  v.op("v_subrev_f32", [](float a, float b) { return b - a; });
  v.op("v_mul_f32", [](float a, float b) { return a * b; });
  v.op("v_mul_legacy_f32", [](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; });
  v.alias("v_mul_dx9_zero_f32", "v_mul_legacy_f32");
  v.op("v_fma_f32", [](float a, float b, float c) { return __builtin_fmaf(a, b, c); });
  v.op("v_fmac_f32", [](float a, float b, float c) { return __builtin_fmaf(a, b, c); }, kTied);
  v.op("v_mac_f32", [](float a, float b, float c) { return a * b + c; }, kTied);
  v.op("v_mad_f32", [](float a, float b, float c) { return a * b + c; });
  v.op("v_mad_legacy_f32", [](float a, float b, float c) { return (a == 0 || b == 0 ? 0.0f : a * b) + c; });
  v.op("v_madmk_f32", [](float a, float b, float k) { return a * k + b; });
  v.op("v_madak_f32", [](float a, float b, float k) { return a * b + k; });
  v.op("v_fmamk_f32", [](float a, float b, float k) { return __builtin_fmaf(a, k, b); });
  v.op("v_fmaak_f32", [](float a, float b, float k) { return __builtin_fmaf(a, b, k); });
  v.op("v_add_f64", [](double a, double b) { return a + b; });
  v.op("v_mul_f64", [](double a, double b) { return a * b; });
  v.op("v_fma_f64", [](double a, double b, double c) { return __builtin_fma(a, b, c); });
  v.op("v_fmac_f64", [](double a, double b, double c) { return __builtin_fma(a, b, c); }, kTied);
  v.alias("v_add_f64_e32", "v_add_f64");
  v.op("v_pk_add_f32", [](PF a, PF b) { return PF{a.lo + b.lo, a.hi + b.hi}; });
  v.op("v_pk_mul_f32", [](PF a, PF b) { return PF{a.lo * b.lo, a.hi * b.hi}; });
  v.op("v_pk_fma_f32", [](PF a, PF b, PF c) {
    return PF{__builtin_fmaf(a.lo, b.lo, c.lo), __builtin_fmaf(a.hi, b.hi, c.hi)};
  });
  v.op("v_fma_mix_f32",
       [](MixF a, MixF b, MixF c) { return __builtin_fmaf(a.f, b.f, c.f); });
  v.op("v_fma_mixlo_f16", [](MixF a, MixF b, MixF c) {
    return H16{uint16_t(doubleToHalf(__builtin_fma(a.f, b.f, c.f)))};
  }, kKeepHigh);
  v.op("v_fma_mixhi_f16", [](MixF a, MixF b, MixF c) {
    return H16{uint16_t(doubleToHalf(__builtin_fma(a.f, b.f, c.f)))};
  }, kKeepHigh | kMixHigh);
}

void minMax(ValuBuilder &v) {
  v.ieee("v_min_f32", [](float a, float b) { return Ieee::min(a, b); },
         [](float a, float b) { return Plain::min(a, b); });
  v.ieee("v_max_f32", [](float a, float b) { return Ieee::max(a, b); },
         [](float a, float b) { return Plain::max(a, b); });
  v.ieee("v_min3_f32", [](float a, float b, float c) { return min3<Ieee>(a, b, c); },
         [](float a, float b, float c) { return min3<Plain>(a, b, c); });
  v.ieee("v_max3_f32", [](float a, float b, float c) { return max3<Ieee>(a, b, c); },
         [](float a, float b, float c) { return max3<Plain>(a, b, c); });
  v.ieee("v_med3_f32", [](float a, float b, float c) { return med3<Ieee>(a, b, c); },
         [](float a, float b, float c) { return med3<Plain>(a, b, c); });
  v.op("v_min_num_f32", [](float a, float b) { return minNum(a, b); });
  v.op("v_max_num_f32", [](float a, float b) { return maxNum(a, b); });
  v.op("v_minimum_f32", [](float a, float b) { return minProp(a, b); });
  v.op("v_maximum_f32", [](float a, float b) { return maxProp(a, b); });
  v.op("v_min3_num_f32", [](float a, float b, float c) { return min3<Number>(a, b, c); });
  v.op("v_max3_num_f32", [](float a, float b, float c) { return max3<Number>(a, b, c); });
  v.op("v_med3_num_f32", [](float a, float b, float c) { return med3<Number>(a, b, c); });
  v.op("v_minimum3_f32", [](float a, float b, float c) { return minProp(minProp(a, b), c); });
  v.op("v_maximum3_f32", [](float a, float b, float c) { return maxProp(maxProp(a, b), c); });
  v.op("v_maxmin_num_f32", [](float a, float b, float c) { return minNum(maxNum(a, b), c); });
  v.op("v_minmax_num_f32", [](float a, float b, float c) { return maxNum(minNum(a, b), c); });
  v.alias("v_maxmin_f32", "v_maxmin_num_f32");
  v.alias("v_minmax_f32", "v_minmax_num_f32");
  v.op("v_maximumminimum_f32",
       [](float a, float b, float c) { return minProp(maxProp(a, b), c); });
  v.op("v_minimummaximum_f32",
       [](float a, float b, float c) { return maxProp(minProp(a, b), c); });
  v.ieee("v_min_f64", [](double a, double b) { return Ieee::min(a, b); },
         [](double a, double b) { return Plain::min(a, b); });
  v.ieee("v_max_f64", [](double a, double b) { return Ieee::max(a, b); },
         [](double a, double b) { return Plain::max(a, b); });
  v.op("v_min_num_f64", [](double a, double b) { return minNum(a, b); });
  v.op("v_max_num_f64", [](double a, double b) { return maxNum(a, b); });
  v.op("v_minimum_f64", [](double a, double b) { return minProp(a, b); });
  v.op("v_maximum_f64", [](double a, double b) { return maxProp(a, b); });
}

void roundings(ValuBuilder &v) {
  v.op("v_floor_f32", [](float a) { return std::floor(a); });
  v.op("v_ceil_f32", [](float a) { return std::ceil(a); });
  v.op("v_trunc_f32", [](float a) { return std::trunc(a); });
  v.op("v_rndne_f32", [](float a) { return __builtin_roundevenf(a); });
  v.op("v_fract_f32", [](float a) { return fract(a); });
  v.op("v_floor_f64", [](double a) { return std::floor(a); });
  v.op("v_ceil_f64", [](double a) { return std::ceil(a); });
  v.op("v_trunc_f64", [](double a) { return std::trunc(a); });
  v.op("v_rndne_f64", [](double a) { return __builtin_roundeven(a); });
  v.op("v_fract_f64", [](double a) { return fract(a); });
  v.op("v_ldexp_f32", [](float a, int32_t b) { return std::ldexp(a, b); });
  v.op("v_ldexp_f64", [](double a, int32_t b) { return std::ldexp(a, b); });
  v.op("v_frexp_mant_f32", [](float a) { return frexpMant(a); });
  v.op("v_frexp_mant_f64", [](double a) { return frexpMant(a); });
  v.op("v_frexp_exp_i32_f32", [](float a) { return frexpExp(a); });
  v.op("v_frexp_exp_i32_f64", [](double a) { return frexpExp(a); });
}

void transcendental(ValuBuilder &v) {
  v.op("v_rcp_f32", [](float a) { return flush(1.0f / flush(a)); }, kApprox);
  v.alias("v_rcp_iflag_f32", "v_rcp_f32");
  v.op("v_rsq_f32", [](float a) { return flush(float(1.0 / std::sqrt(double(flush(a))))); },
       kApprox);
  v.op("v_sqrt_f32", [](float a) { return std::sqrt(flush(a)); }, kApprox);
  v.op("v_exp_f32", [](float a) { return flush(float(std::exp2(double(flush(a))))); }, kApprox);
  v.op("v_log_f32", [](float a) { return float(std::log2(double(flush(a)))); }, kApprox);
  v.op("v_sin_f32", [](float a) { return trigonometric(flush(a), 0); }, kApprox);
  v.op("v_cos_f32", [](float a) { return trigonometric(flush(a), 1); }, kApprox);
  v.op("v_tanh_f32", [](float a) { return float(std::tanh(double(a))); }, kApprox);
  v.op("v_rcp_f64", [](double a) { return 1.0 / a; }, kApprox);
  v.op("v_rsq_f64", [](double a) { return 1.0 / std::sqrt(a); }, kApprox);
  v.op("v_sqrt_f64", [](double a) { return std::sqrt(a); }, kApprox);
  for (const char *n : {"rcp", "rsq", "sqrt", "exp", "log"}) {
    std::string scalar = std::string("v_s_") + n + "_f32";
    v.alias(scalar.c_str(), (std::string("v_") + n + "_f32").c_str());
  }
}

/// Sum of a product that is exact and an addend, rounded to odd: the number next to the sum that
/// has an odd last place, unless the sum itself is representable. Rounding it again, to a format
/// with at least two places less, gives what one rounding of the sum gives.
template <class Wide, class Bits> inline Wide sumToOdd(Wide product, Wide c) {
  Wide sum = product + c, part = sum - product;
  Wide error = (product - (sum - part)) + (c - part);
  Bits bits = bitCast<Bits>(sum);
  // Not for infinities and NaNs, whose error is a NaN.
  bool inexact = error < 0 || error > 0;
  bool outward = (error > 0) == (sum > 0);
  bits += inexact && !(bits & 1) ? (outward ? Bits(1) : ~Bits(0)) : Bits(0);
  return bitCast<Wide>(bits);
}

inline double fmaToOdd(float a, float b, float c) {
  return sumToOdd<double, uint64_t>(double(a) * double(b), double(c));
}

/// fma(a, b, c) / 2^128 with one rounding, to a denormal number too.
double scaledFma(double a, double b, double c) {
#ifdef __SIZEOF_FLOAT128__
  using Wide = __float128;
#else
  using Wide = long double; // binary128
#endif
  static_assert(sizeof(Wide) == 16, "");
  constexpr double kDown = 0x1p-64;
  Wide sum = sumToOdd<Wide, unsigned __int128>(Wide(a) * Wide(b), Wide(c));
  return static_cast<double>(sum * Wide(kDown) * Wide(kDown));
}

void division(ValuBuilder &v) {
  v.carry("v_div_scale_f32",
          [](float a, float b, float c, uint32_t, uint32_t &vcc) {
            return divScale(a, b, c, vcc, 64, 96, 23);
          },
          kCarryOut);
  v.carry("v_div_scale_f64",
          [](double a, double b, double c, uint32_t, uint32_t &vcc) {
            return divScale(a, b, c, vcc, 128, 768, 53);
          },
          kCarryOut);
  v.carry("v_div_fmas_f32",
          [](float a, float b, float c, uint32_t vcc, uint32_t &) {
            double r = fmaToOdd(a, b, c);
            return float(vcc ? r * (exponentOf(c) > 127 ? 0x1p64 : 0x1p-64) : r);
          },
          kCarryIn | kUsesVccIn);
  v.carry("v_div_fmas_f64",
          [](double a, double b, double c, uint32_t vcc, uint32_t &) {
            if (vcc && exponentOf(c) <= 1023)
              return scaledFma(a, b, c);
            double r = __builtin_fma(a, b, c);
            return vcc ? r * 0x1p128 : r;
          },
          kCarryIn | kUsesVccIn);
  v.op("v_div_fixup_f32",
       [](float q, float d, float n) { return divFixup(q, d, n, -150, 255); });
  v.op("v_div_fixup_f64",
       [](double q, double d, double n) { return divFixup(q, d, n, -1075, 2047); });
}

} // namespace

void FLYSIM_LEVEL::registerValuFloat(OpTable &table) {
  ValuBuilder v(table);
  arithmetic(v);
  minMax(v);
  roundings(v);
  transcendental(v);
  division(v);
}

} // namespace flysim
