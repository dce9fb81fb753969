//===- MemInline.h - vector memory access ----------------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_MEMINLINE_H
#define FLYSIM_EXEC_MEMINLINE_H

#include "exec/AddressInline.h"
#include "exec/LaneWords.h"

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

/// True if lane i of `kLanes` is at the first address + i*bytes. Lanes that wrap around the end of the
/// address space are not dense: their bounds lie inside.
template <unsigned kLanes> inline bool isDense(const uint64_t *addr, unsigned bytes) {
  const uint64_t base = addr[0];
  uint64_t diff = 0;
  for (unsigned i = 0; i < kLanes; ++i)
    diff |= (addr[i] - base) ^ i * bytes;
  return diff == 0 && base + uint64_t(kLanes - 1) * bytes >= base;
}

/// Lanes of an access that is not dense as a whole which may be so: a row of a matrix tile.
constexpr unsigned kPart = 16;

/// Bounds of the addresses of all lanes. Bit b of the result: lane i of part b is at the part's
/// first address + i*bytes.
inline unsigned scan(const uint64_t *addr, unsigned lanes, unsigned bytes, uint64_t &lo, uint64_t &hi) {
  typedef uint64_t Four __attribute__((vector_size(4 * sizeof(uint64_t))));
  Four low = {addr[0], addr[0], addr[0], addr[0]}, high = low;
  unsigned dense = 0;
  for (unsigned b = 0; b < lanes / kPart; ++b, addr += kPart) {
    if (isDense<kPart>(addr, bytes)) {
      const uint64_t base = addr[0], last = base + uint64_t(kPart - 1) * bytes;
      dense |= 1u << b;
      low[0] = base < low[0] ? base : low[0];
      high[0] = last > high[0] ? last : high[0];
      continue;
    }
    for (unsigned i = 0; i < kPart; i += 4) {
      Four at;
      memcpy(&at, addr + i, sizeof at);
      low = at < low ? at : low;
      high = at > high ? at : high;
    }
  }
  lo = low[0];
  hi = high[0];
  for (unsigned i = 1; i < 4; ++i) {
    lo = low[i] < lo ? low[i] : lo;
    hi = high[i] > hi ? high[i] : hi;
  }
  return dense;
}

inline void storeLoaded(uint32_t *d, unsigned lane, const uint8_t *p, const MemShape &s) {
  if (s.bytes == 8)
    return loadWord64(d[lane], d[kRow + lane], p);
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
    return storeWord64(p, s[lane], s[kRow + lane]);
  if (m.bytes >= 4) {
    for (unsigned k = 0; k < m.bytes / 4u; ++k)
      memcpy(p + 4 * k, &s[k * kRow + lane], 4);
    return;
  }
  uint32_t v = m.high ? s[lane] >> 16 : s[lane];
  memcpy(p, &v, m.bytes);
}

/// Loads of N dwords of `kLanes` lanes that lie side by side.
template <unsigned N, unsigned kLanes> inline void loadDense(uint32_t *d, const uint8_t *p) {
  if constexpr (N == 1)
    memcpy(d, p, kLanes * 4);
#if defined(__AVX512F__)
  else if constexpr (N == 4)
    for (unsigned l = 0; l < kLanes; l += kFourVectors)
      loadFourVectors(d + l, p + l * 16);
#endif
  else
    loadRows<N>(d, kLanes, [p](unsigned l) { return p + l * N * 4; });
}
template <unsigned N, unsigned kLanes> inline void storeDense(const uint32_t *s, uint8_t *p) {
  if constexpr (N == 1)
    memcpy(p, s, kLanes * 4);
#if defined(__AVX512F__)
  else if constexpr (N == 4)
    for (unsigned l = 0; l < kLanes; l += kFourVectors)
      storeFourVectors(s + l, p + l * 16);
#endif
  else
    storeRows<N>(s, kLanes, [p](unsigned l) { return p + l * N * 4; });
}

/// Loads of N dwords for every lane; `dense` as `scan` gives it.
template <unsigned N> inline void loadWords(uint32_t *d, const uint64_t *addr, unsigned lanes, unsigned dense) {
  for (unsigned b = 0; b < lanes / kPart; ++b, addr += kPart, d += kPart)
    if (dense >> b & 1)
      loadDense<N, kPart>(d, reinterpret_cast<const uint8_t *>(addr[0]));
    else
      loadRows<N>(d, kPart, [addr](unsigned l) { return reinterpret_cast<const uint8_t *>(addr[l]); });
}
template <unsigned N>
inline void storeWords(const uint32_t *s, const uint64_t *addr, unsigned lanes, unsigned dense) {
  for (unsigned b = 0; b < lanes / kPart; ++b, addr += kPart, s += kPart)
    if (dense >> b & 1)
      storeDense<N, kPart>(s, reinterpret_cast<uint8_t *>(addr[0]));
    else
      storeRows<N>(s, kPart, [addr](unsigned l) { return reinterpret_cast<uint8_t *>(addr[l]); });
}

/// Loads to `d` under EXEC from the lanes' addresses.
inline void vectorLoad(Wave &w, uint32_t *d, const uint64_t *addr, const MemShape &s) {
  uint64_t exec = w.exec();
  if (exec == w.fullMask) {
    uint64_t lo, hi;
    unsigned dense = scan(addr, w.lanes, s.bytes, lo, hi);
    if (w.mem->check(lo, hi - lo + s.bytes, false)) {
      if (withWords(s.bytes, [&](auto n) { loadWords<n>(d, addr, w.lanes, dense); }))
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
    unsigned dense = scan(addr, w.lanes, m.bytes, lo, hi);
    if (w.mem->check(lo, hi - lo + m.bytes, true)) {
      if (withWords(m.bytes, [&](auto n) { storeWords<n>(s, addr, w.lanes, dense); }))
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

/// Asks the host for what lies behind a block: the next tile of most kernels, which another wave will want soon. A
/// CPU that sees many short rows in turns does not see that each of them goes on.
template <bool write> inline void prefetchNext(uint64_t first, unsigned bytes) {
  const auto *next = reinterpret_cast<const uint8_t *>(first) + size_t(kBlock) * bytes;
  for (unsigned at = 0; at <= kBlock * bytes; at += 64) // of rows that begin within a line one more
    __builtin_prefetch(next + at, write);
}

/// Loads and stores of blocks that start at `first`; false, with nothing done, if their memory or their
/// size is not for this path.
inline bool loadBlocks(Wave &w, uint32_t *d, const uint64_t *first, unsigned bytes) {
  for (unsigned b = 0; b < w.blocks; ++b)
    if (!w.mem->check(first[b], kBlock * bytes, false))
      return false;
  return withWords(bytes, [&](auto n) {
    for (unsigned b = 0; b < w.blocks; ++b) {
      loadDense<n, kBlock>(d + b * kBlock, reinterpret_cast<const uint8_t *>(first[b]));
      prefetchNext<false>(first[b], 4 * n);
    }
  });
}
inline bool storeBlocks(Wave &w, const uint32_t *s, const uint64_t *first, unsigned bytes) {
  for (unsigned b = 0; b < w.blocks; ++b)
    if (!w.mem->check(first[b], kBlock * bytes, true))
      return false;
  return withWords(bytes, [&](auto n) {
    for (unsigned b = 0; b < w.blocks; ++b) {
      storeDense<n, kBlock>(s + b * kBlock, reinterpret_cast<uint8_t *>(first[b]));
      prefetchNext<true>(first[b], 4 * n);
    }
  });
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
