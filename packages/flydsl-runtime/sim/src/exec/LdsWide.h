//===- LdsWide.h - LDS reads of whole waves --------------------*- C++ -*-===//
//
// Matrix kernels spend their time here: all lanes read 4, 8 or 16 bytes each, and the
// register file wants them as rows.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_LDSWIDE_H
#define FLYSIM_EXEC_LDSWIDE_H

#include "exec/ExecInline.h"

namespace flysim {
namespace {

/// True if every lane is active and all of [addr + offset, + bytes) lies in the LDS.
inline bool allInLds(const Wave &w, const uint32_t *addr, uint32_t offset, unsigned bytes) {
  if (w.exec() != w.fullMask || w.wg->ldsSize < bytes)
    return false;
  uint32_t largest = 0;
  for (unsigned l = 0; l < w.lanes; ++l) {
    uint32_t at = addr[l] + offset;
    largest = at > largest ? at : largest;
  }
  return largest <= w.wg->ldsSize - bytes;
}

#if defined(__SSE2__)
inline __m128 loadPairs(const uint8_t *lds, uint32_t first, uint32_t second) {
  __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(lds + first));
  __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(lds + second));
  return _mm_castsi128_ps(_mm_unpacklo_epi64(a, b));
}
inline void storeRow(uint32_t *d, __m128 v) { _mm_storeu_ps(reinterpret_cast<float *>(d), v); }
#endif

/// Reads `words` dwords per lane from lds + addr[lane] + offset into rows of `d`.
/// `addr` must not overlap `d`.
inline void readRows(const uint8_t *lds, const uint32_t *addr, uint32_t offset, unsigned words,
                     uint32_t *d, unsigned lanes) {
#if defined(__SSE2__)
  if (words == 2) {
    for (unsigned l = 0; l < lanes; l += 4) {
      const uint32_t *a = addr + l;
      __m128 x = loadPairs(lds, a[0] + offset, a[1] + offset);
      __m128 y = loadPairs(lds, a[2] + offset, a[3] + offset);
      storeRow(d + l, _mm_shuffle_ps(x, y, 0x88));
      storeRow(d + kRow + l, _mm_shuffle_ps(x, y, 0xdd));
    }
    return;
  }
  if (words == 4) {
    for (unsigned l = 0; l < lanes; l += 4) {
      __m128 r[4];
      for (unsigned k = 0; k < 4; ++k)
        r[k] = _mm_loadu_ps(reinterpret_cast<const float *>(lds + (addr[l + k] + offset)));
      _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
      for (unsigned k = 0; k < 4; ++k)
        storeRow(d + k * kRow + l, r[k]);
    }
    return;
  }
#endif
  for (unsigned k = 0; k < words; ++k)
    for (unsigned l = 0; l < lanes; ++l)
      memcpy(&d[k * kRow + l], lds + (addr[l] + offset) + 4 * k, 4);
}

} // namespace
} // namespace flysim

#endif
