//===- LaneWords.h - words of lanes, in memory and in rows -----*- C++ -*-===//
//
// In memory the words of a lane lie side by side; in the register file each of them is in a row
// of its own. Loads and stores of whole waves spend their time between the two.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_LANEWORDS_H
#define FLYSIM_EXEC_LANEWORDS_H

#include "exec/ExecInline.h"

#include <type_traits>

namespace flysim {
namespace {

/// 64 bits between memory and two registers. An aligned access is a single one, as on a device: who polls a word
/// that another device stores never sees half of it. (Nor do those below that move 8 bytes by one instruction.)
inline void loadWord64(uint32_t &low, uint32_t &high, const void *p) {
  uint64_t v;
  if (reinterpret_cast<uintptr_t>(p) % 8 == 0)
    v = __atomic_load_n(static_cast<const uint64_t *>(p), __ATOMIC_RELAXED);
  else
    memcpy(&v, p, 8);
  low = static_cast<uint32_t>(v);
  high = static_cast<uint32_t>(v >> 32);
}
inline void storeWord64(void *p, uint32_t low, uint32_t high) {
  const uint64_t v = uint64_t(high) << 32 | low;
  if (reinterpret_cast<uintptr_t>(p) % 8 == 0)
    __atomic_store_n(static_cast<uint64_t *>(p), v, __ATOMIC_RELAXED);
  else
    memcpy(p, &v, 8);
}

#if defined(__SSE2__)
inline __m128 loadFour(const uint8_t *p) { return _mm_loadu_ps(reinterpret_cast<const float *>(p)); }
inline void storeFour(uint8_t *p, __m128 v) { _mm_storeu_ps(reinterpret_cast<float *>(p), v); }
inline __m128 rowOfFour(const uint32_t *s) { return _mm_loadu_ps(reinterpret_cast<const float *>(s)); }
inline void setRowOfFour(uint32_t *d, __m128 v) { _mm_storeu_ps(reinterpret_cast<float *>(d), v); }
inline __m128 loadPair(const uint8_t *first, const uint8_t *second) {
  __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(first));
  __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(second));
  return _mm_castsi128_ps(_mm_unpacklo_epi64(a, b));
}
inline void storePair(uint8_t *first, uint8_t *second, __m128 v) {
  _mm_storel_pi(reinterpret_cast<__m64 *>(first), v);
  _mm_storeh_pi(reinterpret_cast<__m64 *>(second), v);
}
#endif

#if defined(__AVX512F__)
/// Lanes whose four dwords each fill four vectors of the host.
constexpr unsigned kFourVectors = 16;
inline __m512i lowerHalves(__m512i a, __m512i b) {
  return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 2, 3, 8, 9, 10, 11), b);
}
inline __m512i upperHalves(__m512i a, __m512i b) {
  return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 5, 6, 7, 12, 13, 14, 15), b);
}
/// Loads four dwords of each of so many lanes, which lie side by side, into four rows.
inline void loadFourVectors(uint32_t *d, const uint8_t *p) {
  const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
  const __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64);
  const __m512i c = _mm512_loadu_si512(p + 128), e = _mm512_loadu_si512(p + 192);
  auto two = [d](unsigned k, __m512i low, __m512i high) { // rows k and k + 1 of the lower and the upper lanes
    _mm512_storeu_si512(d + k * kRow, lowerHalves(low, high));
    _mm512_storeu_si512(d + (k + 1) * kRow, upperHalves(low, high));
  };
  two(0, _mm512_permutex2var_epi32(a, first, b), _mm512_permutex2var_epi32(c, first, e));
  two(2, _mm512_permutex2var_epi32(a, second, b), _mm512_permutex2var_epi32(c, second, e));
}
/// The reverse.
inline void storeFourVectors(const uint32_t *s, uint8_t *p) {
  const __m512i first = _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(4));
  __m512i r[4];
  for (unsigned k = 0; k < 4; ++k)
    r[k] = _mm512_loadu_si512(s + k * kRow);
  auto two = [&](uint8_t *at, __m512i low, __m512i high) { // eight lanes: their first two dwords and the others
    _mm512_storeu_si512(at, _mm512_permutex2var_epi32(low, first, high));
    _mm512_storeu_si512(at + 64, _mm512_permutex2var_epi32(low, second, high));
  };
  two(p, lowerHalves(r[0], r[1]), lowerHalves(r[2], r[3]));
  two(p + 128, upperHalves(r[0], r[1]), upperHalves(r[2], r[3]));
}
#endif

/// Loads N dwords from each of four places into N rows.
template <unsigned N> inline void loadFourLanes(uint32_t *d, const uint8_t *const (&p)[4]) {
#if defined(__SSE2__)
  if constexpr (N == 2) {
    __m128 x = loadPair(p[0], p[1]), y = loadPair(p[2], p[3]);
    setRowOfFour(d, _mm_shuffle_ps(x, y, 0x88));
    setRowOfFour(d + kRow, _mm_shuffle_ps(x, y, 0xdd));
    return;
  }
  if constexpr (N == 4) {
    __m128 r[4] = {loadFour(p[0]), loadFour(p[1]), loadFour(p[2]), loadFour(p[3])};
    _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
    for (unsigned k = 0; k < 4; ++k)
      setRowOfFour(d + k * kRow, r[k]);
    return;
  }
#endif
  for (unsigned l = 0; l < 4; ++l) {
    if constexpr (N == 2)
      loadWord64(d[l], d[kRow + l], p[l]);
    else
      for (unsigned k = 0; k < N; ++k)
        memcpy(&d[k * kRow + l], p[l] + 4 * k, 4);
  }
}

/// Loads N dwords of each lane from `at(lane)` into N rows. `at` must not read the rows.
template <unsigned N, class At> inline void loadRows(uint32_t *d, unsigned lanes, At at) {
  for (unsigned l = 0; l < lanes; l += 4) {
    const uint8_t *const p[4] = {at(l), at(l + 1), at(l + 2), at(l + 3)};
    loadFourLanes<N>(d + l, p);
  }
}

/// Stores N dwords of each lane to `at(lane)`, in the order of the lanes: where two of them meet, the
/// later one stays.
template <unsigned N, class At> inline void storeRows(const uint32_t *s, unsigned lanes, At at) {
#if defined(__SSE2__)
  if constexpr (N == 2) {
    for (unsigned l = 0; l < lanes; l += 4) {
      __m128 x = rowOfFour(s + l), y = rowOfFour(s + kRow + l);
      storePair(at(l), at(l + 1), _mm_unpacklo_ps(x, y));
      storePair(at(l + 2), at(l + 3), _mm_unpackhi_ps(x, y));
    }
    return;
  }
  if constexpr (N == 4) {
    for (unsigned l = 0; l < lanes; l += 4) {
      __m128 r[4];
      for (unsigned k = 0; k < 4; ++k)
        r[k] = rowOfFour(s + k * kRow + l);
      _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
      for (unsigned k = 0; k < 4; ++k)
        storeFour(at(l + k), r[k]);
    }
    return;
  }
#endif
  for (unsigned l = 0; l < lanes; ++l) {
    if constexpr (N == 2)
      storeWord64(at(l), s[l], s[kRow + l]);
    else
      for (unsigned k = 0; k < N; ++k)
        memcpy(at(l) + 4 * k, &s[k * kRow + l], 4);
  }
}

/// Calls `f` with the number of dwords as a constant; false for a size that is not 1 to 4 of them.
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

} // namespace
} // namespace flysim

#endif
