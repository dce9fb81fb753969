//===- Valu.h - lane loops and their registration --------------*- C++ -*-===//
//
// A VALU operation is written once, as a function of one lane's operands:
//
//   v.op("v_add_f32", [](float a, float b) { return a + b; });
//
// The template below turns it into a loop over struct-of-arrays rows that the
// compiler vectorises; the argument types also say how many registers an operand
// has and how modifiers apply.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_VALU_H
#define FLYSIM_EXEC_VALU_H

#include "exec/ExecInline.h"
#include "exec/FloatFormats.h"

#include <type_traits>

namespace flysim {

/// Generic VALU execution (Vop.cpp of the same feature level).
namespace FLYSIM_LEVEL {
void execVop(Wave &w, const Inst &i);
void execCmp(Wave &w, const Inst &i);
} // namespace FLYSIM_LEVEL

namespace {

/// Operand types of lane functions that are no C++ arithmetic type.
struct H16 {
  uint16_t bits;
}; ///< IEEE half
struct BF {
  uint16_t bits;
}; ///< bfloat16
struct P16 {
  uint32_t bits;
}; ///< two integer halves
struct PH {
  uint32_t bits;
}; ///< two IEEE halves
struct PB {
  uint32_t bits;
}; ///< two bfloat16
struct PF {
  float lo, hi;
}; ///< two floats in two registers
struct PU {
  uint32_t lo, hi;
};
/// A 64-bit integer by its halves, for operations that 32-bit lanes can do: twice as many lanes fit
/// into a vector of the host.
struct W64 {
  uint32_t lo, hi;
};
struct MixF {
  float f;
}; ///< v_fma_mix source, converted to float when fetched
struct MixB {
  float f;
};

template <class T> struct LaneType;
#define FLYSIM_LANE_TYPE(T, N)                                                                     \
  template <> struct LaneType<T> {                                                                 \
    static constexpr Num num = Num::N;                                                             \
  };
FLYSIM_LANE_TYPE(uint32_t, B32)
FLYSIM_LANE_TYPE(int32_t, B32)
FLYSIM_LANE_TYPE(float, F32)
FLYSIM_LANE_TYPE(uint16_t, U16)
FLYSIM_LANE_TYPE(int16_t, U16)
FLYSIM_LANE_TYPE(H16, F16)
FLYSIM_LANE_TYPE(BF, BF16)
FLYSIM_LANE_TYPE(uint64_t, B64)
FLYSIM_LANE_TYPE(int64_t, B64)
FLYSIM_LANE_TYPE(W64, B64)
FLYSIM_LANE_TYPE(double, F64)
FLYSIM_LANE_TYPE(P16, PkB16)
FLYSIM_LANE_TYPE(PH, PkF16)
FLYSIM_LANE_TYPE(PB, PkBF16)
FLYSIM_LANE_TYPE(PF, PkF32)
FLYSIM_LANE_TYPE(PU, PkB32)
FLYSIM_LANE_TYPE(MixF, Mix)
FLYSIM_LANE_TYPE(MixB, MixBF)
#undef FLYSIM_LANE_TYPE

// The second row is a pointer of its own: `s[i + kRow]` may wrap around, and is not vectorised.
template <class T> inline T loadLane(const uint32_t *s, unsigned i) {
  constexpr Num n = LaneType<T>::num;
  if constexpr (std::is_same_v<T, W64>)
    return T{s[i], (s + kRow)[i]};
  else if constexpr (n == Num::B64 || n == Num::F64)
    return bitCast<T>(uint64_t(s[i]) | uint64_t((s + kRow)[i]) << 32);
  else if constexpr (n == Num::PkF32)
    return T{bitCast<float>(s[i]), bitCast<float>((s + kRow)[i])};
  else if constexpr (n == Num::PkB32)
    return T{s[i], (s + kRow)[i]};
  else if constexpr (sizeof(T) == 2)
    return bitCast<T>(static_cast<uint16_t>(s[i]));
  else
    return bitCast<T>(s[i]);
}

template <class T> inline void storeLane(uint32_t *d, unsigned i, T v) {
  constexpr Num n = LaneType<T>::num;
  if constexpr (n == Num::PkB32 || std::is_same_v<T, W64>) {
    d[i] = v.lo;
    (d + kRow)[i] = v.hi;
  } else if constexpr (n == Num::B64 || n == Num::F64) {
    auto bits = bitCast<uint64_t>(v);
    d[i] = static_cast<uint32_t>(bits);
    (d + kRow)[i] = static_cast<uint32_t>(bits >> 32);
  } else if constexpr (n == Num::PkF32) {
    d[i] = bitCast<uint32_t>(v.lo);
    (d + kRow)[i] = bitCast<uint32_t>(v.hi);
  } else if constexpr (sizeof(T) == 2) {
    d[i] = bitCast<uint16_t>(v);
  } else {
    d[i] = bitCast<uint32_t>(v);
  }
}

/// The only object of a captureless lambda's type (C++17 cannot construct one).
template <class F> inline const F &stateless() {
  static_assert(std::is_empty_v<F>, "lane functions must not capture");
  alignas(F) static const unsigned char storage[sizeof(F)] = {};
  return reinterpret_cast<const F &>(storage);
}

#define FLYSIM_LANES(body)                                                                         \
  do {                                                                                             \
    const unsigned lanes_ = a.blocks * 32;                                                         \
    _Pragma("GCC ivdep") for (unsigned i = 0; i < lanes_; ++i) { body }                            \
  } while (0)

template <class F, class R, class A> void lanes1(const LaneArgs &a) {
  FLYSIM_LANES(storeLane<R>(a.d, i, stateless<F>()(loadLane<A>(a.s[0], i))););
}
template <class F, class R, class A, class B> void lanes2(const LaneArgs &a) {
  FLYSIM_LANES(
      storeLane<R>(a.d, i, stateless<F>()(loadLane<A>(a.s[0], i), loadLane<B>(a.s[1], i))););
}
template <class F, class R, class A, class B, class C> void lanes3(const LaneArgs &a) {
  FLYSIM_LANES(storeLane<R>(a.d, i,
                            stateless<F>()(loadLane<A>(a.s[0], i), loadLane<B>(a.s[1], i),
                                           loadLane<C>(a.s[2], i))););
}
template <class F, class A, class B> void lanesCmp(const LaneArgs &a) {
  FLYSIM_LANES(a.carry[i] = stateless<F>()(loadLane<A>(a.s[0], i), loadLane<B>(a.s[1], i));
               );
}
/// (a, b, carry-in, carry-out&) -> result
template <class F, class R, class A, class B> void lanesCarry2(const LaneArgs &a) {
  FLYSIM_LANES(uint32_t out = 0;
               storeLane<R>(a.d, i, stateless<F>()(loadLane<A>(a.s[0], i),
                                                   loadLane<B>(a.s[1], i), a.cin[i], out));
               a.carry[i] = out;);
}
template <class F, class R, class A, class B, class C> void lanesCarry3(const LaneArgs &a) {
  FLYSIM_LANES(uint32_t out = 0; storeLane<R>(a.d, i,
                                              stateless<F>()(loadLane<A>(a.s[0], i),
                                                             loadLane<B>(a.s[1], i),
                                                             loadLane<C>(a.s[2], i), a.cin[i],
                                                             out));
               a.carry[i] = out;);
}

/// Whether a row of operands of type T may hold a NaN (of doubles, also an infinity).
template <class T> inline bool mayBeNan(const LaneArgs &a, unsigned operand) {
  constexpr Num type = LaneType<T>::num;
  const uint32_t *s = a.s[operand] + (type == Num::F64 ? kRow : 0);
  uint32_t found = 0;
  for (unsigned i = 0; i < a.blocks * 32; ++i) {
    const uint32_t v = s[i];
    if constexpr (type == Num::F32)
      found |= (v & 0x7fffffffu) > 0x7f800000u;
    else if constexpr (type == Num::F64)
      found |= (v & 0x7fffffffu) >= 0x7ff00000u;
    else
      found |= ((v & 0x7fffu) > 0x7c00u) | ((v >> 16 & 0x7fffu) > 0x7c00u);
  }
  return found;
}

/// The loop for MODE.IEEE (gfx9) differs from the other, faster one only where there are NaNs.
template <LaneFn ieee, LaneFn plain, class... T> void lanesByIeee(const LaneArgs &a) {
  unsigned operand = 0;
  bool special = false;
  if (a.mode & 0x200)
    ((special |= mayBeNan<T>(a, operand++)), ...);
  (special ? ieee : plain)(a);
}

/// Adds VALU operations to a table.
class ValuBuilder {
public:
  explicit ValuBuilder(OpTable &table) : table(table) {}

  /// An operation of one to three operands.
  template <class F> void op(const char *name, F f, uint32_t flags = 0) {
    add(name, f, &F::operator(), flags, nullptr);
  }
  /// The same with the loop to use when the clamp bit asks for integer saturation.
  template <class F, class S> void sat(const char *name, F f, S s, uint32_t flags = 0) {
    OpDef saturated = make(s, &S::operator());
    add(name, f, &F::operator(), flags, saturated.lane);
  }
  /// An operation with a form for MODE.IEEE set and one for cleared.
  template <class F, class G> void ieee(const char *name, F f, G g) {
    addIeee(name, f, g, &F::operator());
  }
  /// A comparison: (a, b) -> bool.
  template <class F> void cmp(const std::string &name, F f) { addCmp(name, f, &F::operator()); }
  /// An operation with lane masks: (a, b[, c], carry-in, carry-out&) -> result.
  template <class F> void carry(const char *name, F f, uint32_t flags) {
    addCarry(name, f, &F::operator(), flags, nullptr);
  }
  /// The same with the operation that gives the result alone.
  template <class F, class G> void carry(const char *name, F f, G result, uint32_t flags) {
    addCarry(name, f, &F::operator(), flags, make(result, &G::operator()).lane);
  }
  void alias(const char *name, const char *target, uint32_t without = 0) {
    table.alias(name, target, without);
  }
  OpTable &table;

private:
  template <class F, class C, class R, class A> OpDef make(F, R (C::*)(A) const) {
    OpDef d;
    d.lane = lanes1<F, R, A>;
    d.dst = LaneType<R>::num;
    d.src[0] = LaneType<A>::num;
    d.nsrc = 1;
    return d;
  }
  template <class F, class C, class R, class A, class B> OpDef make(F, R (C::*)(A, B) const) {
    OpDef d;
    d.lane = lanes2<F, R, A, B>;
    d.dst = LaneType<R>::num;
    d.src[0] = LaneType<A>::num;
    d.src[1] = LaneType<B>::num;
    d.nsrc = 2;
    return d;
  }
  template <class F, class C, class R, class A, class B, class D>
  OpDef make(F, R (C::*)(A, B, D) const) {
    OpDef d;
    d.lane = lanes3<F, R, A, B, D>;
    d.dst = LaneType<R>::num;
    d.src[0] = LaneType<A>::num;
    d.src[1] = LaneType<B>::num;
    d.src[2] = LaneType<D>::num;
    d.nsrc = 3;
    return d;
  }
  template <class F, class M> void add(const char *name, F f, M m, uint32_t flags, LaneFn sat) {
    OpDef d = make(f, m);
    d.exec = FLYSIM_LEVEL::execVop;
    d.laneSat = sat;
    d.flags |= flags;
    table.add(name, d);
  }
  template <class F, class G, class C, class R, class A, class B>
  void addIeee(const char *name, F f, G, R (C::*m)(A, B) const) {
    OpDef d = make(f, m);
    d.exec = FLYSIM_LEVEL::execVop;
    d.lane = lanesByIeee<lanes2<F, R, A, B>, lanes2<G, R, A, B>, A, B>;
    table.add(name, d);
  }
  template <class F, class G, class C, class R, class A, class B, class D>
  void addIeee(const char *name, F f, G, R (C::*m)(A, B, D) const) {
    OpDef d = make(f, m);
    d.exec = FLYSIM_LEVEL::execVop;
    d.lane = lanesByIeee<lanes3<F, R, A, B, D>, lanes3<G, R, A, B, D>, A, B, D>;
    table.add(name, d);
  }
  template <class F, class C, class A, class B>
  void addCmp(const std::string &name, F, bool (C::*)(A, B) const) {
    OpDef d;
    d.lane = lanesCmp<F, A, B>;
    d.src[0] = LaneType<A>::num;
    d.src[1] = LaneType<B>::num;
    d.nsrc = 2;
    d.exec = FLYSIM_LEVEL::execCmp;
    d.flags = kCompare;
    table.add(("v_cmp_" + name).c_str(), d);
    d.flags |= kCompareX;
    table.add(("v_cmpx_" + name).c_str(), d);
  }
  template <class F, class C, class R, class A, class B>
  void addCarry(const char *name, F, R (C::*)(A, B, uint32_t, uint32_t &) const, uint32_t flags,
                LaneFn result) {
    OpDef d;
    d.lane = lanesCarry2<F, R, A, B>;
    d.laneResult = result;
    d.dst = LaneType<R>::num;
    d.src[0] = LaneType<A>::num;
    d.src[1] = LaneType<B>::num;
    d.nsrc = 2;
    d.exec = FLYSIM_LEVEL::execVop;
    d.flags = flags;
    table.add(name, d);
  }
  template <class F, class C, class R, class A, class B, class D>
  void addCarry(const char *name, F, R (C::*)(A, B, D, uint32_t, uint32_t &) const,
                uint32_t flags, LaneFn result) {
    OpDef d;
    d.lane = lanesCarry3<F, R, A, B, D>;
    d.laneResult = result;
    d.dst = LaneType<R>::num;
    d.src[0] = LaneType<A>::num;
    d.src[1] = LaneType<B>::num;
    d.src[2] = LaneType<D>::num;
    d.nsrc = 3;
    d.exec = FLYSIM_LEVEL::execVop;
    d.flags = flags;
    table.add(name, d);
  }
};

} // namespace
} // namespace flysim

#endif
