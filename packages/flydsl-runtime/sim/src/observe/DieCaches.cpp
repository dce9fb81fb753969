//===- DieCaches.cpp - the L2 of each die ---------------------------------===//

#include "observe/DieCaches.h"

#include <algorithm>

namespace flysim {

namespace {
/// Moves of a work-group before the next one has its turn: 4 KiB of whole lines.
constexpr size_t kTurn = 32;
/// Bound of what is held (16 bytes each). Beyond it fewer work-groups run side by side than on a device.
constexpr size_t kMostHeld = size_t(1) << 23;
} // namespace

DieCaches::DieCaches(unsigned dies, uint64_t bytes, uint64_t resident,
                     std::function<void(const LineMove &, unsigned)> missed)
    : missed(std::move(missed)), held(std::max<uint64_t>(1, resident)) {
  for (unsigned k = 0; k < std::max(1u, dies); ++k)
    caches.emplace_back(bytes);
}

void DieCaches::add(uint64_t group, const LineMove &move) {
  if (group / held.size() != batch || count == kMostHeld) {
    flush();
    batch = group / held.size();
  }
  held[group % held.size()].push_back(move);
  ++count;
}

void DieCaches::flush() {
  uint64_t first = batch * held.size();
  for (size_t at = 0; count; at += kTurn)
    for (size_t slot = 0; slot < held.size(); ++slot) {
      std::vector<LineMove> &moves = held[slot];
      if (at >= moves.size())
        continue;
      SharedCache &cache = caches[(first + slot) % caches.size()];
      size_t end = std::min(moves.size(), at + kTurn);
      count -= end - at;
      for (size_t k = at; k < end; ++k)
        if (unsigned absent = cache.touch(moves[k].line, moves[k].sectors, moves[k].write))
          missed(moves[k], static_cast<unsigned>(__builtin_popcount(absent)));
    }
  for (std::vector<LineMove> &moves : held)
    moves.clear();
}

} // namespace flysim
