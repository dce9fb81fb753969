//===- Cache.cpp - tag-only caches ----------------------------------------===//

#include "observe/Cache.h"

#include <algorithm>
#include <new>

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
  memory.reset(static_cast<uint8_t *>(calloc(sets * kWays * sizeof(uint64_t) + 64, 1)));
  next.reset(static_cast<uint8_t *>(calloc(sets, 1)));
  if (!memory || !next)
    throw std::bad_alloc();
  ways = reinterpret_cast<uint64_t *>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
}

unsigned SharedCache::touch(uint64_t line, unsigned sectors, bool write) {
  uint64_t index = (line ^ line >> 17) & (sets - 1);
  ++line; // 0 is an empty way
  uint64_t *set = &ways[index * kWays];
  unsigned bits = write ? sectors << 4 | sectors : sectors;
  for (unsigned k = 0; k < kWays; ++k) {
    if (set[k] >> 8 != line)
      continue;
    unsigned before = static_cast<unsigned>(write ? set[k] >> 4 : set[k]) & 15;
    set[k] |= bits;
    return sectors & ~before;
  }
  set[next[index]] = line << 8 | bits;
  next[index] = (next[index] + 1) % kWays;
  return sectors;
}

} // namespace flysim
