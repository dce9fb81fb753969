//===- ValuHalf.cpp - f16 and bf16 arithmetic -----------------------------===//
//
// f16 add, subtract and multiply are computed in f32 and rounded once more: f32 has
// more than twice the precision, so the double rounding is exact. fma goes through
// f64 for the same reason.
//
//===----------------------------------------------------------------------===//

#include "exec/Register.h"
#include "exec/MinMax.h"
#include "exec/Valu.h"

#include <cmath>

namespace flysim {
namespace {

inline H16 half(float f) { return H16{static_cast<uint16_t>(floatToHalf(f))}; }
inline float f(H16 h) { return halfToFloat(h.bits); }
inline float f(BF b) { return bf16ToFloat(b.bits); }
inline BF bf(float x) { return BF{static_cast<uint16_t>(floatToBf16(x))}; }
inline uint32_t fma16(uint32_t a, uint32_t b, uint32_t c) {
  return doubleToHalf(double(halfToFloat(a)) * halfToFloat(b) + halfToFloat(c));
}
inline uint32_t fmaBf(uint32_t a, uint32_t b, uint32_t c) {
  return fusedBf16(bf16ToFloat(a), bf16ToFloat(b), bf16ToFloat(c));
}

/// v_pk_fma_bf16, each result rounded once.
constexpr auto pkFma = [](PB a, PB b, PB c) {
  return PB{fmaBf(a.bits & 0xffff, b.bits & 0xffff, c.bits & 0xffff) |
            fmaBf(a.bits >> 16, b.bits >> 16, c.bits >> 16) << 16};
};

/// Rounding to float first is wrong only where that gives a tie of bf16, which is rare.
void pkFmaBf16(const LaneArgs &a) {
  uint32_t out[kRow], ties = 0;
  const unsigned lanes = a.blocks * 32;
  for (unsigned i = 0; i < lanes; ++i) {
    const uint32_t x = a.s[0][i], y = a.s[1][i], z = a.s[2][i];
    const float lo = __builtin_fmaf(bf16ToFloat(x & 0xffff), bf16ToFloat(y & 0xffff),
                                    bf16ToFloat(z & 0xffff));
    const float hi = __builtin_fmaf(bf16ToFloat(x >> 16), bf16ToFloat(y >> 16), bf16ToFloat(z >> 16));
    ties |= ((asBits(lo) & 0xffff) == 0x8000) | ((asBits(hi) & 0xffff) == 0x8000);
    out[i] = floatToBf16(lo) | floatToBf16(hi) << 16;
  }
  if (ties)
    return lanes3<std::remove_const_t<decltype(pkFma)>, PB, PB, PB, PB>(a);
  memcpy(a.d, out, lanes * sizeof(uint32_t));
}

template <class Op> inline PH mapHalves(PH a, PH b, Op op) {
  uint32_t lo = floatToHalf(op(halfToFloat(a.bits & 0xffff), halfToFloat(b.bits & 0xffff)));
  uint32_t hi = floatToHalf(op(halfToFloat(a.bits >> 16), halfToFloat(b.bits >> 16)));
  return PH{lo | hi << 16};
}
template <class Op> inline PB mapBf(PB a, PB b, Op op) {
  uint32_t lo = floatToBf16(op(bf16ToFloat(a.bits & 0xffff), bf16ToFloat(b.bits & 0xffff)));
  uint32_t hi = floatToBf16(op(bf16ToFloat(a.bits >> 16), bf16ToFloat(b.bits >> 16)));
  return PB{lo | hi << 16};
}

void scalarHalves(ValuBuilder &v) {
  v.op("v_add_f16", [](H16 a, H16 b) { return half(f(a) + f(b)); });
  v.op("v_sub_f16", [](H16 a, H16 b) { return half(f(a) - f(b)); });
  v.op("v_subrev_f16", [](H16 a, H16 b) { return half(f(b) - f(a)); });
  v.op("v_mul_f16", [](H16 a, H16 b) { return half(f(a) * f(b)); });
  auto fma = [](H16 a, H16 b, H16 c) { return H16{uint16_t(fma16(a.bits, b.bits, c.bits))}; };
  v.op("v_fma_f16", fma, kKeepHigh);
  v.op("v_fmac_f16", fma, kTied);
  v.op("v_fmaak_f16", fma);
  v.op("v_fmamk_f16",
       [](H16 a, H16 b, H16 k) { return H16{uint16_t(fma16(a.bits, k.bits, b.bits))}; });
  v.op("v_mad_f16", [](H16 a, H16 b, H16 c) { return half(f(half(f(a) * f(b))) + f(c)); },
       kKeepHigh);
  v.ieee("v_min_f16", [](H16 a, H16 b) { return half(Ieee::min(f(a), f(b))); },
         [](H16 a, H16 b) { return half(Plain::min(f(a), f(b))); });
  v.ieee("v_max_f16", [](H16 a, H16 b) { return half(Ieee::max(f(a), f(b))); },
         [](H16 a, H16 b) { return half(Plain::max(f(a), f(b))); });
  v.op("v_min_num_f16", [](H16 a, H16 b) { return half(minNum(f(a), f(b))); });
  v.op("v_max_num_f16", [](H16 a, H16 b) { return half(maxNum(f(a), f(b))); });
  v.op("v_minimum_f16", [](H16 a, H16 b) { return half(minProp(f(a), f(b))); });
  v.op("v_maximum_f16", [](H16 a, H16 b) { return half(maxProp(f(a), f(b))); });
  v.ieee("v_min3_f16", [](H16 a, H16 b, H16 c) { return half(min3<Ieee>(f(a), f(b), f(c))); },
         [](H16 a, H16 b, H16 c) { return half(min3<Plain>(f(a), f(b), f(c))); });
  v.ieee("v_max3_f16", [](H16 a, H16 b, H16 c) { return half(max3<Ieee>(f(a), f(b), f(c))); },
         [](H16 a, H16 b, H16 c) { return half(max3<Plain>(f(a), f(b), f(c))); });
  v.ieee("v_med3_f16", [](H16 a, H16 b, H16 c) { return half(med3<Ieee>(f(a), f(b), f(c))); },
         [](H16 a, H16 b, H16 c) { return half(med3<Plain>(f(a), f(b), f(c))); });
  v.op("v_min3_num_f16",
       [](H16 a, H16 b, H16 c) { return half(min3<Number>(f(a), f(b), f(c))); });
  v.op("v_max3_num_f16",
       [](H16 a, H16 b, H16 c) { return half(max3<Number>(f(a), f(b), f(c))); });
  v.op("v_med3_num_f16",
       [](H16 a, H16 b, H16 c) { return half(med3<Number>(f(a), f(b), f(c))); });
  v.op("v_floor_f16", [](H16 a) { return half(std::floor(f(a))); });
  v.op("v_ceil_f16", [](H16 a) { return half(std::ceil(f(a))); });
  v.op("v_trunc_f16", [](H16 a) { return half(std::trunc(f(a))); });
  v.op("v_rndne_f16", [](H16 a) { return half(__builtin_roundevenf(f(a))); });
  v.op("v_fract_f16", [](H16 a) {
    float r = f(a) - std::floor(f(a));
    return half(r > 0x1.ffcp-1f ? 0x1.ffcp-1f : r);
  });
  v.op("v_rcp_f16", [](H16 a) { return half(1.0f / f(a)); }, kApprox);
  v.op("v_rsq_f16", [](H16 a) { return half(float(1.0 / std::sqrt(double(f(a))))); }, kApprox);
  v.op("v_sqrt_f16", [](H16 a) { return half(std::sqrt(f(a))); }, kApprox);
  v.op("v_exp_f16", [](H16 a) { return half(std::exp2(f(a))); }, kApprox);
  v.op("v_log_f16", [](H16 a) { return half(std::log2(f(a))); }, kApprox);
  v.op("v_ldexp_f16", [](H16 a, int16_t b) { return half(std::ldexp(f(a), int(b))); });
  v.op("v_frexp_mant_f16", [](H16 a) {
    int e;
    return std::isfinite(f(a)) ? half(std::frexp(f(a), &e)) : a;
  });
  v.op("v_frexp_exp_i16_f16", [](H16 a) {
    int e = 0;
    if (std::isfinite(f(a)))
      std::frexp(f(a), &e);
    return int16_t(e);
  });
  v.op("v_div_fixup_f16", [](H16 q, H16 d, H16 n) {
    float den = f(d), num = f(n);
    bool sign = std::signbit(den) != std::signbit(num);
    if (num != num || den != den)
      return half(num + den);
    if ((den == 0 && num == 0) || (std::isinf(den) && std::isinf(num)))
      return H16{0xfe00};
    if (den == 0 || std::isinf(num))
      return H16{uint16_t(sign ? 0xfc00 : 0x7c00)};
    if (std::isinf(den) || num == 0)
      return H16{uint16_t(sign ? 0x8000 : 0)};
    return H16{uint16_t((q.bits & 0x7fff) | (sign ? 0x8000 : 0))};
  }, kKeepHigh);
}

void packedHalves(ValuBuilder &v) {
  v.op("v_pk_add_f16",
       [](PH a, PH b) { return mapHalves(a, b, [](float x, float y) { return x + y; }); });
  v.op("v_pk_mul_f16",
       [](PH a, PH b) { return mapHalves(a, b, [](float x, float y) { return x * y; }); });
  v.ieee("v_pk_min_f16", [](PH a, PH b) { return mapHalves(a, b, Ieee::min<float>); },
         [](PH a, PH b) { return mapHalves(a, b, Plain::min<float>); });
  v.ieee("v_pk_max_f16", [](PH a, PH b) { return mapHalves(a, b, Ieee::max<float>); },
         [](PH a, PH b) { return mapHalves(a, b, Plain::max<float>); });
  v.op("v_pk_min_num_f16", [](PH a, PH b) { return mapHalves(a, b, minNum<float>); });
  v.op("v_pk_max_num_f16", [](PH a, PH b) { return mapHalves(a, b, maxNum<float>); });
  v.op("v_pk_minimum_f16", [](PH a, PH b) { return mapHalves(a, b, minProp<float>); });
  v.op("v_pk_maximum_f16", [](PH a, PH b) { return mapHalves(a, b, maxProp<float>); });
  v.op("v_pk_fma_f16", [](PH a, PH b, PH c) {
    return PH{fma16(a.bits & 0xffff, b.bits & 0xffff, c.bits & 0xffff) |
              fma16(a.bits >> 16, b.bits >> 16, c.bits >> 16) << 16};
  });
  v.op("v_pk_fmac_f16", [](uint32_t a, uint32_t b, uint32_t c) {
    return fma16(a & 0xffff, b & 0xffff, c & 0xffff) | fma16(a >> 16, b >> 16, c >> 16) << 16;
  }, kTied);
  v.op("v_pk_add_bf16",
       [](PB a, PB b) { return mapBf(a, b, [](float x, float y) { return x + y; }); });
  v.op("v_pk_mul_bf16",
       [](PB a, PB b) { return mapBf(a, b, [](float x, float y) { return x * y; }); });
  v.op("v_pk_min_num_bf16", [](PB a, PB b) { return mapBf(a, b, minNum<float>); });
  v.op("v_pk_max_num_bf16", [](PB a, PB b) { return mapBf(a, b, maxNum<float>); });
  v.op("v_pk_fma_bf16", pkFma);
  OpDef fused = *v.table.find("v_pk_fma_bf16");
  fused.lane = pkFmaBf16;
  v.table.add("v_pk_fma_bf16", fused);
  v.op("v_rcp_bf16", [](BF a) { return bf(1.0f / f(a)); }, kApprox);
  v.op("v_rsq_bf16", [](BF a) { return bf(float(1.0 / std::sqrt(double(f(a))))); }, kApprox);
  v.op("v_sqrt_bf16", [](BF a) { return bf(std::sqrt(f(a))); }, kApprox);
  v.op("v_exp_bf16", [](BF a) { return bf(std::exp2(f(a))); }, kApprox);
  v.op("v_log_bf16", [](BF a) { return bf(std::log2(f(a))); }, kApprox);
  v.op("v_tanh_f16", [](H16 a) { return half(std::tanh(f(a))); }, kApprox);
  v.op("v_tanh_bf16", [](BF a) { return bf(std::tanh(f(a))); }, kApprox);
}

void dots(ValuBuilder &v) {
  v.op("v_dot2_f32_f16", [](PH a, PH b, float c) {
    c = __builtin_fmaf(halfToFloat(a.bits & 0xffff), halfToFloat(b.bits & 0xffff), c);
    return __builtin_fmaf(halfToFloat(a.bits >> 16), halfToFloat(b.bits >> 16), c);
  }, kApprox);
  v.op("v_dot2c_f32_f16", [](uint32_t a, uint32_t b, float c) {
    c = __builtin_fmaf(halfToFloat(a & 0xffff), halfToFloat(b & 0xffff), c);
    return __builtin_fmaf(halfToFloat(a >> 16), halfToFloat(b >> 16), c);
  }, kTied | kApprox);
  v.alias("v_dot2acc_f32_f16", "v_dot2c_f32_f16");
  v.op("v_dot2_f32_bf16", [](PB a, PB b, float c) {
    c = __builtin_fmaf(bf16ToFloat(a.bits & 0xffff), bf16ToFloat(b.bits & 0xffff), c);
    return __builtin_fmaf(bf16ToFloat(a.bits >> 16), bf16ToFloat(b.bits >> 16), c);
  }, kApprox);
  v.op("v_dot2c_f32_bf16", [](uint32_t a, uint32_t b, float c) {
    c = __builtin_fmaf(bf16ToFloat(a & 0xffff), bf16ToFloat(b & 0xffff), c);
    return __builtin_fmaf(bf16ToFloat(a >> 16), bf16ToFloat(b >> 16), c);
  }, kTied | kApprox);
}

} // namespace

void FLYSIM_LEVEL::registerValuHalf(OpTable &table) {
  ValuBuilder v(table);
  scalarHalves(v);
  packedHalves(v);
  dots(v);
}

} // namespace flysim
