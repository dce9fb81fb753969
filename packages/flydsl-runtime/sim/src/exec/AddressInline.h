//===- AddressInline.h - lane addresses of global, flat and scratch -------===//
#ifndef FLYSIM_EXEC_ADDRESSINLINE_H
#define FLYSIM_EXEC_ADDRESSINLINE_H

#include "exec/ExecInline.h"

namespace flysim {
namespace {

enum Space { kGlobal, kFlat, kScratch };

/// Lanes that are looked at together: a row of a tile has as many in a wave of 64.
constexpr unsigned kBlock = 32;

/// True if all lanes of the wave access global memory and those of each block lie side by side; `first`
/// then has the address of each block's first lane. Most accesses are so, and need no list of addresses.
inline bool denseBlocks(Wave &w, const Inst &i, unsigned bytes, uint64_t first[kRow / kBlock]) {
  if (w.exec() != w.fullMask || !i.src[0])
    return false;
  const bool offsets = bool(i.src[1]), scaled = offsets && (i.addrMode & 8), isSigned = i.addrMode & 16;
  const uint64_t base = (offsets ? read64(w, i.src[1]) : 0) + static_cast<uint64_t>(i.imm);
  const uint32_t step = scaled ? 1 : bytes, *lo = row(w, i.src[0]), *hi = lo + kRow;
  for (unsigned b = 0; b < w.blocks; ++b, lo += kBlock, hi += kBlock) {
    const uint32_t start = lo[0], last = start + (kBlock - 1) * step;
    uint32_t diff = 0;
    for (unsigned l = 0; l < kBlock; ++l)
      diff |= (lo[l] - start) ^ l * step;
    if (!offsets)
      for (unsigned l = 0; l < kBlock; ++l)
        diff |= hi[l] ^ hi[0];
    // Lanes between which the low dword wraps around do not lie side by side.
    const bool wraps = offsets && isSigned ? int32_t(last) < int32_t(start) : last < start;
    if (diff || wraps)
      return false;
    const uint64_t offset = !offsets ? start | uint64_t(hi[0]) << 32
                            : isSigned ? static_cast<uint64_t>(int64_t(int32_t(start)))
                                       : start;
    first[b] = base + offset * (scaled ? bytes : 1);
  }
  return true;
}

/// The addresses of all lanes. Flat and scratch addresses are translated to host
/// addresses; bytes outside LDS or the lane's scratch fault.
template <Space space> void addresses(Wave &w, const Inst &i, unsigned bytes, uint64_t *addr) {
  if constexpr (space == kScratch) {
    uint32_t base = static_cast<uint32_t>(i.imm);
    if (i.src[1])
      base += read32(w, i.src[1]);
    const uint32_t *v = i.src[0] ? row(w, i.src[0]) : nullptr;
    uint64_t exec = w.exec();
    const uint32_t scale = i.addrMode & 8 ? bytes : 1;
    for (unsigned l = 0; l < w.lanes; ++l) {
      uint32_t offset = base + (v ? v[l] * scale : 0);
      addr[l] = reinterpret_cast<uint64_t>(w.scratch) + uint64_t(l) * w.scratchPerLane + offset;
      if ((exec >> l & 1) && uint64_t(offset) + bytes > w.scratchPerLane)
        raise(FaultKind::IllegalAddress,
              format("scratch access of %u bytes at offset %u of %u", bytes, offset,
                     w.scratchPerLane),
              static_cast<int>(l));
    }
    return;
  }
  if (i.src[1]) {
    uint64_t base = read64(w, i.src[1]) + static_cast<uint64_t>(i.imm);
    unsigned scale = i.addrMode & 8 ? bytes : 1;
    const uint32_t *v = i.src[0] ? row(w, i.src[0]) : nullptr;
    if (i.addrMode & 16)
      for (unsigned l = 0; l < w.lanes; ++l)
        addr[l] = base + static_cast<uint64_t>(int64_t(v ? int32_t(v[l]) : 0)) * scale;
    else
      for (unsigned l = 0; l < w.lanes; ++l)
        addr[l] = base + uint64_t(v ? v[l] : 0) * scale;
  } else {
    const uint32_t *lo = row(w, i.src[0]), *hi = lo + kRow;
    uint64_t offset = static_cast<uint64_t>(i.imm);
    for (unsigned l = 0; l < w.lanes; ++l)
      addr[l] = (lo[l] | uint64_t(hi[l]) << 32) + offset;
  }
  if constexpr (space == kFlat) {
    uint64_t exec = w.exec();
    for (unsigned l = 0; l < w.lanes; ++l) {
      if (!(exec >> l & 1))
        continue;
      uint32_t aperture = static_cast<uint32_t>(addr[l] >> 32);
      uint64_t low = static_cast<uint32_t>(addr[l]);
      unsigned owner = l;
      if (w.laneInAperture && (aperture & 0xfe0fffffu) == kPrivateAperture) {
        owner = aperture >> 20 & 31;
        aperture = kPrivateAperture;
      }
      if (aperture == kSharedAperture) {
        if (low + bytes > w.wg->ldsSize)
          raise(FaultKind::IllegalAddress,
                format("flat access of %u bytes at LDS offset %llu of %u", bytes,
                       (unsigned long long)low, w.wg->ldsSize),
                static_cast<int>(l));
        addr[l] = reinterpret_cast<uint64_t>(w.wg->lds) + low;
      } else if (aperture == kPrivateAperture) {
        if (low + bytes > w.scratchPerLane)
          raise(FaultKind::IllegalAddress,
                format("flat access of %u bytes at scratch offset %llu of %u", bytes,
                       (unsigned long long)low, w.scratchPerLane),
                static_cast<int>(l));
        addr[l] = reinterpret_cast<uint64_t>(w.scratch) + uint64_t(owner) * w.scratchPerLane + low;
      }
    }
  }
}

} // namespace
} // namespace flysim

#endif
