//===- ValuConvertSmall.cpp - 8-bit floats and stochastic rounding --------===//
//
// gfx942 has the FNUZ variants of the 8-bit formats; its operations are registered as
// "<name>.fnuz" and chosen by the decoder.
//
//===----------------------------------------------------------------------===//

#include "exec/Register.h"
#include "exec/Valu.h"

#include <initializer_list>
#include <string>

namespace flysim {
namespace {

/// MODE.FP16_OVFL: finite values that overflow become the largest number.
inline bool clampsOverflow(const LaneArgs &a) { return a.mode >> 23 & 1; }

template <class F> inline uint32_t nearest(uint32_t bits, bool clamp) {
  return encodeSmall<F, false>(bits, 0, 0, clamp);
}
template <class F> inline uint32_t stochastic(uint32_t bits, uint32_t random, bool clamp) {
  return encodeSmall<F, true>(bits, 0, random, clamp);
}

inline uint32_t keepByte(uint32_t old, uint32_t code, uint32_t byte) {
  return (old & ~(0xffu << (8 * byte))) | code << (8 * byte);
}

//===--- to 8 bits ----------------------------------------------------------===//

template <class F> void packFloats(const LaneArgs &a) {
  bool clamp = clampsOverflow(a);
  FLYSIM_LANES(a.d[i] = nearest<F>(a.s[0][i], clamp) |
                        nearest<F>(a.s[1][i], clamp) << 8;);
}

template <class F> void packHalves(const LaneArgs &a) {
  bool clamp = clampsOverflow(a);
  FLYSIM_LANES(
      a.d[i] =
          nearest<F>(asBits(halfToFloat(a.s[0][i] & 0xffff)), clamp) |
          nearest<F>(asBits(halfToFloat(a.s[0][i] >> 16)), clamp) << 8;);
}

/// (value, random, old contents): one byte of the destination.
template <class F> void stochasticFloat(const LaneArgs &a) {
  bool clamp = clampsOverflow(a);
  FLYSIM_LANES(a.d[i] = keepByte(a.s[2][i],
                                 stochastic<F>(a.s[0][i], a.s[1][i], clamp),
                                 a.imm & 3););
}

template <class F> void stochasticHalf(const LaneArgs &a) {
  bool clamp = clampsOverflow(a);
  FLYSIM_LANES(uint32_t value = asBits(halfToFloat(a.s[0][i] & 0xffff));
               a.d[i] = keepByte(a.s[2][i],
                                 stochastic<F>(value, a.s[1][i], clamp),
                                 a.imm & 3););
}

//===--- from 8 bits --------------------------------------------------------===//

template <class F> void byteToFloat(const LaneArgs &a) {
  FLYSIM_LANES(a.d[i] = asBits(smallToFloat<F>(a.s[0][i] >> (8 * (a.imm & 3)))););
}

template <class F> void bytesToFloats(const LaneArgs &a) {
  FLYSIM_LANES(uint32_t v = a.s[0][i]; a.d[i] = asBits(smallToFloat<F>(v));
               (a.d + kRow)[i] = asBits(smallToFloat<F>(v >> 8)););
}

template <class F> void byteToHalf(const LaneArgs &a) {
  FLYSIM_LANES(a.d[i] = floatToHalf(smallToFloat<F>(a.s[0][i] >> (8 * (a.imm & 3)))););
}

template <class F> void bytesToHalves(const LaneArgs &a) {
  FLYSIM_LANES(a.d[i] = floatToHalf(smallToFloat<F>(a.s[0][i])) |
                        floatToHalf(smallToFloat<F>(a.s[0][i] >> 8)) << 16;);
}

//===--- to 16 bits, stochastic ---------------------------------------------===//

template <class F> void stochastic16(const LaneArgs &a) {
  bool clamp = clampsOverflow(a);
  FLYSIM_LANES(a.d[i] = stochastic<F>(a.s[0][i], a.s[1][i], clamp););
}

/// Each result uses one half of the random number.
template <class F> void stochasticPair(const LaneArgs &a) {
  bool clamp = clampsOverflow(a);
  FLYSIM_LANES(uint32_t r = a.s[2][i];
               a.d[i] = stochastic<F>(a.s[0][i], r << 16, clamp) |
                        stochastic<F>(a.s[1][i], r & 0xffff0000u, clamp) << 16;);
}

class Registrar {
public:
  explicit Registrar(OpTable &table) : table(table) {}

  void add(const std::string &name, LaneFn lane, Num dst, std::initializer_list<Num> src,
           uint32_t flags = 0) {
    OpDef d;
    d.exec = FLYSIM_LEVEL::execVop;
    d.lane = lane;
    d.dst = dst;
    for (Num n : src)
      d.src[d.nsrc++] = n;
    d.flags = flags;
    table.add(name.c_str(), d);
  }

  /// The operations of one 8-bit format; `suffix` names a variant.
  template <class F> void format(const std::string &f, const std::string &suffix, uint32_t flags) {
    uint32_t keep = flags | kKeepHigh, byte = flags | kTied | kByteDst | kUncertain;
    add("v_cvt_pk_" + f + "_f32" + suffix, packFloats<F>, Num::U16, {Num::F32, Num::F32}, keep);
    add("v_cvt_sr_" + f + "_f32" + suffix, stochasticFloat<F>, Num::B32,
        {Num::F32, Num::B32, Num::B32}, byte);
    add("v_cvt_f32_" + f + suffix, byteToFloat<F>, Num::F32, {Num::B32}, flags);
    add("v_cvt_pk_f32_" + f + suffix, bytesToFloats<F>, Num::PkF32, {Num::U16}, flags);
  }

  /// gfx1250 only.
  template <class F> void halfForms(const std::string &f) {
    add("v_cvt_pk_" + f + "_f16", packHalves<F>, Num::U16, {Num::B32}, kKeepHigh);
    add("v_cvt_sr_" + f + "_f16", stochasticHalf<F>, Num::B32, {Num::F16, Num::B32, Num::B32},
        kTied | kByteDst | kUncertain);
    add("v_cvt_f16_" + f, byteToHalf<F>, Num::F16, {Num::B32});
    add("v_cvt_pk_f16_" + f, bytesToHalves<F>, Num::B32, {Num::U16});
  }

private:
  OpTable &table;
};

} // namespace

void FLYSIM_LEVEL::registerConvertSmall(OpTable &table) {
  Registrar r(table);
  r.format<Fp8Ocp>("fp8", "", kFnuz);
  r.format<Bf8Ocp>("bf8", "", kFnuz);
  r.format<Fp8Fnuz>("fp8", ".fnuz", 0);
  r.format<Bf8Fnuz>("bf8", ".fnuz", 0);
  r.halfForms<Fp8Ocp>("fp8");
  r.halfForms<Bf8Ocp>("bf8");
  uint32_t sr = kKeepHigh | kUncertain;
  r.add("v_cvt_sr_f16_f32", stochastic16<HalfFormat>, Num::U16, {Num::F32, Num::B32}, sr);
  r.add("v_cvt_sr_bf16_f32", stochastic16<Bf16Format>, Num::U16, {Num::F32, Num::B32}, sr);
  r.add("v_cvt_sr_pk_f16_f32", stochasticPair<HalfFormat>, Num::B32,
        {Num::F32, Num::F32, Num::B32}, kUncertain);
  r.add("v_cvt_sr_pk_bf16_f32", stochasticPair<Bf16Format>, Num::B32,
        {Num::F32, Num::F32, Num::B32}, kUncertain);
}

} // namespace flysim
