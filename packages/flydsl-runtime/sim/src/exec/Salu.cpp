//===- Salu.cpp - scalar arithmetic ---------------------------------------===//

#include "exec/ExecInline.h"
#include "exec/FloatFormats.h"
#include "exec/MinMax.h"
#include "exec/Register.h"

#include <cmath>

namespace flysim {
namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

/// How an operation sets SCC.
enum class Scc { Keep, NonZero, Own };

template <class T> inline T readAs(const Wave &w, const Operand &o) {
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(read64(w, o));
  else
    return bitCast<T>(read32(w, o));
}
template <class T> inline void writeAs(Wave &w, const Operand &o, T v) {
  if constexpr (sizeof(T) == 8)
    write64(w, o, bitCast<u64>(v));
  else
    write32(w, o, bitCast<u32>(v));
}

template <class F> inline const F &stateless() {
  alignas(F) static const unsigned char storage[sizeof(F)] = {};
  return reinterpret_cast<const F &>(storage);
}

template <class F, Scc scc, class R, class A> void exec1(Wave &w, const Inst &i) {
  R r = stateless<F>()(w, readAs<A>(w, i.src[0]));
  writeAs<R>(w, i.dst, r);
  if (scc == Scc::NonZero)
    w.scc = r != 0;
}
template <class F, Scc scc, class R, class A, class B> void exec2(Wave &w, const Inst &i) {
  R r = stateless<F>()(w, readAs<A>(w, i.src[0]), readAs<B>(w, i.src[1]));
  writeAs<R>(w, i.dst, r);
  if (scc == Scc::NonZero)
    w.scc = r != 0;
}
template <class F, class A, class B> void execCompare(Wave &w, const Inst &i) {
  w.scc = stateless<F>()(readAs<A>(w, i.src[0]), readAs<B>(w, i.src[1]));
}
/// s_cmpk_*: the register operand against the immediate.
template <class F, class A> void execCompareK(Wave &w, const Inst &i) {
  A k = std::is_signed<A>::value ? A(i.imm) : A(static_cast<uint16_t>(i.imm));
  w.scc = stateless<F>()(readAs<A>(w, i.dst), k);
}

class SaluBuilder {
public:
  explicit SaluBuilder(OpTable &table) : table(table) {}
  void raw(const char *name, ExecFn exec) {
    OpDef d;
    d.exec = exec;
    table.add(name, d);
  }
  template <Scc scc, class F> void op(const char *name, F) {
    raw(name, pick<scc, F>(&F::operator()));
  }
  template <class F> void cmp(const char *name, F) {
    raw(name, pickCompare<F>(&F::operator()));
    std::string k = std::string("s_cmpk") + (name + 5);
    raw(k.c_str(), pickCompareK<F>(&F::operator()));
  }
  void alias(const char *a, const char *b) { table.alias(a, b); }

private:
  template <Scc scc, class F, class R, class A> static ExecFn pick(R (F::*)(Wave &, A) const) {
    return exec1<F, scc, R, A>;
  }
  template <Scc scc, class F, class R, class A, class B>
  static ExecFn pick(R (F::*)(Wave &, A, B) const) {
    return exec2<F, scc, R, A, B>;
  }
  template <class F, class A, class B> static ExecFn pickCompare(bool (F::*)(A, B) const) {
    return execCompare<F, A, B>;
  }
  template <class F, class A, class B> static ExecFn pickCompareK(bool (F::*)(A, B) const) {
    return execCompareK<F, A>;
  }
  OpTable &table;
};

inline u32 brev32(u32 v) {
  v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
  v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
  v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(v);
}

void arithmetic(SaluBuilder &s) {
  s.op<Scc::Own>("s_add_u32", [](Wave &w, u32 a, u32 b) { u32 r = a + b; w.scc = r < a; return r; });
  s.op<Scc::Own>("s_sub_u32", [](Wave &w, u32 a, u32 b) { w.scc = a < b; return a - b; });
  s.op<Scc::Own>("s_addc_u32", [](Wave &w, u32 a, u32 b) {
    u64 r = u64(a) + b + w.scc; w.scc = u32(r >> 32); return u32(r); });
  s.op<Scc::Own>("s_subb_u32", [](Wave &w, u32 a, u32 b) {
    u32 in = w.scc; w.scc = u64(a) < u64(b) + in; return a - b - in; });
  s.op<Scc::Own>("s_add_i32", [](Wave &w, i32 a, i32 b) {
    i32 r; w.scc = __builtin_add_overflow(a, b, &r); return r; });
  s.op<Scc::Own>("s_sub_i32", [](Wave &w, i32 a, i32 b) {
    i32 r; w.scc = __builtin_sub_overflow(a, b, &r); return r; });
  s.alias("s_add_co_u32", "s_add_u32");
  s.alias("s_sub_co_u32", "s_sub_u32");
  s.alias("s_add_co_ci_u32", "s_addc_u32");
  s.alias("s_sub_co_ci_u32", "s_subb_u32");
  s.alias("s_add_co_i32", "s_add_i32");
  s.alias("s_sub_co_i32", "s_sub_i32");
  s.op<Scc::Keep>("s_add_nc_u64", [](Wave &, u64 a, u64 b) { return a + b; });
  s.op<Scc::Keep>("s_sub_nc_u64", [](Wave &, u64 a, u64 b) { return a - b; });
  s.alias("s_add_u64", "s_add_nc_u64");
  s.alias("s_sub_u64", "s_sub_nc_u64");
  s.op<Scc::Keep>("s_mul_u64", [](Wave &, u64 a, u64 b) { return a * b; });
  s.op<Scc::Keep>("s_mul_i32", [](Wave &, u32 a, u32 b) { return a * b; });
  s.op<Scc::Keep>("s_mul_hi_u32", [](Wave &, u32 a, u32 b) { return u32(u64(a) * b >> 32); });
  s.op<Scc::Keep>("s_mul_hi_i32", [](Wave &, i32 a, i32 b) { return u32(u64(i64(a) * b) >> 32); });
  s.op<Scc::Own>("s_min_i32", [](Wave &w, i32 a, i32 b) { w.scc = a < b; return a < b ? a : b; });
  s.op<Scc::Own>("s_min_u32", [](Wave &w, u32 a, u32 b) { w.scc = a < b; return a < b ? a : b; });
  s.op<Scc::Own>("s_max_i32", [](Wave &w, i32 a, i32 b) { w.scc = a >= b; return a > b ? a : b; });
  s.op<Scc::Own>("s_max_u32", [](Wave &w, u32 a, u32 b) { w.scc = a >= b; return a > b ? a : b; });
  s.op<Scc::NonZero>("s_absdiff_i32", [](Wave &, i32 a, i32 b) {
    i32 d = i32(u32(a) - u32(b)); return d < 0 ? u32(0) - u32(d) : u32(d); });
  s.op<Scc::NonZero>("s_abs_i32", [](Wave &, i32 a) { return a < 0 ? 0u - u32(a) : u32(a); });
  s.op<Scc::Own>("s_lshl1_add_u32", [](Wave &w, u32 a, u32 b) {
    u64 r = (u64(a) << 1) + b; w.scc = r >> 32 != 0; return u32(r); });
  s.op<Scc::Own>("s_lshl2_add_u32", [](Wave &w, u32 a, u32 b) {
    u64 r = (u64(a) << 2) + b; w.scc = r >> 32 != 0; return u32(r); });
  s.op<Scc::Own>("s_lshl3_add_u32", [](Wave &w, u32 a, u32 b) {
    u64 r = (u64(a) << 3) + b; w.scc = r >> 32 != 0; return u32(r); });
  s.op<Scc::Own>("s_lshl4_add_u32", [](Wave &w, u32 a, u32 b) {
    u64 r = (u64(a) << 4) + b; w.scc = r >> 32 != 0; return u32(r); });
  s.raw("s_movk_i32", [](Wave &w, const Inst &i) { write32(w, i.dst, u32(i.imm)); });
  s.raw("s_cmovk_i32", [](Wave &w, const Inst &i) { if (w.scc) write32(w, i.dst, u32(i.imm)); });
  s.raw("s_addk_i32", [](Wave &w, const Inst &i) {
    i32 r; w.scc = __builtin_add_overflow(i32(read32(w, i.dst)), i32(i.imm), &r);
    write32(w, i.dst, u32(r)); });
  s.alias("s_addk_co_i32", "s_addk_i32");
  s.raw("s_mulk_i32", [](Wave &w, const Inst &i) {
    write32(w, i.dst, read32(w, i.dst) * u32(i.imm)); });
  s.raw("s_version", [](Wave &, const Inst &) {});
}

template <class T> void logicOf(SaluBuilder &s, const std::string &bits) {
  auto n = [&](const char *base) { return std::string(base) + bits; };
  s.op<Scc::Keep>(n("s_mov_b").c_str(), [](Wave &, T a) { return a; });
  s.op<Scc::NonZero>(n("s_not_b").c_str(), [](Wave &, T a) { return T(~a); });
  s.op<Scc::NonZero>(n("s_and_b").c_str(), [](Wave &, T a, T b) { return T(a & b); });
  s.op<Scc::NonZero>(n("s_or_b").c_str(), [](Wave &, T a, T b) { return T(a | b); });
  s.op<Scc::NonZero>(n("s_xor_b").c_str(), [](Wave &, T a, T b) { return T(a ^ b); });
  s.op<Scc::NonZero>(n("s_andn2_b").c_str(), [](Wave &, T a, T b) { return T(a & ~b); });
  s.op<Scc::NonZero>(n("s_orn2_b").c_str(), [](Wave &, T a, T b) { return T(a | ~b); });
  s.op<Scc::NonZero>(n("s_nand_b").c_str(), [](Wave &, T a, T b) { return T(~(a & b)); });
  s.op<Scc::NonZero>(n("s_nor_b").c_str(), [](Wave &, T a, T b) { return T(~(a | b)); });
  s.op<Scc::NonZero>(n("s_xnor_b").c_str(), [](Wave &, T a, T b) { return T(~(a ^ b)); });
  s.alias(n("s_and_not1_b").c_str(), n("s_andn2_b").c_str());
  s.alias(n("s_or_not1_b").c_str(), n("s_orn2_b").c_str());
  constexpr u32 m = sizeof(T) * 8 - 1;
  s.op<Scc::NonZero>(n("s_lshl_b").c_str(), [](Wave &, T a, u32 b) { return T(a << (b & m)); });
  s.op<Scc::NonZero>(n("s_lshr_b").c_str(), [](Wave &, T a, u32 b) { return T(a >> (b & m)); });
  using S = std::make_signed_t<T>;
  s.op<Scc::NonZero>(n("s_ashr_i").c_str(), [](Wave &, S a, u32 b) { return S(a >> (b & m)); });
  s.op<Scc::Keep>(n("s_bfm_b").c_str(), [](Wave &, u32 a, u32 b) {
    return T(((T(1) << (a & m)) - 1) << (b & m)); });
  s.op<Scc::Keep>(n("s_cselect_b").c_str(), [](Wave &w, T a, T b) { return w.scc ? a : b; });
  s.raw(n("s_cmov_b").c_str(), [](Wave &w, const Inst &i) {
    if (w.scc) writeAs<T>(w, i.dst, readAs<T>(w, i.src[0])); });
  // saveexec: the old EXEC goes to the destination, the result to EXEC.
#define FLYSIM_SAVEEXEC(name, expr)                                                                \
  s.raw(n("s_" name "_saveexec_b").c_str(), [](Wave &w, const Inst &i) {                          \
    T a = readAs<T>(w, i.src[0]), e = T(w.exec());                                                 \
    T r = T(expr);                                                                                 \
    writeAs<T>(w, i.dst, e);                                                                       \
    w.setExec(r);                                                                                  \
    w.scc = r != 0;                                                                                \
  })
  FLYSIM_SAVEEXEC("and", a & e);
  FLYSIM_SAVEEXEC("or", a | e);
  FLYSIM_SAVEEXEC("xor", a ^ e);
  FLYSIM_SAVEEXEC("andn2", a & ~e);
  FLYSIM_SAVEEXEC("orn2", a | ~e);
  FLYSIM_SAVEEXEC("andn1", ~a & e);
  FLYSIM_SAVEEXEC("orn1", ~a | e);
  FLYSIM_SAVEEXEC("nand", ~(a & e));
  FLYSIM_SAVEEXEC("nor", ~(a | e));
  FLYSIM_SAVEEXEC("xnor", ~(a ^ e));
#undef FLYSIM_SAVEEXEC
  s.alias(n("s_and_not1_saveexec_b").c_str(), n("s_andn2_saveexec_b").c_str());
  s.alias(n("s_or_not1_saveexec_b").c_str(), n("s_orn2_saveexec_b").c_str());
  s.alias(n("s_and_not0_saveexec_b").c_str(), n("s_andn1_saveexec_b").c_str());
  s.alias(n("s_or_not0_saveexec_b").c_str(), n("s_orn1_saveexec_b").c_str());
  s.raw(n("s_andn1_wrexec_b").c_str(), [](Wave &w, const Inst &i) {
    T r = T(~readAs<T>(w, i.src[0]) & T(w.exec()));
    w.setExec(r); writeAs<T>(w, i.dst, r); w.scc = r != 0; });
  s.raw(n("s_andn2_wrexec_b").c_str(), [](Wave &w, const Inst &i) {
    T r = T(readAs<T>(w, i.src[0]) & ~T(w.exec()));
    w.setExec(r); writeAs<T>(w, i.dst, r); w.scc = r != 0; });
  s.alias(n("s_and_not0_wrexec_b").c_str(), n("s_andn1_wrexec_b").c_str());
  s.alias(n("s_and_not1_wrexec_b").c_str(), n("s_andn2_wrexec_b").c_str());
}

void bits(SaluBuilder &s) {
  s.op<Scc::NonZero>("s_bfe_u32", [](Wave &, u32 a, u32 b) {
    u32 o = b & 31, n = b >> 16 & 127;
    return n == 0 ? 0u : n >= 32 ? a >> o : a >> o & ((1u << n) - 1); });
  s.op<Scc::NonZero>("s_bfe_i32", [](Wave &, u32 a, u32 b) {
    u32 o = b & 31, n = b >> 16 & 127;
    if (n == 0) return i32(0);
    if (o + n >= 32) return i32(a) >> o;
    return i32(a << (32 - o - n)) >> (32 - n); });
  s.op<Scc::NonZero>("s_bfe_u64", [](Wave &, u64 a, u32 b) {
    u32 o = b & 63, n = b >> 16 & 127;
    return n == 0 ? u64(0) : n >= 64 ? a >> o : a >> o & ((u64(1) << n) - 1); });
  s.op<Scc::NonZero>("s_bfe_i64", [](Wave &, u64 a, u32 b) {
    u32 o = b & 63, n = b >> 16 & 127;
    if (n == 0) return i64(0);
    if (o + n >= 64) return i64(a) >> o;
    return i64(a << (64 - o - n)) >> (64 - n); });
  s.op<Scc::Keep>("s_brev_b32", [](Wave &, u32 a) { return brev32(a); });
  s.op<Scc::Keep>("s_brev_b64", [](Wave &, u64 a) {
    return u64(brev32(u32(a))) << 32 | brev32(u32(a >> 32)); });
  s.op<Scc::NonZero>("s_bcnt1_i32_b32", [](Wave &, u32 a) { return u32(__builtin_popcount(a)); });
  s.op<Scc::NonZero>("s_bcnt1_i32_b64", [](Wave &, u64 a) { return u32(__builtin_popcountll(a)); });
  s.op<Scc::NonZero>("s_bcnt0_i32_b32", [](Wave &, u32 a) { return u32(__builtin_popcount(~a)); });
  s.op<Scc::NonZero>("s_bcnt0_i32_b64", [](Wave &, u64 a) { return u32(__builtin_popcountll(~a)); });
  s.op<Scc::Keep>("s_ff1_i32_b32", [](Wave &, u32 a) { return a ? __builtin_ctz(a) : -1; });
  s.op<Scc::Keep>("s_ff1_i32_b64", [](Wave &, u64 a) { return a ? __builtin_ctzll(a) : -1; });
  s.op<Scc::Keep>("s_ff0_i32_b32", [](Wave &, u32 a) { return ~a ? __builtin_ctz(~a) : -1; });
  s.op<Scc::Keep>("s_ff0_i32_b64", [](Wave &, u64 a) { return ~a ? __builtin_ctzll(~a) : -1; });
  s.op<Scc::Keep>("s_flbit_i32_b32", [](Wave &, u32 a) { return a ? __builtin_clz(a) : -1; });
  s.op<Scc::Keep>("s_flbit_i32_b64", [](Wave &, u64 a) { return a ? __builtin_clzll(a) : -1; });
  s.op<Scc::Keep>("s_flbit_i32", [](Wave &, i32 a) {
    u32 x = u32(a ^ (a >> 31)); return x ? __builtin_clz(x) : -1; });
  s.op<Scc::Keep>("s_flbit_i32_i64", [](Wave &, i64 a) {
    u64 x = u64(a ^ (a >> 63)); return x ? __builtin_clzll(x) : -1; });
  s.alias("s_ctz_i32_b32", "s_ff1_i32_b32");
  s.alias("s_ctz_i32_b64", "s_ff1_i32_b64");
  s.alias("s_clz_i32_u32", "s_flbit_i32_b32");
  s.alias("s_clz_i32_u64", "s_flbit_i32_b64");
  s.alias("s_cls_i32", "s_flbit_i32");
  s.alias("s_cls_i32_i64", "s_flbit_i32_i64");
  s.op<Scc::Keep>("s_sext_i32_i8", [](Wave &, u32 a) { return i32(int8_t(a)); });
  s.op<Scc::Keep>("s_sext_i32_i16", [](Wave &, u32 a) { return i32(int16_t(a)); });
  s.op<Scc::Keep>("s_pack_ll_b32_b16", [](Wave &, u32 a, u32 b) { return (a & 0xffff) | b << 16; });
  s.op<Scc::Keep>("s_pack_lh_b32_b16", [](Wave &, u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000); });
  s.op<Scc::Keep>("s_pack_hh_b32_b16", [](Wave &, u32 a, u32 b) { return a >> 16 | (b & 0xffff0000); });
  s.op<Scc::Keep>("s_pack_hl_b32_b16", [](Wave &, u32 a, u32 b) { return a >> 16 | b << 16; });
  s.raw("s_bitset0_b32", [](Wave &w, const Inst &i) {
    write32(w, i.dst, read32(w, i.dst) & ~(1u << (read32(w, i.src[0]) & 31))); });
  s.raw("s_bitset1_b32", [](Wave &w, const Inst &i) {
    write32(w, i.dst, read32(w, i.dst) | 1u << (read32(w, i.src[0]) & 31)); });
  s.raw("s_bitset0_b64", [](Wave &w, const Inst &i) {
    write64(w, i.dst, read64(w, i.dst) & ~(u64(1) << (read32(w, i.src[0]) & 63))); });
  s.raw("s_bitset1_b64", [](Wave &w, const Inst &i) {
    write64(w, i.dst, read64(w, i.dst) | u64(1) << (read32(w, i.src[0]) & 63)); });
  s.op<Scc::NonZero>("s_wqm_b64", [](Wave &, u64 a) {
    u64 r = 0;
    for (int q = 0; q < 64; q += 4) if (a >> q & 15) r |= u64(15) << q;
    return r; });
  s.op<Scc::NonZero>("s_wqm_b32", [](Wave &, u32 a) {
    u32 r = 0;
    for (int q = 0; q < 32; q += 4) if (a >> q & 15) r |= u32(15) << q;
    return r; });
  s.raw("s_bitreplicate_b64_b32", [](Wave &w, const Inst &i) {
    u32 a = read32(w, i.src[0]);
    u64 r = 0;
    for (int k = 0; k < 32; ++k) r |= u64(a >> k & 1) * 3 << (2 * k);
    write64(w, i.dst, r); });
}

void compares(SaluBuilder &s) {
  s.cmp("s_cmp_eq_i32", [](i32 a, i32 b) { return a == b; });
  s.cmp("s_cmp_lg_i32", [](i32 a, i32 b) { return a != b; });
  s.cmp("s_cmp_gt_i32", [](i32 a, i32 b) { return a > b; });
  s.cmp("s_cmp_ge_i32", [](i32 a, i32 b) { return a >= b; });
  s.cmp("s_cmp_lt_i32", [](i32 a, i32 b) { return a < b; });
  s.cmp("s_cmp_le_i32", [](i32 a, i32 b) { return a <= b; });
  s.cmp("s_cmp_eq_u32", [](u32 a, u32 b) { return a == b; });
  s.cmp("s_cmp_lg_u32", [](u32 a, u32 b) { return a != b; });
  s.cmp("s_cmp_gt_u32", [](u32 a, u32 b) { return a > b; });
  s.cmp("s_cmp_ge_u32", [](u32 a, u32 b) { return a >= b; });
  s.cmp("s_cmp_lt_u32", [](u32 a, u32 b) { return a < b; });
  s.cmp("s_cmp_le_u32", [](u32 a, u32 b) { return a <= b; });
  s.cmp("s_cmp_eq_u64", [](u64 a, u64 b) { return a == b; });
  s.cmp("s_cmp_lg_u64", [](u64 a, u64 b) { return a != b; });
  s.cmp("s_bitcmp0_b32", [](u32 a, u32 b) { return !(a >> (b & 31) & 1); });
  s.cmp("s_bitcmp1_b32", [](u32 a, u32 b) { return (a >> (b & 31) & 1) != 0; });
  s.cmp("s_bitcmp0_b64", [](u64 a, u32 b) { return !(a >> (b & 63) & 1); });
  s.cmp("s_bitcmp1_b64", [](u64 a, u32 b) { return (a >> (b & 63) & 1) != 0; });
#define FLYSIM_FCMP(name, expr)                                                                    \
  s.cmp("s_cmp_" name "_f32", [](float a, float b) { return expr; })
  FLYSIM_FCMP("lt", a < b);
  FLYSIM_FCMP("eq", a == b);
  FLYSIM_FCMP("le", a <= b);
  FLYSIM_FCMP("gt", a > b);
  FLYSIM_FCMP("lg", a < b || a > b);
  FLYSIM_FCMP("ge", a >= b);
  FLYSIM_FCMP("o", a == a && b == b);
  FLYSIM_FCMP("u", a != a || b != b);
  FLYSIM_FCMP("nge", !(a >= b));
  FLYSIM_FCMP("nlg", !(a < b || a > b));
  FLYSIM_FCMP("ngt", !(a > b));
  FLYSIM_FCMP("nle", !(a <= b));
  FLYSIM_FCMP("neq", !(a == b));
  FLYSIM_FCMP("nlt", !(a < b));
#undef FLYSIM_FCMP
}

void floats(SaluBuilder &s) {
  s.op<Scc::Keep>("s_add_f32", [](Wave &, float a, float b) { return a + b; });
  s.op<Scc::Keep>("s_sub_f32", [](Wave &, float a, float b) { return a - b; });
  s.op<Scc::Keep>("s_mul_f32", [](Wave &, float a, float b) { return a * b; });
  for (const char *name : {"s_min_f32", "s_min_num_f32"})
    s.op<Scc::Keep>(name, [](Wave &, float a, float b) { return minNum(a, b); });
  for (const char *name : {"s_max_f32", "s_max_num_f32"})
    s.op<Scc::Keep>(name, [](Wave &, float a, float b) { return maxNum(a, b); });
  s.op<Scc::Keep>("s_minimum_f32", [](Wave &, float a, float b) { return minProp(a, b); });
  s.op<Scc::Keep>("s_maximum_f32", [](Wave &, float a, float b) { return maxProp(a, b); });
  s.raw("s_fmac_f32", [](Wave &w, const Inst &i) {
    writeAs<float>(w, i.dst, __builtin_fmaf(readAs<float>(w, i.src[0]), readAs<float>(w, i.src[1]),
                                            readAs<float>(w, i.dst))); });
  s.raw("s_fmaak_f32", [](Wave &w, const Inst &i) {
    writeAs<float>(w, i.dst, __builtin_fmaf(readAs<float>(w, i.src[0]), readAs<float>(w, i.src[1]),
                                            readAs<float>(w, i.src[2]))); });
  s.raw("s_fmamk_f32", [](Wave &w, const Inst &i) {
    writeAs<float>(w, i.dst, __builtin_fmaf(readAs<float>(w, i.src[0]), readAs<float>(w, i.src[2]),
                                            readAs<float>(w, i.src[1]))); });
  s.op<Scc::Keep>("s_floor_f32", [](Wave &, float a) { return std::floor(a); });
  s.op<Scc::Keep>("s_ceil_f32", [](Wave &, float a) { return std::ceil(a); });
  s.op<Scc::Keep>("s_trunc_f32", [](Wave &, float a) { return std::trunc(a); });
  s.op<Scc::Keep>("s_rndne_f32", [](Wave &, float a) { return __builtin_roundevenf(a); });
  s.op<Scc::Keep>("s_cvt_f32_i32", [](Wave &, i32 a) { return float(a); });
  s.op<Scc::Keep>("s_cvt_f32_u32", [](Wave &, u32 a) { return float(a); });
  s.op<Scc::Keep>("s_cvt_i32_f32", [](Wave &, float a) {
    return a != a ? 0 : a >= 0x1p31f ? INT32_MAX : a <= -0x1p31f ? INT32_MIN : i32(a); });
  s.op<Scc::Keep>("s_cvt_u32_f32", [](Wave &, float a) {
    return a != a || a <= -1.0f ? 0u : a >= 0x1p32f ? UINT32_MAX : u32(i64(a)); });
  s.op<Scc::Keep>("s_cvt_f16_f32", [](Wave &, float a) { return floatToHalf(a); });
  s.op<Scc::Keep>("s_cvt_f32_f16", [](Wave &, u32 a) { return halfToFloat(a & 0xffff); });
  s.op<Scc::Keep>("s_cvt_hi_f32_f16", [](Wave &, u32 a) { return halfToFloat(a >> 16); });
  s.op<Scc::Keep>("s_cvt_pk_rtz_f16_f32", [](Wave &, float a, float b) {
    return floatToHalfRtz(a) | floatToHalfRtz(b) << 16; });
#define FLYSIM_HALF(name, expr)                                                                    \
  s.op<Scc::Keep>("s_" name "_f16", [](Wave &, u32 x, u32 y) {                                     \
    float a = halfToFloat(x & 0xffff), b = halfToFloat(y & 0xffff);                                \
    return floatToHalf(expr);                                                                      \
  })
  FLYSIM_HALF("add", a + b);
  FLYSIM_HALF("sub", a - b);
  FLYSIM_HALF("mul", a *b);
  FLYSIM_HALF("min_num", std::fmin(a, b));
  FLYSIM_HALF("max_num", std::fmax(a, b));
#undef FLYSIM_HALF
  s.raw("s_fmac_f16", [](Wave &w, const Inst &i) {
    write32(w, i.dst, doubleToHalf(__builtin_fma(halfToFloat(read32(w, i.src[0]) & 0xffff),
                                                 halfToFloat(read32(w, i.src[1]) & 0xffff),
                                                 halfToFloat(read32(w, i.dst) & 0xffff)))); });
}

} // namespace

void scalar::registerSalu(OpTable &table) {
  SaluBuilder s(table);
  arithmetic(s);
  logicOf<u32>(s, "32");
  logicOf<u64>(s, "64");
  bits(s);
  compares(s);
  floats(s);
}

} // namespace flysim
