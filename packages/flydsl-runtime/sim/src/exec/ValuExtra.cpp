//===- ValuExtra.cpp - less common VALU arithmetic ------------------------===//
//
// Cube maps, sums of absolute differences, packed three-operand minima, saturating
// packs, nibble dot products, the f16 and bf16 forms of gfx12 and gfx1250.
//
//===----------------------------------------------------------------------===//

#include "exec/MinMax.h"
#include "exec/Register.h"
#include "exec/Valu.h"

#include <cmath>

namespace flysim {
namespace {

using u16 = uint16_t;
using i16 = int16_t;
using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;

inline H16 half(float f) { return H16{static_cast<u16>(floatToHalf(f))}; }
inline float f(H16 h) { return halfToFloat(h.bits); }
inline float f(BF b) { return bf16ToFloat(b.bits); }
inline BF bf(float x) { return BF{static_cast<u16>(floatToBf16(x))}; }
inline u32 lo(u32 v) { return v & 0xffff; }
inline u32 hi(u32 v) { return v >> 16; }


//===--- cube maps ---------------------------------------------------------===//

/// 0, 1, 2 for a major axis of x, y, z; ties go to z, then y.
inline int majorAxis(float x, float y, float z) {
  float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  return az >= ax && az >= ay ? 2 : ay >= ax ? 1 : 0;
}

void cubes(ValuBuilder &v) {
  v.op("v_cubeid_f32", [](float x, float y, float z) {
    int axis = majorAxis(x, y, z);
    float m = axis == 2 ? z : axis == 1 ? y : x;
    return float(2 * axis + (m < 0 ? 1 : 0));
  });
  v.op("v_cubema_f32", [](float x, float y, float z) {
    int axis = majorAxis(x, y, z);
    return 2.0f * (axis == 2 ? z : axis == 1 ? y : x);
  });
  v.op("v_cubesc_f32", [](float x, float y, float z) {
    int axis = majorAxis(x, y, z);
    return axis == 2 ? (z < 0 ? -x : x) : axis == 1 ? x : (x < 0 ? z : -z);
  });
  v.op("v_cubetc_f32", [](float x, float y, float z) {
    int axis = majorAxis(x, y, z);
    return axis == 1 ? (y < 0 ? -z : z) : -y;
  });
}

//===--- sums of absolute differences --------------------------------------===//

inline u32 absDiffs(u32 a, u32 b, bool masked) {
  u32 sum = 0;
  for (int k = 0; k < 32; k += 8) {
    u32 x = a >> k & 0xff, y = b >> k & 0xff;
    sum += masked && y == 0 ? 0 : x > y ? x - y : y - x;
  }
  return sum;
}

template <bool masked> u64 quadSad(u64 a, u32 b, u64 c) {
  u64 r = 0;
  for (int k = 0; k < 4; ++k) {
    u32 sum = absDiffs(static_cast<u32>(a >> (8 * k)), b, masked) +
              static_cast<u32>(c >> (16 * k) & 0xffff);
    r |= u64(sum & 0xffff) << (16 * k);
  }
  return r;
}

/// v_mqsad_u32_u8: four 32-bit sums.
void mqsad32(Wave &w, const Inst &i) {
  const u32 *a = fetchRaw(w, i.src[0], 2, w.tmp->src[0]);
  const u32 *b = fetchRaw(w, i.src[1], 1, w.tmp->src[1]);
  const u32 *c = fetchRaw(w, i.src[2], 4, w.tmp->src[2]);
  u32 *out = w.tmp->dst;
  for (unsigned l = 0; l < w.lanes; ++l) {
    u64 x = a[l] | u64(a[kRow + l]) << 32;
    for (unsigned k = 0; k < 4; ++k)
      out[k * kRow + l] = absDiffs(static_cast<u32>(x >> (8 * k)), b[l], true) + c[k * kRow + l];
  }
  u32 *d = row(w, i.dst);
  for (unsigned k = 0; k < 4; ++k)
    blend(d + k * kRow, out + k * kRow, w.exec(), w.lanes);
}

void sads(ValuBuilder &v) {
  v.op("v_msad_u8", [](u32 a, u32 b, u32 c) { return absDiffs(a, b, true) + c; });
  v.op("v_qsad_pk_u16_u8", [](u64 a, u32 b, u64 c) { return quadSad<false>(a, b, c); });
  v.op("v_mqsad_pk_u16_u8", [](u64 a, u32 b, u64 c) { return quadSad<true>(a, b, c); });
  OpDef d;
  d.exec = mqsad32;
  d.nsrc = 3;
  d.dst = Num::B32;
  v.table.add("v_mqsad_u32_u8", d);
}

//===--- integers ----------------------------------------------------------===//

inline i32 clampTo(i32 v, i32 low, i32 high) { return v < low ? low : v > high ? high : v; }
inline i32 clampI32(int64_t v) {
  return static_cast<i32>(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}
inline u32 clampU32(u64 v) { return v > UINT32_MAX ? UINT32_MAX : static_cast<u32>(v); }

inline i32 dot8(u32 a, u32 b, bool sa, bool sb) {
  i32 sum = 0;
  for (int k = 0; k < 32; k += 4) {
    i32 x = sa ? static_cast<i32>(a << (28 - k)) >> 28 : static_cast<i32>(a >> k & 15);
    i32 y = sb ? static_cast<i32>(b << (28 - k)) >> 28 : static_cast<i32>(b >> k & 15);
    sum += x * y;
  }
  return sum;
}
inline i32 dot4(u32 a, u32 b, bool sa, bool sb) {
  i32 sum = 0;
  for (int k = 0; k < 32; k += 8) {
    i32 x = sa ? static_cast<int8_t>(a >> k) : static_cast<i32>(a >> k & 0xff);
    i32 y = sb ? static_cast<int8_t>(b >> k) : static_cast<i32>(b >> k & 0xff);
    sum += x * y;
  }
  return sum;
}

/// v_dot{4,8}_i32_iu*: the neg bits of a source say that it is signed.
template <i32 (*dot)(u32, u32, bool, bool), bool saturate> void dotMixed(const LaneArgs &a) {
  const bool sa = a.imm & 1, sb = a.imm & 2;
  FLYSIM_LANES(i32 sum = dot(a.s[0][i], a.s[1][i], sa, sb); i32 c = static_cast<i32>(a.s[2][i]);
               a.d[i] = saturate ? static_cast<u32>(clampI32(int64_t(sum) + c))
                                 : static_cast<u32>(sum) + static_cast<u32>(c););
}

template <class Op> inline P16 pack3(P16 a, P16 b, P16 c, Op op) {
  return P16{lo(static_cast<u32>(op(lo(a.bits), lo(b.bits), lo(c.bits)))) |
             static_cast<u32>(op(hi(a.bits), hi(b.bits), hi(c.bits))) << 16};
}
inline i32 s16(u32 v) { return static_cast<i16>(v); }

void integers(ValuBuilder &v) {
  v.sat("v_dot8_u32_u4",
        [](u32 a, u32 b, u32 c) { return static_cast<u32>(dot8(a, b, false, false)) + c; },
        [](u32 a, u32 b, u32 c) {
          return clampU32(u64(static_cast<u32>(dot8(a, b, false, false))) + c);
        });
  v.sat("v_dot8_i32_i4",
        [](u32 a, u32 b, u32 c) { return static_cast<u32>(dot8(a, b, true, true)) + c; },
        [](u32 a, u32 b, i32 c) { return clampI32(int64_t(dot8(a, b, true, true)) + c); });
  v.op("v_dot8c_i32_i4",
       [](u32 a, u32 b, u32 c) { return static_cast<u32>(dot8(a, b, true, true)) + c; }, kTied);
  v.op("v_dot2c_i32_i16", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>(s16(a)) * static_cast<u32>(s16(b)) +
           static_cast<u32>(s16(a >> 16)) * static_cast<u32>(s16(b >> 16)) + c;
  }, kTied);
  OpDef d;
  d.exec = FLYSIM_LEVEL::execVop;
  d.dst = d.src[0] = d.src[1] = d.src[2] = Num::B32;
  d.nsrc = 3;
  d.flags = kRawMods;
  d.lane = dotMixed<dot4, false>;
  d.laneSat = dotMixed<dot4, true>;
  v.table.add("v_dot4_i32_iu8", d);
  d.lane = dotMixed<dot8, false>;
  d.laneSat = dotMixed<dot8, true>;
  v.table.add("v_dot8_i32_iu4", d);

  v.op("v_sat_pk_u8_i16", [](u32 a) {
    return u16(static_cast<u32>(clampTo(s16(a), 0, 255)) |
               static_cast<u32>(clampTo(s16(a >> 16), 0, 255)) << 8);
  });
  v.op("v_sat_pk4_i4_i8", [](u32 a) {
    u32 r = 0;
    for (int k = 0; k < 4; ++k)
      r |= (static_cast<u32>(clampTo(static_cast<int8_t>(a >> (8 * k)), -8, 7)) & 15) << (4 * k);
    return u16(r);
  });
  v.op("v_sat_pk4_u4_u8", [](u32 a) {
    u32 r = 0;
    for (int k = 0; k < 4; ++k)
      r |= static_cast<u32>(clampTo(static_cast<i32>(a >> (8 * k) & 0xff), 0, 15)) << (4 * k);
    return u16(r);
  });
  v.op("v_ashr_pk_i8_i32", [](i32 a, i32 b, u32 c) {
    return u16((static_cast<u32>(clampTo(a >> (c & 31), -128, 127)) & 0xff) |
               (static_cast<u32>(clampTo(b >> (c & 31), -128, 127)) & 0xff) << 8);
  });
  v.op("v_ashr_pk_u8_i32", [](i32 a, i32 b, u32 c) {
    return u16(static_cast<u32>(clampTo(a >> (c & 31), 0, 255)) |
               static_cast<u32>(clampTo(b >> (c & 31), 0, 255)) << 8);
  });
  v.op("v_prng_b32", [](u32 a) { return a << 1 ^ (a >> 31 ? 197u : 0u); });

  // The sum saturates with and without the clamp bit: LLVM makes these of saturating additions only, and
  // without that bit.
#define FLYSIM_ADD3(name, T, sum, pick)                                                            \
  v.sat(name, [](T a, T b, T c) { return T(pick(T(sum), c)); },                                    \
        [](T a, T b, T c) { return T(pick(T(sum), c)); })
  FLYSIM_ADD3("v_add_max_i32", i32, clampI32(int64_t(a) + b), std::max);
  FLYSIM_ADD3("v_add_min_i32", i32, clampI32(int64_t(a) + b), std::min);
  FLYSIM_ADD3("v_add_max_u32", u32, clampU32(u64(a) + b), std::max);
  FLYSIM_ADD3("v_add_min_u32", u32, clampU32(u64(a) + b), std::min);
#undef FLYSIM_ADD3
#define FLYSIM_PK3(name, expr)                                                                     \
  v.op(name, [](P16 a, P16 b, P16 c) {                                                             \
    return pack3(a, b, c, [](u32 x, u32 y, u32 z) { return expr; });                               \
  })
#define FLYSIM_PK3_SAT(name, expr)                                                                 \
  v.sat(name, [](P16 a, P16 b, P16 c) {                                                            \
    return pack3(a, b, c, [](u32 x, u32 y, u32 z) { return expr; });                               \
  }, [](P16 a, P16 b, P16 c) {                                                                     \
    return pack3(a, b, c, [](u32 x, u32 y, u32 z) { return expr; });                               \
  })
  FLYSIM_PK3("v_pk_min3_u16", std::min(std::min(x, y), z));
  FLYSIM_PK3("v_pk_max3_u16", std::max(std::max(x, y), z));
  FLYSIM_PK3("v_pk_min3_i16", std::min(std::min(s16(x), s16(y)), s16(z)));
  FLYSIM_PK3("v_pk_max3_i16", std::max(std::max(s16(x), s16(y)), s16(z)));
  FLYSIM_PK3_SAT("v_pk_add_max_u16", std::max(std::min(x + y, 65535u), z));
  FLYSIM_PK3_SAT("v_pk_add_min_u16", std::min(std::min(x + y, 65535u), z));
  FLYSIM_PK3_SAT("v_pk_add_max_i16", std::max(clampTo(s16(x) + s16(y), -32768, 32767), s16(z)));
  FLYSIM_PK3_SAT("v_pk_add_min_i16", std::min(clampTo(s16(x) + s16(y), -32768, 32767), s16(z)));
#undef FLYSIM_PK3
#undef FLYSIM_PK3_SAT
  // The legacy forms of gfx9 clear the other half of the register.
  v.alias("v_mad_legacy_u16", "v_mad_u16", kKeepHigh);
  v.alias("v_mad_legacy_i16", "v_mad_i16", kKeepHigh);
}

//===--- floats ------------------------------------------------------------===//

/// Bits of the fraction of 2/pi, most significant first.
constexpr u64 kTwoOverPi[] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull};

/// v_trig_preop_f64: 53 bits of 2/pi for segment `b`, moved on for large arguments.
inline double trigPreop(double a, u32 b) {
  int exponent = static_cast<int>(asBits(a) >> 52 & 0x7ff);
  int shift = static_cast<int>(b & 31) * 53;
  if (exponent > 1077)
    shift += exponent - 1077;
  u64 chunk = 0;
  for (int k = 0; k < 53; ++k) {
    int bit = shift + k;
    u64 value = bit < 1201 ? kTwoOverPi[bit / 64] >> (63 - bit % 64) & 1 : 0;
    chunk = chunk << 1 | value;
  }
  int scale = -53 - shift + (exponent >= 1968 ? 128 : 0);
  return std::ldexp(static_cast<double>(chunk), scale);
}

template <class Op> inline PH map3(PH a, PH b, PH c, Op op) {
  u32 l = floatToHalf(op(halfToFloat(lo(a.bits)), halfToFloat(lo(b.bits)), halfToFloat(lo(c.bits))));
  u32 h = floatToHalf(op(halfToFloat(hi(a.bits)), halfToFloat(hi(b.bits)), halfToFloat(hi(c.bits))));
  return PH{l | h << 16};
}

inline u32 toI16(float a) {
  return lo(static_cast<u32>(a != a ? 0 : clampTo(a >= 32767.0f ? 32767 : a <= -32768.0f ? -32768
                                                          : static_cast<i32>(a), -32768, 32767)));
}
inline u32 toU16(float a) {
  return a != a || a <= 0 ? 0 : a >= 65535.0f ? 65535u : static_cast<u32>(a);
}

void halfFloats(ValuBuilder &v) {
  v.op("v_sin_f16", [](H16 a) { return half(trigonometric(f(a), 0)); }, kApprox);
  v.op("v_cos_f16", [](H16 a) { return half(trigonometric(f(a), 1)); }, kApprox);
  v.op("v_sin_bf16", [](BF a) { return bf(trigonometric(f(a), 0)); }, kApprox);
  v.op("v_cos_bf16", [](BF a) { return bf(trigonometric(f(a), 1)); }, kApprox);
#define FLYSIM_H3(name, expr)                                                                      \
  v.op(name, [](H16 a, H16 b, H16 c) {                                                             \
    float x = f(a), y = f(b), z = f(c);                                                            \
    return half(expr);                                                                             \
  })
  FLYSIM_H3("v_minimum3_f16", minProp(minProp(x, y), z));
  FLYSIM_H3("v_maximum3_f16", maxProp(maxProp(x, y), z));
  FLYSIM_H3("v_maxmin_num_f16", minNum(maxNum(x, y), z));
  FLYSIM_H3("v_minmax_num_f16", maxNum(minNum(x, y), z));
  v.alias("v_maxmin_f16", "v_maxmin_num_f16");
  v.alias("v_minmax_f16", "v_minmax_num_f16");
  FLYSIM_H3("v_maximumminimum_f16", minProp(maxProp(x, y), z));
  FLYSIM_H3("v_minimummaximum_f16", maxProp(minProp(x, y), z));
#undef FLYSIM_H3
#define FLYSIM_PKH3(name, expr)                                                                    \
  v.op(name, [](PH a, PH b, PH c) {                                                                \
    return map3(a, b, c, [](float x, float y, float z) { return expr; });                          \
  })
  FLYSIM_PKH3("v_pk_minimum3_f16", minProp(minProp(x, y), z));
  FLYSIM_PKH3("v_pk_maximum3_f16", maxProp(maxProp(x, y), z));
  FLYSIM_PKH3("v_pk_min3_num_f16", minNum(minNum(x, y), z));
  FLYSIM_PKH3("v_pk_max3_num_f16", maxNum(maxNum(x, y), z));
#undef FLYSIM_PKH3
  v.alias("v_div_fixup_legacy_f16", "v_div_fixup_f16", kKeepHigh);
  v.alias("v_fma_legacy_f16", "v_fma_f16", kKeepHigh);
  v.alias("v_mad_legacy_f16", "v_mad_f16", kKeepHigh);
  v.op("v_mac_f16", [](H16 a, H16 b, H16 c) { return half(f(half(f(a) * f(b))) + f(c)); }, kTied);
  v.op("v_madak_f16", [](H16 a, H16 b, H16 k) { return half(f(half(f(a) * f(b))) + f(k)); });
  v.op("v_madmk_f16", [](H16 a, H16 b, H16 k) { return half(f(half(f(a) * f(k))) + f(b)); });
  v.op("v_dot2_f16_f16", [](PH a, PH b, H16 c) {
    float r = __builtin_fmaf(halfToFloat(lo(a.bits)), halfToFloat(lo(b.bits)), f(c));
    return half(__builtin_fmaf(halfToFloat(hi(a.bits)), halfToFloat(hi(b.bits)), r));
  }, kApprox);
  v.op("v_dot2_bf16_bf16", [](PB a, PB b, BF c) {
    float r = __builtin_fmaf(bf16ToFloat(lo(a.bits)), bf16ToFloat(lo(b.bits)), f(c));
    return bf(__builtin_fmaf(bf16ToFloat(hi(a.bits)), bf16ToFloat(hi(b.bits)), r));
  }, kApprox);
  for (const char *n : {"rcp", "rsq", "sqrt", "exp", "log"})
    v.alias((std::string("v_s_") + n + "_f16").c_str(), (std::string("v_") + n + "_f16").c_str());
  v.op("v_fma_mix_f32_bf16",
       [](MixB a, MixB b, MixB c) { return __builtin_fmaf(a.f, b.f, c.f); });
  v.op("v_fma_mixlo_bf16", [](MixB a, MixB b, MixB c) {
    return BF{static_cast<u16>(fusedBf16(a.f, b.f, c.f))};
  }, kKeepHigh);
  v.op("v_fma_mixhi_bf16", [](MixB a, MixB b, MixB c) {
    return BF{static_cast<u16>(fusedBf16(a.f, b.f, c.f))};
  }, kKeepHigh | kMixHigh);
}

void floats(ValuBuilder &v) {
  v.op("v_trig_preop_f64", [](double a, u32 b) { return trigPreop(a, b); });
  v.op("v_mullit_f32", [](float a, float b, float c) {
    bool floor = !(b > -0x1.fffffep127f) || !(c > 0);
    return floor ? -0x1.fffffep127f : a * b;
  });
  v.op("v_fma_dx9_zero_f32", [](float a, float b, float c) {
    return a == 0 || b == 0 ? c : __builtin_fmaf(a, b, c);
  });
  v.alias("v_fma_legacy_f32", "v_fma_dx9_zero_f32");
  v.op("v_fmac_dx9_zero_f32", [](float a, float b, float c) {
    return a == 0 || b == 0 ? c : __builtin_fmaf(a, b, c);
  }, kTied);
  v.op("v_fmamk_f64", [](double a, double b, double k) { return __builtin_fma(a, k, b); });
  v.op("v_fmaak_f64", [](double a, double b, double k) { return __builtin_fma(a, b, k); });
  v.alias("v_exp_legacy_f32", "v_exp_f32");
  v.alias("v_log_legacy_f32", "v_log_f32");
  v.op("v_cvt_off_f32_i4", [](u32 a) { return float(static_cast<i32>(a << 28) >> 28) * 0.0625f; });
  v.op("v_cvt_norm_i16_f16", [](H16 a) { return u16(signedNorm16(f(a))); });
  v.op("v_cvt_norm_u16_f16", [](H16 a) { return u16(unsignedNorm16(f(a))); });
  v.op("v_cvt_pknorm_i16_f16", [](H16 a, H16 b) { return signedNorm16(f(a)) | signedNorm16(f(b)) << 16; });
  v.op("v_cvt_pknorm_u16_f16", [](H16 a, H16 b) { return unsignedNorm16(f(a)) | unsignedNorm16(f(b)) << 16; });
  v.alias("v_cvt_pk_norm_i16_f16", "v_cvt_pknorm_i16_f16");
  v.alias("v_cvt_pk_norm_u16_f16", "v_cvt_pknorm_u16_f16");
  v.op("v_cvt_pk_i16_f32", [](float a, float b) { return toI16(a) | toI16(b) << 16; });
  v.op("v_cvt_pk_u16_f32", [](float a, float b) { return toU16(a) | toU16(b) << 16; });
}

} // namespace

void FLYSIM_LEVEL::registerValuExtra(OpTable &table) {
  ValuBuilder v(table);
  cubes(v);
  sads(v);
  integers(v);
  halfFloats(v);
  floats(v);
}

} // namespace flysim
