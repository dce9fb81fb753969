//===- FloatFormats.h - conversions between number formats -----*- C++ -*-===//
//
// Branch-free scalar code that the compiler vectorises inside lane loops. All
// conversions round to nearest even unless they say otherwise.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_FLOATFORMATS_H
#define FLYSIM_EXEC_FLOATFORMATS_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace flysim {
namespace {

inline float asFloat(uint32_t b) {
  float f;
  memcpy(&f, &b, 4);
  return f;
}
inline uint32_t asBits(float f) {
  uint32_t b;
  memcpy(&b, &f, 4);
  return b;
}
inline double asDouble(uint64_t b) {
  double f;
  memcpy(&f, &b, 8);
  return f;
}
inline uint64_t asBits(double f) {
  uint64_t b;
  memcpy(&b, &f, 8);
  return b;
}

/// IEEE half to float, exact.
inline float halfToFloat(uint32_t h) {
  uint32_t em = (h & 0x7fff) << 13;
  // The multiplication renormalises denormals: 2^(127-15).
  uint32_t r = asBits(asFloat(em) * 0x1p112f);
  r = (h & 0x7fff) >= 0x7c00 ? (em | 0x7f800000) : r;
  return asFloat(r | (h & 0x8000) << 16);
}

/// Float to IEEE half, round to nearest even; NaNs stay quiet.
inline uint32_t floatToHalf(float f) {
  uint32_t u = asBits(f), sign = u >> 16 & 0x8000;
  u &= 0x7fffffff;
  uint32_t nan = 0x7e00 | (u >> 13 & 0x3ff);
  uint32_t denorm = asBits(asFloat(u) + 0.5f) - 0x3f000000;
  uint32_t norm = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
  uint32_t r = u < 0x38800000 ? denorm : norm;
  r = u >= 0x47800000 ? 0x7c00 : r;
  r = u > 0x7f800000 ? nan : r;
  return r | sign;
}

/// Double to IEEE half with one rounding.
inline uint32_t doubleToHalf(double d) {
  // Rounding to odd in float keeps the information that the second rounding needs.
  float f = static_cast<float>(d);
  uint32_t u = asBits(f);
  double back = f;
  if (back != d && !(u & 1) && back == back) {
    bool tooBig = std::fabs(back) > std::fabs(d);
    u = tooBig ? u - 1 : u + 1;
  }
  return floatToHalf(asFloat(u));
}

/// Float to IEEE half, toward zero (v_cvt_pkrtz_f16_f32): overflow gives 65504.
inline uint32_t floatToHalfRtz(float f) {
  uint32_t u = asBits(f), sign = u >> 16 & 0x8000;
  u &= 0x7fffffff;
  uint32_t nan = 0x7e00 | (u >> 13 & 0x3ff);
  int shift = 126 - static_cast<int>(u >> 23); // denormals: 0x1.m * 2^e -> integer of 2^-24
  uint32_t mant = (u & 0x7fffff) | 0x800000;
  uint32_t denorm = shift > 24 || shift < 0 ? 0 : mant >> (shift > 31 ? 31 : shift);
  uint32_t r = u < 0x38800000 ? denorm : (u - (112u << 23)) >> 13;
  r = u >= 0x47800000 ? 0x7bff : r;
  r = u == 0x7f800000 ? 0x7c00 : r;
  r = u > 0x7f800000 ? nan : r;
  return r | sign;
}

inline float bf16ToFloat(uint32_t b) { return asFloat(b << 16); }

//===--- 8-, 6- and 4-bit formats ------------------------------------------===//

/// Special values of a small format.
enum class Small : uint8_t {
  Finite, ///< every code is a number (fp6, bf6, fp4)
  Ocp,    ///< e4m3fn: all ones is NaN
  Ieee,   ///< e5m2: the largest exponent means infinity and NaN
  Fnuz,   ///< the code of -0 is the only NaN
};

/// Format facts: exponent and mantissa bits, bias, special values.
template <unsigned E, unsigned M, int B, Small S> struct SmallFormat {
  static constexpr unsigned exponent = E, mantissa = M, width = 1 + E + M;
  static constexpr int bias = B;
  static constexpr Small special = S;
};
using Fp8Ocp = SmallFormat<4, 3, 7, Small::Ocp>;
using Bf8Ocp = SmallFormat<5, 2, 15, Small::Ieee>;
using Fp8Fnuz = SmallFormat<4, 3, 8, Small::Fnuz>;
using Bf8Fnuz = SmallFormat<5, 2, 16, Small::Fnuz>;
using Fp6E2m3 = SmallFormat<2, 3, 1, Small::Finite>;
using Bf6E3m2 = SmallFormat<3, 2, 3, Small::Finite>;
using Fp4E2m1 = SmallFormat<2, 1, 1, Small::Finite>;

/// The value of a code given in the lowest bits (higher bits are ignored), exact.
template <class F> inline float smallToFloat(uint32_t code) {
  constexpr unsigned shift = 23 - F::mantissa, sign = F::width - 1;
  constexpr uint32_t mask = (1u << sign) - 1;
  uint32_t mag = code & mask;
  // Denormals get the smallest normal exponent and lose their leading one again: no
  // float denormal appears, which MODE could flush and some CPUs handle slowly.
  uint32_t tiny = mag >> F::mantissa ? 0 : 1;
  uint32_t moved = (mag << shift) + ((uint32_t(127 - F::bias) + tiny) << 23);
  uint32_t r = asBits(asFloat(moved) - asFloat(tiny * (uint32_t(128 - F::bias) << 23)));
  if constexpr (F::special == Small::Ocp)
    r = mag == mask ? 0x7fc00000u : r;
  if constexpr (F::special == Small::Ieee)
    if (mag >= ((mask >> F::mantissa) << F::mantissa))
      r = (mag & ((1u << F::mantissa) - 1)) ? 0x7fc00000u | mag << shift : 0x7f800000u;
  r |= (code >> sign & 1) << 31;
  if constexpr (F::special == Small::Fnuz)
    r = r == 0x80000000u ? 0x7fc00000u : r;
  return asFloat(r);
}

inline uint32_t floatToBf16(float f) {
  uint32_t u = asBits(f);
  uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) & 0xffff : r;
}

/// a * b + c with one rounding. The sum is kept odd where it is inexact, so that rounding it once
/// more to the eight bits of bf16 gives what the exact sum would.
inline uint32_t fusedBf16(float a, float b, float c) {
  const double product = double(a) * b, sum = product + c; // the product is exact
  if (!(__builtin_fabs(sum) <= 3.5e38))
    return floatToBf16(__builtin_fmaf(a, b, c)); // infinite, NaN, or beyond float
  const double part = sum - product, error = (product - (sum - part)) + (c - part);
  auto f = static_cast<float>(sum);
  // What is missing from f, exactly enough for its sign.
  const double missing = (sum - f) + error;
  if (missing != 0 && f == 0)
    f = missing < 0 ? -asFloat(1) : asFloat(1);
  else if (missing != 0) {
    // Toward zero, then odd: the sign stays, of the smallest number too.
    const bool away = (missing < 0) == (f > 0);
    f = asFloat((asBits(f) - away) | 1);
  }
  return floatToBf16(f);
}

//===--- encoding, with the scaling and stochastic rounding of conversions ---===//

using HalfFormat = SmallFormat<5, 10, 15, Small::Ieee>;
using Bf16Format = SmallFormat<8, 7, 127, Small::Ieee>;

template <class F> struct SmallCodes {
  static constexpr uint32_t all = (1u << (F::width - 1)) - 1;
  static constexpr uint32_t top = all >> F::mantissa << F::mantissa;
  static constexpr uint32_t largest = F::special == Small::Ieee  ? top - 1
                                      : F::special == Small::Ocp ? all - 1
                                                                 : all;
  static constexpr uint32_t nan = F::special == Small::Ieee   ? top | 1u << (F::mantissa - 1)
                                  : F::special == Small::Fnuz ? all + 1
                                                              : all;
  static constexpr uint32_t inf = F::special == Small::Ieee ? top : nan;
};

/// The code of `bits` / 2^down (bits of a float). Rounds to nearest even, or, if
/// kStochastic, adds the highest bits of `random` to the bits that are dropped and
/// truncates. Formats with only finite codes saturate (NaN gives the largest
/// magnitude); others overflow to infinity, else to NaN, or to the largest number if
/// `clampOverflow` (MODE.FP16_OVFL) is set and the source is finite.
template <class F, bool kStochastic>
inline uint32_t encodeSmall(uint32_t bits, int down, uint32_t random, bool clampOverflow) {
  constexpr unsigned M = F::mantissa;
  constexpr int lowest = 1 - F::bias;
  using C = SmallCodes<F>;
  uint32_t mag = bits & 0x7fffffff, sign = bits >> 31 << (F::width - 1);
  bool tiny = mag < 0x00800000;
  uint32_t norm = tiny ? asBits(float(int32_t(mag))) : mag; // a float denormal, times 2^149
  int e = int(norm >> 23) - 127 - (tiny ? 149 : 0) - down;
  uint32_t sig = mag ? (norm & 0x7fffff) | 0x800000 : 0;
  int extra = lowest - e;
  extra = extra < 0 ? 0 : extra;
  int wanted = int(23 - M) + extra;
  unsigned shift = unsigned(wanted > 31 ? 31 : wanted), lost = unsigned(wanted) - shift;
  sig >>= lost > 31 ? 31 : lost;
  uint32_t add = kStochastic ? random >> (32 - shift)
                             : (1u << (shift - 1)) - 1 + (sig >> shift & 1);
  uint32_t q = (sig + add) >> shift;
  int above = e < lowest ? 0 : e - lowest;
  uint32_t code = (uint32_t(above) << M) + q;
  code = code > C::largest ? (F::special == Small::Finite || clampOverflow ? C::largest : C::inf)
                           : code;
  code = mag == 0x7f800000 ? C::inf : code;
  code = mag > 0x7f800000 ? C::nan : code;
  if constexpr (F::special == Small::Fnuz)
    return code == 0 || code == C::nan ? code : code | sign;
  return code | sign;
}

/// Normalised 16-bit integers of [-1, 1] and [0, 1], rounded once: the products are exact in double.
inline uint32_t signedNorm16(float a) {
  const float x = a != a ? 0.0f : a < -1.0f ? -1.0f : a > 1.0f ? 1.0f : a;
  return static_cast<uint32_t>(static_cast<int32_t>(__builtin_rint(x * 32767.0))) & 0xffff;
}
inline uint32_t unsignedNorm16(float a) {
  const float x = a != a ? 0.0f : a < 0.0f ? 0.0f : a > 1.0f ? 1.0f : a;
  return static_cast<uint32_t>(static_cast<int32_t>(__builtin_rint(x * 65535.0)));
}

/// sin (shift 0) or cos (1) of `x` revolutions, reduced exactly by quarter turns.
inline double sineOfTurns(double x, unsigned shift) {
  double quarters = std::rint(4 * x), r = (x - quarters * 0.25) * 6.283185307179586477;
  switch ((static_cast<unsigned>(static_cast<int64_t>(quarters)) + shift) & 3) {
  case 0:
    return std::sin(r);
  case 1:
    return std::cos(r);
  case 2:
    return 0.0 - std::sin(r);
  default:
    return 0.0 - std::cos(r);
  }
}

/// v_sin_* (shift 0) and v_cos_* (1): beyond 256 revolutions as of none, and the sine of a zero is
/// that zero (functional examples of V_SIN_F32 in the RDNA3 ISA).
inline float trigonometric(float x, unsigned shift) {
  if (!(std::fabs(x) <= 256.0f))
    return std::isfinite(x) ? float(shift) : x - x; // a NaN
  return x == 0 && shift == 0 ? x : static_cast<float>(sineOfTurns(x, shift));
}

} // namespace
} // namespace flysim

#endif
