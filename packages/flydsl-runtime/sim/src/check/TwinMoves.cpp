//===- TwinMoves.cpp - values that nobody wrote, between memory and LDS ---===//

#include "check/Twin.h"
#include "check/Unwritten.h"

#include <algorithm>
#include <cstring>

namespace flysim {

/// What was fetched from memory that nobody wrote differs in the twin's LDS too.
void TwinCheck::unwrittenMoves(Wave &w, Twin &t) {
  for (const LdsMove &m : list) {
    if (!m.memory || !m.inside(*w.wg))
      continue;
    for (uint64_t at = m.memory & ~3ull; at < m.memory + m.memoryBytes; at += 4) {
      uint32_t value;
      if (!w.mem->check(at, 4, false))
        continue;
      memcpy(&value, reinterpret_cast<const void *>(at), 4);
      if (!neverWritten(at, value))
        continue;
      uint64_t from = std::max(at, m.memory), to = std::min(at + 4, m.memory + m.memoryBytes);
      for (uint64_t k = from; k < to; ++k)
        t.wave.wg->lds[m.lds + (k - m.memory)] ^= static_cast<uint8_t>(flip(at) >> (8 * (k - at)));
    }
  }
}

/// A transfer from LDS must not store what nobody wrote.
void TwinCheck::checkMoves(Wave &w, Twin &t, const Inst &i) {
  for (const LdsMove &m : list) {
    if (!m.inside(*w.wg))
      continue;
    for (uint64_t n = m.lds; n < m.lds + m.bytes; ++n) {
      if (w.wg->lds[n] == t.wave.wg->lds[n])
        continue;
      Origin o;
      o.load = &i;
      o.space = "lds";
      o.address = n & ~3ull;
      o.wave = static_cast<uint16_t>(w.id);
      o.lane = static_cast<uint8_t>(std::max(0, m.lane));
      uint32_t origin = addOrigin(o);
      memcpy(t.wave.wg->lds + m.lds, w.wg->lds + m.lds, m.bytes);
      return tell(w, i, origin, "is stored to memory", m.lane);
    }
  }
}

} // namespace flysim
