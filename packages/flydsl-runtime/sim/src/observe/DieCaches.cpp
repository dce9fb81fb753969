//===- DieCaches.cpp - the L2 of each die and what is behind it -----------===//

#include "observe/DieCaches.h"

#include <algorithm>

namespace flysim {

namespace {
/// Lines that a work-group moves before the next one has its turn: 4 KiB.
constexpr unsigned kTurn = 32;
/// So many lines are enough to be held. Beyond them fewer work-groups run side by side than on a device.
constexpr size_t kMostHeld = size_t(1) << 23;
/// Moves whose memory is kept for the next launch.
constexpr size_t kMostKept = size_t(1) << 20;
} // namespace

DieCaches::DieCaches(unsigned dies, uint64_t bytes, uint64_t shared) : shared(shared) {
  for (unsigned k = 0; k < std::max(1u, dies); ++k)
    caches.emplace_back(bytes);
}

void DieCaches::begin(uint64_t atOnce, size_t instructions) {
  for (SharedCache &cache : caches)
    cache.clear();
  shared.clear();
  absent.assign(instructions, 0);
  fromMemory.assign(instructions, 0);
  resident = std::max<uint64_t>(1, atOnce);
  held.clear();
  moves.clear();
  batchEnd = 0;
  heldLines = 0;
}

void DieCaches::release() {
  if (moves.capacity() > kMostKept)
    moves = {};
}

void DieCaches::add(uint64_t group, const LineMove *from, const LineMove *to, size_t lines) {
  if (group >= batchEnd || heldLines >= kMostHeld) {
    flush();
    batchEnd = (group / resident + 1) * resident;
  }
  if (held.empty()) // those that follow mostly move as much
    moves.reserve(std::min<size_t>(kMostHeld, resident * size_t(to - from)));
  heldLines += lines;
  if (held.empty() || held.back().group != group)
    held.push_back({group, &caches[group % caches.size()], moves.size(), moves.size()});
  moves.insert(moves.end(), from, to);
  held.back().end = moves.size();
}

void DieCaches::turn(Held &h) {
  for (unsigned left = kTurn; left && h.next < h.end;) {
    const LineMove &m = moves[h.next];
    const unsigned count = std::min<unsigned>(left, m.count - h.done);
    SharedCache::Absent missed = h.cache->touch(m, h.done, count);
    absent[m.inst] += missed.sectors;
    for (unsigned at = h.done; missed.lines;) { // one stretch of lines after the other
      const auto skipped = static_cast<unsigned>(__builtin_ctz(missed.lines));
      const auto lines = static_cast<unsigned>(__builtin_ctzll(~(uint64_t(missed.lines) >> skipped)));
      fromMemory[m.inst] += shared.touch(m, at + skipped, lines).sectors;
      at += skipped + lines;
      missed.lines = static_cast<uint32_t>(uint64_t(missed.lines) >> (skipped + lines));
    }
    left -= count;
    h.done += count;
    if (h.done == m.count) {
      h.done = 0;
      ++h.next;
    }
  }
}

void DieCaches::flush() {
  while (!held.empty()) {
    for (Held &h : held)
      turn(h);
    held.erase(std::remove_if(held.begin(), held.end(), [](const Held &h) { return h.next == h.end; }), held.end());
  }
  moves.clear();
  heldLines = 0;
}

} // namespace flysim
