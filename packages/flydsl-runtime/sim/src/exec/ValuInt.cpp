//===- ValuInt.cpp - integer and bit operations ---------------------------===//

#include "exec/Register.h"
#include "exec/Valu.h"

namespace flysim {
namespace {

using u16 = uint16_t;
using i16 = int16_t;
using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

inline i32 clampI32(i64 v) {
  return static_cast<i32>(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}
inline W64 plus(W64 a, W64 b) {
  const u32 lo = a.lo + b.lo;
  return {lo, a.hi + b.hi + (lo < b.lo)};
}
inline W64 minus(W64 a, W64 b) { return {a.lo - b.lo, a.hi - b.hi - (a.lo < b.lo)}; }
/// `by` is below 64.
inline W64 shiftLeft(W64 a, u32 by) {
  const u32 n = by & 31, lo = a.lo << n, hi = a.hi << n | a.lo >> 1 >> (31 - n);
  return {by & 32 ? 0 : lo, by & 32 ? lo : hi};
}
inline W64 shiftRight(W64 a, u32 by) {
  const u32 n = by & 31, hi = a.hi >> n, lo = a.lo >> n | a.hi << 1 << (31 - n);
  return {by & 32 ? hi : lo, by & 32 ? 0 : hi};
}
inline W64 product(u32 a, u32 b) { return {a * b, u32(u64(a) * b >> 32)}; }

inline u32 clampU32(u64 v) { return v > UINT32_MAX ? UINT32_MAX : static_cast<u32>(v); }
inline u16 clampU16(i32 v) { return static_cast<u16>(v < 0 ? 0 : v > 65535 ? 65535 : v); }
inline i16 clampI16(i32 v) {
  return static_cast<i16>(v < -32768 ? -32768 : v > 32767 ? 32767 : v);
}
inline i32 sext24(u32 v) { return static_cast<i32>(v << 8) >> 8; }
inline u32 bfeU(u32 a, u32 o, u32 n) {
  o &= 31;
  n &= 31;
  return a >> o & ((1u << n) - 1);
}
inline u32 bfeI(u32 a, u32 o, u32 n) {
  o &= 31;
  n &= 31;
  u32 v = a >> o & ((1u << n) - 1);
  u32 sign = n ? 1u << (n - 1) : 0;
  // A field that runs past bit 31 takes the operand's sign.
  u32 wide = static_cast<u32>(static_cast<i32>(a) >> o);
  return n == 0 ? 0 : (o + n >= 32 ? wide : (v ^ sign) - sign);
}
inline u32 brev(u32 v) {
  v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
  v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
  v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(v);
}
inline u32 permByte(u32 s0, u32 s1, u32 sel) {
  u64 data = u64(s0) << 32 | s1;
  u32 r = static_cast<u32>(data >> (8 * (sel & 7))) & 0xff;
  u32 sign = (data >> (16 * (sel & 3) + 15) & 1) ? 0xff : 0;
  return sel <= 7 ? r : sel <= 11 ? sign : sel == 12 ? 0 : 0xff;
}
inline u32 sadU8(u32 a, u32 b) {
  u32 sum = 0;
  for (int k = 0; k < 32; k += 8) {
    i32 d = static_cast<i32>(a >> k & 0xff) - static_cast<i32>(b >> k & 0xff);
    sum += static_cast<u32>(d < 0 ? -d : d);
  }
  return sum;
}
inline u32 ffbh(u32 a) { return a ? static_cast<u32>(__builtin_clz(a)) : ~0u; }

template <class T> inline T minOf(T a, T b) { return a < b ? a : b; }
template <class T> inline T maxOf(T a, T b) { return a < b ? b : a; }
template <class T> inline T med3(T a, T b, T c) {
  return maxOf(minOf(a, b), minOf(maxOf(a, b), c));
}

inline u32 lo(u32 v) { return v & 0xffff; }
inline u32 hi(u32 v) { return v >> 16; }
inline i32 slo(u32 v) { return static_cast<i16>(v); }
inline i32 shi(u32 v) { return static_cast<i32>(v) >> 16; }
inline P16 pack(u32 l, u32 h) { return P16{(l & 0xffff) | h << 16}; }

void addSub(ValuBuilder &v) {
  v.sat("v_add_u32", [](u32 a, u32 b) { return a + b; },
        [](u32 a, u32 b) { return clampU32(u64(a) + b); });
  v.sat("v_sub_u32", [](u32 a, u32 b) { return a - b; },
        [](u32 a, u32 b) { return a < b ? 0u : a - b; });
  v.sat("v_subrev_u32", [](u32 a, u32 b) { return b - a; },
        [](u32 a, u32 b) { return b < a ? 0u : b - a; });
  v.sat("v_add_i32", [](u32 a, u32 b) { return a + b; },
        [](i32 a, i32 b) { return clampI32(i64(a) + b); });
  v.sat("v_sub_i32", [](u32 a, u32 b) { return a - b; },
        [](i32 a, i32 b) { return clampI32(i64(a) - b); });
  v.alias("v_add_nc_u32", "v_add_u32");
  v.alias("v_sub_nc_u32", "v_sub_u32");
  v.alias("v_subrev_nc_u32", "v_subrev_u32");
  v.alias("v_add_nc_i32", "v_add_i32");
  v.alias("v_sub_nc_i32", "v_sub_i32");
  v.op("v_add_nc_u64", [](W64 a, W64 b) { return plus(a, b); });
  v.op("v_sub_nc_u64", [](W64 a, W64 b) { return minus(a, b); });
  v.op("v_mul_u64", [](u64 a, u64 b) { return a * b; });
  v.carry("v_add_co_u32", [](u32 a, u32 b, u32, u32 &c) { u32 r = a + b; c = r < a; return r; },
          kCarryOut);
  v.carry("v_sub_co_u32", [](u32 a, u32 b, u32, u32 &c) { c = a < b; return a - b; }, kCarryOut);
  v.carry("v_subrev_co_u32", [](u32 a, u32 b, u32, u32 &c) { c = b < a; return b - a; },
          kCarryOut);
  v.carry("v_addc_co_u32",
          [](u32 a, u32 b, u32 in, u32 &c) {
            u64 r = u64(a) + b + in;
            c = static_cast<u32>(r >> 32);
            return static_cast<u32>(r);
          },
          kCarryOut | kCarryIn);
  v.carry("v_subb_co_u32",
          [](u32 a, u32 b, u32 in, u32 &c) {
            c = u64(a) < u64(b) + in;
            return a - b - in;
          },
          kCarryOut | kCarryIn);
  v.carry("v_subbrev_co_u32",
          [](u32 a, u32 b, u32 in, u32 &c) {
            c = u64(b) < u64(a) + in;
            return b - a - in;
          },
          kCarryOut | kCarryIn);
  v.alias("v_add_co_ci_u32", "v_addc_co_u32");
  v.alias("v_sub_co_ci_u32", "v_subb_co_u32");
  v.alias("v_subrev_co_ci_u32", "v_subbrev_co_u32");
  v.carry("v_cndmask_b32", [](u32 a, u32 b, u32 in, u32 &) { return in ? b : a; }, kCarryIn);
  // Halves whose signs can be changed on the way, as those of v_cndmask_b32.
  v.carry("v_cndmask_b16", [](H16 a, H16 b, u32 in, u32 &) { return u16(in ? b.bits : a.bits); }, kCarryIn);
  v.carry("v_mad_u64_u32",
          [](u32 a, u32 b, W64 c, u32, u32 &out) {
            const W64 p = product(a, b), r = plus(p, c);
            out = ((p.hi & c.hi) | ((p.hi | c.hi) & ~r.hi)) >> 31;
            return r;
          },
          [](u32 a, u32 b, W64 c) { return plus(product(a, b), c); }, kCarryOut);
  v.carry("v_mad_i64_i32",
          [](i32 a, i32 b, i64 c, u32, u32 &out) {
            i64 p = i64(a) * b, r;
            // Bit 64 of the sum: its sign, were it not cut off.
            out = __builtin_add_overflow(p, c, &r) != (i64(u64(p) + u64(c)) < 0);
            return static_cast<i64>(u64(p) + u64(c));
          },
          [](i32 a, i32 b, u64 c) { return u64(i64(a) * b) + c; }, kCarryOut);
  v.alias("v_mad_co_u64_u32", "v_mad_u64_u32");
  v.alias("v_mad_co_i64_i32", "v_mad_i64_i32");
  v.op("v_mad_nc_u64_u32", [](u32 a, u32 b, W64 c) { return plus(product(a, b), c); });
  v.op("v_mad_nc_i64_i32", [](i32 a, i32 b, u64 c) { return u64(i64(a) * b) + c; });
}

void logic(ValuBuilder &v) {
  v.op("v_mov_b32", [](u32 a) { return a; });
  v.op("v_mov_b64", [](u64 a) { return a; });
  v.alias("v_accvgpr_write_b32", "v_mov_b32");
  v.alias("v_accvgpr_read_b32", "v_mov_b32");
  v.alias("v_accvgpr_mov_b32", "v_mov_b32");
  v.alias("v_accvgpr_write", "v_mov_b32");
  v.alias("v_accvgpr_read", "v_mov_b32");
  v.op("v_not_b32", [](u32 a) { return ~a; });
  v.op("v_not_b16", [](u16 a) { return u16(~a); });
  v.op("v_mov_b16", [](u16 a) { return a; });
  v.op("v_and_b32", [](u32 a, u32 b) { return a & b; });
  v.op("v_or_b32", [](u32 a, u32 b) { return a | b; });
  v.op("v_xor_b32", [](u32 a, u32 b) { return a ^ b; });
  v.op("v_xnor_b32", [](u32 a, u32 b) { return ~(a ^ b); });
  v.op("v_and_b16", [](u16 a, u16 b) { return u16(a & b); });
  v.op("v_or_b16", [](u16 a, u16 b) { return u16(a | b); });
  v.op("v_xor_b16", [](u16 a, u16 b) { return u16(a ^ b); });
  v.op("v_and_or_b32", [](u32 a, u32 b, u32 c) { return (a & b) | c; });
  v.op("v_or3_b32", [](u32 a, u32 b, u32 c) { return a | b | c; });
  v.op("v_xor3_b32", [](u32 a, u32 b, u32 c) { return a ^ b ^ c; });
  v.op("v_xad_u32", [](u32 a, u32 b, u32 c) { return (a ^ b) + c; });
  v.op("v_bfi_b32", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  v.op("v_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  v.op("v_bfe_u32", [](u32 a, u32 b, u32 c) { return bfeU(a, b, c); });
  v.op("v_bfe_i32", [](u32 a, u32 b, u32 c) { return bfeI(a, b, c); });
  v.op("v_bfrev_b32", [](u32 a) { return brev(a); });
  v.op("v_bcnt_u32_b32", [](u32 a, u32 b) { return u32(__builtin_popcount(a)) + b; });
  v.op("v_ffbh_u32", [](u32 a) { return ffbh(a); });
  v.op("v_ffbl_b32", [](u32 a) { return a ? u32(__builtin_ctz(a)) : ~0u; });
  v.op("v_ffbh_i32", [](i32 a) { return ffbh(u32(a ^ (a >> 31)) << 1 | 1) == 31
                                            ? ~0u : ffbh(u32(a ^ (a >> 31))) ; });
  v.alias("v_clz_i32_u32", "v_ffbh_u32");
  v.alias("v_ctz_i32_b32", "v_ffbl_b32");
  v.alias("v_cls_i32", "v_ffbh_i32");
  v.op("v_lshlrev_b32", [](u32 a, u32 b) { return b << (a & 31); });
  v.op("v_lshrrev_b32", [](u32 a, u32 b) { return b >> (a & 31); });
  v.op("v_ashrrev_i32", [](u32 a, i32 b) { return b >> (a & 31); });
  v.op("v_lshl_b32", [](u32 a, u32 b) { return a << (b & 31); });
  v.op("v_lshlrev_b64", [](u32 a, W64 b) { return shiftLeft(b, a & 63); });
  v.op("v_lshrrev_b64", [](u32 a, W64 b) { return shiftRight(b, a & 63); });
  v.op("v_ashrrev_i64", [](u32 a, i64 b) { return b >> (a & 63); });
  v.op("v_lshlrev_b16", [](u16 a, u16 b) { return u16(b << (a & 15)); });
  v.op("v_lshrrev_b16", [](u16 a, u16 b) { return u16(b >> (a & 15)); });
  v.op("v_ashrrev_i16", [](u16 a, i16 b) { return i16(b >> (a & 15)); });
  v.op("v_lshl_add_u32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; });
  v.op("v_add_lshl_u32", [](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); });
  v.op("v_lshl_or_b32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; });
  v.op("v_add3_u32", [](u32 a, u32 b, u32 c) { return a + b + c; });
  v.op("v_lshl_add_u64", [](W64 a, u32 b, W64 c) { return plus(shiftLeft(a, b & 7), c); });
  v.op("v_alignbit_b32", [](u32 a, u32 b, u32 c) {
    return u32((u64(a) << 32 | b) >> (c & 31));
  });
  v.op("v_alignbyte_b32", [](u32 a, u32 b, u32 c) {
    return u32((u64(a) << 32 | b) >> (8 * (c & 3)));
  });
  v.op("v_perm_b32", [](u32 a, u32 b, u32 c) {
    return permByte(a, b, c & 0xff) | permByte(a, b, c >> 8 & 0xff) << 8 |
           permByte(a, b, c >> 16 & 0xff) << 16 | permByte(a, b, c >> 24) << 24;
  });
}

/// Truth table of two operands; the third of v_bitop3 reads as zero.
void bitop2(const LaneArgs &a) {
  const uint32_t table = a.imm;
  const u32 m0 = table & 1 ? ~0u : 0, m1 = table & 4 ? ~0u : 0, m2 = table & 16 ? ~0u : 0,
            m3 = table & 64 ? ~0u : 0;
  FLYSIM_LANES(u32 x = a.s[0][i]; u32 y = a.s[1][i];
               a.d[i] = (~x & ~y & m0) | (~x & y & m1) | (x & ~y & m2) | (x & y & m3););
}

void multiply(ValuBuilder &v) {
  v.op("v_mul_lo_u32", [](u32 a, u32 b) { return a * b; });
  v.op("v_mul_hi_u32", [](u32 a, u32 b) { return u32(u64(a) * b >> 32); });
  v.op("v_mul_hi_i32", [](i32 a, i32 b) { return u32(u64(i64(a) * b) >> 32); });
  v.op("v_mul_u32_u24", [](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); });
  v.op("v_mul_i32_i24", [](u32 a, u32 b) { return u32(sext24(a)) * u32(sext24(b)); });
  v.op("v_mul_hi_u32_u24", [](u32 a, u32 b) {
    return u32(u64(a & 0xffffff) * (b & 0xffffff) >> 32);
  });
  v.op("v_mul_hi_i32_i24", [](u32 a, u32 b) {
    return u32(u64(i64(sext24(a)) * sext24(b)) >> 32);
  });
  v.sat("v_mad_u32_u24", [](u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; },
        [](u32 a, u32 b, u32 c) { return clampU32(u64(a & 0xffffff) * (b & 0xffffff) + c); });
  v.sat("v_mad_i32_i24",
        [](u32 a, u32 b, u32 c) { return u32(sext24(a)) * u32(sext24(b)) + c; },
        [](u32 a, u32 b, i32 c) { return clampI32(i64(sext24(a)) * sext24(b) + c); });
  v.op("v_mad_u32", [](u32 a, u32 b, u32 c) { return a * b + c; });
  v.sat("v_mad_u32_u16", [](u16 a, u16 b, u32 c) { return u32(a) * b + c; },
        [](u16 a, u16 b, u32 c) { return clampU32(u64(u32(a) * b) + c); });
  v.sat("v_mad_i32_i16", [](i16 a, i16 b, u32 c) { return u32(i32(a) * b) + c; },
        [](i16 a, i16 b, i32 c) { return clampI32(i64(i32(a) * b) + c); });
  v.op("v_sad_u8", [](u32 a, u32 b, u32 c) { return sadU8(a, b) + c; });
  v.op("v_sad_hi_u8", [](u32 a, u32 b, u32 c) { return (sadU8(a, b) << 16) + c; });
  v.op("v_sad_u16", [](u32 a, u32 b, u32 c) {
    u32 l = lo(a) > lo(b) ? lo(a) - lo(b) : lo(b) - lo(a);
    u32 h = hi(a) > hi(b) ? hi(a) - hi(b) : hi(b) - hi(a);
    return l + h + c;
  });
  v.op("v_sad_u32", [](u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; });
  v.op("v_lerp_u8", [](u32 a, u32 b, u32 c) {
    u32 r = 0;
    for (int k = 0; k < 32; k += 8)
      r |= (((a >> k & 0xff) + (b >> k & 0xff) + (c >> k & 1)) >> 1 & 0xff) << k;
    return r;
  });
}

void minMax(ValuBuilder &v) {
  v.op("v_min_u32", [](u32 a, u32 b) { return minOf(a, b); });
  v.op("v_max_u32", [](u32 a, u32 b) { return maxOf(a, b); });
  v.op("v_min_i32", [](i32 a, i32 b) { return minOf(a, b); });
  v.op("v_max_i32", [](i32 a, i32 b) { return maxOf(a, b); });
  v.op("v_min_u64", [](u64 a, u64 b) { return minOf(a, b); });
  v.op("v_max_u64", [](u64 a, u64 b) { return maxOf(a, b); });
  v.op("v_min_i64", [](i64 a, i64 b) { return minOf(a, b); });
  v.op("v_max_i64", [](i64 a, i64 b) { return maxOf(a, b); });
  v.op("v_min_u16", [](u16 a, u16 b) { return minOf(a, b); });
  v.op("v_max_u16", [](u16 a, u16 b) { return maxOf(a, b); });
  v.op("v_min_i16", [](i16 a, i16 b) { return minOf(a, b); });
  v.op("v_max_i16", [](i16 a, i16 b) { return maxOf(a, b); });
  v.op("v_min3_u32", [](u32 a, u32 b, u32 c) { return minOf(minOf(a, b), c); });
  v.op("v_max3_u32", [](u32 a, u32 b, u32 c) { return maxOf(maxOf(a, b), c); });
  v.op("v_med3_u32", [](u32 a, u32 b, u32 c) { return med3(a, b, c); });
  v.op("v_min3_i32", [](i32 a, i32 b, i32 c) { return minOf(minOf(a, b), c); });
  v.op("v_max3_i32", [](i32 a, i32 b, i32 c) { return maxOf(maxOf(a, b), c); });
  v.op("v_med3_i32", [](i32 a, i32 b, i32 c) { return med3(a, b, c); });
  v.op("v_maxmin_u32", [](u32 a, u32 b, u32 c) { return minOf(maxOf(a, b), c); });
  v.op("v_minmax_u32", [](u32 a, u32 b, u32 c) { return maxOf(minOf(a, b), c); });
  v.op("v_maxmin_i32", [](i32 a, i32 b, i32 c) { return minOf(maxOf(a, b), c); });
  v.op("v_minmax_i32", [](i32 a, i32 b, i32 c) { return maxOf(minOf(a, b), c); });
  v.op("v_min3_u16", [](u16 a, u16 b, u16 c) { return minOf(minOf(a, b), c); });
  v.op("v_max3_u16", [](u16 a, u16 b, u16 c) { return maxOf(maxOf(a, b), c); });
  v.op("v_med3_u16", [](u16 a, u16 b, u16 c) { return med3(a, b, c); });
  v.op("v_min3_i16", [](i16 a, i16 b, i16 c) { return minOf(minOf(a, b), c); });
  v.op("v_max3_i16", [](i16 a, i16 b, i16 c) { return maxOf(maxOf(a, b), c); });
  v.op("v_med3_i16", [](i16 a, i16 b, i16 c) { return med3(a, b, c); });
}

void shortInts(ValuBuilder &v) {
  v.sat("v_add_u16", [](u16 a, u16 b) { return u16(a + b); },
        [](u16 a, u16 b) { return clampU16(i32(a) + b); });
  v.sat("v_sub_u16", [](u16 a, u16 b) { return u16(a - b); },
        [](u16 a, u16 b) { return clampU16(i32(a) - b); });
  v.sat("v_subrev_u16", [](u16 a, u16 b) { return u16(b - a); },
        [](u16 a, u16 b) { return clampU16(i32(b) - a); });
  v.sat("v_add_i16", [](u16 a, u16 b) { return u16(a + b); },
        [](i16 a, i16 b) { return clampI16(i32(a) + b); });
  v.sat("v_sub_i16", [](u16 a, u16 b) { return u16(a - b); },
        [](i16 a, i16 b) { return clampI16(i32(a) - b); });
  v.alias("v_add_nc_u16", "v_add_u16");
  v.alias("v_sub_nc_u16", "v_sub_u16");
  v.alias("v_add_nc_i16", "v_add_i16");
  v.alias("v_sub_nc_i16", "v_sub_i16");
  v.op("v_mul_lo_u16", [](u16 a, u16 b) { return u16(u32(a) * b); });
  v.sat("v_mad_u16", [](u16 a, u16 b, u16 c) { return u16(u32(a) * b + c); },
        [](u16 a, u16 b, u16 c) { u32 r = u32(a) * b + c; return u16(r > 65535 ? 65535 : r); },
        kKeepHigh);
  v.sat("v_mad_i16", [](u16 a, u16 b, u16 c) { return u16(u32(a) * b + c); },
        [](i16 a, i16 b, i16 c) { return clampI16(i32(a) * b + c); }, kKeepHigh);
  v.op("v_pack_b32_f16", [](H16 a, H16 b) { return u32(a.bits) | u32(b.bits) << 16; });
}

void packed(ValuBuilder &v) {
  v.sat("v_pk_add_u16",
        [](P16 a, P16 b) { return pack(lo(a.bits) + lo(b.bits), hi(a.bits) + hi(b.bits)); },
        [](P16 a, P16 b) {
          return pack(clampU16(i32(lo(a.bits) + lo(b.bits))),
                      clampU16(i32(hi(a.bits) + hi(b.bits))));
        });
  v.sat("v_pk_sub_u16",
        [](P16 a, P16 b) { return pack(lo(a.bits) - lo(b.bits), hi(a.bits) - hi(b.bits)); },
        [](P16 a, P16 b) {
          return pack(clampU16(i32(lo(a.bits) - lo(b.bits))),
                      clampU16(i32(hi(a.bits) - hi(b.bits))));
        });
  v.sat("v_pk_add_i16",
        [](P16 a, P16 b) { return pack(lo(a.bits) + lo(b.bits), hi(a.bits) + hi(b.bits)); },
        [](P16 a, P16 b) {
          return pack(u32(clampI16(slo(a.bits) + slo(b.bits))),
                      u32(clampI16(shi(a.bits) + shi(b.bits))));
        });
  v.sat("v_pk_sub_i16",
        [](P16 a, P16 b) { return pack(lo(a.bits) - lo(b.bits), hi(a.bits) - hi(b.bits)); },
        [](P16 a, P16 b) {
          return pack(u32(clampI16(slo(a.bits) - slo(b.bits))),
                      u32(clampI16(shi(a.bits) - shi(b.bits))));
        });
  v.op("v_pk_mul_lo_u16",
       [](P16 a, P16 b) { return pack(lo(a.bits) * lo(b.bits), hi(a.bits) * hi(b.bits)); });
  v.op("v_pk_mad_u16", [](P16 a, P16 b, P16 c) {
    return pack(lo(a.bits) * lo(b.bits) + lo(c.bits), hi(a.bits) * hi(b.bits) + hi(c.bits));
  });
  v.alias("v_pk_mad_i16", "v_pk_mad_u16");
  v.op("v_pk_lshlrev_b16", [](P16 a, P16 b) {
    return pack(lo(b.bits) << (a.bits & 15), hi(b.bits) << (a.bits >> 16 & 15));
  });
  v.op("v_pk_lshrrev_b16", [](P16 a, P16 b) {
    return pack(lo(b.bits) >> (a.bits & 15), hi(b.bits) >> (a.bits >> 16 & 15));
  });
  v.op("v_pk_ashrrev_i16", [](P16 a, P16 b) {
    return pack(u32(slo(b.bits) >> (a.bits & 15)), u32(shi(b.bits) >> (a.bits >> 16 & 15)));
  });
  v.op("v_pk_min_u16", [](P16 a, P16 b) {
    return pack(minOf(lo(a.bits), lo(b.bits)), minOf(hi(a.bits), hi(b.bits)));
  });
  v.op("v_pk_max_u16", [](P16 a, P16 b) {
    return pack(maxOf(lo(a.bits), lo(b.bits)), maxOf(hi(a.bits), hi(b.bits)));
  });
  v.op("v_pk_min_i16", [](P16 a, P16 b) {
    return pack(u32(minOf(slo(a.bits), slo(b.bits))), u32(minOf(shi(a.bits), shi(b.bits))));
  });
  v.op("v_pk_max_i16", [](P16 a, P16 b) {
    return pack(u32(maxOf(slo(a.bits), slo(b.bits))), u32(maxOf(shi(a.bits), shi(b.bits))));
  });
  v.op("v_pk_mov_b32", [](PU a, PU b) { return PU{a.lo, b.hi}; });
}

inline i32 dot4(u32 a, u32 b, bool sa, bool sb) {
  i32 sum = 0;
  for (int k = 0; k < 32; k += 8) {
    i32 x = sa ? static_cast<int8_t>(a >> k) : i32(a >> k & 0xff);
    i32 y = sb ? static_cast<int8_t>(b >> k) : i32(b >> k & 0xff);
    sum += x * y;
  }
  return sum;
}

void dots(ValuBuilder &v) {
  v.sat("v_dot4_u32_u8", [](u32 a, u32 b, u32 c) { return u32(dot4(a, b, false, false)) + c; },
        [](u32 a, u32 b, u32 c) { return clampU32(u64(u32(dot4(a, b, false, false))) + c); });
  v.sat("v_dot4_i32_i8", [](u32 a, u32 b, u32 c) { return u32(dot4(a, b, true, true)) + c; },
        [](u32 a, u32 b, i32 c) { return clampI32(i64(dot4(a, b, true, true)) + c); });
  v.op("v_dot4c_i32_i8", [](u32 a, u32 b, u32 c) { return u32(dot4(a, b, true, true)) + c; },
       kTied);
  v.op("v_dot2_i32_i16", [](u32 a, u32 b, u32 c) {
    return u32(slo(a)) * u32(slo(b)) + u32(shi(a)) * u32(shi(b)) + c;
  });
  v.op("v_dot2_u32_u16",
       [](u32 a, u32 b, u32 c) { return lo(a) * lo(b) + hi(a) * hi(b) + c; });
}

} // namespace

void FLYSIM_LEVEL::registerValuInt(OpTable &table) {
  ValuBuilder v(table);
  addSub(v);
  logic(v);
  OpDef two;
  two.exec = execVop;
  two.lane = bitop2;
  two.dst = two.src[0] = two.src[1] = Num::B32;
  two.nsrc = 2;
  table.add("v_bitop2_b32", two);
  multiply(v);
  minMax(v);
  shortInts(v);
  packed(v);
  dots(v);
}

} // namespace flysim
