//===- Cache.cpp - tag-only caches ----------------------------------------===//

#include "observe/Cache.h"

#include <algorithm>
#include <new>

#include <sys/mman.h>

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

void SharedCache::Unmap::operator()(uint64_t *p) const { munmap(p, bytes); }

/// Zeros that are not from the heap, which clears what it has used before.
static uint64_t *mapZeros(size_t bytes) {
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    throw std::bad_alloc();
  return static_cast<uint64_t *>(p);
}

// A stride off a power of two: else the ways of a set would share a set of the host's cache.
SharedCache::SharedCache(uint64_t bytes)
    : sets(powerOfTwoBelow(std::max<uint64_t>(1, bytes / kLineBytes / kWays))), wayStride(sets + 8),
      size(kWays * wayStride * sizeof(uint64_t) + sets), ways(mapZeros(size), Unmap{size}),
      next(reinterpret_cast<uint8_t *>(ways.get() + kWays * wayStride)) {}

unsigned SharedCache::touch(uint64_t line, unsigned sectors, bool write) {
  uint64_t index = (line ^ line >> 17) & (sets - 1);
  ++line; // 0 is an empty way
  uint64_t *set = ways.get() + index;
  unsigned bits = write ? sectors << 4 | sectors : sectors;
  for (unsigned k = 0; k < kWays; ++k) {
    uint64_t &entry = set[k * wayStride];
    if (!entry)
      break; // and so are those behind it
    if (entry >> 8 != line)
      continue;
    unsigned before = static_cast<unsigned>(write ? entry >> 4 : entry) & 15;
    entry |= bits;
    return sectors & ~before;
  }
  set[next[index] * wayStride] = line << 8 | bits;
  next[index] = (next[index] + 1) % kWays;
  return sectors;
}

} // namespace flysim
