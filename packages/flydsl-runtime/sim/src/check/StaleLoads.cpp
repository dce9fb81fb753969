//===- StaleLoads.cpp - loads that a cache answers ------------------------===//

#include "check/StaleLoads.h"

#include "exec/MemInline.h"

#include <algorithm>

namespace flysim {

void StaleLoads::apply(Wave &w) {
  for (const Dword &d : dwords) {
    const Target &t = d.target;
    uint64_t from = std::max(d.address, t.address), to = std::min(d.address + 4, t.address + t.bytes);
    auto byte = [&](uint64_t at) { return static_cast<uint8_t>(d.value >> (8 * (at - d.address))); };
    if (t.lds >= 0) {
      for (uint64_t at = from; at < to; ++at)
        if (uint64_t place = static_cast<uint64_t>(t.lds) + (at - t.address); place < w.wg->ldsSize)
          w.wg->lds[place] = byte(at);
      continue;
    }
    const Operand &dst = t.inst->dst;
    if (t.lane < 0) {
      uint64_t word = (d.address - t.address) / 4;
      if (dst.kind == OperandKind::Sgpr && dst.reg != kSink && t.bytes >= 4)
        w.s[dst.reg + word] = d.value;
      continue;
    }
    if (dst.kind != OperandKind::Vgpr || !t.inst->def->facts.memory.direct)
      continue;
    uint32_t *registers = row(w, dst);
    auto lane = static_cast<unsigned>(t.lane);
    if (t.bytes < 4) {
      uint8_t part[4];
      memcpy(part, reinterpret_cast<const void *>(t.address), t.bytes);
      for (uint64_t at = from; at < to; ++at)
        part[at - t.address] = byte(at);
      storeLoaded(registers, lane, part, shapeOf(t.inst->def->aux));
      continue;
    }
    for (uint64_t at = from; at < to; ++at) { // byte by byte: an address need not be aligned
      uint64_t n = at - t.address;
      uint32_t &word = registers[n / 4 * kRow + lane];
      unsigned shift = 8 * (n & 3);
      word = (word & ~(0xffu << shift)) | uint32_t(byte(at)) << shift;
    }
  }
  dwords.clear();
}

} // namespace flysim
