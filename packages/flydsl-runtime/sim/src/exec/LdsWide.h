//===- LdsWide.h - LDS accesses of whole waves -----------------*- C++ -*-===//
//
// Matrix kernels spend their time here: all lanes read or write 4, 8 or 16 bytes each.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_LDSWIDE_H
#define FLYSIM_EXEC_LDSWIDE_H

#include "exec/LaneWords.h"

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

/// Reads `bytes`, a number of dwords up to 4, of each lane from the LDS at addr[lane] + offset into rows
/// of `d`. False, with nothing done, if a lane is not active or not in the LDS. `addr` must not overlap `d`.
inline bool readWhole(const Wave &w, const uint32_t *addr, uint32_t offset, unsigned bytes, uint32_t *d) {
  return allInLds(w, addr, offset, bytes) && withWords(bytes, [&](auto n) {
    const uint8_t *lds = w.wg->lds;
    loadRows<n>(d, w.lanes, [=](unsigned l) { return lds + (addr[l] + offset); });
  });
}
/// The same from rows of `s` to the LDS.
inline bool writeWhole(const Wave &w, const uint32_t *addr, uint32_t offset, unsigned bytes, const uint32_t *s) {
  return allInLds(w, addr, offset, bytes) && withWords(bytes, [&](auto n) {
    uint8_t *lds = w.wg->lds;
    storeRows<n>(s, w.lanes, [=](unsigned l) { return lds + (addr[l] + offset); });
  });
}

} // namespace
} // namespace flysim

#endif
