//===- WaveStart.cpp - the state in which waves start ---------------------===//

#include "exec/WaveStart.h"

#include "exec/Special.h"

#include <algorithm>
#include <cstring>

namespace flysim {

namespace {

/// What v0 holds of the coordinates of `count` work-items of a work-group of this size, in order.
/// A kernel whose descriptor asks for x alone (`highest` 0), or for x and y (1), finds zeros in
/// place of the others: compiled code does not mask what it did not ask for. Work-items beyond the
/// work-group, which EXEC masks, go on counting.
std::vector<uint32_t> packedWorkItems(const uint32_t block[3], unsigned highest, unsigned count) {
  std::vector<uint32_t> items(count);
  uint32_t x = 0, y = 0, z = 0;
  for (uint32_t &item : items) {
    item = x | (highest > 0 ? y << 10 : 0) | (highest > 1 ? z << 20 : 0);
    if (++x < block[0])
      continue;
    x = 0;
    if (++y < block[1])
      continue;
    y = 0;
    ++z;
  }
  return items;
}

} // namespace

WaveStart::WaveStart(const Dispatch &dispatch, uint64_t kernarg, uint64_t packet)
    : lanes(dispatch.kernel->waveSize()), items(dispatch.block[0] * dispatch.block[1] * dispatch.block[2]),
      d(dispatch), kernarg(kernarg), packet(packet) {
  const ArchInfo &arch = *d.program->arch;
  unsigned granule = lanes == 64 ? arch.has.vgprGranule64 : arch.has.vgprGranule32;
  unsigned total = ((d.kernel->rsrc1 & 63) + 1) * granule;
  unsigned accum = arch.has.accumulators ? 4 * ((d.kernel->rsrc3 & 63) + 1) : total;
  vectors = std::min(total, std::min(accum, arch.vgprRows));
  accumulators = total > accum && arch.vgprRows > 256 ? std::min(total - accum, 256u) : 0;
  workItems = packedWorkItems(d.block, d.kernel->rsrc2 >> 11 & 3, waves() * lanes);
}

void WaveStart::clearVectors(uint32_t *rows) const {
  memset(rows, 0, size_t(vectors) * kRow * 4);
  memset(rows + 256 * kRow * (accumulators != 0), 0, size_t(accumulators) * kRow * 4);
}

void WaveStart::setUp(Wave &w) const {
  const ArchInfo &arch = *d.program->arch;
  w.lanes = lanes;
  w.blocks = lanes / 32;
  w.fullMask = lanes == 64 ? ~0ull : 0xffffffffull;
  w.m0Index = arch.has.m0;
  w.program = d.program;
  w.mode = d.kernel->rsrc1 >> 12 & 0xff;
  if (arch.has.clampModes)
    w.mode |= (d.kernel->rsrc1 >> 21 & 1) << 8 | (d.kernel->rsrc1 >> 23 & 1) << 9;
  w.fpSpecial = (w.mode & 0xff) != 0xf0;
  if (arch.has.flatAperture) {
    // Flat addresses of private memory: the aperture, on gfx1250 with the lane in bits 56:52.
    w.laneInAperture = arch.has.vgprMsb;
    w.s[kFlatScratchBase + 1] = kPrivateAperture;
  }
  unsigned first = w.id * lanes, count = std::min(lanes, items - first);
  w.setExec(count == 64 ? ~0ull : (1ull << count) - 1);
  scalars(w);
  memcpy(w.v, &workItems[size_t(w.id) * lanes], lanes * sizeof(uint32_t));
  w.pc = d.program->indexOf(d.kernel->entryAddr);
}

void WaveStart::scalars(Wave &w) const {
  const ArchInfo &arch = *d.program->arch;
  const KernelInfo &k = *d.kernel;
  const Workgroup &wg = *w.wg;
  unsigned next = 0;
  auto pair = [&](uint64_t v) {
    memcpy(&w.s[next], &v, 8);
    next += 2;
  };
  if (k.properties & 1) {
    // Private memory, as the kernel may look at its descriptor: dword after dword, in each of them lane after lane.
    constexpr uint32_t kSwizzle = 1u << 31, kAddLane = 1u << 23, kLanes64 = 3u << 21;
    w.privateBase = reinterpret_cast<uint64_t>(w.scratch);
    w.s[next] = static_cast<uint32_t>(w.privateBase);
    w.s[next + 1] = (w.privateBase >> 32 & 0xffff) | 4u << 16 | kSwizzle;
    w.s[next + 2] = ~0u;
    w.s[next + 3] = kAddLane | kLanes64;
    next += 4;
  }
  if (k.properties & 2)
    pair(packet);
  if (k.properties & 4)
    pair(packet);
  if (k.properties & 8)
    pair(kernarg);
  if (k.properties & 16)
    pair(1);
  if (k.properties & 32)
    pair(0);
  if (k.properties & 64)
    w.s[next++] = w.scratchPerLane;
  unsigned preload = k.preload & 127, skip = k.preload >> 7;
  for (unsigned i = 0; i < preload && next < kVcc; ++i, ++next) {
    size_t at = size_t(skip + i) * 4;
    if (at + 4 <= d.kernarg->size())
      memcpy(&w.s[next], d.kernarg->data() + at, 4);
  }
  next = std::min<unsigned>(std::max(next, k.userSgprs(arch.has.vgprMsb)), 96);
  if (!arch.has.workgroupInTtmp) {
    for (unsigned i = 0; i < 3; ++i)
      if (k.rsrc2 >> (7 + i) & 1)
        w.s[next++] = wg.id[i];
    if (!arch.has.architectedScratch && (k.rsrc2 & 1))
      w.s[next++] = 0; // where the wave's private memory begins
    return;
  }
  uint32_t id[3];
  bool clustered = wg.clusterSize > 1;
  for (unsigned i = 0; i < 3; ++i)
    id[i] = clustered ? wg.id[i] / wg.clusterDims[i] : wg.id[i];
  w.s[kTtmp0 + 9] = id[0];
  // Without z, y has the whole register; code that did not ask for z does not mask it.
  bool hasZ = k.rsrc2 >> 9 & 1;
  w.s[kTtmp0 + 7] = hasZ ? (id[1] & 0xffff) | id[2] << 16 : id[1];
  w.s[kTtmp0 + 8] = w.id << 25;
  if (clustered)
    for (unsigned i = 0; i < 3; ++i)
      w.s[kTtmp0 + 6] |= wg.idInCluster[i] << (4 * i) | (wg.clusterDims[i] - 1) << (12 + 4 * i);
}

} // namespace flysim
