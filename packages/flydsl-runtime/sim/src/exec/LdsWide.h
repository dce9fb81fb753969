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

/// True if every lane is active and [addr + offset, + bytes) lies in the LDS for each, without wrapping around.
inline bool allInLds(const Wave &w, const uint32_t *addr, uint32_t offset, unsigned bytes) {
  if (w.exec() != w.fullMask)
    return false;
  uint32_t largest = 0;
  for (unsigned l = 0; l < w.lanes; ++l)
    largest = addr[l] > largest ? addr[l] : largest;
  return uint64_t(largest) + offset + bytes <= w.wg->ldsSize;
}

/// The addresses in the row `addr`, in a copy if it is one of the `rows` rows of `d`, which are written lane by lane.
/// (Not in a copy always: whoever reads that at once, in wider vectors than it was written, waits for the stores.)
inline const uint32_t *addressesBeside(const uint32_t *d, unsigned rows, const uint32_t *addr, uint32_t (&copy)[kRow]) {
  if (addr < d || addr >= d + rows * kRow)
    return addr;
  memcpy(copy, addr, sizeof copy);
  return copy;
}

/// Reads `bytes`, a number of dwords up to 4, of each lane from the LDS at addr[lane] + offset into rows
/// of `d`. False, with nothing done, if a lane is not active or not in the LDS. `addr` must not overlap `d`.
inline bool readWhole(const Wave &w, const uint32_t *addr, uint32_t offset, unsigned bytes, uint32_t *d) {
  return allInLds(w, addr, offset, bytes) && withWords(bytes, [&](auto n) {
    const uint8_t *from = w.wg->lds + offset;
    loadRows<n>(d, w.lanes, [=](unsigned l) { return from + addr[l]; });
  });
}
/// The same at two offsets, those of the second into the rows behind.
inline bool readWholeTwice(const Wave &w, const uint32_t *addr, const uint32_t (&offsets)[2], unsigned bytes,
                           uint32_t *d) {
  const uint32_t far = offsets[0] > offsets[1] ? offsets[0] : offsets[1];
  return allInLds(w, addr, far, bytes) && withWords(bytes, [&](auto n) {
    const uint8_t *lds = w.wg->lds;
    for (unsigned l = 0; l < w.lanes; l += 4)
      for (unsigned k = 0; k < 2; ++k) {
        const uint8_t *from = lds + offsets[k];
        const uint8_t *const p[4] = {from + addr[l], from + addr[l + 1], from + addr[l + 2], from + addr[l + 3]};
        loadFourLanes<n>(d + k * n * kRow + l, p);
      }
  });
}
/// Writes rows of `s` to the LDS, in the same way as `readWhole` reads.
inline bool writeWhole(const Wave &w, const uint32_t *addr, uint32_t offset, unsigned bytes, const uint32_t *s) {
  return allInLds(w, addr, offset, bytes) && withWords(bytes, [&](auto n) {
    uint8_t *to = w.wg->lds + offset;
    storeRows<n>(s, w.lanes, [=](unsigned l) { return to + addr[l]; });
  });
}

} // namespace
} // namespace flysim

#endif
