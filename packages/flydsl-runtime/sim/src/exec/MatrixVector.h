//===- MatrixVector.h - rows of an output tile and their inner loops -*- C++ -*-===//
//
// A row type holds 16 or 4 neighbouring columns. The float rows accumulate with one
// fused multiply-add per step, in ascending k: products are exact, every step rounds
// once to float (nearest even). The integer rows take two steps at a time, as pairs of
// 16-bit values, and wrap around. Results do not depend on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_MATRIXVECTOR_H
#define FLYSIM_EXEC_MATRIXVECTOR_H

#include "exec/ExecInline.h"

#include <cmath>

namespace flysim {
namespace {

#if defined(__AVX512F__)
constexpr unsigned kRowsAtOnce = 16;
struct F32x16 {
  __m512 v;
  static F32x16 load(const float *p) { return {_mm512_loadu_ps(p)}; }
  void fma(float a, const F32x16 &b) { v = _mm512_fmadd_ps(_mm512_set1_ps(a), b.v, v); }
  /// Stores with NaNs in their canonical form.
  void store(float *p) const {
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    __m512 quiet = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    _mm512_storeu_ps(p, _mm512_mask_mov_ps(v, nan, quiet));
  }
};

/// Stores rows to `to` + at[row]. Whether any of them has a NaN costs one comparison for two rows.
template <unsigned kRows> inline void storeRows(const F32x16 (&rows)[kRows], float *to, const uint16_t *at) {
  static_assert(kRows % 2 == 0, "");
  __mmask16 nan = 0;
#pragma GCC unroll 16
  for (unsigned r = 0; r < kRows; r += 2)
    nan |= _mm512_cmp_ps_mask(rows[r].v, rows[r + 1].v, _CMP_UNORD_Q);
  if (__builtin_expect(nan != 0, 0)) {
#pragma GCC unroll 16
    for (unsigned r = 0; r < kRows; ++r)
      rows[r].store(to + at[r]);
    return;
  }
#pragma GCC unroll 16
  for (unsigned r = 0; r < kRows; ++r)
    _mm512_storeu_ps(to + at[r], rows[r].v);
}
#elif defined(__AVX2__) && defined(__FMA__)
constexpr unsigned kRowsAtOnce = 4;
struct F32x16 {
  __m256 lo, hi;
  static F32x16 load(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  void fma(float a, const F32x16 &b) {
    __m256 s = _mm256_set1_ps(a);
    lo = _mm256_fmadd_ps(s, b.lo, lo);
    hi = _mm256_fmadd_ps(s, b.hi, hi);
  }
  static __m256 canonical(__m256 v) {
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  void store(float *p) const {
    _mm256_storeu_ps(p, canonical(lo));
    _mm256_storeu_ps(p + 8, canonical(hi));
  }
};
#else
constexpr unsigned kRowsAtOnce = 2;
struct F32x16 {
  float v[16];
  static F32x16 load(const float *p) {
    F32x16 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  void fma(float a, const F32x16 &b) {
    for (unsigned i = 0; i < 16; ++i)
      v[i] = std::fma(a, b.v[i], v[i]);
  }
  void store(float *p) const {
    for (unsigned i = 0; i < 16; ++i)
      p[i] = v[i] != v[i] ? bitCast<float>(0x7fc00000u) : v[i];
  }
};
#endif

struct F32x4 {
#if defined(__FMA__)
  __m128 v;
  static F32x4 load(const float *p) { return {_mm_loadu_ps(p)}; }
  void fma(float a, const F32x4 &b) { v = _mm_fmadd_ps(_mm_set1_ps(a), b.v, v); }
  void store(float *p) const {
    __m128 nan = _mm_cmpunord_ps(v, v), q = _mm_castsi128_ps(_mm_set1_epi32(0x7fc00000));
    _mm_storeu_ps(p, _mm_or_ps(_mm_and_ps(nan, q), _mm_andnot_ps(nan, v)));
  }
#else
  float v[4];
  static F32x4 load(const float *p) {
    F32x4 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  void fma(float a, const F32x4 &b) {
    for (unsigned i = 0; i < 4; ++i)
      v[i] = std::fma(a, b.v[i], v[i]);
  }
  void store(float *p) const {
    for (unsigned i = 0; i < 4; ++i)
      p[i] = v[i] != v[i] ? bitCast<float>(0x7fc00000u) : v[i];
  }
#endif
};

/// Stores rows to `to` + at[row].
template <class RowT, unsigned kRows, class T>
inline void storeRows(const RowT (&rows)[kRows], T *to, const uint16_t *at) {
#pragma GCC unroll 16
  for (unsigned r = 0; r < kRows; ++r)
    rows[r].store(to + at[r]);
}

/// Pairs of 16-bit steps in each 32-bit element: acc += a.lo * b.lo + a.hi * b.hi.
struct I32x16 {
#if defined(__AVX512VNNI__)
  __m512i v;
  static I32x16 load(const int32_t *p) { return {_mm512_loadu_si512(p)}; }
  void fma(int32_t a, const I32x16 &b) { v = _mm512_dpwssd_epi32(v, b.v, _mm512_set1_epi32(a)); }
  void store(int32_t *p) const { _mm512_storeu_si512(p, v); }
#elif defined(__AVX2__)
  __m256i lo, hi;
  static I32x16 load(const int32_t *p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p + 8))};
  }
  void fma(int32_t a, const I32x16 &b) {
    __m256i s = _mm256_set1_epi32(a);
    lo = _mm256_add_epi32(lo, _mm256_madd_epi16(s, b.lo));
    hi = _mm256_add_epi32(hi, _mm256_madd_epi16(s, b.hi));
  }
  void store(int32_t *p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), lo);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p + 8), hi);
  }
#else
  uint32_t v[16];
  static I32x16 load(const int32_t *p) {
    I32x16 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  void fma(int32_t a, const I32x16 &b) {
    for (unsigned i = 0; i < 16; ++i) {
      auto x = static_cast<int32_t>(b.v[i]);
      v[i] += static_cast<uint32_t>(int16_t(a) * int16_t(x)) +
              static_cast<uint32_t>((a >> 16) * (x >> 16));
    }
  }
  void store(int32_t *p) const { memcpy(p, v, sizeof v); }
#endif
};

struct I32x4 {
  uint32_t v[4];
  static I32x4 load(const int32_t *p) {
    I32x4 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  void fma(int32_t a, const I32x4 &b) {
    for (unsigned i = 0; i < 4; ++i) {
      auto x = static_cast<int32_t>(b.v[i]);
      v[i] += static_cast<uint32_t>(int16_t(a) * int16_t(x)) +
              static_cast<uint32_t>((a >> 16) * (x >> 16));
    }
  }
  void store(int32_t *p) const { memcpy(p, v, sizeof v); }
};

/// One block: rows `0..m` of the output at c/d + at[i].
template <class T> struct TileArgs {
  const T *a, *b; ///< planes, at row (column) 0 of the block
  const uint16_t *aAt, *bAt; ///< plane offsets per step
  unsigned steps;
  const T *c;
  T *d;
  const uint16_t *at;
  unsigned m;
};

/// kRows rows from row `i`. A function of its own, whatever calls it: its inner loop is what a matrix product waits
/// for, and in a larger function its pointers would not stay in registers.
template <class RowT, unsigned kRows, class T>
__attribute__((noinline)) void tileRows(const TileArgs<T> &t, unsigned i) {
  RowT acc[kRows];
  const uint16_t *at = t.at + i;
  const T *from = t.c;
#pragma GCC unroll 16
  for (unsigned r = 0; r < kRows; ++r)
    acc[r] = RowT::load(from + at[r]);
  const T *rows = t.a + i, *columns = t.b;
  const uint16_t *aAt = t.aAt, *bAt = t.bAt;
  auto step = [&](unsigned k) __attribute__((always_inline)) {
    const T *a = rows + aAt[k];
    RowT b = RowT::load(columns + bAt[k]);
#pragma GCC unroll 16
    for (unsigned r = 0; r < kRows; ++r)
      acc[r].fma(a[r], b);
  };
  unsigned k = 0;
  // One branch for eight steps: with one for each, products took 4 % longer.
  for (; k + 8 <= t.steps; k += 8) {
#pragma GCC unroll 8
    for (unsigned n = 0; n < 8; ++n)
      step(k + n);
  }
  for (; k < t.steps; ++k)
    step(k);
  storeRows(acc, t.d, at);
}

/// The product of one block with `n` columns (4 or a multiple of 16).
template <class Wide, class Narrow, class T> inline void tile(TileArgs<T> t, unsigned n) {
  if (n == 4)
    return tileRows<Narrow, 4>(t, 0);
  for (unsigned j = 0; j < n; j += 16, t.b += 16, t.c += 16, t.d += 16)
    for (unsigned i = 0; i < t.m; i += kRowsAtOnce)
      tileRows<Wide, kRowsAtOnce>(t, i);
}

#if defined(__AVX512VNNI__)
/// Four neighbouring steps in each 32-bit element of signed bytes, those of A with their top bits flipped: the
/// instruction takes them as unsigned, so each is 128 too large, and every row has 128 times the sums of B's columns
/// too much. `n` is a multiple of 16.
inline void tileBytes(TileArgs<int32_t> t, unsigned n) {
  for (unsigned j = 0; j < n; j += 16, t.b += 16, t.c += 16, t.d += 16)
    for (unsigned i = 0; i < t.m; i += kRowsAtOnce) {
      __m512i acc[kRowsAtOnce], tooMuch = _mm512_setzero_si512();
#pragma GCC unroll 16
      for (unsigned r = 0; r < kRowsAtOnce; ++r)
        acc[r] = _mm512_loadu_si512(t.c + t.at[i + r]);
      for (unsigned k = 0; k < t.steps; ++k) {
        const int32_t *a = t.a + t.aAt[k] + i;
        const __m512i b = _mm512_loadu_si512(t.b + t.bAt[k]);
        tooMuch = _mm512_dpbusd_epi32(tooMuch, _mm512_set1_epi8(char(0x80)), b);
#pragma GCC unroll 16
        for (unsigned r = 0; r < kRowsAtOnce; ++r)
          acc[r] = _mm512_dpbusd_epi32(acc[r], _mm512_set1_epi32(a[r]), b);
      }
#pragma GCC unroll 16
      for (unsigned r = 0; r < kRowsAtOnce; ++r)
        _mm512_storeu_si512(t.d + t.at[i + r], _mm512_sub_epi32(acc[r], tooMuch));
    }
}
#endif

inline void tileFloat(const TileArgs<float> &t, unsigned n) { tile<F32x16, F32x4>(t, n); }
inline void tileInt(const TileArgs<int32_t> &t, unsigned n) { tile<I32x16, I32x4>(t, n); }

} // namespace
} // namespace flysim

#endif
