//===- Atomics.h - read-modify-write operations ----------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_ATOMICS_H
#define FLYSIM_EXEC_ATOMICS_H

#include "exec/ExecInline.h"
#include "exec/FloatFormats.h"
#include "exec/MinMax.h"

#include <cmath>

namespace flysim {
namespace {

enum class Rmw : uint8_t {
  Swap, CmpSwap, Add, Sub, RSub, SMin, UMin, SMax, UMax, And, Or, Xor, Inc, Dec, FAdd, FMin, FMax,
  FMinNum, FMaxNum, PkAddF16, PkAddBF16, SubClamp, CondSub, CmpSwapFloat,
};

constexpr bool comparesFirst(Rmw op) { return op == Rmw::CmpSwap || op == Rmw::CmpSwapFloat; }

/// `a` is what memory has, `b` what the instruction gives. gfx12 has minimumNumber and maximumNumber, which gives its
/// NaN if both are NaNs; before it, zeros are equal and memory keeps its own.
template <class T> inline T rmwFloat(Rmw op, T a, T b) {
  if (op == Rmw::FAdd)
    return a + b;
  if (op == Rmw::FMinNum)
    return minNum(b, a);
  if (op == Rmw::FMaxNum)
    return maxNum(b, a);
  if (op == Rmw::FMin)
    return a != a ? b : b != b ? a : (b < a ? b : a);
  return a != a ? b : b != b ? a : (a < b ? b : a);
}

inline uint32_t pkAdd(uint32_t a, uint32_t b, bool bf) {
  uint32_t r = 0;
  for (int k = 0; k < 32; k += 16) {
    uint32_t x = a >> k & 0xffff, y = b >> k & 0xffff;
    r |= (bf ? floatToBf16(bf16ToFloat(x) + bf16ToFloat(y))
             : floatToHalf(halfToFloat(x) + halfToFloat(y)))
         << k;
  }
  return r;
}

template <class T> inline T rmwApply(Rmw op, T old, T data) {
  using S = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using F = std::conditional_t<sizeof(T) == 4, float, double>;
  switch (op) {
  case Rmw::Swap:
  case Rmw::CmpSwap:
    return data;
  case Rmw::Add:
    return old + data;
  case Rmw::Sub:
    return old - data;
  case Rmw::RSub:
    return data - old;
  case Rmw::SMin:
    return S(data) < S(old) ? data : old;
  case Rmw::UMin:
    return data < old ? data : old;
  case Rmw::SMax:
    return S(data) > S(old) ? data : old;
  case Rmw::UMax:
    return data > old ? data : old;
  case Rmw::And:
    return old & data;
  case Rmw::Or:
    return old | data;
  case Rmw::Xor:
    return old ^ data;
  case Rmw::Inc:
    return old >= data ? 0 : old + 1;
  case Rmw::Dec:
    return old == 0 || old > data ? data : old - 1;
  case Rmw::SubClamp:
    return old > data ? old - data : 0;
  case Rmw::CondSub:
    return old >= data ? old - data : old;
  case Rmw::PkAddF16:
    return static_cast<T>(pkAdd(static_cast<uint32_t>(old), static_cast<uint32_t>(data), false));
  case Rmw::PkAddBF16:
    return static_cast<T>(pkAdd(static_cast<uint32_t>(old), static_cast<uint32_t>(data), true));
  default:
    return bitCast<T>(rmwFloat<F>(op, bitCast<F>(old), bitCast<F>(data)));
  }
}

/// Performs `op` atomically on host memory and returns the old value.
template <class T> inline T rmwMemory(Rmw op, uint8_t *p, T data, T compare) {
  auto *target = reinterpret_cast<T *>(p);
  T old = __atomic_load_n(target, __ATOMIC_SEQ_CST);
  if (op == Rmw::CmpSwap) {
    T expected = compare;
    __atomic_compare_exchange_n(target, &expected, data, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return expected;
  }
  using F = std::conditional_t<sizeof(T) == 4, float, double>;
  auto next = [&](T now) {
    if (op == Rmw::CmpSwapFloat) // a zero equals the other one, and a NaN nothing
      return bitCast<F>(now) == bitCast<F>(compare) ? data : now;
    return rmwApply<T>(op, now, data);
  };
  while (!__atomic_compare_exchange_n(target, &old, next(old), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}

struct RmwName {
  const char *gfx9, *gfx12; ///< suffixes after "..._atomic_"
  Rmw op;
  uint8_t bytes;
};
constexpr RmwName kRmw[] = {
    {"swap", "swap_b32", Rmw::Swap, 4},       {"swap_x2", "swap_b64", Rmw::Swap, 8},
    {"cmpswap", "cmpswap_b32", Rmw::CmpSwap, 4}, {"cmpswap_x2", "cmpswap_b64", Rmw::CmpSwap, 8},
    {"add", "add_u32", Rmw::Add, 4},          {"add_x2", "add_u64", Rmw::Add, 8},
    {"sub", "sub_u32", Rmw::Sub, 4},          {"sub_x2", "sub_u64", Rmw::Sub, 8},
    {"smin", "min_i32", Rmw::SMin, 4},        {"smin_x2", "min_i64", Rmw::SMin, 8},
    {"umin", "min_u32", Rmw::UMin, 4},        {"umin_x2", "min_u64", Rmw::UMin, 8},
    {"smax", "max_i32", Rmw::SMax, 4},        {"smax_x2", "max_i64", Rmw::SMax, 8},
    {"umax", "max_u32", Rmw::UMax, 4},        {"umax_x2", "max_u64", Rmw::UMax, 8},
    {"and", "and_b32", Rmw::And, 4},          {"and_x2", "and_b64", Rmw::And, 8},
    {"or", "or_b32", Rmw::Or, 4},             {"or_x2", "or_b64", Rmw::Or, 8},
    {"xor", "xor_b32", Rmw::Xor, 4},          {"xor_x2", "xor_b64", Rmw::Xor, 8},
    {"inc", "inc_u32", Rmw::Inc, 4},          {"inc_x2", "inc_u64", Rmw::Inc, 8},
    {"dec", "dec_u32", Rmw::Dec, 4},          {"dec_x2", "dec_u64", Rmw::Dec, 8},
    {"add_f32", "add_f32", Rmw::FAdd, 4},     {"add_f64", "add_f64", Rmw::FAdd, 8},
    {"min_f32", "min_f32", Rmw::FMin, 4},     {"min_f64", "min_f64", Rmw::FMin, 8},
    {"max_f32", "max_f32", Rmw::FMax, 4},     {"max_f64", "max_f64", Rmw::FMax, 8},
    {"min_num_f32", "min_num_f32", Rmw::FMinNum, 4}, {"min_num_f64", "min_num_f64", Rmw::FMinNum, 8},
    {"max_num_f32", "max_num_f32", Rmw::FMaxNum, 4}, {"max_num_f64", "max_num_f64", Rmw::FMaxNum, 8},
    {"pk_add_f16", "pk_add_f16", Rmw::PkAddF16, 4},
    {"pk_add_bf16", "pk_add_bf16", Rmw::PkAddBF16, 4},
    {"csub", "sub_clamp_u32", Rmw::SubClamp, 4}, {"csub_u32", "csub_u32", Rmw::SubClamp, 4},
    {"cond_sub_u32", "cond_sub_u32", Rmw::CondSub, 4},
    {"cmpswap_f32", "cmpswap_f32", Rmw::CmpSwapFloat, 4},
};

} // namespace
} // namespace flysim

#endif
