//===- Cache.cpp - tag-only caches ----------------------------------------===//

#include "observe/Cache.h"

#include <algorithm>

namespace flysim {

namespace {
uint64_t powerOfTwoBelow(uint64_t n) {
  uint64_t p = 1;
  while (p * 2 <= n)
    p *= 2;
  return p;
}
} // namespace

L1Cache::L1Cache(unsigned bytes)
    : sets(static_cast<unsigned>(powerOfTwoBelow(std::max(1u, bytes / kLineBytes / kWays)))) {
  tags.assign(size_t(sets) * kWays, ~0ull);
}

bool L1Cache::touch(uint64_t line) {
  uint64_t *set = &tags[size_t(line & (sets - 1)) * kWays];
  unsigned way = 0;
  while (way < kWays - 1 && set[way] != line)
    ++way;
  bool hit = set[way] == line;
  for (; way > 0; --way)
    set[way] = set[way - 1];
  set[0] = line;
  return hit;
}

void L1Cache::clear() { std::fill(tags.begin(), tags.end(), ~0ull); }

SharedCache::SharedCache(uint64_t bytes)
    : sets(powerOfTwoBelow(std::max<uint64_t>(1, bytes / kLineBytes / kWays))) {
  ways.reset(new Way[sets * kWays]);
  next.reset(new std::atomic<uint8_t>[sets]());
}

unsigned SharedCache::touch(uint64_t line, unsigned sectors, bool write) {
  uint64_t set = (line ^ line >> 17) & (sets - 1);
  Way *w = &ways[set * kWays];
  unsigned mark = write ? sectors << 4 | sectors : sectors;
  for (unsigned k = 0; k < kWays; ++k) {
    uint64_t tag = w[k].tag.load(std::memory_order_relaxed);
    if (tag >> 8 != line)
      continue;
    unsigned have = write ? (tag >> 4 & 15) : (tag & 15);
    unsigned fresh = sectors & ~have;
    if (fresh)
      w[k].tag.fetch_or(mark, std::memory_order_relaxed);
    return fresh;
  }
  unsigned victim = next[set].fetch_add(1, std::memory_order_relaxed) % kWays;
  w[victim].tag.store(line << 8 | mark, std::memory_order_relaxed);
  return sectors;
}

} // namespace flysim
