//===- MinMax.h - the minima and maxima of each architecture ---*- C++ -*-===//
//
// gfx12 has IEEE 754-2019's minimumNumber and minimum. gfx9 has v_min and v_max, which treat a
// signalling NaN in two ways: MODE.IEEE makes it the (quiet) result, else it loses as any NaN.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_MINMAX_H
#define FLYSIM_EXEC_MINMAX_H

#include "exec/ExecInline.h"

#include <cmath>

namespace flysim {
namespace {

inline float quiet(float a) { return bitCast<float>(bitCast<uint32_t>(a) | 0x400000u); }
inline double quiet(double a) { return bitCast<double>(bitCast<uint64_t>(a) | 1ull << 51); }
inline bool signals(float a) { return a != a && !(bitCast<uint32_t>(a) & 0x400000u); }
inline bool signals(double a) { return a != a && !(bitCast<uint64_t>(a) & 1ull << 51); }

/// The smaller, -0 < +0; no operand is a NaN.
template <class T> inline T lower(T a, T b) {
  return a < b ? a : (b < a ? b : (std::signbit(a) ? a : b));
}
template <class T> inline T upper(T a, T b) {
  return a > b ? a : (b > a ? b : (std::signbit(a) ? b : a));
}

/// minimumNumber, maximumNumber: a NaN loses against a number; of two the first is the result.
template <class T> inline T numberOf(T a, T b, T r) {
  r = a != a ? b : r;
  r = b != b ? a : r;
  return r != r ? quiet(r) : r;
}
template <class T> inline T minNum(T a, T b) { return numberOf(a, b, lower(a, b)); }
template <class T> inline T maxNum(T a, T b) { return numberOf(a, b, upper(a, b)); }

/// minimum, maximum: a NaN wins, the first before the second.
template <class T> inline T propagate(T a, T b, T r) {
  r = b != b ? quiet(b) : r;
  return a != a ? quiet(a) : r;
}
template <class T> inline T minProp(T a, T b) { return propagate(a, b, lower(a, b)); }
template <class T> inline T maxProp(T a, T b) { return propagate(a, b, upper(a, b)); }

/// gfx9: a NaN loses; of two the second is the result, unless MODE.IEEE is set and one of them
/// is signalling.
template <class T> inline T older(T a, T b, T r) {
  r = b != b ? a : r;
  return a != a ? b : r;
}
template <class T> inline T ieee(T a, T b, T r) {
  r = older(a, b, r);
  r = signals(b) ? quiet(b) : r;
  return signals(a) ? quiet(a) : r;
}
struct Ieee {
  template <class T> static T min(T a, T b) { return ieee(a, b, lower(a, b)); }
  template <class T> static T max(T a, T b) { return ieee(a, b, upper(a, b)); }
};
struct Plain {
  template <class T> static T min(T a, T b) { return older(a, b, lower(a, b)); }
  template <class T> static T max(T a, T b) { return older(a, b, upper(a, b)); }
};
struct Number {
  template <class T> static T min(T a, T b) { return minNum(a, b); }
  template <class T> static T max(T a, T b) { return maxNum(a, b); }
};

template <class Rule, class T> inline T min3(T a, T b, T c) { return Rule::min(Rule::min(a, b), c); }
template <class Rule, class T> inline T max3(T a, T b, T c) { return Rule::max(Rule::max(a, b), c); }
/// The middle one; the smallest if there is a NaN. The larger of the two that are left without the first operand that
/// equals the largest: either zero equals the other one.
template <class Rule, class T> inline T med3(T a, T b, T c) {
  const bool nan = a != a || b != b || c != c;
  const T low = min3<Rule>(a, b, c);
  const T top = upper(upper(a, b), c);
  const T mid = top == a ? upper(b, c) : upper(a, top == b ? c : b);
  return nan ? low : mid;
}

} // namespace
} // namespace flysim

#endif
