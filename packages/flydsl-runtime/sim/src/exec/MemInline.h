//===- MemInline.h - vector memory access ----------------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_MEMINLINE_H
#define FLYSIM_EXEC_MEMINLINE_H

#include "exec/ExecInline.h"

#include <type_traits>

namespace flysim {
namespace {

/// How an access moves data between memory and registers.
struct MemShape {
  uint8_t bytes;   ///< per lane
  bool sign;       ///< sign-extend 1- and 2-byte loads
  bool d16;        ///< a 16-bit half, the other half is kept
  bool high;       ///< ... the high half
};

constexpr uint32_t packShape(MemShape s) {
  return s.bytes | uint32_t(s.sign) << 8 | uint32_t(s.d16) << 9 | uint32_t(s.high) << 10;
}
inline MemShape shapeOf(uint32_t aux) {
  return {static_cast<uint8_t>(aux), (aux >> 8 & 1) != 0, (aux >> 9 & 1) != 0,
          (aux >> 10 & 1) != 0};
}

/// Where a direct-to-LDS load writes: M0, as wide as the largest LDS (160 KiB on gfx950).
inline uint32_t ldsBase(const Wave &w) { return w.s[w.m0Index] & 0x3ffff; }

/// Lanes that are looked at together: a row of a tile has as many in a wave of 64.
constexpr unsigned kBlock = 32;

/// Bounds of the addresses of all lanes. Bit b of the result: lane i of block b is at the block's
/// first address + i*bytes.
inline unsigned scan(const uint64_t *addr, unsigned blocks, unsigned bytes, uint64_t &lo, uint64_t &hi) {
  uint64_t low = addr[0], high = addr[0];
  unsigned dense = 0;
  for (unsigned b = 0; b < blocks; ++b, addr += kBlock) {
    uint64_t base = addr[0], last = base + uint64_t(kBlock - 1) * bytes, diff = 0;
    for (unsigned i = 0; i < kBlock; ++i)
      diff |= addr[i] ^ (base + uint64_t(i) * bytes);
    // A block that wraps around the end of the address space has its bounds inside.
    if (diff == 0 && last >= base) {
      dense |= 1u << b;
      low = base < low ? base : low;
      high = last > high ? last : high;
      continue;
    }
    for (unsigned i = 0; i < kBlock; ++i) {
      low = addr[i] < low ? addr[i] : low;
      high = addr[i] > high ? addr[i] : high;
    }
  }
  lo = low;
  hi = high;
  return dense;
}

/// 64 bits between memory and two registers. An aligned access is a single one, as on a device: who polls a word
/// that another device stores never sees half of it.
inline void loadPair(uint32_t &low, uint32_t &high, const void *p) {
  uint64_t v;
  if (reinterpret_cast<uintptr_t>(p) % 8 == 0)
    v = __atomic_load_n(static_cast<const uint64_t *>(p), __ATOMIC_RELAXED);
  else
    memcpy(&v, p, 8);
  low = static_cast<uint32_t>(v);
  high = static_cast<uint32_t>(v >> 32);
}
inline void storePair(void *p, uint32_t low, uint32_t high) {
  const uint64_t v = uint64_t(high) << 32 | low;
  if (reinterpret_cast<uintptr_t>(p) % 8 == 0)
    __atomic_store_n(static_cast<uint64_t *>(p), v, __ATOMIC_RELAXED);
  else
    memcpy(p, &v, 8);
}

inline void storeLoaded(uint32_t *d, unsigned lane, const uint8_t *p, const MemShape &s) {
  if (s.bytes == 8)
    return loadPair(d[lane], d[kRow + lane], p);
  if (s.bytes >= 4) {
    for (unsigned k = 0; k < s.bytes / 4u; ++k)
      memcpy(&d[k * kRow + lane], p + 4 * k, 4);
    return;
  }
  uint32_t v;
  if (s.bytes == 1) {
    v = s.sign ? static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(*p))) : *p;
  } else {
    uint16_t h;
    memcpy(&h, p, 2);
    v = s.sign ? static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(h))) : h;
  }
  if (s.d16)
    v = s.high ? (d[lane] & 0xffff) | v << 16 : (d[lane] & 0xffff0000) | (v & 0xffff);
  d[lane] = v;
}

inline void fetchStored(const uint32_t *s, unsigned lane, uint8_t *p, const MemShape &m) {
  if (m.bytes == 8)
    return storePair(p, s[lane], s[kRow + lane]);
  if (m.bytes >= 4) {
    for (unsigned k = 0; k < m.bytes / 4u; ++k)
      memcpy(p + 4 * k, &s[k * kRow + lane], 4);
    return;
  }
  uint32_t v = m.high ? s[lane] >> 16 : s[lane];
  memcpy(p, &v, m.bytes);
}

/// Loads of N dwords a lane from contiguous addresses, for a block: array of structures to rows.
template <unsigned N> inline void deinterleave(uint32_t *d, const uint8_t *p) {
  if constexpr (N == 1) {
    memcpy(d, p, kBlock * 4);
  } else {
    // Through an aligned local copy, so that the loop vectorises without alias checks.
    alignas(64) uint32_t flat[N * kBlock];
    memcpy(flat, p, sizeof flat);
    for (unsigned k = 0; k < N; ++k)
      for (unsigned i = 0; i < kBlock; ++i)
        d[k * kRow + i] = flat[i * N + k];
  }
}
template <unsigned N> inline void interleave(uint8_t *p, const uint32_t *s) {
  if constexpr (N == 1) {
    memcpy(p, s, kBlock * 4);
  } else {
    alignas(64) uint32_t flat[N * kBlock];
    for (unsigned k = 0; k < N; ++k)
      for (unsigned i = 0; i < kBlock; ++i)
        flat[i * N + k] = s[k * kRow + i];
    memcpy(p, flat, sizeof flat);
  }
}

/// Calls `f` with the number of dwords as a constant; false for less than one.
template <class F> inline bool withWords(unsigned bytes, F f) {
  switch (bytes) {
  case 4:
    f(std::integral_constant<unsigned, 1>());
    return true;
  case 8:
    f(std::integral_constant<unsigned, 2>());
    return true;
  case 12:
    f(std::integral_constant<unsigned, 3>());
    return true;
  case 16:
    f(std::integral_constant<unsigned, 4>());
    return true;
  default:
    return false;
  }
}

/// Loads of N dwords for every lane; `dense` as `scan` gives it.
template <unsigned N> inline void loadWords(uint32_t *d, const uint64_t *addr, unsigned blocks, unsigned dense) {
  for (unsigned b = 0; b < blocks; ++b, addr += kBlock, d += kBlock) {
    if (dense >> b & 1) {
      deinterleave<N>(d, reinterpret_cast<const uint8_t *>(addr[0]));
      continue;
    }
    for (unsigned i = 0; i < kBlock; ++i) {
      if constexpr (N == 2) {
        loadPair(d[i], d[kRow + i], reinterpret_cast<const void *>(addr[i]));
        continue;
      }
      uint32_t words[N];
      memcpy(words, reinterpret_cast<const void *>(addr[i]), sizeof words);
      for (unsigned k = 0; k < N; ++k)
        d[k * kRow + i] = words[k];
    }
  }
}
template <unsigned N>
inline void storeWords(const uint32_t *s, const uint64_t *addr, unsigned blocks, unsigned dense) {
  for (unsigned b = 0; b < blocks; ++b, addr += kBlock, s += kBlock) {
    if (dense >> b & 1) {
      interleave<N>(reinterpret_cast<uint8_t *>(addr[0]), s);
      continue;
    }
    for (unsigned i = 0; i < kBlock; ++i) {
      if constexpr (N == 2) {
        storePair(reinterpret_cast<void *>(addr[i]), s[i], s[kRow + i]);
        continue;
      }
      uint32_t words[N];
      for (unsigned k = 0; k < N; ++k)
        words[k] = s[k * kRow + i];
      memcpy(reinterpret_cast<void *>(addr[i]), words, sizeof words);
    }
  }
}

/// Loads to `d` under EXEC from the lanes' addresses.
inline void vectorLoad(Wave &w, uint32_t *d, const uint64_t *addr, const MemShape &s) {
  uint64_t exec = w.exec();
  if (exec == w.fullMask) {
    uint64_t lo, hi;
    unsigned dense = scan(addr, w.blocks, s.bytes, lo, hi);
    if (w.mem->check(lo, hi - lo + s.bytes, false)) {
      if (withWords(s.bytes, [&](auto n) { loadWords<n>(d, addr, w.blocks, dense); }))
        return;
      for (unsigned i = 0; i < w.lanes; ++i)
        storeLoaded(d, i, reinterpret_cast<const uint8_t *>(addr[i]), s);
      return;
    }
  }
  for (uint64_t m = exec; m; m &= m - 1) {
    unsigned i = static_cast<unsigned>(__builtin_ctzll(m));
    if (!w.mem->check(addr[i], s.bytes, false))
      badAddress(addr[i], s.bytes, false, static_cast<int>(i));
    storeLoaded(d, i, reinterpret_cast<const uint8_t *>(addr[i]), s);
  }
}

inline void vectorStore(Wave &w, const uint32_t *s, const uint64_t *addr, const MemShape &m) {
  uint64_t exec = w.exec();
  if (exec == w.fullMask) {
    uint64_t lo, hi;
    unsigned dense = scan(addr, w.blocks, m.bytes, lo, hi);
    if (w.mem->check(lo, hi - lo + m.bytes, true)) {
      if (withWords(m.bytes, [&](auto n) { storeWords<n>(s, addr, w.blocks, dense); }))
        return;
      for (unsigned i = 0; i < w.lanes; ++i)
        fetchStored(s, i, reinterpret_cast<uint8_t *>(addr[i]), m);
      return;
    }
  }
  for (uint64_t e = exec; e; e &= e - 1) {
    unsigned i = static_cast<unsigned>(__builtin_ctzll(e));
    if (!w.mem->check(addr[i], m.bytes, true))
      badAddress(addr[i], m.bytes, true, static_cast<int>(i));
    fetchStored(s, i, reinterpret_cast<uint8_t *>(addr[i]), m);
  }
}

/// Sizes and names of loads and stores, shared by global, flat, scratch and buffer.
struct MemName {
  const char *gfx9, *gfx12;
  MemShape shape;
};
constexpr MemName kLoads[] = {
    {"ubyte", "u8", {1, false, false, false}},
    {"sbyte", "i8", {1, true, false, false}},
    {"ushort", "u16", {2, false, false, false}},
    {"sshort", "i16", {2, true, false, false}},
    {"dword", "b32", {4, false, false, false}},
    {"dwordx2", "b64", {8, false, false, false}},
    {"dwordx3", "b96", {12, false, false, false}},
    {"dwordx4", "b128", {16, false, false, false}},
    {"ubyte_d16", "d16_u8", {1, false, true, false}},
    {"ubyte_d16_hi", "d16_hi_u8", {1, false, true, true}},
    {"sbyte_d16", "d16_i8", {1, true, true, false}},
    {"sbyte_d16_hi", "d16_hi_i8", {1, true, true, true}},
    {"short_d16", "d16_b16", {2, false, true, false}},
    {"short_d16_hi", "d16_hi_b16", {2, false, true, true}},
};
constexpr MemName kStores[] = {
    {"byte", "b8", {1, false, false, false}},
    {"short", "b16", {2, false, false, false}},
    {"dword", "b32", {4, false, false, false}},
    {"dwordx2", "b64", {8, false, false, false}},
    {"dwordx3", "b96", {12, false, false, false}},
    {"dwordx4", "b128", {16, false, false, false}},
    {"byte_d16_hi", "d16_hi_b8", {1, false, false, true}},
    {"short_d16_hi", "d16_hi_b16", {2, false, false, true}},
};

} // namespace
} // namespace flysim

#endif
