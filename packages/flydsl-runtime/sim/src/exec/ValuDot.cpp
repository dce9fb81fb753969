//===- ValuDot.cpp - dot products of 8-bit floats -------------------------===//

#include "exec/Register.h"
#include "exec/Valu.h"

#include <cmath>

namespace flysim {
namespace {

/// c + sum of four products, in byte order. The products are exact in float; every
/// sum rounds once.
template <class A, class B> void dot4(const LaneArgs &a) {
  const unsigned lanes = a.blocks * 32;
  for (unsigned i = 0; i < lanes; ++i) {
    float sum = asFloat(a.s[2][i]);
    for (unsigned k = 0; k < 32; k += 8)
      sum += smallToFloat<A>(a.s[0][i] >> k) * smallToFloat<B>(a.s[1][i] >> k);
    a.d[i] = asBits(sum);
  }
}

template <class A, class B> void add(OpTable &table, const char *name) {
  OpDef d;
  d.exec = FLYSIM_LEVEL::execVop;
  d.lane = dot4<A, B>;
  d.dst = Num::F32;
  d.src[0] = d.src[1] = Num::B32;
  d.src[2] = Num::F32;
  d.nsrc = 3;
  d.flags = kApprox;
  table.add(name, d);
}

} // namespace

void FLYSIM_LEVEL::registerValuDot(OpTable &table) {
  add<Fp8Ocp, Fp8Ocp>(table, "v_dot4_f32_fp8_fp8");
  add<Fp8Ocp, Bf8Ocp>(table, "v_dot4_f32_fp8_bf8");
  add<Bf8Ocp, Fp8Ocp>(table, "v_dot4_f32_bf8_fp8");
  add<Bf8Ocp, Bf8Ocp>(table, "v_dot4_f32_bf8_bf8");
}

} // namespace flysim
