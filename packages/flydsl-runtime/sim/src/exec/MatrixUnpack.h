//===- MatrixUnpack.h - register rows to element planes --------*- C++ -*-===//
#ifndef FLYSIM_EXEC_MATRIXUNPACK_H
#define FLYSIM_EXEC_MATRIXUNPACK_H

#include "exec/FloatFormats.h"
#include "exec/Matrix.h"
#include "exec/Valu.h"

namespace flysim {
namespace {

//===--- 16-bit formats -----------------------------------------------------===//

/// Two planes (low and high halves) per register.
inline void unpackBf16(float *planes, const uint32_t *rows, unsigned regs, unsigned lanes) {
  for (unsigned r = 0; r < regs; ++r, rows += kRow, planes += 2 * kRow) {
    auto *lo = reinterpret_cast<uint32_t *>(planes), *hi = lo + kRow;
    for (unsigned i = 0; i < lanes; ++i) {
      lo[i] = rows[i] << 16;
      hi[i] = rows[i] & 0xffff0000u;
    }
  }
}

/// Dwords of neighbouring lanes as pairs of 16-bit fields.
#if defined(__AVX512BW__)
#define FLYSIM_FIELDS
struct Fields {
  static constexpr unsigned kLanes = 16;
  __m512i v;
  static Fields load(const uint32_t *p) { return {_mm512_loadu_si512(p)}; }
  static Fields all(unsigned x) { return {_mm512_set1_epi16(static_cast<int16_t>(x))}; }
  Fields operator&(Fields o) const { return {_mm512_and_si512(v, o.v)}; }
  Fields operator|(Fields o) const { return {_mm512_or_si512(v, o.v)}; }
  Fields up(unsigned by) const { return {_mm512_slli_epi16(v, by)}; }
  Fields down(unsigned by) const { return {_mm512_srli_epi16(v, by)}; }
  /// All bits of the fields that are equal.
  Fields equal(Fields o) const { return {_mm512_movm_epi16(_mm512_cmpeq_epi16_mask(v, o.v))}; }
  bool hasByte(unsigned x) const { return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(static_cast<char>(x))) != 0; }
  /// Halves to floats as `change` wants them: the low fields of the lanes to `lo`, the high ones to `hi`.
  template <class Change> void toFloats(float *lo, float *hi, Change change) const {
    alignas(64) static constexpr uint16_t kOrder[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                        22, 24, 26, 28, 30, 1,  3,  5,  7,  9,  11,
                                                        13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    const __m512i sorted = _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), v);
    _mm512_storeu_ps(lo, change(_mm512_cvtph_ps(_mm512_castsi512_si256(sorted))));
    _mm512_storeu_ps(hi, change(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(sorted, 1))));
  }
  static auto times(float scale) {
    return [s = _mm512_set1_ps(scale)](__m512 x) { return _mm512_mul_ps(x, s); };
  }
};
#elif defined(__AVX2__) && defined(__F16C__)
#define FLYSIM_FIELDS
struct Fields {
  static constexpr unsigned kLanes = 8;
  __m256i v;
  static Fields load(const uint32_t *p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))};
  }
  static Fields all(unsigned x) { return {_mm256_set1_epi16(static_cast<int16_t>(x))}; }
  Fields operator&(Fields o) const { return {_mm256_and_si256(v, o.v)}; }
  Fields operator|(Fields o) const { return {_mm256_or_si256(v, o.v)}; }
  Fields up(unsigned by) const { return {_mm256_slli_epi16(v, int(by))}; }
  Fields down(unsigned by) const { return {_mm256_srli_epi16(v, int(by))}; }
  Fields equal(Fields o) const { return {_mm256_cmpeq_epi16(v, o.v)}; }
  bool hasByte(unsigned x) const {
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(static_cast<char>(x)))) != 0;
  }
  template <class Change> void toFloats(float *lo, float *hi, Change change) const {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1,
                                           4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i sorted = _mm256_shuffle_epi8(v, order);
    const __m256 first = change(_mm256_cvtph_ps(_mm256_castsi256_si128(sorted)));
    const __m256 second = change(_mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1)));
    _mm256_storeu_ps(lo, _mm256_permute2f128_ps(first, second, 0x20));
    _mm256_storeu_ps(hi, _mm256_permute2f128_ps(first, second, 0x31));
  }
  static auto times(float scale) {
    return [s = _mm256_set1_ps(scale)](__m256 x) { return _mm256_mul_ps(x, s); };
  }
};
#endif

inline void unpackF16(float *planes, const uint32_t *rows, unsigned regs, unsigned lanes) {
  for (unsigned r = 0; r < regs; ++r, rows += kRow, planes += 2 * kRow) {
    float *lo = planes, *hi = planes + kRow;
#if defined(FLYSIM_FIELDS)
    for (unsigned i = 0; i < lanes; i += Fields::kLanes)
      Fields::load(rows + i).toFloats(lo + i, hi + i, [](auto x) { return x; });
#else
    for (unsigned i = 0; i < lanes; ++i) {
      lo[i] = halfToFloat(rows[i] & 0xffff);
      hi[i] = halfToFloat(rows[i] >> 16);
    }
#endif
  }
}

//===--- any small format ---------------------------------------------------===//

#if defined(__AVX2__)
/// Values of eight codes in the low bits of 32-bit lanes (higher bits are ignored).
template <class F> inline __m256 smallToFloat8(__m256i code) {
  constexpr unsigned sign = F::width - 1, shift = 23 - F::mantissa;
  constexpr int mask = (1 << sign) - 1, top = mask >> F::mantissa << F::mantissa;
  __m256i mag = _mm256_and_si256(code, _mm256_set1_epi32(mask));
  __m256 r;
  if constexpr (sign == 3) {
    r = _mm256_permutevar8x32_ps(_mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6), mag);
  } else {
    __m256 normal = _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_slli_epi32(mag, shift), _mm256_set1_epi32(int(127 - F::bias) << 23)));
    __m256 unit = _mm256_set1_ps(asFloat(uint32_t(128 - F::bias - int(F::mantissa)) << 23));
    __m256 denormal = _mm256_mul_ps(_mm256_cvtepi32_ps(mag), unit);
    __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << F::mantissa), mag);
    r = _mm256_blendv_ps(normal, denormal, _mm256_castsi256_ps(tiny));
  }
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  if constexpr (F::special == Small::Ocp)
    r = _mm256_blendv_ps(
        r, nan, _mm256_castsi256_ps(_mm256_cmpeq_epi32(mag, _mm256_set1_epi32(mask))));
  if constexpr (F::special == Small::Ieee) {
    __m256i large = _mm256_cmpgt_epi32(mag, _mm256_set1_epi32(top - 1));
    __m256i exponent = _mm256_and_si256(large, _mm256_set1_epi32(0x7f800000));
    r = _mm256_or_ps(r, _mm256_castsi256_ps(exponent));
  }
  __m256i signs = _mm256_and_si256(_mm256_slli_epi32(code, 31 - sign),
                                   _mm256_set1_epi32(int(0x80000000u)));
  __m256i bits = _mm256_or_si256(_mm256_castps_si256(r), signs);
  if constexpr (F::special == Small::Fnuz)
    return _mm256_blendv_ps(
        _mm256_castsi256_ps(bits), nan,
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, _mm256_set1_epi32(int(0x80000000u)))));
  return _mm256_castsi256_ps(bits);
}
#endif

/// Decodes the fields at bit `shift` of `rows`; `next` supplies the bits that a field
/// has beyond its register (or null).
template <class F>
inline void decodeFields(float *plane, const uint32_t *rows, const uint32_t *next, unsigned shift,
                         unsigned lanes) {
#if defined(__AVX2__)
  const __m128i down = _mm_cvtsi32_si128(int(shift)), up = _mm_cvtsi32_si128(int(32 - shift));
  for (unsigned i = 0; i < lanes; i += 8) {
    __m256i v = _mm256_srl_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(rows + i)), down);
    if (next)
      v = _mm256_or_si256(
          v, _mm256_sll_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(next + i)), up));
    _mm256_storeu_ps(plane + i, smallToFloat8<F>(v));
  }
#else
  for (unsigned i = 0; i < lanes; ++i)
    plane[i] = smallToFloat<F>(rows[i] >> shift | (next ? next[i] << (32 - shift) : 0));
#endif
}

//===--- 8-bit formats ------------------------------------------------------===//

#if defined(FLYSIM_FIELDS)
/// Whether a byte is a NaN that is none as a half.
template <class F> inline bool hasNan(Fields bytes) {
  if constexpr (F::special == Small::Ocp)
    return (bytes & Fields::all(0x7f7f)).hasByte(0x7f);
  return F::special == Small::Fnuz && bytes.hasByte(0x80);
}

/// 16-bit fields holding a code in their high byte to halves of the same value times
/// 2^(bias - 15); the caller undoes the factor. Low bytes are ignored, NaNs looked for with `kNan`.
template <class F, bool kNan> inline Fields smallToHalf(Fields x) {
  constexpr unsigned down = F::exponent == 4 ? 1 : 0;
  const Fields signBit = Fields::all(0x8000), field = Fields::all(0x7f00 >> down), nan = Fields::all(0x7e00);
  const Fields mag = x.down(down) & field;
  Fields r = mag | (x & signBit);
  if constexpr (kNan && F::special == Small::Ocp)
    r = r | (mag.equal(field) & nan);
  if constexpr (kNan && F::special == Small::Fnuz)
    r = r | (r.equal(signBit) & nan);
  return r;
}
#endif

/// Four planes per register, byte by byte.
template <class F>
inline void unpackSmall8(float *planes, const uint32_t *rows, unsigned regs, unsigned lanes) {
  for (unsigned r = 0; r < regs; ++r, rows += kRow, planes += 4 * kRow) {
#if defined(FLYSIM_FIELDS)
    if constexpr (F::exponent == 4 || F::special == Small::Ieee) {
      const auto scale = Fields::times(asFloat(uint32_t(127 + 15 - F::bias) << 23));
      for (unsigned i = 0; i < lanes; i += Fields::kLanes) {
        const Fields v = Fields::load(rows + i);
        float *p = planes + i;
        auto convert = [&](auto nan) {
          smallToHalf<F, nan>(v.up(8)).toFloats(p, p + 2 * kRow, scale);
          smallToHalf<F, nan>(v).toFloats(p + kRow, p + 3 * kRow, scale);
        };
        if (hasNan<F>(v))
          convert(std::true_type());
        else
          convert(std::false_type());
      }
      continue;
    }
#endif
    for (unsigned k = 0; k < 4; ++k)
      decodeFields<F>(planes + k * kRow, rows, nullptr, 8 * k, lanes);
  }
}

//===--- 6- and 4-bit formats -----------------------------------------------===//

/// Element `slot` of densely packed `width`-bit fields in one lane.
inline uint32_t packedField(const uint32_t *rows, unsigned lane, unsigned slot, unsigned width) {
  unsigned bit = slot * width, reg = bit / 32, shift = bit % 32;
  uint32_t v = rows[reg * kRow + lane] >> shift;
  if (shift + width > 32)
    v |= rows[(reg + 1) * kRow + lane] << (32 - shift);
  return v & ((1u << width) - 1);
}

template <class F>
inline void unpackPacked(float *planes, const uint32_t *rows, unsigned slots, unsigned lanes) {
  for (unsigned s = 0; s < slots; ++s) {
    unsigned bit = s * F::width, shift = bit % 32;
    const uint32_t *from = rows + bit / 32 * kRow;
    decodeFields<F>(planes + s * kRow, from, shift + F::width > 32 ? from + kRow : nullptr, shift,
                    lanes);
  }
}

//===--- dispatch on the format ---------------------------------------------===//

inline uint32_t roundXf32(uint32_t u) {
  // 10 mantissa bits, round to nearest even; NaN stays NaN.
  uint32_t r = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
  return (u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : r;
}

/// Elements of a float operand as floats. `fnuz` selects gfx942's 8-bit formats.
inline void unpackFloat(Elem e, bool fnuz, float *planes, const uint32_t *rows, unsigned slots,
                        unsigned lanes) {
  switch (e) {
  case Elem::F16:
    return unpackF16(planes, rows, slots / 2, lanes);
  case Elem::Bf16:
    return unpackBf16(planes, rows, slots / 2, lanes);
  case Elem::Fp8:
    return fnuz ? unpackSmall8<Fp8Fnuz>(planes, rows, slots / 4, lanes)
                : unpackSmall8<Fp8Ocp>(planes, rows, slots / 4, lanes);
  case Elem::Bf8:
    return fnuz ? unpackSmall8<Bf8Fnuz>(planes, rows, slots / 4, lanes)
                : unpackSmall8<Bf8Ocp>(planes, rows, slots / 4, lanes);
  case Elem::Fp6:
    return unpackPacked<Fp6E2m3>(planes, rows, slots, lanes);
  case Elem::Bf6:
    return unpackPacked<Bf6E3m2>(planes, rows, slots, lanes);
  case Elem::Fp4:
    return unpackPacked<Fp4E2m1>(planes, rows, slots, lanes);
  case Elem::Xf32:
    for (unsigned i = 0; i < slots * kRow; ++i)
      planes[i] = asFloat(roundXf32(rows[i]));
    return;
  default:
    memcpy(planes, rows, size_t(slots) * kRow * 4);
  }
}

/// Elements of an integer operand as pairs of 16-bit values: the pairs of a register
/// are (0,2), (1,3) for bytes and (0,4), (1,5), (2,6), (3,7) for nibbles.
inline void unpackPairs(Elem e, bool isSigned, uint32_t *planes, const uint32_t *rows,
                        unsigned regs, unsigned lanes) {
  unsigned width = elemBits(e), pairs = 16 / width;
  for (unsigned r = 0; r < regs; ++r, rows += kRow)
    for (unsigned p = 0; p < pairs; ++p, planes += kRow) {
      unsigned up = 16 - width * (p + 1), down = 16 - width;
      uint32_t keep = (0xffffu << down & 0xffff) * 0x10001u;
      for (unsigned i = 0; i < lanes; ++i) {
        uint32_t x = rows[i] << up & keep;
        uint32_t lo = isSigned ? uint32_t(int32_t(x << 16) >> (16 + down)) & 0xffff
                               : (x & 0xffff) >> down;
        uint32_t hi = isSigned ? uint32_t(int32_t(x) >> (16 + down)) << 16
                               : x >> (16 + down) << 16;
        planes[i] = lo | hi;
      }
    }
}

/// One element of an integer operand.
inline int32_t integerAt(Elem e, bool isSigned, const uint32_t *rows, unsigned lane,
                         unsigned slot) {
  unsigned width = elemBits(e);
  uint32_t v = packedField(rows, lane, slot, width);
  return isSigned ? int32_t(v << (32 - width)) >> (32 - width) : int32_t(v);
}

#undef FLYSIM_FIELDS

} // namespace
} // namespace flysim

#endif
